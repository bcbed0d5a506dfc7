"""Build and format the explanations that `grove why` prints. `why.py` decides what they report."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from grove.api.types.pod import Pod
from grove.planner.actions import PlanStruct

LISTED_NAMES = 3
# The longest back-off is shorter.
LONG_SECONDS = 600


class ExplanationKind(StrEnum):
    CAUSE = "cause"
    NEXT = "next"
    NOTE = "note"


class Explanation(PlanStruct):
    """One sentence about one object. `until`: when it could change, if that is known."""

    about: str
    kind: ExplanationKind
    reason: str
    text: str
    until: datetime | None = None


def cause(about: str, reason: str, text: str) -> Explanation:
    return Explanation(about=about, kind=ExplanationKind.CAUSE, reason=reason, text=_ended(text))


def next_step(about: str, text: str, *, reason: str = "", until: datetime | None = None) -> Explanation:
    return Explanation(about=about, kind=ExplanationKind.NEXT, reason=reason, text=_ended(text), until=until)


def note(about: str, text: str) -> Explanation:
    return Explanation(about=about, kind=ExplanationKind.NOTE, reason="", text=_ended(text))


def _ended(text: str) -> str:
    """Drop a doubled period: a message of another component may end with one already."""
    return text[:-1] if text.endswith("..") else text


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def verb(number: int, one: str, many: str) -> str:
    return one if number == 1 else many


def subject(about: str, pods: Sequence[Pod]) -> str:
    """Return `2 pods of podgang/p-0`, or `pod/NAME` if `about` is a pod."""
    return about if _is_about_pod(about) else f"{counted(len(pods), 'pod')} of {about}"


def listed(about: str, pods: Sequence[Pod]) -> str:
    return "" if _is_about_pod(about) else f" ({named(pods)})"


def named(pods: Sequence[Pod]) -> str:
    names = ", ".join(pod.metadata.name for pod in pods[:LISTED_NAMES])
    return names if len(pods) <= LISTED_NAMES else f"{names} and {len(pods) - LISTED_NAMES} more"


def _is_about_pod(about: str) -> bool:
    return about.startswith("pod/")


def when(instant: datetime | None, now: datetime) -> str:
    if instant is None or instant <= now:
        return "now"
    seconds = int((instant - now).total_seconds()) + 1
    day = "" if instant.date() == now.date() else f"{instant:%Y-%m-%d} "
    return f"about {day}{instant:%H:%M:%S} (in {_span(seconds)})"


def _span(seconds: int) -> str:
    """Return short times in seconds (`30 s`), long ones as `3h59m`."""
    if seconds < LONG_SECONDS:
        return f"{seconds} s"
    minutes = seconds // 60
    return f"{minutes // 60}h{minutes % 60}m" if minutes >= 60 else f"{minutes}m{seconds % 60}s"
