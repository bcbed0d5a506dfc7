"""Format objects as readable YAML: no anchors, keys in the given order, long texts as block scalars."""

from typing import Any

import yaml

from grove.api.types.meta import JsonObject

_WIDTH = 120


def expanded_yaml(document: JsonObject) -> str:
    """Return YAML with one field per line. Only lists of scalars are in flow style."""
    return _dump(document, is_compact=False)


def compact_yaml(document: JsonObject) -> str:
    """Return YAML with small objects on one line, for schemas."""
    return _dump(document, is_compact=True)


def _dump(document: JsonObject, *, is_compact: bool) -> str:
    return yaml.dump(
        document,
        Dumper=_PlainDumper,
        sort_keys=False,
        width=_WIDTH,
        allow_unicode=True,
        default_flow_style=None if is_compact else False,
    )


class _PlainDumper(yaml.SafeDumper):
    """A YAML dumper that writes no anchors, because people diff and edit these files."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _represent_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    is_plain = all(isinstance(item, str | int | float) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True if is_plain else None)


_PlainDumper.add_representer(str, _represent_text)
_PlainDumper.add_representer(list, _represent_list)
