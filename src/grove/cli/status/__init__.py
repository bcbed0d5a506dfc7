"""`grove status`: sets as trees, once or live."""
