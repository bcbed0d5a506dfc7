"""Explain one object: what it waits for, and what happens next."""
