"""CustomResourceDefinitions as objects: what is refused, what is served by them, versions, columns, deletion."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.built_in_schemas import collect_definitions, definition_name
from grove.cluster.built_in_resources import SERVED, ResourceInfo
from tests.conformance.definitions import DEFINITIONS, GROUP, Kind, defined, definition, obj, version
from tests.conformance.kinds import NUMBER, TEXT, VALUES
from tests.conformance.tables import cases, problems_of
from tests.conformance.talk import TABLE, Answer, Talk
from tests.kube.controlplane.openapi import reduced

SPEC = "spec.validation.openAPIV3Schema"
NOT_THERE = b"404 page not found\n"


def conditions_of(answer: Answer) -> dict[str, tuple[str, str, str]]:
    conditions = answer.body["status"]["conditions"] or []
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in conditions}


def plural_of(api: Talk, word: str) -> str:
    """A name that no other test has."""
    return f"{word}{api.namespace.replace('-', '')}s"


# What is refused


@pytest.mark.parametrize(("schema", "problems"), cases("wrong_definitions.yaml", "schemas", "schema", "problems"))
async def test_a_schema_that_is_not_structural_is_refused(api: Talk, schema: Any, problems: list[str]) -> None:
    answer = await api.post(DEFINITIONS, definition("wrongs", schema), dryRun="All")
    assert [problem.replace(SPEC, "~") for problem in problems_of(answer)] == problems


@pytest.mark.parametrize(
    ("wanted", "problems"), cases("wrong_definitions.yaml", "definitions", "definition", "problems")
)
async def test_a_definition_that_makes_no_sense_is_refused(api: Talk, wanted: Any, problems: list[str]) -> None:
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    assert problems_of(await api.post(DEFINITIONS, {**head, **wanted}, dryRun="All")) == problems


async def test_a_definition_must_be_readable(api: Talk) -> None:
    answer = await api.post(DEFINITIONS, definition("wrongs", versions=[{"name": 5}]))
    assert answer.refusal[:2] == (400, "BadRequest")


async def test_a_format_that_nobody_knows_is_told(api: Talk) -> None:
    schema = obj({"a": {"type": "string", "format": "nonsense"}})
    answer = await api.post(DEFINITIONS, definition("odds", schema), dryRun="All")
    assert (answer.status, answer.warnings) == (201, ['299 - "unrecognized format \\"nonsense\\""'])


# How one comes to be


async def test_a_definition_gets_its_defaults(api: Talk) -> None:
    answer = await api.post(DEFINITIONS, definition("boxes", kind="Box"), dryRun="All")
    assert answer.status == 201
    assert answer.spec["names"] == {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"}
    assert answer.spec["conversion"] == {"strategy": "None"}
    assert answer.body["status"] == {
        "conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]
    }  # fmt: skip


async def test_a_definition_is_accepted_and_established(api: Talk) -> None:
    kind = await defined(api, definition(plural_of(api, "est"), names={"shortNames": [f"s{plural_of(api, 'est')}"]}))
    answer = await api.until(kind.definition_path, lambda answer: "Established" in conditions_of(answer))
    assert conditions_of(answer) == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }
    assert answer.body["status"]["acceptedNames"] == answer.spec["names"]
    assert answer.metadata["generation"] == 1


async def test_names_that_others_have_are_not_accepted(api: Talk) -> None:
    first = await defined(api, definition(plural_of(api, "fst"), kind=f"Twin{api.namespace.replace('-', '')}"))
    kind = first.spec["names"]["kind"]
    second = definition(plural_of(api, "snd"), kind=kind)
    assert (await api.post(DEFINITIONS, second)).status == 201
    path = f"{DEFINITIONS}/{second['metadata']['name']}"
    answer = await api.until(path, lambda answer: "Established" in conditions_of(answer))
    assert conditions_of(answer) == {
        "NamesAccepted": ("False", "ListKindConflict", f'"{kind}List" is already in use'),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert answer.body["status"]["acceptedNames"] == {"plural": second["spec"]["names"]["plural"], "kind": ""}
    assert (await api.get(Kind(api, second).at())).raw == NOT_THERE
    await api.delete(path)


async def test_a_kind_is_told_to_clients(api: Talk) -> None:
    plural = plural_of(api, "told")
    wanted = definition(plural, kind="Told", names={"shortNames": [f"t{plural}"], "categories": ["many"]})
    wanted["spec"]["names"]["kind"] = plural.capitalize()
    await defined(api, wanted)
    listed = await api.until(f"/apis/{GROUP}/v1", lambda answer: plural in answer.raw.decode())
    (resource,) = [each for each in listed.body["resources"] if each["name"] == plural]
    assert {key: resource[key] for key in ("singularName", "namespaced", "kind", "shortNames", "categories")} == {
        "singularName": plural, "namespaced": True, "kind": plural.capitalize(), "shortNames": [f"t{plural}"],
        "categories": ["many"],
    }  # fmt: skip
    assert sorted(resource["verbs"]) == [
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"
    ]  # fmt: skip


async def test_a_cluster_wide_kind_has_no_namespaces(api: Talk) -> None:
    kind = await defined(api, definition("wides", scope="Cluster"))
    answer = await kind.created({}, name=f"of-{api.namespace}")
    assert "namespace" not in answer.metadata
    inside = f"/apis/{GROUP}/v1/namespaces/{api.namespace}/wides"
    assert (await api.get(inside)).status == 404


# Values


@pytest.mark.parametrize(("spec", "problems"), cases("custom_values.yaml", "refused", "spec", "problems"))
async def test_a_value_that_the_schema_does_not_allow_is_refused(api: Talk, spec: Any, problems: list[str]) -> None:
    kind = await defined(api, VALUES)
    assert problems_of(await kind.tried(spec)) == problems


@pytest.mark.parametrize(
    ("spec", "result", "warnings"), cases("custom_values.yaml", "kept", "spec", "result", "warnings")
)
async def test_a_value_that_the_schema_allows_is_kept_as_it_says(
    api: Talk, spec: Any, result: Any, warnings: list[str] | None
) -> None:
    kind = await defined(api, VALUES)
    answer = await kind.tried(spec)
    assert (answer.status, answer.body.get("spec"), answer.warnings) == (201, result, warnings or [])


async def test_what_is_required_of_the_whole_must_be_there(api: Talk) -> None:
    kind = await defined(api, VALUES)
    assert problems_of(await api.post(kind.at(), kind.body(), dryRun="All")) == ["spec: Required value"]


async def test_unknown_fields_are_named_to_strict_clients(api: Talk) -> None:
    kind = await defined(api, VALUES)
    answer = await api.post(kind.at(), kind.body({"zzz": 1, "o": {"a": "", "y": 1}}), fieldValidation="Strict")
    assert answer.refusal == (
        400, "BadRequest",
        ('Value in version "v1" cannot be handled as a Value: strict decoding error: unknown field "spec.o.y", '
         'unknown field "spec.zzz"'),
    )  # fmt: skip


# Columns and selectors

COLUMNS: list[JsonObject] = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "First", "type": "string", "jsonPath": ".spec.list[0].name", "description": "the first name"},
    {"name": "Last", "type": "string", "jsonPath": ".spec.list[-1:].name"},
    {"name": "Chosen", "type": "string", "jsonPath": '.spec.list[?(@.name=="b")].value', "priority": 1},
    {"name": "All", "type": "string", "jsonPath": ".spec.list[*].name"},
    {"name": "Labelled", "type": "string", "jsonPath": r".metadata.labels.example\.com/a"},
    {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
    {"name": "Is", "type": "boolean", "jsonPath": ".spec.is"},
    {"name": "Whole", "type": "string", "jsonPath": ".spec.map"},
]
ITEM = obj({"name": TEXT, "value": TEXT})
SHOWN = definition(
    "showns",
    versions=[
        version(
            "v1",
            obj(
                {
                    "spec": obj(
                        {
                            "size": {"type": "integer"},
                            "list": {"type": "array", "items": ITEM},
                            "since": {"type": "string"},
                            "is": {"type": "boolean"},
                            "map": {"type": "object", "additionalProperties": TEXT},
                        }
                    )
                }
            ),
            additionalPrinterColumns=COLUMNS,
            selectableFields=[{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.since"}, {"jsonPath": ".spec.is"}],
        )
    ],
)


async def test_columns_are_those_of_the_definition(api: Talk) -> None:
    kind = await defined(api, SHOWN)
    table = (await api.get(kind.at(), accept=TABLE)).body
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name", *(column["name"] for column in COLUMNS)
    ]  # fmt: skip
    assert [column["priority"] for column in table["columnDefinitions"]] == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert table["columnDefinitions"][2]["description"] == "the first name"


CELLS: list[Any] = [
    pytest.param({}, [None] * 9, id="nothing"),
    pytest.param({"size": 3}, [3, *[None] * 8], id="number"),
    pytest.param(
        {"list": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]},
        [None, "a", "b", "2", "a", None, None, None, None], id="list",
    ),
    pytest.param({"since": "no time", "is": False}, [None, None, None, None, None, None, "<invalid>", False, None],
                 id="no-time"),
    pytest.param({"map": {"a": "b"}}, [*[None] * 8, '{"a":"b"}'], id="map"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "cells"), CELLS)
async def test_cells_are_what_the_paths_lead_to(api: Talk, spec: Any, cells: list[Any]) -> None:
    kind = await defined(api, SHOWN)
    await kind.created(spec)
    (row,) = (await api.get(kind.at(), accept=TABLE)).body["rows"]
    assert row["cells"] == ["a", *cells]


async def test_a_path_may_have_dots_in_its_names(api: Talk) -> None:
    kind = await defined(api, SHOWN)
    body = kind.body({})
    body["metadata"]["labels"] = {"example.com/a": "here"}
    assert (await api.post(kind.at(), body)).status == 201
    (row,) = (await api.get(kind.at(), accept=TABLE)).body["rows"]
    assert row["cells"][6] == "here"


async def test_without_columns_there_is_the_age(api: Talk) -> None:
    kind = await defined(api, definition("plains"))
    table = (await api.get(kind.at(), accept=TABLE)).body
    assert [(column["name"], column["type"]) for column in table["columnDefinitions"]] == [
        ("Name", "string"), ("Age", "date")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("spec.size=3", ["a"]), ("spec.size!=3", ["b", "c"]), ("spec.is=true", ["b"]), ("spec.is=false", ["c"]),
        ("spec.since=", ["a", "b", "c"]), ("metadata.name=b,spec.is=true", ["b"]), ("spec.size=", ["b", "c"]),
    ],
)  # fmt: skip
async def test_objects_are_selected_by_fields_that_the_definition_names(
    api: Talk, selector: str, names: list[str]
) -> None:
    kind = await defined(api, SHOWN)
    for name, spec in (("a", {"size": 3}), ("b", {"is": True}), ("c", {"is": False})):
        await kind.created(spec, name=name)
    assert (await api.get(kind.at(), fieldSelector=selector)).names == names


async def test_other_fields_do_not_select(api: Talk) -> None:
    kind = await defined(api, SHOWN)
    answer = await api.get(kind.at(), fieldSelector="spec.map=x")
    assert answer.refusal == (400, "BadRequest", "field label not supported: spec.map")


# Subresources

SCALED = definition(
    "scaleds",
    versions=[
        version(
            "v1",
            obj(
                {
                    "spec": obj({"wanted": obj({"count": NUMBER})}),
                    "status": obj({"count": NUMBER, "selector": TEXT}),
                }
            ),
            subresources={
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.wanted.count",
                    "statusReplicasPath": ".status.count",
                    "labelSelectorPath": ".status.selector",
                },
            },
        )
    ],
)


async def test_a_scale_is_where_the_definition_says(api: Talk) -> None:
    kind = await defined(api, SCALED)
    await kind.created({"wanted": {"count": 2}})
    await api.merge(kind.at("a", "status"), {"status": {"count": 1, "selector": "a=b"}})
    scale = (await api.get(kind.at("a", "scale"))).body
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    await api.merge(kind.at("a", "scale"), {"spec": {"replicas": 5}})
    assert (await api.get(kind.at("a"))).spec == {"wanted": {"count": 5}}
    refused = await api.merge(kind.at("a", "scale"), {"spec": {"replicas": -1}})
    assert problems_of(refused) == [".spec.wanted.count: Invalid value: -1: should be a non-negative integer"]


async def test_a_status_apart_is_not_created_with_the_rest(api: Talk) -> None:
    kind = await defined(api, SCALED)
    answer = await kind.created({}, status={"count": 5})
    assert "status" not in answer.body
    answer = await api.merge(kind.at("a", "status"), {"status": {"count": 1}, "spec": {"wanted": {"count": 9}}})
    assert (answer.body["status"], answer.spec, answer.metadata["generation"]) == ({"count": 1}, {}, 1)


async def test_without_subresources_a_status_is_a_part_like_others(api: Talk) -> None:
    kind = await defined(api, definition("statuses", obj({"status": obj({"n": NUMBER})}), kind="Statused"))
    answer = await kind.created({}, status={"n": 5})
    assert answer.body["status"] == {"n": 5}
    answer = await api.merge(kind.at("a"), {"status": {"n": 6}})
    assert (answer.body["status"], answer.metadata["generation"]) == ({"n": 6}, 2)
    refused = await api.merge(kind.at("a", "status"), {"status": {"n": 7}})
    assert refused.refusal[:2] == (404, "NotFound")


# Versions


def two_versions(plural: str, **more: Any) -> JsonObject:
    """The second is stored, and each knows a field that the other does not."""
    first = obj({"spec": obj({"a": TEXT, "b": {"type": "string", "default": "one"}})})
    second = obj({"spec": obj({"a": TEXT, "c": {"type": "string", "default": "two"}})})
    return definition(plural, versions=[version("v1", first, storage=False), version("v2", second, **more)])


async def test_an_object_is_there_in_every_version(api: Talk) -> None:
    kind = await defined(api, two_versions("duos"))
    answer = await kind.created({"a": "x", "c": "y"})
    assert (answer.body["apiVersion"], answer.spec) == (f"{GROUP}/v1", {"a": "x"})
    assert answer.warnings == ['299 - "unknown field \\"spec.c\\""']
    newer = (await api.get(kind.at("a", version="v2"))).body
    assert (newer["apiVersion"], newer["spec"]) == (f"{GROUP}/v2", {"a": "x", "c": "two"})


async def test_a_change_in_one_version_is_seen_in_the_other(api: Talk) -> None:
    kind = await defined(api, two_versions("duos"))
    await kind.created({"a": "x"}, version="v2")
    answer = await api.merge(kind.at("a"), {"spec": {"a": "y"}})
    assert (answer.body["apiVersion"], answer.spec) == (f"{GROUP}/v1", {"a": "y"})
    assert (await api.get(kind.at("a", version="v2"))).spec == {"a": "y", "c": "two"}


async def test_lists_and_watches_speak_the_version_of_their_path(api: Talk) -> None:
    kind = await defined(api, two_versions("duos"))
    await kind.created({"a": "x"})
    listed = (await api.get(kind.at(version="v2"))).body
    assert (listed["kind"], listed["apiVersion"]) == ("DuoList", f"{GROUP}/v2")
    assert [item["apiVersion"] for item in listed["items"]] == [f"{GROUP}/v2"]
    async with api.watch(kind.at()) as watch:
        event = await watch.event()
    assert (event["type"], event["object"]["apiVersion"], event["object"]["spec"]) == (
        "ADDED", f"{GROUP}/v1", {"a": "x"}
    )  # fmt: skip


async def test_a_body_speaks_the_version_of_its_path(api: Talk) -> None:
    kind = await defined(api, two_versions("duos"))
    answer = await api.post(kind.at(), kind.body({}, version="v2"))
    assert answer.refusal == (
        400, "BadRequest",
        f"the API version in the data ({GROUP}/v2) does not match the expected API version ({GROUP}/v1)",
    )  # fmt: skip


async def test_a_deprecated_version_warns(api: Talk) -> None:
    kind = await defined(api, two_versions("oldies", deprecated=True))
    assert (await kind.created({})).warnings == []
    assert (await api.get(kind.at("a", version="v2"))).warnings == [f'299 - "{GROUP}/v2 Oldie is deprecated"']


async def test_a_deprecated_version_warns_in_its_own_words(api: Talk) -> None:
    kind = await defined(api, two_versions("elders", deprecated=True, deprecationWarning="take v1"))
    assert (await api.get(kind.at(version="v2"))).warnings == ['299 - "take v1"']


async def test_stable_versions_are_preferred_then_new_ones(api: Talk) -> None:
    group = "ranked.example.com"
    names = ("v1alpha1", "v2", "v1", "v1beta2", "v10", "v1beta1", "foo")
    versions = [version(name, obj(), storage=name == "v1") for name in names]
    await defined(api, definition("rankeds", group=group, versions=versions))

    def are_all_there(answer: Answer) -> bool:
        return answer.status == 200 and len(answer.body["versions"]) == len(names)

    listed = await api.until(f"/apis/{group}", are_all_there)
    order = ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]
    assert [each["version"] for each in listed.body["versions"]] == order
    assert listed.body["preferredVersion"]["version"] == "v10"


# Changes of a definition


async def test_a_new_default_is_seen_in_old_objects(api: Talk) -> None:
    kind = await defined(api, definition(plural_of(api, "def"), obj({"spec": obj({"a": TEXT, "b": TEXT})})))
    await kind.created({"a": "x", "b": "y"})
    newer = version("v1", obj({"spec": obj({"a": TEXT, "c": {"type": "integer", "default": 5}})}))
    changed = await kind.change_definition(versions=[newer])
    assert changed.metadata["generation"] == 2
    answer = await api.until(kind.at("a"), lambda answer: answer.status == 200 and "c" in answer.spec)
    assert (answer.spec, answer.metadata["generation"]) == ({"a": "x", "c": 5}, 1)
    assert (await kind.until_listed()).body["items"][0]["spec"] == {"a": "x", "c": 5}


async def test_what_was_wrong_before_may_stay(api: Talk) -> None:
    loose = obj({"spec": obj({"s": TEXT, "n": NUMBER, "l": {"type": "array", "items": NUMBER}})})
    kind = await defined(api, definition(plural_of(api, "rat"), loose))
    await kind.created({"s": "b", "n": 1, "l": [1]})
    tight = obj(
        {
            "spec": obj(
                {
                    "s": {"type": "string", "pattern": "^a+$"},
                    "n": {"type": "integer", "minimum": 5},
                    "l": {"type": "array", "items": {"type": "integer", "minimum": 5}},
                }
            )
        }
    )
    await kind.change_definition(versions=[version("v1", tight)])
    await kind.until_refused({"s": "b"})
    assert (await api.merge(kind.at("a"), {"metadata": {"labels": {"a": "b"}}})).status == 200
    assert (await api.merge(kind.at("a"), {"spec": {"n": 6}})).status == 200
    refused = await api.merge(kind.at("a"), {"spec": {"s": "c"}})
    assert problems_of(refused) == ["spec.s: Invalid value: \"c\": spec.s in body should match '^a+$'"]
    refused = await api.merge(kind.at("a"), {"spec": {"l": [1, 2]}})
    assert problems_of(refused) == [
        f"spec.l[{index}]: Invalid value: {index + 1}: spec.l[{index}] in body should be greater than or equal to 5"
        for index in (0, 1)
    ]


FIXED: list[Any] = [
    ({"scope": "Cluster"}, 'spec.scope: Invalid value: "Cluster": field is immutable'),
    ({"names": {"kind": "Other"}}, 'spec.names.kind: Invalid value: "Other": field is immutable'),
    ({"group": "other.example.com"}, 'spec.group: Invalid value: "other.example.com": field is immutable'),
]


@pytest.mark.parametrize(("change", "problem"), FIXED)
async def test_an_established_kind_keeps_its_names(api: Talk, change: JsonObject, problem: str) -> None:
    kind = await defined(api, definition("fixeds"))
    assert problem in problems_of(await api.merge(kind.definition_path, {"spec": change}))


async def test_a_version_that_was_stored_stays(api: Talk) -> None:
    kind = await defined(api, two_versions(plural_of(api, "sto")))
    versions = kind.spec["versions"]
    swapped = [{**versions[0], "storage": True}, {**versions[1], "storage": False}]
    changed = await kind.change_definition(versions=swapped)
    assert changed.body["status"]["storedVersions"] == ["v2", "v1"]
    refused = await api.merge(kind.definition_path, {"spec": {"versions": swapped[:1]}})
    (problem,) = problems_of(refused)
    assert problem.startswith('status.storedVersions[0]: Invalid value: "v2": missing from spec.versions; v2 was ')
    answer = await api.merge(f"{kind.definition_path}/status", {"status": {"storedVersions": ["v1"]}})
    assert answer.status == 200
    await kind.change_definition(versions=swapped[:1])
    await api.until(kind.at(version="v2"), lambda answer: answer.status == 404)
    await kind.until_listed()


async def test_a_version_that_is_not_served_is_not_there(api: Talk) -> None:
    kind = await defined(api, two_versions(plural_of(api, "uns")))
    versions = kind.spec["versions"]
    await kind.change_definition(versions=[versions[0], {**versions[1], "served": False}])
    answer = await api.until(kind.at(version="v2"), lambda answer: answer.status == 404)
    assert answer.raw == NOT_THERE
    await kind.until_listed()
    assert (await kind.created({"a": "x"})).spec == {"a": "x"}


async def test_labels_of_a_definition_are_no_change_of_it(api: Talk) -> None:
    kind = await defined(api, definition("labelleds"))
    answer = await api.merge(kind.definition_path, {"metadata": {"labels": {"a": api.namespace}}})
    assert (answer.status, answer.metadata["generation"]) == (200, 1)


# Deletion


async def test_objects_go_with_their_definition(api: Talk) -> None:
    kind = await defined(api, definition(plural_of(api, "del")))
    await kind.created({})
    answer = await api.delete(kind.definition_path)
    assert (answer.status, answer.metadata["finalizers"]) == (200, ["customresourcecleanup.apiextensions.k8s.io"])
    assert conditions_of(answer)["Terminating"] == (
        "True", "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    )  # fmt: skip
    await api.until_gone(kind.definition_path)
    gone = await api.until(kind.at(), lambda answer: answer.status == 404)
    assert gone.raw == NOT_THERE


async def test_a_definition_waits_for_objects_that_are_held(api: Talk) -> None:
    kind = await defined(api, definition(plural_of(api, "held")))
    body = kind.body()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    assert (await api.post(kind.at(), body)).status == 201
    await api.delete(kind.definition_path)
    await api.until(kind.at("a"), lambda answer: "deletionTimestamp" in answer.metadata)
    found = await api.get(kind.definition_path)
    assert conditions_of(found)["Terminating"][:2] == ("True", "InstanceDeletionInProgress")
    late = await api.post(kind.at(), kind.body(name="late"))
    plural = kind.spec["names"]["plural"]
    assert late.refusal == (
        403, "Forbidden",
        f'{plural}.{GROUP} "late" is forbidden: create not allowed while custom resource definition is terminating',
    )  # fmt: skip
    await api.merge(kind.at("a"), {"metadata": {"finalizers": None}})
    await api.until_gone(kind.definition_path)


async def test_a_kind_can_be_defined_again(api: Talk) -> None:
    wanted = definition(plural_of(api, "again"))
    kind = await defined(api, wanted)
    await kind.created({})
    await api.delete(kind.definition_path)
    await api.until_gone(kind.definition_path)
    await api.until(kind.at(), lambda answer: answer.status == 404)
    again = await defined(api, wanted)
    assert (await api.get(again.at())).names == []


# What is told of kinds in OpenAPI


async def test_built_in_kinds_are_described_in_full(api: Talk) -> None:
    """As an API server describes them, but for its words: the same definitions, whoever is asked."""
    documents: dict[str, JsonObject] = {}

    async def definitions(resource_info: ResourceInfo) -> JsonObject:
        path = (
            f"/openapi/v3/apis/{resource_info.api_version}"
            if resource_info.group
            else f"/openapi/v3/api/{resource_info.api_version}"
        )
        if path not in documents:
            told = await api.until(path, lambda answer: answer.status == 200)
            documents[path] = told.body["components"]["schemas"]
        return documents[path]

    for resource_info in SERVED:
        if not resource_info.is_custom:
            name = definition_name(resource_info)
            assert name is not None
            told = await definitions(resource_info)
            assert {each: reduced(told.get(each, {})) for each in collect_definitions(name)} == collect_definitions(
                name
            )


async def test_a_kind_is_described_in_openapi(api: Talk) -> None:
    await defined(api, VALUES)
    path = f"apis/{GROUP}/v1"
    index = await api.until("/openapi/v3", lambda answer: path in answer.body["paths"])
    address = index.body["paths"][path]["serverRelativeURL"]
    name = "com.example.conform.v1.Value"

    def is_told(answer: Answer) -> bool:
        return answer.status == 200 and name in answer.body["components"]["schemas"]

    document = await api.until(address.partition("?")[0], is_told)
    schema = document.body["components"]["schemas"][name]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": GROUP, "version": "v1", "kind": "Value"}]
    assert schema["required"] == ["spec"]
    assert schema["properties"]["spec"]["properties"]["i"] == {"type": "integer", "minimum": 1, "maximum": 10}
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert f"/apis/{GROUP}/v1/namespaces/{{namespace}}/values/{{name}}" in document.body["paths"]
