"""What may be set from outside, with its defaults."""

from datetime import timedelta

import msgspec

from grove.api.schema.limits import OBJECTS_PER_SET
from grove.backends.native import DEFAULT_SCHEDULER


class MassOutageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """While more than `threshold` percent of the nodes are not ready nothing is torn down, for `max_hold` at most."""

    is_enabled: bool = True
    threshold: int = 55
    max_hold: timedelta = timedelta(minutes=30)


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
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
    # A new gang whose topology is not defined has no pods until it is.
    waits_for_topology: bool = False
    mass_outage: MassOutageOptions = MassOutageOptions()
    # Objects that one set may have.
    objects_per_set: int = OBJECTS_PER_SET
    # After an error that is not the set's fault.
    first_backoff_seconds: float = 0.2
    longest_backoff_seconds: float = 30.0
