"""Optional fields of every status, on the wire: there when they say something, absent when they are empty.

Clients in Go ask whether a list or an object is nil: an empty one is an answer that they do not expect.
"""

import types
import typing
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
import pytest

from grove.api.resources import Resource
from grove.api.schema.crd_generator import KINDS, object_schema
from grove.api.types.meta import Condition, JsonObject, ObjectMeta, WireStruct
from grove.cluster.patches.merge_patch import apply_merge_patch
from grove.cluster.schemas.schema_validation import validate_value
from grove.planner.actions import StatusPriority
from grove.planner.status.status_patch import write_status
from tests.dsl import NOW

METADATA = ObjectMeta(name="x", namespace="default")
PLAIN: dict[Any, Any] = {str: "Pending", int: 1, float: 0.5, bool: True, datetime: NOW}
Path = tuple[str, ...]


def status_type(resource: Resource[Any]) -> type[WireStruct]:
    return typing.cast("type[WireStruct]", typing.get_type_hints(resource.view)["status"])


def without_none(kind: Any) -> Any:
    return typing.get_args(kind)[0] if isinstance(kind, types.UnionType) else kind


def filled(kind: Any) -> Any:
    """A value in which every field says something."""
    kind = without_none(kind)
    if typing.get_origin(kind) is tuple:
        return (filled(typing.get_args(kind)[0]),)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind is Condition:
            return Condition(type="Ready", status="True", reason="Good", message="m", last_transition_time=NOW)
        return kind(**{field.name: filled(field.type) for field in msgspec.structs.fields(kind)})
    return PLAIN[kind]


def optional_paths(kind: Any, before: Path = ()) -> Iterator[Path]:
    """Lists and objects that may be left out, also inside objects that are not items of lists."""
    for field in msgspec.structs.fields(kind):
        inner = without_none(field.type)
        is_list = typing.get_origin(inner) is tuple
        is_object = isinstance(inner, type) and issubclass(inner, msgspec.Struct)
        if (is_list or is_object) and not field.required:
            yield (*before, field.name)
        if is_object:
            yield from optional_paths(inner, (*before, field.name))


def emptied(status: Any, path: Path) -> Any:
    """The same status with nothing at the path: an empty list, or no object."""
    first, *rest = path
    if rest:
        return msgspec.structs.replace(status, **{first: emptied(getattr(status, first), tuple(rest))})
    (field,) = (one for one in msgspec.structs.fields(status) if one.name == first)
    return msgspec.structs.replace(status, **{first: field.default})


def empty_parts(value: Any, at: str = "status") -> list[str]:
    if isinstance(value, dict):
        return [at] * (not value) + [part for k, v in value.items() for part in empty_parts(v, f"{at}.{k}")]
    if isinstance(value, list | tuple):
        return [at] * (not value) + [part for one in value for part in empty_parts(one, f"{at}[]")]
    return [at] if value is None else []


def written(resource: Resource[Any], old: Any, new: Any, stored: JsonObject) -> JsonObject:
    """What a server stores after our write."""
    write = write_status(resource, METADATA, old, new, StatusPriority.TRANSITION)
    assert write is not None
    return apply_merge_patch(stored, msgspec.json.decode(msgspec.json.encode(write.patch)))


def schema_of(resource: Resource[Any]) -> JsonObject:
    schema: JsonObject = object_schema(resource)["properties"]["status"]
    return schema


CASES = [(resource, path) for resource in KINDS for path in optional_paths(status_type(resource))]


def test_every_kind_has_optional_fields() -> None:
    assert {resource.kind for resource, _ in CASES} == {resource.kind for resource in KINDS}
    assert len(CASES) >= 25


@pytest.mark.parametrize(
    ("resource", "path"), CASES, ids=[f"{resource.kind}-{'.'.join(path)}" for resource, path in CASES]
)
def test_an_optional_field_is_absent_when_it_is_empty_and_back_when_it_is_not(
    resource: Resource[Any], path: Path
) -> None:
    nothing, full = status_type(resource)(), filled(status_type(resource))
    less = emptied(full, path)
    stored = written(resource, nothing, full, {})
    assert empty_parts(stored) == []
    first = written(resource, nothing, less, {})
    taken = written(resource, full, less, stored)
    assert first == taken
    assert empty_parts(first) == []
    # It reads as what was written, and a server takes it.
    assert msgspec.convert(first, status_type(resource)) == less
    assert validate_value(first, schema_of(resource), "status") == []
    assert written(resource, less, full, first) == stored
