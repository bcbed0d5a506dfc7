"""What is accepted but not carried out yet is named, never passed over."""

import pytest

from grove.api.types.meta import JsonObject
from grove.api.unsupported_fields import find_unsupported_changes, find_unsupported_fields
from tests.api.manifests import claim, clique, decoded, explicit, group, manifest, share, training

_MNNVL = "grove.io/mnnvl-group"
_RACK = {"topologyName": "dc", "pack": {"required": "rack"}}


@pytest.mark.parametrize(
    ("json", "paths"),
    [
        pytest.param(manifest(), [], id="a plain set"),
        pytest.param(
            manifest(template={"priorityClassName": "high", "headlessServiceConfig": {}}), [], id="what is built"
        ),
        pytest.param(
            manifest(template={"terminationDelay": "4h"}, groups=(group("g", "a", terminationDelay="2h"),)),
            [],
            id="gang termination",
        ),
        pytest.param(manifest(updateStrategy={"type": "OnDelete"}), [], id="update strategy"),
        pytest.param(
            explicit(clique("a"), clique("b", spec={"startsAfter": ["a"]})),
            [],
            id="start-up order",
        ),
        pytest.param(
            manifest(
                clique("a", spec={"autoScalingConfig": {"maxReplicas": 3}}),
                clique("b"),
                groups=(group("g", "b", scaleConfig={"maxReplicas": 3}),),
            ),
            [],
            id="autoscaling",
        ),
        pytest.param(
            manifest(
                clique(resourceSharing=[share("x")]),
                groups=(group("g", "a", resourceSharing=[share("x")]),),
                template={"resourceClaimTemplates": [claim("x")], "resourceSharing": [share("x")]},
            ),
            [
                "spec.template.cliques[0].resourceSharing",
                "spec.template.resourceClaimTemplates",
                "spec.template.resourceSharing",
                "spec.template.podCliqueScalingGroups[0].resourceSharing",
            ],
            id="resource sharing",
        ),
        pytest.param(training(trainingSpec={"maxRestarts": 1}), [], id="training"),
        pytest.param(
            manifest(
                clique(annotations={_MNNVL: "x"}),
                groups=(group("g", "a", annotations={_MNNVL: "x"}),),
                metadata={"annotations": {_MNNVL: "x"}},
            ),
            [
                f"metadata.annotations[{_MNNVL}]",
                f"spec.template.cliques[0].annotations[{_MNNVL}]",
                f"spec.template.podCliqueScalingGroups[0].annotations[{_MNNVL}]",
            ],
            id="NVLink groups",
        ),
        pytest.param(
            manifest(
                clique(topologyConstraint=_RACK),
                groups=(group("g", "a", topologyConstraint=_RACK),),
                template={"topologyConstraint": _RACK},
            ),
            [],
            id="topology",
        ),
    ],
)
def test_every_field_without_effect_is_named(json: JsonObject, paths: list[str]) -> None:
    assert [field.path for field in find_unsupported_fields(decoded(json))] == paths


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        pytest.param(manifest(), manifest(replicas=3), [], id="the set scaled"),
        pytest.param(manifest(), manifest(clique(labels={"a": "b"})), [], id="a changed pod template"),
        pytest.param(
            manifest(groups=(group("g", "a"),)),
            manifest(clique(spec={"replicas": 3, "minAvailable": 2}), groups=(group("g", "a", replicas=2),)),
            [
                (
                    "spec.template.cliques[0].spec.replicas: has no effect on existing children: "
                    "scale them with kubectl scale"
                ),
                (
                    "spec.template.podCliqueScalingGroups[0].replicas: "
                    "has no effect on existing children: scale them with kubectl scale"
                ),
            ],
            id="changed counts",
        ),
        pytest.param(manifest(replicas=0), manifest(clique(labels={"a": "b"})), [], id="nothing runs yet"),
    ],
)
def test_a_change_without_effect_on_what_runs_is_named(old: JsonObject, new: JsonObject, texts: list[str]) -> None:
    assert [str(field) for field in find_unsupported_changes(decoded(old), decoded(new))] == texts
