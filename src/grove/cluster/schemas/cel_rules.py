"""CEL rules (`x-kubernetes-validations`) of a schema, and their evaluation for an object.

`cel.py` implements the language. `cel_rule_validation.py` validates the rules when a CRD is written.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import OMITTED, ErrorKind, FieldError, invalid
from grove.cluster.schemas.cel import EvaluationError, Variables, get_program
from grove.cluster.schemas.cel_values import Convert, build_converter
from grove.cluster.schemas.keywords import (
    LIST_TYPE,
    MAP_KEYS,
    VALIDATIONS,
    child,
    key_of,
    type_name,
)
from grove.cluster.schemas.schema_validation import NO_OLD_VALUE, NO_PATH

_USES_OLD = re.compile(r"\boldSelf\b")
_KINDS = {
    "FieldValueRequired": ErrorKind.REQUIRED,
    "FieldValueForbidden": ErrorKind.FORBIDDEN,
    "FieldValueDuplicate": ErrorKind.DUPLICATE,
}


class RuleFindings(msgspec.Struct, frozen=True):
    """The result of rules: errors reject the object; warnings are about unchanged parts that were invalid before."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


class CelRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of a CRD."""

    text: str
    message: str
    message_expression: str
    kind: ErrorKind
    field_path: str
    # It uses `oldSelf`, so it is skipped for a new object unless `oldSelf` is optional.
    is_transition: bool
    is_old_optional: bool

    @property
    def name(self) -> str:
        """The name of the rule in error messages."""
        return self.message or self.text.strip()


class RuleTree(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a schema that has rules, or contains parts with rules."""

    rules: tuple[CelRule, ...] = ()
    convert: Convert | None = None
    fields: dict[str, "RuleTree"] = {}
    values: "RuleTree | None" = None
    items: "RuleTree | None" = None
    # Map keys of a list, to find the old version of each item; None: items have no old version.
    keys: tuple[str, ...] | None = None

    def has_rules_for(self, value: Any) -> bool:
        """Return whether the value has a part with rules."""
        if self.rules:
            return True
        if isinstance(value, dict):
            if self.values is not None:
                return bool(value)
            return any(field in value and inner.has_rules_for(value[field]) for field, inner in self.fields.items())
        return isinstance(value, list) and bool(value)

    def evaluate(self, obj: JsonObject, old: JsonObject | None) -> RuleFindings:
        evaluation = _Evaluation()
        evaluation.walk(self, obj, NO_OLD_VALUE if old is None else old, "")
        return RuleFindings(tuple(evaluation.errors), tuple(evaluation.warnings))


def build_rule_tree(schema: JsonObject, *, is_root: bool = False) -> RuleTree | None:
    """Return the tree of rules of a schema, or None if it has no rules."""
    rules = tuple(_rule(rule) for rule in schema.get(VALIDATIONS) or ())
    fields = {name: found for name, inner in schema.get("properties", {}).items() if (found := build_rule_tree(inner))}
    additional, items = schema.get("additionalProperties"), schema.get("items")
    values = build_rule_tree(additional) if isinstance(additional, dict) else None
    of_items = build_rule_tree(items) if isinstance(items, dict) else None
    if not rules and not fields and values is None and of_items is None:
        return None
    return RuleTree(
        rules=rules,
        convert=build_converter(schema, is_root=is_root) if rules else None,
        fields=fields,
        values=values,
        items=of_items,
        keys=tuple(schema.get(MAP_KEYS, ())) if schema.get(LIST_TYPE) == "map" else None,
    )


def _rule(rule: JsonObject) -> CelRule:
    text, expression = rule.get("rule", ""), rule.get("messageExpression", "")
    return CelRule(
        text=text,
        message=(rule.get("message") or "").strip(),
        message_expression=expression,
        kind=_KINDS.get(rule.get("reason", ""), ErrorKind.INVALID),
        field_path=rule.get("fieldPath", ""),
        is_transition=uses_old(text),
        is_old_optional=bool(rule.get("optionalOldSelf")),
    )


def uses_old(text: str) -> bool:
    return _USES_OLD.search(text) is not None


class _Evaluation:
    """One evaluation of all rules for one object."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []

    def walk(self, part: RuleTree, value: Any, old: Any, path: str) -> None:
        # Rules are skipped for absent values.
        if value is None:
            return
        if part.rules:
            self._evaluate_rules(part, value, old, path)
        for inner, item, before, where in _children(part, value, old, path):
            self.walk(inner, item, before, where)

    def _evaluate_rules(self, part: RuleTree, value: Any, old: Any, path: str) -> None:
        has_old = old is not NO_OLD_VALUE and old is not None
        variables: Variables | None = None
        for rule in part.rules:
            if rule.is_transition and not has_old and not rule.is_old_optional:
                continue
            if variables is None:
                variables = _variables(part, value, old if has_old else None)
            error = _find_error(rule, variables, value, path)
            if error is None:
                continue
            if has_old and not rule.is_transition and value == old:
                self.warnings.append(str(error))
            else:
                self.errors.append(error)


def _variables(part: RuleTree, value: Any, old: Any) -> Variables:
    convert = part.convert
    if convert is None:
        return Variables(value, () if old is None else (old,))
    return Variables(convert(value), () if old is None else (convert(old),))


def _children(part: RuleTree, value: Any, old: Any, path: str) -> Iterator[tuple[RuleTree, Any, Any, str]]:
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for field, inner in part.fields.items():
            if field in value:
                yield inner, value[field], before.get(field, NO_OLD_VALUE), child(path, field)
        if part.values is not None:
            for key, item in value.items():
                if key not in part.fields:
                    yield part.values, item, before.get(key, NO_OLD_VALUE), f"{path}[{key}]"
    elif isinstance(value, list) and part.items is not None:
        old_items = _by_key(old, part.keys)
        for index, item in enumerate(value):
            was = NO_OLD_VALUE
            if old_items and part.keys is not None and isinstance(item, dict):
                was = old_items.get(key_of(item, part.keys), NO_OLD_VALUE)
            yield part.items, item, was, f"{path}[{index}]"


def _by_key(old: Any, keys: tuple[str, ...] | None) -> dict[tuple[Any, ...], Any]:
    if keys is None or not isinstance(old, list):
        return {}
    return {key_of(item, keys): item for item in old if isinstance(item, dict)}


def _find_error(rule: CelRule, variables: Variables, value: Any, path: str) -> FieldError | None:
    """Return the error of the rule for this value, or None."""
    try:
        holds = get_program(rule.text, is_old_optional=rule.is_old_optional).run(variables)
    except EvaluationError as error:
        return invalid(path or NO_PATH, type_name(value), f"{error} evaluating rule: {rule.name}")
    if holds is True:
        return None
    where = f"{path}{rule.field_path}".removeprefix(".") or NO_PATH
    message = _message(rule, variables)
    is_scalar = not isinstance(value, dict | list) and not rule.field_path
    match rule.kind:
        case ErrorKind.DUPLICATE:
            # A duplicate error has no message, only the value if it can be shown.
            return FieldError(path=where, kind=rule.kind, detail="", bad_value=value if is_scalar else OMITTED)
        case ErrorKind.INVALID:
            return invalid(where, value if is_scalar else OMITTED, message)
        case _:
            return FieldError(path=where, kind=rule.kind, detail=message)


def _message(rule: CelRule, variables: Variables) -> str:
    """Return the message of the rule, or else its text."""
    plain = rule.message or f"failed rule: {rule.text.strip()}"
    if not rule.message_expression:
        return plain
    is_optional = rule.is_old_optional and uses_old(rule.message_expression)
    try:
        text = get_program(rule.message_expression, is_old_optional=is_optional).run(variables)
    except EvaluationError:
        return plain
    if not isinstance(text, str) or not text.strip() or "\n" in text:
        return plain
    return text.strip()
