"""Bodies of the wrong shape, and good ones."""

import pytest

from grove.api.types.meta import JsonObject
from tests.admission.asking import refusals
from tests.api.manifests import claim, clique, container, explicit, group, manifest, share, training


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(replicas="x"),
            ['spec.replicas: Invalid value: "x": must be of type integer'],
            id="replicas as text",
        ),
        pytest.param(
            manifest(replicas=True),
            ["spec.replicas: Invalid value: true: must be of type integer"],
            id="replicas as a boolean",
        ),
        pytest.param(
            manifest(replicas=1.5),
            ["spec.replicas: Invalid value: 1.5: must be of type integer"],
            id="replicas with a fraction",
        ),
        pytest.param(
            manifest(replicas=2**31),
            ["spec.replicas: Invalid value: 2147483648: must not be greater than 100000"],
            id="replicas beyond 32 bits",
        ),
        pytest.param(
            manifest(template={"cliques": {}}),
            ["spec.template.cliques: Invalid value: {}: must be of type array"],
            id="cliques as an object",
        ),
        pytest.param(
            manifest(template={"cliques": ["a"]}),
            ['spec.template.cliques[0]: Invalid value: "a": must be of type object'],
            id="a clique as text",
        ),
        pytest.param(
            manifest(clique(spec={"podSpec": []})),
            ["spec.template.cliques[0].spec.podSpec: Invalid value: []: must be of type object"],
            id="a podSpec as a list",
        ),
        pytest.param(
            manifest(clique(labels={"a": 1})),
            ["spec.template.cliques[0].labels[a]: Invalid value: 1: must be of type string"],
            id="labels that are not text",
        ),
        pytest.param(
            manifest(metadata={"labels": {"a": 1}}),
            ["metadata.labels: Invalid value: null: Expected str, got int"],
            id="metadata labels that are not text",
        ),
        pytest.param(
            manifest(clique(spec={"replicas": "2", "startsAfter": "b"}), replicas="x", metadata={"labels": 3}),
            [
                "metadata.labels: Invalid value: null: Expected object, got int",
                'spec.replicas: Invalid value: "x": must be of type integer',
                'spec.template.cliques[0].spec.replicas: Invalid value: "2": must be of type integer',
                'spec.template.cliques[0].spec.startsAfter: Invalid value: "b": must be of type array',
            ],
            id="several wrong types at once",
        ),
        pytest.param(
            {"metadata": {"name": "web"}, "spec": {}},
            ["spec.template: Required value: Template of one replica."],
            id="a set without a template",
        ),
        pytest.param(
            {"metadata": {"name": "web"}},
            ["spec: Required value: Desired state."],
            id="a set without a spec",
        ),
        pytest.param(
            {"metadata": {"name": "web"}, "spec": []},
            ["spec: Invalid value: []: must be of type object"],
            id="a spec that is a list",
        ),
        pytest.param(
            {"metadata": "web", "spec": {"template": {"cliques": [clique()]}}},
            ["metadata: Invalid value: null: Expected object, got str"],
            id="metadata that is text",
        ),
        pytest.param(
            manifest(
                clique("A", spec={"replicas": 1, "minAvailable": 2}, pod={"nodeName": "n"}),
                replicas=-1,
                template={"terminationDelay": "0s"},
                workloadType="Batch",
            ),
            [
                'spec.workloadType: Unsupported value: "Batch": supported values: "Inference", "Training"',
                "spec.replicas: Invalid value: -1: must be at least 0",
                (
                    'spec.template.cliques[0].name: Invalid value: "A": '
                    "must have at most 63 characters a-z, 0-9 and -, "
                    "and begin and end with a letter or digit"
                ),
                "spec.template.cliques[0].spec.minAvailable: Invalid value: 2: must not be greater than replicas (1)",
                (
                    'spec.template.cliques[0].spec.podSpec.nodeName: Invalid value: "n": '
                    "not supported, because a scheduler "
                    "places the gang: use nodeSelector"
                ),
                (
                    'spec.template.terminationDelay: Invalid value: "0s": must be greater than 0: write a duration, or '
                    "remove the field to disable gang termination"
                ),
            ],
            id="all errors at once",
        ),
    ],
)
def test_a_set_with_bad_shape_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors


@pytest.mark.parametrize(
    "json",
    [
        pytest.param(manifest(), id="the smallest set"),
        pytest.param(manifest(replicas=0), id="no replicas"),
        pytest.param(manifest(clique("c" * 23), name="p" * 22), id="a standalone clique at the name budget"),
        pytest.param(
            manifest(clique("c" * 15), name="p" * 15, groups=(group("g" * 15, "c" * 15),)),
            id="a member clique at the name budget",
        ),
        pytest.param(manifest(name="", metadata={"generateName": "web-"}), id="a generated name"),
        pytest.param(manifest(clique("worker"), clique("decode-worker")), id="a clique name that ends another"),
        pytest.param(manifest(clique(spec={"replicas": 2, "minAvailable": 2})), id="a minimum at the count"),
        pytest.param(manifest(clique(spec={"replicas": None})), id="a count left out is one"),
        pytest.param(manifest(template={"terminationDelay": None}), id="no termination delay"),
        pytest.param(manifest(template={"terminationDelay": "1ns"}), id="the shortest termination delay"),
        pytest.param(
            manifest(template={"terminationDelay": "4h"}, groups=(group("g", "a", terminationDelay="2h"),)),
            id="a group's own termination delay",
        ),
        pytest.param(training(template={"terminationDelay": "0s"}), id="a training set that acts at once"),
        pytest.param(
            training(groups=(group("g", "a", terminationDelay="0s"),)), id="a training group that acts at once"
        ),
        pytest.param(
            training(trainingSpec={"maxRuntime": "1s", "maxRestarts": 0}), id="a training set at its lowest limits"
        ),
        pytest.param(training(clique(pod={"restartPolicy": "OnFailure"})), id="training pods restarted in place"),
        pytest.param(
            training(clique(pod={"initContainers": [container(name="b", restartPolicy="Always")]})),
            id="a training pod with a sidecar",
        ),
        pytest.param(training(template={"terminationDelay": "5m"}), id="a training set that waits"),
        pytest.param(training(trainingSpec={}), id="a training set without limits"),
        pytest.param(manifest(clique(pod={"restartPolicy": "Never"})), id="any restart policy for inference"),
        pytest.param(
            manifest(clique("a", spec={"startsAfter": ["zz"]})), id="startsAfter does not count without explicit order"
        ),
        pytest.param(
            explicit(
                clique("a"), clique("b", spec={"startsAfter": ["a"]}), clique("c", spec={"startsAfter": ["a", "b"]})
            ),
            id="an order without a circle",
        ),
        pytest.param(
            manifest(
                clique(
                    pod={"containers": [container(env=[{"name": "A"}]), container(name="side", env=[{"name": "A"}])]}
                )
            ),
            id="one variable in two containers",
        ),
        pytest.param(
            manifest(clique("a", pod={"schedulerName": "default-scheduler"}), clique("b")), id="the default by name"
        ),
        pytest.param(
            manifest(clique(spec={"autoScalingConfig": {"minReplicas": 2, "maxReplicas": 2}})),
            id="an autoscaler at all its bounds",
        ),
        pytest.param(
            manifest(
                clique(resourceSharing=[share("gpu")]),
                template={
                    "resourceClaimTemplates": [claim("gpu")],
                    "resourceSharing": [share("far", namespace="other", filter={"childCliqueNames": ["a"]})],
                },
            ),
            id="shared resources",
        ),
        pytest.param(manifest(metadata={"annotations": {"grove.io/mnnvl-group": "none"}}), id="no NVLink group"),
        pytest.param(manifest(clique(labels={"app.kubernetes.io/name": ""})), id="an empty label"),
        pytest.param(manifest(metadata={"labels": None, "creationTimestamp": None}), id="nulls are absent"),
    ],
)
def test_a_good_set_is_accepted(json: JsonObject) -> None:
    assert refusals(json) == []
