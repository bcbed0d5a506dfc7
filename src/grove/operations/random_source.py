"""The only source of randomness: commands that run in real time create a generator here and pass it down."""

import secrets
from random import Random


def fresh_random() -> Random:
    """Return a generator with a new seed. For reproducible runs, create one from a fixed seed instead."""
    return Random(secrets.randbits(64))


def new_token() -> str:
    """Return a new random bearer token."""
    return secrets.token_urlsafe(32)
