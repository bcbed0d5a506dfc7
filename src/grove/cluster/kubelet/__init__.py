"""Who runs bound pods: `simulated.py` only says so."""
