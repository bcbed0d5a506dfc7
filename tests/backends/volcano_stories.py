"""Stories of gangs that Volcano places, for `test_volcano_stories.py`: small sets, so that crashes stay cheap.

One pod per node. The stand-in has Volcano's habits: pods that ended count as ready, and it relaxes no gang by itself.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from grove.api import labels
from grove.api.resources import PODCLIQUESETS, PODS
from grove.api.types.meta import JsonObject
from grove.api.types.pod import Pod
from grove.api.types.scheduler_object import SchedulerObject
from tests.backends.native_stories import a_set, clique, group
from tests.backends.scheduler_world import VOLCANO, SchedulerWorld

HOLD = "example.com/hold"
# (subGroupSize, minSubGroups)
Policy = tuple[int, int]
RELAXED: Policy = (1, 0)


def role(name: str, count: int) -> JsonObject:
    """A clique that needs all of its pods."""
    return clique(name, count, count, schedulerName=VOLCANO)


def two_cliques(delay: str = "10s") -> JsonObject:
    """One gang of four pods."""
    return a_set(role("a", 2), role("b", 2), terminationDelay=delay)


def patient() -> JsonObject:
    """It is not torn down while a story is told."""
    return two_cliques("1000h")


def three_replicas() -> JsonObject:
    """A base gang of five pods, with two of three group replicas: one of those may be torn down alone."""
    return a_set(role("a", 1), role("b", 2), groups=(group("b", replicas=3, minimum=2),))


def alive(world: SchedulerWorld, *cliques: str) -> list[Pod]:
    """Pods that stay, of these cliques or of all."""
    return [
        pod
        for pod in world.pods()
        if not pod.metadata.is_terminating and (not cliques or pod.metadata.labels[labels.PODCLIQUE] in cliques)
    ]


def placed(world: SchedulerWorld, *cliques: str) -> list[Pod]:
    return [pod for pod in alive(world, *cliques) if pod.spec.node_name]


async def expect_placed(world: SchedulerWorld, count: int) -> None:
    await world.settle()
    found = [(pod.metadata.name, pod.spec.node_name) for pod in placed(world)]
    assert len(found) == count, found


def policies(world: SchedulerWorld, gang: str = "s-0") -> dict[str, Policy]:
    """What is asked of each clique."""
    return {
        one["name"]: (one["subGroupSize"], one["minSubGroups"]) for one in podgroup(world, gang).spec["subGroupPolicy"]
    }


def podgroup(world: SchedulerWorld, gang: str = "s-0") -> SchedulerObject:
    (found,) = (one for one in world.objects(world.podgroups) if one.metadata.name == gang)
    return found


async def lose(world: SchedulerWorld, clique_name: str) -> str:
    """A pod of a clique dies, and its node takes no other; the node's name."""
    pod = placed(world, clique_name)[0]
    await world.nodes.cordon(pod.spec.node_name)
    await world.client.delete(PODS, "default", pod.metadata.name, uid=pod.metadata.uid)
    return pod.spec.node_name


async def hold(world: SchedulerWorld, clique_name: str) -> list[str]:
    """Another controller's finalizer keeps the pods of a clique when they are deleted."""
    held = [pod.metadata.name for pod in alive(world, clique_name)]
    for name in held:
        await world.client.patch(PODS, "default", name, {"metadata": {"finalizers": [HOLD]}})
    return held


async def end_well(world: SchedulerWorld, held: list[str]) -> None:
    """Their containers ended with code 0 when they were asked to: what is left of them is `Succeeded`."""
    await world.wait_until(
        lambda: all(pod.metadata.is_terminating for pod in world.pods() if pod.metadata.name in held)
    )
    for name in held:
        await world.client.patch(PODS, "default", name, {"status": {"phase": "Succeeded"}}, subresource="status")


async def let_go(world: SchedulerWorld, held: list[str]) -> None:
    for name in held:
        await world.client.patch(PODS, "default", name, {"metadata": {"finalizers": None}})


async def begin(world: SchedulerWorld, manifest: JsonObject, count: int) -> None:
    await world.apply(manifest)
    await expect_placed(world, count)


# --- the stories -----------------------------------------------------------------------------------------------------


async def ended_pods_of_a_terminated_gang_start_no_half_of_the_next(world: SchedulerWorld) -> None:
    held = await hold(world, "s-0-a")
    node = await lose(world, "s-0-b")
    await end_well(world, held)
    # Room for three of four.
    await expect_placed(world, 0)
    await world.nodes.uncordon(node)
    await expect_placed(world, 4)
    await let_go(world, held)
    await expect_placed(world, 4)


async def ended_pods_of_a_deleted_set_start_no_half_of_the_next(world: SchedulerWorld) -> None:
    held = await hold(world, "s-0-a")
    node = placed(world, "s-0-b")[0].spec.node_name
    await world.delete(PODCLIQUESETS, "s")
    await end_well(world, held)
    await world.nodes.cordon(node)
    await world.wait_until(lambda: not world.objects(PODCLIQUESETS))
    await world.apply(two_cliques())
    await expect_placed(world, 0)
    await world.nodes.uncordon(node)
    await expect_placed(world, 4)
    await let_go(world, held)
    await expect_placed(world, 4)


async def a_clique_that_cannot_be_repaired_holds_up_no_other(world: SchedulerWorld) -> None:
    await lose(world, "s-0-a")
    node = await lose(world, "s-0-b")
    await expect_placed(world, 2)
    await world.nodes.uncordon(node)
    await expect_placed(world, 3)
    assert policies(world) == {"s-0-a": RELAXED, "s-0-b": RELAXED}


async def a_terminated_gang_is_placed_as_a_whole_again(world: SchedulerWorld) -> None:
    assert policies(world) == {"s-0-a": RELAXED, "s-0-b": RELAXED}
    node = await lose(world, "s-0-a")
    await expect_placed(world, 0)
    assert policies(world) == {"s-0-a": (2, 1), "s-0-b": (2, 1)}
    await world.nodes.uncordon(node)
    await expect_placed(world, 4)
    assert policies(world) == {"s-0-a": RELAXED, "s-0-b": RELAXED}


async def a_part_that_is_made_again_alone_is_placed_as_a_whole(world: SchedulerWorld) -> None:
    await world.clock.sleep(30)
    parts = ("s-0-a", "s-0-g-0-b", "s-0-g-1-b")
    before = {pod.metadata.uid for pod in alive(world, "s-0-a", "s-0-g-1-b")}
    nodes = [await lose(world, "s-0-g-0-b"), await lose(world, "s-0-g-0-b")]
    await expect_placed(world, 5)
    assert policies(world) == dict(zip(parts, (RELAXED, (2, 1), RELAXED), strict=True))
    await world.nodes.uncordon(nodes[0])
    await expect_placed(world, 5)
    await world.nodes.uncordon(nodes[1])
    await expect_placed(world, 7)
    assert policies(world) == dict.fromkeys(parts, RELAXED)
    assert {pod.metadata.uid for pod in alive(world, "s-0-a", "s-0-g-1-b")} == before


async def pods_that_were_made_before_the_label_keep_their_places(world: SchedulerWorld) -> None:
    """The operator is replaced by a version that knows the label."""
    before = {pod.metadata.uid for pod in alive(world)}
    await expect_placed(world, 4)
    assert {pod.metadata.uid for pod in alive(world)} == before
    assert selected_by_uid(world) == {"s-0-a": False, "s-0-b": False}
    await lose(world, "s-0-a")
    node = await lose(world, "s-0-b")
    await world.nodes.uncordon(node)
    await expect_placed(world, 3)
    # The last pod without the label is replaced; the clique that waits is still repaired pod by pod.
    for pod in placed(world):
        if labels.PODCLIQUE_UID not in pod.metadata.labels:
            await world.client.delete(PODS, "default", pod.metadata.name)
    await expect_placed(world, 3)
    assert selected_by_uid(world) == {"s-0-a": True, "s-0-b": True}
    assert len({pod.metadata.uid for pod in alive(world)} - before) == 4


async def a_gang_that_waited_before_the_label_is_still_placed_as_a_whole(world: SchedulerWorld) -> None:
    before = {pod.metadata.uid for pod in alive(world)}
    await expect_placed(world, 0)
    await world.add_nodes(1)
    await expect_placed(world, 4)
    assert {pod.metadata.uid for pod in alive(world)} == before


async def make_old(world: SchedulerWorld) -> None:
    """Pods and PodGroups as versions before the label wrote them."""
    for pod in alive(world):
        patch = {"metadata": {"labels": {labels.PODCLIQUE_UID: None}}}
        await world.client.patch(PODS, "default", pod.metadata.name, patch)
    policies = [
        {
            "name": name,
            "labelSelector": {"matchLabels": {labels.PODCLIQUE: name}},
            "matchLabelKeys": [labels.PODCLIQUE],
            "subGroupSize": 2,
            "minSubGroups": 1,
        }
        for name in ("s-0-a", "s-0-b")
    ]
    spec = {"minMember": 4, "minResources": None, "subGroupPolicy": policies}
    await world.client.patch(world.podgroups, "default", "s-0", {"spec": spec})


def selected_by_uid(world: SchedulerWorld) -> dict[str, bool]:
    return {
        one["name"]: labels.PODCLIQUE_UID in one["labelSelector"]["matchLabels"]
        for one in podgroup(world).spec["subGroupPolicy"]
    }


Telling = Callable[[SchedulerWorld], Awaitable[None]]


class VolcanoStory(msgspec.Struct, frozen=True):
    tell: Telling
    nodes: int
    # Comes before it, and is not crashed in.
    begin: Telling
    # False: three of four pods find a node, and which one waits depends on the moment of a crash.
    has_one_end: bool = True

    @property
    def name(self) -> str:
        return str(self.tell.__name__).replace("_", " ")


async def begin_old(world: SchedulerWorld, manifest: JsonObject, count: int) -> None:
    """Replace an operator of a version before the label by this one."""
    await begin(world, manifest, count)
    await world.crash_controller()
    await make_old(world)
    await world.restart_controller()


_TWO = partial(begin, manifest=two_cliques(), count=4)
_PATIENT = partial(begin, manifest=patient(), count=4)

STORIES = (
    VolcanoStory(ended_pods_of_a_terminated_gang_start_no_half_of_the_next, 4, _TWO),
    VolcanoStory(ended_pods_of_a_deleted_set_start_no_half_of_the_next, 4, _TWO),
    VolcanoStory(a_clique_that_cannot_be_repaired_holds_up_no_other, 4, _PATIENT),
    VolcanoStory(a_terminated_gang_is_placed_as_a_whole_again, 4, _TWO),
    VolcanoStory(
        a_part_that_is_made_again_alone_is_placed_as_a_whole, 7, partial(begin, manifest=three_replicas(), count=7)
    ),
    VolcanoStory(
        pods_that_were_made_before_the_label_keep_their_places,
        4,
        partial(begin_old, manifest=patient(), count=4),
        has_one_end=False,
    ),
    VolcanoStory(
        a_gang_that_waited_before_the_label_is_still_placed_as_a_whole,
        3,
        partial(begin_old, manifest=two_cliques(), count=0),
    ),
)
