"""Validation of CEL rules in CRDs, with the error texts of a real API server.

The cost of rules is not estimated. A real API server rejects rules that are too expensive.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, Verbatim, invalid, not_supported, required
from grove.cluster.schemas.cel import CompileError, TypedVariables, check, get_program
from grove.cluster.schemas.cel_rules import build_rule_tree, uses_old
from grove.cluster.schemas.cel_types import typed_variables
from grove.cluster.schemas.keywords import LIST_TYPE, MAP_TYPE, VALIDATIONS

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_UNUSED = "may not be set if oldSelf is not used in rule"
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['([^']+)'\]")
_NOT_IN_HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def validate_rules(schema: JsonObject, path: str) -> list[FieldError]:
    """Return the errors of all rules in the schema of a whole object."""
    return list(_validate(schema, path, is_root=True, uncorrelatable=""))


def validate_default(value: Any, schema: JsonObject) -> list[FieldError]:
    """Return the errors that the rules of a schema report for its own default."""
    try:
        found = build_rule_tree(schema)
        return [] if found is None else list(found.evaluate(value, None).errors)
    except CompileError:
        # Reported where the rule is defined.
        return []


def _validate(schema: JsonObject, path: str, *, is_root: bool, uncorrelatable: str) -> Iterator[FieldError]:
    rules = schema.get(VALIDATIONS) or ()
    typed = typed_variables(schema, is_root=is_root) if rules else None
    for index, rule in enumerate(rules):
        assert typed is not None
        where = f"{path}.{VALIDATIONS}[{index}]"
        yield from _validate_rule(rule, schema, typed, where)
        if uncorrelatable and uses_old(rule.get("rule", "")):
            message = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            yield invalid(f"{where}.rule", rule["rule"], message)
    for name, inner in schema.get("properties", {}).items():
        within = uncorrelatable or (path if schema.get(MAP_TYPE) == "atomic" else "")
        yield from _validate(inner, f"{path}.properties[{name}]", is_root=False, uncorrelatable=within)
    if isinstance(schema.get("additionalProperties"), dict):
        inner, where = schema["additionalProperties"], f"{path}.additionalProperties"
        yield from _validate(inner, where, is_root=False, uncorrelatable=uncorrelatable)
    if isinstance(schema.get("items"), dict):
        within = uncorrelatable or ("" if schema.get(LIST_TYPE) == "map" else path)
        yield from _validate(schema["items"], f"{path}.items", is_root=False, uncorrelatable=within)


def _validate_rule(rule: JsonObject, schema: JsonObject, typed: TypedVariables, path: str) -> Iterator[FieldError]:
    text, message = rule.get("rule") or "", rule.get("message")
    if not text.strip():
        yield required(f"{path}.rule", "rule is not specified")
        return
    if message is not None and not message.strip() and message:
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif message and "\n" in message:
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if (reason := rule.get("reason")) is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)
    if (field_path := rule.get("fieldPath")) and not _is_field(field_path, schema):
        yield invalid(f"{path}.fieldPath", field_path, "must be a valid path")
    yield from _validate_expressions(rule, typed, path)


def _validate_expressions(rule: JsonObject, typed: TypedVariables, path: str) -> Iterator[FieldError]:
    is_optional = rule.get("optionalOldSelf")
    if is_optional is not None and not uses_old(rule["rule"]):
        yield invalid(f"{path}.optionalOldSelf", is_optional, _UNUSED)
        is_optional = False
    try:
        if check(rule["rule"], typed, is_old_optional=bool(is_optional)) not in ("BOOL", "DYN"):
            yield invalid(f"{path}.rule", _format_rule(rule), "cel expression must evaluate to a bool")
        get_program(rule["rule"], is_old_optional=bool(is_optional)).check_functions()
    except CompileError as error:
        yield invalid(f"{path}.rule", _format_rule(rule), f"compilation failed: {error}")
        if is_optional:
            yield invalid(f"{path}.optionalOldSelf", is_optional, _UNUSED)
    if not (expression := rule.get("messageExpression")):
        return
    where = f"{path}.messageExpression"
    try:
        if check(expression, typed, is_old_optional=bool(is_optional)) not in ("STRING", "DYN"):
            yield invalid(where, _format_rule(rule), "messageExpression must evaluate to a string")
    except CompileError as error:
        yield invalid(where, _format_rule(rule), f"messageExpression compilation failed: {error}")


def _is_field(path: str, schema: JsonObject) -> bool:
    """Return whether the path leads to a field of the schema. Paths into lists are not allowed."""
    found: Any = schema
    position = 0
    for match in _STEP.finditer(path):
        if match.start() != position:
            return False
        position = match.end()
        name = match[1] or match[2]
        found = (found.get("properties") or {}).get(name) or (
            found.get("additionalProperties") if match[2] is not None else None
        )
        if not isinstance(found, dict):
            return False
    return position == len(path)


def _format_rule(rule: JsonObject) -> Verbatim:
    """Return the rule as a real API server prints it: a Go struct in JSON that is safe in HTML."""
    fields = {
        "Rule": rule.get("rule", ""), "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "", "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "", "OptionalOldSelf": rule.get("optionalOldSelf"),
    }  # fmt: skip
    text = msgspec.json.encode(fields).decode()
    return Verbatim("".join(_NOT_IN_HTML.get(letter, letter) for letter in text))
