"""Which statuses are written now, and which wait for the next change."""

from datetime import timedelta

import msgspec
import pytest

from grove.api.resources import PODCLIQUES
from grove.api.types.meta import Uid
from grove.controller.status_debounce import COUNTS_PER_SECOND, TRANSITION_PATIENCE, StatusDebouncer
from grove.planner.actions import WHOLE_SET, StatusPriority, StatusWrite
from tests.dsl import NOW, at

SET, OTHER = Uid("set"), Uid("other")


def status(uid: str, *, urgent: bool = False, ready: int = 1, part: int = 0) -> StatusWrite:
    return StatusWrite(
        resource=PODCLIQUES,
        namespace="default",
        name=uid,
        uid=Uid(uid),
        resource_version="1",
        patch={"readyReplicas": ready},
        priority=StatusPriority.TRANSITION if urgent else StatusPriority.COUNTS,
        replica_index=part,
    )


def pacer() -> StatusDebouncer:
    return StatusDebouncer(timedelta(seconds=1))


def test_urgent_statuses_are_written_at_once_and_others_wait() -> None:
    one = pacer()
    assert one.choose(SET, [status("a", urgent=True), status("b")], NOW) == [status("a", urgent=True)]
    assert one.requeue_at(SET) == at(1)


@pytest.mark.parametrize(("seconds", "is_written"), [(0.999, False), (1.0, True), (1.001, True)])
def test_a_status_waits_for_one_second_at_most(seconds: float, is_written: bool) -> None:
    one = pacer()
    one.choose(SET, [status("a", ready=1)], NOW)
    latest = status("a", ready=2)
    assert one.choose(SET, [latest], at(seconds)) == ([latest] if is_written else [])


def test_the_wait_counts_from_the_first_change() -> None:
    one = pacer()
    for tenth in range(10):
        assert one.choose(SET, [status("a", ready=tenth)], at(tenth / 10)) == []
        assert one.requeue_at(SET) == at(1)
    assert one.choose(SET, [status("a", ready=10)], at(1)) == [status("a", ready=10)]
    assert one.requeue_at(SET) is None


def test_each_status_waits_for_itself() -> None:
    one = pacer()
    one.choose(SET, [status("a")], NOW)
    one.choose(SET, [status("a"), status("b")], at(0.5))
    assert one.choose(SET, [status("a"), status("b")], at(1)) == [status("a")]
    assert one.requeue_at(SET) == at(1.5)


def test_a_status_that_needs_no_write_any_more_is_forgotten() -> None:
    one = pacer()
    one.choose(SET, [status("a")], NOW)
    assert one.choose(SET, [], at(0.5)) == []
    assert one.requeue_at(SET) is None
    assert one.choose(SET, [status("a")], at(1)) == []
    assert one.requeue_at(SET) == at(2)


def test_one_that_becomes_urgent_waits_no_longer() -> None:
    one = pacer()
    one.choose(SET, [status("a")], NOW)
    assert one.choose(SET, [status("a", urgent=True)], at(0.1)) == [status("a", urgent=True)]
    assert one.requeue_at(SET) is None


def test_sets_do_not_share_their_waits() -> None:
    one = pacer()
    one.choose(SET, [status("a")], NOW)
    one.choose(OTHER, [status("a")], at(0.5))
    assert (one.requeue_at(SET), one.requeue_at(OTHER)) == (at(1), at(1.5))
    one.forget(SET)
    assert (one.requeue_at(SET), one.requeue_at(OTHER)) == (None, at(1.5))


def test_many_counts_wait_longer_than_a_few() -> None:
    one = pacer()
    statuses = [status(str(number)) for number in range(5 * COUNTS_PER_SECOND)]
    assert one.choose(SET, statuses, NOW) == []
    assert one.requeue_at(SET) == NOW + timedelta(seconds=5)
    assert one.choose(SET, statuses, NOW + timedelta(seconds=4)) == []
    assert one.choose(SET, statuses, NOW + timedelta(seconds=5)) == statuses


def test_good_news_waits_while_most_of_a_large_set_is_under_way() -> None:
    one = pacer()
    counts = [status(str(number)) for number in range(COUNTS_PER_SECOND + 1)]
    news = status("news", urgent=True)
    assert one.choose(SET, [*counts, news], NOW) == []
    assert one.choose(SET, [*counts, news], NOW + timedelta(seconds=0.5)) == []
    assert one.choose(SET, [*counts[:-1], news], NOW + timedelta(seconds=0.6)) == [news]


def test_no_news_waits_longer_than_its_patience() -> None:
    one = pacer()
    counts = [status(str(number)) for number in range(100 * COUNTS_PER_SECOND)]
    news = status("news", urgent=True)
    one.choose(SET, [*counts, news], NOW)
    assert one.requeue_at(SET) == NOW + TRANSITION_PATIENCE
    assert one.choose(SET, [*counts, news], NOW + TRANSITION_PATIENCE) == [news]


def test_the_status_of_the_set_itself_waits_a_second_at_most() -> None:
    one = pacer()
    counts = [status(str(number)) for number in range(5 * COUNTS_PER_SECOND)]
    own = status("own", part=WHOLE_SET)
    assert one.choose(SET, [*counts, own], NOW) == []
    assert one.requeue_at(SET) == at(1)
    assert one.choose(SET, [*counts, own], at(1)) == [own]


def test_a_fact_never_waits() -> None:
    one = pacer()
    counts = [status(str(number)) for number in range(5 * COUNTS_PER_SECOND)]
    fact = msgspec.structs.replace(status("fact"), priority=StatusPriority.DURABLE)
    assert one.choose(SET, [*counts, fact], NOW) == [fact]


def test_a_status_whose_write_did_not_come_through_has_waited_already() -> None:
    one = pacer()
    one.choose(SET, [status("a"), status("b")], NOW)
    assert one.choose(SET, [status("a"), status("b")], at(1)) == [status("a"), status("b")]
    one.mark_written(SET, [Uid("a")])
    again = [status("a", ready=2), status("b")]
    assert one.choose(SET, again, at(1.1)) == [status("b")]
    assert one.requeue_at(SET) == at(2.1)


def test_what_must_not_be_cut_off_is_written_first() -> None:
    one = pacer()
    count, news, own = status("count"), status("news", urgent=True), status("own", part=WHOLE_SET)
    fact = msgspec.structs.replace(status("fact"), priority=StatusPriority.DURABLE)
    one.choose(SET, [count, own], NOW)
    assert one.choose(SET, [count, news, own, fact], at(1)) == [fact, own, news, count]
