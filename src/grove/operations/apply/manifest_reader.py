"""Read manifest files: YAML documents, each with its place for error messages.

A document is read as kubectl reads it: timestamps and `1:30` stay strings, keys become strings, and values that JSON
cannot represent are an error.
"""

import math
import re
import sys
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from grove.api.types.meta import JsonObject
from grove.errors import UserError

# More than any object of a cluster has. Nested aliases can expand a few lines to millions of values.
MAX_VALUES = 1_000_000
MAX_DEPTH = 200
MANIFEST_SUFFIXES = (".json", ".yaml", ".yml")

_END = object()


class ManifestDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One object of a file. `place` is for messages, such as `quickstart.yaml, document 2`."""

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

    @property
    def namespace(self) -> str:
        """The namespace that the manifest names, or an empty text."""
        return str(self.body["metadata"].get("namespace") or "")


def check_namespaces(documents: Iterable[ManifestDocument], namespace: str) -> None:
    """Raise `UserError` if a manifest names another namespace than the one given with `-n` (empty: not given)."""
    for document in documents:
        if namespace and document.namespace not in ("", namespace):
            raise UserError(
                f"{document.place}: {document.kind} {document.name} is in namespace {document.namespace}, "
                f"which does not match -n {namespace}; use -n {document.namespace}, or omit -n"
            )


def read_manifests(paths: Iterable[Path], *, is_recursive: bool = False) -> list[ManifestDocument]:
    """Return all objects of files and directories, in this order. Raises `UserError` with the place."""
    return [
        document
        for path in paths
        for file in (_files_of(path, is_recursive) if path.is_dir() else (path,))
        for document in read_documents(file)
    ]


def _files_of(folder: Path, is_recursive: bool) -> list[Path]:
    """Return the manifests of a directory, sorted by name, as kubectl reads them."""
    try:
        found = sorted(folder.rglob("*") if is_recursive else folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({error.strerror}); check its permissions") from error
    files = [path for path in found if path.suffix in MANIFEST_SUFFIXES and path.is_file()]
    if not files:
        below = "" if is_recursive else ", or add --recursive to include its subdirectories"
        raise UserError(f"{folder}: has no file that ends with {', '.join(MANIFEST_SUFFIXES)}; check the path{below}")
    return files


def read_documents(path: Path) -> list[ManifestDocument]:
    """Return all objects of a file (`-`: standard input), with Lists expanded. Raises `UserError` with the place."""
    return parse_documents(_display_path(path), _read(path))


def parse_documents(name: str, text: str) -> list[ManifestDocument]:
    """Return all objects of a text, with Lists expanded. Raises `UserError`; `name` is the text's, for messages."""
    documents = [document for place, body in _parse_bodies(name, text) for document in _read_objects(place, body)]
    if not documents:
        raise UserError(f"{name}: has no object; add a manifest")
    return documents


def read_content(path: Path) -> JsonObject:
    """Return the only document of a file that is not a manifest. Raises `UserError`."""
    contents = [content for _, content in _parse_bodies(_display_path(path), _read(path))]
    if len(contents) != 1 or not isinstance(contents[0], dict):
        raise UserError(f"{_display_path(path)}: must have exactly one YAML document, a mapping; correct the file")
    content: JsonObject = contents[0]
    return content


def _parse_bodies(name: str, text: str) -> Iterator[tuple[str, Any]]:
    documents = yaml.load_all(text, _Loader)
    number = 0
    while True:
        number += 1
        place = f"{name}, document {number}"
        try:
            body = next(documents, _END)
        except yaml.YAMLError as error:
            raise UserError(f"{place}: not valid YAML: {_describe_yaml_error(error)}; correct it") from error
        except RecursionError as error:
            raise UserError(f"{place}: is nested too deeply for a manifest; remove levels") from error
        except (ValueError, AttributeError) as error:
            # PyYAML raises these for a value that does not match its tag.
            raise UserError(
                f"{place}: has a value that does not match its !!type; remove the !!type, or quote the value"
            ) from error
        if body is _END:
            return
        if body is not None:
            yield place, _JsonConverter(place).value(body, "")


def _display_path(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _read(path: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return data.decode()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{_display_path(path)}: is not a text file; give a YAML or JSON manifest") from error


def _read_objects(place: str, body: Any) -> Iterator[ManifestDocument]:
    if not isinstance(body, dict):
        raise UserError(f"{place}: is not an object; it needs apiVersion, kind and metadata")
    missing = [field for field in ("apiVersion", "kind") if not isinstance(body.get(field), str) or not body[field]]
    if missing:
        raise UserError(f"{place}: has no {' and '.join(missing)}; add {'it' if len(missing) == 1 else 'them'}")
    if body["kind"] == "List":
        items = body.get("items") or []
        if not isinstance(items, list):
            raise UserError(f"{place}: the items of a List are not a list; write them as a list")
        for position, item in enumerate(items):
            yield from _read_objects(f"{place}, items[{position}]", item)
        return
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") in (None, ""):
        raise UserError(f"{place}: {body['kind']} has no metadata.name; add it")
    if not isinstance(metadata["name"], str):
        raise UserError(f"{place}: metadata.name {metadata['name']!r} is not a string; put it in quotes")
    if not isinstance(metadata.get("namespace") or "", str):
        raise UserError(f"{place}: metadata.namespace {metadata['namespace']!r} is not a string; put it in quotes")
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field) or {}, dict):
            raise UserError(f"{place}: metadata.{field} is not a mapping; write it as KEY: VALUE")
    yield ManifestDocument(place=place, body=body)


def _describe_yaml_error(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    message = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}: {message}" if mark is not None else message


class _JsonConverter:
    """A converter from one YAML document to JSON values."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._count = 0

    def value(self, value: Any, path: str, depth: int = 0) -> Any:
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_VALUES:
            raise UserError(f"{self._place}: is nested too deeply, or too large, for a manifest; correct it")
        match value:
            case dict():
                pairs = ((self._key(key, path), inner) for key, inner in value.items())
                return {key: self.value(inner, f"{path}.{key}" if path else key, depth + 1) for key, inner in pairs}
            case list():
                return [self.value(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
            case float() if not math.isfinite(value):
                raise self._not_json(path, f"the number {value}")
            case str() if not value.isascii():
                return self._text(value, path)
            case None | bool() | int() | float() | str():
                return value
            case _:
                raise self._not_json(path, f"a value of type {type(value).__name__}")

    def _key(self, key: Any, path: str) -> str:
        match key:
            case str():
                return key if key.isascii() else self._text(key, path)
            case bool():
                return "true" if key else "false"
            case int() | float():
                return str(key)
            case _:
                raise self._not_json(path, f"the key {key!r}")

    def _text(self, text: str, path: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self._not_json(path, "an incomplete character (a lone surrogate)") from None
        return text

    def _not_json(self, path: str, what: str) -> UserError:
        where = f"{path} is" if path else "there is"
        return UserError(f"{self._place}: {where} {what}, which JSON cannot represent; put it in quotes, or correct it")


class _Loader(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys. PyYAML would silently drop one of them."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Hashable, None] = {}
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, "a key is not a string", key_node.start_mark)
            if key in seen and key_node.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key!r}", key_node.start_mark)
            seen[key] = None
        return super().construct_mapping(node, deep)


Resolver = tuple[str, re.Pattern[str]]


def _build_resolvers() -> dict[str, list[Resolver]]:
    """Return the resolvers of YAML 1.1 without timestamps and base-60 numbers, so that `80:80` stays a string."""
    inherited = yaml.SafeLoader.yaml_implicit_resolvers
    return {
        letter: [_without_base_60(each) for each in found if not _is_time(each)] for letter, found in inherited.items()
    }


def _is_time(resolver: Resolver) -> bool:
    return resolver[0].endswith(":timestamp")


def _without_base_60(resolver: Resolver) -> Resolver:
    tag, pattern = resolver
    if not tag.endswith((":int", ":float")):
        return resolver
    return tag, re.compile(f"(?!.*:)(?:{pattern.pattern})", pattern.flags)


_Loader.yaml_implicit_resolvers = _build_resolvers()
