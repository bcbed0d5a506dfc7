"""Work counted instead of timed, the same on every machine: lines executed, texts compared or hashed, letters told."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec

_count = 0


class Counted(str):
    """A text that counts each time somebody compares or hashes it: `name in names` looks at many."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        _add(1)
        return str.__eq__(self, other) if isinstance(other, str) else NotImplemented

    def __lt__(self, other: str) -> bool:
        _add(1)
        return str.__lt__(self, other)

    def __hash__(self) -> int:
        _add(1)
        return str.__hash__(self)


def counted(value: Any, *, pods: bool = False) -> Any:
    """The same value with every text in it counted. Equal texts are different objects, as in a body that was read.

    Free JSON such as a podSpec stays as it is, unless asked for: encoders know no texts that count.
    """
    if isinstance(value, str):
        return Counted(value)
    if isinstance(value, dict):
        is_free = any(not isinstance(inner, str) for inner in value.values())
        return value if is_free and not pods else {key: counted(inner, pods=pods) for key, inner in value.items()}
    if isinstance(value, list):
        return [counted(inner, pods=pods) for inner in value]
    if isinstance(value, tuple):
        return tuple(counted(inner, pods=pods) for inner in value)
    if isinstance(value, msgspec.Struct):
        fields = {name: counted(getattr(value, name), pods=pods) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return value


def work_of(act: Callable[[], object]) -> int:
    """How much work it is to do this and to print what comes out."""
    global _count
    _count = 0
    before = sys.gettrace()
    sys.settrace(_trace)
    try:
        result = act()
    finally:
        sys.settrace(before)
    lines = _count
    return lines + len(_printed(result))


def _printed(result: object) -> str:
    if isinstance(result, str) or result is None:
        return result or ""
    if isinstance(result, tuple | list):
        return "".join(str(item) for item in result)
    return str(result)


def _add(count: int) -> None:
    global _count
    _count += count


def _trace(frame: FrameType, event: str, _: object) -> Any:
    if frame.f_code.co_filename == __file__:
        return None
    _add(1)
    return _trace
