"""One pod's manifest, made from its clique."""

from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.types.podclique import PodCliqueSpec
from grove.planner.pods.pod_builder import PodBuilder
from tests.dsl import clique


def build(pod_spec: JsonObject, *, index: int = 1, failures: int = 0, **metadata: Any) -> JsonObject:
    observed = clique(name="p-3-a", **metadata)
    spec = PodCliqueSpec(pod_spec=pod_spec)
    observed = msgspec.structs.replace(observed, clique=msgspec.structs.replace(observed.clique, spec=spec))
    return PodBuilder(observed).build("p-3-a-1-xyz42", index, failures)


LABELS = {"app.kubernetes.io/part-of": "p", "grove.io/podcliqueset-replica-index": "3", "team": "x"}


def test_a_pod_is_its_cliques_pod_spec_with_our_gate_and_its_place() -> None:
    pod = build(
        {"containers": [{"name": "main", "image": "i"}], "terminationGracePeriodSeconds": 5},
        labels=LABELS,
        annotations={"note": "kept"},
    )
    assert pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p-3-a-1-xyz42",
            "namespace": "default",
            "labels": {**LABELS, "grove.io/podclique": "p-3-a", "grove.io/podclique-pod-index": "1"},
            "annotations": {"note": "kept"},
            "ownerReferences": [
                {
                    "apiVersion": "grove.io/v1alpha1",
                    "kind": "PodClique",
                    "name": "p-3-a",
                    "uid": "uid-of-p-3-a",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "i",
                    "env": [
                        {"name": "GROVE_PCS_NAME", "value": "p"},
                        {"name": "GROVE_PCS_INDEX", "value": "3"},
                        {"name": "GROVE_PCLQ_NAME", "value": "p-3-a"},
                        {"name": "GROVE_HEADLESS_SERVICE", "value": "p-3.default.svc.cluster.local"},
                        {
                            "name": "GROVE_PCLQ_POD_INDEX",
                            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['grove.io/podclique-pod-index']"}},
                        },
                    ],
                }
            ],
            "terminationGracePeriodSeconds": 5,
            "schedulingGates": [{"name": "grove.io/podgang-pending-creation"}],
            "schedulerName": "default-scheduler",
            "subdomain": "p-3",
            "hostname": "p-3-a-1",
        },
    }


def env_names(pod: JsonObject, kind: str) -> list[list[str]]:
    return [[variable["name"] for variable in container["env"]] for container in pod["spec"][kind]]


COMMON = ["GROVE_PCS_NAME", "GROVE_PCS_INDEX", "GROVE_PCLQ_NAME", "GROVE_HEADLESS_SERVICE", "GROVE_PCLQ_POD_INDEX"]


def test_our_variables_come_first_in_every_container_and_win_over_the_users() -> None:
    pod = build(
        {
            "containers": [
                {"name": "one", "env": [{"name": "GROVE_PCSG_NAME"}, {"name": "MINE"}, {"name": "GROVE_PCS_NAME"}]},
                {"name": "two"},
            ],
            "initContainers": [{"name": "init", "env": None}],
        }
    )
    assert env_names(pod, "containers") == [[*COMMON, "GROVE_PCSG_NAME", "MINE"], COMMON]
    assert env_names(pod, "initContainers") == [COMMON]
    assert pod["spec"]["containers"][0]["env"][0] == {"name": "GROVE_PCS_NAME", "value": "p"}


def test_gates_the_user_wrote_are_kept_and_ours_is_there_once() -> None:
    pod = build({"schedulingGates": [{"name": "theirs"}, {"name": "grove.io/podgang-pending-creation"}]})
    assert pod["spec"]["schedulingGates"] == [{"name": "grove.io/podgang-pending-creation"}, {"name": "theirs"}]


def test_the_scheduler_the_user_asked_for_is_kept() -> None:
    assert build({"schedulerName": "kai"})["spec"]["schedulerName"] == "kai"
    assert build({"schedulerName": ""})["spec"]["schedulerName"] == "default-scheduler"


def test_a_replacement_remembers_how_often_its_index_failed() -> None:
    assert build({}, failures=3, annotations={"note": "kept"})["metadata"]["annotations"] == {
        "note": "kept",
        "grove.io/consecutive-failures": "3",
    }


def test_pods_of_one_mold_do_not_share_what_differs() -> None:
    mold = PodBuilder(clique(name="p-0-a"))
    first, second = mold.build("x", 0, 1), mold.build("y", 1, 0)
    assert [pod["metadata"]["labels"]["grove.io/podclique-pod-index"] for pod in (first, second)] == ["0", "1"]
    assert [pod["spec"]["hostname"] for pod in (first, second)] == ["p-0-a-0", "p-0-a-1"]
    assert second["metadata"]["annotations"] == {}
