"""Schema validation with the error texts of a real API server. The value was pruned and defaulted before
(`pruning_defaulting.py`).

Validation is ratcheting: parts that are equal in the old object are not validated. The old value is passed along as far
as old and new parts can be correlated.
"""

from typing import Any

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import (
    ErrorKind,
    FieldError,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
    type_invalid,
)
from grove.cluster.schemas.formats import is_format
from grove.cluster.schemas.keywords import (
    ALWAYS_KNOWN,
    DISTINCT,
    EMBEDDED,
    INT_OR_STRING,
    LIST_TYPE,
    MAP_KEYS,
    child,
    key_of,
    type_name,
)
from grove.cluster.schemas.regex_match import is_match

_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
}  # fmt: skip
# There is no old value to compare with.
NO_OLD_VALUE: Any = object()
# The path of errors about the whole object.
NO_PATH = "<nil>"


def validate_object(obj: JsonObject, schema: JsonObject, old: Any = NO_OLD_VALUE) -> list[FieldError]:
    """Return the errors of a whole object. Parts that are equal in `old` are not validated."""
    validation = _Validation()
    validation.object(obj, schema, "", old)
    return validation.errors + validation.duplicates


def validate_value(value: Any, schema: JsonObject, path: str) -> list[FieldError]:
    validation = _Validation()
    validation.value(value, schema, path, NO_OLD_VALUE)
    return validation.errors + validation.duplicates


class _Validation:
    """One validation. Errors about duplicate items are reported last."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.duplicates: list[FieldError] = []

    def value(self, value: Any, schema: JsonObject, path: str, old: Any) -> None:
        if old is not NO_OLD_VALUE and value == old:
            return
        if value is None and (schema.get("nullable") or _takes_anything(schema)):
            return
        if not _is_of_type(value, schema):
            self.errors += _validate_type(value, schema, path)
            return
        self._alternatives(value, schema, path)
        match value:
            case dict():
                self.object(value, schema, path, old)
            case list():
                self._array(value, schema, path, old)
            case str():
                self.errors += _validate_text(value, schema, path)
            case bool() | None:
                pass
            case _:
                self.errors += _validate_number(value, schema, path)
        self._enumeration(value, schema, path)

    def object(self, value: JsonObject, schema: JsonObject, path: str, old: Any) -> None:
        self._sizes(len(value), schema, path, "Properties", "properties")
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties")
        is_whole = not path or bool(schema.get(EMBEDDED))
        before = old if isinstance(old, dict) else {}
        for field, item in value.items():
            inner = properties.get(field, additional)
            if not path and field in ALWAYS_KNOWN:
                continue
            if isinstance(inner, dict):
                self.value(item, inner, child(path, field), before.get(field, NO_OLD_VALUE))
            elif inner is False and not (is_whole and field in ALWAYS_KNOWN):
                detail = f"{child(path, field)} in body is a forbidden property"
                self.errors.append(invalid(path, field, detail))
        wanted = schema.get("required", ())
        if path and schema.get(EMBEDDED):
            wanted = [*wanted, *(field for field in ("apiVersion", "kind") if field not in wanted)]
        self.errors += [required(child(path, field), "") for field in wanted if field not in value]

    def _array(self, value: list[Any], schema: JsonObject, path: str, old: Any) -> None:
        self._sizes(len(value), schema, path, "Items", "items")
        items = schema.get("items")
        keys = tuple(schema.get(MAP_KEYS, ()))
        before = _by_key(old, keys) if schema.get(LIST_TYPE) == "map" and isinstance(old, list) else {}
        if isinstance(items, dict):
            for index, item in enumerate(value):
                was = (
                    before.get(key_of(item, keys), NO_OLD_VALUE) if before and isinstance(item, dict) else NO_OLD_VALUE
                )
                self.value(item, items, f"{path}[{index}]", was)
        if schema.get(LIST_TYPE) in DISTINCT:
            self._find_duplicates(value, keys, path)

    def _sizes(self, count: int, schema: JsonObject, path: str, keyword: str, word: str) -> None:
        fewest, most = schema.get(f"min{keyword}", 0), schema.get(f"max{keyword}", count)
        if count < fewest:
            self.errors.append(invalid(path, count, f"{path} in body should have at least {fewest} {word}"))
        if count > most:
            self.errors.append(too_many(path, count, most))

    def _enumeration(self, value: Any, schema: JsonObject, path: str) -> None:
        allowed = schema.get("enum")
        if allowed is not None and not any(value == each and type_name(value) == type_name(each) for each in allowed):
            shown = ", ".join(f'"{each}"' for each in allowed)
            error = FieldError(
                path=path, kind=ErrorKind.NOT_SUPPORTED, detail=f"supported values: {shown}", bad_value=value
            )
            self.errors.append(error)

    def _alternatives(self, value: Any, schema: JsonObject, path: str) -> None:
        shown = f'"{path}"'
        if schema.get("anyOf"):
            failures = [_validate(value, one, path) for one in schema["anyOf"]]
            if all(failures):
                self._add_error(f"{shown} must validate at least one schema (anyOf)")
                self.errors += failures[0]
        if schema.get("oneOf"):
            failures = [_validate(value, one, path) for one in schema["oneOf"]]
            good_count = sum(not failure for failure in failures)
            message = f"{shown} must validate one and only one schema (oneOf). Found "
            if good_count == 0:
                self._add_error(f"{message}none valid")
                self.errors += failures[0]
            elif good_count > 1:
                self._add_error(f"{message}{good_count} valid alternatives")
        if "allOf" in schema:
            errors = [error for one in schema["allOf"] for error in _validate(value, one, path)]
            if errors:
                self.errors += errors
                self._add_error(f"{shown} must validate all the schemas (allOf)")
        if "not" in schema and not _validate(value, schema["not"], path):
            self._add_error(f"{shown} must not validate the schema (not)")

    def _add_error(self, message: str) -> None:
        self.errors.append(invalid(NO_PATH, "", message))

    def _find_duplicates(self, items: list[Any], keys: tuple[str, ...], path: str) -> None:
        seen: dict[tuple[Any, ...], None] = {}
        for index, item in enumerate(items):
            if isinstance(item, dict) != bool(keys) or isinstance(item, list):
                # A wrong type, which is reported elsewhere.
                continue
            key = key_of(item, keys)
            if key in seen:
                shown = {name: item.get(name) for name in keys} if keys else item
                self.duplicates.append(duplicate(f"{path}[{index}]", shown, ""))
            seen[key] = None


def _validate(value: Any, schema: JsonObject, path: str) -> list[FieldError]:
    return validate_value(value, schema, path)


def _by_key(items: list[Any], keys: tuple[str, ...]) -> dict[tuple[Any, ...], Any]:
    return {key_of(item, keys): item for item in items if isinstance(item, dict)}


def _relative_path(path: str) -> str:
    """Return the path that type errors show. In a status it starts below `status`."""
    return path.removeprefix("status.")


def _takes_anything(schema: JsonObject) -> bool:
    return "type" not in schema and not schema.get(INT_OR_STRING)


def _is_of_type(value: Any, schema: JsonObject) -> bool:
    if schema.get(INT_OR_STRING) and not isinstance(value, bool):
        return isinstance(value, (int, str))
    type_: str | None = schema.get("type")
    if type_ is None:
        # Alternatives and values of any type have no type.
        return not schema.get(INT_OR_STRING)
    if isinstance(value, bool):
        return type_ == "boolean"
    if isinstance(value, int) and type_ == "integer" and schema.get("format", "int64") == "int64":
        lowest, highest = _BOUNDS["int64"]
        return lowest <= value <= highest
    wanted: type | tuple[type, ...] = _TYPES.get(type_, object)
    return isinstance(value, wanted)


def _validate_type(value: Any, schema: JsonObject, path: str) -> list[FieldError]:
    wanted = "integer,string" if schema.get(INT_OR_STRING) else schema["type"]
    shown = type_name(value)
    if wanted == "integer" and isinstance(value, int) and not isinstance(value, bool):
        # Larger than any int64, so Go decodes it as a float.
        wanted, shown = "int64", "float64"
    errors = [type_invalid(path, shown, f'{_relative_path(path)} in body must be of type {wanted}: "{shown}"')]
    if wanted in ("integer", "int64") and shown in ("number", "float64"):
        errors.append(_format_error(schema, path))
    return errors


def _format_error(schema: JsonObject, path: str) -> FieldError:
    form = schema.get("format")
    kind = "integer (default format)" if form is None else f"integer with format {form}"
    return invalid(NO_PATH, "", f"Checked value must be of type {kind} in {path}")


def _validate_text(value: str, schema: JsonObject, path: str) -> list[FieldError]:
    errors = _validate_length(value, schema, path)
    form = schema.get("format", "")
    if form and not is_format(form, value):
        errors.append(type_invalid(path, value, f'{_relative_path(path)} in body must be of type {form}: "{value}"'))
    return errors


def _validate_length(value: str, schema: JsonObject, path: str) -> list[FieldError]:
    """Return the first error of length and pattern."""
    if len(value) > schema.get("maxLength", len(value)):
        return [too_long(path, schema["maxLength"])]
    if len(value) < schema.get("minLength", 0):
        return [invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")]
    if "pattern" in schema and not is_match(schema["pattern"], value):
        return [invalid(path, value, f"{path} in body should match '{schema['pattern']}'")]
    return []


def _validate_number(value: int | float, schema: JsonObject, path: str) -> list[FieldError]:
    bounds = _BOUNDS.get(schema.get("format", "")) if schema.get("type") == "integer" else None
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        return [_format_error(schema, path)]
    errors = []
    if (step := schema.get("multipleOf")) is not None and value % step != 0:
        errors.append(f"be a multiple of {_format_number(step)}")
    if (most := schema.get("maximum")) is not None and (
        value > most or (schema.get("exclusiveMaximum") and value == most)
    ):
        errors.append(f"be less than {'' if schema.get('exclusiveMaximum') else 'or equal to '}{_format_number(most)}")
    if (least := schema.get("minimum")) is not None and (
        value < least or (schema.get("exclusiveMinimum") and value == least)
    ):
        errors.append(
            f"be greater than {'' if schema.get('exclusiveMinimum') else 'or equal to '}{_format_number(least)}"
        )
    return [invalid(path, value, f"{path} in body should {message}") for message in errors]


def _format_number(value: int | float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)
