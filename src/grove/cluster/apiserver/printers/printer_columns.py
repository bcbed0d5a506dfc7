"""The columns that `kubectl get` prints for each kind: column definitions, and the cells of one object.

Custom kinds have the printer columns of their CRD; built-in kinds have those of a real API server. `table.py` builds
the table.
"""

import re
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import at, items, part
from grove.cluster.apiserver.printers.human_duration import format_age
from grove.cluster.apiserver.printers.pod_printer import POD_COLUMNS, print_pod
from grove.cluster.apiserver.registry.hpa import format_targets
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.custom_resource import Column

Cells = list[Any]
Row = Callable[[JsonObject, datetime], Cells]

_NONE = "<none>"
# Almost all columns of built-in kinds have the type string on a real API server.
_TYPES = {"Value": "integer", "Global-Default": "boolean", "Allowed Disruptions": "integer", "Desired": "integer",
          "Available": "integer"}  # fmt: skip


class TableColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Column definitions, and the function that builds the cells of one object in the same order."""

    columns: tuple[JsonObject, ...]
    row: Row


@cache
def get_table_columns(resource_info: ResourceInfo) -> TableColumns:
    if resource_info.custom is not None:
        return _build_custom_columns(resource_info.custom.columns or (_AGE,))
    names, row = _BUILT_IN.get(resource_info.plural, (("Name", "Age"), _print_name_and_age))
    return TableColumns(columns=tuple(_build_column(name) for name in names), row=row)


def _build_column(name: str) -> JsonObject:
    """Return a column definition. A leading `+` marks a column that only `-o wide` prints."""
    is_wide, plain = name.startswith("+"), name.lstrip("+")
    kind = _TYPES.get(plain, "string")
    return {
        "name": plain,
        "type": kind,
        "format": "name" if plain == "Name" else "",
        "description": "",
        "priority": int(is_wide),
    }


# Custom kinds

_AGE = Column(name="Age", type="date", json_path=".metadata.creationTimestamp")


def _build_custom_columns(columns: tuple[Column, ...]) -> TableColumns:
    name = _build_column("Name")
    finds = [(_compile_path(column.json_path), column.type) for column in columns]

    def row(obj: JsonObject, now: datetime) -> Cells:
        return [obj["metadata"]["name"], *(_cell(find(obj), type_, now) for find, type_ in finds)]

    return TableColumns(columns=(name, *(_build_custom_column(column) for column in columns)), row=row)


def _build_custom_column(column: Column) -> JsonObject:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _cell(value: Any, type_: str, now: datetime) -> Any:
    match type_:
        case "date":
            return _age_cell(value, now) if isinstance(value, str) else None
        case "string":
            return _text_cell(value)
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer":
            return int(value) if _is_number(value) else None
        case "number":
            return value if _is_number(value) else None
        case _:
            return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _age_cell(value: str, now: datetime) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return "<invalid>"
    return format_age(value, now)


def _text_cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


_STEP = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)
    |\['(?P<quoted>[^']*)'\]
    |\[\?\(@\.(?P<key>[\w.]+)\s*==\s*(?:"(?P<wanted>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[\w.]+))\)\]
    |\[(?P<start>-?\d+)?(?P<colon>:)?(?P<end>-?\d+)?\]
    |\[\*\]""",
    re.VERBOSE,
)


def _compile_path(text: str) -> Callable[[JsonObject], Any]:
    """Compile the subset of JSONPath that printer columns use. The first of several matches is returned."""
    steps = list(_STEP.finditer(text))

    def find(obj: JsonObject) -> Any:
        found: list[Any] = [obj]
        for step in steps:
            found = [inner for each in found for inner in _follow_step(each, step)]
        return found[0] if found else None

    return find


def _follow_step(found: Any, step: re.Match[str]) -> list[Any]:
    """Return all matches of one step."""
    if step["field"] is not None or step["quoted"] is not None:
        name = step["quoted"] if step["field"] is None else re.sub(r"\\(.)", r"\1", step["field"])
        return [found[name]] if isinstance(found, dict) and name in found else []
    if not isinstance(found, list):
        return []
    if step["key"]:
        wanted = next(text for text in (step["wanted"], step["single"], step["bare"]) if text is not None)
        steps = tuple(step["key"].split("."))
        return [item for item in found if _text_cell(at(item, steps)) == wanted]
    if step["colon"]:
        bounds = [None if step[name] is None else int(step[name]) for name in ("start", "end")]
        return found[slice(*bounds)]
    if step["start"] is not None:
        index = int(step["start"])
        return [found[index]] if -len(found) <= index < len(found) else []
    return found


# Built-in kinds


def _age(obj: JsonObject, now: datetime) -> str:
    return format_age(obj["metadata"].get("creationTimestamp"), now)


def _print_name_and_age(obj: JsonObject, now: datetime) -> Cells:
    return [obj["metadata"]["name"], _age(obj, now)]


def _print_namespace(obj: JsonObject, now: datetime) -> Cells:
    return [obj["metadata"]["name"], _status(obj).get("phase", ""), _age(obj, now)]


def _print_node(obj: JsonObject, now: datetime) -> Cells:
    info = part(_status(obj).get("nodeInfo"))
    addresses = {each.get("type"): each.get("address") for each in items(_status(obj).get("addresses"))}
    return [
        obj["metadata"]["name"],
        _node_state(obj),
        _node_roles(obj),
        _age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or _NONE,
        addresses.get("ExternalIP") or _NONE,
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _node_state(obj: JsonObject) -> str:
    ready = [each.get("status") for each in items(_status(obj).get("conditions")) if each.get("type") == "Ready"]
    states = ["Unknown" if not ready else "Ready" if ready[0] == "True" else "NotReady"]
    if _spec(obj).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _node_roles(obj: JsonObject) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or _NONE


def _join(*parts: Any) -> str:
    """Join values that may not be strings."""
    return ", ".join(str(part) for part in parts if part)


def _print_event(obj: JsonObject, now: datetime) -> Cells:
    about = part(obj.get("involvedObject"))
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    source = part(obj.get("source"))
    return [
        format_age(obj.get("lastTimestamp") or first, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        _join(
            source.get("component") or obj.get("reportingComponent"), source.get("host") or obj.get("reportingInstance")
        ),
        str(obj.get("message", "")).strip(),
        format_age(first, now),
        obj.get("count", 1),
        obj["metadata"]["name"],
    ]


def _print_service(obj: JsonObject, now: datetime) -> Cells:
    spec = _spec(obj)
    ports = [_format_port(port) for port in items(spec.get("ports"))]
    external = spec.get("externalIPs") or ([spec["externalName"]] if spec.get("externalName") else [])
    # The embedded cluster assigns no external addresses.
    missing = "<pending>" if spec.get("type") == "LoadBalancer" else _NONE
    return [
        obj["metadata"]["name"],
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or _NONE,
        ",".join(map(str, external)) or missing,
        ",".join(ports) or _NONE,
        _age(obj, now),
        ",".join(f"{key}={value}" for key, value in part(spec.get("selector")).items()) or _NONE,
    ]


def _format_port(port: JsonObject) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


def _print_configmap(obj: JsonObject, now: datetime) -> Cells:
    count = len(part(obj.get("data"))) + len(part(obj.get("binaryData")))
    return [obj["metadata"]["name"], count, _age(obj, now)]


def _print_secret(obj: JsonObject, now: datetime) -> Cells:
    return [obj["metadata"]["name"], obj.get("type", "Opaque"), len(part(obj.get("data"))), _age(obj, now)]


def _print_quota(obj: JsonObject, now: datetime) -> Cells:
    hard, used = part(_status(obj).get("hard")), part(_status(obj).get("used"))
    shown = {name: f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard)}
    limits = [text for name, text in shown.items() if name.startswith("limits.")]
    requests = [text for name, text in shown.items() if not name.startswith("limits.")]
    return [obj["metadata"]["name"], ", ".join(requests), ", ".join(limits), _age(obj, now)]


def _print_lease(obj: JsonObject, now: datetime) -> Cells:
    return [obj["metadata"]["name"], _spec(obj).get("holderIdentity", ""), _age(obj, now)]


def _print_autoscaler(obj: JsonObject, now: datetime) -> Cells:
    spec, target = _spec(obj), part(_spec(obj).get("scaleTargetRef"))
    return [
        obj["metadata"]["name"],
        f"{target.get('kind', '')}/{target.get('name', '')}",
        format_targets(spec, _status(obj)),
        spec.get("minReplicas", 1),
        spec.get("maxReplicas", 0),
        _status(obj).get("currentReplicas", 0),
        _age(obj, now),
    ]


def _print_scale(obj: JsonObject, now: datetime) -> Cells:
    return [obj["metadata"]["name"], _spec(obj).get("replicas", 0), _status(obj).get("replicas", 0), _age(obj, now)]


def _print_revision(obj: JsonObject, now: datetime) -> Cells:
    owners = [each for each in items(obj["metadata"].get("ownerReferences")) if each.get("controller")]
    return [
        obj["metadata"]["name"],
        _format_owner(owners[0]) if owners else _NONE,
        obj.get("revision", 0),
        _age(obj, now),
    ]


def _format_owner(reference: JsonObject) -> str:
    group, _, _ = reference.get("apiVersion", "").rpartition("/")
    kind = ".".join(filter(None, (reference.get("kind", ""), group)))
    return f"{kind.lower()}/{reference.get('name', '')}"


def _print_budget(obj: JsonObject, now: datetime) -> Cells:
    limits = [_spec(obj).get(field) for field in ("minAvailable", "maxUnavailable")]
    shown = ["N/A" if limit is None else str(limit) for limit in limits]
    return [obj["metadata"]["name"], *shown, _status(obj).get("disruptionsAllowed", 0), _age(obj, now)]


def _print_priority_class(obj: JsonObject, now: datetime) -> Cells:
    policy = obj.get("preemptionPolicy", "PreemptLowerPriority")
    return [obj["metadata"]["name"], obj.get("value", 0), bool(obj.get("globalDefault")), _age(obj, now), policy]


def _print_binding(obj: JsonObject, now: datetime) -> Cells:
    reference, subjects = part(obj.get("roleRef")), items(obj.get("subjects"))
    users, groups, accounts = (
        ", ".join(_format_subject(each) for each in subjects if each.get("kind") == kind)
        for kind in ("User", "Group", "ServiceAccount")
    )
    role = f"{reference.get('kind', '')}/{reference.get('name', '')}"
    return [obj["metadata"]["name"], role, _age(obj, now), users, groups, accounts]


def _format_subject(subject: JsonObject) -> str:
    name = str(subject.get("name", ""))
    return f"{subject['namespace']}/{name}" if subject.get("namespace") else name


def _print_webhooks(obj: JsonObject, now: datetime) -> Cells:
    return [obj["metadata"]["name"], len(items(obj.get("webhooks"))), _age(obj, now)]


def _print_name_and_creation(obj: JsonObject, now: datetime) -> Cells:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp", "")]


def _spec(obj: JsonObject) -> JsonObject:
    return part(obj.get("spec"))


def _status(obj: JsonObject) -> JsonObject:
    return part(obj.get("status"))


_BINDING_COLUMNS = ("Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts")
_BUILT_IN: dict[str, tuple[tuple[str, ...], Row]] = {
    "pods": (POD_COLUMNS, print_pod),
    "nodes": (
        (
            "Name", "Status", "Roles", "Age", "Version", "+Internal-IP", "+External-IP", "+OS-Image",
            "+Kernel-Version", "+Container-Runtime",
        ),
        _print_node,
    ),
    "events": (
        (
            "Last Seen", "Type", "Reason", "Object", "+Subobject", "+Source", "Message", "+First Seen", "+Count",
            "+Name",
        ),
        _print_event,
    ),
    "services": (("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "+Selector"), _print_service),
    "namespaces": (("Name", "Status", "Age"), _print_namespace),
    "configmaps": (("Name", "Data", "Age"), _print_configmap),
    "secrets": (("Name", "Type", "Data", "Age"), _print_secret),
    "resourcequotas": (("Name", "Request", "Limit", "Age"), _print_quota),
    "leases": (("Name", "Holder", "Age"), _print_lease),
    "horizontalpodautoscalers": (
        ("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"),
        _print_autoscaler,
    ),
    "scales": (("Name", "Desired", "Available", "Age"), _print_scale),
    "controllerrevisions": (("Name", "Controller", "Revision", "Age"), _print_revision),
    "poddisruptionbudgets": (("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"), _print_budget),
    "priorityclasses": (("Name", "Value", "Global-Default", "Age", "PreemptionPolicy"), _print_priority_class),
    "customresourcedefinitions": (("Name", "Created At"), _print_name_and_creation),
    "roles": (("Name", "Created At"), _print_name_and_creation),
    "clusterroles": (("Name", "Created At"), _print_name_and_creation),
    "rolebindings": (_BINDING_COLUMNS, _print_binding),
    "clusterrolebindings": (_BINDING_COLUMNS, _print_binding),
    "mutatingwebhookconfigurations": (("Name", "Webhooks", "Age"), _print_webhooks),
    "validatingwebhookconfigurations": (("Name", "Webhooks", "Age"), _print_webhooks),
}  # fmt: skip
