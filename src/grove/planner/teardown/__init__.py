"""Everything that deletes: set deletion, scale-in, gang termination, and the recreation of a replica."""
