"""`grove up`: the embedded cluster in the foreground."""
