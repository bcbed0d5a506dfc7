"""The rules of our kinds: one file per kind, and one per theme of the PodCliqueSet. Pure; all errors at once.

Each rule yields field errors that say what to do. Not here: defaults (`../defaulting.py`), and who asks (`admission/`).
"""
