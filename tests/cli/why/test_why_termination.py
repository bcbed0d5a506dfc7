"""`grove why` and `grove status` while a breach runs: what is lost, what goes for it and when, what holds it."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from random import Random

import pytest

from grove.api.resources import PODS
from grove.api.types.meta import JsonObject
from grove.cli.common.options import parse_object_ref
from grove.cli.common.output import plain_lines
from grove.cli.status.set_watcher import SetWatcher
from grove.cli.status.tree import SetNode
from grove.cli.status.tree_view import tree_rows
from grove.operations.why.runner import explain
from grove.planner.explain.text import Explanation
from grove.sim.simulation import EPOCH, World
from grove.sim.virtual_clock import run_virtual
from tests.cli.why.test_why_words import masked
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1, WORKLOAD2, expect_running, quota
from tests.simulation.termination_stories import give_back, lose_pods, with_delay

Prepare = Callable[[World], Awaitable[None]]


def sentences(target: str, prepare: Prepare, *, nodes: int = 10) -> tuple[Explanation, ...]:
    async def story() -> tuple[Explanation, ...]:
        async with World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE) as world:
            await prepare(world)
            return await explain(world.client, world.clock.now(), "default", parse_object_ref(target))

    return run_virtual(story())


def said(target: str, prepare: Prepare, *, nodes: int = 10) -> list[tuple[str, str, str]]:
    """Kind, reason and text, suffixes and times as placeholders."""
    return [(one.kind, one.reason, masked(one.text)) for one in sentences(target, prepare, nodes=nodes)]


def looked(prepare: Prepare, *, nodes: int = 10) -> tuple[SetNode, datetime, list[str]]:
    async def story() -> tuple[SetNode, datetime]:
        async with World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE) as world:
            await prepare(world)
            (tree,) = await SetWatcher(world.client, world.clock, Random(1)).list_once()
            return tree, world.clock.now()

    tree, now = run_virtual(story())
    # Below the table.
    return tree, now, [line for line in plain_lines(tree_rows(tree, now)) if line.startswith("!")]


def losing(manifest: JsonObject, clique: str, count: int, *, then: float = 5.0) -> Prepare:
    """At 60 s, so that a deadline is easy to read; `then` seconds ago when somebody looks."""

    async def prepare(world: World) -> None:
        await world.apply(manifest)
        await world.clock.sleep(60)
        await lose_pods(world, clique, count)
        await world.clock.sleep(then)

    return prepare


@pytest.mark.parametrize("target", ["pcs/workload1", "pg/workload1-0", "pclq/workload1-0-pc-a"])
def test_a_breach_says_what_goes_for_it_and_when(target: str) -> None:
    told = sentences(target, losing(with_delay(WORKLOAD1, "4h"), "workload1-0-pc-a", 1))
    (first,) = [one for one in told if one.kind == "effect"]
    second = next(one for one in told if one.until)
    assert told[0].reason == "Unschedulable"
    assert (first.about, first.reason) == ("podclique/workload1-0-pc-a", "MinimumLost")
    assert first.text == "workload1-0-pc-a lost its minimum: 1 of at least 2 pods are ready."
    assert (second.kind, second.reason) == ("next", "TerminationDelay")
    assert second.until == EPOCH + timedelta(hours=4, minutes=1)
    assert second.text == (
        "unless it recovers, the whole set replica is deleted and recreated about 04:01:00 (in 3h59m)."
    )


def test_a_deadline_on_another_day_has_its_date() -> None:
    told = sentences("pcs/workload1", losing(with_delay(WORKLOAD1, "48h"), "workload1-0-pc-a", 1))
    assert any("about 2026-01-03 00:01:00 (in 47h59m)" in one.text for one in told)


def test_a_group_that_goes_alone_names_its_replica() -> None:
    told = said("pcs/workload2", losing(with_delay(WORKLOAD2), "workload2-0-sg-x-0-pc-c", 3))
    assert (
        "next",
        "TerminationDelay",
        "unless it recovers, workload2-0-sg-x replica 0 is deleted and recreated about TIME.",
    ) in told


@pytest.mark.parametrize("target", ["pcs/workload1", "pcsg/workload1-0-sg-x", "pclq/workload1-0-sg-x-0-pc-c"])
def test_a_group_below_its_own_minimum_ends_the_set_replica(target: str) -> None:
    told = said(target, losing(with_delay(WORKLOAD1), "workload1-0-sg-x-0-pc-c", 1))
    assert [text for _, reason, text in told if reason == "TerminationDelay"] == [
        "unless it recovers, the whole set replica is deleted and recreated about TIME."
    ]


def test_without_a_delay_a_breach_has_no_deadline() -> None:
    told = said("pcs/workload1", losing(with_delay(WORKLOAD1, None), "workload1-0-pc-a", 1))
    assert told[1][1] == "MinimumLost"
    assert not [reason for _, reason, _ in told if reason == "TerminationDelay"]


def test_a_breach_behind_a_quota_has_its_deadline_too() -> None:
    async def prepare(world: World) -> None:
        await world.apply(with_delay(WORKLOAD1, "4h"))
        await world.clock.sleep(60)
        await world.apply(quota(1))
        pod = next(pod for pod in world.pods() if "-pc-a-0-" in pod.metadata.name)
        await world.client.delete(PODS, "default", pod.metadata.name)
        await world.clock.sleep(60)

    assert [reason for _, reason, _ in said("pcs/workload1", prepare)][-1] == "TerminationDelay"


async def in_an_outage(world: World) -> None:
    await world.apply(with_delay(WORKLOAD1))
    await expect_running(world, 10)
    for number in range(6):
        await world.nodes.fail(f"node-{number}")
    await world.clock.sleep(120)


def test_a_teardown_that_is_held_says_what_holds_it() -> None:
    told = said("pcs/workload1", in_an_outage)
    assert (
        "next",
        "TeardownHeld",
        "the whole set replica is due to be deleted and recreated, but held while most nodes are not ready.",
    ) in told


def test_a_unit_that_is_coming_back_says_why_it_went() -> None:
    async def prepare(world: World) -> None:
        await world.apply(with_delay(WORKLOAD1))
        await expect_running(world, 10)
        await lose_pods(world, "workload1-0-pc-a")
        # The teardown is begun, and its author dies.
        deletes = len([write for write in world.writes_by("operator") if write.request.method == "DELETE"])
        await world.wait_until(
            lambda: len([w for w in world.writes_by("operator") if w.request.method == "DELETE"]) > deletes
        )
        await world.crash_controller()

    kind, reason, text = said("pcs/workload1", prepare)[0]
    assert (kind, reason) == ("cause", "BeingRecreated")
    assert text == (
        "the whole set replica was deleted and is being recreated: below the minimum for longer than the termination "
        "delay (workload1-0-pc-a: 1 of at least 2 pods are ready)."
    )


def test_a_pod_that_cannot_leave_its_dead_node_names_the_node() -> None:
    names: list[tuple[str, str]] = []

    async def prepare(world: World) -> None:
        await world.apply(with_delay(WORKLOAD1))
        await expect_running(world, 10)
        pod = next(pod for pod in world.pods() if "-pc-a-0-" in pod.metadata.name)
        names.append((pod.metadata.name, pod.spec.node_name))
        await world.nodes.fail(pod.spec.node_name)
        await world.clock.sleep(60)

    async def story() -> str:
        async with World(seed=1, nodes=10, node_resources=ONE_POD_NODE) as world:
            await prepare(world)
            (name, _) = names[0]
            (one,) = await explain(world.client, world.clock.now(), "default", parse_object_ref(f"pod/{name}"))
            for other in ("pcs/workload1", "pclq/workload1-0-pc-a"):
                said = await explain(world.client, world.clock.now(), "default", parse_object_ref(other))
                assert said[-1] == one
            return one.text

    text = run_virtual(story())
    name, node = names[0]
    assert text == (
        f"pod/{name} is being deleted, but its node {node} does not answer; the pod is removed when the node returns "
        "or is deleted. Its replacement does not wait for that."
    )


# --- status ----------------------------------------------------------------------------------------------------------


def test_status_counts_down_for_a_standalone_clique() -> None:
    tree, _, notes = looked(losing(with_delay(WORKLOAD1, "4h"), "workload1-0-pc-a", 1))
    assert tree.set_replicas[0].cliques[0].teardown_at == EPOCH + timedelta(hours=4, minutes=1)
    (note,) = notes
    assert note == (
        "! pclq/workload1-0-pc-a is below its minimum: replica 0 is torn down about 04:01:00 (in 3h59m) "
        "unless it recovers"
    )


def test_status_counts_down_for_a_replica_of_a_group() -> None:
    tree, _, notes = looked(losing(with_delay(WORKLOAD2, "4h", {"sg-x": "2h"}), "workload2-0-sg-x-0-pc-c", 3))
    assert tree.set_replicas[0].groups[0].teardown_at is None
    (note,) = notes
    assert note == (
        "! pclq/workload2-0-sg-x-0-pc-c is below its minimum: workload2-0-sg-x replica 0 is torn down "
        "about 02:01:00 (in 1h59m) unless it recovers"
    )


def test_status_counts_down_for_a_group_below_its_own_minimum_and_not_for_its_cliques() -> None:
    tree, _, notes = looked(losing(with_delay(WORKLOAD1, "4h"), "workload1-0-sg-x-0-pc-c", 1))
    (group,) = tree.set_replicas[0].groups
    assert group.teardown_at == EPOCH + timedelta(hours=4, minutes=1)
    assert [clique.teardown_at for clique in group.group_replicas[0].cliques] == [None, None]
    assert [note.partition(":")[0] for note in notes] == ["! pcsg/workload1-0-sg-x is below its minimum"]


def test_status_has_no_countdown_without_a_delay_or_a_breach() -> None:
    _, _, notes = looked(losing(with_delay(WORKLOAD1, None), "workload1-0-pc-a", 1))
    assert notes == []

    async def recovered(world: World) -> None:
        await world.apply(with_delay(WORKLOAD1, "4h"))
        await world.clock.sleep(60)
        await give_back(world, await lose_pods(world, "workload1-0-pc-a"))
        await world.settle()

    tree, _, notes = looked(recovered)
    assert (tree.set_replicas[0].cliques[0].teardown_at, notes) == (None, [])


def test_status_says_that_teardowns_are_held() -> None:
    _, _, notes = looked(in_an_outage)
    assert notes[0].startswith("! TeardownHeld: 1 teardown is due but held until most nodes are ready again")
    assert notes[1].endswith("replica 0 is torn down when teardowns are no longer held unless it recovers")


def test_status_names_the_first_breaches_of_many() -> None:
    async def prepare(world: World) -> None:
        manifest = with_delay(WORKLOAD1, "4h")
        manifest["spec"]["replicas"] = 7
        await world.apply(manifest)
        await world.settle()
        for replica in range(7):
            await lose_pods(world, f"workload1-{replica}-pc-a")
        await world.clock.sleep(5)

    _, _, notes = looked(prepare, nodes=70)
    assert len(notes) == 6
    assert notes[-1] == "! 2 more are below their minimum"
