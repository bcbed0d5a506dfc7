"""The gang scheduler on the embedded cluster: what is bound, what is said, and what is not written."""

import asyncio
from random import Random
from typing import Any

import pytest

from grove.api.labels import GATE
from grove.api.resources import NODES, PODGANGS, PODS, PRIORITY_CLASSES
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.nodes import RACK
from grove.cluster.scheduler.scheduler import Scheduler
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client
from grove.kube.transport import Request
from tests.cluster.scheduling_table import Table, is_bind, numbered, run_story


def test_a_gang_waits_as_a_block_until_the_last_node_is_there() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(9)
        await table.add_gang("g", a=(10, 10))
        await table.add_pods("g", *numbered("a", 10))
        await table.settle()
        assert await table.bound() == {}
        message = "needs 10 pods of memory=80Mi together, 9 fit: 9 of 9 nodes do not have enough free memory"
        assert await table.reason("a-0") == ("False", "Unschedulable", message)
        assert await table.reason("a-9") == ("False", "Unschedulable", message)
        assert await table.events() == [("PodGang", "g", message)]
        await table.add_nodes(1)
        await table.settle()
        assert len(await table.bound()) == 10
        assert (await table.reason("a-0"))[0] == "True"

    run_story(story)


def test_an_idle_cluster_costs_no_writes_and_no_cycles() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(1)
        await table.add_gang("g", a=(2, 2))
        await table.add_pods("g", *numbered("a", 2))
        await table.add_pods("", "alone", "crowded")
        await table.settle()
        before = (table.write_count(), table.scheduler.cycle_count)
        await table.settle(3600)
        assert (table.write_count(), table.scheduler.cycle_count) == before

    run_story(story)


def test_a_restarted_scheduler_repeats_no_condition() -> None:
    async def story(table: Table) -> None:
        await table.add_gang("g", a=(3, 2))
        await table.add_pods("g", *numbered("a", 3))
        await table.settle()
        assert table.wire.write_counts() == {("patch", "pods/status"): 3, ("create", "events"): 1}
        await table.restart()
        await table.settle()
        assert table.wire.write_counts()["patch", "pods/status"] == 3

    run_story(story)


def test_a_gang_that_is_placed_at_once_costs_one_write_per_pod() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(4)
        # Slowly: one pod after the other, seen in several cycles.
        await table.add_gang("g", a=(4, 4))
        for name in numbered("a", 4):
            await table.add_pods("g", name)
            await table.settle(0.2)
        await table.settle()
        assert table.wire.write_counts() == {("create", "pods/binding"): 4}

    run_story(story)


def test_gated_pods_are_never_bound_and_a_gang_says_what_it_waits_for() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(3)
        await table.add_gang("g", a=(3, 3))
        await table.add_pods("g", "a-0")
        await table.add_pods("g", "a-1", gates=("example.com/quota",))
        await table.settle()
        assert await table.bound() == {}
        assert (await table.reason("a-0"))[2] == "waits for its gang: a needs 3 pods, 1 can be placed, 1 still gated"
        assert (await table.reason("a-1"))[1] == "SchedulingGated"
        await table.ungate("a-1")
        await table.add_pods("g", "a-2")
        await table.settle()
        assert sorted(await table.bound()) == ["a-0", "a-1", "a-2"]

    run_story(story)


@pytest.mark.parametrize(
    ("node_count", "expected"),
    [
        pytest.param(2, [], id="not even the base"),
        pytest.param(3, ["a-0", "b0-0", "c0-0"], id="the base"),
        pytest.param(7, ["a-0", "b0-0", "b1-0", "b2-0", "c0-0", "c1-0", "c2-0"], id="all minima, no extra"),
        pytest.param(8, ["a-0", "a-1", "b0-0", "b1-0", "b2-0", "c0-0", "c1-0", "c2-0"], id="one extra"),
        pytest.param(14, None, id="everything"),
    ],
)
def test_scaled_minima_come_before_any_extra(node_count: int, expected: list[str] | None) -> None:
    """A base gang and two scaled ones, whose gates go a while after the base was bound."""

    async def story(table: Table) -> None:
        await table.add_nodes(node_count)
        await table.add_gang("base", a=(2, 1), b0=(1, 1), c0=(3, 1))
        base_pods = [*numbered("a", 2), "b0-0", *numbered("c0", 3)]
        await table.add_pods("base", *base_pods, gates=(GATE,))
        for index in (1, 2):
            await table.add_gang(f"scaled-{index}", **{f"b{index}": (1, 1), f"c{index}": (3, 1)})
            names = [f"b{index}-0", *numbered(f"c{index}", 3)]
            await table.add_pods(f"scaled-{index}", *names, base="base", gates=(GATE,))
        await table.settle()
        await table.ungate(*base_pods)
        await table.settle()
        if node_count >= 3:
            await table.ungate("b1-0", *numbered("c1", 3), "b2-0", *numbered("c2", 3))
        await table.settle()
        bound = await table.bound()
        assert sorted(bound) == expected if expected is not None else len(bound) == 14
        assert len(set(bound.values())) == len(bound)

    run_story(story)


def test_a_labelled_pod_waits_for_its_gang_to_exist_and_to_name_it() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(2)
        await table.add_pods("g", "a-0", "stranger")
        await table.settle()
        assert (await table.reason("a-0"))[2] == "waits for its gang: PodGang g does not exist yet"
        await table.add_gang("g", a=(1, 1))
        await table.settle()
        assert await table.bound() == {"a-0": "node-0"}
        assert (await table.reason("stranger"))[2] == "waits for its gang: PodGang g does not name it yet"
        await table.client.delete(PODGANGS, "default", "g")
        await table.settle()
        assert (await table.reason("stranger"))[2] == "waits for its gang: PodGang g does not exist yet"

    run_story(story)


def test_a_pod_without_a_gang_has_an_event_of_its_own() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(1)
        await table.add_pods("", "first")
        await table.settle()
        await table.add_pods("", "second")
        await table.settle()
        assert await table.bound() == {"first": "node-0"}
        assert await table.events() == [
            ("Pod", "second", "0/1 nodes are available: 1 does not have enough free memory")
        ]

    run_story(story)


def test_room_is_given_back_when_a_pod_ends_or_goes() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(1)
        for name in ("first", "second", "third"):
            await table.add_pods("", name)
            await table.settle()
        assert await table.bound() == {"first": "node-0"}
        await table.client.patch(PODS, "default", "first", {"status": {"phase": "Succeeded"}}, subresource="status")
        await table.settle()
        assert sorted(await table.bound()) == ["first", "second"]
        await table.client.delete(PODS, "default", "second", grace_period_seconds=0)
        await table.settle()
        assert sorted(await table.bound()) == ["first", "third"]

    run_story(story)


def test_a_leaving_pod_keeps_its_room_but_does_not_count_for_its_gang() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(1)
        await table.add_gang("g", a=(2, 1))
        await table.add_pods("g", "a-0")
        await table.settle()
        await table.client.delete(PODS, "default", "a-0", grace_period_seconds=30)
        await table.add_pods("g", "a-1")
        await table.settle()
        assert (await table.reason("a-1"))[2].startswith("needs 1 pod of memory=80Mi together, 0 fit")
        await table.client.delete(PODS, "default", "a-0", grace_period_seconds=0)
        await table.settle()
        assert await table.bound() == {"a-1": "node-0"}

    run_story(story)


@pytest.mark.parametrize(("name", "is_bound"), [("default-scheduler", True), ("", True), ("somebody-else", False)])
def test_pods_of_other_schedulers_are_not_ours(name: str, is_bound: bool) -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(1)
        spec: dict[str, Any] = {"schedulerName": name} if name else {}
        await table.add_pods("", "p", **spec)
        await table.settle()
        assert bool(await table.bound()) is is_bound
        assert table.write_count() == int(is_bound)

    run_story(story)


def test_pods_bound_by_others_take_their_room() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(2)
        await table.add_pods("", "foreign", schedulerName="somebody-else", nodeName="node-0")
        await table.add_pods("", "ours")
        await table.settle()
        assert await table.bound() == {"foreign": "node-0", "ours": "node-1"}

    run_story(story)


def test_cordoned_and_failed_nodes_are_not_used_until_they_are_back() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(2)
        await table.nodes.cordon("node-0")
        await table.nodes.fail("node-1")
        await table.add_pods("", "p", "q")
        await table.settle()
        assert (await table.reason("p"))[2] == "0/2 nodes are available: 1 is cordoned, 1 is not ready"
        await table.nodes.uncordon("node-0")
        await table.nodes.recover("node-1")
        await table.settle()
        assert await table.bound() == {"p": "node-0", "q": "node-1"}

    run_story(story)


def test_a_failed_binding_is_tried_again_and_the_others_of_its_gang_stay() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(2)
        attempts: list[Request] = []

        def is_refused(request: Request) -> bool:
            is_met = is_bind(request) and "/a-1/" in request.path
            attempts.extend([request] if is_met else [])
            return is_met

        refused = table.wire.refuse(is_refused, ApiError(500, "InternalError", "no"))
        await table.add_gang("g", a=(2, 2))
        await table.add_pods("g", *numbered("a", 2))
        await table.settle()
        assert await table.bound() == {"a-0": "node-0"}
        # Attempts become rarer: an hour of refusals costs few requests.
        await table.settle(3600)
        assert len(attempts) < 200
        table.wire.lift(refused)
        await table.settle(60)
        assert await table.bound() == {"a-0": "node-0", "a-1": "node-1"}

    run_story(story)


def test_a_lost_answer_to_a_binding_that_was_done_does_no_harm() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(2)
        lost: list[Request] = []

        class LosesOneAnswer(InProcessTransport):
            async def send(self, request: Request) -> Any:
                response = await super().send(request)
                if is_bind(request) and not lost:
                    lost.append(request)
                    raise ConnectionLost("the cable")
                return response

        client = Client(LosesOneAnswer(table.server, table.clock), table.clock)
        other = asyncio.create_task(Scheduler(client, table.clock, Random("b"), served_names=("other",)).run())
        await table.add_pods("", "p", "q", schedulerName="other")
        await table.settle()
        assert await table.bound() == {"p": "node-0", "q": "node-1"}
        assert not other.done()

    run_story(story)


def test_a_pod_deleted_before_its_binding_frees_the_room_it_was_promised() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(1)
        table.wire.freeze_watch("pods")
        await table.add_pods("", "p")
        table.wire.thaw_watch("pods")
        await table.client.delete(PODS, "default", "p")
        await table.add_pods("", "q")
        await table.settle()
        assert await table.bound() == {"q": "node-0"}

    run_story(story)


def test_a_gang_is_packed_into_one_rack() -> None:
    async def story(table: Table) -> None:
        # Four nodes to a rack; one place of the first rack is taken.
        await table.add_nodes(8)
        await table.add_pods("", "alone")
        await table.settle()
        await table.add_gang("g", a=(4, 4), spec={"topologyConstraint": {"packConstraint": {"required": RACK}}})
        await table.add_pods("g", *numbered("a", 4))
        await table.settle()
        bound = await table.bound()
        racks = {
            node.metadata.labels[RACK]
            for node in (await table.client.list(NODES)).items
            if node.metadata.name in {bound[name] for name in numbered("a", 4)}
        }
        assert racks == {"rack-1"}

    run_story(story)


def test_priority_classes_decide_who_comes_first() -> None:
    async def story(table: Table) -> None:
        for name, value in (("low", 1), ("high", 10)):
            manifest = {
                "apiVersion": PRIORITY_CLASSES.api_version,
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
            await table.client.create(PRIORITY_CLASSES, "", manifest)
        await table.add_gang("g-low", a=(1, 1), spec={"priorityClassName": "low"})
        await table.add_gang("g-high", b=(1, 1), spec={"priorityClassName": "high"})
        await table.add_pods("g-low", "a-0")
        await table.add_pods("g-high", "b-0")
        await table.settle()
        await table.add_nodes(1)
        await table.settle()
        assert await table.bound() == {"b-0": "node-0"}

    run_story(story)


def test_a_reason_that_could_not_be_written_is_written_later() -> None:
    async def story(table: Table) -> None:
        conflict = ApiError(409, "Conflict", "the object has been modified")
        refused = table.wire.refuse(lambda request: request.path.endswith("/status"), conflict)
        await table.add_gang("g", a=(1, 1))
        await table.add_pods("g", "a-0")
        await table.settle(30)
        assert await table.condition("a-0") is None
        table.wire.lift(refused)
        await table.settle(30)
        message = "needs 1 pod of memory=80Mi together, 0 fit: there are no nodes"
        assert await table.reason("a-0") == ("False", "Unschedulable", message)

    run_story(story)


def test_a_restarted_scheduler_knows_what_is_taken() -> None:
    async def story(table: Table) -> None:
        await table.add_nodes(2)
        await table.add_gang("g", a=(3, 1))
        await table.add_pods("g", *numbered("a", 3))
        await table.settle()
        await table.restart()
        await table.settle()
        assert len(await table.bound()) == 2
        message = "0/2 nodes are available: 2 do not have enough free memory"
        assert await table.reason("a-2") == ("False", "Unschedulable", message)

    run_story(story)
