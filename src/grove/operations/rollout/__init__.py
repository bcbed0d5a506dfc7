"""Undo and restart the updates of sets, and compare their revisions."""
