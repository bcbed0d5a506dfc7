"""Who runs bound pods: `simulated.py` only says so, `process.py` runs them as processes of this machine."""
