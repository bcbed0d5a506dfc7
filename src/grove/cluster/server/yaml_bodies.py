"""YAML in a request: the first document as JSON could say it, and the keys that stand twice in it.

Scalars are read as a real server reads them: `yes` and `n` are truths, times stay texts.
"""

import re
from typing import Any

import msgspec
import yaml

from grove.cluster.server.doubled_fields import doubled_fields

# Aliases let a short text stand for an endless one.
_MOST_VALUES = 1_000_000
_TRUTHS = {
    **dict.fromkeys(("y", "yes", "true", "on"), True),
    **dict.fromkeys(("n", "no", "false", "off"), False),
}


class YamlProblemError(Exception):
    """No YAML, or none that could be JSON: the client must write something else."""


class Document(msgspec.Struct, frozen=True):
    value: Any
    # What stands twice, with its line.
    doubled: tuple[str, ...] = ()


def read_document(body: bytes) -> Document:
    """Raises `YamlProblemError`."""
    if body[:1] == b"{" and not doubled_fields(body):
        try:
            return Document(msgspec.json.decode(body))
        except msgspec.DecodeError:
            # No JSON, but YAML may begin like it.
            pass
    try:
        loader = _Loader(body)
        found = loader.first_document()
        return Document(_Plain().value(found), tuple(loader.doubled))
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as problem:
        raise YamlProblemError(" ".join(str(problem).split())) from None


class _Loader(yaml.SafeLoader):
    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.doubled: list[str] = []

    def first_document(self) -> Any:
        has_one: bool = self.check_data()  # type: ignore[no-untyped-call]
        return self.get_data() if has_one else None

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: dict[str, None] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    self.doubled.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
                seen[key.value] = None
        return super().construct_mapping(node, deep)


def _construct_truth(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> bool:
    return _TRUTHS[str(loader.construct_scalar(node)).lower()]


_DROPPED = ("bool", "float", "int", "timestamp")
_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in _DROPPED]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _name, _pattern, _letters in (
    ("bool", r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("int", r"[-+]?(?:0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+|[0-9][0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_letters))
_Loader.add_constructor("tag:yaml.org,2002:bool", _construct_truth)


class _Plain:
    """Values as JSON has them, counted."""

    def __init__(self) -> None:
        self._count = 0

    def value(self, found: Any) -> Any:
        self._count += 1
        if self._count > _MOST_VALUES:
            raise ValueError("document contains excessive aliasing")
        match found:
            case dict():
                return {_key(key): self.value(inner) for key, inner in found.items()}
            case list():
                return [self.value(inner) for inner in found]
            case None | bool() | int() | float() | str():
                return found
            case _:
                # Bytes and sets, which YAML has and JSON has not.
                raise ValueError(f"unsupported value of type: {type(found).__name__}")


def _key(key: Any) -> str:
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int() | float():
            return str(key)
        case _:
            raise ValueError(f"unsupported map key of type: {type(key).__name__}")
