"""Commands that print what an installation on a cluster needs."""
