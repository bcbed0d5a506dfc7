"""What processes that tests start have in common."""

import ctypes
import signal

# Looked up before a fork: a new process must not wait for a lock that a thread of the old one held.
_SYSTEM = ctypes.CDLL(None)
_PARENT_DEATH_SIGNAL = 1


def die_with_parent() -> None:
    """Have this process killed as soon as the one that started it ends, also when that one is killed itself."""
    _SYSTEM.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
