"""Rolling updates: the revision of each replica, the replica that is updated now, and its steps. One file per level."""
