"""What an absent field means."""

import copy
from typing import Any

import pytest

from grove.api.defaulting import default_podcliqueset
from grove.api.types.meta import JsonObject
from tests.api.manifests import clique, group, manifest, training


def at(json: JsonObject, path: str) -> Any:
    """The value at a dotted path; numbers are list indices."""
    value: Any = json
    for step in path.split("."):
        value = value[int(step)] if step.isdigit() else value[step]
    return value


_CLIQUE = "spec.template.cliques.0.spec"
_GROUP = "spec.template.podCliqueScalingGroups.0"


@pytest.mark.parametrize(
    ("json", "path", "value"),
    [
        pytest.param(manifest(metadata={"namespace": ""}), "metadata.namespace", "default", id="namespace"),
        pytest.param(manifest(replicas=None), "spec.replicas", 0, id="replicas of the set"),
        pytest.param(manifest(), "spec.workloadType", "Inference", id="workload type"),
        pytest.param(manifest(updateStrategy={}), "spec.updateStrategy.type", "RollingRecreate", id="update strategy"),
        pytest.param(manifest(), "spec.template.cliqueStartupType", "CliqueStartupTypeAnyOrder", id="start-up type"),
        pytest.param(
            manifest(),
            "spec.template.headlessServiceConfig",
            {"publishNotReadyAddresses": True},
            id="no service config",
        ),
        pytest.param(
            manifest(template={"headlessServiceConfig": {}}),
            "spec.template.headlessServiceConfig",
            {"publishNotReadyAddresses": True},
            id="an empty service config",
        ),
        pytest.param(manifest(), f"{_CLIQUE}.podSpec.restartPolicy", "Always", id="restart policy"),
        pytest.param(training(), f"{_CLIQUE}.podSpec.restartPolicy", "Never", id="restart policy of training"),
        pytest.param(manifest(), f"{_CLIQUE}.podSpec.terminationGracePeriodSeconds", 30, id="grace"),
        pytest.param(
            manifest(clique(pod={"terminationGracePeriodSeconds": 0})),
            f"{_CLIQUE}.podSpec.terminationGracePeriodSeconds",
            0,
            id="no grace is a choice",
        ),
        pytest.param(manifest(clique(spec={"replicas": 0})), f"{_CLIQUE}.replicas", 0, id="no pods is a choice"),
        pytest.param(
            manifest(clique(spec={"replicas": 0})),
            f"{_CLIQUE}.minAvailable",
            0,
            id="and the minimum is what was submitted",
        ),
        pytest.param(manifest(clique(spec={"replicas": None})), f"{_CLIQUE}.minAvailable", 1, id="one pod if not said"),
        pytest.param(manifest(clique(spec={"replicas": 3})), f"{_CLIQUE}.minAvailable", 3, id="all pods are needed"),
        pytest.param(
            manifest(clique(spec={"autoScalingConfig": {"maxReplicas": 4}})),
            f"{_CLIQUE}.autoScalingConfig",
            {"minReplicas": 2, "maxReplicas": 4},
            id="an autoscaler does not go below the count",
        ),
        pytest.param(
            manifest(groups=(group("g", "a"),)),
            _GROUP,
            {"name": "g", "cliqueNames": ["a"], "replicas": 1, "minAvailable": 1},
            id="counts of a group",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", replicas=3, scaleConfig={"maxReplicas": 4}),)),
            f"{_GROUP}.scaleConfig",
            {"minReplicas": 3, "maxReplicas": 4},
            id="a group's autoscaler",
        ),
        pytest.param(training(), "spec.template.terminationDelay", "0s", id="training acts at once"),
        pytest.param(
            training(template={"terminationDelay": "5m"}), "spec.template.terminationDelay", "5m", id="unless it waits"
        ),
        pytest.param(
            training(clique(pod={"restartPolicy": "OnFailure"})),
            f"{_CLIQUE}.podSpec.restartPolicy",
            "OnFailure",
            id="a restart policy of training that was chosen",
        ),
        pytest.param(training(trainingSpec={}), "spec.trainingSpec", {}, id="no restarts are not written down"),
    ],
)
def test_an_absent_field_gets_its_default(json: JsonObject, path: str, value: object) -> None:
    assert at(default_podcliqueset(json), path) == value


@pytest.mark.parametrize("field", ["terminationDelay", "priorityClassName", "topologyConstraint"])
def test_a_field_without_a_default_stays_absent(field: str) -> None:
    assert field not in default_podcliqueset(manifest(template={field: None}))["spec"]["template"]


@pytest.mark.parametrize("role", [None, ""], ids=["absent", "empty"])
def test_a_clique_without_a_role_is_called_by_its_name(role: str | None) -> None:
    assert at(default_podcliqueset(manifest(clique("a", spec={"roleName": role}))), f"{_CLIQUE}.roleName") == "a"


def test_a_delay_of_the_installation_is_written_into_new_sets_that_serve() -> None:
    group = {"name": "g", "cliqueNames": ["a"], "terminationDelay": "1h"}
    made = default_podcliqueset(manifest(template={"podCliqueScalingGroups": [group]}), default_delay="4h")
    assert at(made, "spec.template.terminationDelay") == "4h"
    chosen = default_podcliqueset(manifest(template={"terminationDelay": "5m"}), default_delay="4h")
    assert at(chosen, "spec.template.terminationDelay") == "5m"
    assert at(default_podcliqueset(training(), default_delay="4h"), "spec.template.terminationDelay") == "0s"


def test_a_delay_that_is_removed_later_stays_removed() -> None:
    changed = default_podcliqueset(manifest(), manifest(template={"terminationDelay": "4h"}), default_delay="4h")
    assert "terminationDelay" not in changed["spec"]["template"]


def test_no_update_strategy_stays_none() -> None:
    assert "updateStrategy" not in default_podcliqueset(manifest())["spec"]


def test_no_limits_of_training_stay_none() -> None:
    assert "trainingSpec" not in default_podcliqueset(training())["spec"]


def test_defaulting_twice_changes_nothing_more() -> None:
    once = default_podcliqueset(training(groups=(group("g", "a", scaleConfig={"maxReplicas": 4}),)))
    assert default_podcliqueset(once) == once


def test_the_input_is_never_changed() -> None:
    json = manifest(clique(spec={"replicas": 0, "autoScalingConfig": {}}), groups=(group("g", "a"),))
    before = copy.deepcopy(json)
    default_podcliqueset(json)
    assert json == before


def test_the_pod_spec_keeps_every_field_the_user_wrote_unless_it_is_null() -> None:
    """Charts render a null for what is not set: to a pod it is absent, and API servers prune it."""
    written = {"unknownToUs": {"a": None}, "containers": [{"name": "c", "lifecycle": None, "env": []}]}
    defaulted = default_podcliqueset(manifest(clique(pod=written)))
    assert at(defaulted, f"{_CLIQUE}.podSpec") == {
        "unknownToUs": {},
        "containers": [{"name": "c", "env": []}],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
    }


def test_unknown_fields_and_status_survive() -> None:
    json = {**manifest(future=1), "status": {"replicas": 3}}
    defaulted = default_podcliqueset(json)
    assert (defaulted["spec"]["future"], defaulted["status"]) == (1, {"replicas": 3})
