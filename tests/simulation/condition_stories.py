"""Stories of the conditions that scripts wait for: Available and Progressing, Complete and Failed. One pod per node.

Told in calm by `test_condition_stories.py`, and with a crash at every write by `test_crash_everywhere.py`.
"""

import msgspec

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.podcliqueset import PodCliqueSet
from grove.cluster.storage.store import Change
from grove.sim.simulation import World
from tests.scene import Scene, Seen
from tests.simulation.stories import Story, expect_running, find_set
from tests.simulation.training_stories import clique as training_clique
from tests.simulation.training_stories import expect_failure, expect_success, training
from tests.simulation.updating import BROKEN, NEW, change_annotations, change_image

NAME = "small"
AT_REST = {"Available": ("True", "AllReplicasAvailable"), "Progressing": ("True", "Complete")}
AT_ZERO = {"Available": ("True", "ScaledToZero"), "Progressing": ("True", "Complete")}
STARTING = {"Available": ("False", "ReplicasUnavailable"), "Progressing": ("True", "Starting")}
STALLED = {"Available": ("True", "Updating"), "Progressing": ("False", "UpdateStalled")}


def serving(replicas: int) -> JsonObject:
    resources = {"requests": {"memory": "80Mi"}}
    container = {"name": "main", "image": "i:1", "resources": resources}
    annotations = {"simulation.grove.io/ready-after": "5s"}
    spec = {"roleName": "a", "replicas": 1, "podSpec": {"containers": [container]}}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": replicas,
            "template": {"cliques": [{"name": "a", "annotations": annotations, "spec": spec}]},
        },
    }


def conditions(world: Seen, name: str = NAME) -> dict[str, tuple[str, str]]:
    """Status and reason of the conditions that scripts wait for, all about the newest generation."""
    pcs = find_set(world, name)
    found = [one for one in pcs.status.conditions if one.type in ("Available", "Progressing", "Complete", "Failed")]
    assert {one.observed_generation for one in found} <= {pcs.metadata.generation}
    assert pcs.status.observed_generation == pcs.metadata.generation
    return {one.type: (one.status, one.reason) for one in found}


class Reader:
    """Somebody who reads the set at every write, as `kubectl wait` does."""

    def __init__(self, world: World) -> None:
        # What Available said, each value once, in order, of the generation that the set has.
        self.available: list[str] = []
        world.server.store.subscribe(self._observe)

    def _observe(self, change: Change) -> None:
        if change.resource_info.plural != "podcliquesets":
            return
        pcs = msgspec.convert(change.entry.obj, PodCliqueSet)
        condition = find_condition(pcs.status.conditions, "Available")
        is_newest = condition is not None and condition.observed_generation == pcs.metadata.generation
        if condition is not None and is_newest and self.available[-1:] != [condition.status]:
            self.available.append(condition.status)


async def a_set_starts_waits_for_room_and_goes_to_zero(world: Scene) -> None:
    await world.apply(serving(2))
    await expect_running(world, 2)
    assert conditions(world) == AT_REST
    await world.scale(PODCLIQUESETS, NAME, 4)
    await expect_running(world, 3)
    assert conditions(world) == STARTING
    await world.add_nodes(1)
    await expect_running(world, 4)
    assert conditions(world) == AT_REST
    await world.scale(PODCLIQUESETS, NAME, 0)
    await expect_running(world, 0)
    assert conditions(world) == AT_ZERO


async def an_update_never_ends_availability_and_a_stalled_one_says_so(world: World) -> None:
    await world.apply(serving(2))
    await expect_running(world, 2)
    reader = Reader(world)
    await change_image(world, NEW, name=NAME)
    await world.settle()
    assert conditions(world) == AT_REST
    await change_annotations(world, BROKEN)
    await world.wait_until(lambda: conditions_now(world) == STALLED)
    await change_annotations(world, {"simulation.grove.io/ready-after": "5s"})
    await world.settle()
    assert conditions(world) == AT_REST
    assert reader.available == ["True"]


def conditions_now(world: Seen) -> dict[str, tuple[str, str]]:
    pcs = find_set(world, NAME)
    return {one.type: (one.status, one.reason) for one in pcs.status.conditions if one.type in STALLED}


async def a_job_is_complete_when_it_succeeded(world: World) -> None:
    await world.apply(training(training_clique("worker", 2, exits_after="30s")))
    await expect_success(world)
    assert conditions(world, "job") == {"Complete": ("True", "AllReplicasSucceeded")}


async def a_job_is_failed_when_it_failed(world: World) -> None:
    await world.apply(training(training_clique("worker", 2, exits_after="30s", code=1)))
    await expect_failure(world, "MaxRestartsExceeded")
    assert conditions(world, "job") == {"Failed": ("True", "MaxRestartsExceeded")}


CONDITION_STORIES = tuple(
    Story(tell.__name__, nodes, tell)
    for nodes, tell in (
        (3, a_set_starts_waits_for_room_and_goes_to_zero),
        (3, an_update_never_ends_availability_and_a_stalled_one_says_so),
        (2, a_job_is_complete_when_it_succeeded),
        (2, a_job_is_failed_when_it_failed),
    )
)
