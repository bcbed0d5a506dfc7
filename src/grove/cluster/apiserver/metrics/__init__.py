"""Metrics of pods and nodes, and metrics that users feed."""
