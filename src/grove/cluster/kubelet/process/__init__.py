"""A kubelet that runs containers as local processes."""
