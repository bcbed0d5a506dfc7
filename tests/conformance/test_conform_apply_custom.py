"""Server-side apply on a kind that somebody defines: every type of list and map that a schema can name."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from grove.kube.transport import APPLY_PATCH
from tests.conformance.talk import Answer, Talk

GROUP = "apply.example.com"
_TEXT: JsonObject = {"type": "string"}
_PART: JsonObject = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _TEXT,
        "zone": {"type": "string", "default": "here"},
        "image": _TEXT,
        "lines": {"type": "array", "items": _TEXT},
    },
}
_SPEC: JsonObject = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "port": {"x-kubernetes-int-or-string": True},
        "labels": {"type": "object", "additionalProperties": _TEXT},
        "inner": {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": _TEXT, "b": _TEXT}},
        "wholeLabels": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": _TEXT},
        "words": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
        "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "lines": {"type": "array", "x-kubernetes-list-type": "atomic", "items": _TEXT},
        "plain": {"type": "array", "items": _PART},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "zone"],
            "items": _PART,
        },
        "named": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": _TEXT, "image": _TEXT}},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "half": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": _TEXT}},
        "box": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        "mode": {"type": "string", "default": "slow"},
        "maybe": {"type": "string", "nullable": True},
        "groups": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}},
        },
    },
}
DEFINITION: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": _SPEC,
                            "status": {"type": "object", "properties": {"size": {"type": "integer"}, "phase": _TEXT}},
                        },
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
            }
        ],
    },
}


class Widgets:
    """One widget in the namespace of a test, and those who write to it."""

    def __init__(self, api: Talk) -> None:
        self._api = api
        self._collection = f"/apis/{GROUP}/v1/namespaces/{api.namespace}/widgets"
        self.path = f"{self._collection}/one"

    async def define(self) -> None:
        path = self._api.at("customresourcedefinitions")
        answer = await self._api.post(path, DEFINITION)
        assert answer.status in (201, 409), answer.body
        await self._api.until(self._collection, lambda found: found.status == 200)

    async def apply(self, spec: JsonObject, manager: str = "alice", **query: str) -> Answer:
        return await self.send("PATCH", self.path, widget(spec), {"fieldManager": manager, **query})

    async def applied(self, spec: JsonObject, manager: str = "alice", **query: str) -> Answer:
        answer = await self.apply(spec, manager, **query)
        assert answer.status in (200, 201), answer.body
        return answer

    async def create(self, spec: JsonObject, manager: str = "carol") -> Answer:
        answer = await self._api.post(self._collection, widget(spec), fieldManager=manager)
        assert answer.status == 201, answer.body
        return answer

    async def merge(self, spec: JsonObject, manager: str = "carol") -> Answer:
        return await self._api.merge(self.path, {"spec": spec}, fieldManager=manager)

    async def send(self, method: str, path: str, body: JsonObject, query: dict[str, str]) -> Answer:
        return await self._api.send(method, path, body, content_type=APPLY_PATCH, query=query)


def widget(spec: JsonObject) -> JsonObject:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": spec}


async def widgets_of(api: Talk) -> Widgets:
    widgets = Widgets(api)
    await widgets.define()
    return widgets


def owners(answer: Answer) -> dict[str, Any]:
    """What of the spec everybody owns."""
    entries = answer.metadata.get("managedFields", [])
    return {f"{entry['manager']} {entry['operation']}": entry["fieldsV1"].get("f:spec") for entry in entries}


_FULL: JsonObject = {
    "size": 1, "port": "http", "labels": {"a": "1"}, "inner": {"a": "1"}, "whole": {"a": "1"},
    "wholeLabels": {"a": "1"}, "words": ["a", "b"], "numbers": [1, 2], "lines": ["a"], "plain": [{"name": "a"}],
    "parts": [{"name": "a", "image": "i"}], "free": {"a": {"b": [1]}, "c": 1}, "half": {"a": "1", "b": {"c": 1}},
    "box": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "1"}}, "other": 1},
    "groups": {"g": {"a": "1"}},
}  # fmt: skip


async def test_what_is_applied_is_owned_by_the_types_of_the_schema(api: Talk) -> None:
    widgets = await widgets_of(api)
    answer = await widgets.applied(_FULL)
    assert owners(answer) == {
        "alice Apply": {
            "f:size": {}, "f:port": {}, "f:labels": {"f:a": {}}, "f:inner": {"f:a": {}}, "f:whole": {},
            "f:wholeLabels": {}, "f:words": {'v:"a"': {}, 'v:"b"': {}}, "f:numbers": {"v:1": {}, "v:2": {}},
            "f:lines": {}, "f:plain": {},
            "f:parts": {'k:{"name":"a","zone":"here"}': {".": {}, "f:name": {}, "f:image": {}}},
            "f:free": {"f:a": {".": {}, "f:b": {}}, "f:c": {}}, "f:half": {"f:a": {}, "f:b": {".": {}, "f:c": {}}},
            "f:box": {"f:apiVersion": {}, "f:kind": {}, "f:metadata": {"f:labels": {"f:a": {}}}, "f:other": {}},
            "f:groups": {"f:g": {".": {}, "f:a": {}}},
        }
    }  # fmt: skip


async def test_what_is_created_is_owned_with_its_defaults_and_all_that_came_into_being(api: Talk) -> None:
    widgets = await widgets_of(api)
    answer = await widgets.create(_FULL)
    assert owners(answer) == {
        "carol Update": {
            ".": {}, "f:size": {}, "f:port": {}, "f:labels": {".": {}, "f:a": {}}, "f:inner": {".": {}, "f:a": {}},
            "f:whole": {}, "f:wholeLabels": {}, "f:words": {".": {}, 'v:"a"': {}, 'v:"b"': {}},
            "f:numbers": {".": {}, "v:1": {}, "v:2": {}}, "f:lines": {}, "f:plain": {}, "f:mode": {},
            "f:parts": {
                ".": {}, 'k:{"name":"a","zone":"here"}': {".": {}, "f:name": {}, "f:zone": {}, "f:image": {}}
            },
            "f:free": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:c": {}},
            "f:half": {".": {}, "f:a": {}, "f:b": {".": {}, "f:c": {}}},
            "f:box": {
                ".": {}, "f:apiVersion": {}, "f:kind": {}, "f:other": {},
                "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
            },
            "f:groups": {".": {}, "f:g": {".": {}, "f:a": {}}},
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("before", "config", "after"),
    [
        ({"labels": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
        ({"inner": {"a": "1"}}, {"inner": {"b": "2"}}, {"inner": {"a": "1", "b": "2"}}),
        ({"words": ["a", "b"]}, {"words": ["c", "b"]}, {"words": ["a", "c", "b"]}),
        ({"numbers": [1, 2]}, {"numbers": [2, 1, 3]}, {"numbers": [2, 1, 3]}),
        (
            {"parts": [{"name": "a", "zone": "x", "image": "i"}, {"name": "b", "zone": "x"}]},
            {"parts": [{"name": "a", "zone": "y"}, {"name": "b", "zone": "x", "image": "j"}]},
            {
                "parts": [
                    {"name": "a", "zone": "x", "image": "i"},
                    {"name": "a", "zone": "y"},
                    {"name": "b", "zone": "x", "image": "j"},
                ]
            },
        ),
        (
            {"parts": [{"name": "a", "image": "i"}]},
            {"parts": [{"name": "a", "lines": ["1"]}]},
            {"parts": [{"name": "a", "zone": "here", "image": "i", "lines": ["1"]}]},
        ),
        ({"free": {"a": {"b": 1}}}, {"free": {"a": {"c": 2}, "d": [1]}}, {"free": {"a": {"b": 1, "c": 2}, "d": [1]}}),
        ({"half": {"a": "1", "x": {"y": 1}}}, {"half": {"x": {"z": 2}}}, {"half": {"a": "1", "x": {"y": 1, "z": 2}}}),
        ({"groups": {"g": {"a": "1"}}}, {"groups": {"g": {"b": "1"}, "h": {}}},
         {"groups": {"g": {"a": "1", "b": "1"}, "h": {}}}),
    ],
    ids=["map", "object", "set", "numbers", "keys", "default-key", "free", "half", "map-of-objects"],
)  # fmt: skip
async def test_parts_are_merged_by_the_types_of_the_schema(
    api: Talk, before: JsonObject, config: JsonObject, after: JsonObject
) -> None:
    widgets = await widgets_of(api)
    await widgets.create(before)
    answer = await widgets.applied(config)
    assert answer.spec == {**after, "mode": "slow"}


@pytest.mark.parametrize(
    ("before", "config", "field"),
    [
        ({"whole": {"a": "1"}}, {"whole": {"b": "2"}}, ".spec.whole"),
        ({"wholeLabels": {"a": "1"}}, {"wholeLabels": {"a": "1", "b": "2"}}, ".spec.wholeLabels"),
        ({"lines": ["a"]}, {"lines": ["a", "b"]}, ".spec.lines"),
        ({"plain": [{"name": "a"}]}, {"plain": [{"name": "a", "image": "i"}]}, ".spec.plain"),
        ({"free": {"a": [1]}}, {"free": {"a": [2]}}, ".spec.free.a"),
        ({"parts": [{"name": "a", "image": "i"}]}, {"parts": [{"name": "a", "image": "j"}]},
         '.spec.parts[name="a",zone="here"].image'),
        ({"port": 80}, {"port": "http"}, ".spec.port"),
        ({"size": 1}, {"size": 2}, ".spec.size"),
        ({}, {"mode": "fast"}, ".spec.mode"),
    ],
    ids=["whole", "whole-map", "lines", "plain", "free", "keyed", "port", "size", "default"],
)  # fmt: skip
async def test_conflicts_name_what_is_taken_as_one(
    api: Talk, before: JsonObject, config: JsonObject, field: str
) -> None:
    widgets = await widgets_of(api)
    await widgets.create(before)
    answer = await widgets.apply(config)
    who = f'"carol" using {GROUP}/v1'
    assert answer.refusal == (409, "Conflict", f"Apply failed with 1 conflict: conflict with {who}: {field}")


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ({"labels": {"a": "1", "b": "1"}}, {"labels": {"a": "1"}}, {"labels": {"a": "1"}}),
        ({"labels": {"a": "1"}, "size": 1}, {"size": 1}, {"size": 1}),
        ({"words": ["a", "b", "c"]}, {"words": ["b"]}, {"words": ["b"]}),
        ({"parts": [{"name": "a", "image": "i"}, {"name": "b"}]}, {"parts": [{"name": "a"}]},
         {"parts": [{"name": "a", "zone": "here"}]}),
        ({"free": {"a": {"b": 1, "c": 2}, "d": 1}}, {"free": {"a": {"c": 2}}}, {"free": {"a": {"c": 2}}}),
        ({"whole": {"a": "1"}, "lines": ["a"]}, {}, {}),
        ({"mode": "fast", "size": 1}, {"size": 1}, {"size": 1}),
        ({"groups": {"g": {"a": "1"}, "h": {"a": "1"}}}, {"groups": {"g": {"a": "1"}}}, {"groups": {"g": {"a": "1"}}}),
    ],
    ids=["key", "map", "set", "keyed", "free", "whole", "default", "map-of-objects"],
)  # fmt: skip
async def test_what_is_no_longer_applied_goes_and_defaults_come_back(
    api: Talk, first: JsonObject, second: JsonObject, left: JsonObject
) -> None:
    widgets = await widgets_of(api)
    await widgets.applied(first)
    answer = await widgets.applied(second)
    assert answer.spec == {"mode": "slow", **left}


async def test_an_item_stays_for_what_another_has_put_into_it(api: Talk) -> None:
    widgets = await widgets_of(api)
    await widgets.applied({"parts": [{"name": "a", "image": "i"}]})
    await widgets.applied({"parts": [{"name": "a", "lines": ["1"]}]}, "bob")
    answer = await widgets.applied({})
    assert answer.spec["parts"] == [{"name": "a", "zone": "here", "lines": ["1"]}]
    step = 'k:{"name":"a","zone":"here"}'
    bobs: JsonObject = {"f:parts": {step: {".": {}, "f:name": {}, "f:lines": {}}}}
    assert owners(answer) == {"alice Apply": {}, "bob Apply": bobs}


async def test_what_is_applied_empty_after_it_was_full_is_refused_as_null(api: Talk) -> None:
    widgets = await widgets_of(api)
    await widgets.applied({"inner": {"a": "1"}})
    answer = await widgets.apply({"inner": {}})
    problem = 'spec.inner: Invalid value: "null": spec.inner in body must be of type object: "null"'
    assert answer.body.get("message") == f'Widget.{GROUP} "one" is invalid: {problem}'


async def test_an_update_of_one_field_of_an_item_takes_that_field(api: Talk) -> None:
    widgets = await widgets_of(api)
    await widgets.applied({"parts": [{"name": "a", "image": "i"}], "words": ["a"]})
    answer = await widgets.merge({"parts": [{"name": "a", "zone": "here", "image": "j"}], "words": ["a", "b"]})
    step = 'k:{"name":"a","zone":"here"}'
    assert owners(answer) == {
        "alice Apply": {"f:parts": {step: {".": {}, "f:name": {}}}, "f:words": {'v:"a"': {}}},
        "carol Update": {"f:parts": {step: {"f:image": {}}}, "f:words": {'v:"b"': {}}},
    }


async def test_null_of_what_may_be_null_is_a_value(api: Talk) -> None:
    widgets = await widgets_of(api)
    await widgets.applied({"maybe": "x"})
    answer = await widgets.applied({"maybe": None})
    assert (answer.spec["maybe"], owners(answer)["alice Apply"]["f:maybe"]) == (None, {})


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"words": ["a", "a"]}, '.spec.words: duplicate entries for key [="a"]'),
        ({"parts": [{"name": "a"}, {"name": "a"}]},
         '.spec.parts: duplicate entries for key [name="a",zone="here"]'),
        ({"named": [{"image": "a"}]},
         ('.spec.named: element 0: associative list with keys has an element that omits all key fields ["name"] '
          "(and doesn't have default values for any key fields)")),
        ({"named": [None]}, ".spec.named: element 0: associative list with keys may not have a null element"),
        ({"named": ["a"]}, ".spec.named: element 0: associative list with keys may not have non-map elements"),
        ({"words": [None]},
         ".spec.words: element 0: associative list without keys has an element that's an explicit null"),
        ({"words": [{}]}, ".spec.words: element 0: associative list without keys has an element that's a map type"),
        ({"inner": {"c": "1"}}, ".spec.inner.c: field not declared in schema"),
        ({"whole": {"c": "1"}}, ".spec.whole.c: field not declared in schema"),
        ({"plain": [{"name": "a", "c": 1}]}, ".spec.plain[0].c: field not declared in schema"),
    ],
    ids=["set", "keys", "no-key", "null", "text", "null-value", "map-value", "unknown", "in-whole", "in-list"],
)  # fmt: skip
async def test_what_does_not_fit_the_schema_is_named(api: Talk, spec: JsonObject, problem: str) -> None:
    widgets = await widgets_of(api)
    answer = await widgets.apply(spec)
    place = f"(/one; {GROUP}/v1, Kind=Widget)"
    assert answer.body["message"] == f"failed to create typed patch object {place}: {problem}"


async def test_everything_that_does_not_fit_is_named_at_once(api: Talk) -> None:
    widgets = await widgets_of(api)
    answer = await widgets.apply({"words": ["a", "a"], "numbers": [1, 1]})
    first, *problems = answer.body["message"].splitlines()
    assert first == f"failed to create typed patch object (/one; {GROUP}/v1, Kind=Widget): errors:"
    # A real server takes fields in no particular order.
    assert sorted(problems) == [
        "  .spec.numbers: duplicate entries for key [=1]",
        '  .spec.words: duplicate entries for key [="a"]',
    ]


async def test_an_item_of_which_one_key_is_missing_is_judged_by_the_schema(api: Talk) -> None:
    widgets = await widgets_of(api)
    answer = await widgets.apply({"parts": [{"zone": "a"}]})
    assert answer.refusal == (422, "Invalid", f'Widget.{GROUP} "one" is invalid: spec.parts[0].name: Required value')


async def test_whoever_scales_takes_the_number_over(api: Talk) -> None:
    widgets = await widgets_of(api)
    await widgets.applied({"size": 1})
    await api.merge(f"{widgets.path}/scale", {"spec": {"replicas": 4}}, fieldManager="bob")
    found = await api.get(widgets.path)
    assert (found.spec["size"], owners(found)) == (4, {"bob Update": {"f:size": {}}})


async def test_a_number_that_nobody_owned_belongs_to_nobody_after_scaling(api: Talk) -> None:
    widgets = await widgets_of(api)
    await widgets.applied({"mode": "fast"})
    await api.merge(f"{widgets.path}/scale", {"spec": {"replicas": 4}}, fieldManager="bob")
    found = await api.get(widgets.path)
    assert (found.spec["size"], owners(found)) == (4, {"alice Apply": {"f:mode": {}}})


async def test_a_number_that_is_scaled_to_none_belongs_to_nobody(api: Talk) -> None:
    widgets = await widgets_of(api)
    await widgets.applied({"mode": "fast", "size": 3})
    await api.merge(f"{widgets.path}/scale", {"spec": {"replicas": 0}}, fieldManager="bob")
    found = await api.get(widgets.path)
    assert (found.spec["size"], owners(found)) == (0, {"alice Apply": {"f:mode": {}}})


async def test_a_scale_cannot_be_applied(api: Talk) -> None:
    widgets = await widgets_of(api)
    await widgets.applied({"mode": "fast"})
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 4}}
    answer = await widgets.send("PATCH", f"{widgets.path}/scale", scale, {"fieldManager": "bob"})
    assert answer.status in (415, 500)
    assert "size" not in (await api.get(widgets.path)).spec


async def test_a_status_is_owned_apart(api: Talk) -> None:
    widgets = await widgets_of(api)
    await widgets.applied({"size": 1})
    body = {**widget({"size": 9}), "status": {"size": 3}}
    answer = await widgets.send("PATCH", f"{widgets.path}/status", body, {"fieldManager": "bob"})
    assert (answer.body["status"], answer.spec["size"]) == ({"size": 3}, 1)
    entry = answer.metadata["managedFields"][-1]
    assert (entry["manager"], entry["subresource"], entry["fieldsV1"]) == (
        "bob",
        "status",
        {"f:status": {"f:size": {}}},
    )


async def test_an_object_is_applied_in_any_of_its_versions(api: Talk) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v1beta1")]
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    spec = {**DEFINITION["spec"], "names": names, "versions": versions}
    await api.post(
        api.at("customresourcedefinitions"), {**DEFINITION, "metadata": {"name": f"gadgets.{GROUP}"}, "spec": spec}
    )
    path = "/apis/{}/{}/namespaces/{}/gadgets".format(GROUP, "{}", api.namespace)
    for version in ("v1", "v1beta1"):
        await api.until(path.format(version), lambda found: found.status == 200)

    async def apply(version: str, manager: str, **spec: Any) -> Answer:
        body = {"apiVersion": f"{GROUP}/{version}", "kind": "Gadget", "metadata": {"name": "one"}, "spec": spec}
        return await api.send(
            "PATCH", path.format(version) + "/one", body, content_type=APPLY_PATCH, query={"fieldManager": manager}
        )

    answer = await apply("v1beta1", "alice", size=1, words=["a"])
    assert (answer.status, answer.body["apiVersion"]) == (201, f"{GROUP}/v1beta1")
    answer = await apply("v1", "bob", words=["b"])
    assert (answer.status, answer.body["apiVersion"]) == (200, f"{GROUP}/v1")
    assert answer.spec == {"size": 1, "words": ["a", "b"], "mode": "slow"}
    versions_of = {entry["manager"]: entry["apiVersion"] for entry in answer.metadata["managedFields"]}
    assert versions_of == {"alice": f"{GROUP}/v1beta1", "bob": f"{GROUP}/v1"}
    answer = await apply("v1", "bob", size=2)
    assert answer.refusal == (409, "Conflict", 'Apply failed with 1 conflict: conflict with "alice": .spec.size')
    answer = await apply("v1", "alice", size=3)
    assert answer.spec == {"size": 3, "words": ["b"], "mode": "slow"}
    answer = await api.get(path.format("v1beta1") + "/one")
    assert owners(answer) == {"alice Apply": {"f:size": {}}, "bob Apply": {"f:words": {'v:"b"': {}}}}
