"""What stands in the API for a small set, names and labels included: manifests and tools written for Grove find it."""

from typing import Any

import yaml

from grove.api import labels
from grove.api.labels import GATE
from grove.api.meta import JsonObject
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES, Resource
from grove.sim.clock import run_virtual
from grove.sim.world import World
from tests.simulation.stories import left_of_sets

SET = """
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: p}
spec:
  replicas: 1
  template:
    cliques:
      - {name: a, labels: {team: blue}, annotations: {note: hello}, spec: {roleName: ra, replicas: 2, podSpec: &pod {containers: [{name: main, image: none, env: [{name: MINE, value: x}]}]}}}
      - {name: b, spec: {roleName: rb, replicas: 1, podSpec: *pod}}
      - {name: c, spec: {roleName: rc, replicas: 1, podSpec: *pod}}
    podCliqueScalingGroups:
      - {name: g, cliqueNames: [b, c], replicas: 2, minAvailable: 1}
"""  # noqa: E501 - one clique per line shows the shape


def manifest() -> JsonObject:
    loaded: JsonObject = yaml.safe_load(SET)
    return loaded


def names(world: World, resource: Resource[Any]) -> list[str]:
    return sorted(obj.metadata.name for obj in world.objects(resource))


def raw(world: World, plural: str, name: str) -> JsonObject:
    for table in world.server.store.tables():
        if table.served.plural == plural:
            return next(entry.obj for entry in table.entries(None) if entry.name == name)
    raise AssertionError(f"{plural} is not served")


def podgroups(world: World, gang: str) -> dict[str, int]:
    (found,) = (g for g in world.objects(PODGANGS) if g.metadata.name == gang)
    return {group.name: group.min_replicas for group in found.spec.podgroups}


def test_a_small_set_has_the_objects_and_names_of_the_wire() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(manifest())
            await world.settle()
            assert names(world, PODCLIQUES) == ["p-0-a", "p-0-g-0-b", "p-0-g-0-c", "p-0-g-1-b", "p-0-g-1-c"]
            assert names(world, GROUPS) == ["p-0-g"]
            assert names(world, PODGANGS) == ["p-0", "p-0-g-0"]
            assert names(world, SERVICES) == ["p-0"]
            assert podgroups(world, "p-0") == {"p-0-a": 2, "p-0-g-0-b": 1, "p-0-g-0-c": 1}
            assert podgroups(world, "p-0-g-0") == {"p-0-g-1-b": 1, "p-0-g-1-c": 1}
            # Nothing for start-up order until start-up order needs it.
            for plural in ("serviceaccounts", "secrets"):
                (table,) = (t for t in world.server.store.tables() if t.served.plural == plural)
                assert [entry.name for entry in table.entries(None)] == []

    run_virtual(story())


def test_every_object_carries_the_labels_of_the_wire() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(manifest())
            await world.settle()
            ours = {labels.MANAGED_BY: "grove-operator", labels.PART_OF: "p"}
            hashes = {
                clique.metadata.name: clique.metadata.labels[labels.TEMPLATE_HASH]
                for clique in world.objects(PODCLIQUES)
            }
            standalone = {
                **ours,
                "team": "blue",
                labels.NAME: "p-0-a",
                labels.COMPONENT: "pcs-podclique",
                labels.SET_REPLICA_INDEX: "0",
                labels.PODGANG: "p-0",
                labels.TEMPLATE_HASH: hashes["p-0-a"],
                labels.INCARNATION: "1",
            }
            member = {
                **ours,
                labels.NAME: "p-0-g-1-b",
                labels.COMPONENT: "pcsg-podclique",
                labels.SET_REPLICA_INDEX: "0",
                labels.GROUP: "p-0-g",
                labels.GROUP_REPLICA_INDEX: "1",
                labels.PODGANG: "p-0-g-0",
                labels.BASE_PODGANG: "p-0",
                labels.TEMPLATE_HASH: hashes["p-0-g-1-b"],
                labels.INCARNATION: "1-1",
            }
            assert raw(world, "podcliques", "p-0-a")["metadata"]["labels"] == standalone
            assert raw(world, "podcliques", "p-0-g-1-b")["metadata"]["labels"] == member
            assert raw(world, "podcliques", "p-0-a")["metadata"]["annotations"] == {"note": "hello"}
            assert raw(world, "podcliquescalinggroups", "p-0-g")["metadata"]["labels"] == {
                **ours,
                labels.NAME: "p-0-g",
                labels.COMPONENT: "pcs-podcliquescalinggroup",
                labels.SET_REPLICA_INDEX: "0",
            }
            assert raw(world, "services", "p-0")["metadata"]["labels"] == {
                **ours,
                labels.NAME: "p-0",
                labels.COMPONENT: "pcs-headless-service",
                labels.SET_REPLICA_INDEX: "0",
            }
            gang = raw(world, "podgangs", "p-0-g-0")["metadata"]["labels"]
            assert (
                gang.items()
                >= {**ours, labels.COMPONENT: "podgang", labels.SCHEDULER_NAME: "default-scheduler"}.items()
            )
            for pod in world.objects(PODS):
                clique = pod.metadata.labels[labels.PODCLIQUE]
                inherited = raw(world, "podcliques", clique)["metadata"]["labels"]
                index = pod.metadata.labels[labels.POD_INDEX]
                assert pod.metadata.labels == {**inherited, labels.PODCLIQUE: clique, labels.POD_INDEX: index}

    run_virtual(story())


def test_a_pod_knows_where_it_belongs() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(manifest())
            await world.settle()
            (pod,) = (p for p in world.objects(PODS) if p.metadata.labels[labels.PODCLIQUE] == "p-0-g-1-b")
            spec = raw(world, "pods", pod.metadata.name)["spec"]
            assert pod.metadata.name.startswith("p-0-g-1-b-0-")
            assert (spec["hostname"], spec["subdomain"]) == ("p-0-g-1-b-0", "p-0")
            assert spec["schedulerName"] == "default-scheduler"
            env = {variable["name"]: variable for variable in spec["containers"][0]["env"]}
            assert list(env) == [
                "GROVE_PCS_NAME",
                "GROVE_PCS_INDEX",
                "GROVE_PCLQ_NAME",
                "GROVE_HEADLESS_SERVICE",
                "GROVE_PCLQ_POD_INDEX",
                "GROVE_PCSG_NAME",
                "GROVE_PCSG_TEMPLATE_NUM_PODS",
                "GROVE_PCSG_INDEX",
                "MINE",
            ]
            assert env["GROVE_HEADLESS_SERVICE"]["value"] == "p-0.default.svc.cluster.local"
            assert env["GROVE_PCSG_TEMPLATE_NUM_PODS"]["value"] == "2"
            service = raw(world, "services", "p-0")["spec"]
            assert service["clusterIP"] == "None"
            assert service["publishNotReadyAddresses"] is True
            assert service["selector"] == {
                labels.MANAGED_BY: "grove-operator",
                labels.PART_OF: "p",
                labels.SET_REPLICA_INDEX: "0",
            }

    run_virtual(story())


def test_a_group_grows_by_a_scaled_gang_and_shrinks_from_the_highest_index() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(manifest())
            await world.settle()
            await world.scale(GROUPS, "p-0-g", 3)
            await world.settle()
            assert names(world, PODGANGS) == ["p-0", "p-0-g-0", "p-0-g-1"]
            assert names(world, PODCLIQUES)[-2:] == ["p-0-g-2-b", "p-0-g-2-c"]
            await world.scale(GROUPS, "p-0-g", 2)
            await world.settle()
            assert names(world, PODGANGS) == ["p-0", "p-0-g-0"]
            assert names(world, PODCLIQUES)[-2:] == ["p-0-g-1-b", "p-0-g-1-c"]

    run_virtual(story())


def test_a_deleted_pod_comes_back_with_the_same_index_and_host_name_under_a_new_name() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(manifest())
            await world.settle()
            before = {p.metadata.name: raw(world, "pods", p.metadata.name)["spec"]["hostname"] for p in world.pods()}
            for grace in (None, 0):
                victim = next(name for name in before if name.startswith("p-0-a-1-"))
                await world.client.delete(PODS, "default", victim, grace_period_seconds=grace)
                await world.settle()
                after = {p.metadata.name: raw(world, "pods", p.metadata.name)["spec"]["hostname"] for p in world.pods()}
                assert victim not in after
                assert sorted(after.values()) == sorted(before.values())
                before = after

    run_virtual(story())


def test_a_deleted_set_takes_everything_with_it() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(manifest())
            await world.settle()
            (pcs,) = world.objects(PODCLIQUESETS)
            assert pcs.metadata.finalizers == ("grove.io/podcliqueset.grove.io",)
            await world.delete(PODCLIQUESETS, "p")
            await world.settle()
            assert world.objects(PODCLIQUESETS) == ()
            assert left_of_sets(world) == []

    run_virtual(story())


def test_a_scaled_gangs_pods_are_born_behind_the_gate_of_the_wire() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=0) as world:
            await world.apply(manifest())
            await world.settle()
            (pod,) = (p for p in world.objects(PODS) if p.metadata.labels[labels.PODCLIQUE] == "p-0-g-1-b")
            assert [gate.name for gate in pod.spec.scheduling_gates] == [GATE]
            assert pod.metadata.labels[labels.BASE_PODGANG] == "p-0"

    run_virtual(story())
