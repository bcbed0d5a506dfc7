"""Lease: the current leader and its lease duration. The times are for users; candidates do not compare clocks."""

from datetime import datetime

from grove.api.types.meta import ObjectMeta, WireStruct


class LeaseSpec(WireStruct):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int = 0


class Lease(WireStruct):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


def micro_time(instant: datetime) -> str:
    """Return the time as a Kubernetes MicroTime."""
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
