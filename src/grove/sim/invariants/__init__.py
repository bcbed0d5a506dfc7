"""Safety rules from the specification, checked after every write of a simulation."""
