"""Options of the controller, with their defaults."""

from datetime import timedelta

import msgspec

from grove.api.schema.limits import OBJECTS_PER_SET
from grove.backends.native import DEFAULT_SCHEDULER


class MassOutageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of mass outages: while more than `threshold` percent of the nodes are not ready, no gang is terminated.

    The hold lasts for `max_hold` at most.
    """

    is_enabled: bool = True
    threshold: int = 55
    max_hold: timedelta = timedelta(minutes=30)


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    # Only sets in these namespaces; empty: all.
    watch_namespaces: tuple[str, ...] = ()
    # Sets that are reconciled concurrently.
    workers: int = 8
    # Chains of one set that are executed concurrently; the write limiter bounds the requests in flight.
    chains_at_once: int = 64
    # A reconcile stops after this time or this many writes and plans again, so that newer changes do not wait for it.
    pass_seconds: float = 1.0
    pass_writes: int = 1000
    # A status in which only counts changed waits this long for the next change.
    status_settle_seconds: float = 1.0
    # Schedulers that sets may use, and the default.
    schedulers: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    default_scheduler: str = DEFAULT_SCHEDULER
    # Whether topology constraints are enforced.
    is_topology_aware: bool = True
    # Create no pods for a new gang until its topology is defined.
    waits_for_topology: bool = False
    mass_outage: MassOutageOptions = MassOutageOptions()
    # The image of the init container that waits for other cliques; "": not known.
    init_image: str = ""
    # The most objects that one set may have.
    objects_per_set: int = OBJECTS_PER_SET
    # Backoff after an API error.
    first_backoff_seconds: float = 0.2
    longest_backoff_seconds: float = 30.0
