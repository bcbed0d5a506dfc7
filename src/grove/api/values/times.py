"""Times on the wire are whole seconds."""

from datetime import datetime, timedelta


def ceil_second(instant: datetime) -> datetime:
    """Rounded up to a whole second: a delay that starts with this instant must never end early."""
    floor = instant.replace(microsecond=0)
    return floor if floor == instant else floor + timedelta(seconds=1)


def wire_time(instant: datetime) -> str:
    """As Kubernetes writes it; parts of a second are dropped."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
