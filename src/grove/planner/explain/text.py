"""Build and format the explanations that `grove why` prints. `why.py` decides what they report."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from grove.api.types.pod import Pod
from grove.api.values.message_text import to_line
from grove.planner.actions import PlanStruct

LISTED_NAMES = 3
# The longest back-off is shorter.
LONG_SECONDS = 600


class ExplanationKind(StrEnum):
    CAUSE = "cause"
    # What follows from the cause.
    EFFECT = "effect"
    NEXT = "next"
    NOTE = "note"


class Explanation(PlanStruct):
    """One sentence about one object. `until`: when it could change, if that is known.

    Example:
        for sentence in client.why("chat"):
            print(sentence.kind, sentence.reason, sentence.text)
    """

    about: str
    kind: ExplanationKind
    reason: str
    text: str
    until: datetime | None = None


def cause(about: str, reason: str, text: str) -> Explanation:
    return Explanation(about=about, kind=ExplanationKind.CAUSE, reason=reason, text=_clean(text))


def effect(about: str, reason: str, text: str) -> Explanation:
    return Explanation(about=about, kind=ExplanationKind.EFFECT, reason=reason, text=_clean(text))


def as_effect(explanation: Explanation) -> Explanation:
    """Return a cause as what follows from another cause; other kinds as they are."""
    is_cause = explanation.kind is ExplanationKind.CAUSE
    return msgspec.structs.replace(explanation, kind=ExplanationKind.EFFECT) if is_cause else explanation


def next_step(about: str, text: str, *, reason: str = "", until: datetime | None = None) -> Explanation:
    return Explanation(about=about, kind=ExplanationKind.NEXT, reason=reason, text=_clean(text), until=until)


def note(about: str, text: str, *, until: datetime | None = None) -> Explanation:
    return Explanation(about=about, kind=ExplanationKind.NOTE, reason="", text=_clean(text), until=until)


def _clean(text: str) -> str:
    """Return one line, without a doubled period: messages of other components may contain anything."""
    text = to_line(text)
    return text[:-1] if text.endswith("..") else text


def order_by_kind(explanations: Iterable[Explanation]) -> tuple[Explanation, ...]:
    """Return causes first, then what follows from them, then what happens next, then notes; each text once."""
    order = tuple(ExplanationKind)
    return tuple(sorted(dict.fromkeys(explanations), key=lambda one: order.index(one.kind)))


def count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def verb(number: int, one: str, many: str) -> str:
    return one if number == 1 else many


def subject(about: str, pods: Sequence[Pod]) -> str:
    """Return `2 pods of podgang/p-0`, or `pod/NAME` if `about` is a pod."""
    return about if _is_about_pod(about) else f"{count_noun(len(pods), 'pod')} of {about}"


def names_in_parentheses(about: str, pods: Sequence[Pod]) -> str:
    return "" if _is_about_pod(about) else f" ({join_names(pods)})"


def join_names(pods: Sequence[Pod]) -> str:
    return join_words([pod.metadata.name for pod in pods])


def join_words(words: Sequence[str]) -> str:
    """Return the first words, and how many more there are."""
    shown = ", ".join(words[:LISTED_NAMES])
    return shown if len(words) <= LISTED_NAMES else f"{shown} and {len(words) - LISTED_NAMES} more"


def _is_about_pod(about: str) -> bool:
    return about.startswith("pod/")


def format_when(instant: datetime | None, now: datetime) -> str:
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
