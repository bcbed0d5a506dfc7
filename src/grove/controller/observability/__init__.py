"""Observability of the operator: metrics, events, log lines, probes and profiles."""
