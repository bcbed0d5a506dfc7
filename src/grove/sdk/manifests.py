"""Convert sets from and to dictionaries and YAML, and check them as the operator does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from grove.api.defaulting import default_podcliqueset
from grove.api.resources import PODCLIQUESETS
from grove.api.schema.crd_generator import own_schema
from grove.api.types.meta import JsonObject, without_nulls
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.validation.field_errors import ErrorKind, FieldError, required
from grove.api.validation.podcliqueset import validate_podcliqueset
from grove.api.validation.schema import decode_object
from grove.api.validation.validation_options import ValidationOptions
from grove.api.values.yaml_text import expanded_yaml
from grove.errors import UserError
from grove.operations.apply.apply_merge import LAST_APPLIED
from grove.operations.apply.manifest_reader import parse_documents
from grove.operations.apply.rejection_hints import suggest_field
from grove.sdk.errors import InvalidSet

# The metadata that users write; the API server writes the rest.
_OWN_METADATA = ("name", "namespace", "labels", "annotations")


def to_dict(pcs: PodCliqueSet) -> dict[str, Any]:
    """Return a set as the JSON of a manifest: without its status, and without what the API server writes.

    Example:
        to_dict(chat)["metadata"]["name"]
    """
    metadata = {key: value for key, value in _to_json(pcs.metadata).items() if key in _OWN_METADATA}
    annotations = {key: text for key, text in metadata.pop("annotations", {}).items() if key != LAST_APPLIED}
    if annotations:
        metadata["annotations"] = annotations
    header = {"apiVersion": PODCLIQUESETS.api_version, "kind": PODCLIQUESETS.kind}
    return {**header, "metadata": metadata, "spec": _to_json(pcs.spec)}


def to_yaml(pcs: PodCliqueSet) -> str:
    """Return a set as YAML, for `grove apply`, `kubectl apply` or a repository.

    Example:
        Path("chat.yaml").write_text(to_yaml(chat))
    """
    return expanded_yaml(to_dict(pcs))


def from_dict(manifest: dict[str, Any]) -> PodCliqueSet:
    """Return the set of a manifest. Raises `InvalidSet` with the path of every wrong or unknown field.

    Example:
        from_dict(to_dict(chat)) == chat
    """
    body: JsonObject = without_nulls(manifest)
    check_manifest(body)
    return msgspec.convert(_with_clique_replicas(body), PodCliqueSet)


def from_yaml(source: str | Path) -> PodCliqueSet:
    """Return the set of a YAML text or file. Raises `InvalidSet` with the path of every wrong or unknown field.

    A `Path` is read as a file, a string is the YAML itself.

    Example:
        from_yaml(Path("examples/quickstart.yaml"))
    """
    place = str(source) if isinstance(source, Path) else "the YAML"
    try:
        text = source.read_text() if isinstance(source, Path) else source
        documents = parse_documents(place, text)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSet(f"{place}: cannot be read ({error}); check the path") from error
    except UserError as error:
        raise InvalidSet(str(error)) from error
    sets = [one for one in documents if (one.api_version, one.kind) == (PODCLIQUESETS.api_version, PODCLIQUESETS.kind)]
    if len(sets) != 1:
        raise InvalidSet(f"{place}: has {len(sets)} PodCliqueSets; exactly one is expected")
    return from_dict(sets[0].body)


def check_manifest(body: JsonObject) -> None:
    """Raise `InvalidSet` with all errors of a manifest."""
    name = _name_of(body)
    errors = [
        *_header_errors(body),
        *_unknown_fields(body.get("spec"), own_schema(PODCLIQUESETS)["properties"]["spec"]),
    ]
    decoded = decode_object(PODCLIQUESETS, default_podcliqueset(body))
    errors += decoded.errors
    if decoded.object is not None and not errors:
        errors += validate_podcliqueset(decoded.object, ValidationOptions())
    if errors:
        texts = [str(error) for error in errors]
        what = f"{name} is not valid: " if len(texts) == 1 else f"{name} has {len(texts)} errors:\n  "
        raise InvalidSet(what + "\n  ".join(texts), tuple(error.path for error in errors))


def _name_of(body: JsonObject) -> str:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"pcs/{name}" if isinstance(name, str) and name else "the set"


def _header_errors(body: JsonObject) -> Iterator[FieldError]:
    for key, expected in (("apiVersion", PODCLIQUESETS.api_version), ("kind", PODCLIQUESETS.kind)):
        if body.get(key) != expected:
            yield required(key, f"must be {expected}")


def _unknown_fields(value: Any, schema: JsonObject, path: str = "spec") -> Iterator[FieldError]:
    """Yield fields that the schema does not have: a typed set would lose them."""
    properties = schema.get("properties")
    if isinstance(value, dict) and properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
        for name, inner in value.items():
            if name in properties:
                yield from _unknown_fields(inner, properties[name], f"{path}.{name}")
            else:
                yield _unknown_field(f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_fields(item, schema.get("items", {}), f"{path}[{index}]")


def _unknown_field(path: str) -> FieldError:
    meant = suggest_field(path)
    return FieldError(
        path=path, kind=ErrorKind.FORBIDDEN, detail=f"unknown field{f' (did you mean {meant}?)' if meant else ''}"
    )


def _with_clique_replicas(body: JsonObject) -> JsonObject:
    """Return the manifest with `replicas` in every clique: without them a clique has one pod, a typed one none."""
    template = body["spec"].get("template", {})
    cliques = [{**one, "spec": {"replicas": 1, **one.get("spec", {})}} for one in template.get("cliques", ())]
    return {**body, "spec": {**body["spec"], "template": {**template, "cliques": cliques}}}


def _to_json(value: Any) -> Any:
    """Return the JSON of a struct without empty fields and without texts that are the default.

    Numbers stay: zero replicas are not the default. JSON of the user, such as a podSpec, stays as it is.
    """
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: _to_json(found)
            for field in msgspec.structs.fields(value)
            if not _is_default(found := getattr(value, field.name), field.default)
        }
    if isinstance(value, tuple | list):
        return [_to_json(item) for item in value]
    return msgspec.to_builtins(value)


def _is_default(value: object, default: object) -> bool:
    return value is None or value in ("", (), []) or value == {} or (isinstance(value, str) and value == default)
