"""Scenario files of `grove sim`: parse, run on virtual time, and narrate."""
