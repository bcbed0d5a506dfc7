"""Status of sets, groups, cliques and gangs: availability, breaches, conditions, and the patches that write them."""
