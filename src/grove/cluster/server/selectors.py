"""Label and field selectors: from the text in a query to a question about an object."""

import re
from functools import lru_cache

import msgspec

from grove.api.meta import JsonObject
from grove.cluster.resources import Served
from grove.cluster.server.metadata import label_key_problem, label_value_problem
from grove.cluster.server.status_errors import bad_request

_METADATA_FIELDS = ("metadata.name", "metadata.namespace")
_FIELDS_OF_KIND = {
    "pods": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
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
    """Which objects a request means. An empty tuple of requirements means all."""

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
        """The labels that every selected object carries: the way into the label indexes."""
        return [
            (requirement.key, requirement.values[0])
            for requirement in self.labels
            if requirement.operator == "in" and len(requirement.values) == 1
        ]

    @property
    def single_name(self) -> str | None:
        """The only name selected, if the fields name one."""
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
                return _is_integer(value) and int(str(value)) > int(self.values[0])
            case _:
                return _is_integer(value) and int(str(value)) < int(self.values[0])


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
    if value is None or value is False:
        return ""
    return "true" if value is True else str(value)


EVERYTHING = Selection()


def parse_selection(served: Served, label_selector: str, field_selector: str) -> Selection:
    """Raises 400 for what cannot be read or is not supported for this kind."""
    if not label_selector and not field_selector:
        return EVERYTHING
    try:
        return Selection(parse_labels(label_selector), parse_fields(served.qualified, field_selector))
    except _UnsupportedError as problem:
        raise bad_request(
            f'Unable to find "{served.group}/{served.version}, Resource={served.plural}" that match label selector '
            f'"{label_selector}", field selector "{field_selector}": {problem}'
        ) from None
    except ValueError as problem:
        raise bad_request(f"unable to parse requirement: {problem}") from None


class _UnsupportedError(Exception):
    pass


@lru_cache(maxsize=4096)
def parse_fields(qualified: str, text: str) -> tuple[FieldRequirement, ...]:
    supported = _METADATA_FIELDS + _FIELDS_OF_KIND.get(qualified, ())
    requirements = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"([^=!]+)(!=|==|=)(.*)", term)
        if match is None:
            raise _UnsupportedError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        if field not in supported:
            raise _UnsupportedError(f"field label not supported: {field}")
        if value == "false" and field in ("spec.unschedulable", "spec.hostNetwork"):
            value = ""
        requirements.append(FieldRequirement(tuple(field.split(".")), operator != "!=", value))
    return tuple(requirements)


_TOKEN = re.compile(r"\s*(?:(==|!=|=|!|,|\(|\)|<|>)|([^\s=!,()<>]+))")


@lru_cache(maxsize=4096)
def parse_labels(text: str) -> tuple[LabelRequirement, ...]:
    """Equality and set based requirements, all of which must hold. Raises ValueError."""
    tokens = _tokens(text)
    requirements: list[LabelRequirement] = []
    while tokens:
        requirements.append(_requirement(tokens))
        if not tokens:
            break
        if (separator := tokens.pop(0)) != ",":
            raise ValueError(f"found '{separator}', expected: ',' or 'end of string'")
        if not tokens:
            raise ValueError("found '', expected: identifier after ','")
    return tuple(requirements)


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"can't understand '{text[position:]}'")
        tokens.append(match.group(1) or match.group(2))
        position = match.end()
    return tokens


def _requirement(tokens: list[str]) -> LabelRequirement:
    first = tokens.pop(0)
    if first == "!":
        return LabelRequirement(_key(_take(tokens)), "absent")
    key = _key(first)
    if not tokens or tokens[0] == ",":
        return LabelRequirement(key, "exists")
    operator = tokens.pop(0)
    match operator:
        case "=" | "==":
            return LabelRequirement(key, "in", (_value(tokens),))
        case "!=":
            return LabelRequirement(key, "notin", (_value(tokens),))
        case "in" | "notin":
            return LabelRequirement(key, operator, _values(tokens))
        case "<" | ">":
            bound = _take(tokens)
            if not _is_integer(bound):
                raise ValueError(f"for 'Gt', 'Lt' operators, the value must be an integer: {bound}")
            return LabelRequirement(key, "lt" if operator == "<" else "gt", (bound,))
        case _:
            raise ValueError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _take(tokens: list[str]) -> str:
    if not tokens:
        raise ValueError("found '', expected: identifier")
    return tokens.pop(0)


def _key(token: str) -> str:
    problem = label_key_problem(token)
    if problem:
        raise ValueError(f'key: Invalid value: "{token}": {problem}')
    return token


def _value(tokens: list[str]) -> str:
    if not tokens or tokens[0] in (",", ")"):
        return ""
    value = tokens.pop(0)
    problem = label_value_problem(value)
    if problem:
        raise ValueError(f'values[0]: Invalid value: "{value}": {problem}')
    return value


def _values(tokens: list[str]) -> tuple[str, ...]:
    if _take(tokens) != "(":
        raise ValueError("found no '(', expected: '('")
    values = [_value(tokens)]
    while (token := _take(tokens)) == ",":
        values.append(_value(tokens))
    if token != ")":
        raise ValueError(f"found '{token}', expected: ',' or ')'")
    return tuple(values)


def _is_integer(text: str | None) -> bool:
    return text is not None and re.fullmatch(r"-?\d+", text) is not None
