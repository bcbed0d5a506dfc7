"""Field validation: prunes unknown fields and reports them as the client's `fieldValidation` asks.

Custom resources are validated against their schemas (`cluster/custom_resource.py`), built-in kinds against tables of
fields (`cluster/apiserver/built_in_fields.py`). Built-in kinds are only checked for clients that set
`fieldValidation`, as kubectl does.
"""

from collections.abc import Callable

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError
from grove.api.validation.field_errors import invalid as invalid_field
from grove.cluster.apiserver.built_in_fields import without_unknown
from grove.cluster.apiserver.codec.lenient_json import at
from grove.cluster.apiserver.codec.request_decoding import FieldValidation, WriteOptions
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.metadata import MetaShape
from grove.cluster.apiserver.status_errors import StatusError, bad_request, invalid_kind
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.custom_resource import CustomVersion

# Builds the error of a verb for an object with unknown or duplicate fields.
Refusal = Callable[[ResourceInfo, JsonObject, str], StatusError]

_METADATA_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(MetaShape))


def without_unknown_fields(
    context: Context,
    resource_info: ResourceInfo,
    obj: JsonObject,
    old: JsonObject | None = None,
    *,
    options: WriteOptions,
    refusal: Refusal,
) -> JsonObject:
    """Return the object without unknown fields and with defaults. Reject it for strict clients, warn others."""
    unknown = _unknown_metadata(obj, old)
    result = obj
    if resource_info.custom is not None:
        shaped = resource_info.custom.shaped(obj, old)
        result = shaped.obj
        unknown += shaped.unknown
    elif options.is_particular:
        result, others = without_unknown(resource_info, obj)
        unknown += tuple(others)
    # Unknown fields are listed in body order. For custom resources and results of patches they are sorted by name.
    shown = sorted(unknown) if resource_info.is_custom or old is not None else unknown
    problems = [f'unknown field "{path}"' for path in shown]
    problems += [f'duplicate field "{path}"' for path in options.doubled]
    if problems and options.validation is not FieldValidation.IGNORE:
        if options.validation is FieldValidation.STRICT:
            raise refusal(resource_info, obj, "strict decoding error: " + ", ".join(problems))
        context.warnings += problems
    return result


def schema_errors(
    context: Context, resource_info: ResourceInfo, obj: JsonObject, old: JsonObject | None = None
) -> list[FieldError]:
    """Return the errors of a custom resource's schema and rules. Errors that `old` has too are ignored."""
    if resource_info.custom is None:
        return []
    found = resource_info.custom.judged(obj, old)
    if found.warnings:
        context.warnings += found.warnings
    scale = resource_info.custom.scale
    if scale is None or (old is not None and obj.get(scale.spec[0]) is old.get(scale.spec[0])):
        return list(found.errors)
    return [*found.errors, *_scale_errors(resource_info.custom, obj, old)]


def _scale_errors(custom: CustomVersion, obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Return an error for negative replicas. The schema may allow them, the scale subresource does not."""
    if custom.scale is None:
        return []
    replicas = at(obj, custom.scale.spec)
    if not isinstance(replicas, int) or replicas >= 0 or (old is not None and at(old, custom.scale.spec) == replicas):
        return []
    return [invalid_field(f".{'.'.join(custom.scale.spec)}", replicas, "should be a non-negative integer")]


def _unknown_metadata(obj: JsonObject, old: JsonObject | None) -> tuple[str, ...]:
    metadata = obj.get("metadata") or {}
    if old is not None and metadata is old["metadata"]:
        return ()
    return tuple(f"metadata.{field}" for field in metadata if field not in _METADATA_FIELDS)


def refused_body(resource_info: ResourceInfo, obj: JsonObject, problem: str) -> StatusError:
    return bad_request(
        f'{resource_info.kind} in version "{resource_info.version}" cannot be handled as a {resource_info.kind}: '
        f"{problem}"
    )


def refused_patch(resource_info: ResourceInfo, obj: JsonObject, problem: str) -> StatusError:
    shown = msgspec.json.encode(obj).decode()
    return invalid_kind("", "", "", [invalid_field("patch", shown, problem)])
