"""Decodes request bodies and query options, before the rules of a kind apply."""

import re
from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject, without_nulls
from grove.api.validation.field_errors import ErrorKind, FieldError, forbidden, invalid, not_supported
from grove.cluster.apiserver.codec.bool_params import is_on, parse_bool
from grove.cluster.apiserver.codec.duplicate_fields import find_duplicate_fields
from grove.cluster.apiserver.status_errors import (
    UnreadableError,
    bad_request,
    invalid_kind,
    invalid_options,
    unrecognized,
    unsupported_media_type,
)
from grove.cluster.built_in_resources import ResourceInfo
from grove.kube.transport import APPLY_PATCH, Request

_JSON = "application/json"
_PROTOBUF = "application/vnd.kubernetes.protobuf"

_NO_JSON = "couldn't get version/kind; json parse error"


def decode_object(kind: str, request: Request) -> JsonObject:
    """Decode the body as an object; null is an empty object. Raises 400."""
    try:
        obj = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unrecognized(kind, request.body, f"{_NO_JSON}: {error}") from None
    if obj is not None and not isinstance(obj, dict):
        raise unrecognized(kind, request.body, f"{_NO_JSON}: the body is not an object")
    return obj or {}


def decode_patch(request: Request) -> Any:
    try:
        return msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request("invalid JSON patch") from None


def read_object(resource_info: ResourceInfo, request: Request) -> JsonObject:
    """Decode an object of the path's kind. Built-in kinds may omit kind and apiVersion."""
    check_is_json(resource_info, request)
    obj = decode_object(resource_info.kind, request)
    if resource_info.is_custom:
        _check_custom_head(resource_info, obj, request.body)
    # Built-in kinds treat null as absent at any depth; the schema of a custom kind may allow null.
    if not resource_info.is_custom and b"null" in request.body:
        obj = without_nulls(obj)
    return as_kind(resource_info, obj)


def check_is_json(resource_info: ResourceInfo, request: Request) -> None:
    """Raise 415 unless the body is JSON."""
    if request.content_type.partition(";")[0] != _JSON:
        raise unsupported_media_type((_JSON,) if resource_info.is_custom else (_JSON, _PROTOBUF))


def _check_custom_head(resource_info: ResourceInfo, obj: JsonObject, body: bytes) -> None:
    """Raise 400 unless a custom object has the right kind and apiVersion."""
    if not obj.get("kind"):
        error_message = f"Object 'Kind' is missing in '{body.decode('utf-8', 'replace')}'"
        raise unrecognized(resource_info.kind, body, error_message)
    api_version = obj.get("apiVersion") or ""
    if api_version != resource_info.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource_info.api_version})"
        )


def as_kind(resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """Return the object with `kind` and `apiVersion` first. Raises 400 or 422 if they differ from the path."""
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if kind == resource_info.kind and api_version == resource_info.api_version and _is_normalized(obj):
        return obj
    if resource_info.is_custom:
        _check_same_custom_kind(resource_info, obj)
    else:
        _check_same_kind(resource_info, kind or resource_info.kind, api_version or resource_info.api_version)
    return {"kind": resource_info.kind, "apiVersion": resource_info.api_version, **_without_head(obj)}


def _check_same_kind(resource_info: ResourceInfo, kind: Any, api_version: Any) -> None:
    if not isinstance(kind, str) or not isinstance(api_version, str):
        raise UnreadableError(
            resource_info.kind, resource_info.version, resource_info.kind, "json: kind and apiVersion must be strings"
        )
    version = api_version.rpartition("/")[2]
    if api_version != resource_info.api_version:
        error_message = f'no kind "{kind}" is registered for version "{api_version}"'
        raise UnreadableError(kind, version, resource_info.kind, error_message)
    if kind != resource_info.kind:
        raise UnreadableError(kind, version, resource_info.kind, "these are different kinds")


def _check_same_custom_kind(resource_info: ResourceInfo, obj: JsonObject) -> None:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    shown = name if isinstance(name, str) else ""
    for field, wanted in (("apiVersion", resource_info.api_version), ("kind", resource_info.kind)):
        if (given := obj.get(field)) != wanted:
            kind = given if field == "kind" and isinstance(given, str) else resource_info.kind
            raise invalid_kind(kind, resource_info.group, shown, [invalid(field, given, f"must be {wanted}")])


def _is_normalized(obj: JsonObject) -> bool:
    return [*islice(obj, 2)] == ["kind", "apiVersion"] and None not in obj.values()


def _without_head(obj: JsonObject) -> JsonObject:
    return {key: value for key, value in obj.items() if key != "kind" and key != "apiVersion" and value is not None}


class FieldValidation(StrEnum):
    """The handling of unknown and duplicate fields."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a write."""

    is_dry: bool = False
    validation: FieldValidation = FieldValidation.WARN
    # The client sent `fieldValidation`: only then built-in kinds and duplicate keys are checked, which is slow.
    is_explicit: bool = False
    # Paths of duplicate keys in the body.
    duplicates: tuple[str, ...] = ()
    # The field manager, if the client sent one.
    manager: str = ""


_DEFAULTS = WriteOptions()
_MAX_MANAGER_BYTES = 128
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}


def read_write_options(request: Request) -> WriteOptions:
    if not request.query:
        return _DEFAULTS
    manager = request.query.get("fieldManager", "")
    if manager or "force" in request.query:
        _check_manager(request, manager)
    value = request.query.get("fieldValidation", "")
    if not value:
        return WriteOptions(is_dry=is_dry_run(request), manager=manager)
    try:
        validation = FieldValidation(value)
    except ValueError:
        error = not_supported("fieldValidation", value, ("", "Ignore", "Strict", "Warn"))
        raise invalid_options(_OPTIONS[request.method], error) from None
    duplicates = () if validation is FieldValidation.IGNORE else find_duplicate_fields(request.body)
    return WriteOptions(
        is_dry=is_dry_run(request), validation=validation, is_explicit=True, duplicates=duplicates, manager=manager
    )


def _check_manager(request: Request, manager: str) -> None:
    """Raise 422 for an invalid field manager, and for `force` without apply."""
    errors = []
    if request.method == "PATCH" and "force" in request.query and not is_apply(request):
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    if len(manager.encode()) > _MAX_MANAGER_BYTES:
        detail = f"may not be more than {_MAX_MANAGER_BYTES} bytes"
        errors.append(FieldError(path="fieldManager", kind=ErrorKind.TOO_LONG, detail=detail))
    for position, letter in enumerate(manager):
        if not letter.isprintable():
            error_message = f"invalid character U+{ord(letter):04X} (at position {position})"
            errors.append(invalid("fieldManager", manager, error_message))
            break
    if errors:
        raise invalid_options(_OPTIONS[request.method], *errors)


def is_apply(request: Request) -> bool:
    return request.content_type.partition(";")[0] == APPLY_PATCH


def is_forced(request: Request) -> bool:
    return is_on(request.query, "force")


def is_dry_run(request: Request) -> bool:
    """Return whether the request is a dry run, which does everything but store. Raises 422."""
    if not request.query:
        return False
    value = request.query.get("dryRun")
    if value not in (None, "All"):
        raise invalid_options(_OPTIONS[request.method], not_supported("dryRun", [value], ("All",)))
    return value is not None


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None
    # For objects that cannot be decoded, which this server never has.
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None

    @property
    def is_unsafe(self) -> bool:
        return bool(self.ignore_store_read_error_with_cluster_breaking_potential)


UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"
_delete_options = msgspec.json.Decoder(DeleteOptions)
_INTEGER = re.compile(r"([-+]?)0*([0-9]+)", re.ASCII)
_MAX_DIGITS = 19
_POLICIES = ("Foreground", "Background", "Orphan")


def read_delete_options(request: Request) -> DeleteOptions:
    """Read delete options from the body, or from the query if there is no body."""
    options = _options_in_body(request) if request.body else _options_in_query(request)
    check_delete_options(options)
    return options


def check_delete_options(options: DeleteOptions) -> None:
    """Raise 422 for invalid delete options."""
    policy = options.propagation_policy
    if any(value != "All" for value in options.dry_run or ()):
        raise invalid_options("DeleteOptions", not_supported("dryRun", options.dry_run, ("All",)))
    if policy not in (None, *_POLICIES):
        raise invalid_options("DeleteOptions", not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    if policy is not None and options.orphan_dependents is not None:
        error_message = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options("DeleteOptions", invalid("propagationPolicy", policy, error_message))
    if options.is_unsafe:
        _check_unsafe_options(options)


def _check_unsafe_options(options: DeleteOptions) -> None:
    others = {
        "propagationPolicy": options.propagation_policy,
        "orphanDependents": options.orphan_dependents,
        "gracePeriodSeconds": options.grace_period_seconds,
        "preconditions": options.preconditions,
    }
    errors = [
        invalid(UNSAFE, True, f"cannot be set together with .{name}")
        for name, value in others.items()
        if value is not None
    ]
    if errors:
        raise invalid_options("DeleteOptions", *errors)


def _options_in_body(request: Request) -> DeleteOptions:
    try:
        options = _delete_options.decode(request.body)
    except msgspec.ValidationError as error:
        raise bad_request(f"json: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"{_NO_JSON}: {error}") from None
    if options.kind not in (None, "", "DeleteOptions"):
        raise bad_request(f'no kind "{options.kind}" is registered for version "{options.api_version}"')
    return options


def _options_in_query(request: Request) -> DeleteOptions:
    grace = request.query.get("gracePeriodSeconds")
    return DeleteOptions(
        grace_period_seconds=None if grace is None else parse_int64(grace),
        propagation_policy=request.query.get("propagationPolicy"),
        orphan_dependents=parse_bool(request.query, "orphanDependents"),
        dry_run=["All"] if is_dry_run(request) else None,
        ignore_store_read_error_with_cluster_breaking_potential=parse_bool(request.query, UNSAFE),
    )


def parse_int64(text: str) -> int:
    """Parse a signed 64-bit integer. Raises 400."""
    match = _INTEGER.fullmatch(text)
    if match and len(match[2]) <= _MAX_DIGITS and -(2**63) <= (number := int(match[1] + match[2])) < 2**63:
        return number
    error_message = "value out of range" if match else "invalid syntax"
    raise bad_request(f"strconv.ParseInt: parsing {msgspec.json.encode(text).decode()}: {error_message}")
