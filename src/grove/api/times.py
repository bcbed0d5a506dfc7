"""Times on the wire are whole seconds."""

from datetime import datetime, timedelta


def ceil_second(instant: datetime) -> datetime:
    """Rounded up to a whole second: a delay that starts with this instant must never end early."""
    floor = instant.replace(microsecond=0)
    return floor if floor == instant else floor + timedelta(seconds=1)
