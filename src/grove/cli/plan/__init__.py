"""`grove plan`: the predicted effect of a change."""
