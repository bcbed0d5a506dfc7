"""The small words of sentences."""

from datetime import timedelta

import pytest

from grove.planner.explain.text import format_when
from tests.dsl import NOW


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "now"),
        (0, "now"),
        (0.5, "(in 1 s)"),
        (598, "(in 599 s)"),
        (599, "(in 10m0s)"),
        (3598, "(in 59m59s)"),
        (3599, "(in 1h0m)"),
        (14399, "(in 4h0m)"),
    ],
)
def test_a_moment_is_told_with_how_long_it_is_until_then(seconds: float, words: str) -> None:
    assert format_when(NOW + timedelta(seconds=seconds), NOW).endswith(words)


def test_a_moment_of_another_day_has_its_date() -> None:
    evening = NOW.replace(hour=23, minute=0, second=0)
    assert format_when(evening + timedelta(minutes=30), evening) == "about 23:30:00 (in 30m1s)"
    tomorrow = evening + timedelta(hours=2)
    assert format_when(tomorrow, evening) == f"about {tomorrow:%Y-%m-%d} 01:00:00 (in 2h0m)"


def test_what_has_no_moment_is_now() -> None:
    assert format_when(None, NOW) == "now"
