"""The command line: wiring and words for people. No decision is made here."""
