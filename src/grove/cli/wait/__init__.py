"""`grove wait`: hold a pod until the PodCliques that it starts after have enough ready pods."""
