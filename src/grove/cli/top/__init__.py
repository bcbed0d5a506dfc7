"""`grove top`: resources of nodes and racks, and who holds them."""
