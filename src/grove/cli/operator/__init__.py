"""`grove operator`: the operator in a process of its own."""
