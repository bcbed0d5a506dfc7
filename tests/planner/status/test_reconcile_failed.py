"""What a set says about writes that fail: from when on, in which words, since when, and when not any more."""

import msgspec
import pytest

from grove.api.types.meta import Condition
from grove.api.types.podcliqueset import PodCliqueSet
from grove.planner.actions import Plan, StatusWrite
from grove.planner.plan import plan
from grove.planner.snapshot import Snapshot
from grove.planner.status.write_failures import FailedWrite, WriteId, advise, reason_of
from tests.dsl import at, pcs, problems, role, snapshot

POD = WriteId(verb="patch", kind="Pod", resource="pods", namespace="default", name="p-0-a-0")
SERVICE = WriteId(verb="create", kind="Service", resource="services", namespace="default", name="p-0")


def failed(write: WriteId = POD, *, code: int = 500, first: float = 0, message: str = "broken") -> FailedWrite:
    return FailedWrite(write=write, code=code, message=message, count=3, first_at=at(first), last_at=at(first + 30))


def failing(*writes: FailedWrite, observed: PodCliqueSet | None = None, is_tried: bool = True) -> Snapshot:
    seen = snapshot(observed or pcs(role("a", 1)))
    return msgspec.structs.replace(seen, failed_writes=writes, is_tried=is_tried)


def condition_of(decided: Plan) -> dict[str, str] | None:
    own = [status for status in decided.statuses if status.resource.kind == "PodCliqueSet"]
    conditions = [found for status in own for found in status.patch.get("conditions", ())]
    return next((found for found in conditions if found["type"] == "ReconcileFailed"), None)


def reported(
    since: str = "2026-01-01T12:00:00Z", message: str = "cannot patch Pod default/p-0-a-0 since ..."
) -> Condition:
    wire = {"type": "ReconcileFailed", "status": "True", "reason": "ServerError", "message": message}
    return msgspec.convert({**wire, "lastTransitionTime": since}, Condition)


def with_condition(condition: Condition) -> PodCliqueSet:
    observed = pcs(role("a", 1))
    status = msgspec.structs.replace(observed.status, conditions=(condition,))
    return msgspec.structs.replace(observed, status=status)


def said(status: StatusWrite) -> list[str]:
    """The types of the problems that the set has after this write, if it writes conditions."""
    return [one["type"] for one in problems(status.patch)]


def own_status(decided: Plan) -> list[StatusWrite]:
    return [status for status in decided.statuses if status.resource.kind == "PodCliqueSet"]


@pytest.mark.parametrize(("seconds", "is_reported"), [(59, False), (60, True), (61, True)])
def test_a_failure_is_reported_when_it_lasts_for_a_minute_and_the_plan_wakes_up_for_it(
    seconds: float, is_reported: bool
) -> None:
    decided = plan(failing(failed()), at(seconds))
    assert (condition_of(decided) is not None) is is_reported
    assert (decided.requeue_at == at(60)) is not is_reported


def test_it_says_which_object_verb_code_and_words_since_when_and_what_to_do() -> None:
    first = failed(code=403, message='User "operator" cannot patch resource "pods"')
    condition = condition_of(plan(failing(first, failed(SERVICE, first=1)), at(90)))
    assert condition == {
        "type": "ReconcileFailed",
        "status": "True",
        "reason": "WriteRejected",
        "message": "cannot patch Pod default/p-0-a-0 since 2026-01-01T12:00:00Z: 403 "
        'User "operator" cannot patch resource "pods" (and 1 more); '
        "give the operator the roles that `grove manifests` prints",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }


def test_what_was_told_stays_while_its_cause_may_last_and_goes_when_nothing_fails() -> None:
    observed = with_condition(reported())
    # Something fails, but not for long yet: after a restart it is not known since when.
    fresh = plan(failing(failed(first=100), observed=observed), at(110))
    assert [said(status) for status in own_status(fresh)] in ([], [["ReconcileFailed"]])
    # Nothing was tried since the restart.
    unsure = plan(failing(observed=observed, is_tried=False), at(110))
    assert [said(status) for status in own_status(unsure)] in ([], [["ReconcileFailed"]])
    over = plan(failing(observed=observed), at(110))
    assert [said(status) for status in own_status(over)] == [[]]


def test_after_a_restart_the_time_of_the_first_failure_is_that_of_the_condition() -> None:
    first = condition_of(plan(failing(failed()), at(60)))
    assert first is not None
    observed = with_condition(msgspec.convert(first, Condition))
    again = plan(failing(failed(first=1000), observed=observed), at(1100))
    assert condition_of(again) == first


def test_another_write_has_its_own_time() -> None:
    first = condition_of(plan(failing(failed()), at(60)))
    observed = with_condition(msgspec.convert(first, Condition))
    other = condition_of(plan(failing(failed(SERVICE, first=1000), observed=observed), at(1100)))
    assert other is not None
    assert other["message"].startswith("cannot create Service default/p-0 since 2026-01-01T12:16:40Z: 500 broken")
    assert other["lastTransitionTime"] == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (0, "no answer", "NoAnswer"),
        (408, "timed out", "NoAnswer"),
        (401, "who are you", "WriteRejected"),
        (403, "no", "WriteRejected"),
        (404, "gone", "WriteRejected"),
        (409, "changed", "WriteConflict"),
        (413, "limit is 3145728", "TooLarge"),
        (422, "odd", "WriteRejected"),
        (429, "later", "Throttled"),
        (500, "broken", "ServerError"),
        (500, "etcdserver: request is too large", "TooLarge"),
        (503, "away", "ServerError"),
    ],
)
def test_every_code_has_a_reason_and_something_to_do(code: int, message: str, reason: str) -> None:
    assert reason_of(code, message) == reason
    assert advise(code, message)


def test_a_message_is_never_long() -> None:
    condition = condition_of(plan(failing(failed(message="x" * 5000)), at(60)))
    assert condition is not None
    assert len(condition["message"]) < 1024
