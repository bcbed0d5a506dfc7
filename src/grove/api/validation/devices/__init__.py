"""Validation of devices: shared resource claims, and NVLink domains."""
