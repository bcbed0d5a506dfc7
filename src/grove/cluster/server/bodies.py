"""Reading request bodies and the options that come in a query, before any rule of a kind is asked."""

from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec

from grove.api.fielderrors import not_supported
from grove.api.meta import JsonObject, without_nulls
from grove.cluster.resources import Served
from grove.cluster.server.status_errors import bad_request, invalid_kind, unsupported_media_type
from grove.kube.transport import Request

_JSON = "application/json"


def decode_json(request: Request) -> Any:
    try:
        return msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise bad_request(f"couldn't get version/kind; json parse error: {problem}") from None


def read_object(served: Served, request: Request) -> JsonObject:
    """The object in the body, of the kind the path says. Built-in kinds may leave out what the path says anyway."""
    if request.content_type.partition(";")[0] != _JSON:
        raise unsupported_media_type((_JSON,))
    obj = decode_json(request)
    if not isinstance(obj, dict):
        raise bad_request("couldn't get version/kind; json parse error: the body is not an object")
    # To a built-in kind null is absent, at any depth; custom kinds have schemas that may say otherwise.
    if not served.is_custom and b"null" in request.body:
        obj = without_nulls(obj)
    return as_kind(served, obj)


def as_kind(served: Served, obj: JsonObject) -> JsonObject:
    """The same object, `kind` and `apiVersion` first; raises 400 if they are others than the path says."""
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if kind == served.kind and api_version == served.api_version and _is_tidy(obj):
        return obj
    if served.is_custom and not kind:
        raise bad_request("Object 'Kind' is missing in the request body")
    if api_version and api_version != served.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({served.api_version})"
        )
    if kind and kind != served.kind:
        raise bad_request(f'{kind} in version "{served.version}" cannot be handled as a {served.kind}')
    return {"kind": served.kind, "apiVersion": served.api_version, **_rest(obj)}


def _is_tidy(obj: JsonObject) -> bool:
    return [*islice(obj, 2)] == ["kind", "apiVersion"] and None not in obj.values()


def _rest(obj: JsonObject) -> JsonObject:
    return {key: value for key, value in obj.items() if key != "kind" and key != "apiVersion" and value is not None}


class FieldValidation(StrEnum):
    """What to do about fields that the kind does not have."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a write is to be carried out."""

    is_dry: bool = False
    validation: FieldValidation = FieldValidation.WARN


_PLAIN = WriteOptions()


def read_write_options(request: Request) -> WriteOptions:
    if not request.query:
        return _PLAIN
    wish = request.query.get("fieldValidation", "") or FieldValidation.WARN
    try:
        validation = FieldValidation(wish)
    except ValueError:
        supported = tuple(FieldValidation)
        error = not_supported("fieldValidation", wish, supported)
        raise invalid_kind("CreateOptions", "meta.k8s.io", "", [error]) from None
    return WriteOptions(is_dry=is_dry_run(request), validation=validation)


def is_dry_run(request: Request) -> bool:
    """All of a dry run but the storing happens."""
    if not request.query:
        return False
    wish = request.query.get("dryRun", "")
    if wish not in ("", "All"):
        raise invalid_kind("DryRun", "", "", [not_supported("dryRun", [wish], ("All",))])
    return wish == "All"


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


_delete_options = msgspec.json.Decoder(DeleteOptions)
_POLICIES = ("Foreground", "Background", "Orphan")


def read_delete_options(request: Request) -> DeleteOptions:
    """From the body, or, as a shorthand, from the query."""
    try:
        options = _delete_options.decode(request.body) if request.body else _options_in_query(request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise bad_request(f"DeleteOptions cannot be read: {problem}") from None
    if options.propagation_policy not in (None, *_POLICIES):
        raise invalid_kind(
            "DeleteOptions", "", "", [not_supported("propagationPolicy", options.propagation_policy, _POLICIES)]
        )
    if options.dry_run or is_dry_run(request):
        return msgspec.structs.replace(options, dry_run=["All"])
    return options


def _options_in_query(request: Request) -> DeleteOptions:
    grace = request.query.get("gracePeriodSeconds")
    orphan = request.query.get("orphanDependents")
    return msgspec.convert(
        {
            "gracePeriodSeconds": None if grace is None else int(grace) if grace.lstrip("-").isdigit() else grace,
            "propagationPolicy": request.query.get("propagationPolicy"),
            "orphanDependents": None if orphan is None else orphan == "true",
        },
        DeleteOptions,
    )
