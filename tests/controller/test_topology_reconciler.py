"""ClusterTopologyBindings beside a scheduler that keeps topologies of its own: KAI, on the embedded cluster."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from grove.api.resources import EVENTS, KAI_TOPOLOGIES, TOPOLOGY_BINDINGS
from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.meta import JsonObject
from grove.api.types.scheduler_object import SchedulerObject
from grove.kube.api_errors import ApiError
from grove.kube.request_info import summarize
from grove.sim.faults import FaultyTransport
from grove.sim.virtual_clock import run_virtual
from tests.backends.scheduler_world import KAI, SchedulerWorld

RACKS = ("topology/zone", "topology/rack")


def binding(*keys: str, names: str = "") -> JsonObject:
    entries = [{"schedulerName": KAI, "topologyReference": names}] if names else []
    return {
        "apiVersion": TOPOLOGY_BINDINGS.api_version,
        "kind": TOPOLOGY_BINDINGS.kind,
        "metadata": {"name": "dc"},
        "spec": {
            "levels": [{"domain": key.rsplit("/", 1)[-1], "key": key} for key in keys],
            "schedulerTopologyBindings": entries,
        },
    }


def their_own(name: str, *keys: str) -> JsonObject:
    return {
        "apiVersion": KAI_TOPOLOGIES.api_version,
        "kind": KAI_TOPOLOGIES.kind,
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": key} for key in keys]},
    }


def the_binding(world: SchedulerWorld) -> ClusterTopologyBinding:
    (found,) = world.objects(TOPOLOGY_BINDINGS)
    return found


def the_topology(world: SchedulerWorld) -> SchedulerObject:
    (found,) = world.objects(KAI_TOPOLOGIES)
    return found


def levels(world: SchedulerWorld) -> list[str]:
    return [level["nodeLabel"] for level in the_topology(world).spec["levels"]]


def said(world: SchedulerWorld) -> tuple[str, str, bool]:
    """Condition, reason, and whether KAI's topology is in sync."""
    status = the_binding(world).status
    (condition,) = status.conditions
    (entry,) = status.scheduler_topology_statuses
    return condition.status, condition.reason, entry.in_sync


def events(world: SchedulerWorld) -> list[tuple[str, str]]:
    found = world.objects(EVENTS)
    return sorted((one.metadata.namespace, one.reason) for one in found if one.reason.startswith("Topology"))


async def a_topology_is_made_and_follows_the_binding(world: SchedulerWorld) -> None:
    await world.apply(binding(*RACKS))
    await world.settle()
    assert levels(world) == list(RACKS)
    assert the_topology(world).metadata.controller == TOPOLOGY_BINDINGS.owner_key(the_binding(world).metadata)
    assert said(world) == ("False", "InSync", True)
    first = the_topology(world).metadata.uid
    await world.apply(binding("topology/zone", "topology/block"))
    await world.settle()
    assert levels(world) == ["topology/zone", "topology/block"]
    assert the_topology(world).metadata.uid != first
    assert said(world) == ("False", "InSync", True)
    assert the_binding(world).status.observed_generation == the_binding(world).metadata.generation
    assert events(world) == []


async def one_that_somebody_took_away_is_made_again(world: SchedulerWorld) -> None:
    await world.apply(binding(*RACKS))
    await world.settle()
    await world.delete(KAI_TOPOLOGIES, "dc", namespace="")
    await world.settle()
    assert levels(world) == list(RACKS)
    await world.client.patch(KAI_TOPOLOGIES, "", "dc", {"spec": {"levels": [{"nodeLabel": "other"}]}})
    await world.settle()
    assert levels(world) == list(RACKS)


async def it_goes_with_its_binding(world: SchedulerWorld) -> None:
    await world.apply(binding(*RACKS))
    await world.settle()
    await world.delete(TOPOLOGY_BINDINGS, "dc", namespace="")
    await world.settle()
    assert world.objects(KAI_TOPOLOGIES) == ()


async def what_is_not_ours_is_left_alone_until_it_goes(world: SchedulerWorld) -> None:
    await world.client.create(KAI_TOPOLOGIES, "", their_own("dc", *RACKS))
    theirs = the_topology(world).metadata.uid
    await world.apply(binding(*RACKS))
    await world.settle()
    assert said(world) == ("True", "Drift", False)
    assert the_binding(world).status.observed_generation is None
    assert the_topology(world).metadata.uid == theirs
    assert events(world) == [("default", "TopologyDriftDetected")]
    await world.delete(KAI_TOPOLOGIES, "dc", namespace="")
    await world.settle()
    assert said(world) == ("False", "InSync", True)
    assert events(world) == [("default", "TopologyDriftDetected"), ("default", "TopologyInSync")]


async def one_that_the_binding_names_is_only_compared(world: SchedulerWorld) -> None:
    await world.apply(binding(*RACKS, names="theirs"))
    await world.settle()
    assert said(world) == ("True", "Drift", False)
    await world.client.create(KAI_TOPOLOGIES, "", their_own("theirs", "other"))
    await world.settle()
    assert said(world) == ("True", "Drift", False)
    fixed = their_own("theirs", *RACKS)["spec"]
    await world.client.patch(KAI_TOPOLOGIES, "", "theirs", {"spec": fixed})
    await world.settle()
    assert said(world) == ("False", "InSync", True)
    assert the_topology(world).metadata.owner_references == ()


STORIES = (
    a_topology_is_made_and_follows_the_binding,
    one_that_somebody_took_away_is_made_again,
    it_goes_with_its_binding,
    what_is_not_ours_is_left_alone_until_it_goes,
    one_that_the_binding_names_is_only_compared,
)
Tell = Callable[[SchedulerWorld], Awaitable[None]]


def play(
    tell: Tell, crash: Callable[[FaultyTransport, int], None] | None = None, number: int = 0, **fields: Any
) -> int:
    """How many writes the operator's first life took."""

    async def story() -> int:
        async with SchedulerWorld(KAI, seed=1, **fields) as world:
            first_life = world.operator
            if crash is not None:
                crash(first_life, number)
            await tell(world)
            await world.settle()
            before = len(world.writes_by("operator"))
            await world.settle(quiet_seconds=3600)
            assert len(world.writes_by("operator")) == before
            return len(first_life.writes)

    return run_virtual(story())


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_the_story_of_a_binding_ends_as_told_and_then_nothing_is_written(tell: Tell) -> None:
    assert play(tell) > 0


def test_a_crash_at_any_write_changes_nothing_about_that() -> None:
    for number in range(1, play(a_topology_is_made_and_follows_the_binding) + 1):
        for crash in (FaultyTransport.crash_before_write, FaultyTransport.crash_after_write):
            play(a_topology_is_made_and_follows_the_binding, crash, number)


def test_a_kind_that_is_not_served_yet_is_waited_for() -> None:
    async def tell(world: SchedulerWorld) -> None:
        await world.apply(binding(*RACKS))
        await world.settle()
        assert said(world) == ("True", "Drift", False)
        (entry,) = the_binding(world).status.scheduler_topology_statuses
        assert entry.message == "the cluster does not serve topologies.kai.scheduler: install kai-scheduler"
        world.install()
        await world.settle()
        assert said(world) == ("False", "InSync", True)
        assert levels(world) == list(RACKS)

    play(tell, is_installed=False)


@pytest.mark.parametrize("resource", ["topologies", "clustertopologybindings/status"])
def test_a_write_for_a_binding_that_keeps_failing_is_an_event_of_the_binding(resource: str) -> None:
    async def tell(world: SchedulerWorld) -> None:
        broken = ApiError(500, "InternalError", "etcd is away")
        refusal = world.operator.refuse(lambda one: one.is_write and summarize(one).resource == resource, broken)
        await world.apply(binding(*RACKS))
        await world.clock.sleep(90)
        events = [event for event in world.objects(EVENTS) if event.reason == "ReconcileFailed"]
        assert [(event.metadata.name.startswith("dc."), event.type) for event in events] == [(True, "Warning")]
        assert "500 etcd is away" in events[0].message
        world.operator.lift(refusal)
        await world.settle()
        assert levels(world) == list(RACKS)

    play(tell)
