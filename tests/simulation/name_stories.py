"""Stories of pod names: logs and events are keyed by them, so none is used twice in the life of a clique."""

from collections import Counter

from grove.api.resources import PODCLIQUES, PODCLIQUESETS
from grove.api.types.meta import JsonObject
from grove.cluster.storage.store import Change, ChangeType
from grove.sim.simulation import World
from tests.simulation.stories import Story
from tests.simulation.training_stories import clique, running
from tests.simulation.updating import NEW, change_image


def serving(*cliques: JsonObject) -> JsonObject:
    """An Inference set whose pods are not restarted in place."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "job"},
        "spec": {"replicas": 1, "template": {"cliques": list(cliques)}},
    }


def watch_names(world: World) -> list[str]:
    """The names of all pods that are created from now on."""
    born: list[str] = []

    def note(change: Change) -> None:
        if change.resource_info.plural == "pods" and change.type == ChangeType.ADDED:
            born.append(change.entry.obj["metadata"]["name"])

    world.server.store.subscribe(note)
    return born


def assert_used_once(born: list[str]) -> None:
    assert [name for name, count in Counter(born).items() if count > 1] == []


async def a_pod_that_fails_again_and_again_has_a_new_name_each_time(world: World) -> None:
    born = watch_names(world)
    await world.apply(serving(clique("a", exits_after="20s", code=1, restart_policy="Never")))
    await world.wait_until(lambda: len(born) == 7)
    assert_used_once(born)
    await world.delete(PODCLIQUESETS, "job")


async def an_index_that_is_scaled_in_and_out_has_a_new_name_each_time(world: World) -> None:
    born = watch_names(world)
    await world.apply(serving(clique("a", 3, 1, exits_after="8760h")))
    await world.wait_until(lambda: len(running(world)) == 3)
    for _ in range(2):
        await world.scale(PODCLIQUES, "job-0-a", 1)
        await world.wait_until(lambda: len(world.pods()) == 1)
        await world.scale(PODCLIQUES, "job-0-a", 3)
        await world.wait_until(lambda: len(running(world)) == 3)
        # Nothing that only memory holds may be needed.
        await world.restart_controller()
        await world.settle()
    assert len(born) == 7
    assert_used_once(born)


async def a_pod_that_an_update_replaces_has_a_new_name(world: World) -> None:
    born = watch_names(world)
    await world.apply(serving(clique("a", 2, 1, exits_after="8760h")))
    await world.wait_until(lambda: len(running(world)) == 2)
    await change_image(world, NEW)
    await world.settle()
    assert len(born) == 4
    assert_used_once(born)


NAME_STORIES = tuple(
    Story(tell.__name__, nodes, tell)
    for nodes, tell in (
        (1, a_pod_that_fails_again_and_again_has_a_new_name_each_time),
        (3, an_index_that_is_scaled_in_and_out_has_a_new_name_each_time),
        (2, a_pod_that_an_update_replaces_has_a_new_name),
    )
)
