"""How long ago, for people."""

from datetime import UTC, datetime, timedelta

import pytest

from grove.cluster.apiserver.printers.human_duration import format_age, human_duration

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (2 * MINUTE, "2m"), (2 * MINUTE + 1, "2m1s"),
        (10 * MINUTE - 1, "9m59s"), (10 * MINUTE, "10m"), (3 * HOUR - 1, "179m"), (3 * HOUR, "3h"),
        (8 * HOUR - 1, "7h59m"), (8 * HOUR, "8h"), (2 * DAY - 1, "47h"), (2 * DAY, "2d"), (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"), (2 * YEAR - 1, "729d"), (2 * YEAR, "2y"), (8 * YEAR - 1, "7y364d"), (8 * YEAR, "8y"),
    ],
)  # fmt: skip
def test_the_second_unit_is_told_only_while_it_matters(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def test_what_is_no_time_has_no_age() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert format_age("2025-12-31T23:59:00Z", now + timedelta(seconds=1)) == "61s"
    assert [format_age(value, now) for value in (None, "", "soon", 7, "2026-01-01")] == ["<unknown>"] * 5
