"""Ports for programs that are told where to listen before they do."""

import os
import socket
from itertools import count

from tests.kube.controlplane.plane import LOOPBACK

# Below those that the system gives out by itself: whoever asks it for any port is not given ours meanwhile. And above
# those of control planes.
_LOWEST = 30_000
_SPAN = 2_700
# Tests run side by side: each process looks in another place.
_offsets = count(os.getpid() * 97)


def free_port() -> int:
    """One that nobody has, and that nobody is given before the program that it is for takes it."""
    while True:
        port = _LOWEST + next(_offsets) % _SPAN
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
