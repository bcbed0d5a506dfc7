"""Manifest files: YAML documents, each with its place, so that an error can name it. Writing them is `applying.py`."""

import sys
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from grove.api.meta import JsonObject
from grove.errors import UserError

_END = object()


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One object of a file; `place` is for messages: `quickstart.yaml, document 2`."""

    place: str
    body: JsonObject

    @property
    def api_version(self) -> str:
        return str(self.body["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


def read_documents(path: Path) -> list[Document]:
    """All objects of a file (`-`: standard input), lists taken apart. Raises `UserError` with file and document."""
    documents = [document for place, body in _bodies(path) for document in _objects(place, body)]
    if not documents:
        raise UserError(f"{path}: holds no object; write a manifest into it")
    return documents


def _bodies(path: Path) -> Iterator[tuple[str, Any]]:
    name = "standard input" if str(path) == "-" else str(path)
    text = _read(path)
    documents = yaml.load_all(text, _Loader)
    number = 0
    while True:
        number += 1
        try:
            body = next(documents, _END)
        except yaml.YAMLError as error:
            raise UserError(f"{name}, document {number}: not valid YAML: {_shown(error)}; correct it") from error
        if body is _END:
            return
        if body is not None:
            yield f"{name}, document {number}", body


def _read(path: Path) -> str:
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not text; give a YAML or JSON manifest") from error


def _objects(place: str, body: Any) -> Iterator[Document]:
    if not isinstance(body, dict):
        raise UserError(f"{place}: is not an object; it needs apiVersion, kind and metadata")
    missing = [field for field in ("apiVersion", "kind") if not isinstance(body.get(field), str) or not body[field]]
    if missing:
        raise UserError(f"{place}: has no {' and no '.join(missing)}; add it")
    if body["kind"] == "List":
        for position, item in enumerate(body.get("items") or ()):
            yield from _objects(f"{place}, items[{position}]", item)
        return
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise UserError(f"{place}: {body['kind']} has no metadata.name; add it")
    yield Document(place=place, body=body)


def _shown(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}: {problem}" if mark is not None else problem


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice: one of the two would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Hashable, None] = {}
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen and key_node.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen[key] = None
        return super().construct_mapping(node, deep)
