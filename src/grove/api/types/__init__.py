"""Typed Kubernetes objects: the kinds of Grove, and views of the built-in kinds that Grove reads."""
