"""Resource sharing of a set: a manifest in, every error out."""

import pytest

from grove.api.types.meta import JsonObject
from tests.admission.asking import refusals
from tests.api.manifests import claim, clique, group, manifest, share


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(template={"resourceClaimTemplates": [claim("")]}),
            ["spec.template.resourceClaimTemplates[0].name: Required value: write a name"],
            id="a template without a name",
        ),
        pytest.param(
            manifest(template={"resourceClaimTemplates": [{"name": "gpu", "templateSpec": {"spec": {"devices": {}}}}]}),
            [
                (
                    "spec.template.resourceClaimTemplates[0].templateSpec.spec.devices.requests: Required value: "
                    "request at least one device"
                )
            ],
            id="a template that requests nothing",
        ),
        pytest.param(
            manifest(template={"resourceClaimTemplates": [{"name": "gpu"}]}),
            [
                (
                    "spec.template.resourceClaimTemplates[0].templateSpec: Required value: A resource.k8s.io/v1 "
                    "ResourceClaimTemplateSpec."
                )
            ],
            id="a template without a spec",
        ),
        pytest.param(
            manifest(template={"resourceClaimTemplates": [claim("gpu"), claim("gpu")]}),
            [
                (
                    'spec.template.resourceClaimTemplates[1].name: Duplicate value: "gpu": '
                    "already used by another template: "
                    "choose another name"
                )
            ],
            id="two templates of one name",
        ),
        pytest.param(
            manifest(template={"resourceSharing": [{"name": "", "scope": "AllReplicas"}]}),
            ["spec.template.resourceSharing[0].name: Required value: write the name of a resource claim template"],
            id="a sharing without a name",
        ),
        pytest.param(
            manifest(template={"resourceSharing": [share("x"), share("x")]}),
            [('spec.template.resourceSharing[1].name: Duplicate value: "x": already in this list: remove one')],
            id="a sharing twice",
        ),
        pytest.param(
            manifest(
                template={
                    "resourceClaimTemplates": [claim("gpu")],
                    "resourceSharing": [share("gpu", namespace="other")],
                }
            ),
            [
                (
                    'spec.template.resourceSharing[0].namespace: Invalid value: "other": "gpu" is a template of this'
                    " set: remove the namespace"
                )
            ],
            id="a namespace for an own template",
        ),
        pytest.param(
            manifest(template={"resourceSharing": [{"name": "x", "scope": "Some"}]}),
            [
                (
                    'spec.template.resourceSharing[0].scope: Unsupported value: "Some": supported values: '
                    '"AllReplicas", "PerReplica"'
                )
            ],
            id="an unknown scope",
        ),
        pytest.param(
            manifest(clique(resourceSharing=[{"name": "x"}])),
            [
                (
                    "spec.template.cliques[0].resourceSharing[0].scope: Required value: One claim for all replicas, "
                    "or one for each."
                )
            ],
            id="no scope",
        ),
        pytest.param(
            manifest(template={"resourceSharing": [share("x", filter={})]}),
            [
                (
                    "spec.template.resourceSharing[0].filter: Required value: write names of cliques or groups, or "
                    "remove the filter to share with all"
                )
            ],
            id="an empty filter of the set",
        ),
        pytest.param(
            manifest(
                template={
                    "resourceSharing": [
                        share("x", filter={"childCliqueNames": ["zz"], "childScalingGroupNames": ["yy"]})
                    ]
                }
            ),
            [
                (
                    'spec.template.resourceSharing[0].filter.childCliqueNames[0]: Not found: "zz": is not a clique '
                    "of this set: correct the name"
                ),
                (
                    'spec.template.resourceSharing[0].filter.childScalingGroupNames[0]: Not found: "yy": is not a '
                    "scaling group of this set: correct the name"
                ),
            ],
            id="unknown names in the filter of the set",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", resourceSharing=[share("x", filter={})]),)),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].resourceSharing[0].filter.childCliqueNames: Required "
                    "value: write names of cliques of the group, or remove the filter to share with all"
                )
            ],
            id="an empty filter of a group",
        ),
        pytest.param(
            manifest(
                clique("a"),
                clique("b"),
                groups=(group("g", "a", resourceSharing=[share("x", filter={"childCliqueNames": ["b"]})]),),
            ),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].resourceSharing[0].filter.childCliqueNames[0]: Not "
                    'found: "b": is not a clique of this group: correct the name'
                )
            ],
            id="a clique of another group in the filter of a group",
        ),
        pytest.param(
            manifest(clique(resourceSharing=[share("x"), share("x")])),
            [
                (
                    'spec.template.cliques[0].resourceSharing[1].name: Duplicate value: "x": '
                    "already in this list: remove "
                    "one"
                )
            ],
            id="a clique's sharing twice",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", resourceSharing=[share("")]),)),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].resourceSharing[0].name: "
                    "Required value: write the name of a "
                    "resource claim template"
                )
            ],
            id="a group's sharing without a name",
        ),
    ],
)
def test_a_set_with_bad_resource_sharing_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors
