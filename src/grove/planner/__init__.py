"""Every decision about a set: pure functions from what was observed to what shall be done, each with its reason."""
