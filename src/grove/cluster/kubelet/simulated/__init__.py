"""A kubelet that starts no process: pods become ready and end as their annotations say."""
