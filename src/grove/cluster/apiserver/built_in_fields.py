"""Unknown fields of built-in kinds, found by their schemas. Custom kinds: `cluster/custom_resource.py`."""

from typing import Any

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.built_in_schemas import built_in, definition_name
from grove.cluster.built_in_resources import ResourceInfo

_ANY: JsonObject = {}
# Metadata is checked for all kinds in `cluster/apiserver/registry/field_validation.py`.
_CHECKED_ELSEWHERE = "metadata"


def prune_unknown_fields(resource_info: ResourceInfo, obj: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return the object without unknown fields, and the paths of those fields."""
    name = definition_name(resource_info)
    unknown: list[str] = []
    if name is None:
        return obj, unknown
    schema = built_in().definitions[name]
    properties = {**schema.get("properties", {}), _CHECKED_ELSEWHERE: _ANY}
    return _prune(obj, {**schema, "properties": properties}, "", unknown), unknown


def _prune(value: Any, schema: JsonObject, path: str, unknown: list[str]) -> Any:
    """Return the value without unknown fields; append their paths to `unknown`."""
    if "$ref" in schema:
        schema = built_in().definitions[schema["$ref"]]
    match value:
        case dict() if "properties" in schema:
            fields = schema["properties"]
            pruned = {}
            for name, inner in value.items():
                where = f"{path}.{name}" if path else name
                if name in fields:
                    pruned[name] = _prune(inner, fields[name], where, unknown)
                else:
                    unknown.append(where)
            return pruned
        case dict() if isinstance(schema.get("additionalProperties"), dict):
            inner_schema = schema["additionalProperties"]
            return {key: _prune(inner, inner_schema, f"{path}.{key}", unknown) for key, inner in value.items()}
        case list() if isinstance(schema.get("items"), dict):
            return [_prune(inner, schema["items"], f"{path}[{index}]", unknown) for index, inner in enumerate(value)]
        case _:
            return value
