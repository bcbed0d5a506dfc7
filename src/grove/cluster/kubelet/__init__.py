"""Kubelets: `simulated/` reports pods as running, `process/` runs them as local processes."""
