"""Field validation: prunes unknown fields and reports them as the client's `fieldValidation` requests.

Custom resources are validated against their schemas (`cluster/custom_resource.py`), built-in kinds against tables of
fields (`cluster/apiserver/built_in_fields.py`). Built-in kinds are only checked for clients that set
`fieldValidation`, as kubectl does.
"""

from collections.abc import Callable

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError
from grove.api.validation.field_errors import invalid as invalid_field
from grove.cluster.apiserver.built_in_fields import prune_unknown_fields
from grove.cluster.apiserver.codec.lenient_json import at
from grove.cluster.apiserver.codec.request_decoding import FieldValidation, WriteOptions
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.metadata import MetaShape
from grove.cluster.apiserver.status_errors import StatusError, bad_request, invalid_kind
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.custom_resource import CustomVersion

# Builds the error of a verb for an object with unknown or duplicate fields.
ErrorBuilder = Callable[[ResourceInfo, JsonObject, str], StatusError]

_METADATA_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(MetaShape))


def prune_and_default(
    context: Context,
    resource_info: ResourceInfo,
    obj: JsonObject,
    old: JsonObject | None = None,
    *,
    options: WriteOptions,
    build_error: ErrorBuilder,
) -> JsonObject:
    """Return the object without unknown fields and with defaults. Reject it for strict clients, warn others."""
    unknown = _find_unknown_metadata(obj, old)
    result = obj
    if resource_info.custom is not None:
        shaped = resource_info.custom.prune_and_default(obj, old)
        result = shaped.obj
        unknown += shaped.unknown
    elif options.is_explicit:
        result, others = prune_unknown_fields(resource_info, obj)
        unknown += tuple(others)
    # Unknown fields are listed in body order. For custom resources and results of patches they are sorted by name.
    shown = sorted(unknown) if resource_info.is_custom or old is not None else unknown
    error_messages = [f'unknown field "{path}"' for path in shown]
    error_messages += [f'duplicate field "{path}"' for path in options.duplicates]
    if error_messages and options.validation is not FieldValidation.IGNORE:
        if options.validation is FieldValidation.STRICT:
            raise build_error(resource_info, obj, "strict decoding error: " + ", ".join(error_messages))
        context.warnings += error_messages
    return result


def validate_schema(
    context: Context, resource_info: ResourceInfo, obj: JsonObject, old: JsonObject | None = None
) -> list[FieldError]:
    """Return the errors of a custom resource's schema and rules. Errors that `old` has too are ignored."""
    if resource_info.custom is None:
        return []
    found = resource_info.custom.validate(obj, old)
    if found.warnings:
        context.warnings += found.warnings
    scale = resource_info.custom.scale
    if scale is None or (old is not None and obj.get(scale.spec[0]) is old.get(scale.spec[0])):
        return list(found.errors)
    return [*found.errors, *_validate_scale(resource_info.custom, obj, old)]


def _validate_scale(custom: CustomVersion, obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Return an error for negative replicas. The schema may allow them, the scale subresource does not."""
    if custom.scale is None:
        return []
    replicas = at(obj, custom.scale.spec)
    if not isinstance(replicas, int) or replicas >= 0 or (old is not None and at(old, custom.scale.spec) == replicas):
        return []
    return [invalid_field(f".{'.'.join(custom.scale.spec)}", replicas, "should be a non-negative integer")]


def _find_unknown_metadata(obj: JsonObject, old: JsonObject | None) -> tuple[str, ...]:
    metadata = obj.get("metadata") or {}
    if old is not None and metadata is old["metadata"]:
        return ()
    return tuple(f"metadata.{field}" for field in metadata if field not in _METADATA_FIELDS)


def build_body_error(resource_info: ResourceInfo, obj: JsonObject, error_message: str) -> StatusError:
    return bad_request(
        f'{resource_info.kind} in version "{resource_info.version}" cannot be handled as a {resource_info.kind}: '
        f"{error_message}"
    )


def build_patch_error(resource_info: ResourceInfo, obj: JsonObject, error_message: str) -> StatusError:
    shown = msgspec.json.encode(obj).decode()
    return invalid_kind("", "", "", [invalid_field("patch", shown, error_message)])
