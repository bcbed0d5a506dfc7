"""Fold gangs that wait for the same reason, so that thousands of pods are explained in a few lines."""

import re
from collections.abc import Sequence

from grove.planner.explain.text import Explanation, count_noun, join_words, note, verb

# Names of objects, numbers of pods, and times differ between gangs that wait for the same reason.
_VARYING = re.compile(r"[\w./]+(?:-[\w.]+)+|\d\d:\d\d:\d\d \(in [^)]*\)|\b\d+ (?:of \d+ )?(?:pods?|cliques?)\b")


def fold(gangs: Sequence[tuple[str, tuple[Explanation, ...]]], about: str, limit: int) -> list[Explanation]:
    """Return the explanations of one gang per reason, each with the names of the others; at most `limit` reasons."""
    alike: dict[tuple[str, ...], list[tuple[str, tuple[Explanation, ...]]]] = {}
    for name, explanations in gangs:
        key = tuple(_VARYING.sub("#", one.text) for one in explanations if one.kind == "cause")
        alike.setdefault(key, []).append((name, explanations))
    folded: list[Explanation] = []
    for (_, first), *others in list(alike.values())[:limit]:
        folded += first
        if others:
            names = join_words([name for name, _ in others])
            waits = verb(len(others), "waits", "wait")
            folded.append(note(about, f"{count_noun(len(others), 'more gang')} {waits} for the same reason: {names}."))
    rest = sum(len(some) for some in list(alike.values())[limit:])
    if rest:
        folded.append(note(about, f"{count_noun(rest, 'more gang')} {verb(rest, 'is', 'are')} not complete."))
    return folded
