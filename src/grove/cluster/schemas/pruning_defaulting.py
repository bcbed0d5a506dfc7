"""Pruning and defaulting: removes unknown fields and meaningless nulls, and sets defaults.

`schema_validation.py` validates the result.
"""

from typing import Any

from grove.api.types.meta import JsonObject
from grove.cluster.schemas.keywords import ALWAYS_KNOWN, EMBEDDED, INT_OR_STRING, PRESERVE, child

# Known fields of the metadata of an embedded object.
_METADATA = frozenset(
    (
        "annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers",
        "generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences",
        "resourceVersion", "selfLink", "uid",
    )
)  # fmt: skip


class PruningPass:
    """One pass over one object. `unknown` has the paths of pruned fields. `fills_defaults=False` sets no defaults."""

    def __init__(self, *, fills_defaults: bool = True) -> None:
        self.unknown: list[str] = []
        self._fills_defaults = fills_defaults

    def root(self, obj: JsonObject, schema: JsonObject) -> JsonObject:
        return self._object(obj, schema, "", is_whole=True)

    def value(self, value: Any, schema: JsonObject, path: str) -> Any:
        match value:
            case dict():
                return self._object(value, schema, path, is_whole=bool(schema.get(EMBEDDED)))
            case list() if isinstance(schema.get("items"), dict):
                items = schema["items"]
                return [self.value(item, items, f"{path}[{index}]") for index, item in enumerate(value)]
            case float() if value.is_integer() and schema.get("type") in ("integer", "number"):
                return int(value)
            case _:
                return value

    def _object(self, value: JsonObject, schema: JsonObject, path: str, *, is_whole: bool) -> JsonObject:
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties")
        result: JsonObject = {}
        for field, item in value.items():
            inner = properties.get(field, additional)
            where = child(path, field)
            if is_whole and field in ALWAYS_KNOWN:
                result[field] = self._metadata(item, where) if path and field == "metadata" else item
            elif isinstance(inner, dict):
                if item is not None or keeps_null(inner):
                    result[field] = self.value(item, inner, where)
            elif inner is not None or schema.get(PRESERVE):
                result[field] = item
            else:
                self.unknown.append(where)
        if self._fills_defaults:
            for field, inner in properties.items():
                if "default" in inner and field not in result:
                    result[field] = self.value(inner["default"], inner, child(path, field))
        return result

    def _metadata(self, metadata: Any, path: str) -> Any:
        if not isinstance(metadata, dict):
            return metadata
        self.unknown += [child(path, field) for field in metadata if field not in _METADATA]
        return {field: value for field, value in metadata.items() if field in _METADATA}


def keeps_null(schema: JsonObject) -> bool:
    """Return whether null is a value here. Elsewhere it is dropped."""
    if schema.get("nullable"):
        return True
    return "type" not in schema and not schema.get(INT_OR_STRING) and bool(schema.get(PRESERVE))
