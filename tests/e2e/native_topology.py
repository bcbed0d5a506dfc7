"""Topology with native gangs: what must be close together is, or waits and says why. One pod per node.

Two bindings stand in the cluster, with other label keys for the same word: `rows` and `cells`.
"""

from collections.abc import Mapping

from grove.api import labels
from grove.api.resources import GROUPS, NODES, PODCLIQUESETS, PODS, TOPOLOGY_BINDINGS
from grove.api.types.meta import JsonObject
from grove.kube.api_errors import ApiError
from tests.e2e.harness import NODES_OF
from tests.e2e.native import NativeStage
from tests.e2e.native_stories import NativeStory, clique, rest, said_of

BLOCK = "e2e.grove.io/block"
RACK = "e2e.grove.io/rack"
CELL = "e2e.grove.io/cell"
BINDINGS: Mapping[str, Mapping[str, str]] = {"rows": {"block": BLOCK, "rack": RACK}, "cells": {"rack": CELL}}


async def begin(stage: NativeStage, racks: Mapping[str, int]) -> None:
    """Bindings, and so many nodes in each rack; the block of rack `b0-r1` is `b0`."""
    for name, levels in BINDINGS.items():
        spec = {"levels": [{"domain": domain, "key": key} for domain, key in levels.items()]}
        head = {"apiVersion": TOPOLOGY_BINDINGS.api_version, "kind": TOPOLOGY_BINDINGS.kind}
        try:
            await stage.client.create(TOPOLOGY_BINDINGS, "", {**head, "metadata": {"name": name}, "spec": spec})
        except ApiError as error:
            if not error.is_already_exists:
                raise
    for rack, number in racks.items():
        await grow(stage, rack, number)


async def grow(stage: NativeStage, rack: str, number: int) -> None:
    await stage.add_nodes(number, {RACK: rack, BLOCK: rack.partition("-")[0]})


def a_set(
    *cliques: JsonObject, packed: JsonObject | None = None, groups: tuple[JsonObject, ...] = (), name: str = "packed"
) -> JsonObject:
    template: JsonObject = {"cliques": list(cliques), "podCliqueScalingGroups": list(groups)}
    if packed is not None:
        template["topologyConstraint"] = packed
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "template": template},
    }


def required(domain: str, binding: str = "rows") -> JsonObject:
    return {"topologyName": binding, "pack": {"required": domain}}


def preferred(domain: str) -> JsonObject:
    return {"topologyName": "rows", "pack": {"preferred": domain}}


def packed_clique(name: str, replicas: int, packed: JsonObject, minimum: int | None = None) -> JsonObject:
    return {**clique(name, replicas, minimum), "topologyConstraint": packed}


async def places(stage: NativeStage, key: str, *by: str) -> dict[tuple[str, ...], set[str]]:
    """The values of a node label under the pods that stay, by labels of the pods."""
    nodes = (await stage.client.list(NODES, label_selector=f"{NODES_OF}={stage.namespace}")).items
    values = {node.metadata.name: node.metadata.labels.get(key, "") for node in nodes}
    found: dict[tuple[str, ...], set[str]] = {}
    for pod in stage.pods():
        if pod.spec.node_name and not pod.metadata.is_terminating:
            whose = tuple(pod.metadata.labels.get(label, "") for label in by)
            found.setdefault(whose, set()).add(values[pod.spec.node_name])
    return found


# --- the stories -----------------------------------------------------------------------------------------------------


async def each_clique_is_in_one_rack(stage: NativeStage) -> None:
    await begin(stage, {"b0-r0": 1, "b0-r1": 2, "b1-r2": 1, "b1-r3": 2})
    rack = required("rack")
    await stage.apply(a_set(packed_clique("one", 2, rack), packed_clique("two", 2, rack)))
    await rest(stage, 4)
    found = await places(stage, RACK, labels.PODCLIQUE)
    assert sorted(map(sorted, found.values())) == [["b0-r1"], ["b1-r3"]]


async def each_group_replica_is_in_one_rack(stage: NativeStage) -> None:
    await begin(stage, {"b0-r0": 1, "b0-r1": 2, "b1-r2": 1, "b1-r3": 2})
    group: JsonObject = {"name": "g", "cliqueNames": ["one", "two"], "replicas": 2, "minAvailable": 2}
    group["topologyConstraint"] = required("rack")
    await stage.apply(a_set(clique("lead", 1), clique("one", 1), clique("two", 1), groups=(group,)))
    await rest(stage, 5)
    found = await places(stage, RACK, labels.GROUP_REPLICA_INDEX)
    assert sorted(map(sorted, (found[index,] for index in ("0", "1")))) == [["b0-r1"], ["b1-r3"]]


async def levels_hold_inside_each_other(stage: NativeStage) -> None:
    """All in one block, each group replica in one rack of it."""
    await begin(stage, {"b0-r0": 2, "b0-r1": 1, "b1-r2": 2, "b1-r3": 2, "b2-r4": 1, "b2-r5": 1, "b2-r6": 2})
    group: JsonObject = {"name": "g", "cliqueNames": ["one", "two"], "replicas": 2, "minAvailable": 2}
    group["topologyConstraint"] = required("rack")
    await stage.apply(a_set(clique("one", 1), clique("two", 1), groups=(group,), packed=required("block")))
    await rest(stage, 4)
    assert list((await places(stage, BLOCK)).values()) == [{"b1"}]
    found = await places(stage, RACK, labels.GROUP_REPLICA_INDEX)
    assert sorted(map(sorted, found.values())) == [["b1-r2"], ["b1-r3"]]


async def a_whole_replica_is_in_one_block_and_scaled_gangs_follow_it(stage: NativeStage) -> None:
    await begin(stage, {"b0-r0": 2, "b1-r1": 3})
    group: JsonObject = {"name": "g", "cliqueNames": ["one", "two"], "replicas": 2, "minAvailable": 1}
    members = (clique("lead", 1), clique("one", 1), clique("two", 1))
    await stage.apply(a_set(*members, groups=(group,), packed=required("block")))
    # The scaled gang would fit into the other block, where it is not wanted.
    await rest(stage, 3)
    assert list((await places(stage, BLOCK)).values()) == [{"b1"}]
    await grow(stage, "b1-r2", 2)
    await rest(stage, 5)
    await grow(stage, "b1-r2", 2)
    await stage.scale(GROUPS, "packed-0-g", 3)
    await rest(stage, 7)
    assert list((await places(stage, BLOCK)).values()) == [{"b1"}]


async def what_fits_nowhere_waits_and_says_why(stage: NativeStage) -> None:
    await begin(stage, {"b0-r0": 2, "b0-r1": 2})
    await stage.apply(a_set(packed_clique("one", 3, required("rack")), clique("two", 1)))
    await rest(stage, 0)
    assert said_of(stage, "packed-0") != ""
    await grow(stage, "b0-r1", 1)
    await rest(stage, 4)
    assert (await places(stage, RACK, labels.PODCLIQUE))["packed-0-one",] == {"b0-r1"}


async def nodes_without_the_label_do_not_count(stage: NativeStage) -> None:
    await begin(stage, {})
    await stage.add_nodes(3)
    await stage.apply(a_set(packed_clique("one", 2, required("rack"))))
    await rest(stage, 0)
    assert said_of(stage, "packed-0") != ""
    await grow(stage, "b0-r0", 2)
    await rest(stage, 2)
    assert list((await places(stage, RACK)).values()) == [{"b0-r0"}]


async def what_is_only_preferred_falls_back(stage: NativeStage) -> None:
    await begin(stage, {"b0-r0": 2, "b0-r1": 2})
    await stage.apply(a_set(packed_clique("one", 3, preferred("rack"))))
    await rest(stage, 3)


async def what_is_lost_comes_back_where_the_others_are(stage: NativeStage) -> None:
    await begin(stage, {"b0-r0": 3, "b0-r1": 2})
    await stage.apply(a_set(packed_clique("one", 3, required("rack"))))
    await rest(stage, 3)
    victim = stage.running_pods()[0]
    await stage.nodes.cordon(victim.spec.node_name)
    await stage.client.delete(PODS, stage.namespace, victim.metadata.name, uid=victim.metadata.uid)
    await stage.wait_until(lambda: victim.metadata.uid not in {pod.metadata.uid for pod in stage.pods()})
    await rest(stage, 2, is_whole=False)
    await stage.nodes.uncordon(victim.spec.node_name)
    await rest(stage, 3)
    assert list((await places(stage, RACK)).values()) == [{"b0-r0"}]


async def extras_are_where_their_clique_is(stage: NativeStage) -> None:
    await begin(stage, {"b0-r0": 3, "b0-r1": 1})
    await stage.apply(a_set(packed_clique("one", 4, required("rack"), minimum=2)))
    await rest(stage, 3)
    await grow(stage, "b0-r0", 1)
    await rest(stage, 4)
    assert list((await places(stage, RACK)).values()) == [{"b0-r0"}]


async def two_bindings_read_other_labels(stage: NativeStage) -> None:
    """Racks and cells cross each other: two nodes in each of both."""
    await begin(stage, {})
    for rack in ("r0", "r1"):
        for cell in ("c0", "c1"):
            await stage.add_nodes(1, {RACK: rack, CELL: cell})
    for binding, key in (("rows", RACK), ("cells", CELL)):
        await stage.apply(a_set(packed_clique("one", 2, required("rack", binding)), name=binding))
        await rest(stage, 2)
        assert [len(values) for values in (await places(stage, key, labels.PART_OF)).values()] == [1]
        await stage.delete(PODCLIQUESETS, binding)
        await stage.wait_until_nothing_is_left()


TOPOLOGY_STORIES = tuple(
    NativeStory(story, 0)
    for story in (
        each_clique_is_in_one_rack,
        each_group_replica_is_in_one_rack,
        levels_hold_inside_each_other,
        a_whole_replica_is_in_one_block_and_scaled_gangs_follow_it,
        what_fits_nowhere_waits_and_says_why,
        nodes_without_the_label_do_not_count,
        what_is_only_preferred_falls_back,
        what_is_lost_comes_back_where_the_others_are,
        extras_are_where_their_clique_is,
        two_bindings_read_other_labels,
    )
)
