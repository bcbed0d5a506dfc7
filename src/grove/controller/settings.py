"""What may be set from outside, with its defaults."""

import msgspec

from grove.backends.native import DEFAULT_SCHEDULER


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    # Sets visited at the same time.
    workers: int = 8
    # Chains of one set carried out at the same time; the write limiter bounds the requests in flight.
    chains_at_once: int = 64
    # A pass ends after this long or this many writes and plans again, so that nothing new waits behind it.
    pass_seconds: float = 1.0
    pass_writes: int = 1000
    # A status that only counts waits this long for the next change.
    status_settle_seconds: float = 1.0
    # Schedulers that sets may choose, and the one of a set that names none.
    schedulers: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    default_scheduler: str = DEFAULT_SCHEDULER
    # Whether topology constraints are carried out.
    is_topology_aware: bool = True
    # While most nodes are not ready nothing is torn down.
    holds_teardowns_in_outage: bool = True
    # After an error that is not the set's fault.
    first_backoff_seconds: float = 0.2
    longest_backoff_seconds: float = 30.0
