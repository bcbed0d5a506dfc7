"""Decodes the first YAML document of a request into JSON values, and finds its duplicate keys.

Scalars are parsed as on a real API server: `yes` and `n` are booleans, times stay strings. Values are built from parser
events and not by PyYAML's constructors, which are not safe for untrusted bodies.
"""

import base64
import binascii
import copy
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from grove.cluster.apiserver.codec.duplicate_fields import find_duplicate_fields
from grove.cluster.storage.store import DEEPEST

# Ten times as fast, if PyYAML was built with libyaml.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Limits alias expansion: a document has at most one value per byte plus this many.
_SPARE_VALUES = 10_000
_BOOLEANS = {
    form: truth
    for literals, truth in ((("y", "yes", "true", "on"), True), (("n", "no", "false", "off"), False))
    for word in literals
    for form in (word, word.capitalize(), word.upper())
}
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_INT = re.compile(r"([-+]?)(?:0b([01]+)|0o?([0-7]+)|0x([0-9a-fA-F]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(nan|NaN|NAN)")
_TIME = re.compile(r"\d{4}-\d\d?-\d\d?(?:(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?[ \t]*(?:Z|[-+]\d\d?(?::?\d\d)?)?)?")
_STANDARD = "tag:yaml.org,2002:"


class YamlError(Exception):
    """The body is not YAML, or cannot be converted to JSON."""


class YamlDocument(msgspec.Struct, frozen=True):
    value: Any
    # Duplicate keys, with their lines.
    duplicates: tuple[str, ...] = ()


def read_document(body: bytes) -> YamlDocument:
    """Decode the first document of a body. Raises `YamlError`."""
    if body[:1] == b"{" and not find_duplicate_fields(body):
        try:
            return YamlDocument(msgspec.json.decode(body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # Not JSON, but it may be YAML that starts like JSON.
            pass
    try:
        return _Reader(body).document()
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        raise YamlError(" ".join(str(error).split())) from None


class _Anchored(msgspec.Struct, frozen=True):
    """The value of an anchor, and the number of values in it."""

    value: Any
    size: int


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._events: Iterator[Any] = yaml.parse(body, Loader=_LOADER)
        self._budget = len(body) + _SPARE_VALUES
        # None: the anchor's value is still being read.
        self._anchors: dict[str, _Anchored | None] = {}
        self._duplicates: list[str] = []

    def document(self) -> YamlDocument:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                return YamlDocument(self._read_value(next(self._events), 0), tuple(self._duplicates))
        return YamlDocument(None)

    def _read_value(self, event: Any, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("exceeded max depth")
        if isinstance(event, yaml.AliasEvent):
            return self._resolve_alias(event.anchor or "")
        before = self._budget
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        value = self._build_value(event, depth)
        self._spend(1)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, before - self._budget)
        return value

    def _build_value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return _decode_scalar(event)
        if isinstance(event, yaml.MappingStartEvent):
            return self._read_mapping(depth)
        items = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._read_value(event, depth + 1))
        return items

    def _read_mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            is_merge = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
            key, line = _key_text(self._read_value(event, depth + 1)), event.start_mark.line + 1
            value = self._read_value(next(self._events), depth + 1)
            if is_merge:
                merged = {**_merge(value), **merged}
                continue
            if key in found:
                self._duplicates.append(f'line {line}: key "{key}" already set in map')
            found[key] = value
        return {**merged, **found} if merged else found

    def _resolve_alias(self, anchor: str) -> Any:
        if anchor not in self._anchors:
            raise ValueError(f"unknown anchor '{anchor}' referenced")
        anchored = self._anchors[anchor]
        if anchored is None:
            raise ValueError(f"anchor '{anchor}' value contains itself")
        self._spend(anchored.size)
        return copy.deepcopy(anchored.value)

    def _spend(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            raise ValueError("document contains excessive aliasing")


def _merge(value: Any) -> dict[str, Any]:
    """Return the fields of a merge key (`<<`); the first of several maps wins."""
    found: dict[str, Any] = {}
    for one in value if isinstance(value, list) else (value,):
        if not isinstance(one, dict):
            raise ValueError("map merge requires map or sequence of maps as the value")
        found = {**one, **found}
    return found


def _decode_scalar(event: Any) -> Any:
    text, tag = event.value, event.tag
    if tag is None or tag == "!":
        return _decode_plain(text) if event.implicit[0] else text
    if not tag.startswith(_STANDARD):
        # A custom tag is ignored.
        return text
    return _decode_tagged(text, tag.removeprefix(_STANDARD))


def _decode_tagged(text: str, wanted: str) -> Any:
    """Decode a scalar with an explicit standard tag."""
    if wanted == "binary":
        try:
            return base64.b64decode(text, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ValueError("!!binary value contains invalid base64 data") from None
    if wanted == "timestamp" and _TIME.fullmatch(text):
        return text
    if wanted not in _TYPES:
        return text
    value = _decode_plain(text)
    if wanted == "float" and type(value) is int:
        return float(value)
    if type(value) is not _TYPES[wanted]:
        shown = next((name for name, type_ in _TYPES.items() if type(value) is type_), "str")
        raise ValueError(f"cannot decode !!{shown} `{text}` as a !!{wanted}")
    return value


_TYPES = {"int": int, "float": float, "bool": bool, "null": type(None), "timestamp": tuple}


def _decode_plain(text: str) -> Any:
    """Decode a plain scalar."""
    if text in _NULLS:
        return None
    if text[0] not in "-+.0123456789":
        return _BOOLEANS.get(text, text)
    if match := _INFINITE.fullmatch(text):
        raise ValueError(f"json: unsupported value: {'NaN' if match[2] else (match[1] or '+') + 'Inf'}")
    return _decode_number(text, text.replace("_", ""))


def _decode_number(text: str, digits: str) -> Any:
    """Decode a number. Integers beyond 64 bits become floats; what fits neither is a string."""
    if match := _INT.fullmatch(digits):
        sign, *forms = match.groups()
        base, found = next((base, form) for base, form in zip((2, 8, 16, 10), forms, strict=True) if form is not None)
        # Too long for 64 bits: do not parse it, which would be slow.
        value = int(sign + found, base) if len(found) <= 64 else 2**64
        if -(2**63) <= value < 2**64:
            return value
    elif not _FLOAT.fullmatch(digits):
        return text
    try:
        number = float(digits)
    except ValueError:
        return text
    return text if number in (float("inf"), float("-inf")) else number


def _key_text(key: Any) -> str:
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int() | float():
            return str(key)
        case _:
            raise ValueError(f"unsupported map key of type: {type(key).__name__}")
