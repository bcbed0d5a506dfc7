"""Format times for the wire, where they are whole seconds."""

from datetime import datetime, timedelta


def ceil_second(instant: datetime) -> datetime:
    """Round up to a whole second, so that a delay that starts at this time never ends early."""
    floor = instant.replace(microsecond=0)
    return floor if floor == instant else floor + timedelta(seconds=1)


def wire_time(instant: datetime) -> str:
    """Return the time as Kubernetes writes it, without fractions of a second."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
