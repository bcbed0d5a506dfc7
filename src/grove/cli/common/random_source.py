"""Where chance enters the program: commands that run in real time draw a seed here, once, and hand it down."""

import secrets
from random import Random


def fresh_random() -> Random:
    """Different in every run; whoever wants the same run again gives a seed instead."""
    return Random(secrets.randbits(64))


def new_token() -> str:
    """A bearer token that nobody can guess."""
    return secrets.token_urlsafe(32)
