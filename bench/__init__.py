"""Measurements: ratios and figures of one run on one machine, printed as a table. Never a test."""
