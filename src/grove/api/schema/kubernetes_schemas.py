"""Schemas of Kubernetes types that are parts of Grove's CRDs: PodSpec, MetricSpec, ResourceClaimTemplateSpec.

The structure is data (`kubernetes_schemas.json`), copied from an API server by `tests/kube/controlplane/schemas.py`.
The descriptions are in `kubernetes_descriptions.py`. A structural schema has no references, so each reference is
replaced by its schema. Each schema is built once and shared, so that the whole is small in memory.

A CRD must not reject what is valid in a pod, and must not change what a user wrote. Hence defaults of Kubernetes are
left out, except where the key of a list needs one: `protocol` of a port, which `template_hash.py` takes into account.
"""

import pkgutil
from functools import cache

import msgspec

from grove.api.schema.kubernetes_descriptions import DESCRIPTIONS
from grove.api.types.meta import JsonObject

_KEYS = "x-kubernetes-list-map-keys"
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_SUFFIX = r"([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)"
_INT_OR_STRING: JsonObject = {"x-kubernetes-int-or-string": True}
_TEXTS: JsonObject = {"type": "object", "additionalProperties": {"type": "string"}}

# Types for which the OpenAPI schema of Kubernetes does not fit a CRD.
SPECIAL: dict[str, JsonObject] = {
    "IntOrString": _INT_OR_STRING,
    "Quantity": {**_INT_OR_STRING, "pattern": f"^[+-]?{_NUMBER}{_SUFFIX}?$"},
    "RawExtension": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "Time": {"type": "string", "format": "date-time"},
    # Metadata of objects that other controllers create: users may set only these fields. Go clients also write a null
    # creationTimestamp.
    "ObjectMeta": {
        "type": "object",
        "properties": {
            "annotations": _TEXTS,
            "creationTimestamp": {"type": "string", "format": "date-time"},
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "labels": _TEXTS,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        },
    },
}


@cache
def kubernetes_schema(name: str) -> JsonObject:
    """Return the structural schema of a type, without references. It is shared: do not modify it."""
    if name in SPECIAL:
        return SPECIAL[name]
    schema = _resolve(_definitions()[name])
    descriptions = DESCRIPTIONS.get(name)
    if descriptions is None:
        return schema
    properties = {
        field: _with_description(inner, descriptions.get(field, "")) for field, inner in schema["properties"].items()
    }
    return {**schema, "properties": properties}


@cache
def _definitions() -> JsonObject:
    data = pkgutil.get_data(__package__, "kubernetes_schemas.json")
    assert data is not None
    definitions: JsonObject = msgspec.json.decode(data)
    return definitions


def _resolve(schema: JsonObject) -> JsonObject:
    if "$ref" in schema:
        return kubernetes_schema(schema["$ref"])
    result = dict(schema)
    if "properties" in schema:
        required = schema.get("required", ())
        result["properties"] = {
            name: _field(inner, is_required=name in required) for name, inner in schema["properties"].items()
        }
    for part in ("items", "additionalProperties"):
        if part in schema:
            result[part] = _resolve(schema[part])
    if _KEYS in schema:
        result["items"] = _with_keys(result["items"], schema[_KEYS])
    return result


def _field(schema: JsonObject, *, is_required: bool) -> JsonObject:
    result = _resolve(schema)
    if "enum" in result and not is_required and "" not in result["enum"]:
        # Kubernetes treats an empty optional enum value as absent, and many charts render it.
        result["enum"] = [*result["enum"], ""]
    return result


def _with_keys(item: JsonObject, keys: list[str]) -> JsonObject:
    """Return the item schema of a map list with its keys required, as structural schemas demand."""
    optional = [key for key in keys if key not in item.get("required", ()) and "default" not in item["properties"][key]]
    return {**item, "required": [*item.get("required", ()), *optional]} if optional else item


def _with_description(schema: JsonObject, description: str) -> JsonObject:
    return {"description": description, **schema} if description else schema
