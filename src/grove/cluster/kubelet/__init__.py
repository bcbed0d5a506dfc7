"""Who runs bound pods: `cluster/kubelet/simulated/simulated_kubelet.py` only says so,
`cluster/kubelet/process/process_kubelet.py` runs them as processes of this machine."""
