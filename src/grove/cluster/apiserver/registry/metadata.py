"""Rules of `metadata` that all kinds share: defaults of new objects, validation, and updates.

Rules of single kinds are in `strategies.py`, deletion is in `cluster/apiserver/verbs/delete.py`.
"""

import re
from datetime import datetime
from functools import lru_cache
from random import Random
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import ErrorKind, FieldError, forbidden, invalid, required, type_invalid
from grove.cluster.apiserver.status_errors import UnreadableError, immutable
from grove.cluster.apiserver.status_errors import invalid as invalid_object
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.schemas.keywords import type_name

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_QUALIFIED_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_DNS_LABEL}')"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_DNS_SUBDOMAIN}')"
)
_QUALIFIED_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_KEY_MESSAGE = (
    _QUALIFIED_MESSAGE.replace("name part", "a valid label key", 1)
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_IS_DNS_LABEL = re.compile(_DNS_LABEL)
_IS_DNS_SUBDOMAIN = re.compile(_DNS_SUBDOMAIN)
_IS_QUALIFIED_PART = re.compile(_QUALIFIED_PART)
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid")
_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_ANNOTATIONS_LIMIT = 256 * 1024
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_BASE = 58


class _OwnerShape(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class MetaShape(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of `metadata`, with their types."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_OwnerShape] | None = None
    finalizers: list[str] | None = None
    self_link: str | None = None
    managed_fields: Any = None


_CLIENT_FIELDS = ("generateName", "labels", "annotations", "ownerReferences", "finalizers")


def read_shape(resource_info: ResourceInfo, obj: JsonObject) -> MetaShape:
    """Decode the metadata. Raises 400 for wrong types, 422 if the spec or status of a custom resource is no object."""
    check_parts(resource_info, obj)
    metadata = obj.get("metadata")
    try:
        return msgspec.convert({} if metadata is None else metadata, MetaShape)
    except msgspec.ValidationError as error:
        where = str(error).replace("`$.", "`$.metadata.").replace("`$`", "`$.metadata`")
        raise build_unreadable_error(resource_info, f"json: {where}") from None


def check_parts(resource_info: ResourceInfo, obj: JsonObject) -> None:
    """Raise 400 or 422 unless spec and status are objects or absent."""
    for part in ("spec", "status"):
        value = obj.get(part, {})
        if isinstance(value, dict) or not _must_be_object(resource_info, part):
            continue
        if not resource_info.is_custom:
            raise build_unreadable_error(resource_info, f"json: Expected `object` - at `$.{part}`")
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        given = type_name(value)
        error = type_invalid(part, given, f'{part} in body must be of type object: "{given}"')
        raise invalid_object(resource_info, str(name or ""), [error])


def _must_be_object(resource_info: ResourceInfo, part: str) -> bool:
    """Return whether this part must be an object. The schema of a custom resource decides."""
    if resource_info.custom is None:
        return True
    schema: JsonObject = resource_info.custom.schema.get("properties", {}).get(part, {})
    return schema.get("type") == "object"


def build_unreadable_error(resource_info: ResourceInfo, why: str) -> UnreadableError:
    return UnreadableError(resource_info.kind, resource_info.version, resource_info.kind, why)


def build_metadata(
    resource_info: ResourceInfo, namespace: str, shape: MetaShape, given: JsonObject, random: Random
) -> JsonObject:
    """Return the metadata of a new object without its creation time. Generate a name if only `generateName` is set."""
    name = shape.name or ""
    if not name and shape.generate_name:
        name = shape.generate_name[:_MAX_GENERATED_BASE] + "".join(random.choices(_SUFFIX_ALPHABET, k=5))
    metadata: JsonObject = {"name": name}
    if shape.generate_name:
        metadata["generateName"] = shape.generate_name
    if resource_info.namespaced:
        metadata["namespace"] = namespace
    metadata["uid"] = generate_uid(random)
    metadata["resourceVersion"] = ""
    if resource_info.has_generation:
        metadata["generation"] = 1
    metadata["creationTimestamp"] = None
    for field in _CLIENT_FIELDS:
        if value := given.get(field):
            metadata[field] = value
    return metadata


def generate_uid(random: Random) -> str:
    bits = f"{random.getrandbits(128):032x}"
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"


def format_time(instant: datetime) -> str:
    """Format a time in whole seconds, as Kubernetes does."""
    return f"{instant.isoformat(timespec='seconds')[:19]}Z"


def validate_metadata(resource_info: ResourceInfo, metadata: JsonObject) -> list[FieldError]:
    """Return all errors of the metadata that a client sent."""
    errors = _validate_name(resource_info, metadata)
    if labels := metadata.get("labels"):
        errors += _validate_labels(labels)
    if annotations := metadata.get("annotations"):
        errors += _validate_annotations(annotations)
    if owners := metadata.get("ownerReferences"):
        errors += _validate_owners(owners)
    finalizers = metadata.get("finalizers") or ()
    for index, finalizer in enumerate(finalizers):
        if error_message := find_label_key_error(finalizer):
            errors.append(invalid("metadata.finalizers", finalizer, error_message))
        elif "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            error_message = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(f"metadata.finalizers[{index}]", finalizer, error_message))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        error_message = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid("metadata.finalizers", finalizers, error_message))
    return errors


def update_metadata(old: JsonObject, new: JsonObject) -> tuple[JsonObject, list[FieldError]]:
    """Return the new metadata with the server's fields unchanged, and the errors of the update."""
    errors = []
    if "deletionTimestamp" not in old:
        fields = ("deletionTimestamp", "deletionGracePeriodSeconds")
        errors = [immutable(f"metadata.{field}", new[field]) for field in fields if new.get(field) is not None]
    metadata = {key: value for key, value in old.items() if key not in _CLIENT_FIELDS}
    for field in _CLIENT_FIELDS:
        if value := new.get(field):
            metadata[field] = value
    if "deletionTimestamp" in old:
        errors += _validate_added_finalizers(old, metadata)
    return metadata, errors


def _validate_added_finalizers(old: JsonObject, new: JsonObject) -> list[FieldError]:
    before = old.get("finalizers", ())
    added = [finalizer for finalizer in new.get("finalizers", ()) if finalizer not in before]
    if not added:
        return []
    shown = ", ".join(f'"{finalizer}"' for finalizer in added)
    return [
        forbidden(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{"
            + shown
            + "}",
        )
    ]


def _validate_name(resource_info: ResourceInfo, metadata: JsonObject) -> list[FieldError]:
    name = metadata["name"]
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    errors = []
    if beginning := metadata.get("generateName"):
        # The generated suffix is valid, also behind a dash.
        complete = f"{beginning[:-1]}a" if beginning.endswith("-") else beginning
        if error_message := find_name_error(resource_info.qualified, complete):
            errors.append(invalid("metadata.generateName", beginning, error_message))
    if error_message := find_name_error(resource_info.qualified, name):
        errors.append(invalid("metadata.name", name, error_message))
    return errors


def find_name_error(qualified: str, name: str) -> str:
    """Return why the name is invalid for this kind, or an empty string."""
    match qualified:
        case "namespaces" | "services":
            return "must not contain dots" if "." in name else find_dns_label_error(name)
        case _ if qualified.endswith(".rbac.authorization.k8s.io") or qualified == "poddisruptionbudgets.policy":
            return find_path_segment_error(name)
        case _:
            return find_dns_subdomain_error(name)


def find_path_segment_error(name: str) -> str:
    """Return why the name cannot be a path segment, or an empty string. Names of roles have no other rules."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return next((f"may not contain '{letter}'" for letter in "/%" if letter in name), "")


@lru_cache(maxsize=16384)
def find_dns_subdomain_error(text: str) -> str:
    return _find_pattern_error(text, _IS_DNS_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE)


@lru_cache(maxsize=16384)
def find_dns_label_error(text: str) -> str:
    return _find_pattern_error(text, _IS_DNS_LABEL, 63, _LABEL_MESSAGE)


def _find_pattern_error(text: str, pattern: re.Pattern[str], longest: int, message: str) -> str:
    if len(text) > longest:
        return f"must be no more than {longest} characters"
    return "" if pattern.fullmatch(text) else message


@lru_cache(maxsize=16384)
def find_label_key_error(key: str) -> str:
    """Return why a qualified name (label key, finalizer, gate) is invalid, or an empty string."""
    prefix, slash, name = key.partition("/")
    if not slash:
        prefix, name = "", key
    if "/" in name:
        return _KEY_MESSAGE
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (error_message := find_dns_subdomain_error(prefix)):
        return f"prefix part {error_message}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _IS_QUALIFIED_PART.fullmatch(name) else _QUALIFIED_MESSAGE


@lru_cache(maxsize=16384)
def find_label_value_error(value: str) -> str:
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return "" if not value or _IS_QUALIFIED_PART.fullmatch(value) else _VALUE_MESSAGE


def _validate_labels(labels: dict[str, str]) -> list[FieldError]:
    errors = []
    for key, value in labels.items():
        if error_message := find_label_key_error(key):
            errors.append(invalid("metadata.labels", key, error_message))
        if error_message := find_label_value_error(value):
            errors.append(invalid("metadata.labels", value, error_message))
    return errors


def _validate_annotations(annotations: dict[str, str]) -> list[FieldError]:
    errors = []
    size = 0
    for key, value in annotations.items():
        if error_message := find_label_key_error(key.lower()):
            errors.append(invalid("metadata.annotations", key, error_message))
        size += len(key) + len(value)
    if size > _ANNOTATIONS_LIMIT:
        detail = f"may not be more than {_ANNOTATIONS_LIMIT} bytes"
        errors.append(FieldError(path="metadata.annotations", kind=ErrorKind.TOO_LONG, detail=detail))
    return errors


def _validate_owners(owners: list[JsonObject]) -> list[FieldError]:
    errors = []
    controllers = []
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]"
        errors += [required(f"{path}.{field}", "must not be empty") for field in _OWNER_FIELDS if not owner.get(field)]
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            errors.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        error_message = (
            "Only one reference can have Controller set to true. Found "
            f'"true" in references for {controllers[0]} and {controllers[1]}'
        )
        errors.append(invalid("metadata.ownerReferences", owners, error_message))
    return errors
