"""Prefixes of the lines of pods."""

from grove.cli.common.output import Tone
from grove.cli.common.pod_prefix import HUES, PodPrefixes, strip_controls


def test_a_pod_and_its_successor_have_the_same_color_and_others_another() -> None:
    prefixes = PodPrefixes()
    cells = [prefixes.cell(name, host) for name, host in [("a-0-x", "a-0"), ("a-1-longer", "a-1"), ("a-0-y", "a-0")]]
    assert [cell.tone for cell in cells] == [HUES[0], HUES[1], HUES[0]]
    assert [cell.text for cell in cells] == ["a-0-x", "a-1-longer", "a-0-y     "]
    assert len(set(HUES)) == 6
    assert Tone.BAD not in HUES


def test_a_program_cannot_move_the_cursor() -> None:
    assert strip_controls("\x1b[2Jred\x1b[31m\tx\x07") == "red\tx"
