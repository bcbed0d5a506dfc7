"""POST: what a new object gets, and what is refused, in which words."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from tests.conformance.talk import Talk, clique, config, pod
from tests.conformance.words import LABEL_VALUE, QUALIFIED_NAME, SUBDOMAIN


async def test_a_new_object_gets_its_identity(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), config("a", {"key": "value"}))
    metadata = {key: value for key, value in answer.metadata.items() if key != "managedFields"}
    assert answer.status == 201
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("ConfigMap", "v1")
    assert sorted(metadata) == ["creationTimestamp", "name", "namespace", "resourceVersion", "uid"]
    assert (metadata["name"], metadata["namespace"]) == ("a", api.namespace)
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")
    assert len(metadata["creationTimestamp"]) == 20
    assert int(metadata["resourceVersion"]) > 0
    assert answer.body["data"] == {"key": "value"}


@pytest.mark.parametrize(("plural", "body"), [("pods", pod("a")), ("podcliques", clique("a"))])
async def test_kinds_with_wishes_start_at_generation_one(api: Talk, plural: str, body: Any) -> None:
    assert (await api.create(plural, body)).metadata["generation"] == 1


async def test_what_only_the_server_decides_is_decided_by_the_server(api: Talk) -> None:
    given: JsonObject = {"uid": "mine", "creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x"}
    leaving: JsonObject = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    metadata = (await api.create("configmaps", config("a", **given, **leaving))).metadata
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] > "2026"
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & set(metadata)


async def test_a_name_is_made_from_a_beginning(api: Talk) -> None:
    metadata = (await api.create("configmaps", {"metadata": {"generateName": "web-"}})).metadata
    assert metadata["generateName"] == "web-"
    assert metadata["name"].startswith("web-")
    assert len(metadata["name"]) == len("web-") + 5


async def test_a_long_beginning_is_cut_so_that_the_name_is_a_label(api: Talk) -> None:
    metadata = (await api.create("configmaps", {"metadata": {"generateName": "x" * 100}})).metadata
    assert len(metadata["name"]) == 63


async def test_a_name_that_is_given_wins_over_a_beginning(api: Talk) -> None:
    answer = await api.create("configmaps", {"metadata": {"generateName": "x-", "name": "a"}})
    assert (answer.metadata["name"], answer.metadata["generateName"]) == ("a", "x-")


async def test_a_bad_beginning_is_named_too(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), {"metadata": {"generateName": "x_"}})
    assert answer.details is not None
    assert answer.status == 422
    assert [cause["field"] for cause in answer.details["causes"]] == ["metadata.generateName", "metadata.name"]
    assert answer.details["causes"][0]["message"] == f'Invalid value: "x_": {SUBDOMAIN}'


async def test_a_name_exists_once(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.post(api.at("configmaps"), config("a"))
    assert answer.refusal == (409, "AlreadyExists", 'configmaps "a" already exists')
    assert answer.details == {"name": "a", "kind": "configmaps"}


async def test_a_custom_object_exists_once(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.post(api.at("podcliques"), clique("a"))
    assert answer.refusal == (409, "AlreadyExists", 'podcliques.grove.io "a" already exists')
    assert answer.details == {"name": "a", "group": "grove.io", "kind": "podcliques"}


async def test_a_name_is_free_only_once_its_object_is_gone(api: Talk) -> None:
    await api.create("configmaps", config("a", finalizers=["x.io/hold"]))
    await api.delete(api.at("configmaps", "a"))
    answer = await api.post(api.at("configmaps"), config("a"))
    assert answer.refusal == (409, "AlreadyExists", 'object is being deleted: configmaps "a" already exists')


async def test_a_name_is_needed(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), {"metadata": {}})
    assert answer.refusal == (
        422, "Invalid", 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )  # fmt: skip
    cause = {
        "reason": "FieldValueRequired",
        "message": "Required value: name or generateName is required",
        "field": "metadata.name",
    }
    assert answer.details == {"kind": "ConfigMap", "causes": [cause]}


async def test_a_body_of_null_is_an_empty_object(api: Talk) -> None:
    answer = await api.send("POST", api.at("configmaps"), b"null")
    assert (
        answer.refusal[2] == 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )


METADATA_ERRORS: list[Any] = [
    pytest.param({"name": "A_b"}, "metadata.name", f'Invalid value: "A_b": {SUBDOMAIN}', id="name"),
    pytest.param(
        {"labels": {"a b": "c"}}, "metadata.labels", f'Invalid value: "a b": {QUALIFIED_NAME}', id="label-key",
    ),
    pytest.param({"labels": {"a": "b c"}}, "metadata.labels", f'Invalid value: "b c": {LABEL_VALUE}', id="label-value"),
    pytest.param(
        {"labels": {"a": "b" * 64}}, "metadata.labels",
        f'Invalid value: "{"b" * 64}": must be no more than 63 bytes', id="long-label-value",
    ),
    pytest.param(
        {"labels": {"x/y/z": "b"}}, "metadata.labels",
        f'Invalid value: "x/y/z": {QUALIFIED_NAME.replace("name part", "a valid label key")} with an optional DNS '
        "subdomain prefix and '/' (e.g. 'example.com/MyName')", id="two-slashes",
    ),
    pytest.param(
        {"annotations": {"a b": "c"}}, "metadata.annotations", f'Invalid value: "a b": {QUALIFIED_NAME}',
        id="annotation",
    ),
    pytest.param(
        {"annotations": {"a": "b" * 262144}}, "metadata.annotations", "Too long: may not be more than 262144 bytes",
        id="long-annotation",
    ),
    pytest.param(
        {"finalizers": ["bare"]}, "metadata.finalizers[0]",
        'Invalid value: "bare": name is neither a standard finalizer name nor is it fully qualified', id="finalizer",
    ),
    pytest.param(
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"}]},
        "metadata.ownerReferences[0]",
        'Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"1"}: '
        "/v1, Kind=Event is disallowed from being an owner", id="owner-event",
    ),
    pytest.param(
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
        "metadata.ownerReferences[0].uid", "Required value: must not be empty", id="owner-without-uid",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("metadata", "field", "message"), METADATA_ERRORS)
async def test_bad_metadata_is_named(api: Talk, metadata: Any, field: str, message: str) -> None:
    body = {"metadata": {"name": "a", **metadata}}
    name = body["metadata"]["name"]
    answer = await api.post(api.at("configmaps"), body)
    assert answer.refusal == (422, "Invalid", f'ConfigMap "{name}" is invalid: {field}: {message}')
    assert answer.details is not None
    assert [(cause["field"], cause["message"]) for cause in answer.details["causes"]] == [(field, message)]


async def test_an_owner_reference_says_all(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), config("a", ownerReferences=[{}]))
    assert answer.details is not None
    fields = [cause["field"] for cause in answer.details["causes"]]
    assert fields == [f"metadata.ownerReferences[0].{field}" for field in ("apiVersion", "kind", "name", "uid")]
    assert {cause["reason"] for cause in answer.details["causes"]} == {"FieldValueRequired"}


async def test_one_owner_is_the_controller(api: Talk) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "xy"]
    answer = await api.post(api.at("configmaps"), config("a", ownerReferences=owners))
    assert answer.status == 422
    assert answer.refusal[2].endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/x and Pod/y'
    )


async def test_long_values_are_quoted_in_full(api: Talk) -> None:
    name = "a" * 254
    answer = await api.post(api.at("configmaps"), config(name))
    assert answer.refusal == (
        422, "Invalid",
        f'ConfigMap "{name}" is invalid: metadata.name: Invalid value: "{name}": must be no more than 253 characters',
    )  # fmt: skip


async def test_another_namespace_than_the_path_says_is_refused(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), config("a", namespace="other"))
    message = "the namespace of the provided object does not match the namespace sent on the request"
    assert answer.refusal == (400, "BadRequest", message)


async def test_a_namespace_must_exist(api: Talk) -> None:
    answer = await api.post(api.at("configmaps", namespace="nowhere-at-all"), config("a"))
    assert answer.refusal == (404, "NotFound", 'namespaces "nowhere-at-all" not found')
    assert answer.details == {"name": "nowhere-at-all", "kind": "namespaces"}


async def test_a_version_cannot_be_given_to_a_new_object(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), config("a", resourceVersion="5"))
    assert answer.refusal == (500, "", "resourceVersion should not be set on objects to be created")


async def test_a_built_in_kind_may_leave_out_what_the_path_says(api: Talk) -> None:
    answer = await api.create("configmaps", {"metadata": {"name": "a"}})
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("ConfigMap", "v1")


WRONG_KINDS: list[Any] = [
    ({"kind": "Secret", "apiVersion": "v1"}, 'Secret in version "v1" cannot be handled as a ConfigMap'),
    ({"kind": "ConfigMap", "apiVersion": "v2"}, 'ConfigMap in version "v2" cannot be handled as a ConfigMap'),
    ({"kind": "ConfigMap", "apiVersion": "apps/v1"}, 'ConfigMap in version "v1" cannot be handled as a ConfigMap'),
]


@pytest.mark.parametrize(("head", "beginning"), WRONG_KINDS)
async def test_another_kind_than_the_path_says_is_refused(api: Talk, head: Any, beginning: str) -> None:
    code, reason, message = (await api.post(api.at("configmaps"), {**head, "metadata": {"name": "a"}})).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith(f"{beginning}: ")


UNREADABLE: list[Any] = [
    pytest.param(b"{", "({)", id="cut"),
    pytest.param(b'{"metadata": nope}', '({"metadata": nope})', id="word"),
    pytest.param(b"[]", "(5b5d)", id="list"),
    pytest.param(b'"text"', "(227465787422)", id="text"),
    pytest.param(b'{"metadata": {"name": "this is long"', '({"metadata": {"name": "this is ...)', id="long"),
]


@pytest.mark.parametrize("plural", ["configmaps", "podcliques"])
@pytest.mark.parametrize(("body", "shown"), UNREADABLE)
async def test_what_is_no_object_is_shown_back(api: Talk, plural: str, body: bytes, shown: str) -> None:
    code, reason, message = (await api.send("POST", api.at(plural), body)).refusal
    kind = {"configmaps": "ConfigMap", "podcliques": "PodClique"}[plural]
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: "
    )
    assert message.endswith(shown)


WRONG_TYPES: list[Any] = [
    {"metadata": {"name": 5}}, {"metadata": {"name": "a", "labels": {"a": 5}}}, {"metadata": []},
    {"metadata": {"name": "a", "finalizers": "x"}}, {"metadata": {"name": "a"}, "data": {"a": 1}},
    {"metadata": {"name": "a"}, "data": []},
]  # fmt: skip


@pytest.mark.parametrize("body", WRONG_TYPES)
async def test_a_field_of_the_wrong_type_makes_the_body_unreadable(api: Talk, body: Any) -> None:
    code, reason, message = (await api.post(api.at("configmaps"), body)).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith('ConfigMap in version "v1" cannot be handled as a ConfigMap: json: ')


async def test_a_strict_client_is_told_of_unknown_fields(api: Talk) -> None:
    body = {"metadata": {"name": "a", "foo": 1}, "bar": 2}
    answer = await api.post(api.at("configmaps"), body, fieldValidation="Strict")
    assert answer.refusal == (
        400, "BadRequest",
        ('ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'unknown field "metadata.foo", unknown field "bar"'),
    )  # fmt: skip


DEEP: list[Any] = [
    ("pods", "Pod", pod("a", spec={"foo": 1}), "spec.foo"),
    ("pods", "Pod", pod("a", spec={"containers": [{"name": "x", "image": "i", "comand": []}]}),
     "spec.containers[0].comand"),
    ("namespaces", "Namespace", {"metadata": {"name": "strict"}, "spec": {"foo": 1}}, "spec.foo"),
    ("services", "Service", {"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "foo": 1}}, "spec.foo"),
    ("resourcequotas", "ResourceQuota", {"metadata": {"name": "a"}, "spec": {"foo": 1}}, "spec.foo"),
    ("leases", "Lease", {"metadata": {"name": "a"}, "spec": {"foo": 1}}, "spec.foo"),
    ("secrets", "Secret", {"metadata": {"name": "a"}, "string_data": {}}, "string_data"),
]  # fmt: skip


@pytest.mark.parametrize(("plural", "kind", "body", "field"), DEEP)
async def test_a_strict_client_is_told_of_unknown_fields_wherever_they_are(
    api: Talk, plural: str, kind: str, body: Any, field: str
) -> None:
    answer = await api.post(api.at(plural), body, fieldValidation="Strict")
    assert answer.refusal == (
        400, "BadRequest",
        f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error: unknown field "{field}"',
    )  # fmt: skip


async def test_unknown_fields_are_dropped_with_a_warning(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), {"metadata": {"name": "a", "foo": 1}, "bar": 2})
    assert answer.warnings == ['299 - "unknown field \\"metadata.foo\\""', '299 - "unknown field \\"bar\\""']
    assert "bar" not in answer.body
    assert "foo" not in answer.metadata


async def test_a_careless_client_is_not_warned(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), {"metadata": {"name": "a", "foo": 1}}, fieldValidation="Ignore")
    assert (answer.status, answer.warnings) == (201, [])


async def test_a_strict_client_is_told_of_repeated_fields(api: Talk) -> None:
    body = b'{"metadata": {"name": "a"}, "data": {"k": "1", "k": "2"}}'
    answer = await api.send("POST", api.at("configmaps"), body, query={"fieldValidation": "Strict"})
    assert answer.refusal == (
        400, "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: duplicate field "data.k"',
    )  # fmt: skip


async def test_of_repeated_fields_the_last_counts_with_a_warning(api: Talk) -> None:
    body = b'{"metadata": {"name": "a"}, "data": {"k": "1", "k": "2"}}'
    answer = await api.send("POST", api.at("configmaps"), body)
    assert answer.warnings == ['299 - "duplicate field \\"data.k\\""']
    assert answer.body["data"] == {"k": "2"}


async def test_a_dry_run_stores_nothing(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), config("a"), dryRun="All")
    assert answer.status == 201
    assert answer.metadata["uid"]
    assert "resourceVersion" not in answer.metadata
    assert (await api.get(api.at("configmaps", "a"))).status == 404


async def test_a_dry_run_is_refused_as_a_real_one(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.post(api.at("configmaps"), config("a"), dryRun="All")
    assert answer.refusal == (409, "AlreadyExists", 'configmaps "a" already exists')


OPTIONS: list[Any] = [
    (
        {"fieldValidation": "Foo"},
        'fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn"',
    ),
    ({"dryRun": "Foo"}, 'dryRun: Unsupported value: ["Foo"]: supported values: "All"'),
]  # fmt: skip


@pytest.mark.parametrize(("query", "problem"), OPTIONS)
@pytest.mark.parametrize("verb", ["Create", "Update", "Patch"])
async def test_an_option_with_an_unknown_value_is_refused(api: Talk, verb: str, query: Any, problem: str) -> None:
    await api.create("configmaps", config("a"))
    path = api.at("configmaps", "a")
    match verb:
        case "Create":
            answer = await api.post(api.at("configmaps"), config("b"), **query)
        case "Update":
            answer = await api.put(path, config("a"), **query)
        case _:
            answer = await api.merge(path, {}, **query)
    assert answer.refusal == (422, "Invalid", f'{verb}Options.meta.k8s.io "" is invalid: {problem}')
    assert answer.details is not None
    assert (answer.details["group"], answer.details["kind"]) == ("meta.k8s.io", f"{verb}Options")


async def test_null_is_absent(api: Talk) -> None:
    answer = await api.create("configmaps", config("a", labels=None))
    assert "labels" not in answer.metadata


# The client library would rather be given a file.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_body_is_at_most_three_mebibytes(api: Talk) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"a":"' + b"x" * (3 * 1024 * 1024) + b'"}}'
    answer = await api.send("POST", api.at("configmaps"), body)
    assert answer.refusal == (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
