"""Refusals the server gave us, until the refused action succeeds or nobody wants it any more."""

from datetime import datetime

from grove.api.types.meta import Uid
from grove.controller.rejected_creates import RejectedCreates
from grove.planner.actions import CreateRejection
from tests.dsl import NOW, at

SET, OTHER = Uid("set"), Uid("other")


def record(
    book: RejectedCreates,
    key: str = "pods/p-0-a",
    *,
    of: Uid = SET,
    part: int = 0,
    now: datetime = NOW,
    message: str = "no",
) -> None:
    book.record(of, part, key=key, code="CreateRejected", message=message, now=now)


def refused(
    key: str = "pods/p-0-a", *, count: int = 1, first: datetime = NOW, last: datetime = NOW, message: str = "no"
) -> CreateRejection:
    return CreateRejection(key=key, code="CreateRejected", message=message, count=count, first_at=first, last_at=last)


def test_a_refusal_is_remembered_for_its_replica() -> None:
    book = RejectedCreates()
    record(book)
    assert (book.of(SET, 0), book.of(SET, 1), book.of(OTHER, 0)) == ((refused(),), (), ())


def test_attempts_are_counted_and_the_latest_words_are_kept() -> None:
    book = RejectedCreates()
    record(book, message="first")
    record(book, now=at(5), message="second")
    assert book.of(SET, 0) == (refused(count=2, last=at(5), message="second"),)


def test_many_refusals_at_one_instant_are_one_attempt() -> None:
    book = RejectedCreates()
    for _ in range(10):
        record(book)
    assert book.of(SET, 0) == (refused(),)


def test_refusals_are_in_the_order_of_their_keys() -> None:
    book = RejectedCreates()
    for key in ("services/x", "pods/x", "podgangs/x"):
        record(book, key)
    assert [failure.key for failure in book.of(SET, 0)] == ["podgangs/x", "pods/x", "services/x"]


def test_a_success_ends_exactly_its_refusal() -> None:
    book = RejectedCreates()
    record(book, "pods/a")
    record(book, "pods/b")
    assert book.clear(SET, 0, ["pods/a"])
    assert not book.clear(SET, 0, ["pods/a"])
    assert not book.clear(SET, 1, ["pods/b"])
    assert book.of(SET, 0) == (refused("pods/b"),)
    assert book.clear(SET, 0, ["pods/b"])
    assert book.of(SET, 0) == ()


def test_after_a_success_the_count_starts_anew() -> None:
    book = RejectedCreates()
    record(book)
    book.clear(SET, 0, ["pods/p-0-a"])
    record(book, now=at(9))
    assert book.of(SET, 0) == (refused(first=at(9), last=at(9)),)


def test_a_tuple_is_the_same_object_until_something_changes() -> None:
    book = RejectedCreates()
    record(book)
    before = book.of(SET, 0)
    record(book, part=1)
    book.clear(SET, 0, ["pods/other"])
    assert book.of(SET, 0) is before
    record(book, now=at(1))
    assert book.of(SET, 0) is not before
    assert before == (refused(),)


def test_a_forgotten_set_or_replica_leaves_nothing() -> None:
    book = RejectedCreates()
    for part in (0, 1):
        record(book, part=part)
        record(book, of=OTHER, part=part)
    book.forget_replica(SET, 0)
    assert (book.of(SET, 0), book.of(SET, 1)) == ((), (refused(),))
    book.forget_set(SET)
    assert (book.of(SET, 1), book.of(OTHER, 0)) == ((), (refused(),))
    book.forget_set(SET)
    book.forget_replica(SET, 7)


def test_a_set_knows_whether_its_pods_are_refused() -> None:
    book = RejectedCreates()
    record(book, "services/x")
    assert not book.has_rejected_pods(SET)
    record(book, "pods/x", part=3)
    assert book.has_rejected_pods(SET)
    assert not book.has_rejected_pods(OTHER)
