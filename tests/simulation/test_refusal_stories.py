"""What cannot be carried out says so, holds up nobody else, and heals when the cause goes."""

from collections.abc import Coroutine
from typing import Any

import pytest
import yaml

from grove.api import labels
from grove.api.resources import EVENTS, PODCLIQUESETS
from grove.api.types.meta import JsonObject, find_condition
from grove.kube.api_errors import ApiError
from grove.kube.request_info import summarize
from grove.sim.faults import FaultPlan
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.seeds import examples
from tests.simulation.refusal_stories import (
    STRANGER_STORIES,
    an_invalid_set_is_refused_with_every_error_at_once_and_nothing_is_created,
    pods_beyond_a_quota_are_refused_in_the_servers_words_until_there_is_room,
)
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1, WORKLOAD2, find_set, left_of_sets, quota


def run(story: Coroutine[Any, Any, None]) -> None:
    run_virtual(story)


def one_pod_world(nodes: int) -> World:
    return World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE)


def manifest_of(path: Any) -> JsonObject:
    loaded: JsonObject = yaml.safe_load(path.read_text())
    return loaded


def test_one_replica_that_is_refused_holds_up_no_other() -> None:
    async def story() -> None:
        async with one_pod_world(30) as world:
            world.operator.refuse(
                lambda request: (
                    summarize(request).verb == "create"
                    and b'"name":"workload1-1-' in request.body
                    and request.path.endswith("/podcliques")
                ),
                ApiError(403, "Forbidden", "admission webhook says no"),
            )
            await world.apply({**manifest_of(WORKLOAD1), "spec": {**manifest_of(WORKLOAD1)["spec"], "replicas": 3}})
            await world.clock.sleep(60)
            replicas = sorted(pod.metadata.labels[labels.SET_REPLICA_INDEX] for pod in world.running_pods())
            assert replicas == ["0"] * 10 + ["2"] * 10
            pcs = find_set(world, "workload1")
            assert pcs.status.available_replicas == 2
            assert "admission webhook says no" in pcs.status.last_errors[0].description
            world.check()

    run(story())


def test_a_refusal_is_an_event_too() -> None:
    async def story() -> None:
        async with one_pod_world(20) as world:
            await world.apply(quota(5))
            await world.apply(WORKLOAD1)
            await world.clock.sleep(60)
            reasons = {event.reason for event in world.objects(EVENTS)}
            assert {"PodsRejected", "ReconcileFailed"} <= reasons

    run(story())


@pytest.mark.parametrize("kind", STRANGER_STORIES)
def test_a_name_taken_by_a_stranger_is_said_and_heals_when_the_stranger_goes(kind: str) -> None:
    async def story() -> None:
        async with one_pod_world(20) as world:
            await STRANGER_STORIES[kind](world)
            assert any(event.reason == "ReconcileFailed" for event in world.objects(EVENTS))
            world.check()

    run(story())


def test_pods_beyond_a_quota_are_refused_in_the_servers_words_until_there_is_room() -> None:
    async def story() -> None:
        async with one_pod_world(20) as world:
            await pods_beyond_a_quota_are_refused_in_the_servers_words_until_there_is_room(world)
            assert len(world.pods()) == 20
            world.check()

    run(story())


def test_an_invalid_set_is_refused_with_every_error_at_once_and_nothing_is_created() -> None:
    async def story() -> None:
        async with one_pod_world(10) as world:
            await an_invalid_set_is_refused_with_every_error_at_once_and_nothing_is_created(world)
            world.check()

    run(story())


def test_a_field_that_is_not_carried_out_yet_is_named_in_a_warning_and_a_condition() -> None:
    async def story() -> None:
        async with one_pod_world(10) as world:
            manifest = manifest_of(WORKLOAD1)
            manifest["metadata"]["annotations"] = {"grove.io/mnnvl-group": "a"}
            (applied,) = await world.apply(manifest)
            assert any("metadata.annotations[grove.io/mnnvl-group]" in warning for warning in applied.warnings)
            await world.settle()
            condition = find_condition(find_set(world, "workload1").status.conditions, "UnsupportedFields")
            assert condition is not None
            assert "metadata.annotations[grove.io/mnnvl-group]" in condition.message
            assert len(world.running_pods()) == 10

    run(story())


def test_with_throttled_creates_a_scale_in_and_a_deletion_of_a_huge_set_act_within_two_seconds() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=0, faults=FaultPlan(creates_per_second=50)) as world:
            manifest = manifest_of(WORKLOAD2)
            manifest["spec"]["replicas"] = examples(1000)
            await world.apply(manifest)
            await world.clock.sleep(30)
            created = len(world.pods())
            assert 0 < created < 10 * manifest["spec"]["replicas"]
            await world.scale(PODCLIQUESETS, "workload2", 1)
            asked_at = world.clock.monotonic()
            await world.wait_until(lambda: len(world.pods()) < created)
            assert world.clock.monotonic() - asked_at <= 2
            await world.clock.sleep(1)
            await world.delete(PODCLIQUESETS, "workload2")
            asked_at = world.clock.monotonic()
            await world.wait_until(lambda: not world.objects(PODCLIQUESETS))
            assert world.clock.monotonic() - asked_at <= 2
            await world.settle()
            assert left_of_sets(world) == []

    run(story())
