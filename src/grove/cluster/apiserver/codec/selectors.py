"""Label and field selectors of a query: parsing and matching."""

import re
from functools import lru_cache

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.registry.metadata import find_label_key_error, find_label_value_error
from grove.cluster.apiserver.status_errors import bad_request
from grove.cluster.built_in_resources import ResourceInfo

_METADATA_FIELDS = ("metadata.name", "metadata.namespace")
_FIELDS_OF_KIND = {
    "pods": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    ),
    "events": (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
        "reason", "reportingComponent", "source", "type",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
}  # fmt: skip


class Selection(msgspec.Struct, frozen=True):
    """The selectors of a request. Without requirements it matches everything."""

    labels: tuple["LabelRequirement", ...] = ()
    fields: tuple["FieldRequirement", ...] = ()

    def matches(self, obj: JsonObject) -> bool:
        if self.labels:
            labels = obj["metadata"].get("labels") or {}
            for requirement in self.labels:
                if not requirement.matches(labels):
                    return False
        return all(requirement.matches(obj) for requirement in self.fields)

    @property
    def is_everything(self) -> bool:
        return not self.labels and not self.fields

    @property
    def exact_labels(self) -> list[tuple[str, str]]:
        """Return the labels that every selected object has, for lookups in the label index."""
        return [
            (requirement.key, requirement.values[0])
            for requirement in self.labels
            if requirement.operator == "in" and len(requirement.values) == 1
        ]

    @property
    def single_name(self) -> str | None:
        """Return the name of the field selector, if it selects exactly one name."""
        for requirement in self.fields:
            if requirement.is_equal and requirement.path == ("metadata", "name"):
                return requirement.value
        return None


class LabelRequirement(msgspec.Struct, frozen=True):
    key: str
    # in, notin, exists, absent, gt, lt
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: dict[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case "gt":
                return (number := _parse_int64(value)) is not None and number > int(self.values[0])
            case _:
                return (number := _parse_int64(value)) is not None and number < int(self.values[0])


class FieldRequirement(msgspec.Struct, frozen=True):
    path: tuple[str, ...]
    is_equal: bool
    value: str

    def matches(self, obj: JsonObject) -> bool:
        found: object = obj
        for step in self.path:
            found = found.get(step) if isinstance(found, dict) else None
        return (_as_text(found) == self.value) is self.is_equal


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


EVERYTHING = Selection()


def parse_selection(resource_info: ResourceInfo, label_selector: str, field_selector: str) -> Selection:
    """Parse both selectors. Raises 400 if one is malformed or not supported for this kind."""
    if not label_selector and not field_selector:
        return EVERYTHING
    try:
        return Selection(parse_labels(label_selector), parse_fields(resource_info, field_selector))
    except ValueError as error:
        raise bad_request(str(error)) from None


# Fields

# Kinds with selectable fields of their own; their error message differs from that of other built-in kinds.
_KINDS_WITH_FIELDS = frozenset(_FIELDS_OF_KIND)
_TERM = re.compile(r"([^=!]+)(!=|==|=)(.*)")
_TERM_END = re.compile(r"(?<!\\)(?:\\\\)*,")


@lru_cache(maxsize=4096)
def parse_fields(resource_info: ResourceInfo, text: str) -> tuple[FieldRequirement, ...]:
    """Parse a field selector; all requirements must hold. Raises ValueError."""
    requirements = []
    for term in filter(None, _TERM_END.split(text)):
        match = _TERM.fullmatch(term)
        if match is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        _check_field(resource_info, field)
        is_equal = operator != "!="
        if value == "false" and field in ("spec.unschedulable", "spec.hostNetwork"):
            # An absent field counts as false.
            value, is_equal = "true", not is_equal
        requirements.append(FieldRequirement(tuple(field.split(".")), is_equal, _unescape(value)))
    return tuple(requirements)


def find_exact_name(text: str) -> str:
    """Return the name that a field selector requires; empty if there is none or the selector is malformed."""
    name = ""
    for term in filter(None, _TERM_END.split(text)):
        match = _TERM.fullmatch(term)
        if match is None:
            return ""
        field, operator, value = match.groups()
        if field == "metadata.name" and operator != "!=":
            name = name or _unescape(value)
    return name


def _unescape(value: str) -> str:
    return re.sub(r"\\([\\,=])", r"\1", value)


def _check_field(resource_info: ResourceInfo, field: str) -> None:
    if field in _METADATA_FIELDS or field in _FIELDS_OF_KIND.get(resource_info.qualified, ()):
        return
    if resource_info.custom is not None and field in resource_info.custom.selectable:
        return
    if resource_info.is_custom or resource_info.qualified in _KINDS_WITH_FIELDS:
        raise ValueError(f"field label not supported: {field}")
    raise ValueError(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')


# Labels

_TOKEN = re.compile(r"\s*(?:(==|!=|=|!|,|\(|\)|<|>)|([^\s=!,()<>]+))")
_INTEGER = re.compile(r"[-+]?[0-9]{1,63}", re.ASCII)
_SIGNS = frozenset(("==", "!=", "=", "!", ",", "(", ")", "<", ">"))


@lru_cache(maxsize=4096)
def parse_labels(text: str) -> tuple[LabelRequirement, ...]:
    """Parse a label selector; all requirements must hold. Raises ValueError."""
    tokens = _tokenize(text)
    requirements: list[LabelRequirement] = []
    expected = "!, identifier, or 'end of string'"
    while tokens or requirements:
        if not _begins_requirement(_next(tokens)):
            raise ValueError(f"found '{_next(tokens)}', expected: {expected}")
        try:
            requirements.append(_parse_requirement(tokens))
        except ValueError as error:
            raise ValueError(f"unable to parse requirement: {error}") from None
        if not tokens:
            break
        if (separator := tokens.pop(0)) != ",":
            raise ValueError(f"found '{separator}', expected: ',' or 'end of string'")
        expected = "identifier after ','"
    return tuple(requirements)


def _begins_requirement(token: str) -> bool:
    return bool(token) and (token == "!" or token not in _SIGNS)


def _tokenize(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while match := _TOKEN.match(text, position):
        tokens.append(match.group(1) or match.group(2))
        position = match.end()
    return tokens


def _next(tokens: list[str]) -> str:
    """Return the next token; empty at the end."""
    return tokens[0] if tokens else ""


def _parse_requirement(tokens: list[str]) -> LabelRequirement:
    first = tokens.pop(0)
    if first == "!":
        return LabelRequirement(_check_key(_pop_identifier(tokens)), "absent")
    key = _check_key(first)
    if _next(tokens) in ("", ","):
        return LabelRequirement(key, "exists")
    operator = tokens.pop(0)
    match operator:
        case "=" | "==":
            return LabelRequirement(key, "in", _check_values(key, (_pop_value(tokens),)))
        case "!=":
            return LabelRequirement(key, "notin", _check_values(key, (_pop_value(tokens),)))
        case "in" | "notin":
            return LabelRequirement(key, operator, _check_values(key, _parse_values(tokens)))
        case "<" | ">":
            bound = _pop_value(tokens)
            if _parse_int64(bound) is None:
                error_message = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise ValueError(f'values[0]: Invalid value: "{bound}": {error_message}')
            return LabelRequirement(key, "lt" if operator == "<" else "gt", _check_values(key, (bound,)))
        case _:
            raise ValueError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _pop_identifier(tokens: list[str]) -> str:
    if not tokens or tokens[0] in _SIGNS:
        raise ValueError(f"found '{_next(tokens)}', expected: identifier")
    return tokens.pop(0)


def _check_key(token: str) -> str:
    if error_message := find_label_key_error(token):
        raise ValueError(f'<nil>: Invalid value: "{token}": {error_message}')
    return token


def _pop_value(tokens: list[str]) -> str:
    return "" if _next(tokens) in ("", ",") else _pop_identifier(tokens)


def _check_values(key: str, values: tuple[str, ...]) -> tuple[str, ...]:
    for index, value in enumerate(sorted(values)):
        if error_message := find_label_value_error(value):
            raise ValueError(f'values[{index}][{key}]: Invalid value: "{value}": {error_message}')
    return values


def _parse_values(tokens: list[str]) -> tuple[str, ...]:
    if _next(tokens) != "(":
        raise ValueError(f"found '{_next(tokens)}' expected: '('")
    tokens.pop(0)
    values = []
    while True:
        values.append("" if _next(tokens) in (",", ")") else _pop_identifier(tokens))
        match _next(tokens):
            case ",":
                tokens.pop(0)
            case ")":
                tokens.pop(0)
                return tuple(values)
            case other:
                raise ValueError(f"found '{other}', expected: ',' or ')'")


def _parse_int64(text: str | None) -> int | None:
    """Parse a signed 64-bit integer; None if it is not one. Texts longer than a label value are not parsed."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
