"""Strategies per kind: defaults, validation, and what an update may change."""
