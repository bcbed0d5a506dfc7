"""Server-side apply of values: merges an applied configuration, and removes fields that are no longer applied.

`field_managers.py` tracks ownership and conflicts.
"""

from typing import Any

from grove.cluster.patches.field_sets import HERE, FieldSet, difference, field_step, intersection, union
from grove.cluster.patches.merge_types import Deduced, Items, Members, Type
from grove.cluster.patches.typed_compare import ABSENT, deduced_type, field_set, member_type, step_of


def merge(type_: Type, live: Any, applied: Any) -> Any:
    """Merge the applied configuration into the live value. Fields that it does not mention stay."""
    if applied is ABSENT or live is ABSENT:
        return live if applied is ABSENT else applied
    if isinstance(type_, Deduced):
        type_ = deduced_type(live, applied)
    match type_:
        case Members(is_atomic=False) if isinstance(live, dict) and live:
            return _merge_members(type_, live, applied if isinstance(applied, dict) else {})
        case Items(keys=keys) if keys is not None and isinstance(live, list) and live:
            return _merge_items(type_, keys, live, applied if isinstance(applied, list) else [])
        case _:
            return applied


def _merge_members(type_: Members, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    if not applied:
        return live
    return {
        name: merge(member_type(type_, name), live.get(name, ABSENT), applied.get(name, ABSENT))
        for name in live | applied
    }


def _merge_items(type_: Items, keys: dict[str, Any], live: list[Any], applied: list[Any]) -> list[Any]:
    live_items = {step_of(keys, item): item for item in reversed(live)}
    applied_items = {step_of(keys, item): item for item in applied}
    steps = _in_order([step_of(keys, item) for item in live], list(applied_items))
    return [merge(type_.items, live_items.get(step, ABSENT), applied_items.get(step, ABSENT)) for step in steps]


def _in_order(live: list[str], applied: list[str]) -> list[str]:
    """Return applied items in their order. Other items stay behind the items that they followed."""
    remaining, shared = list(dict.fromkeys(live)), [step for step in applied if step in live]
    result: list[str] = []
    for step in applied:
        if shared and step == shared[0]:
            shared.pop(0)
            while remaining and remaining[0] != step:
                ahead = remaining.pop(0)
                if ahead not in applied:
                    result.append(ahead)
            del remaining[:1]
        else:
            # A new item follows the unapplied items before the next shared one.
            while remaining and remaining[0] not in applied:
                result.append(remaining.pop(0))
        result.append(step)
    return result + [step for step in remaining if step not in applied]


def prune(type_: Type, value: Any, last: FieldSet, owned: FieldSet) -> Any:
    """Remove the fields of `last`, the previously applied ones, unless a manager still owns them (`owned`)."""
    last_fields = _with_schema_parents(type_, last)
    current_fields = _with_schema_parents(type_, field_set(type_, value))
    kept_fields = _with_schema_parents(type_, field_set(type_, remove_fields(type_, value, last_fields)))
    candidate = remove_fields(
        type_, value, difference(current_fields, union(kept_fields, _with_schema_parents(type_, owned)))
    )
    kept_fields = _with_schema_parents(type_, field_set(type_, candidate))
    return remove_fields(type_, value, intersection(difference(current_fields, kept_fields), last_fields))


def without_empties(type_: Type, value: Any) -> Any:
    """Return the value without nulls, empty maps and empty lists, as built-in kinds are stored."""
    match value:
        case dict():
            fields = type_ if isinstance(type_, Members) else Members(fields={}, each=type_)
            kept_fields = {}
            for name, inner in value.items():
                inner_type = member_type(fields, name)
                tidy = without_empties(inner_type, inner)
                if tidy is not None and not _is_empty(inner_type, tidy):
                    kept_fields[name] = tidy
            return kept_fields
        case list() if isinstance(type_, Items):
            return [without_empties(type_.items, item) for item in value]
        case _:
            return value


def _is_empty(type_: Type, value: Any) -> bool:
    """Return whether a value is an empty map or list. An empty object with known fields is kept."""
    is_map = isinstance(type_, Members) and not type_.fields
    return (value == {} and is_map) or (value == [] and isinstance(type_, Items))


def _with_schema_parents(type_: Type, fields: FieldSet) -> FieldSet:
    """Add every field with a schema on the way to a member: the owner of all of a part may remove the part."""
    result: FieldSet = {}
    for step, inner in fields.items():
        if step == HERE:
            result[step] = inner
            continue
        result[step] = _with_schema_parents(_type_at(type_, step), inner)
        if isinstance(type_, Members) and step.startswith("f:") and step[2:] in type_.fields:
            result[step] = {HERE: {}, **result[step]}
    return result


def _type_at(type_: Type, step: str) -> Type:
    match type_:
        case Members():
            return member_type(type_, step[2:])
        case Items():
            return type_.items
        case _:
            return type_


def remove_fields(type_: Type, value: Any, removed: FieldSet) -> Any:
    """Return the value without the members of `removed`, or None if nothing is left."""
    if not removed:
        return value
    if isinstance(type_, Deduced):
        type_ = deduced_type(value)
    match type_:
        case Members(is_atomic=False) if isinstance(value, dict):
            return _remove_members(type_, value, removed)
        case Items(keys=keys) if keys is not None and isinstance(value, list):
            return _remove_list_items(type_, keys, value, removed)
        case _:
            return value


def _remove_members(type_: Members, value: dict[str, Any], removed: FieldSet) -> dict[str, Any] | None:
    result = {}
    for name, inner in value.items():
        here = removed.get(field_step(name), {})
        if HERE not in here:
            result[name] = remove_fields(member_type(type_, name), inner, here)
    return result or None


def _remove_list_items(type_: Items, keys: dict[str, Any], value: list[Any], removed: FieldSet) -> list[Any] | None:
    result = []
    for item in value:
        here = removed.get(step_of(keys, item), {})
        if HERE not in here:
            result.append(remove_fields(type_.items, item, here))
    return result or None
