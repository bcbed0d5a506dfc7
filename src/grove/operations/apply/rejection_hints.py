"""Hints for rejected manifests: the field that was probably meant, and how to write a value.

The API server names the field; these functions add what is allowed there. They work with any server.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from grove.api.resources import PODCLIQUESETS
from grove.api.schema.crd_generator import object_schema
from grove.api.types.meta import JsonObject

_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
_FRACTION = 'must be of type integer,string: "number"'
# The API server adds it to every other error of a CRD.
NOT_CHECKED = "some validation rules were not checked"
_SEGMENT = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def with_hints(kind: str, body: JsonObject, message: str) -> str:
    """Return the message of the API server with a hint after every unknown field and every number with a fraction."""
    if kind == PODCLIQUESETS.kind:
        message = _UNKNOWN.sub(_suggest, message)
    if _FRACTION not in message:
        return message
    path = message.partition(": ")[0]
    value = _find(body, path)
    return f'{path}: {value} is a number with a fraction: write it as text, "{value}", or as {_milli(value)}'


def _suggest(match: re.Match[str]) -> str:
    found = suggest_field(match[1])
    return f"{match[0]} (did you mean {found}?)" if found else match[0]


def suggest_field(path: str) -> str:
    """Return the field of a PodCliqueSet that was probably meant, as its path, or ""."""
    parent, _, name = path.rpartition(".")
    schema: Any = object_schema(PODCLIQUESETS)
    siblings = _properties(schema, parent)
    close = get_close_matches(name, siblings, n=1, cutoff=0.6) or [
        one for one in siblings if one.lower() == name.lower()
    ]
    if close:
        return f"{parent}.{close[0]}" if parent else close[0]
    places = sorted(_places(schema, name), key=lambda place: (place.count("."), place))
    return places[0] if places else ""


def _properties(schema: JsonObject, path: str) -> Mapping[str, Any]:
    """Return the fields of the object at a path such as `spec.template.cliques[0]`."""
    for match in _SEGMENT.finditer(path):
        inner = schema.get("items") if match[2] else schema.get("properties", {}).get(match[1])
        if not isinstance(inner, dict):
            return {}
        schema = inner
    found: Mapping[str, Any] = schema.get("properties", {})
    return found


def _places(schema: JsonObject, name: str, path: str = "") -> Iterator[str]:
    """Yield the paths of fields of this name, without those of pods and of the status."""
    for field, inner in schema.get("properties", {}).items():
        at = f"{path}.{field}" if path else field
        if field in ("status", "podSpec", "metadata"):
            continue
        if field == name:
            yield at
        yield from _places(inner, name, at)
        if isinstance(inner.get("items"), dict):
            yield from _places(inner["items"], name, f"{at}[]")


def _find(body: Any, path: str) -> Any:
    for match in _SEGMENT.finditer(path):
        try:
            body = body[int(match[2])] if match[2] else body[match[1]]
        except (KeyError, IndexError, TypeError):
            return "the value"
    return body


def _milli(value: Any) -> str:
    return f"{round(value * 1000)}m" if isinstance(value, float) else "500m"
