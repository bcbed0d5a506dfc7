"""Deletion: of sets, on scale-in, by gang termination, and for the recreation of a replica."""
