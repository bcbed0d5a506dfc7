"""Field sets: sets of paths in an object, as in `managedFields`.

A set is a tree of dicts. Its keys are steps: `f:name` a field, `k:{"name":"main"}` an item of a list by its keys,
`v:"text"` an item by its value, `.` the path itself. So `{"f:spec": {"f:replicas": {".": {}}}}` has one member.
Sets are shared and never changed; only a set under construction is (`insert`).
On the wire a leaf is `{}` and not `{".": {}}`: `to_wire`, `from_wire`.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

HERE = "."

# A recursive type, as far as type checkers support it.
FieldSet = dict[str, Any]
Path = tuple[str, ...]

# The set with only the empty path. It is shared, as all sets are.
LEAF: FieldSet = {HERE: {}}
_STEP_PREFIXES = ("f:", "k:", "v:", "i:")


@lru_cache(maxsize=65536)
def field_step(name: str) -> str:
    return f"f:{name}"


def key_step(keys: dict[str, Any]) -> str:
    return "k:" + msgspec.json.encode(keys, order="sorted").decode()


def value_step(value: Any) -> str:
    return "v:" + msgspec.json.encode(value, order="sorted").decode()


def insert(fields: FieldSet, path: Iterable[str]) -> None:
    """Add a path to a set under construction. All other sets are immutable."""
    for step in path:
        inner = fields.get(step)
        if inner is None:
            inner = fields[step] = {}
        fields = inner
    fields[HERE] = {}


def set_of(*paths: Iterable[str]) -> FieldSet:
    fields: FieldSet = {}
    for path in paths:
        insert(fields, path)
    return fields


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    if not one or one is other:
        return other
    if not other:
        return one
    result = dict(one)
    for step, inner in other.items():
        result[step] = union(result[step], inner) if step in result else inner
    return result


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    result: FieldSet = {}
    for step, inner in one.items():
        if step not in other:
            continue
        if step == HERE:
            result[step] = inner
        elif common := intersection(inner, other[step]):
            result[step] = common
    return result


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the members of `one` that are not members of `other`."""
    if not one or not other:
        return one
    result: FieldSet = {}
    for step, inner in one.items():
        if step not in other:
            result[step] = inner
        elif step != HERE and (rest := difference(inner, other[step])):
            result[step] = rest
    return result


def without_parts(one: FieldSet, parts: FieldSet) -> FieldSet:
    """Return the members of `one` that are neither members of `parts` nor inside of one."""
    if not one or not parts:
        return one
    result: FieldSet = {}
    for step, inner in one.items():
        if step not in parts:
            result[step] = inner
        elif step != HERE and HERE not in parts[step] and (rest := without_parts(inner, parts[step])):
            result[step] = rest
    return result


def members(fields: FieldSet, path: Path = ()) -> Iterator[Path]:
    """Yield the paths in the order of a real API server: at each level first the members, then what is below them."""
    steps = sorted(step for step in fields if step != HERE)
    for step in steps:
        if HERE in fields[step]:
            yield (*path, step)
    for step in steps:
        yield from members(fields[step], (*path, step))


def path_text(path: Path) -> str:
    """Format a path as error messages do: `.spec.containers[name="main"].image`."""
    return "".join(_step_text(step) for step in path)


def _step_text(step: str) -> str:
    kind, _, rest = step.partition(":")
    match kind:
        case "f":
            return f".{rest}"
        case "k":
            pairs = msgspec.json.decode(rest).items()
            return "[" + ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in pairs) + "]"
        case "v":
            return f"[={rest}]"
        case _:
            return f"[{rest}]"


def to_wire(fields: FieldSet) -> FieldSet:
    """Encode the set: sorted, and a leaf is `{}`."""
    return {step: {} if (inner := fields[step]) == LEAF or step == HERE else to_wire(inner) for step in sorted(fields)}


class NotAFieldSetError(Exception):
    """The client sent `fieldsV1` that is not a field set."""


def from_wire(wire: Any) -> FieldSet:
    """Decode a set. Raises `NotAFieldSetError`. At the top an empty object is an empty set, below it is a leaf.

    Steps of unknown kinds are dropped: a newer server may have written them.
    """
    if not isinstance(wire, dict):
        raise NotAFieldSetError("a field set must be an object")
    steps = ((_canonicalize(step), inner) for step, inner in wire.items() if step == HERE or step[:2] in _STEP_PREFIXES)
    return {step: {} if step == HERE else from_wire(inner) or LEAF for step, inner in steps}


def _canonicalize(step: str) -> str:
    """Return the step in its canonical encoding."""
    if step == HERE or step.startswith("f:"):
        return step
    try:
        value = msgspec.json.decode(step[2:])
    except msgspec.DecodeError:
        raise NotAFieldSetError(f"{step}: not a step") from None
    match step[:1], value:
        case ("k", dict()):
            return key_step(value)
        case ("v", _):
            return value_step(value)
        case ("i", int()):
            return step
    raise NotAFieldSetError(f"{step}: not a step")
