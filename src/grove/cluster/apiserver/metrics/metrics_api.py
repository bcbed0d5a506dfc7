"""The resource metrics API, `metrics.k8s.io/v1beta1`: the usage of pods and nodes, as `kubectl top` reads it.

Nothing is stored: every request asks the kubelet's `UsageSource`. The usage of a node is that of its pods.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.values.quantities import format_binary, format_decimal
from grove.cluster.apiserver.codec.selectors import Selection, parse_selection
from grove.cluster.apiserver.metrics.pod_usage import ContainerUsage, PodUsage, UsageSource
from grove.cluster.apiserver.registry.metadata import format_time
from grove.cluster.apiserver.status_errors import method_not_allowed, not_found, unknown_path
from grove.cluster.built_in_resources import NODES, PODS, ResourceInfo, with_derived_fields
from grove.cluster.storage.store import Entry, Storage
from grove.kube.transport import Request, Response

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
PREFIX = f"/apis/{GROUP}/{VERSION}/"
POD_METRICS = with_derived_fields(ResourceInfo(group=GROUP, version=VERSION, plural="pods", kind="PodMetrics"))
NODE_METRICS = with_derived_fields(
    ResourceInfo(group=GROUP, version=VERSION, plural="nodes", kind="NodeMetrics", namespaced=False)
)


class MetricsApi:
    """The handler of all requests below `PREFIX`."""

    def __init__(self, store: Storage, usage: UsageSource) -> None:
        self._store = store
        self._usage = usage

    def handle(self, request: Request, now: datetime) -> Response:
        """Handle a read. Raises `StatusError`."""
        if request.method != "GET":
            raise method_not_allowed()
        selection = parse_selection(PODS, request.query.get("labelSelector", ""), "")
        match request.path.removeprefix(PREFIX).rstrip("/").split("/"):
            case ["pods"]:
                found = self._list_pods(None, selection, now)
            case ["namespaces", namespace, "pods"]:
                found = self._list_pods(namespace, selection, now)
            case ["namespaces", namespace, "pods", name]:
                return _respond(self._read_pod(namespace, name, now))
            case ["nodes"]:
                found = self._list_nodes(selection, now)
            case ["nodes", name]:
                return _respond(self._read_node(name, now))
            case _:
                raise unknown_path()
        return _respond(found)

    def _list_pods(self, namespace: str | None, selection: Selection, now: datetime) -> JsonObject:
        entries = [entry for entry in self._store.table(PODS).entries(namespace) if selection.matches(entry.obj)]
        return _build_list(POD_METRICS, self._measure_pods(entries, now))

    def _read_pod(self, namespace: str, name: str, now: datetime) -> JsonObject:
        entry = self._store.table(PODS).find(namespace, name)
        measured = [] if entry is None else self._measure_pods([entry], now)
        if not measured:
            raise not_found(POD_METRICS, f"{namespace}/{name}")
        return measured[0]

    def _measure_pods(self, entries: Iterable[Entry], now: datetime) -> list[JsonObject]:
        pods = [entry.obj for entry in entries]
        measured = self._usage.measure(self._store, pods, now)
        return [
            _build_metrics(POD_METRICS, pod, usage, {"containers": [_build_container(one) for one in usage.containers]})
            for pod in pods
            if (usage := measured.get(pod["metadata"]["uid"])) is not None
        ]

    def _list_nodes(self, selection: Selection, now: datetime) -> JsonObject:
        nodes = [entry.obj for entry in self._store.table(NODES).entries("") if selection.matches(entry.obj)]
        return _build_list(NODE_METRICS, self._measure_nodes(nodes, now))

    def _read_node(self, name: str, now: datetime) -> JsonObject:
        entry = self._store.table(NODES).find("", name)
        if entry is None:
            raise not_found(NODE_METRICS, name)
        return self._measure_nodes([entry.obj], now)[0]

    def _measure_nodes(self, nodes: list[JsonObject], now: datetime) -> list[JsonObject]:
        pods = [entry.obj for entry in self._store.table(PODS).entries(None)]
        measured = self._usage.measure(self._store, pods, now)
        by_node: dict[str, list[PodUsage]] = {}
        for pod in pods:
            if (usage := measured.get(pod["metadata"]["uid"])) is not None:
                by_node.setdefault(pod["spec"].get("nodeName", ""), []).append(usage)
        return [_build_node(node, by_node.get(node["metadata"]["name"], []), now) for node in nodes]


def _build_node(node: JsonObject, usages: list[PodUsage], now: datetime) -> JsonObject:
    total = ContainerUsage(
        name="",
        cpu_milli=sum(usage.amount("cpu") or 0 for usage in usages),
        memory_bytes=sum(usage.amount("memory") or 0 for usage in usages) // 1000,
    )
    longest = max(usages, key=lambda usage: usage.window, default=None)
    whole = PodUsage(at=now, window=longest.window if longest else now - now, containers=(total,))
    return _build_metrics(NODE_METRICS, node, whole, {"usage": _build_usage(total)})


def _build_metrics(kind: ResourceInfo, obj: JsonObject, usage: PodUsage, content: JsonObject) -> JsonObject:
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace", "labels") if key in obj["metadata"]}
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {**metadata, "creationTimestamp": format_time(usage.at)},
        "timestamp": format_time(usage.at),
        "window": f"{usage.window.total_seconds():g}s",
        **content,
    }


def _build_container(usage: ContainerUsage) -> JsonObject:
    return {"name": usage.name, "usage": _build_usage(usage)}


def _build_usage(usage: ContainerUsage) -> JsonObject:
    """Return the measured resources. `kubectl top` needs both, so what is not measured is 0."""
    return {
        "cpu": format_decimal(usage.cpu_milli or 0),
        "memory": format_binary((usage.memory_bytes or 0) * 1000),
    }


def _build_list(kind: ResourceInfo, found: list[JsonObject]) -> JsonObject:
    # Items of a list have no kind of their own.
    bare = [{key: value for key, value in one.items() if key not in ("kind", "apiVersion")} for one in found]
    return {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": {}, "items": bare}


def _respond(body: JsonObject) -> Response:
    return Response(status=200, body=msgspec.json.encode(body))
