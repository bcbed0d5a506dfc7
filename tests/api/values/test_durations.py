"""Durations are read and written as Go does."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grove.api.values.durations import DurationError, format_duration, parse_duration
from grove.errors import UserError


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        pytest.param("0", timedelta(0), id="zero needs no unit"),
        pytest.param("0s", timedelta(0), id="zero may have one"),
        pytest.param("4h", timedelta(hours=4), id="hours"),
        pytest.param("1h30m", timedelta(minutes=90), id="several parts"),
        pytest.param("1m1h", timedelta(minutes=61), id="in any order"),
        pytest.param("1.5s", timedelta(seconds=1.5), id="a fraction"),
        pytest.param(".5m", timedelta(seconds=30), id="a fraction without a whole"),
        pytest.param("1.h", timedelta(hours=1), id="a point without a fraction"),
        pytest.param("-2s", timedelta(seconds=-2), id="negative"),
        pytest.param("+2s", timedelta(seconds=2), id="with a plus"),
        pytest.param("300ms", timedelta(milliseconds=300), id="milliseconds"),
        pytest.param("7us", timedelta(microseconds=7), id="microseconds"),
        pytest.param("7µs", timedelta(microseconds=7), id="microseconds with the micro sign"),
        pytest.param("7μs", timedelta(microseconds=7), id="microseconds with the greek letter"),
        pytest.param("1000ns", timedelta(microseconds=1), id="a whole microsecond in nanoseconds"),
        pytest.param("999ns", timedelta(microseconds=1), id="less is rounded up: a delay never ends early"),
        pytest.param("1001ns", timedelta(microseconds=2), id="more is rounded up"),
        pytest.param("2562047h47m16s", timedelta(hours=2562047, minutes=47, seconds=16), id="the longest"),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text", ["", "5", "h", "-", "+", ".s", "4 h", "1d", "1h30", "1H", "--1s", "1s ", "0x1s", "1,5s"]
)
def test_what_is_not_a_duration_is_refused_with_what_to_write_instead(text: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert isinstance(caught.value, UserError)
    assert str(caught.value) == f'"{text}" is not a duration: write numbers with units, such as 30s, 5m or 1h30m'


def test_a_duration_longer_than_go_can_hold_is_refused() -> None:
    with pytest.raises(DurationError, match="too long"):
        parse_duration("2562047h47m17s")


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(hours=4), "4h0m0s"),
        (timedelta(minutes=90), "1h30m0s"),
        (timedelta(seconds=60), "1m0s"),
        (timedelta(seconds=59), "59s"),
        (timedelta(seconds=1), "1s"),
        (timedelta(milliseconds=999), "999ms"),
        (timedelta(microseconds=1500), "1.5ms"),
        (timedelta(microseconds=1000), "1ms"),
        (timedelta(microseconds=999), "999µs"),
        (timedelta(seconds=1, microseconds=1), "1.000001s"),
        (timedelta(seconds=-90), "-1m30s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


@settings(deadline=None)
@given(st.timedeltas(min_value=timedelta(days=-100000), max_value=timedelta(days=100000)))
def test_what_is_written_is_read_back_the_same(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
