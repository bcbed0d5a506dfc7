"""Rehearsals of a change for `grove plan`: import a cluster, run the operator in a sandbox, predict the result."""
