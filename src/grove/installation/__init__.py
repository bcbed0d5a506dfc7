"""What stands in a cluster that Grove is installed in, as objects to apply. Pure: applying them is not here."""
