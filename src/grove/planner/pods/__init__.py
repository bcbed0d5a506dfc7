"""Pods of a clique: which to create and delete, their names, their manifests, and back-off after rejected creates."""
