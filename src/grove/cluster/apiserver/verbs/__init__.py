"""The verbs of the API: one file each."""
