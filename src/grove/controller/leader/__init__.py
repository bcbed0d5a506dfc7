"""Leader election: the Lease, and the fence that stops writes when it is lost."""
