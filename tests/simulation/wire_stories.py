"""What stands in the API for a small set, names and labels included: manifests and tools written for Grove find it.

Told in simulated worlds (`test_wire.py`) and on clusters reached over HTTP (`tests/e2e/test_cluster_stories.py`).
"""

from typing import Any, TypeVar

import yaml

from grove.api import labels
from grove.api.labels import GATE
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES, Resource
from grove.api.types.meta import HasMetadata, JsonObject, ObjectMeta, WireStruct
from tests.scene import Scene
from tests.simulation.stories import left_of_sets

T = TypeVar("T", bound=HasMetadata)

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
TOPOLOGY = "topology.kubernetes.io/"


class Written(WireStruct):
    """Any object with its spec as it was written."""

    metadata: ObjectMeta
    spec: JsonObject = {}


def manifest() -> JsonObject:
    loaded: JsonObject = yaml.safe_load(SET)
    return loaded


async def begin(scene: Scene) -> None:
    await scene.apply(manifest())
    await scene.settle()


def names(scene: Scene, resource: Resource[Any]) -> list[str]:
    ours = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}"
    return sorted(obj.metadata.name for obj in scene.objects(resource, label_selector=ours))


def find(scene: Scene, resource: Resource[T], name: str) -> T:
    return next(obj for obj in scene.objects(resource) if obj.metadata.name == name)


def written(scene: Scene, resource: Resource[Any], name: str) -> JsonObject:
    return find(scene, resource.viewed_as(Written), name).spec


def podgroups(scene: Scene, gang: str) -> dict[str, int]:
    return {group.name: group.min_replicas for group in find(scene, PODGANGS, gang).spec.podgroups}


def hostnames(scene: Scene) -> dict[str, str]:
    return {pod.metadata.name: pod.spec["hostname"] for pod in scene.objects(PODS.viewed_as(Written))}


async def a_small_set_has_the_objects_and_names_of_the_wire(scene: Scene) -> None:
    await begin(scene)
    assert names(scene, PODCLIQUES) == ["p-0-a", "p-0-g-0-b", "p-0-g-0-c", "p-0-g-1-b", "p-0-g-1-c"]
    assert names(scene, GROUPS) == ["p-0-g"]
    assert names(scene, PODGANGS) == ["p-0", "p-0-g-0"]
    assert names(scene, SERVICES) == ["p-0"]
    assert podgroups(scene, "p-0") == {"p-0-a": 2, "p-0-g-0-b": 1, "p-0-g-0-c": 1}
    assert podgroups(scene, "p-0-g-0") == {"p-0-g-1-b": 1, "p-0-g-1-c": 1}
    # Nothing for start-up order until start-up order needs it.
    kinds = {entry.partition("/")[0] for entry in left_of_sets(scene)}
    assert kinds == {"pods", "services", "podcliques", "podcliquescalinggroups", "podgangs", "controllerrevisions"}


async def every_object_carries_the_labels_of_the_wire(scene: Scene) -> None:
    await begin(scene)
    ours = {labels.MANAGED_BY: "grove-operator", labels.PART_OF: "p"}
    cliques = {clique.metadata.name: clique.metadata for clique in scene.objects(PODCLIQUES)}
    assert cliques["p-0-a"].labels == {
        **ours,
        "team": "blue",
        labels.NAME: "p-0-a",
        labels.COMPONENT: "pcs-podclique",
        labels.SET_REPLICA_INDEX: "0",
        labels.PODGANG: "p-0",
        labels.TEMPLATE_HASH: cliques["p-0-a"].labels[labels.TEMPLATE_HASH],
        labels.INCARNATION: "1",
    }
    assert cliques["p-0-g-1-b"].labels == {
        **ours,
        labels.NAME: "p-0-g-1-b",
        labels.COMPONENT: "pcsg-podclique",
        labels.SET_REPLICA_INDEX: "0",
        labels.GROUP: "p-0-g",
        labels.GROUP_REPLICA_INDEX: "1",
        labels.PODGANG: "p-0-g-0",
        labels.BASE_PODGANG: "p-0",
        labels.TEMPLATE_HASH: cliques["p-0-g-1-b"].labels[labels.TEMPLATE_HASH],
        labels.INCARNATION: "1-1",
    }
    assert cliques["p-0-a"].annotations == {"note": "hello"}
    assert find(scene, GROUPS, "p-0-g").metadata.labels == {
        **ours,
        labels.NAME: "p-0-g",
        labels.COMPONENT: "pcs-podcliquescalinggroup",
        labels.SET_REPLICA_INDEX: "0",
    }
    assert find(scene, SERVICES, "p-0").metadata.labels == {
        **ours,
        labels.NAME: "p-0",
        labels.COMPONENT: "pcs-headless-service",
        labels.SET_REPLICA_INDEX: "0",
    }
    gang = find(scene, PODGANGS, "p-0-g-0").metadata.labels
    assert gang.items() >= {**ours, labels.COMPONENT: "podgang", labels.SCHEDULER_NAME: "default-scheduler"}.items()
    for pod in scene.pods():
        clique = pod.metadata.labels[labels.PODCLIQUE]
        index = pod.metadata.labels[labels.POD_INDEX]
        # A real API server tells a pod where its node stands.
        given = {key: value for key, value in pod.metadata.labels.items() if not key.startswith(TOPOLOGY)}
        assert given == {**cliques[clique].labels, labels.PODCLIQUE: clique, labels.POD_INDEX: index}


async def a_pod_knows_where_it_belongs(scene: Scene) -> None:
    await begin(scene)
    (pod,) = (p for p in scene.pods() if p.metadata.labels[labels.PODCLIQUE] == "p-0-g-1-b")
    spec = written(scene, PODS, pod.metadata.name)
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
    assert env["GROVE_HEADLESS_SERVICE"]["value"] == f"p-0.{pod.metadata.namespace}.svc.cluster.local"
    assert env["GROVE_PCSG_TEMPLATE_NUM_PODS"]["value"] == "2"
    service = written(scene, SERVICES, "p-0")
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    assert service["selector"] == {
        labels.MANAGED_BY: "grove-operator",
        labels.PART_OF: "p",
        labels.SET_REPLICA_INDEX: "0",
    }


async def a_group_grows_by_a_scaled_gang_and_shrinks_from_the_highest_index(scene: Scene) -> None:
    await begin(scene)
    await scene.scale(GROUPS, "p-0-g", 3)
    await scene.settle()
    assert names(scene, PODGANGS) == ["p-0", "p-0-g-0", "p-0-g-1"]
    assert names(scene, PODCLIQUES)[-2:] == ["p-0-g-2-b", "p-0-g-2-c"]
    before = {pod.metadata.uid for pod in scene.running_pods() if "p-0-g-2" not in pod.metadata.name}
    await scene.scale(GROUPS, "p-0-g", 2)
    await scene.settle()
    assert names(scene, PODGANGS) == ["p-0", "p-0-g-0"]
    assert names(scene, PODCLIQUES)[-2:] == ["p-0-g-1-b", "p-0-g-1-c"]
    assert {pod.metadata.uid for pod in scene.running_pods()} == before


async def a_deleted_pod_comes_back_with_the_same_index_and_host_name_under_a_new_name(scene: Scene) -> None:
    await begin(scene)
    before = hostnames(scene)
    for grace in (None, 0):
        victim = next(pod.metadata for pod in scene.pods() if pod.metadata.name.startswith("p-0-a-1-"))
        await scene.client.delete(PODS, victim.namespace, victim.name, grace_period_seconds=grace)
        await scene.settle()
        after = hostnames(scene)
        assert victim.name not in after
        assert sorted(after.values()) == sorted(before.values())


async def a_deleted_set_takes_everything_with_it(scene: Scene) -> None:
    await begin(scene)
    (pcs,) = scene.objects(PODCLIQUESETS)
    assert pcs.metadata.finalizers == ("grove.io/podcliqueset.grove.io",)
    await scene.delete(PODCLIQUESETS, "p")
    await scene.settle()
    assert scene.objects(PODCLIQUESETS) == ()
    assert left_of_sets(scene) == []


async def a_scaled_gangs_pods_wait_behind_the_gate_of_the_wire_until_the_base_gang_is_on_nodes(scene: Scene) -> None:
    def gates() -> dict[str, list[str]]:
        return {
            pod.metadata.labels[labels.PODCLIQUE]: [gate.name for gate in pod.spec.scheduling_gates]
            for pod in scene.pods()
        }

    base: dict[str, list[str]] = {"p-0-a": [], "p-0-g-0-b": [], "p-0-g-0-c": []}
    await scene.apply(manifest())
    await scene.wait_until(lambda: gates() == {**base, "p-0-g-1-b": [GATE], "p-0-g-1-c": [GATE]})
    (pod,) = (p for p in scene.pods() if p.metadata.labels[labels.PODCLIQUE] == "p-0-g-1-b")
    assert pod.metadata.labels[labels.BASE_PODGANG] == "p-0"
    await scene.add_nodes(1)
    await scene.settle()
    assert gates() == {**base, "p-0-g-1-b": [], "p-0-g-1-c": []}


WIRE_STORIES = (
    a_small_set_has_the_objects_and_names_of_the_wire,
    every_object_carries_the_labels_of_the_wire,
    a_pod_knows_where_it_belongs,
    a_group_grows_by_a_scaled_gang_and_shrinks_from_the_highest_index,
    a_deleted_pod_comes_back_with_the_same_index_and_host_name_under_a_new_name,
    a_deleted_set_takes_everything_with_it,
)
# These begin with a cluster that has no node for them.
STORIES_WITHOUT_NODES = (a_scaled_gangs_pods_wait_behind_the_gate_of_the_wire_until_the_base_gang_is_on_nodes,)
