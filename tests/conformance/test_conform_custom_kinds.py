"""Our kinds as any API server serves them: schemas, status and scale. No admission is asked here."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from tests.conformance.talk import POD_SPEC, TABLE, Talk, clique
from tests.conformance.words import MODIFIED

GROVE = "grove.io/v1alpha1"
CONDITION = {
    "type": "A", "status": "True", "reason": "Because", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip


def pcs(name: str, template: JsonObject) -> JsonObject:
    return {"apiVersion": GROVE, "kind": "PodCliqueSet", "metadata": {"name": name}, "spec": {"template": template}}


def member(**spec: Any) -> JsonObject:
    return {"name": "w", "spec": {"roleName": "w", "replicas": 1, "podSpec": POD_SPEC, **spec}}


# The head


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({}, "in '{}' ({})"),
        ({"spec": {}}, "in '{\"spec\":{}}' ({\"spec\":{}})"),
        ({"metadata": {"name": "a"}, "x": 1},
         "in '{\"metadata\":{\"name\":\"a\"},\"x\":1}' ({\"metadata\":{\"name\":\"a\"},\"x\":1 ...)"),
    ],
)  # fmt: skip
async def test_a_custom_object_names_its_kind(api: Talk, body: Any, shown: str) -> None:
    answer = await api.post(api.at("podcliques"), body)
    assert answer.refusal == (
        400, "BadRequest",
        f"the object provided is unrecognized (must be of type PodClique): Object 'Kind' is missing {shown}",
    )  # fmt: skip


@pytest.mark.parametrize("version", ["", "grove.io/v9"])
async def test_a_custom_object_names_its_version(api: Talk, version: str) -> None:
    answer = await api.post(api.at("podcliques"), {**clique("a"), "apiVersion": version})
    message = f"the API version in the data ({version}) does not match the expected API version ({GROVE})"
    assert answer.refusal == (400, "BadRequest", message)


@pytest.mark.parametrize("kind", ["Foo", "PodCliqueSet"])
async def test_a_custom_object_of_another_kind_is_invalid(api: Talk, kind: str) -> None:
    answer = await api.post(api.at("podcliques"), {**clique("a"), "kind": kind})
    problem = f'kind: Invalid value: "{kind}": must be PodClique'
    assert answer.refusal == (422, "Invalid", f'{kind}.grove.io "a" is invalid: {problem}')


async def test_a_patch_changes_neither_kind_nor_version(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.merge(api.at("podcliques", "a"), {"kind": "Foo"})
    problem = 'kind: Invalid value: "Foo": must be PodClique'
    assert answer.refusal == (422, "Invalid", f'Foo.grove.io "a" is invalid: {problem}')
    answer = await api.merge(api.at("podcliques", "a"), {"apiVersion": "grove.io/v2"})
    problem = f'apiVersion: Invalid value: "grove.io/v2": must be {GROVE}'
    assert answer.refusal == (422, "Invalid", f'PodClique.grove.io "a" is invalid: {problem}')


# The schema

TYPE = "FieldValueTypeInvalid"
FIRST_CAUSES: list[Any] = [
    ({"replicas": "x"}, "spec.replicas", TYPE,
     'Invalid value: "string": spec.replicas in body must be of type integer: "string"'),
    ({"roleName": 5}, "spec.roleName", TYPE,
     'Invalid value: "integer": spec.roleName in body must be of type string: "integer"'),
    ({"startsAfter": "x"}, "spec.startsAfter", TYPE,
     'Invalid value: "string": spec.startsAfter in body must be of type array: "string"'),
    ({"startsAfter": [1]}, "spec.startsAfter[0]", TYPE,
     'Invalid value: "integer": spec.startsAfter[0] in body must be of type string: "integer"'),
    ({"podSpec": {"containers": "x"}}, "spec.podSpec.containers", TYPE,
     'Invalid value: "string": spec.podSpec.containers in body must be of type array: "string"'),
    ({"replicas": -1}, ".spec.replicas", "FieldValueInvalid", "Invalid value: -1: should be a non-negative integer"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "field", "reason", "message"), FIRST_CAUSES)
async def test_a_value_that_does_not_fit_the_schema_is_named(
    api: Talk, spec: Any, field: str, reason: str, message: str
) -> None:
    answer = await api.post(api.at("podcliques"), clique("a", spec=spec))
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.details is not None
    assert {key: answer.details[key] for key in ("name", "group", "kind")} == {
        "name": "a", "group": "grove.io", "kind": "PodClique"
    }  # fmt: skip
    assert answer.details["causes"][0] == {"reason": reason, "message": message, "field": field}
    assert f"{field}: {message}" in answer.refusal[2]


async def test_everything_wrong_is_named_at_once(api: Talk) -> None:
    body = clique("A", spec={"replicas": "x", "roleName": 5})
    answer = await api.post(api.at("podcliques"), body)
    assert answer.details is not None
    fields = {cause["field"] for cause in answer.details["causes"]}
    assert fields >= {"metadata.name", "spec.roleName", "spec.replicas"}


@pytest.mark.parametrize("spec", [1.5, True, 2**31, [], {}])
async def test_a_count_is_a_small_whole_number(api: Talk, spec: Any) -> None:
    assert (await api.post(api.at("podcliques"), clique("a", spec={"replicas": spec}))).refusal[:2] == (422, "Invalid")


async def test_the_schema_says_what_a_part_is(api: Talk) -> None:
    answer = await api.post(api.at("podcliques"), {**clique("a"), "spec": []})
    assert answer.refusal[:2] == (422, "Invalid")
    assert 'spec: Invalid value: "array": spec in body must be of type object: "array"' in answer.refusal[2]


MISSING: list[Any] = [
    pytest.param({}, "spec: Required value", id="nothing"),
    pytest.param({"spec": None}, None, id="null"),
    pytest.param(
        {"spec": {}},
        "[spec.podSpec: Required value, spec.replicas: Required value]",
        id="empty",
    ),
]


@pytest.mark.parametrize(("rest", "problem"), MISSING)
async def test_required_fields_are_required(api: Talk, rest: Any, problem: str | None) -> None:
    answer = await api.post(
        api.at("podcliques"), {"apiVersion": GROVE, "kind": "PodClique", "metadata": {"name": "a"}, **rest}
    )
    assert answer.refusal[:2] == (422, "Invalid")
    if problem is not None:
        assert answer.refusal[2] == f'PodClique.grove.io "a" is invalid: {problem}'


async def test_a_required_field_cannot_be_patched_away(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.merge(api.at("podcliques", "a"), {"spec": {"podSpec": None}})
    assert answer.refusal == (422, "Invalid", 'PodClique.grove.io "a" is invalid: spec.podSpec: Required value')


async def test_words_of_a_list_are_known(api: Talk) -> None:
    answer = await api.post(api.at("podcliquesets"), pcs("a", {"cliqueStartupType": "Foo", "cliques": [member()]}))
    assert answer.details is not None
    assert answer.details["causes"][0] == {
        "reason": "FieldValueNotSupported",
        "message": (
            'Unsupported value: "Foo": supported values: "CliqueStartupTypeAnyOrder", '
            '"CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"'
        ),
        "field": "spec.template.cliqueStartupType",
    }


async def test_defaults_of_the_schema_are_filled_in(api: Talk) -> None:
    answer = await api.create("podcliquesets", pcs("a", {"cliques": [member()]}))
    assert answer.spec["replicas"] == 0


async def test_restarts_of_a_training_set_are_not_negative(api: Talk) -> None:
    body = pcs("a", {"cliques": [member()]})
    body["spec"] |= {"workloadType": "Training", "trainingSpec": {"maxRestarts": -1}}
    answer = await api.post(api.at("podcliquesets"), body)
    problem = "spec.trainingSpec.maxRestarts: Invalid value: -1: spec.trainingSpec.maxRestarts in body should be"
    assert answer.refusal == (
        422, "Invalid", f'PodCliqueSet.grove.io "a" is invalid: {problem} greater than or equal to 0'
    )  # fmt: skip


async def test_a_set_is_listed_with_its_phase_and_restarts(api: Talk) -> None:
    await api.create("podcliquesets", pcs("a", {"cliques": [member()]}))
    for status, cells in (
        ({}, [None, None]),
        ({"phase": "Running", "restartCount": 0}, ["Running", 0]),
        ({"phase": "Failed", "restartCount": 2}, ["Failed", 2]),
    ):
        await api.merge(api.at("podcliquesets", "a", "status"), {"status": status})
        table = (await api.get(api.at("podcliquesets"), accept=TABLE)).body
        (row,) = table["rows"]
        assert [column["name"] for column in table["columnDefinitions"]][-3:] == ["Phase", "Restarts", "Age"]
        assert row["cells"][-3:-1] == cells


async def test_numbers_and_texts_are_both_good_where_the_schema_says_so(api: Talk) -> None:
    container = {
        "name": "main", "image": "registry.example/pause:3.10",
        "readinessProbe": {"httpGet": {"port": "http"}}, "livenessProbe": {"httpGet": {"port": 80}},
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
    }  # fmt: skip
    answer = await api.create("podcliques", clique("a", spec={"podSpec": {"containers": [container]}}))
    assert answer.spec["podSpec"]["containers"] == [container]


async def test_null_is_dropped_where_the_schema_has_no_null(api: Talk) -> None:
    answer = await api.post(api.at("podcliques"), clique("a", spec={"minAvailable": None, "replicas": 1}))
    assert (answer.status, answer.spec.get("minAvailable", "gone")) == (201, "gone")


async def test_unknown_fields_of_a_custom_object_are_pruned_with_warnings_in_order(api: Talk) -> None:
    answer = await api.post(api.at("podcliques"), {**clique("a", spec={"foo": 1}), "baz": 3})
    assert answer.warnings == ['299 - "unknown field \\"baz\\""', '299 - "unknown field \\"spec.foo\\""']
    assert ("baz" in answer.body, "foo" in answer.spec) == (False, False)


async def test_a_strict_client_is_told_of_unknown_fields_of_a_custom_object(api: Talk) -> None:
    body = {**clique("a", spec={"foo": 1, "podSpec": {**POD_SPEC, "bar": 2}}), "baz": 3}
    answer = await api.post(api.at("podcliques"), body, fieldValidation="Strict")
    assert answer.refusal == (
        400, "BadRequest",
        ('PodClique in version "v1alpha1" cannot be handled as a PodClique: strict decoding error: '
        'unknown field "baz", unknown field "spec.foo", unknown field "spec.podSpec.bar"'),
    )  # fmt: skip


async def test_unknown_fields_of_a_custom_object_can_be_ignored(api: Talk) -> None:
    answer = await api.post(api.at("podcliques"), clique("a", spec={"foo": 1}), fieldValidation="Ignore")
    assert (answer.status, answer.warnings, "foo" in answer.spec) == (201, [], False)


async def test_metadata_of_a_custom_object_must_be_readable(api: Talk) -> None:
    code, reason, message = (await api.post(api.at("podcliques"), clique("a", labels={"a": 5}))).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith('PodClique in version "v1alpha1" cannot be handled as a PodClique: json: ')


async def test_a_cluster_wide_kind_has_no_namespace(api: Talk) -> None:
    body = {"apiVersion": GROVE, "kind": "ClusterTopologyBinding", "metadata": {"name": f"of-{api.namespace}"}}
    levels = [{"domain": "zone", "key": "topology.kubernetes.io/zone"}]
    answer = await api.create("clustertopologybindings", {**body, "spec": {"levels": levels}})
    assert "namespace" not in answer.metadata


# The status


async def test_a_status_is_not_created(api: Talk) -> None:
    answer = await api.create("podcliques", {**clique("a"), "status": {"replicas": 5}})
    assert "status" not in answer.body


async def test_status_and_the_rest_do_not_touch_each_other(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    path = api.at("podcliques", "a")
    patch = {"status": {"replicas": 2}, "spec": {"replicas": 9}, "metadata": {"labels": {"a": "b"}}}
    answer = await api.merge(f"{path}/status", patch)
    assert (answer.body["status"]["replicas"], answer.spec["replicas"]) == (2, 1)
    assert "labels" not in answer.metadata
    answer = await api.merge(path, {"status": {"replicas": 7}, "spec": {"replicas": 3}})
    assert (answer.body["status"]["replicas"], answer.spec["replicas"]) == (2, 3)


async def test_a_status_can_be_taken_away(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    await api.merge(api.at("podcliques", "a", "status"), {"status": {"replicas": 2}})
    assert "status" not in (await api.merge(api.at("podcliques", "a", "status"), {"status": None})).body


async def test_a_status_is_replaced_by_version(api: Talk) -> None:
    born = await api.create("podcliques", clique("a"))
    path = api.at("podcliques", "a", "status")
    problem = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    answer = await api.put(path, {**clique("a"), "status": {"replicas": 1}})
    assert answer.refusal == (422, "Invalid", f'podcliques.grove.io "a" is invalid: {problem}')
    body = {**clique("a", resourceVersion=born.metadata["resourceVersion"]), "status": {"replicas": 1}}
    assert (await api.put(path, body)).body["status"]["replicas"] == 1
    conflict = f'Operation cannot be fulfilled on podcliques.grove.io "a": {MODIFIED}'
    assert (await api.put(path, {**body, "status": {}})).refusal == (409, "Conflict", conflict)


STATUS_ERRORS: list[Any] = [
    pytest.param(
        {"replicas": "x"}, "status.replicas", TYPE,
        'Invalid value: "string": replicas in body must be of type integer: "string"', id="type",
    ),
    pytest.param(
        {"conditions": [{**CONDITION, "lastTransitionTime": "yesterday"}]}, "status.conditions[0].lastTransitionTime",
        TYPE, 'Invalid value: "yesterday": conditions[0].lastTransitionTime in body must be of type date-time: '
        '"yesterday"', id="time",
    ),
    pytest.param(
        {"conditions": [{**CONDITION, "status": "Maybe"}]}, "status.conditions[0].status", "FieldValueNotSupported",
        'Unsupported value: "Maybe": supported values: "True", "False", "Unknown"', id="word",
    ),
    pytest.param(
        {"conditions": [CONDITION, CONDITION]}, "status.conditions[1]", "FieldValueDuplicate",
        'Duplicate value: {"type":"A"}', id="twice",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("status", "field", "reason", "message"), STATUS_ERRORS)
async def test_a_status_fits_the_schema(api: Talk, status: Any, field: str, reason: str, message: str) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.merge(api.at("podcliques", "a", "status"), {"status": status})
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.details is not None
    assert answer.details["causes"][0] == {"reason": reason, "message": message, "field": field}


async def test_unknown_fields_of_a_status_are_pruned(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.merge(api.at("podcliques", "a", "status"), {"status": {"replicas": 1, "foo": 1}})
    assert (answer.body["status"]["replicas"], "foo" in answer.body["status"]) == (1, False)
    assert answer.warnings == ['299 - "unknown field \\"status.foo\\""']


# The scale


async def scaled(api: Talk) -> str:
    await api.create("podcliques", clique("a", spec={"replicas": 2}))
    await api.merge(api.at("podcliques", "a", "status"), {"status": {"replicas": 1, "hpaPodSelector": "a=b"}})
    return api.at("podcliques", "a", "scale")


async def test_a_scale_shows_replicas_and_selector(api: Talk) -> None:
    path = await scaled(api)
    whole = (await api.get(api.at("podcliques", "a"))).metadata
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert (await api.get(path)).body == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: whole[field] for field in shown},
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "a=b"},
    }


@pytest.mark.parametrize("kind", ["merge", "json"])
async def test_a_scale_is_patched(api: Talk, kind: str) -> None:
    path = await scaled(api)
    if kind == "merge":
        answer = await api.merge(path, {"spec": {"replicas": 5}})
    else:
        answer = await api.json_patch(path, {"op": "replace", "path": "/spec/replicas", "value": 5})
    assert (answer.status, answer.body["kind"], answer.spec) == (200, "Scale", {"replicas": 5})
    whole = await api.get(api.at("podcliques", "a"))
    assert (whole.spec["replicas"], whole.metadata["generation"]) == (5, 2)


async def test_a_scale_is_replaced_by_version(api: Talk) -> None:
    path = await scaled(api)
    scale = (await api.get(path)).body
    assert (await api.put(path, {**scale, "spec": {"replicas": 5}})).spec == {"replicas": 5}
    answer = await api.put(path, {**scale, "spec": {"replicas": 6}})
    conflict = f'Operation cannot be fulfilled on podcliques.grove.io "a": {MODIFIED}'
    assert answer.refusal == (409, "Conflict", conflict)


@pytest.mark.parametrize("head", [{}, {"kind": "Scale", "apiVersion": "autoscaling/v1"}])
async def test_a_scale_may_be_replaced_blindly(api: Talk, head: Any) -> None:
    path = await scaled(api)
    answer = await api.put(path, {**head, "metadata": {"name": "a"}, "spec": {"replicas": 6}})
    assert (answer.status, answer.spec) == (200, {"replicas": 6})


async def test_a_scale_is_of_what_the_path_names(api: Talk) -> None:
    path = await scaled(api)
    head = {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 6}}
    answer = await api.put(path, {**head, "metadata": {"name": "b"}})
    message = "the name of the object (b) does not match the name on the URL (a)"
    assert answer.refusal == (400, "BadRequest", message)
    answer = await api.put(path, head)
    message = "the name of the object (a based on URL) was undeterminable: name must be provided"
    assert answer.refusal == (400, "BadRequest", message)


async def test_a_scale_is_not_negative(api: Talk) -> None:
    path = await scaled(api)
    answer = await api.merge(path, {"spec": {"replicas": -1}})
    problem = ".spec.replicas: Invalid value: -1: should be a non-negative integer"
    assert answer.refusal == (422, "Invalid", f'PodClique.grove.io "a" is invalid: {problem}')


async def test_a_scale_is_a_number(api: Talk) -> None:
    path = await scaled(api)
    answer = await api.merge(path, {"spec": {"replicas": "x"}})
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.refusal[2].startswith(' "" is invalid: patch: Invalid value: "{\\"')


async def test_a_scale_of_nothing_leaves_the_number_out(api: Talk) -> None:
    path = await scaled(api)
    assert (await api.merge(path, {"spec": {"replicas": None}})).spec == {}
    assert (await api.get(api.at("podcliques", "a"))).spec["replicas"] == 0


async def test_a_dry_run_does_not_scale(api: Talk) -> None:
    path = await scaled(api)
    assert (await api.merge(path, {"spec": {"replicas": 9}}, dryRun="All")).spec == {"replicas": 9}
    assert (await api.get(path)).spec == {"replicas": 2}


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_what_is_not_there_has_no_scale(api: Talk, method: str) -> None:
    path = api.at("podcliques", "nobody", "scale")
    answer = await api.get(path) if method == "GET" else await api.merge(path, {"spec": {"replicas": 1}})
    assert answer.refusal == (404, "NotFound", 'podcliques.grove.io "nobody" not found')


async def test_a_kind_without_scale_has_none(api: Talk) -> None:
    answer = await api.get(api.at("podgangs", "a", "scale"))
    assert answer.refusal == (404, "NotFound", 'podgangs.scheduler.grove.io "a" not found')


@pytest.mark.parametrize("subresource", ["status", "scale"])
@pytest.mark.parametrize(("method", "verb"), [("POST", "create"), ("DELETE", "delete")])
async def test_subresources_are_neither_created_nor_deleted(
    api: Talk, subresource: str, method: str, verb: str
) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.send(method, api.at("podcliques", "a", subresource), {} if method == "POST" else None)
    message = f'{verb} is not supported on resources of kind "podcliques.grove.io"'
    assert answer.refusal == (405, "MethodNotAllowed", message)
    assert answer.details == {"group": "grove.io", "kind": "podcliques"}
