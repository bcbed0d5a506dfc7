"""Typed comparison: the field set of an object, the difference between two objects, and type errors.

Results are field sets (`field_sets.py`) or error messages. `field_managers.py` uses them.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from grove.cluster.patches.field_sets import (
    LEAF,
    FieldSet,
    Path,
    field_step,
    key_step,
    path_text,
    union,
    value_step,
    without_parts,
)
from grove.cluster.patches.merge_types import ANYTHING, DEDUCED, Deduced, Items, Members, Scalar, Type


class Absent:
    """The type of `ABSENT`: no value, which is not the same as null."""

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent()


class Comparison(msgspec.Struct, frozen=True):
    """The fields that a write changed."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    @property
    def written(self) -> FieldSet:
        """The fields that the writer owns after the write."""
        return union(self.added, self.modified)

    def without(self, parts: FieldSet) -> "Comparison":
        return Comparison(*(without_parts(fields, parts) for fields in (self.added, self.modified, self.removed)))


def member_type(type_: Members, name: str) -> Type:
    """Return the type of a field. Fields without a schema are replaced as a whole."""
    found = type_.fields.get(name)
    return found if found is not None else type_.each or ANYTHING


def deduced_type(*values: Any) -> Type:
    """Return the type of values without a schema. Beside an object, null counts as an empty object."""
    is_object = all(isinstance(value, _LIKE_OBJECTS) for value in values)
    return _DEDUCED_OBJECT if is_object and any(isinstance(value, dict) for value in values) else ANYTHING


_DEDUCED_OBJECT = Members(fields={}, each=DEDUCED)
# Constants, because they are used for every value.
_NESTED = (dict, list)
_LIKE_OBJECTS = (dict, Absent, type(None))


def step_of(keys: dict[str, Any], item: Any) -> str:
    """Return the step that identifies an item of a merging list."""
    if not keys:
        return value_step(item)
    given = item if isinstance(item, dict) else {}
    named = {name: given.get(name, default) for name, default in keys.items()}
    return key_step({name: value for name, value in named.items() if value is not None})


# Field sets


def field_set(type_: Type, value: Any) -> FieldSet:
    """Return the fields that an applied value sets: the fields of objects, and the items of merging lists and maps."""
    if isinstance(type_, Deduced):
        type_ = deduced_type(value)
    if isinstance(type_, Members) and not type_.is_atomic:
        return _fields_of_object(type_, _object(value))
    if isinstance(type_, Items) and type_.keys is not None:
        found: FieldSet = {}
        for item in _list(value):
            step = step_of(type_.keys, item)
            found[step] = union(found.get(step, LEAF), field_set(type_.items, item))
        return found
    return LEAF


def _fields_of_object(type_: Members, value: dict[str, Any]) -> FieldSet:
    found: FieldSet = {}
    for name, inner in value.items():
        fields = field_set(member_type(type_, name), inner)
        if inner is None or inner == {} or name not in type_.fields:
            fields = union(LEAF, fields)
        if fields:
            found[field_step(name)] = fields
    return found


def _whole(type_: Type, value: Any) -> FieldSet:
    """Return all fields of an added or removed value, including parents."""
    if not isinstance(value, _NESTED):
        return LEAF
    if isinstance(type_, Deduced):
        type_ = deduced_type(value)
    if isinstance(type_, Members) and not type_.is_atomic:
        found = dict(LEAF)
        for name, inner in _object(value).items():
            found[field_step(name)] = _whole(member_type(type_, name), inner)
        return found
    if isinstance(type_, Items) and type_.keys is not None:
        by_step = _by_step(type_.keys, _list(value))
        return LEAF | {
            step: LEAF if len(items) > 1 else _whole(type_.items, items[0]) for step, items in by_step.items()
        }
    return LEAF


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# Comparison


def compare(type_: Type, old: Any, new: Any) -> Comparison:
    if old is new:
        # Versions of an object share unchanged parts.
        return _NO_CHANGE
    if old is ABSENT:
        return Comparison(_whole(type_, new), {}, {})
    if new is ABSENT:
        return Comparison({}, {}, _whole(type_, old))
    if isinstance(type_, Deduced):
        type_ = deduced_type(old, new)
        if type_ is ANYTHING and (isinstance(old, dict) or isinstance(new, dict)):
            return _compare_unlike(old, new)
    if isinstance(type_, Members) and not type_.is_atomic:
        before, after = _object(old), _object(new)
        if before or after:
            return _compare_members(type_, before, after)
    elif isinstance(type_, Items) and type_.keys is not None and (_list(old) or _list(new)):
        return _compare_items(type_, _by_step(type_.keys, _list(old)), _by_step(type_.keys, _list(new)))
    return _NO_CHANGE if old == new else _MODIFIED


_NO_CHANGE = Comparison({}, {}, {})
_MODIFIED = Comparison({}, LEAF, {})


def _compare_members(type_: Members, before: dict[str, Any], after: dict[str, Any]) -> Comparison:
    found = Comparison({}, {}, {})
    for name, new in after.items():
        old = before.get(name, ABSENT)
        if old is new:
            continue
        if old is ABSENT:
            found.added[field_step(name)] = _whole(member_type(type_, name), new)
        else:
            _add_change(found, field_step(name), compare(member_type(type_, name), old, new))
    for name, old in before.items():
        if name not in after:
            found.removed[field_step(name)] = _whole(member_type(type_, name), old)
    return found


def _compare_items(type_: Items, before: dict[str, list[Any]], after: dict[str, list[Any]]) -> Comparison:
    found = Comparison({}, {}, {})
    for step in before | after:
        old, new = before.get(step, []), after.get(step, [])
        # Items with the same key are compared as one.
        is_one = len(old) <= 1 and len(new) <= 1
        change = compare(type_.items if is_one else ANYTHING, _only(old, is_one), _only(new, is_one))
        _add_change(found, step, change)
    return found


def _only(items: list[Any], is_one: bool) -> Any:
    return ABSENT if not items else items[0] if is_one else items


def _compare_unlike(old: Any, new: Any) -> Comparison:
    """Compare an object with a value of another type: the fields of the object are added or removed."""
    added = {field_step(name): _whole(DEDUCED, inner) for name, inner in _object(new).items()}
    removed = {field_step(name): _whole(DEDUCED, inner) for name, inner in _object(old).items()}
    return Comparison(added, LEAF, removed)


def _add_change(found: Comparison, step: str, change: Comparison) -> None:
    """Add a change to a comparison under construction."""
    for whole, part in (
        (found.added, change.added),
        (found.modified, change.modified),
        (found.removed, change.removed),
    ):
        if part:
            whole[step] = part


def _by_step(keys: dict[str, Any], items: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(step_of(keys, item), []).append(item)
    return found


# Type errors of applied objects


def find_type_error(type_: Type, value: Any) -> str:
    """Return all type errors as one text, or an empty string. The texts follow those of a real API server."""
    error_messages = list(_find_errors(type_, value, ()))
    return "\n  ".join(("errors:", *error_messages)) if len(error_messages) > 1 else "".join(error_messages)


def _find_errors(type_: Type, value: Any, path: Path) -> Iterator[str]:
    match type_:
        case Scalar(name=name) if value is not None and name and not _has_type(name, value):
            yield f"{path_text(path)}: expected {name}, got {_to_json(value)}"
        case Members() if value is not None:
            if not isinstance(value, dict):
                yield f"{path_text(path)}: expected map, got {_to_json(value)}"
                return
            yield from _find_member_errors(type_, value, path)
        case Items(keys=keys) if value is not None:
            if not isinstance(value, list):
                yield f"{path_text(path)}: expected list, got {_to_json(value)}"
                return
            yield from _find_item_errors(type_, keys, value, path)
        case _:
            return


def _find_member_errors(type_: Members, value: dict[str, Any], path: Path) -> Iterator[str]:
    for name in sorted(value):
        place = (*path, field_step(name))
        if name not in type_.fields and type_.each is None:
            # As a real API server, stop at the first unknown field of an object.
            yield f"{path_text(place)}: field not declared in schema"
            return
        yield from _find_errors(member_type(type_, name), value[name], place)


def _find_item_errors(type_: Items, keys: dict[str, Any] | None, value: list[Any], path: Path) -> Iterator[str]:
    seen: dict[str, None] = {}
    for index, item in enumerate(value):
        step = f"i:{index}"
        if keys is not None:
            if error_message := _find_key_error(keys, item):
                yield f"{path_text(path)}: element {index}: {error_message}"
                continue
            step = step_of(keys, item)
            if step in seen:
                yield f"{path_text(path)}: duplicate entries for key {path_text((step,))}"
            seen[step] = None
        yield from _find_errors(type_.items, item, (*path, step))


def _find_key_error(keys: dict[str, Any], item: Any) -> str:
    match item:
        case None if keys:
            return "associative list with keys may not have a null element"
        case None:
            return "associative list without keys has an element that's an explicit null"
        case dict() | list() if not keys:
            kind = "map" if isinstance(item, dict) else "list"
            return f"associative list without keys has an element that's a {kind} type"
        case dict() if all(name not in item and default is None for name, default in keys.items()):
            return (
                f"associative list with keys has an element that omits all key fields {_to_json(list(keys))} "
                "(and doesn't have default values for any key fields)"
            )
        case dict():
            return ""
        case _:
            return "associative list with keys may not have non-map elements" if keys else ""


def _has_type(name: str, value: Any) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
