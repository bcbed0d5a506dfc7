"""Prefixes that tell the lines of several pods apart."""

import re

from grove.cli.common.output import Cell, Tone

HUES = (Tone.FIRST_HUE, Tone.SECOND_HUE, Tone.THIRD_HUE, Tone.FOURTH_HUE, Tone.FIFTH_HUE, Tone.SIXTH_HUE)
# Escape sequences and control characters except the tab: they would move the cursor or change colors.
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.?|[\x00-\x08\x0b-\x1f\x7f]")


class PodPrefixes:
    """Prefixes of pod lines: as wide as the widest so far, with one color per host and its successors."""

    def __init__(self) -> None:
        self._width = 0
        self._hues: dict[str, Tone] = {}

    def cell(self, name: str, host: str) -> Cell:
        """Return the prefix of a pod. `host` is the hostname, which its successors have as well."""
        self._width = max(self._width, len(name))
        hue = self._hues.setdefault(host, HUES[len(self._hues) % len(HUES)])
        return Cell(name.ljust(self._width), hue)


def strip_controls(text: str) -> str:
    """Return a text of a program that is safe to print on a terminal."""
    return _CONTROLS.sub("", text)
