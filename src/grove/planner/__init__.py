"""Decisions about a set: pure functions from what was observed to a plan, each decision with its reason."""
