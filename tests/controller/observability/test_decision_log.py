"""The operator's log: one line per decision, with the planner's reason, however many objects it was about."""

from collections.abc import Sequence
from random import Random

from structlog.testing import capture_logs

from grove.api.reasons import EventReason
from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS
from grove.api.types.meta import ObjectMeta, Uid
from grove.clock import Clock
from grove.controller.informers import Caches
from grove.controller.manager import Controller
from grove.controller.observability.decision_log import LASTING_ATTEMPTS, Done, StructuredDecisionLog, lines_of
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client
from grove.kube.request_info import summarize
from grove.planner.actions import Create, Delete, DeleteMany, EventRecord, Patch, Severity, subject_of
from grove.sim.simulation import SimulatedOperator, World
from grove.sim.virtual_clock import run_virtual
from tests.markdown import ROOT

QUICKSTART = ROOT / "examples" / "quickstart.yaml"


def create(name: str, reason: str = "wanted") -> Create:
    return Create(resource=PODS, namespace="n", name=name, body={}, failure_key="", reason=reason)


def told(done: Sequence[Done]) -> list[tuple[str, dict[str, object]]]:
    return [(line.what, line.fields()) for line in lines_of(done)]


def test_what_was_done_to_one_replica_is_one_line() -> None:
    done = [(0, create(f"p-{i}")) for i in range(7)]
    assert told(done) == [
        ("create pods", {"replica": "0", "names": "p-0, p-1, p-2, p-3, p-4", "count": 7, "reason": "wanted"})
    ]


def test_replicas_have_their_own_lines_until_there_are_too_many() -> None:
    assert [fields["replica"] for _, fields in told([(i, create(f"p-{i}")) for i in range(10)])] == [
        str(i) for i in range(10)
    ]
    ((what, fields),) = told([(i, create(f"p-{i}")) for i in (*range(500), 777)])
    assert what == "create pods"
    assert (fields["replicas"], fields["count"]) == ("0-499, 777", 501)


def test_the_verb_says_what_happened_and_the_set_itself_is_no_replica() -> None:
    uid = Uid("u")
    done: list[Done] = [
        (-1, Patch(resource=PODCLIQUESETS, namespace="n", name="s", uid=uid, patch={}, reason="guards its children")),
        (1, Delete(resource=PODCLIQUES, namespace="n", name="c", uid=uid, reason="scaled in")),
        (
            1,
            DeleteMany(resource=PODS, namespace="n", selector="x", owners=(), uids=(uid, Uid("v")), reason="torn down"),
        ),
    ]
    assert told(done) == [
        ("change podcliquesets", {"names": "s", "reason": "guards its children"}),
        ("delete podcliques", {"replica": "1", "names": "c", "reason": "scaled in"}),
        ("delete pods", {"replica": "1", "count": 2, "reason": "torn down"}),
    ]


def test_a_status_is_no_decision() -> None:
    status = Patch(resource=PODGANGS, namespace="n", name="g", uid=Uid("u"), patch={}, reason="", subresource="status")
    assert told([(0, status)]) == []


def failed_scheduling(name: str, message: str) -> EventRecord:
    subject = subject_of(PODGANGS, ObjectMeta(name=name, namespace="n", uid=Uid(name)))
    return EventRecord(
        subject=subject, reason=EventReason.FAILED_SCHEDULING, message=message, severity=Severity.WARNING
    )


def test_why_gangs_are_pending_is_one_line_of_information() -> None:
    emits = [failed_scheduling(f"g-{i}", "no room:\n  2 nodes are full" if i % 2 else "over quota") for i in range(7)]
    with capture_logs() as lines:
        StructuredDecisionLog(Caches()).log_decisions(Uid("u"), [], emits)
    assert lines == [
        {
            "event": "pending",
            "log_level": "info",
            "set_uid": "u",
            "names": "g-0, g-1, g-2, g-3, g-4",
            "count": 7,
            "reason": "over quota; no room: 2 nodes are full",
        }
    ]


def logging_operator(client: Client, clock: Clock, random: Random) -> SimulatedOperator:
    return Controller(client, clock, random, is_logging=True)


def test_a_thousand_pods_are_a_handful_of_lines() -> None:
    async def main() -> None:
        async with World(nodes=0, operator=logging_operator) as world:
            await world.apply(
                {
                    "apiVersion": "grove.io/v1alpha1",
                    "kind": "PodCliqueSet",
                    "metadata": {"name": "big"},
                    "spec": {
                        "replicas": 100,
                        "template": {
                            "cliques": [
                                {
                                    "name": "a",
                                    "spec": {
                                        "roleName": "a",
                                        "replicas": 10,
                                        "podSpec": {"containers": [{"name": "m", "image": "i"}]},
                                    },
                                }
                            ]
                        },
                    },
                }
            )
            await world.settle()
            assert len(world.pods()) == 1000

    with capture_logs() as lines:
        run_virtual(main())
    assert 5 <= len(lines) < 60
    for line in lines:
        assert (line["namespace"], line["set"]) == ("default", "big")
        assert line["reason"]
    assert sum(line.get("count", 1) for line in lines if line["event"] == "create pods") == 1000


def test_the_last_lines_about_a_set_still_name_it() -> None:
    async def main() -> None:
        async with World(nodes=8, operator=logging_operator) as world:
            await world.apply(QUICKSTART)
            await world.settle()
            await world.delete(PODCLIQUESETS, "chat")
            await world.settle()

    with capture_logs() as lines:
        run_virtual(main())
    deleted = [line for line in lines if line["event"].startswith("delete ")]
    assert len(deleted) >= 4
    assert [line for line in lines if line.get("set") != "chat"] == []


def test_a_refusal_is_told_once_in_the_servers_words() -> None:
    async def main() -> None:
        async with World(nodes=8, operator=logging_operator) as world:
            world.operator.refuse(
                lambda request: summarize(request).verb == "create" and request.path.endswith("/pods"),
                ApiError(403, "Forbidden", "exceeded quota: gpus"),
            )
            await world.apply(QUICKSTART)
            await world.clock.sleep(1000)

    with capture_logs() as lines:
        run_virtual(main())
    warned = [line for line in lines if line["log_level"] == "warning" and line["reason"] == "PodsRejected"]
    assert "exceeded quota: gpus" in warned[0]["message"]
    # Tried again and again for a quarter of an hour, told when it began.
    assert len(warned) <= 2 * 6


def test_an_error_of_the_server_is_told_with_its_code_when_it_begins() -> None:
    decision_log = StructuredDecisionLog(Caches())
    refused, lost = ApiError(403, "Forbidden", "no"), ConnectionLost("cut")
    with capture_logs() as lines:
        decision_log.log_errors(Uid("u"), [lost, refused, refused], 0)
        decision_log.log_errors(Uid("u"), [refused], 1)
        decision_log.log_errors(Uid("u"), [lost], 0)
        decision_log.log_errors(Uid("u"), [lost], LASTING_ATTEMPTS)
    assert [line["log_level"] for line in lines] == ["error", "debug", "debug", "warning"]
    assert (lines[0]["code"], lines[0]["reason"], lines[0]["message"], lines[0]["count"]) == (403, "Forbidden", "no", 3)
