"""Compute which resources of nodes and racks are free, and which sets hold or wait for them. Pure."""

from collections.abc import Iterable, Sequence

from grove.api import labels
from grove.api.types.meta import Condition, JsonObject, ObjectMeta, WireStruct, is_condition_true
from grove.api.types.pod import PodStatus
from grove.api.values.pod_requests import Quantity, pod_requests, read_milli
from grove.api.values.quantities import format_resource

RACK = "topology.kubernetes.io/rack"
# Pods that are of no set.
OTHERS = "other pods"
_ENDED = ("Succeeded", "Failed")
# Always shown last, in this order; extended resources such as GPUs come first.
_COMMON = ("cpu", "memory")
PODS = "pods"
_IGNORED = (PODS, "ephemeral-storage")


class TopNodeSpec(WireStruct):
    unschedulable: bool = False


class TopNodeStatus(WireStruct):
    allocatable: dict[str, Quantity] = {}
    conditions: tuple[Condition, ...] = ()


class TopNode(WireStruct):
    """A node, with the fields that show what pods can get from it."""

    metadata: ObjectMeta
    spec: TopNodeSpec = TopNodeSpec()
    status: TopNodeStatus = TopNodeStatus()

    @property
    def note(self) -> str:
        """Return why no new pod can get anything from it, or an empty text."""
        if not is_condition_true(self.status.conditions, "Ready"):
            return "not ready"
        return "cordoned" if self.spec.unschedulable else ""


class TopPod(WireStruct):
    """A pod, with the whole spec that its requests are in."""

    metadata: ObjectMeta
    spec: JsonObject = {}
    status: PodStatus = PodStatus()


Amounts = dict[str, int]


class PlaceUse(WireStruct):
    """The resources of a node, a rack or all nodes, in thousandths."""

    name: str
    # Why a node takes no new pods; its free resources are zero.
    note: str = ""
    total: Amounts = {}
    free: Amounts = {}
    # Amounts in use, by set: `namespace/name`.
    held: dict[str, Amounts] = {}
    # Of a rack.
    nodes: "tuple[PlaceUse, ...]" = ()


class SetUse(WireStruct):
    """What the pods of a set hold, and what its pods without a node wait for."""

    name: str
    held: Amounts = {}
    waits_for: Amounts = {}
    pods: int = 0
    waiting_pods: int = 0
    nodes: int = 0


class Usage(WireStruct):
    resources: tuple[str, ...]
    cluster: PlaceUse
    # Racks with their nodes; a node without the label of a rack is an entry of its own.
    places: tuple[PlaceUse, ...]
    sets: tuple[SetUse, ...]


def compute_usage(nodes: Sequence[TopNode], pods: Sequence[TopPod], rack_label: str = RACK) -> Usage:
    live = [pod for pod in pods if pod.status.phase not in _ENDED]
    held = _held_by_node(live)
    places: dict[str, list[PlaceUse]] = {}
    for node in sorted(nodes, key=lambda node: _natural(node.metadata.name)):
        used = _node_use(node, held.get(node.metadata.name, {}))
        places.setdefault(node.metadata.labels.get(rack_label, ""), []).append(used)
    racks = [_merge(name, places[name]) for name in sorted(places, key=_natural) if name]
    every = [use for uses in places.values() for use in uses]
    return Usage(
        resources=_list_resources(every),
        cluster=_merge("cluster", every),
        places=(*racks, *places.get("", ())),
        sets=_set_uses(live),
    )


def _list_resources(nodes: Iterable[PlaceUse]) -> tuple[str, ...]:
    found = {name for node in nodes for name, amount in node.total.items() if amount and name not in _IGNORED}
    extended = sorted(name for name in found if name not in _COMMON)
    return (*extended, *(name for name in _COMMON if name in found))


def _held_by_node(pods: Iterable[TopPod]) -> dict[str, dict[str, Amounts]]:
    found: dict[str, dict[str, Amounts]] = {}
    for pod in pods:
        node = str(pod.spec.get("nodeName") or "")
        if node:
            _add(found.setdefault(node, {}).setdefault(holder_of(pod), {}), _requests(pod))
    return found


def _requests(pod: TopPod) -> Amounts:
    return pod_requests(pod.spec) | {PODS: 1000}


def holder_of(pod: TopPod) -> str:
    """Return the set of a pod, with its namespace."""
    of_set = pod.metadata.labels
    if of_set.get(labels.MANAGED_BY) == labels.MANAGED_BY_VALUE and of_set.get(labels.PART_OF):
        return f"{pod.metadata.namespace}/{of_set[labels.PART_OF]}"
    return OTHERS


def _node_use(node: TopNode, held: dict[str, Amounts]) -> PlaceUse:
    total = {name: read_milli(amount) for name, amount in node.status.allocatable.items()}
    used: Amounts = {}
    for amounts in held.values():
        _add(used, amounts)
    free = {name: 0 if node.note else max(0, amount - used.get(name, 0)) for name, amount in total.items()}
    return PlaceUse(name=node.metadata.name, note=node.note, total=total, free=free, held=held)


def _merge(name: str, nodes: Sequence[PlaceUse]) -> PlaceUse:
    total: Amounts = {}
    free: Amounts = {}
    held: dict[str, Amounts] = {}
    for node in nodes:
        _add(total, node.total)
        _add(free, node.free)
        for holder, amounts in node.held.items():
            _add(held.setdefault(holder, {}), amounts)
    return PlaceUse(name=name, total=total, free=free, held=held, nodes=tuple(nodes))


def _set_uses(pods: Iterable[TopPod]) -> tuple[SetUse, ...]:
    by_set: dict[str, list[TopPod]] = {}
    for pod in pods:
        by_set.setdefault(holder_of(pod), []).append(pod)
    return tuple(_set_use(name, by_set[name]) for name in sorted(by_set, key=lambda name: (name == OTHERS, name)))


def _set_use(name: str, pods: Sequence[TopPod]) -> SetUse:
    held: Amounts = {}
    waits_for: Amounts = {}
    placed = [pod for pod in pods if pod.spec.get("nodeName")]
    for pod in pods:
        _add(held if pod.spec.get("nodeName") else waits_for, _requests(pod))
    return SetUse(
        name=name,
        held=held,
        waits_for=waits_for,
        pods=len(placed),
        waiting_pods=len(pods) - len(placed),
        nodes=len({pod.spec["nodeName"] for pod in placed}),
    )


def _add(total: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _natural(name: str) -> tuple[object, ...]:
    """Sort `node-10` after `node-9`."""
    head, _, number = name.rpartition("-")
    return (head, int(number), "") if number.isdecimal() else (name, -1, "")


def usage_json(usage: Usage) -> JsonObject:
    """Return the usage with amounts as quantities."""
    return {
        "resources": usage.resources,
        "cluster": _place_json(usage.cluster, has_nodes=False),
        "places": [_place_json(place, has_nodes=True) for place in usage.places],
        "sets": [
            {
                "name": one.name,
                "held": _quantities(one.held),
                "waitsFor": _quantities(one.waits_for),
                "pods": one.pods,
                "waitingPods": one.waiting_pods,
                "nodes": one.nodes,
            }
            for one in usage.sets
        ],
    }


def _place_json(place: PlaceUse, *, has_nodes: bool) -> JsonObject:
    found: JsonObject = {
        "name": place.name,
        "note": place.note,
        "total": _quantities(place.total),
        "free": _quantities(place.free),
        "held": {holder: _quantities(amounts) for holder, amounts in place.held.items()},
    }
    return found | ({"nodes": [_place_json(node, has_nodes=False) for node in place.nodes]} if has_nodes else {})


def _quantities(amounts: Amounts) -> dict[str, str]:
    return {name: format_resource(name, amount) for name, amount in sorted(amounts.items())}
