"""Failed writes: how long each waits for its next try, in which words it is reported, and when it is forgotten."""

import pytest

from grove.api.types.meta import Uid
from grove.controller.failed_writes import FailedWrites
from grove.kube.api_errors import ApiError
from grove.planner.status.write_failures import WriteId
from tests.dsl import NOW, at

KEY, OTHER = Uid("set"), Uid("other")
POD = WriteId(verb="create", kind="Pod", resource="pods", namespace="default", name="a")
GANG = WriteId(verb="patch", kind="PodGang", resource="podgangs", namespace="default", name="g")
BROKEN = ApiError(500, "InternalError", "broken")


def book() -> FailedWrites:
    return FailedWrites(first=0.2, longest=30.0)


def test_a_write_waits_longer_after_each_failure_and_is_tried_once_more_when_a_minute_is_over() -> None:
    failed, now, pauses = book(), 0.0, []
    for _ in range(12):
        until = failed.record(KEY, POD, BROKEN, at(now))
        assert until == failed.held_until(KEY, POD)
        pauses.append(round((until - at(now)).total_seconds(), 1))
        now += pauses[-1]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 9.0, 30.0, 30.0, 30.0]


def test_a_server_that_asks_for_more_patience_gets_it() -> None:
    failed = book()
    failed.record(KEY, POD, ApiError(429, "TooManyRequests", "later", 90.0), NOW)
    assert failed.held_until(KEY, POD) == at(90)


def test_a_conflict_may_be_resolved_at_once_but_not_for_ever() -> None:
    failed, conflict = book(), ApiError(409, "Conflict", "it changed")
    held = []
    for _ in range(4):
        failed.record(KEY, GANG, conflict, NOW)
        held.append(failed.held_until(KEY, GANG) != NOW)
    assert held == [False, False, True, True]


def test_the_oldest_is_first_and_each_is_counted_by_its_reason() -> None:
    failed = book()
    failed.record(KEY, GANG, BROKEN, at(5))
    failed.record(KEY, POD, ApiError(403, "Forbidden", "no"), NOW)
    failed.record(OTHER, POD, BROKEN, at(9))
    assert [one.write for one in failed.of(KEY)] == [POD, GANG]
    assert failed.count_by_reason() == {"ServerError": 2, "WriteRejected": 1}


def test_what_succeeds_or_is_not_wanted_any_more_is_forgotten() -> None:
    failed = book()
    failed.record(KEY, GANG, BROKEN, NOW)
    failed.record(KEY, POD, BROKEN, NOW)
    failed.clear(KEY, GANG)
    assert [one.write for one in failed.of(KEY)] == [POD]
    assert not failed.keep_only(KEY, [GANG, POD])
    assert failed.keep_only(KEY, [GANG])
    assert (failed.of(KEY), failed.all(), failed.held_until(KEY, POD)) == ((), (), None)


@pytest.mark.parametrize(
    ("codes", "reported"),
    [
        ([500, 500, 503], 500),
        ([500, 503, 500, 503, 500, 503], 500),
        ([500, 403, 403], 500),
        ([500, 403, 403, 403], 403),
        ([500, 403, 403, 500, 403, 403], 500),
    ],
)
def test_another_answer_is_reported_when_it_stays(codes: list[int], reported: int) -> None:
    failed = book()
    for second, code in enumerate(codes):
        failed.record(KEY, POD, ApiError(code, "", f"words {second}"), at(second))
    (one,) = failed.of(KEY)
    assert one.code == reported
    assert (one.count, one.first_at, one.last_at) == (len(codes), NOW, at(len(codes) - 1))
    assert one.message == ("words 0" if reported == 500 else "words 3")


def test_a_failure_is_news_once_when_it_lasts() -> None:
    failed = book()
    failed.record(KEY, POD, BROKEN, NOW)
    assert failed.take_new_failures(KEY, at(59)) == ()
    assert [one.write for one in failed.take_new_failures(KEY, at(60))] == [POD]
    failed.record(KEY, POD, BROKEN, at(70))
    assert failed.take_new_failures(KEY, at(80)) == ()


def test_of_a_key_that_is_gone_nothing_is_kept() -> None:
    failed = book()
    failed.record(KEY, POD, BROKEN, NOW)
    assert failed.mark_tried(KEY)
    assert not failed.mark_tried(KEY)
    failed.forget(KEY)
    assert (failed.of(KEY), failed.is_tried(KEY)) == ((), False)
