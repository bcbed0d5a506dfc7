"""The embedded control plane: a Kubernetes API without sockets, its controllers, scheduler and kubelets."""
