"""Build and format the explanations that `grove why` prints. `why.py` decides what they report."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from grove.api.types.pod import Pod
from grove.api.values.message_text import to_line
from grove.planner.actions import PlanStruct

LISTED_NAMES = 3
# A cause is one line. Messages of other components may be longer.
LONGEST_TEXT = 120
EARLIEST_COLON = 90
_CLAUSE_END = re.compile(r"[.;:] (?=\S)")
_COMMAND = re.compile(r": (?=(?:grove|kubectl) )")
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
    # Lines below the text: the rest of a long sentence, names of pods, or a command to paste.
    details: tuple[str, ...] = ()
    until: datetime | None = None


def cause(about: str, reason: str, text: str, *, detail: str = "") -> Explanation:
    return _build(about, ExplanationKind.CAUSE, text, reason=reason, detail=detail)


def effect(about: str, reason: str, text: str) -> Explanation:
    return _build(about, ExplanationKind.EFFECT, text, reason=reason)


def as_effect(explanation: Explanation) -> Explanation:
    """Return a cause as what follows from another cause; other kinds as they are."""
    is_cause = explanation.kind is ExplanationKind.CAUSE
    return msgspec.structs.replace(explanation, kind=ExplanationKind.EFFECT) if is_cause else explanation


def next_step(about: str, text: str, *, reason: str = "", until: datetime | None = None) -> Explanation:
    return _build(about, ExplanationKind.NEXT, text, reason=reason, until=until)


def note(about: str, text: str, *, detail: str = "", until: datetime | None = None) -> Explanation:
    return _build(about, ExplanationKind.NOTE, text, detail=detail, until=until)


def _build(
    about: str, kind: ExplanationKind, text: str, *, reason: str = "", detail: str = "", until: datetime | None = None
) -> Explanation:
    first, rest = _split(_clean(text), kind)
    details = tuple(part for part in (rest, _clean(detail)) if part)
    return Explanation(about=about, kind=kind, reason=reason, text=first, details=details, until=until)


def _split(text: str, kind: ExplanationKind) -> tuple[str, str]:
    """Return the first line and the rest of a long text. A cause is split after a clause, a next step at a command."""
    if len(text) <= LONGEST_TEXT:
        return text, ""
    if kind is ExplanationKind.NEXT and (command := _COMMAND.search(text)):
        return text[: command.start() + 1], text[command.end() :].removesuffix(".")
    found = list(_CLAUSE_END.finditer(text)) if kind is ExplanationKind.CAUSE else []
    ends = [end for end in found if _may_end(text[: end.start()], end[0])]
    if not ends:
        return text, ""
    short = [end for end in ends if end.start() < LONGEST_TEXT] or ends[:1]
    # Of those, the end of a clause is better than a colon.
    end = max(short, key=lambda one: (one[0] != ": ", one.start())).start()
    rest = text[end + 2 :]
    return f"{text[:end]}.", rest[0].upper() + rest[1:]


def _may_end(text: str, mark: str) -> bool:
    """Return whether a line may end here: not in parentheses, and not at an early colon, because a cause follows."""
    return text.count("(") == text.count(")") and (mark != ": " or len(text) >= EARLIEST_COLON)


def _clean(text: str) -> str:
    """Return one line, without a doubled period: messages of other components may contain anything."""
    text = to_line(text)
    return text[:-1] if text.endswith("..") else text


def has_command(explanation: Explanation) -> bool:
    """Return whether the user needs a running cluster to follow it, because it contains a command."""
    return bool(_COMMAND.search(" ".join((explanation.text, *explanation.details))))


def order_by_kind(explanations: Iterable[Explanation]) -> tuple[Explanation, ...]:
    """Return causes first, then what follows from them, then what happens next, then notes; each text once."""
    order = tuple(ExplanationKind)
    return tuple(sorted(dict.fromkeys(explanations), key=lambda one: order.index(one.kind)))


def namespace_flag(namespace: str) -> str:
    """Return the option of a command for an object in this namespace, with a leading space; empty for `default`."""
    return f" -n {namespace}" if namespace not in ("", "default") else ""


def count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def verb(number: int, one: str, many: str) -> str:
    return one if number == 1 else many


def subject(about: str, pods: Sequence[Pod]) -> str:
    """Return `2 pods of podgang/p-0`, or `pod/NAME` if `about` is a pod."""
    return about if _is_about_pod(about) else f"{count_noun(len(pods), 'pod')} of {about}"


def list_pods(about: str, pods: Sequence[Pod]) -> str:
    """Return `Pods: a, b, c and 4 more`, as a detail; empty if `about` is a pod."""
    return "" if _is_about_pod(about) else f"{verb(len(pods), 'Pod', 'Pods')}: {join_names(pods)}."


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
