"""Validation of Grove's kinds: one file per kind, and one per topic of the PodCliqueSet. Pure; returns all errors.

Each rule yields field errors that say what to do. Defaults are in `../defaulting.py`, the webhook is in `admission/`.
"""
