"""`grove why`: the explanation of one object."""
