"""`grove logs` of objects with several pods."""
