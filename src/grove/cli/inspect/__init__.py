"""`grove describe` and `grove events`: details and events of objects."""
