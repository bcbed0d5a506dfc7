"""Stories of native gangs for `test_native_crashes.py`: small sets, so that a crash at every write stays cheap.

One pod per node. `pair` is a base gang of a clique and a group replica, a scaled gang, and pods above the minimum.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODS
from grove.api.types.meta import JsonObject
from grove.api.types.pod import Pod
from grove.kube.transport import MERGE_PATCH, Request
from tests.backends.native_world import NativeWorld

OLD, NEW = "old", "new"


def clique(name: str, replicas: int, minimum: int, **spec: object) -> JsonObject:
    container = {"name": "main", "image": OLD, "resources": {"requests": {"memory": "80Mi"}}}
    pod_spec = {"containers": [container], **spec}
    return {
        "name": name,
        "spec": {"roleName": name, "replicas": replicas, "minAvailable": minimum, "podSpec": pod_spec},
    }


def a_set(*cliques: JsonObject, groups: tuple[JsonObject, ...] = (), **template: object) -> JsonObject:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s"},
        "spec": {
            "replicas": 1,
            "template": {
                "cliques": list(cliques),
                "podCliqueScalingGroups": list(groups),
                "terminationDelay": "10s",
                **template,
            },
        },
    }


def group(*members: str, replicas: int = 1, minimum: int = 1) -> JsonObject:
    return {"name": "g", "cliqueNames": list(members), "replicas": replicas, "minAvailable": minimum}


def pair(**template: object) -> JsonObject:
    """Six pods: `a` (two, one needed) and `g-0` make the base gang of three, `g-1` is a scaled gang."""
    return a_set(
        clique("a", 2, 1), clique("b", 1, 1), clique("c", 1, 1), groups=(group("b", "c", replicas=2),), **template
    )


def lone_member() -> JsonObject:
    """A base gang of two cliques, one of them the only member of its group: recreated, it is a unit of one."""
    return a_set(clique("a", 2, 2), clique("b", 2, 2), groups=(group("b"),))


def placed(world: NativeWorld) -> dict[str, int]:
    """Pods on nodes that stay, by clique."""
    found: dict[str, int] = {}
    for pod in world.pods():
        if pod.spec.node_name and not pod.metadata.is_terminating:
            name = pod.metadata.labels[labels.PODCLIQUE]
            found[name] = found.get(name, 0) + 1
    return found


def pods_of(world: NativeWorld, name: str) -> list[Pod]:
    found = [pod for pod in world.pods() if pod.metadata.labels[labels.PODCLIQUE] == name and pod.is_active]
    return sorted(found, key=lambda pod: int(pod.metadata.labels[labels.POD_INDEX]))


async def expect_placed(world: NativeWorld, count: int) -> None:
    await world.settle()
    assert sum(placed(world).values()) == count, placed(world)
    world.rules.check()


async def patch_set(world: NativeWorld, change: JsonObject) -> None:
    path = PODCLIQUESETS.path("default", "s")
    body = msgspec.json.encode({"spec": change})
    response = await world.user.send(Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH))
    assert response.status == 200, response.body


async def lose(world: NativeWorld, clique_name: str, index: int = 0) -> str:
    """A pod of a clique dies, and its node takes no other; the node's name."""
    pod = pods_of(world, clique_name)[index]
    await world.nodes.cordon(pod.spec.node_name)
    await world.client.delete(PODS, "default", pod.metadata.name, uid=pod.metadata.uid)
    return pod.spec.node_name


async def begin(world: NativeWorld, manifest: JsonObject, count: int) -> None:
    await world.apply(manifest)
    await expect_placed(world, count)


# --- the stories -----------------------------------------------------------------------------------------------------


async def first_placement(world: NativeWorld) -> None:
    await world.apply(pair())
    await expect_placed(world, 0)
    await world.add_nodes(1)
    await world.settle()
    assert {"s-0-a", "s-0-g-0-b", "s-0-g-0-c"} == set(placed(world))
    await world.add_nodes(3)
    await expect_placed(world, 6)


async def a_dead_member_comes_back_alone(world: NativeWorld) -> None:
    first = await lose(world, "s-0-a")
    second = await lose(world, "s-0-g-0-b")
    await world.clock.sleep(3)
    await world.nodes.uncordon(first)
    await world.nodes.uncordon(second)
    await expect_placed(world, 6)


async def a_clique_is_scaled_out_and_in(world: NativeWorld) -> None:
    await world.scale(PODCLIQUES, "s-0-a", 4)
    await expect_placed(world, 8)
    await world.scale(PODCLIQUES, "s-0-a", 1)
    await expect_placed(world, 5)


async def a_group_is_scaled_out_and_in(world: NativeWorld) -> None:
    await world.scale(GROUPS, "s-0-g", 3)
    await expect_placed(world, 8)
    await world.scale(GROUPS, "s-0-g", 1)
    await expect_placed(world, 4)
    await world.scale(GROUPS, "s-0-g", 2)
    await expect_placed(world, 6)


async def a_set_is_scaled_out_and_in(world: NativeWorld) -> None:
    await world.scale(PODCLIQUESETS, "s", 2)
    await expect_placed(world, 12)
    await world.scale(PODCLIQUESETS, "s", 1)
    await expect_placed(world, 6)


async def a_gang_is_terminated_and_made_anew(world: NativeWorld) -> None:
    await world.clock.sleep(30)
    node = await lose(world, "s-0-g-0-b")
    await world.clock.sleep(60)
    await world.nodes.uncordon(node)
    await expect_placed(world, 6)


async def a_lone_member_is_terminated_and_made_anew(world: NativeWorld) -> None:
    await world.clock.sleep(30)
    nodes = [await lose(world, "s-0-g-0-b"), await lose(world, "s-0-g-0-b")]
    await world.clock.sleep(60)
    for node in nodes:
        await world.nodes.uncordon(node)
    await expect_placed(world, 4)
    # The clique that was not torn down is repaired as before.
    await world.client.delete(PODS, "default", pods_of(world, "s-0-a")[0].metadata.name)
    await expect_placed(world, 4)


async def a_group_replica_is_updated(world: NativeWorld) -> None:
    await patch_set(world, {"template": _with_image(pair(), "b", NEW)})
    await expect_placed(world, 6)


async def a_waiting_gang_is_updated(world: NativeWorld) -> None:
    """A group replica of it is made anew before anything was placed: it is still one gang."""
    await patch_set(world, {"template": _with_image(pair(), "b", NEW)})
    await expect_placed(world, 0)
    await world.add_nodes(4)
    await expect_placed(world, 6)


async def a_set_is_deleted(world: NativeWorld) -> None:
    await world.delete(PODCLIQUESETS, "s")
    await expect_placed(world, 0)
    assert (world.groups, world.roots) == ({}, {})


def _with_image(manifest: JsonObject, name: str, image: str) -> JsonObject:
    template: JsonObject = manifest["spec"]["template"]
    for one in template["cliques"]:
        if one["name"] == name:
            one["spec"]["podSpec"]["containers"][0]["image"] = image
    return template


Telling = Callable[[NativeWorld], Awaitable[None]]


class NativeStory(msgspec.Struct, frozen=True):
    tell: Telling
    nodes: int
    # Comes before it, and is not crashed in.
    begin: Telling | None = None

    @property
    def name(self) -> str:
        return str(self.tell.__name__).replace("_", " ")


_BEGIN_PAIR = partial(begin, manifest=pair(), count=6)
_BEGIN_LONE = partial(begin, manifest=lone_member(), count=4)

STORIES = (
    NativeStory(first_placement, 2),
    NativeStory(a_dead_member_comes_back_alone, 6, _BEGIN_PAIR),
    NativeStory(a_clique_is_scaled_out_and_in, 8, _BEGIN_PAIR),
    NativeStory(a_group_is_scaled_out_and_in, 8, _BEGIN_PAIR),
    NativeStory(a_set_is_scaled_out_and_in, 12, _BEGIN_PAIR),
    NativeStory(a_gang_is_terminated_and_made_anew, 6, _BEGIN_PAIR),
    NativeStory(a_lone_member_is_terminated_and_made_anew, 4, _BEGIN_LONE),
    NativeStory(a_group_replica_is_updated, 6, _BEGIN_PAIR),
    NativeStory(a_waiting_gang_is_updated, 2, partial(begin, manifest=pair(), count=0)),
    NativeStory(a_set_is_deleted, 6, _BEGIN_PAIR),
)
