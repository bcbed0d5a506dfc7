"""The embedded gang scheduler."""
