"""The wire: typed Kubernetes objects of Grove, their names, labels, defaults and rules. No I/O."""
