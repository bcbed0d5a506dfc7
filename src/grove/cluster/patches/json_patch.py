"""JSON patch (RFC 6902): a list of operations, all or none.

It differs from the RFC like a real API server: a missing value is null, copying from a missing field copies null, and
replacing a missing field adds it.
"""

from typing import Any

import msgspec

from grove.cluster.patches import PatchConflictError, PatchInvalidError, PatchTooLongError

_MAX_OPERATIONS = 10_000
_MAX_INDEX_DIGITS = 18
_MAX_COPIED_BYTES = 3 * 1024 * 1024


class _Operation(msgspec.Struct, frozen=True):
    op: str
    path: str
    source: str | msgspec.UnsetType = msgspec.field(name="from", default=msgspec.UNSET)
    value: Any = None


def apply_json_patch(document: Any, patch: Any) -> Any:
    """Apply all operations or none. Raises `PatchInvalidError` (malformed) or `PatchConflictError` (it fails)."""
    copied = 0
    for operation in _read(patch):
        if operation.op == "copy":
            # Copying a value into itself doubles the document with every operation.
            copied += len(msgspec.json.encode(_find_or_null(document, _source(operation))))
            if copied > _MAX_COPIED_BYTES:
                raise PatchConflictError("Unable to complete the copy, the accumulated size increase is too large")
        document = _apply(document, operation)
    return document


def _read(patch: Any) -> list[_Operation]:
    try:
        operations = msgspec.convert(patch, list[_Operation])
    except msgspec.ValidationError as error:
        raise PatchInvalidError(f"error decoding patch: {error}") from None
    if len(operations) > _MAX_OPERATIONS:
        raise PatchTooLongError(
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(operations)}"
        )
    return operations


def _apply(document: Any, operation: _Operation) -> Any:
    path = _steps(operation.path)
    match operation.op:
        case "add":
            return _add(document, path, operation.value)
        case "remove":
            return _remove(document, path)
        case "replace":
            return _replace(document, path, operation.value)
        case "test":
            if not _equal(_find(document, path), operation.value):
                raise PatchConflictError(f"testing value {operation.path} failed: test failed")
            return document
        case "copy":
            return _add(document, path, _find_or_null(document, _source(operation)))
        case "move":
            return _move(document, path, _source(operation))
        case _:
            raise PatchConflictError(f"Unexpected kind: {operation.op}")


def _move(document: Any, path: list[str], source: list[str]) -> Any:
    if path[: len(source)] == source:
        if path == source:
            _find(document, path)
            return document
        raise PatchConflictError("a value cannot be moved into itself")
    value = _find(document, source)
    return _add(_remove(document, source), path, value)


def _source(operation: _Operation) -> list[str]:
    if not isinstance(operation.source, str):
        raise PatchConflictError(f"{operation.op} operation has no from")
    return _steps(operation.source)


def _steps(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise PatchConflictError(f"{pointer} is not a JSON pointer: it must begin with /")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _find(document: Any, path: list[str]) -> Any:
    for step in path:
        document = _child(document, step)
    return document


def _find_or_null(document: Any, path: list[str]) -> Any:
    """Return the value at the path, or None if only the last step of the path does not exist."""
    parent = _find(document, path[:-1])
    return parent.get(path[-1]) if path and isinstance(parent, dict) else _find(document, path)


def _child(container: Any, step: str) -> Any:
    if isinstance(container, dict):
        if step not in container:
            raise PatchConflictError(f"unable to find {step}: missing value")
        return container[step]
    if isinstance(container, list):
        return container[_index(container, step)]
    raise PatchConflictError(f"unable to find {step}: its parent is neither an object nor a list")


def _index(container: list[Any], step: str) -> int:
    if not step.isascii() or not step.isdigit() or (len(step) > 1 and step.startswith("0")):
        raise PatchConflictError(f"{step} is not an index of a list")
    if len(step) > _MAX_INDEX_DIGITS or int(step) >= len(container):
        raise PatchConflictError(f"index {step} is out of bounds: the list has {len(container)}")
    return int(step)


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if rest:
        return _with_child(document, step, _add(_child(document, step), rest, value))
    if isinstance(document, list):
        index = len(document) if step in ("-", str(len(document))) else _index(document, step)
        return [*document[:index], value, *document[index:]]
    if isinstance(document, dict):
        return {**document, step: value}
    raise PatchConflictError(f"unable to add {step}: its parent is neither an object nor a list")


def _replace(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if not rest and isinstance(document, dict):
        return {**document, step: value}
    return _with_child(document, step, _replace(_child(document, step), rest, value))


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        return None
    step, rest = path[0], path[1:]
    child = _child(document, step)
    if rest:
        return _with_child(document, step, _remove(child, rest))
    if isinstance(document, list):
        index = _index(document, step)
        return [*document[:index], *document[index + 1 :]]
    return {key: kept for key, kept in document.items() if key != step}


def _with_child(container: Any, step: str, child: Any) -> Any:
    if isinstance(container, dict):
        return {**container, step: child}
    index = _index(container, step)
    return [*container[:index], child, *container[index + 1 :]]


def _equal(left: Any, right: Any) -> bool:
    """Compare as JSON values: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)
