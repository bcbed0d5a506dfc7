"""Cliques and groups of a set: a manifest in, every error out."""

import pytest

from grove.api.types.meta import JsonObject
from grove.api.validation.podcliqueset import validate_stored_podcliqueset
from grove.api.validation.validation_options import ValidationOptions
from tests.admission.asking import created, refusals, texts, updated
from tests.api.manifests import clique, container, decoded, explicit, group, manifest


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(template={"cliques": []}),
            ["spec.template.cliques: Required value: write at least one clique"],
            id="a set without cliques",
        ),
        pytest.param(
            manifest(clique(spec={"podSpec": None})),
            ["spec.template.cliques[0].spec.podSpec: Required value: The pods of this clique: a core/v1 PodSpec."],
            id="a clique without a podSpec",
        ),
        pytest.param(
            manifest({"name": "a"}),
            ["spec.template.cliques[0].spec: Required value: The pods of this clique."],
            id="a clique without a spec",
        ),
        pytest.param(
            manifest(clique(spec={"replicas": 0})),
            [
                (
                    "spec.template.cliques[0].spec.replicas: Invalid value: 0: must be greater than 0, "
                    "or minAvailable must be set to at least 1"
                )
            ],
            id="no pods and no minimum",
        ),
        pytest.param(
            manifest(clique(spec={"replicas": -1, "minAvailable": 1})),
            [
                "spec.template.cliques[0].spec.replicas: Invalid value: -1: must be at least 0",
            ],
            id="a negative count",
        ),
        pytest.param(
            manifest(clique(spec={"minAvailable": 0})),
            ["spec.template.cliques[0].spec.minAvailable: Invalid value: 0: must be greater than 0"],
            id="a minimum of zero",
        ),
        pytest.param(
            manifest(clique(spec={"replicas": 2, "minAvailable": 3})),
            ["spec.template.cliques[0].spec.minAvailable: Invalid value: 3: must not be greater than replicas (2)"],
            id="a minimum above the count",
        ),
        pytest.param(
            manifest(replicas=-1),
            ["spec.replicas: Invalid value: -1: must be at least 0"],
            id="negative replicas of the set",
        ),
        pytest.param(
            manifest(clique(labels={"app": "-"})),
            [
                (
                    'spec.template.cliques[0].labels[app]: Invalid value: "-": must have at most 63 letters, digits '
                    "and -_., and begin and end with a letter or digit"
                )
            ],
            id="a bad label",
        ),
        pytest.param(
            manifest(clique(annotations={"": "x"})),
            [
                (
                    'spec.template.cliques[0].annotations: Invalid value: "": must have at most 63 letters, digits '
                    "and -_., after an optional prefix such as example.com/"
                )
            ],
            id="a bad annotation",
        ),
        pytest.param(
            manifest(clique(pod={"containers": []})),
            [("spec.template.cliques[0].spec.podSpec.containers: Required value: a pod needs at least one container")],
            id="no containers",
        ),
        pytest.param(
            manifest(clique(pod={"nodeName": "node-1"})),
            [
                (
                    'spec.template.cliques[0].spec.podSpec.nodeName: Invalid value: "node-1": '
                    "not supported, because a scheduler "
                    "places the gang: use nodeSelector"
                )
            ],
            id="a fixed node",
        ),
        pytest.param(
            manifest(clique(pod={"topologySpreadConstraints": [{"maxSkew": 1}]})),
            [
                (
                    "spec.template.cliques[0].spec.podSpec.topologySpreadConstraints: Invalid value: "
                    '[{"maxSkew":1}]: not supported, because gangs are packed: '
                    "use topologyConstraint, or remove the field"
                )
            ],
            id="spread constraints",
        ),
        pytest.param(
            manifest(clique(pod={"containers": [container(env=[{"name": "1A", "value": "x"}])]})),
            [
                (
                    'spec.template.cliques[0].spec.podSpec.containers[0].env[0].name: Invalid value: "1A": must '
                    "have letters, digits and -_. only, and not begin with a digit or two dots"
                )
            ],
            id="a bad variable name",
        ),
        pytest.param(
            manifest(clique(pod={"containers": [container(env=[{"name": "..A"}])]})),
            [
                (
                    'spec.template.cliques[0].spec.podSpec.containers[0].env[0].name: Invalid value: "..A": must '
                    "have letters, digits and -_. only, and not begin with a digit or two dots"
                )
            ],
            id="a variable name that climbs directories",
        ),
        pytest.param(
            manifest(clique(pod={"containers": [container(env=[{"value": "x"}])]})),
            ["spec.template.cliques[0].spec.podSpec.containers[0].env[0].name: Required value: write a name"],
            id="a variable without a name",
        ),
        pytest.param(
            manifest(clique(pod={"containers": [container(env=[{"name": "A"}, {"name": "B"}, {"name": "A"}])]})),
            [
                (
                    "spec.template.cliques[0].spec.podSpec.containers[0].env[2].name: "
                    'Duplicate value: "A": already used'
                    " at [0]: remove one"
                )
            ],
            id="a variable twice",
        ),
        pytest.param(
            manifest(clique(pod={"initContainers": [container(env=[{"name": "A"}, {"name": "A"}])]})),
            [
                (
                    "spec.template.cliques[0].spec.podSpec.initContainers[0].env[1].name: "
                    'Duplicate value: "A": already '
                    "used at [0]: remove one"
                )
            ],
            id="a variable twice in an init container",
        ),
        pytest.param(
            manifest(clique("a"), clique("b", pod={"schedulerName": "volcano"})),
            [
                (
                    'spec.template.cliques[1].spec.podSpec.schedulerName: Invalid value: "volcano": all cliques of a'
                    ' set must use the same scheduler: write "default-scheduler", as in the first clique'
                )
            ],
            id="two schedulers",
        ),
        pytest.param(
            manifest(clique(pod={"schedulerName": "mine"})),
            [
                (
                    'spec.template.cliques[0].spec.podSpec.schedulerName: Invalid value: "mine": the scheduler is '
                    "not enabled: write one of default-scheduler, kai-scheduler, volcano, lpx-scheduler"
                )
            ],
            id="a scheduler that is not enabled",
        ),
    ],
)
def test_a_set_with_bad_cliques_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(clique(spec={"autoScalingConfig": {}})),
            [
                (
                    "spec.template.cliques[0].spec.autoScalingConfig.maxReplicas: Required value: Upper limit "
                    "of the autoscaler, at least minReplicas and replicas."
                )
            ],
            id="no greatest count",
        ),
        pytest.param(
            manifest(clique(spec={"autoScalingConfig": {"minReplicas": 1, "maxReplicas": 3}})),
            [
                (
                    "spec.template.cliques[0].spec.autoScalingConfig.minReplicas: Invalid value: 1: must be at least"
                    " minAvailable (2)"
                )
            ],
            id="a least count below the minimum",
        ),
        pytest.param(
            manifest(clique(spec={"minAvailable": 1, "autoScalingConfig": {"minReplicas": 4, "maxReplicas": 3}})),
            [
                (
                    "spec.template.cliques[0].spec.autoScalingConfig.maxReplicas: Invalid value: 3: must be at least"
                    " minReplicas (4)"
                )
            ],
            id="a greatest count below the least",
        ),
        pytest.param(
            manifest(
                clique(
                    spec={"replicas": 5, "minAvailable": 1, "autoScalingConfig": {"minReplicas": 1, "maxReplicas": 4}}
                )
            ),
            [
                (
                    "spec.template.cliques[0].spec.autoScalingConfig.maxReplicas: Invalid value: 4: must be at least"
                    " replicas (5)"
                )
            ],
            id="a greatest count below the count",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", replicas=4, scaleConfig={"minReplicas": 2, "maxReplicas": 1}),)),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].scaleConfig.maxReplicas: Invalid value: 1: must be at "
                    "least minReplicas (2)"
                ),
                (
                    "spec.template.podCliqueScalingGroups[0].scaleConfig.maxReplicas: Invalid value: 1: must be at "
                    "least replicas (4)"
                ),
            ],
            id="a greatest count of a group below its least count and its replicas",
        ),
        pytest.param(
            manifest(
                groups=(group("g", "a", replicas=2, minAvailable=2, scaleConfig={"minReplicas": 1, "maxReplicas": 3}),)
            ),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].scaleConfig.minReplicas: Invalid value: 1: must be at "
                    "least minAvailable (2)"
                )
            ],
            id="a group's least count below its minimum",
        ),
        pytest.param(
            manifest(clique(spec={"autoScalingConfig": {"maxReplicas": 3}}), groups=(group("g", "a"),)),
            [
                (
                    'spec.template.cliques[0].spec.autoScalingConfig: Invalid value: "a": the clique scales with its'
                    ' group "g": use scaleConfig of the group'
                )
            ],
            id="a member of a group scaled on its own",
        ),
    ],
)
def test_a_set_with_bad_autoscaling_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(groups=(group("g", "a", "zz"),)),
            [
                (
                    'spec.template.podCliqueScalingGroups[0].cliqueNames[1]: Invalid value: "zz": is not a clique of'
                    " this set: define it in spec.template.cliques"
                )
            ],
            id="an unknown clique",
        ),
        pytest.param(
            manifest(groups=(group("g"),)),
            ["spec.template.podCliqueScalingGroups[0].cliqueNames: Required value: write at least one clique name"],
            id="no cliques",
        ),
        pytest.param(
            manifest(groups=({"name": "g"},)),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].cliqueNames: Required value: Cliques that make up one "
                    "group replica."
                )
            ],
            id="cliqueNames left out",
        ),
        pytest.param(
            manifest(groups=(group("g", "a"), group("h", "a"))),
            [
                (
                    'spec.template.podCliqueScalingGroups[1].cliqueNames[0]: Duplicate value: "a": already belongs to '
                    'group "g": remove it from one of the groups'
                )
            ],
            id="a clique in two groups",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", "a"),)),
            [
                (
                    'spec.template.podCliqueScalingGroups[0].cliqueNames[1]: Duplicate value: "a": already belongs to '
                    'group "g": remove it from one of the groups'
                )
            ],
            id="a clique twice in one group",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", replicas=-1, minAvailable=1),)),
            ["spec.template.podCliqueScalingGroups[0].replicas: Invalid value: -1: must be at least 0"],
            id="less than no replicas",
        ),
        pytest.param(
            manifest(clique(spec={"replicas": 0, "minAvailable": 1}), groups=(group("g", "a"),)),
            [
                (
                    "spec.template.cliques[0].spec.replicas: Invalid value: 0: must be greater than 0 for a member of "
                    'group "g": scale the group'
                )
            ],
            id="a member without pods",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", minAvailable=0),)),
            ["spec.template.podCliqueScalingGroups[0].minAvailable: Invalid value: 0: must be greater than 0"],
            id="a minimum of zero",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", replicas=2, minAvailable=3),)),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].minAvailable: Invalid value: 3: must not be greater "
                    "than replicas (2)"
                )
            ],
            id="a minimum above the count",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", annotations={"a b": "x"}),)),
            [
                (
                    'spec.template.podCliqueScalingGroups[0].annotations: Invalid value: "a b": must have at most '
                    "63 letters, digits and -_., after an optional prefix such as example.com/"
                )
            ],
            id="a bad annotation",
        ),
    ],
)
def test_a_set_with_bad_groups_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors


def test_a_template_may_begin_with_a_clique_or_a_group_at_zero() -> None:
    assert refusals(manifest(clique(spec={"replicas": 0, "minAvailable": 2}))) == []
    assert refusals(manifest(groups=(group("g", "a", replicas=0, minAvailable=2),))) == []


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(template={"cliqueStartupType": "Sorted"}),
            [
                (
                    'spec.template.cliqueStartupType: Unsupported value: "Sorted": supported values: '
                    '"CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"'
                )
            ],
            id="an unknown type",
        ),
        pytest.param(
            manifest(template={"cliqueStartupType": ""}),
            [
                (
                    'spec.template.cliqueStartupType: Unsupported value: "": supported values: '
                    '"CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"'
                )
            ],
            id="an empty type",
        ),
        pytest.param(
            explicit(clique("a", spec={"startsAfter": [" "]})),
            [
                (
                    "spec.template.cliques[0].spec.startsAfter[0]: Required value: "
                    "write the name of a clique, or remove the entry"
                )
            ],
            id="a blank entry",
        ),
        pytest.param(
            explicit(clique("a", spec={"startsAfter": ["a"]})),
            [
                (
                    'spec.template.cliques[0].spec.startsAfter[0]: Invalid value: "a": a clique cannot start after '
                    "itself: remove the entry"
                )
            ],
            id="itself",
        ),
        pytest.param(
            explicit(clique("a"), clique("b", spec={"startsAfter": ["a", "a"]})),
            ['spec.template.cliques[1].spec.startsAfter[1]: Duplicate value: "a": listed twice: remove one'],
            id="an entry twice",
        ),
        pytest.param(
            explicit(clique("a", spec={"startsAfter": ["zz"]})),
            [
                (
                    'spec.template.cliques[0].spec.startsAfter[0]: Invalid value: "zz": is not a clique of this set:'
                    " correct the name, or remove the entry"
                )
            ],
            id="an unknown clique",
        ),
        pytest.param(
            explicit(clique("a", spec={"startsAfter": ["b"]}), clique("b", spec={"startsAfter": ["a"]})),
            [
                (
                    'spec.template.cliques[0].spec.startsAfter: Invalid value: "a -> b -> a": these cliques wait '
                    "for each other: remove one of the entries"
                )
            ],
            id="a circle of two",
        ),
        pytest.param(
            explicit(
                clique("t", spec={"startsAfter": ["a"]}),
                clique("a", spec={"startsAfter": ["b"]}),
                clique("b", spec={"startsAfter": ["c"]}),
                clique("c", spec={"startsAfter": ["a"]}),
            ),
            [
                (
                    'spec.template.cliques[1].spec.startsAfter: Invalid value: "a -> b -> c -> a": these cliques '
                    "wait for each other: remove one of the entries"
                )
            ],
            id="a circle of three behind a tail",
        ),
    ],
)
def test_a_set_with_bad_startup_order_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors


def after_a_group(minimum: int, *others: str, startup: str = "CliqueStartupTypeExplicit") -> JsonObject:
    after = {"startsAfter": ["a", *others]} if startup == "CliqueStartupTypeExplicit" else {}
    group = {"name": "g", "cliqueNames": ["a"], "replicas": minimum, "minAvailable": minimum}
    cliques = [*(clique(name) for name in others), clique("a"), clique("b", spec=after)]
    return manifest(*cliques, template={"cliqueStartupType": startup, "podCliqueScalingGroups": [group]})


def too_many(total: int, found: int, most: int) -> str:
    return (
        f"spec.template.podCliqueScalingGroups[0].minAvailable: Invalid value: {found}: clique b would start after"
        f" {total} PodCliques, one in every group replica of the base gang, and spec.startsAfter of a PodClique holds"
        f" 1000: write at most {most}, or do not start b after this group"
    )


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        (after_a_group(1_000), []),
        (after_a_group(1_001), [too_many(1_001, 1_001, 1_000)]),
        (after_a_group(1_001, startup="CliqueStartupTypeInOrder"), [too_many(1_001, 1_001, 1_000)]),
        (after_a_group(1_001, startup="CliqueStartupTypeAnyOrder"), []),
        (after_a_group(999, "c"), []),
        (after_a_group(1_000, "c"), [too_many(1_001, 1_000, 999)]),
    ],
)
def test_a_clique_starts_after_at_most_a_thousand_podcliques(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors


def test_a_stored_set_with_too_many_dependencies_may_still_be_changed() -> None:
    old = after_a_group(1_001)
    assert texts(updated(old, {**old, "metadata": {**old["metadata"], "labels": {"team": "x"}}})) == []


RESERVED = (
    ("initContainers", "grove-initc"),
    ("containers", "grove-initc"),
    ("volumes", "pod-info-vol"),
    ("volumes", "grove-initc-token"),
)


def with_name(field: str, name: str) -> JsonObject:
    item = {"name": name} if field == "volumes" else {**container(), "name": name}
    return {"containers": [container()], field: [item]}


def reserved_name_error(field: str, name: str) -> str:
    at = f"spec.template.cliques[1].spec.podSpec.{field}[0].name"
    detail = "the operator adds one of this name, because the clique starts after others: choose another name"
    return f'{at}: Invalid value: "{name}": {detail}'


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            explicit(clique("a"), clique("b", spec={"podSpec": with_name(field, name), "startsAfter": ["a"]})),
            [reserved_name_error(field, name)],
            id=f"{field} {name}",
        )
        for field, name in RESERVED
    ],
)
def test_a_clique_that_starts_after_others_leaves_the_names_of_the_init_container_free(
    json: JsonObject, errors: list[str]
) -> None:
    assert refusals(json) == errors


@pytest.mark.parametrize(("field", "name"), RESERVED)
def test_a_clique_that_starts_after_no_other_may_use_the_names_of_the_init_container(field: str, name: str) -> None:
    assert refusals(manifest(clique("a"), clique("b", spec={"podSpec": with_name(field, name)}))) == []


def test_a_start_up_order_without_an_image_for_its_init_container_is_a_warning() -> None:
    json = explicit(clique("a"), clique("b", spec={"startsAfter": ["a"]}))
    answer = created(json, settings=ValidationOptions(init_image=""))
    warning = (
        "spec.template.cliqueStartupType: cliques that start after others (b) get no pods: the image of the init"
        " container is not known; set initContainer.image in the OperatorConfiguration"
    )
    assert (texts(answer), answer.warnings) == ([], (warning,))
    assert created(json).warnings == ()
    assert created(explicit(clique("a"), clique("b")), settings=ValidationOptions(init_image="")).warnings == ()


def test_an_upper_bound_of_a_group_that_an_older_version_stored_blocks_nothing() -> None:
    stored = manifest(groups=(group("g", "a", replicas=2, scaleConfig={"maxReplicas": 1}),))
    assert len(refusals(stored)) == 2
    assert validate_stored_podcliqueset(decoded(stored), ValidationOptions()) == ()
    assert texts(updated(stored, {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}})) == []
