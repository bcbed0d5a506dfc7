"""Grove's Kubernetes API: types, names, labels, defaults and validation. No I/O."""
