"""Rolling updates: which revision each replica runs, whose turn it is, and what its turn does. One file per level."""
