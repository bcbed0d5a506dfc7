"""Structural schemas of custom resources: validation, pruning, defaulting and CEL rules."""
