"""Termination, training and updates of a set: a manifest in, every error out."""

import pytest

from grove.api.types.meta import JsonObject
from tests.admission.asking import refusals
from tests.api.manifests import clique, container, group, manifest, training


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(template={"terminationDelay": "0s"}),
            [
                (
                    'spec.template.terminationDelay: Invalid value: "0s": must be greater than 0: write a duration, or '
                    "remove the field to disable gang termination"
                )
            ],
            id="zero for inference",
        ),
        pytest.param(
            manifest(template={"terminationDelay": "-1s"}),
            ['spec.template.terminationDelay: Invalid value: "-1s": must not be negative'],
            id="negative",
        ),
        pytest.param(
            manifest(template={"terminationDelay": "4"}),
            [
                (
                    'spec.template.terminationDelay: Invalid value: "4": "4" is not a duration: write numbers with '
                    "units, such as 30s, 5m or 1h30m"
                )
            ],
            id="not a duration",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", terminationDelay="1h"),)),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].terminationDelay: Forbidden: only "
                    "allowed with spec.template.terminationDelay: set that, or remove this field"
                )
            ],
            id="a group's override without the set's",
        ),
        pytest.param(
            manifest(template={"terminationDelay": "1h"}, groups=(group("g", "a", terminationDelay="0s"),)),
            [
                (
                    'spec.template.podCliqueScalingGroups[0].terminationDelay: Invalid value: "0s": must be greater '
                    "than 0: write a duration, or remove the field to disable gang termination"
                )
            ],
            id="a group's override of zero",
        ),
        pytest.param(
            manifest(template={"terminationDelay": "1h"}, groups=(group("g", "a", terminationDelay="soon"),)),
            [
                (
                    'spec.template.podCliqueScalingGroups[0].terminationDelay: Invalid value: "soon": "soon" is not '
                    "a duration: write numbers with units, such as 30s, 5m or 1h30m"
                )
            ],
            id="a group's override that is not a duration",
        ),
        pytest.param(
            training(template={"terminationDelay": "-1s"}),
            ['spec.template.terminationDelay: Invalid value: "-1s": must not be negative'],
            id="a negative delay for training",
        ),
    ],
)
def test_a_set_with_bad_termination_delay_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(workloadType="Batch"),
            ['spec.workloadType: Unsupported value: "Batch": supported values: "Inference", "Training"'],
            id="an unknown workload type",
        ),
        pytest.param(
            manifest(trainingSpec={"maxRestarts": 1}),
            ["spec.trainingSpec: Forbidden: only allowed with workloadType: Training: set that, or remove this field"],
            id="limits without training",
        ),
        pytest.param(
            training(clique(pod={"restartPolicy": "Always"})),
            [
                (
                    'spec.template.cliques[0].spec.podSpec.restartPolicy: Invalid value: "Always": training would '
                    "never end: write Never or OnFailure"
                )
            ],
            id="pods that always restart",
        ),
        pytest.param(
            training(clique(pod={"containers": [container(), container(name="b", restartPolicy="Always")]})),
            [
                (
                    'spec.template.cliques[0].spec.podSpec.containers[1].restartPolicy: Invalid value: "Always": '
                    "training would never end: write Never or OnFailure"
                )
            ],
            id="a container that always restarts",
        ),
        pytest.param(
            training(clique(spec={"replicas": 0, "minAvailable": 1})),
            [
                (
                    "spec.template.cliques[0].spec.replicas: Invalid value: 0: must be greater than 0 in a training "
                    "set, which cannot be scaled"
                )
            ],
            id="a training clique without pods",
        ),
        pytest.param(
            training(groups=(group("g", "a", replicas=0, minAvailable=1),)),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].replicas: Invalid value: 0: must be greater than 0 in a "
                    "training set, which cannot be scaled"
                )
            ],
            id="a training group without replicas",
        ),
        pytest.param(
            training(clique(spec={"autoScalingConfig": {"maxReplicas": 3}})),
            [
                (
                    "spec.template.cliques[0].spec.autoScalingConfig: Forbidden: "
                    "a training set cannot be scaled: remove this field"
                )
            ],
            id="a scaled clique",
        ),
        pytest.param(
            training(groups=(group("g", "a", scaleConfig={"maxReplicas": 3}),)),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].scaleConfig: Forbidden: "
                    "a training set cannot be scaled: remove this field"
                )
            ],
            id="a scaled group",
        ),
        pytest.param(
            training(trainingSpec={"maxRuntime": "0s"}),
            ['spec.trainingSpec.maxRuntime: Invalid value: "0s": must be greater than 0, or absent for no limit'],
            id="no run time at all",
        ),
        pytest.param(
            training(trainingSpec={"maxRuntime": "1d"}),
            [
                (
                    'spec.trainingSpec.maxRuntime: Invalid value: "1d": "1d" is not a duration: write numbers with '
                    "units, such as 30s, 5m or 1h30m"
                )
            ],
            id="a run time that is not a duration",
        ),
        pytest.param(
            training(trainingSpec={"maxRestarts": -1}),
            ["spec.trainingSpec.maxRestarts: Invalid value: -1: must be at least 0"],
            id="a negative number of restarts",
        ),
    ],
)
def test_a_set_with_bad_training_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(updateStrategy={"type": "Sometimes"}),
            [
                (
                    'spec.updateStrategy.type: Unsupported value: "Sometimes": supported values: "RollingRecreate", '
                    '"OnDelete"'
                )
            ],
            id="an unknown strategy",
        ),
    ],
)
def test_a_set_with_bad_update_strategy_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors
