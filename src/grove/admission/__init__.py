"""Admission: defaults and validation of a write before an API server stores it."""
