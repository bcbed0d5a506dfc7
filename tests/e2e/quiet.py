"""Has nothing happened for a while? A pod may wait for ever, so that some rests can only be told by silence."""

from grove.clock import Clock

# As many as a machine makes that has nothing else to do. On a busy one a look takes longer, and so does all else.
LOOKS_PER_SECOND = 6


class Quiet:
    """For how long a scene has looked the same: in seconds, and in looks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: object = None
        self._since = clock.monotonic()
        self._looks = 0

    def has_lasted(self, seen: object, seconds: float) -> bool:
        """After one more look, at which `seen` was seen."""
        now = self._clock.monotonic()
        if seen != self._seen:
            self._seen, self._since, self._looks = seen, now, 0
        self._looks += 1
        return now - self._since > seconds and self._looks > seconds * LOOKS_PER_SECOND
