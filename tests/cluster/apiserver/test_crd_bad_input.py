"""Definitions and objects that nobody would write: each is taken or refused, and none makes the server fail."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from grove.api.types.meta import JsonObject
from grove.sim.virtual_clock import run_virtual
from tests.cluster.apidsl import Api, fresh_api
from tests.seeds import examples

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"

_NAMES = st.sampled_from(["a", "b", "name", "metadata", "in"])
_RUBBISH = st.sampled_from([None, True, 0, -1, 1.5, 2**70, "", "x", [], {}, [1], ["a"], {"a": 1}])
_RULES = st.lists(
    st.fixed_dictionaries(
        {"rule": st.sampled_from(["self.a > 1", "self == oldSelf", "self.", "true", "self.size() < 2", "1 / 0 > 1"])},
        optional={
            "message": st.sampled_from(["m", ""]),
            "messageExpression": st.sampled_from(["'a'", "self", "'a' + string(self)"]),
            "optionalOldSelf": st.booleans(),
            "fieldPath": st.sampled_from([".a", "a", ".nope"]),
        },
    ),
    max_size=2,
)


def _words(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonObject]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "x"]),
            "properties": st.dictionaries(_NAMES, inner, max_size=2),
            "items": inner | _RUBBISH,
            "additionalProperties": inner | st.booleans(),
            "required": st.lists(_NAMES, max_size=2),
            "enum": st.lists(_RUBBISH, max_size=2),
            "default": _RUBBISH,
            "nullable": st.booleans(),
            "format": st.sampled_from(["int32", "date-time", "duration", "byte", "x"]),
            "pattern": st.sampled_from(["^a$", "(", "[[:alpha:]]+", "(?i)x"]),
            "minimum": st.integers(-2, 2),
            "maxItems": st.integers(-1, 2),
            "minLength": st.integers(-1, 2),
            "multipleOf": st.sampled_from([2, 0.5]),
            "anyOf": st.lists(inner, max_size=2),
            "oneOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "not": inner,
            "x-kubernetes-validations": _RULES,
            "x-kubernetes-list-type": st.sampled_from(["map", "set", "atomic"]),
            "x-kubernetes-list-map-keys": st.lists(_NAMES, max_size=2),
            "x-kubernetes-int-or-string": st.booleans(),
            "x-kubernetes-embedded-resource": st.booleans(),
            "x-kubernetes-preserve-unknown-fields": st.just(True),
        },
    )


_SCHEMAS = st.recursive(st.sampled_from([{"type": "string"}, {"type": "integer"}, {}]), _words, max_leaves=6)
_VALUES = st.recursive(
    _RUBBISH, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2), max_leaves=5
)


@settings(deadline=None, max_examples=examples(150))
@given(schema=_SCHEMAS, values=st.lists(_VALUES, min_size=2, max_size=3), name=_NAMES)
def test_no_schema_and_no_value_makes_the_server_fail(schema: JsonObject, values: list[Any], name: str) -> None:
    run_virtual(_tried(schema, values, name))


async def _tried(schema: JsonObject, values: list[Any], name: str) -> None:
    api = fresh_api()
    whole = {
        "type": "object",
        "properties": {"spec": schema, "other": {"type": "object", "properties": {name: schema}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    spec = {"group": "example.com", "names": {"plural": "things", "kind": "Thing"}, "scope": "Namespaced"}
    body = {"metadata": {"name": "things.example.com"}, "spec": {**spec, "versions": [version]}}
    defined = await api.post(DEFINITIONS, body)
    assert defined.status in (201, 400, 422), defined.body
    if defined.status == 201:
        await _used(api, values)


async def _used(api: Api, values: list[Any]) -> None:
    head = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    for value in values:
        answer = await api.post(THINGS, {**head, "spec": value, "other": {"a": value}})
        assert answer.status in (201, 400, 409, 422), answer.body
        answer = await api.merge(f"{THINGS}/a", {"spec": value})
        assert answer.status in (200, 400, 404, 422), answer.body
    assert (await api.get(THINGS)).status == 200
