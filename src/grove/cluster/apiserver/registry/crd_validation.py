"""Validation of CustomResourceDefinitions, with the error texts of a real API server. Schemas: `schemas/structural.py`.

A real API server hoists fields that are equal in all versions to the spec of the CRD, and its error paths show that.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import (
    FieldError,
    Verbatim,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from grove.cluster.apiserver.registry.metadata import build_unreadable_error
from grove.cluster.apiserver.status_errors import immutable, unsupported_field
from grove.cluster.built_in_resources import DEFINITIONS
from grove.cluster.resource_registry import is_established
from grove.cluster.schemas.formats import is_known_format
from grove.cluster.schemas.structural import SchemaShape, validate_structural_schema

_LABEL = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_MIXED_CASE = f"may have mixed case, but should otherwise match: {_LABEL_MESSAGE}"
_APPROVAL = "api-approved.kubernetes.io"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_STEP = re.compile(r"\.([A-Za-z_][\w-]*|[\w-]+)|\[([^\]]*)\]")


class _Names(msgspec.Struct, frozen=True, rename="camel"):
    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _Column(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    type: str = ""
    format: str = ""
    json_path: str = ""
    description: str = ""
    priority: int = 0


class _Scale(msgspec.Struct, frozen=True, rename="camel"):
    spec_replicas_path: str = ""
    status_replicas_path: str = ""
    label_selector_path: str | None = None


class _Subresources(msgspec.Struct, frozen=True):
    status: dict[str, Any] | None = None
    scale: _Scale | None = None


class _Selectable(msgspec.Struct, frozen=True, rename="camel"):
    json_path: str = ""


class _Schema(msgspec.Struct, frozen=True):
    schema: SchemaShape | None = msgspec.field(default=None, name="openAPIV3Schema")


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    served: bool = False
    storage: bool = False
    deprecated: bool = False
    deprecation_warning: str | None = None
    schema: _Schema | None = None
    subresources: _Subresources | None = None
    additional_printer_columns: list[_Column] | None = None
    selectable_fields: list[_Selectable] | None = None


class _Conversion(msgspec.Struct, frozen=True):
    strategy: str = ""
    webhook: dict[str, Any] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    group: str = ""
    scope: str = ""
    names: _Names = _Names()
    versions: list[_Version] | None = None
    conversion: _Conversion | None = None
    preserve_unknown_fields: bool = False


class _Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: list[_Condition] | None = None
    accepted_names: _Names | None = None
    stored_versions: list[str] | None = None


def check_crd_spec(obj: JsonObject) -> None:
    """Raise 400 for wrong types in the spec."""
    try:
        msgspec.convert(obj.get("spec") or {}, _Spec)
    except msgspec.ValidationError as error:
        where = str(error).replace("`$.", "`$.spec.").replace("`$`", "`$.spec`")
        raise build_unreadable_error(DEFINITIONS, f"json: {where}") from None
    except RecursionError:
        raise build_unreadable_error(DEFINITIONS, "json: the schema is nested too deeply") from None


def check_crd_status(obj: JsonObject) -> None:
    """Raise 400 for wrong types in the status."""
    try:
        msgspec.convert(obj.get("status") or {}, _Status)
    except msgspec.ValidationError as error:
        where = str(error).replace("`$.", "`$.status.").replace("`$`", "`$.status`")
        raise build_unreadable_error(DEFINITIONS, f"json: {where}") from None


def validate_crd(obj: JsonObject) -> list[FieldError]:
    """Return the errors of a CRD whose types are right."""
    spec = msgspec.convert(obj["spec"], _Spec)
    stored = (obj.get("status") or {}).get("storedVersions")
    return [
        *_validate_name(obj["metadata"]["name"], spec),
        *_validate_approval(obj, spec),
        *_validate_group(spec),
        *_validate_scope(spec),
        *_validate_versions(spec),
        *_validate_names(spec.names),
        *_validate_conversion(spec),
        *_validate_version_fields(obj["spec"]),
        *_validate_stored_versions(spec, stored),
    ]


def validate_crd_update(old: JsonObject, new: JsonObject) -> list[FieldError]:
    before, after = old["spec"], new["spec"]
    immutable_fields = {"spec.group": (before.get("group"), after.get("group"))}
    if is_established(old):
        immutable_fields |= {
            "spec.scope": (before.get("scope"), after.get("scope")),
            "spec.names.kind": (before["names"].get("kind"), after["names"].get("kind")),
            "spec.names.plural": (before["names"].get("plural"), after["names"].get("plural")),
        }
    errors = [immutable(path, value) for path, (was, value) in immutable_fields.items() if was != value]
    # The names of an established CRD are immutable, so an unchanged spec is not validated again.
    return errors or ([] if before == after else validate_crd(new))


def find_crd_warnings(obj: JsonObject) -> list[str]:
    """Return warnings for unknown formats, which are accepted."""
    versions = (obj.get("spec") or {}).get("versions") or ()
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in versions]
    unknown = dict.fromkeys(form for schema in schemas for form in _iter_formats(schema) if not is_known_format(form))
    return [f'unrecognized format "{form}"' for form in unknown]


def _iter_formats(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(form := schema.get("format"), str) and form and schema.get("type") == "string":
            yield form
        for word in ("properties", "items", "additionalProperties"):
            inner = schema.get(word)
            yield from (
                (each for one in inner.values() for each in _iter_formats(one))
                if (word == "properties" and isinstance(inner, dict))
                else _iter_formats(inner)
            )


# The CRD itself


def _validate_name(name: str, spec: _Spec) -> Iterator[FieldError]:
    if name != f"{spec.names.plural}.{spec.group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _validate_approval(obj: JsonObject, spec: _Spec) -> Iterator[FieldError]:
    is_protected = any(spec.group == group or spec.group.endswith(f".{group}") for group in ("k8s.io", "kubernetes.io"))
    if not is_protected:
        return
    path, approval = f"metadata.annotations[{_APPROVAL}]", (obj["metadata"].get("annotations") or {}).get(_APPROVAL)
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not approval:
        yield required(path, f'protected groups must have approval annotation "{_APPROVAL}", {see}')
    elif "://" not in approval and not approval.startswith("unapproved"):
        message = f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason starting'
        yield invalid(path, approval, f'{message} with "unapproved", {see}')


def _validate_group(spec: _Spec) -> Iterator[FieldError]:
    if not spec.group:
        yield required("spec.group", "")
    elif "." not in spec.group:
        yield invalid("spec.group", spec.group, "should be a domain with at least one dot")


def _validate_scope(spec: _Spec) -> Iterator[FieldError]:
    if not spec.scope:
        yield required("spec.scope", "")
    elif spec.scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", spec.scope, ("Cluster", "Namespaced"))


def _validate_versions(spec: _Spec) -> Iterator[FieldError]:
    versions = spec.versions or []
    if spec.preserve_unknown_fields:
        instead = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, f"cannot set to true, {instead}")
    for index, version in enumerate(versions):
        if not _LABEL.fullmatch(version.name):
            yield invalid(f"spec.versions[{index}].name", version.name, _LABEL_MESSAGE)
        if version.deprecation_warning is not None and not version.deprecated:
            where = f"spec.versions[{index}].deprecationWarning"
            yield invalid(where, version.deprecation_warning, "can only be set for deprecated versions")
        if version.schema is None or version.schema.schema is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema", "")
    if versions and not _LABEL.fullmatch(versions[0].name):
        yield invalid("spec.version", versions[0].name, _LABEL_MESSAGE)
    if len({version.name for version in versions}) < len(versions):
        yield invalid("spec.versions", _format_versions(versions), "must contain unique version names")
    if sum(version.storage for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", _format_versions(versions), detail)


def _format_versions(versions: list[_Version]) -> Verbatim:
    """Return the versions as a real API server prints them: as Go structs."""
    shown = [
        {"Name": version.name, "Served": version.served, "Storage": version.storage, "Deprecated": version.deprecated,
         "DeprecationWarning": version.deprecation_warning, "Schema": None, "Subresources": None,
         "AdditionalPrinterColumns": None, "SelectableFields": None}
        for version in versions
    ]  # fmt: skip
    return Verbatim(msgspec.json.encode(shown or None).decode())


def _validate_names(names: _Names) -> Iterator[FieldError]:
    path = "spec.names"
    yield from _validate_label(f"{path}.plural", names.plural)
    yield from _validate_label(f"{path}.singular", names.singular)
    yield from _validate_kind(f"{path}.kind", names.kind)
    yield from _validate_kind(f"{path}.listKind", names.list_kind)
    if names.kind and names.kind == names.list_kind:
        yield invalid(f"{path}.listKind", names.list_kind, "kind and listKind may not be the same")
    for field, values in (("shortNames", names.short_names), ("categories", names.categories)):
        for index, value in enumerate(values or ()):
            if not _LABEL.fullmatch(value):
                yield invalid(f"{path}.{field}[{index}]", value, _LABEL_MESSAGE)


def _validate_label(path: str, value: str) -> Iterator[FieldError]:
    if not value:
        yield required(path, "")
    elif not _LABEL.fullmatch(value):
        yield invalid(path, value, _LABEL_MESSAGE)


def _validate_kind(path: str, value: str) -> Iterator[FieldError]:
    if not value:
        yield required(path, "")
    elif not _LABEL.fullmatch(value.lower()):
        yield invalid(path, value, _MIXED_CASE)


def _validate_conversion(spec: _Spec) -> Iterator[FieldError]:
    conversion = spec.conversion or _Conversion("None")
    match conversion.strategy:
        case "None":
            if conversion.webhook is not None:
                detail = "should not be set when strategy is not set to Webhook"
                yield forbidden("spec.conversion.webhookClientConfig", detail)
        case "Webhook" if not (conversion.webhook or {}).get("clientConfig"):
            yield required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")
            if not (conversion.webhook or {}).get("conversionReviewVersions"):
                yield required("spec.conversion.conversionReviewVersions", "")
        case "Webhook":
            # Conversion webhooks are not supported: objects are the same in every version.
            yield unsupported_field("spec.conversion.webhook")
        case other:
            yield not_supported("spec.conversion.strategy", other, ("None", "Webhook"))


def _validate_stored_versions(spec: _Spec, stored: list[str] | None) -> Iterator[FieldError]:
    names = [version.name for version in spec.versions or ()]
    if not stored:
        yield invalid("status.storedVersions", stored or None, "must have at least one stored version")
        return
    for index, name in enumerate(stored):
        if name not in names:
            yield invalid(
                f"status.storedVersions[{index}]",
                name,
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                "spec.versions until a storage migration ensures no data remains persisted in "
                f"{name} and removes {name} from status.storedVersions",
            )
    # If several versions have `storage: true`, a real API server uses the last one.
    storage = [version.name for version in spec.versions or () if version.storage][-1:]
    if storage and storage[0] not in stored:
        yield invalid("status.storedVersions", stored, f"must have the storage version {storage[0]}")


# Fields of versions: validated once if they are equal in all versions


def _validate_version_fields(spec: JsonObject) -> list[FieldError]:
    versions = spec.get("versions") or []
    errors: list[FieldError] = []
    for field, hoisted, check in (
        ("schema", "spec.validation", _validate_schema),
        ("subresources", "spec.subresources", _validate_subresources),
        ("additionalPrinterColumns", "spec.additionalPrinterColumns", _validate_columns),
        ("selectableFields", "spec.selectableFields", _validate_selectable_fields),
    ):
        values_by_version = [(version.get(field), version) for version in versions]
        if values_by_version and all(value == values_by_version[0][0] for value, _ in values_by_version):
            values_by_version = values_by_version[:1]
            paths = [hoisted]
        else:
            paths = [f"spec.versions[{index}].{field}" for index in range(len(versions))]
        for path, (value, version) in zip(paths, values_by_version, strict=True):
            if value:
                errors += check(value, path, version)
    return errors


def _validate_schema(validation: JsonObject, path: str, version: JsonObject) -> list[FieldError]:
    schema = validation.get("openAPIV3Schema")
    return [] if schema is None else validate_structural_schema(schema, f"{path}.openAPIV3Schema")


def _validate_subresources(subresources: JsonObject, path: str, version: JsonObject) -> list[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return []
    paths = msgspec.convert(scale, _Scale)
    return [
        *_validate_scale_path(f"{path}.scale.specReplicasPath", paths.spec_replicas_path, (".spec",)),
        *_validate_scale_path(f"{path}.scale.statusReplicasPath", paths.status_replicas_path, (".status",)),
        *(
            _validate_scale_path(f"{path}.scale.labelSelectorPath", paths.label_selector_path, (".spec", ".status"))
            if paths.label_selector_path
            else ()
        ),
    ]


def _validate_scale_path(path: str, value: str, roots: tuple[str, ...]) -> Iterator[FieldError]:
    if not value:
        yield required(path, "")
    elif not _is_simple_path(value):
        yield invalid(path, value, "must be a simple json path starting with .")
    elif not any(value.startswith(f"{root}.") for root in roots):
        either = f"either {' or '.join(roots)}" if len(roots) > 1 else roots[0]
        yield invalid(path, value, f"should be a json path under {either}")


def _is_simple_path(path: str) -> bool:
    return path.startswith(".") and not path.endswith(".") and "{" not in path


def _validate_columns(columns: list[JsonObject], path: str, version: JsonObject) -> list[FieldError]:
    errors = []
    for index, raw in enumerate(columns):
        column, where = msgspec.convert(raw, _Column), f"{path}[{index}]"
        if not column.name:
            errors.append(required(f"{where}.name", ""))
        if not column.type:
            errors.append(required(f"{where}.type", f"must be one of {','.join(_COLUMN_TYPES)}"))
        elif column.type not in _COLUMN_TYPES:
            errors.append(invalid(f"{where}.type", column.type, f"must be one of {','.join(_COLUMN_TYPES)}"))
        if column.format and column.format not in _COLUMN_FORMATS:
            errors.append(invalid(f"{where}.format", column.format, f"must be one of {','.join(_COLUMN_FORMATS)}"))
        if not column.json_path:
            errors.append(required(f"{where}.JSONPath", ""))
        elif not _is_simple_path(column.json_path):
            errors.append(invalid(f"{where}.JSONPath", column.json_path, "must be a simple json path starting with ."))
    return errors


def _validate_selectable_fields(fields: list[JsonObject], path: str, version: JsonObject) -> list[FieldError]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    errors, seen = [], set()
    for index, raw in enumerate(fields):
        value, where = str(raw.get("jsonPath", "")), f"{path}[{index}].jsonPath"
        if not value:
            errors.append(required(where, ""))
        elif value in seen:
            errors.append(duplicate(where, value, ""))
        elif error_message := _find_selectable_error(value, schema):
            errors.append(invalid(where, value, error_message))
        seen.add(value)
    if len(fields) > _MAX_SELECTABLE:
        errors.append(forbidden(path, f"must have at most {_MAX_SELECTABLE} items"))
    return errors


_MAX_SELECTABLE = 8
_UNTIL_STEP = re.compile(r"[.\[]")


def _find_selectable_error(path: str, schema: JsonObject) -> str:
    if not path.startswith("."):
        return f"is an invalid path: expected [ or . but got: {_UNTIL_STEP.split(path)[0]}"
    found: Any = schema
    for match in _STEP.finditer(path):
        if match[1] is None or (found is schema and match[1] == "metadata"):
            return "is an invalid path: does not refer to a valid field"
        found = (found.get("properties") or {}).get(match[1])
        if found is None:
            return "is an invalid path: does not refer to a valid field"
    if found.get("type") not in ("string", "boolean", "integer"):
        return (
            "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are "
            "allowed."
        )
    return ""
