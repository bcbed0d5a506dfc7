"""What an update of a set may and may not change."""

import pytest

from grove.api.types.meta import JsonObject
from tests.admission.asking import texts, updated
from tests.api.manifests import claim, clique, container, explicit, group, manifest, share, training


def _fixed(advice: str) -> str:
    return f"field is immutable: {advice}, or create a new PodCliqueSet"


_GROUP = "spec.template.podCliqueScalingGroups[0]"
_SHARE = '[{"name":"x","namespace":"","scope":"AllReplicas"}]'
_NO_SCALING = "a training set cannot be scaled: delete it and create one with the size you need"
_NO_UPDATE = "a training set cannot be updated: delete it and create one with the pods you need"
_MNNVL = "grove.io/mnnvl-group"
TWO = (clique("a"), clique("b"))
IN_ORDER = {"cliqueStartupType": "CliqueStartupTypeInOrder"}


def with_phase(json: JsonObject, phase: str) -> JsonObject:
    return {**json, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("old", "new", "errors"),
    [
        pytest.param(
            manifest(*TWO),
            manifest(clique("a")),
            [
                (
                    "spec.template.cliques: Forbidden: "
                    "cliques cannot be added, removed or renamed (existing: a, b): create a new PodCliqueSet"
                )
            ],
            id="a clique removed",
        ),
        pytest.param(
            manifest(clique("a")),
            manifest(*TWO),
            [
                (
                    "spec.template.cliques: Forbidden: cliques cannot be added, "
                    "removed or renamed (existing: a): create a new PodCliqueSet"
                )
            ],
            id="a clique added",
        ),
        pytest.param(
            manifest(clique("a")),
            manifest(clique("b")),
            [
                (
                    "spec.template.cliques: Forbidden: cliques cannot be added, "
                    "removed or renamed (existing: a): create a new PodCliqueSet"
                )
            ],
            id="a clique renamed",
        ),
        pytest.param(
            manifest(*TWO, template=IN_ORDER),
            manifest(*reversed(TWO), template=IN_ORDER),
            [
                (
                    'spec.template.cliques: Invalid value: "b, a": '
                    "the order of cliques is immutable with this cliqueStartupType: write a, b"
                )
            ],
            id="cliques reordered with a start-up order",
        ),
        pytest.param(
            manifest(),
            manifest(clique(spec={"roleName": "other"})),
            ['spec.template.cliques[0].spec.roleName: Invalid value: "other": ' + _fixed('restore "role-a"')],
            id="another role",
        ),
        pytest.param(
            manifest(),
            manifest(clique(spec={"minAvailable": 1})),
            [f"spec.template.cliques[0].spec.minAvailable: Invalid value: 1: {_fixed('restore 2')}"],
            id="another minimum",
        ),
        pytest.param(
            explicit(*TWO),
            explicit(clique("a"), clique("b", spec={"startsAfter": ["a"]})),
            ['spec.template.cliques[1].spec.startsAfter: Invalid value: ["a"]: ' + _fixed("remove it")],
            id="another place in the start-up order",
        ),
        pytest.param(
            explicit(clique("a"), clique("b", spec={"startsAfter": ["a"]})),
            explicit(*TWO),
            ["spec.template.cliques[1].spec.startsAfter: Invalid value: []: " + _fixed('restore ["a"]')],
            id="a removed place in the start-up order",
        ),
        pytest.param(
            manifest(),
            manifest(clique(pod={"schedulerName": "volcano"})),
            ['spec.template.cliques[0].spec.podSpec.schedulerName: Invalid value: "volcano": ' + _fixed("remove it")],
            id="another scheduler",
        ),
        pytest.param(
            manifest(),
            manifest(clique(resourceSharing=[share("x")])),
            [(f"spec.template.cliques[0].resourceSharing: Invalid value: {_SHARE}: " + _fixed("remove it"))],
            id="a clique's sharing",
        ),
        pytest.param(
            manifest(),
            manifest(template=IN_ORDER),
            [
                'spec.template.cliqueStartupType: Invalid value: "CliqueStartupTypeInOrder": '
                + _fixed('restore "CliqueStartupTypeAnyOrder"')
            ],
            id="another start-up type",
        ),
        pytest.param(
            manifest(template={"resourceClaimTemplates": [claim("gpu")]}),
            manifest(),
            [f"spec.template.resourceClaimTemplates: Invalid value: []: {_fixed('restore the old value')}"],
            id="claim templates removed",
        ),
        pytest.param(
            manifest(template={"resourceSharing": [share("x")]}),
            manifest(),
            ["spec.template.resourceSharing: Invalid value: []: " + _fixed(f"restore {_SHARE}")],
            id="the set's sharing removed",
        ),
        pytest.param(
            manifest(*TWO),
            manifest(*TWO, groups=(group("g", "a"),)),
            [
                (
                    "spec.template.podCliqueScalingGroups: Forbidden: "
                    "groups cannot be added, removed or renamed (existing: none): create a new PodCliqueSet"
                )
            ],
            id="a group added",
        ),
        pytest.param(
            manifest(*TWO, groups=(group("g", "a"),)),
            manifest(*TWO, groups=(group("h", "a"),)),
            [
                (
                    "spec.template.podCliqueScalingGroups: Forbidden: "
                    "groups cannot be added, removed or renamed (existing: g): create a new PodCliqueSet"
                )
            ],
            id="a group renamed",
        ),
        pytest.param(
            manifest(*TWO, groups=(group("g", "a"),)),
            manifest(*TWO, groups=(group("g", "a", "b"),)),
            [
                'spec.template.podCliqueScalingGroups[0].cliqueNames: Invalid value: ["a","b"]: '
                + _fixed('restore ["a"]')
            ],
            id="another member",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", replicas=2),)),
            manifest(groups=(group("g", "a", replicas=2, minAvailable=2),)),
            [f"spec.template.podCliqueScalingGroups[0].minAvailable: Invalid value: 2: {_fixed('restore 1')}"],
            id="a group's minimum",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", resourceSharing=[share("x")]),)),
            manifest(groups=(group("g", "a"),)),
            [
                "spec.template.podCliqueScalingGroups[0].resourceSharing: Invalid value: []: "
                + _fixed(f"restore {_SHARE}")
            ],
            id="a group's sharing",
        ),
        pytest.param(
            manifest(),
            manifest(metadata={"annotations": {_MNNVL: "one"}}),
            [
                (
                    f"metadata.annotations[{_MNNVL}]: Forbidden: "
                    "the annotation cannot be added or removed later: create a new PodCliqueSet"
                )
            ],
            id="an NVLink group added",
        ),
        pytest.param(
            manifest(clique(annotations={_MNNVL: "one"})),
            manifest(clique(annotations={})),
            [
                (
                    f"spec.template.cliques[0].annotations[{_MNNVL}]: Forbidden: "
                    "the annotation cannot be added or removed later: create a new PodCliqueSet"
                )
            ],
            id="an NVLink group removed",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", annotations={_MNNVL: "one"}),)),
            manifest(groups=(group("g", "a", annotations={_MNNVL: "two"}),)),
            [
                (
                    f'spec.template.podCliqueScalingGroups[0].annotations[{_MNNVL}]: Invalid value: "two": '
                    'field is immutable: restore "one", or create a new PodCliqueSet'
                )
            ],
            id="another NVLink group",
        ),
        pytest.param(
            manifest(),
            training(),
            [
                (
                    'spec.workloadType: Invalid value: "Training": field is immutable: '
                    "restore the old value, or create a new PodCliqueSet"
                )
            ],
            id="inference becomes training",
        ),
        pytest.param(
            training(),
            training(replicas=2),
            [f"spec.replicas: Forbidden: {_NO_SCALING}"],
            id="a training set scaled",
        ),
        pytest.param(
            training(),
            training(clique(spec={"replicas": 3})),
            [f"spec.template.cliques[0].spec.replicas: Forbidden: {_NO_SCALING}"],
            id="a training clique scaled",
        ),
        pytest.param(
            training(groups=(group("g", "a"),)),
            training(groups=(group("g", "a", replicas=2),)),
            [f"spec.template.podCliqueScalingGroups[0].replicas: Forbidden: {_NO_SCALING}"],
            id="a training group scaled",
        ),
        pytest.param(
            training(),
            manifest(),
            [
                (
                    'spec.workloadType: Invalid value: "Inference": field is immutable: '
                    "restore the old value, or create a new PodCliqueSet"
                )
            ],
            id="training becomes inference",
        ),
        pytest.param(
            training(*TWO),
            training(clique("b"), clique("a", pod={"containers": [container(image="other")]})),
            [f"spec.template.cliques[1].spec.podSpec: Forbidden: {_NO_UPDATE}"],
            id="a training image changed, and the order of cliques",
        ),
        pytest.param(
            training(*TWO),
            training(clique("a", labels={"x": "y"}), clique("b", annotations={"x": "y"}, pod={"hostNetwork": True})),
            [
                f"spec.template.cliques[0].labels: Forbidden: {_NO_UPDATE}",
                f"spec.template.cliques[1].annotations: Forbidden: {_NO_UPDATE}",
                f"spec.template.cliques[1].spec.podSpec: Forbidden: {_NO_UPDATE}",
            ],
            id="every changed part of training templates",
        ),
        pytest.param(
            training(*TWO),
            training(*TWO, template={"priorityClassName": "high"}),
            [f"spec.template.priorityClassName: Forbidden: {_NO_UPDATE}"],
            id="a training priority changed",
        ),
        pytest.param(
            training(clique(pod={"priorityClassName": "x"}), template={"priorityClassName": "x"}),
            training(clique(pod={"priorityClassName": "y"})),
            [f"spec.template.cliques[0].spec.podSpec: Forbidden: {_NO_UPDATE}"],
            id="a training priority that shows when the set's is gone",
        ),
        pytest.param(
            training(clique(pod={"priorityClassName": "x"}), template={"priorityClassName": "high"}),
            training(clique(pod={"priorityClassName": "y"}, labels={"x": "y"}), template={"priorityClassName": "high"}),
            [f"spec.template.cliques[0].labels: Forbidden: {_NO_UPDATE}"],
            id="training labels, and a priority that means nothing below the set's",
        ),
        pytest.param(
            training(),
            training(clique(spec={"autoScalingConfig": {"maxReplicas": 3}})),
            [
                (
                    "spec.template.cliques[0].spec.autoScalingConfig: Forbidden: "
                    "a training set cannot be scaled: remove this field"
                )
            ],
            id="an autoscaler for a training clique later",
        ),
        pytest.param(
            training(),
            training(clique(pod={"restartPolicy": "Always"})),
            [
                (
                    'spec.template.cliques[0].spec.podSpec.restartPolicy: Invalid value: "Always": '
                    "training would never end: write Never or OnFailure"
                ),
                f"spec.template.cliques[0].spec.podSpec: Forbidden: {_NO_UPDATE}",
            ],
            id="training pods that always restart later",
        ),
        pytest.param(
            training(trainingSpec={"maxRuntime": "2h"}),
            training(trainingSpec={"maxRuntime": "-1h"}),
            ['spec.trainingSpec.maxRuntime: Invalid value: "-1h": must be greater than 0, or absent for no limit'],
            id="a training time limit turned into nonsense",
        ),
        pytest.param(
            with_phase(training(trainingSpec={"maxRestarts": 1}), "Failed"),
            training(trainingSpec={"maxRestarts": 2}),
            ["spec.trainingSpec: Forbidden: the set has ended (Failed): create a new PodCliqueSet"],
            id="training limits raised after the failure",
        ),
        pytest.param(
            with_phase(training(trainingSpec={"maxRuntime": "1h"}), "Succeeded"),
            training(),
            ["spec.trainingSpec: Forbidden: the set has ended (Succeeded): create a new PodCliqueSet"],
            id="training limits lifted after the success",
        ),
        pytest.param(
            {**training(), "status": {"phase": "Running", "conditions": [{"type": "Failed", "status": "True"}]}},
            training(trainingSpec={"maxRestarts": 2}),
            ["spec.trainingSpec: Forbidden: the set has ended (Failed): create a new PodCliqueSet"],
            id="training limits raised while the pods of a failed set go",
        ),
        pytest.param(
            with_phase(training(), "Succeeded"),
            training(clique(pod={"hostNetwork": True}), replicas=2),
            [
                f"spec.replicas: Forbidden: {_NO_SCALING}",
                f"spec.template.cliques[0].spec.podSpec: Forbidden: {_NO_UPDATE}",
            ],
            id="a finished training set started again",
        ),
    ],
)
def test_what_never_changes_is_refused(old: JsonObject, new: JsonObject, errors: list[str]) -> None:
    assert texts(updated(old, new)) == errors


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(manifest(*TWO), manifest(*reversed(TWO)), id="the order of cliques without a start-up order"),
        pytest.param(manifest(), manifest(replicas=3), id="replicas of the set"),
        pytest.param(
            manifest(clique(spec={"replicas": 2, "minAvailable": 1})),
            manifest(clique(spec={"replicas": 4, "minAvailable": 1})),
            id="replicas of a clique",
        ),
        pytest.param(
            manifest(groups=(group("g", "a"),)),
            manifest(groups=(group("g", "a", replicas=4),)),
            id="replicas of a group",
        ),
        pytest.param(manifest(), manifest(updateStrategy={"type": "OnDelete"}), id="the update strategy"),
        pytest.param(manifest(), manifest(clique(pod={"hostNetwork": True})), id="the podSpec"),
        pytest.param(manifest(), manifest(clique(labels={"a": "b"}, annotations={"c": "d"})), id="labels"),
        pytest.param(manifest(), manifest(template={"priorityClassName": "high"}), id="the priority"),
        pytest.param(manifest(), manifest(template={"terminationDelay": "1h"}), id="the termination delay"),
        pytest.param(
            manifest(),
            manifest(template={"headlessServiceConfig": {"publishNotReadyAddresses": False}}),
            id="the service",
        ),
        pytest.param(
            manifest(), manifest(clique(spec={"autoScalingConfig": {"maxReplicas": 4}})), id="autoscaling of a clique"
        ),
        pytest.param(
            manifest(groups=(group("g", "a"),)),
            manifest(groups=(group("g", "a", annotations={"a": "b"}, scaleConfig={"maxReplicas": 3}),)),
            id="annotations and autoscaling of a group",
        ),
        pytest.param(
            training(trainingSpec={"maxRuntime": "1h", "maxRestarts": 1}),
            training(trainingSpec={"maxRuntime": "2h", "maxRestarts": 2}),
            id="training limits raised",
        ),
        pytest.param(
            with_phase(training(trainingSpec={"maxRuntime": "2h", "maxRestarts": 2}), "Running"),
            training(trainingSpec={"maxRuntime": "1h59m", "maxRestarts": 1}),
            id="training limits lowered",
        ),
        pytest.param(
            manifest(clique("a", spec={"roleName": None})),
            manifest(clique("a", spec={"roleName": "a"})),
            id="a role that is written where it was left out",
        ),
        pytest.param(
            with_phase(training(), "Running"),
            training(trainingSpec={"maxRuntime": "1000h"}),
            id="a training time limit added later",
        ),
        pytest.param(
            with_phase(training(trainingSpec={"maxRestarts": 1}), "Running"),
            training(),
            id="training restarts taken away",
        ),
        pytest.param(
            with_phase(training(), "Running"),
            training(trainingSpec={"maxRestarts": 1}),
            id="training restarts added",
        ),
        pytest.param(
            training(trainingSpec={"maxRuntime": "1h"}),
            training(trainingSpec={"maxRuntime": "60m", "maxRestarts": 0}),
            id="training limits written in another way",
        ),
        pytest.param(
            with_phase(training(trainingSpec={"maxRuntime": "1h"}), "Failed"),
            training(trainingSpec={"maxRuntime": "60m"}),
            id="training limits written in another way after the end",
        ),
        pytest.param(
            training(*TWO, template={"priorityClassName": "high"}),
            training(*(clique(name, pod={"priorityClassName": "high"}) for name in "ba")),
            id="the same training pods written in another way",
        ),
        pytest.param(
            training(groups=(group("g", "a"),)),
            training(
                groups=(group("g", "a", terminationDelay="1m"),),
                template={"terminationDelay": "2m", "headlessServiceConfig": {"publishNotReadyAddresses": False}},
            ),
            id="what of training is neither size nor template",
        ),
        pytest.param(training(), training(updateStrategy={"type": "OnDelete"}), id="the strategy of a training set"),
        pytest.param(
            with_phase(training(trainingSpec={"maxRuntime": "1h"}), "Running"),
            training(),
            id="the training time limit lifted",
        ),
        pytest.param(
            with_phase(training(trainingSpec={"maxRestarts": 1}), "Succeeded"),
            training(trainingSpec={"maxRestarts": 1}, template={"terminationDelay": "5m"}),
            id="the delay of a finished training set",
        ),
    ],
)
def test_what_may_change_is_accepted(old: JsonObject, new: JsonObject) -> None:
    assert texts(updated(old, new)) == []


def test_a_minimum_left_out_of_an_update_keeps_its_value() -> None:
    answer = updated(manifest(clique(spec={"replicas": 2})), manifest(clique(spec={"replicas": 5})))
    assert (texts(answer), (answer.object or {})["spec"]["template"]["cliques"][0]["spec"]["minAvailable"]) == ([], 2)


BROKEN = clique("a", spec={"replicas": 1, "minAvailable": 2})
ENDLESS = clique("a", pod={"restartPolicy": "Always"}, spec={"autoScalingConfig": {"maxReplicas": 3}})


@pytest.mark.parametrize(
    ("old", "new", "errors"),
    [
        pytest.param(manifest(BROKEN), manifest(BROKEN, replicas=2), [], id="the same error may stay"),
        pytest.param(
            manifest(BROKEN, clique("b")),
            manifest(clique("b"), BROKEN),
            [],
            id="also at another place of a reordered list",
        ),
        pytest.param(
            manifest(BROKEN, clique("b", spec={"minAvailable": 1})),
            manifest(BROKEN, clique("b", spec={"replicas": 0, "minAvailable": 1}), replicas=-1),
            ["spec.replicas: Invalid value: -1: must be at least 0"],
            id="a new error is refused beside it",
        ),
        pytest.param(
            manifest(clique(pod={"nodeName": "n"})),
            manifest(clique(pod={"nodeName": "m"})),
            [
                (
                    'spec.template.cliques[0].spec.podSpec.nodeName: Invalid value: "m": '
                    "not supported, because a scheduler places the gang: use nodeSelector"
                )
            ],
            id="the same mistake with another value is a new one",
        ),
        pytest.param(
            manifest(replicas="x"),
            manifest(replicas="x", metadata={"finalizers": []}),
            [],
            id="a body that was never readable may lose its finalizer",
        ),
        pytest.param(manifest(replicas="x"), manifest(replicas=1), [], id="a repair of an unreadable body"),
        pytest.param(
            training(ENDLESS, trainingSpec={"maxRuntime": "1d"}),
            training(ENDLESS, trainingSpec={"maxRuntime": "1d", "maxRestarts": 1}),
            [],
            id="a training set that was already wrong",
        ),
        pytest.param(
            training(trainingSpec={"maxRuntime": "1d"}),
            training(trainingSpec={"maxRuntime": "24h"}),
            [],
            id="a repair of a training time limit",
        ),
        pytest.param(
            manifest(trainingSpec={"maxRestarts": 1}),
            manifest(trainingSpec={"maxRestarts": 1}, replicas=2),
            [],
            id="training limits of an inference set",
        ),
        pytest.param(
            manifest(replicas="x"),
            manifest(replicas=-1),
            ["spec.replicas: Invalid value: -1: must be at least 0"],
            id="a bad repair is refused",
        ),
    ],
)
def test_what_was_already_wrong_may_stay_and_nothing_is_added(
    old: JsonObject, new: JsonObject, errors: list[str]
) -> None:
    assert texts(updated(old, new)) == errors


@pytest.mark.parametrize("broken", [manifest(BROKEN), manifest(replicas="x"), manifest(template={"cliques": []})])
def test_a_set_that_is_leaving_is_never_held_up(broken: JsonObject) -> None:
    leaving = {**broken, "metadata": {**broken["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    answer = updated(leaving, leaving)
    assert (texts(answer), answer.object) == ([], leaving)
