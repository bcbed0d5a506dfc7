"""The variables of torchrun and PyTorch in training pods: which clique has them, and what they say."""

from typing import Any

import pytest

from grove.api.resources import PODCLIQUES, PODS
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PodCliqueSet
from tests.dsl import World, context, pcs, revision, role, run_to_rest, scaling

TRAINING = {"workload_type": "Training"}
RANKED = "grove.io/ranked-clique"
RANK = {"fieldRef": {"fieldPath": "metadata.labels['grove.io/podclique-pod-index']"}}
NAMES = (
    "PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE",
    "RANK",
)  # fmt: skip


def job(*cliques: Any, **fields: Any) -> PodCliqueSet:
    return pcs(*cliques, spec=TRAINING, **fields)


def container(*env: JsonObject) -> JsonObject:
    return {"name": "main", "image": "i", "env": list(env)}


def variables(observed: PodCliqueSet, clique: str, kind: str = "containers") -> dict[str, Any]:
    """What a pod of the clique has, without the variables of every pod."""
    world = World(observed)
    run_to_rest(world)
    pods = [one for one in world.all(PODS) if one.metadata.name.startswith(f"{clique}-")]
    spec = world.json(PODS, pods[0].metadata.name)["spec"]
    found = {one["name"]: one.get("value", one.get("valueFrom")) for one in spec[kind][0]["env"]}
    return {name: value for name, value in found.items() if not name.startswith("GROVE_")}


def test_the_pods_of_the_only_clique_have_ranks() -> None:
    address = "p-1-a-0.p-1.default.svc.cluster.local"
    assert variables(job(role("a", 3), replicas=2), "p-1-a") == {
        "PET_NNODES": "3", "PET_NODE_RANK": RANK, "PET_MASTER_ADDR": address, "PET_MASTER_PORT": "29500",
        "MASTER_ADDR": address, "MASTER_PORT": "29500", "WORLD_SIZE": "3", "RANK": RANK,
    }  # fmt: skip


def test_init_containers_have_them_too() -> None:
    pod = {"initContainers": [{"name": "init", "image": "i"}]}
    assert tuple(variables(job(role("a", 2, pod=pod)), "p-0-a", "initContainers")) == NAMES


def test_of_several_cliques_the_annotation_names_the_one_with_ranks() -> None:
    cliques = (role("a", 1), role("b", 4))
    assert variables(job(*cliques), "p-0-b") == {}
    named = job(*cliques, annotations={RANKED: "b"})
    assert variables(named, "p-0-a") == {}
    assert variables(named, "p-0-b")["WORLD_SIZE"] == "4"
    assert variables(named, "p-0-b")["MASTER_ADDR"] == "p-0-b-0.p-0.default.svc.cluster.local"
    assert variables(job(*cliques, annotations={RANKED: "unknown"}), "p-0-b") == {}


def test_each_replica_of_a_group_counts_for_itself() -> None:
    grouped = job(role("b", 2), groups=(scaling("g", "b", replicas=2, needs=2),))
    found = variables(grouped, "p-0-g-1-b")
    assert (found["WORLD_SIZE"], found["MASTER_ADDR"]) == ("2", "p-0-g-1-b-0.p-0.default.svc.cluster.local")


def test_what_a_container_sets_itself_stays() -> None:
    own = ({"name": "MASTER_PORT", "value": "1"}, {"name": "RANK", "value": "0"}, {"name": "X", "value": "$(RANK)"})
    found = variables(job(role("a", 2, pod={"containers": [container(*own)]})), "p-0-a")
    assert (found["MASTER_PORT"], found["RANK"], found["X"]) == ("1", "0", "$(RANK)")
    assert (found["PET_MASTER_PORT"], found["PET_NODE_RANK"]) == ("29500", RANK)
    # Those of Grove come first, so that others can refer to them.
    assert list(found)[-3:] == ["MASTER_PORT", "RANK", "X"]


def test_an_inference_set_has_none() -> None:
    assert variables(pcs(role("a", 2), annotations={RANKED: "a"}), "p-0-a") == {}


@pytest.mark.parametrize(("spec", "pinned"), [(TRAINING, "ddczlrrnz55l"), ({}, "l9mb2mnd2wsp")])
def test_they_are_no_part_of_the_template(spec: JsonObject, pinned: str) -> None:
    """The hashes are those of a version without the variables."""
    observed = pcs(role("a", 2), spec=spec)
    assert context(observed).template_hashes == {"a": pinned}
    assert "PET_" not in str(revision(observed).data)


def test_an_operator_that_begins_to_set_them_touches_nothing_that_exists() -> None:
    world = World(job(role("a", 2)))
    run_to_rest(world)
    # As an earlier version created it.
    world.edit(PODCLIQUES, "p-0-a", {"spec": {"podSpec": {"containers": [container()]}}})
    before = (world.json(PODCLIQUES, "p-0-a"), sorted(pod.metadata.uid for pod in world.all(PODS)))
    run_to_rest(world)
    now = world.json(PODCLIQUES, "p-0-a")
    assert now["spec"] == before[0]["spec"]
    assert sorted(pod.metadata.uid for pod in world.all(PODS)) == before[1]
