"""Topology as a user sees it: who is packed together, what happens when that cannot be, and who follows whom.

One pod per node: 80Mi pods on 150Mi nodes. Every story lays out its own racks. Those of `CRASHING_TOPOLOGY` are also
told with a crash at every write (`test_crash_everywhere.py`).
"""

from typing import Any

from grove.api import labels
from grove.api.reasons import STATE_CONDITIONS
from grove.api.resources import GROUPS, NODES, PODCLIQUESETS, PODGANGS, PODS, TOPOLOGY_BINDINGS
from grove.api.types.meta import Condition, JsonObject, find_condition
from grove.api.types.pod import Pod
from grove.api.types.podgang import GangTopologyConstraint
from grove.sim.simulation import World
from tests.simulation.stories import Story, expect_running

ZONE = "topology.kubernetes.io/zone"
BLOCK = "topology.kubernetes.io/block"
RACK = "topology.kubernetes.io/rack"
ROW = "example.com/row"
DC = {"zone": ZONE, "block": BLOCK, "rack": RACK}


# What a user writes


def binding(name: str = "dc", levels: dict[str, str] = DC) -> JsonObject:
    return {
        "apiVersion": TOPOLOGY_BINDINGS.api_version,
        "kind": TOPOLOGY_BINDINGS.kind,
        "metadata": {"name": name},
        "spec": {"levels": [{"domain": domain, "key": key} for domain, key in levels.items()]},
    }


def pack(name: str = "", **domains: str) -> JsonObject:
    return {"pack": domains, **({"topologyName": name} if name else {})}


def clique(name: str, replicas: int = 1, constraint: JsonObject | None = None, **spec: Any) -> JsonObject:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"memory": "80Mi"}}}
    return {
        "name": name,
        "spec": {"roleName": name, "replicas": replicas, "podSpec": {"containers": [container]}, **spec},
        **({"topologyConstraint": constraint} if constraint else {}),
    }


def group(name: str, *members: str, constraint: JsonObject | None = None, **fields: Any) -> JsonObject:
    packed = {"topologyConstraint": constraint} if constraint else {}
    return {"name": name, "cliqueNames": list(members), **packed, **fields}


def pcs(
    *cliques: JsonObject,
    groups: tuple[JsonObject, ...] = (),
    constraint: JsonObject | None = None,
    name: str = "t",
    replicas: int = 1,
) -> JsonObject:
    template: JsonObject = {"cliques": list(cliques), "podCliqueScalingGroups": list(groups)}
    if constraint is not None:
        template["topologyConstraint"] = constraint
    return {
        "apiVersion": PODCLIQUESETS.api_version,
        "kind": PODCLIQUESETS.kind,
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": template},
    }


async def add_rack(world: World, rack: str, nodes: int, *, block: str = "b0", **more: str) -> None:
    await world.add_nodes(nodes, {ZONE: "z0", BLOCK: block, RACK: rack, **more})


# What a user sees


def places(world: World, key: str = RACK, **selected: str) -> dict[str, list[str]]:
    """In which domains the running pods of each clique are, each once."""
    nodes = {node.metadata.name: node.metadata.labels for node in world.objects(NODES)}
    found: dict[str, set[str]] = {}
    for pod in world.running_pods():
        if all(pod.metadata.labels.get(name) == value for name, value in selected.items()):
            found.setdefault(pod.metadata.labels[labels.PODCLIQUE], set()).add(nodes[pod.spec.node_name].get(key, ""))
    return {name: sorted(values) for name, values in sorted(found.items())}


def domains(world: World, key: str = RACK) -> list[str]:
    """The domains that all running pods are in."""
    return sorted({value for values in places(world, key).values() for value in values})


def waiting(world: World) -> list[Pod]:
    return [pod for pod in world.pods() if not pod.is_scheduled]


def reasons(world: World) -> set[str]:
    """What the waiting pods were told."""
    found = (find_condition(pod.status.conditions, "PodScheduled") for pod in waiting(world))
    return {condition.message if condition else "" for condition in found}


def availability(world: World, name: str = "t") -> Condition:
    (found,) = [one for one in world.objects(PODCLIQUESETS) if one.metadata.name == name]
    condition = find_condition(found.status.conditions, "TopologyLevelsUnavailable")
    assert condition is not None
    return condition


def conditions(world: World, name: str = "t") -> dict[str, tuple[str, str]]:
    """Status and reason of every condition of a set that reports a problem."""
    (found,) = [one for one in world.objects(PODCLIQUESETS) if one.metadata.name == name]
    reported = (one for one in found.status.conditions if one.type not in STATE_CONDITIONS)
    return {one.type: (one.status, one.reason) for one in reported}


def constraints(world: World) -> dict[str, tuple[str, str, list[str]]]:
    """What every gang says: its binding, and the required keys of itself and of its podgroups."""
    return {
        gang.metadata.name: (
            gang.metadata.annotations.get(labels.TOPOLOGY_NAME, ""),
            required_key(gang.spec.topology_constraint),
            [required_key(group.topology_constraint) for group in gang.spec.podgroups],
        )
        for gang in world.objects(PODGANGS)
    }


def required_key(constraint: GangTopologyConstraint | None) -> str:
    pack_constraint = constraint.pack_constraint if constraint else None
    return (pack_constraint.required if pack_constraint else None) or ""


# Packing


async def a_required_clique_is_packed(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 2)
    await add_rack(world, "r1", 3)
    await world.apply(pcs(clique("a", 3, pack("dc", required="rack")), clique("b", 2, pack("dc", required="rack"))))
    await expect_running(world, 5)
    assert places(world) == {"t-0-a": ["r1"], "t-0-b": ["r0"]}


async def every_required_group_replica_is_packed(world: World) -> None:
    await world.apply(binding())
    # Whoever fills one rack after the other puts half of a group replica into the first and half into the second.
    for rack, nodes in (("r0", 2), ("r1", 3), ("r2", 2), ("r3", 2)):
        await add_rack(world, rack, nodes)
    packed = group("g", "b", "c", replicas=3, minAvailable=2, constraint=pack("dc", required="rack"))
    await world.apply(pcs(clique("a"), clique("b"), clique("c"), groups=(packed,)))
    await expect_running(world, 7)
    found = places(world)
    for j in range(3):
        assert found[f"t-0-g-{j}-b"] == found[f"t-0-g-{j}-c"]
    assert len({found[f"t-0-g-{j}-b"][0] for j in range(3)}) == 3


async def a_required_set_replica_is_packed(world: World) -> None:
    await world.apply(binding())
    for rack, nodes in (("r0", 3), ("r1", 5), ("r2", 4)):
        await add_rack(world, rack, nodes)
    members = group("g", "b", "c", replicas=2, minAvailable=2)
    await world.apply(
        pcs(clique("a"), clique("b"), clique("c"), groups=(members,), constraint=pack("dc", required="rack"))
    )
    await expect_running(world, 5)
    assert domains(world) == ["r1"]
    await world.scale(PODCLIQUESETS, "t", 2)
    await expect_running(world, 5)
    await add_rack(world, "r2", 1)
    await expect_running(world, 10)
    assert domains(world) == ["r1", "r2"]
    assert len(places(world, **{labels.SET_REPLICA_INDEX: "1"})) == 5
    assert {tuple(found) for found in places(world, **{labels.SET_REPLICA_INDEX: "1"}).values()} == {("r2",)}


async def levels_nest(world: World) -> None:
    await world.apply(binding())
    for rack, block, nodes in (("r0", "b0", 2), ("r1", "b0", 2), ("r2", "b1", 2), ("r3", "b1", 2), ("r4", "b1", 2)):
        await add_rack(world, rack, nodes, block=block)
    packed = group("g", "b", "c", replicas=2, minAvailable=2, constraint=pack(required="rack"))
    await world.apply(
        pcs(
            clique("a", 2, pack(required="rack")),
            clique("b"),
            clique("c"),
            groups=(packed,),
            constraint=pack("dc", required="block"),
        )
    )
    await expect_running(world, 6)
    assert domains(world, BLOCK) == ["b1"]
    found = places(world)
    assert found["t-0-g-0-b"] == found["t-0-g-0-c"]
    assert found["t-0-g-1-b"] == found["t-0-g-1-c"]
    assert all(len(racks) == 1 for racks in found.values())


async def what_cannot_be_packed_waits_and_says_why(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 2)
    await add_rack(world, "r1", 2)
    await world.apply(pcs(clique("a", 3, pack("dc", required="rack"))))
    await expect_running(world, 0)
    assert reasons(world) == {
        (
            "t-0-a needs 3 pods of memory=80Mi together on one rack (topology.kubernetes.io/rack), "
            "the best rack has capacity for 2 (rack=r0)"
        )
    }
    await add_rack(world, "r1", 1)
    await expect_running(world, 3)
    assert places(world) == {"t-0-a": ["r1"]}


async def what_is_preferred_is_packed_if_it_can_be(world: World) -> None:
    await world.apply(binding())
    for rack, nodes in (("r0", 2), ("r1", 3), ("r2", 2)):
        await add_rack(world, rack, nodes)
    await world.apply(pcs(clique("a", 3, pack("dc", preferred="rack"))))
    await expect_running(world, 3)
    assert places(world) == {"t-0-a": ["r1"]}
    await world.apply(pcs(clique("a", 3, pack("dc", preferred="rack")), name="u"))
    await expect_running(world, 6)
    assert places(world)["u-0-a"] == ["r0", "r2"]


async def two_bindings_live_in_one_cluster(world: World) -> None:
    await world.apply(binding())
    await world.apply(binding("lab", {"row": ROW}))
    # Rows run across racks.
    for rack in ("r0", "r1", "r2"):
        for row in ("left", "right"):
            await add_rack(world, rack, 1, **{ROW: row})
    await world.apply(pcs(clique("a", 2, pack("dc", required="rack"))))
    await world.apply(pcs(clique("a", 2, pack("lab", required="row")), name="u"))
    await expect_running(world, 4)
    (rack,) = places(world)["t-0-a"]
    (row,) = places(world, ROW)["u-0-a"]
    gangs = {gang.metadata.name: gang for gang in world.objects(PODGANGS)}
    assert {name: gang.metadata.annotations[labels.TOPOLOGY_NAME] for name, gang in gangs.items()} == {
        "t-0": "dc", "u-0": "lab",
    }  # fmt: skip
    assert rack in ("r0", "r1", "r2")
    assert row in ("left", "right")


# Who follows whom


async def scaled_gangs_follow_their_base_gang(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 4, block="b0")
    await add_rack(world, "r1", 3, block="b1")
    await add_rack(world, "r2", 9, block="b2")
    members = group("g", "b", "c", replicas=1, minAvailable=1)
    await world.apply(
        pcs(clique("a"), clique("b"), clique("c"), groups=(members,), constraint=pack("dc", required="block"))
    )
    # The fullest block with room; in the others there is room for more.
    await expect_running(world, 3)
    assert domains(world, BLOCK) == ["b1"]
    await world.scale(GROUPS, "t-0-g", 2)
    await expect_running(world, 3)
    assert len(waiting(world)) == 2
    await add_rack(world, "r1", 1, block="b1")
    await expect_running(world, 3)
    await add_rack(world, "r3", 1, block="b1")
    await expect_running(world, 5)
    assert domains(world, BLOCK) == ["b1"]


async def a_base_gang_is_at_home(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 3, block="b0")
    await add_rack(world, "r1", 9, block="b1")
    packed = group("g", "b", "c", replicas=1, minAvailable=1, constraint=pack(required="rack"))
    await world.apply(
        pcs(clique("a"), clique("b"), clique("c"), groups=(packed,), constraint=pack("dc", required="block"))
    )
    await expect_running(world, 3)
    assert domains(world, BLOCK) == ["b0"]


async def a_scaled_gang_with_a_constraint_of_its_own_follows_too(world: World) -> None:
    await world.scale(GROUPS, "t-0-g", 2)
    await expect_running(world, 3)
    # Half a rack is not enough, and another block is out of the question.
    await add_rack(world, "r2", 1, block="b0")
    await expect_running(world, 3)
    await add_rack(world, "r2", 1, block="b0")
    await expect_running(world, 5)
    assert domains(world, BLOCK) == ["b0"]
    assert places(world)["t-0-g-1-b"] == places(world)["t-0-g-1-c"] == ["r2"]


async def a_replacement_stays_where_its_clique_is(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 3)
    await add_rack(world, "r1", 5)
    await world.apply(pcs(clique("a", 3, pack("dc", required="rack"), minAvailable=2)))
    await expect_running(world, 3)
    assert domains(world) == ["r0"]
    victim = world.running_pods()[0]
    await world.nodes.cordon(victim.spec.node_name)
    await world.delete(PODS, victim.metadata.name)
    await expect_running(world, 2)
    assert len(waiting(world)) == 1
    await world.nodes.uncordon(victim.spec.node_name)
    await expect_running(world, 3)
    assert domains(world) == ["r0"]


async def a_clique_whose_rack_is_lost_bit_by_bit_finds_another(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 3)
    await add_rack(world, "r1", 3)
    await world.apply(pcs(clique("a", 3, pack("dc", required="rack"), minAvailable=2)))
    await expect_running(world, 3)
    assert domains(world) == ["r0"]
    first, *others = [pod.spec.node_name for pod in world.running_pods()]
    await world.nodes.remove(first)
    # Its replacement has to follow the others, and there is no room.
    await expect_running(world, 2)
    for name in others:
        await world.nodes.remove(name)
    await expect_running(world, 3)
    assert domains(world) == ["r1"]


# What is missing


async def without_its_binding_a_new_gang_is_placed_anywhere_and_is_not_moved_later(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 1)
    await add_rack(world, "r1", 1)
    await world.apply(pcs(clique("a", 2, pack("dc", required="rack")), replicas=0))
    await world.delete(TOPOLOGY_BINDINGS, "dc", namespace="")
    await world.scale(PODCLIQUESETS, "t", 1)
    await expect_running(world, 2)
    assert places(world) == {"t-0-a": ["r0", "r1"]}
    assert constraints(world) == {"t-0": ("", "", [""])}
    assert conditions(world) == {"TopologyLevelsUnavailable": ("Unknown", "ClusterTopologyNotFound")}
    assert availability(world).message == (
        'there is no ClusterTopologyBinding "dc": create it; until then new gangs are placed without it'
    )
    before = {pod.metadata.uid for pod in world.pods()}
    await world.apply(binding())
    await expect_running(world, 2)
    assert {pod.metadata.uid for pod in world.pods()} == before
    assert constraints(world) == {"t-0": ("dc", "", [RACK])}
    assert conditions(world) == {"TopologyLevelsUnavailable": ("False", "AllClusterTopologyLevelsAvailable")}
    # From now on it applies again.
    await add_rack(world, "r2", 1)
    await world.scale(PODCLIQUESETS, "t", 2)
    await expect_running(world, 2)
    await add_rack(world, "r2", 1)
    await expect_running(world, 4)
    assert places(world)["t-1-a"] == ["r2"]


async def without_a_level_a_new_gang_keeps_the_others(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 1, block="b0")
    await add_rack(world, "r1", 1, block="b1")
    await add_rack(world, "r2", 1, block="b1")
    await world.apply(pcs(clique("a", 2, pack(required="rack")), constraint=pack("dc", required="block"), replicas=0))
    await world.apply(binding(levels={"zone": ZONE, "block": BLOCK}))
    await world.scale(PODCLIQUESETS, "t", 1)
    await expect_running(world, 2)
    assert places(world, BLOCK) == {"t-0-a": ["b1"]}
    assert constraints(world) == {"t-0": ("dc", BLOCK, [""])}
    assert conditions(world) == {"TopologyLevelsUnavailable": ("True", "ClusterTopologyLevelsUnavailable")}
    await world.apply(binding())
    await expect_running(world, 2)
    assert constraints(world) == {"t-0": ("dc", BLOCK, [RACK])}


async def a_replacement_keeps_its_domain_while_the_binding_is_gone(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 2)
    await add_rack(world, "r1", 5)
    await world.apply(pcs(clique("a", 2, pack("dc", required="rack"), minAvailable=1)))
    await expect_running(world, 2)
    before = constraints(world)
    await world.delete(TOPOLOGY_BINDINGS, "dc", namespace="")
    await world.settle()
    victim = world.running_pods()[0]
    await world.nodes.cordon(victim.spec.node_name)
    await world.delete(PODS, victim.metadata.name)
    await expect_running(world, 1)
    assert [pod.spec.node_selector for pod in waiting(world)] == [{RACK: "r0"}]
    assert constraints(world) == before
    await world.nodes.uncordon(victim.spec.node_name)
    await expect_running(world, 2)
    assert domains(world) == ["r0"]


async def a_scaled_gang_that_is_made_while_the_binding_is_gone_follows_nothing(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 2, block="b0")
    await add_rack(world, "r1", 3, block="b1")
    members = group("g", "b", replicas=1, minAvailable=1)
    await world.apply(pcs(clique("a"), clique("b"), groups=(members,), constraint=pack("dc", required="block")))
    await expect_running(world, 2)
    await world.delete(TOPOLOGY_BINDINGS, "dc", namespace="")
    await world.scale(GROUPS, "t-0-g", 2)
    await expect_running(world, 3)
    assert places(world, BLOCK) == {"t-0-a": ["b0"], "t-0-g-0-b": ["b0"], "t-0-g-1-b": ["b1"]}
    assert constraints(world) == {"t-0": ("dc", BLOCK, ["", ""]), "t-0-g-0": ("", "", [""])}


# What is missing, where the operator is set up to wait for it


async def a_missing_binding_is_waited_for(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 1)
    await add_rack(world, "r1", 2)
    await world.apply(pcs(clique("a", 2, pack("dc", required="rack")), replicas=0))
    await world.delete(TOPOLOGY_BINDINGS, "dc", namespace="")
    await world.scale(PODCLIQUESETS, "t", 1)
    await world.settle()
    assert world.pods() == ()
    assert conditions(world) == {"TopologyLevelsUnavailable": ("Unknown", "ClusterTopologyNotFound")}
    assert availability(world).message == (
        'there is no ClusterTopologyBinding "dc": create it; until then no pod of a new gang is created'
    )
    await world.apply(binding())
    await expect_running(world, 2)
    assert places(world) == {"t-0-a": ["r1"]}
    condition = availability(world)
    assert (condition.status, condition.reason) == ("False", "AllClusterTopologyLevelsAvailable")


async def a_missing_level_is_waited_for(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 1)
    await add_rack(world, "r1", 2)
    await world.apply(pcs(clique("a", 2, pack("dc", required="rack")), replicas=0))
    await world.apply(binding(levels={"zone": ZONE}))
    await world.scale(PODCLIQUESETS, "t", 1)
    await world.settle()
    assert world.pods() == ()
    condition = availability(world)
    assert (condition.status, condition.reason) == ("True", "ClusterTopologyLevelsUnavailable")
    assert condition.message == (
        'ClusterTopologyBinding "dc" has no level rack: add it; until then no pod of a new gang is created'
    )
    await world.apply(binding())
    await expect_running(world, 2)
    assert places(world) == {"t-0-a": ["r1"]}


async def what_runs_goes_on_while_its_binding_is_gone(world: World) -> None:
    await world.apply(binding())
    await add_rack(world, "r0", 3)
    await add_rack(world, "r1", 5)
    await world.apply(pcs(clique("a", 2, pack("dc", required="rack")), replicas=1))
    await expect_running(world, 2)
    before = world.objects(PODGANGS)
    await world.delete(TOPOLOGY_BINDINGS, "dc", namespace="")
    await world.settle()
    assert availability(world).reason == "ClusterTopologyNotFound"
    assert [gang.spec for gang in world.objects(PODGANGS)] == [gang.spec for gang in before]
    # A replacement is made, and stays; a new gang waits.
    await world.delete(PODS, world.running_pods()[0].metadata.name)
    await world.scale(PODCLIQUESETS, "t", 2)
    await expect_running(world, 2)
    assert places(world) == {"t-0-a": ["r0"]}
    assert len(world.pods()) == 2
    (gang,) = [gang for gang in world.objects(PODGANGS) if gang.metadata.name == "t-0"]
    assert gang.spec.podgroups[0].topology_constraint == before[0].spec.podgroups[0].topology_constraint
    await world.apply(binding())
    await expect_running(world, 4)
    assert {name: len(found) for name, found in places(world).items()} == {"t-0-a": 1, "t-1-a": 1}


_TOLD = (
    a_required_clique_is_packed,
    every_required_group_replica_is_packed,
    a_required_set_replica_is_packed,
    levels_nest,
    what_cannot_be_packed_waits_and_says_why,
    what_is_preferred_is_packed_if_it_can_be,
    two_bindings_live_in_one_cluster,
    scaled_gangs_follow_their_base_gang,
    a_scaled_gang_with_a_constraint_of_its_own_follows_too,
    a_replacement_stays_where_its_clique_is,
    a_clique_whose_rack_is_lost_bit_by_bit_finds_another,
    without_its_binding_a_new_gang_is_placed_anywhere_and_is_not_moved_later,
    without_a_level_a_new_gang_keeps_the_others,
    a_replacement_keeps_its_domain_while_the_binding_is_gone,
    a_scaled_gang_that_is_made_while_the_binding_is_gone_follows_nothing,
)
_WAITING = (
    a_missing_binding_is_waited_for,
    a_missing_level_is_waited_for,
    what_runs_goes_on_while_its_binding_is_gone,
)
_BEGUN = {a_scaled_gang_with_a_constraint_of_its_own_follows_too: a_base_gang_is_at_home}
WAITING_STORIES = tuple(Story(name=tell.__name__, nodes=0, tell=tell) for tell in _WAITING)
TOPOLOGY_STORIES = tuple(Story(name=tell.__name__, nodes=0, tell=tell, begin=_BEGUN.get(tell)) for tell in _TOLD)
_CRASHING = (
    a_required_clique_is_packed,
    a_scaled_gang_with_a_constraint_of_its_own_follows_too,
    without_its_binding_a_new_gang_is_placed_anywhere_and_is_not_moved_later,
    a_replacement_keeps_its_domain_while_the_binding_is_gone,
)
CRASHING_TOPOLOGY = tuple(story for story in TOPOLOGY_STORIES if story.tell in _CRASHING)
