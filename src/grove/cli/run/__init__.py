"""`grove run`: sets from start to completion on a private cluster."""
