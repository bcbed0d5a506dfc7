"""The generated pages of docs/reference equal what the types say."""

from typing import Any

import pytest

from grove.api.defaulting import default_podcliqueset
from grove.api.types.operatorconfiguration import OperatorConfiguration
from tests.configuration_keys import MEANINGS
from tests.field_reference import COMMAND, FOLDER, KINDS, Field, Kind, configuration_keys, fields_of, pages

SET_FIELDS: dict[str, Field] = {field.path: field for field in fields_of(KINDS[0])}


def test_every_generated_page_is_up_to_date() -> None:
    stale = [name for name, text in pages().items() if not _is_written(name, text)]
    assert stale == [], f"{COMMAND} writes them again"


def _is_written(name: str, text: str) -> bool:
    path = FOLDER / name
    return path.exists() and path.read_text() == text


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_every_field_has_a_meaning(kind: Kind) -> None:
    assert [field.path for field in fields_of(kind) if not field.meaning] == []


def test_every_key_of_the_configuration_has_a_meaning_and_no_other() -> None:
    assert sorted(MEANINGS) == sorted(path for path, _, _ in configuration_keys(OperatorConfiguration))


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("spec.replicas", "user; immutable in a training set"),
        ("spec.workloadType", "immutable"),
        ("spec.updateStrategy.type", "user"),
        ("spec.trainingSpec.maxRestarts", "user"),
        ("spec.template.terminationDelay", "user"),
        ("spec.template.cliques", "items cannot be added or removed"),
        ("spec.template.cliques[].name", "immutable"),
        ("spec.template.cliques[].spec.minAvailable", "immutable"),
        ("spec.template.cliques[].spec.podSpec", "user; immutable in a training set"),
        ("spec.template.topologyConstraint.pack.required", "immutable"),
        ("spec.template.resourceSharing[].scope", "immutable"),
    ],
)
def test_the_page_says_who_may_change_a_field_of_a_set(path: str, answer: str) -> None:
    assert SET_FIELDS[path].changed_by == answer


def test_every_default_that_admission_fills_in_is_on_the_page() -> None:
    clique = {"name": "a", "spec": {"podSpec": {}, "autoScalingConfig": {"maxReplicas": 3}}}
    group = {"name": "g", "cliqueNames": ["a"], "scaleConfig": {"maxReplicas": 3}}
    template = {"cliques": [clique], "podCliqueScalingGroups": [group]}
    given = {"metadata": {"name": "p"}, "spec": {"updateStrategy": {}, "template": template}}
    filled = sorted(_paths(default_podcliqueset(given)["spec"], "spec") - _paths(given["spec"], "spec"))
    assert len(filled) > 10
    assert [path for path in filled if ".podSpec." not in path and not SET_FIELDS[path].default] == []


def _paths(value: Any, path: str) -> set[str]:
    if isinstance(value, dict):
        return {path}.union(*(_paths(inner, f"{path}.{name}") for name, inner in value.items()))
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {path, *(found for item in value for found in _paths(item, f"{path}[]") if found != f"{path}[]")}
    return {path}
