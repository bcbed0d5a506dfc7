"""A cluster under test, and a namespace of it as the scene of a story. Everything goes through the API, over HTTP.

Processes beside the cluster (operators, proxies) are in files of their own.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
import yaml

from grove.api.resources import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    EVENTS,
    GROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    SERVICES,
    Object,
    Resource,
)
from grove.api.types.meta import HasMetadata, JsonObject, ObjectMeta, WireStruct
from grove.api.types.pod import Pod
from grove.clock import Clock, LoopClock
from grove.cluster.built_in_resources import SERVED
from grove.cluster.node_pod_cache import NODE_VIEW
from grove.cluster.nodes import Nodes
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access
from grove.kube.response_decoding import check
from grove.kube.transport import MERGE_PATCH, Request
from grove.sim.simulation import SimulatedApply
from tests.e2e.operators import Operator
from tests.simulation.restored import unrestored
from tests.simulation.stories import left_of_sets

T = TypeVar("T", bound=HasMetadata)

# A safety net, far above what anything takes; Kubernetes' garbage collector alone may take half a minute.
WAIT_SECONDS = 180.0
POLL_SECONDS = 0.1
NODE_RESOURCES = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "250"}
NODES_OF = "e2e.grove.io/scene"
_WATCHED: tuple[Resource[Any], ...] = (
    PODCLIQUESETS, PODCLIQUES, GROUPS, PODGANGS, SERVICES, PODS, RESOURCE_QUOTAS, CONTROLLER_REVISIONS,
    ROLES, ROLE_BINDINGS, AUTOSCALERS,
)  # fmt: skip
_NAMESPACES = Resource(group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, view=Object)
_ACCOUNTS = Resource(group="", version="v1", plural="serviceaccounts", kind="ServiceAccount", view=Object)
_EVERYTHING = tuple(
    Resource(
        group=resource_info.group,
        version=resource_info.version,
        plural=resource_info.plural,
        kind=resource_info.kind,
        view=Object,
    )
    for resource_info in SERVED
    if resource_info.namespaced
)
_BY_KIND = {(resource_info.api_version, resource_info.kind): resource_info for resource_info in SERVED}
_numbers = count()


class Cluster:
    """`async with Cluster(kubeconfig) as cluster:` - an administrator's connection to it, and who operates it."""

    def __init__(self, kubeconfig: Path, *, operators: tuple[Operator, ...] = ()) -> None:
        self.kubeconfig = kubeconfig
        self.operators = operators
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.clock: Clock = LoopClock.starting_now()
        transport = HttpTransport(find_access({}, kubeconfig=self.kubeconfig), self.clock)
        self.transport = await self._closing.enter_async_context(transport)
        self.client = Client(self.transport, self.clock)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.aclose()

    async def stage(self, *, has_nodes: bool = True) -> "Stage":
        """A new namespace; without nodes, what is applied in it finds only nodes that the story adds."""
        namespace = f"story-{next(_numbers)}"
        await self.client.create(_NAMESPACES, "", {"metadata": {"name": namespace}})
        await self._furnished(namespace)
        return Stage(self, namespace, has_nodes=has_nodes)

    async def _furnished(self, namespace: str) -> None:
        """Until it has the account that pods run under; a controller makes it, and before that they are refused."""
        deadline = self.clock.monotonic() + WAIT_SECONDS
        while not (await self.client.list(_ACCOUNTS, namespace=namespace)).items:
            assert self.clock.monotonic() < deadline, f"{namespace} has no account"
            await self.clock.sleep(POLL_SECONDS)


class Stage:
    """One namespace of a cluster; implements `tests.scene.Scene`. What is seen is as of the last wait."""

    def __init__(self, cluster: Cluster, namespace: str, *, has_nodes: bool) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.client = cluster.client
        # For how many seconds something is waited for.
        self.patience = WAIT_SECONDS
        # What a node that the story adds has to offer.
        self.node_resources: Mapping[str, str] = NODE_RESOURCES
        self._has_nodes = has_nodes
        self._seen: dict[str, tuple[bytes, ...]] = {}
        # The revision of the store at which each kind was last listed, and that at which a look at all of these began.
        self._revisions: dict[str, str] = {}
        self._looks: dict[tuple[tuple[Resource[Any], ...], ...], str] = {}

    # What people do

    async def apply(self, manifest: JsonObject | Path) -> tuple[SimulatedApply, ...]:
        return tuple([await self._apply_one(document) for document in _documents(manifest)])

    async def scale(self, resource: Resource[Any], name: str, replicas: int) -> None:
        body = {"spec": {"replicas": replicas}}
        await self._ask("PATCH", resource.path(self.namespace, name, "scale"), body)

    async def delete(self, resource: Resource[Any], name: str) -> None:
        await self.client.delete(resource, self.namespace, name)

    async def add_nodes(self, number: int) -> object:
        nodes = Nodes(self.client, self.cluster.clock)
        names = await nodes.create(number, self.node_resources, {NODES_OF: self.namespace})
        await self.await_open(names)
        return names

    async def await_open(self, names: tuple[str, ...]) -> None:
        """Until pods can be placed on these: a new node is tainted until a controller has seen that it is ready."""
        deadline = self.cluster.clock.monotonic() + self.patience
        while tainted := await self._tainted(names):
            assert self.cluster.clock.monotonic() < deadline, f"still tainted: {tainted}"
            await self.cluster.clock.sleep(POLL_SECONDS)

    async def _tainted(self, names: tuple[str, ...]) -> list[str]:
        nodes = (await self.client.list(NODE_VIEW)).items
        return [node.metadata.name for node in nodes if node.metadata.name in names and node.spec.taints]

    async def clear(self) -> None:
        """Leave no work for the operator behind; nobody waits for the end of it."""
        for pcs in (await self.client.list(PODCLIQUESETS, namespace=self.namespace)).items:
            await self.client.delete(PODCLIQUESETS, self.namespace, pcs.metadata.name)

    # What they see

    def objects(self, resource: Resource[T], *, label_selector: str = "") -> tuple[T, ...]:
        wanted = dict(pair.split("=", 1) for pair in label_selector.split(",") if pair)
        found = (msgspec.json.decode(item, type=resource.view) for item in self._seen.get(resource.plural, ()))
        return tuple(obj for obj in found if wanted.items() <= obj.metadata.labels.items())

    def pods(self) -> tuple[Pod, ...]:
        return self.objects(PODS)

    def running_pods(self) -> tuple[Pod, ...]:
        return tuple(
            pod for pod in self.pods() if pod.status.phase == "Running" and not pod.metadata.is_terminating
        )  # fmt: skip

    async def settle(self) -> None:
        """Until everything is as it was asked for; then every kind is seen, also those that nobody asked for."""
        await self.wait_until(lambda: not unrestored(self))
        await self._look_at(_EVERYTHING)

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        clock = self.cluster.clock
        deadline = clock.monotonic() + self.patience
        while True:
            if await self.look() and holds():
                return
            for operator in self.cluster.operators:
                operator.check_alive()
            if clock.monotonic() > deadline:
                raise AssertionError(f"not so after {self.patience:g} s\n{await self.report()}")
            await clock.sleep(POLL_SECONDS)

    async def wait_until_nothing_is_left(self) -> None:
        """Of any kind; the cluster's own garbage collector takes its time."""
        deadline = self.cluster.clock.monotonic() + self.patience
        while not await self._look_if_changed(_EVERYTHING[:1], _EVERYTHING[1:]) or left_of_sets(self):
            left = left_of_sets(self)
            assert self.cluster.clock.monotonic() < deadline, f"left: {left}\n{await self.report()}"
            await self.cluster.clock.sleep(POLL_SECONDS)

    async def wait_for_events(self, *reasons: str) -> None:
        """Until all of these were told: they are written after what they tell of."""
        deadline = self.cluster.clock.monotonic() + self.patience
        while missing := set(reasons) - {event.reason for event in await self.events()}:
            assert self.cluster.clock.monotonic() < deadline, f"not told: {missing}\n{await self.report()}"
            await self.cluster.clock.sleep(POLL_SECONDS)

    async def events(self) -> tuple["SeenEvent", ...]:
        return (await self.client.list(EVENTS.viewed_as(SeenEvent), namespace=self.namespace)).items

    async def look(self) -> bool:
        """The sets first: what is seen of their children is never older. False: the server does not answer."""
        return await self._look_if_changed(*self._watched())

    def _watched(self) -> tuple[tuple[Resource[Any], ...], ...]:
        """The kinds of every look; none of a group is listed before all of the group before it were."""
        return _WATCHED[:1], _WATCHED[1:]

    async def _look_if_changed(self, *groups: tuple[Resource[Any], ...]) -> bool:
        """List the only kind of the first group, then the other groups, unless nothing was written since the last time.

        A list tells the revision of the whole store. While it stays the same, every list would answer the same, and
        asking ten times a second for all of them costs more than everything else in a story.
        """
        (first,), *others = groups
        if not await self._list(first):
            return False
        revision = self._revisions[first.plural]
        if revision and revision == self._looks.get(groups):
            return True
        for group in others:
            if not await self._look_at(group):
                return False
        self._looks[groups] = revision
        return True

    async def _look_at(self, resources: tuple[Resource[Any], ...]) -> bool:
        async with asyncio.TaskGroup() as tasks:
            looks = [tasks.create_task(self._list(resource)) for resource in resources]
        return all(look.result() for look in looks)

    async def _list(self, resource: Resource[Any]) -> bool:
        try:
            body = await self._ask("GET", resource.path(self.namespace))
        except ApiError as error:
            # Also "too many requests": a server that has just started says so.
            if not (error.is_outcome_unknown or error.code == 429):
                raise
            return False
        found = msgspec.json.decode(body, type=_Items)
        self._seen[resource.plural] = tuple(bytes(item) for item in found.items)
        self._revisions[resource.plural] = found.metadata.resource_version
        return True

    async def report(self) -> str:
        """What people would look at first: what is wrong, what was said about it, and the operator's last words."""
        await self._look_at((*_WATCHED, EVENTS))
        wrong = unrestored(self)
        sets = [
            f"{pcs.metadata.name}: {msgspec.json.encode(pcs.status).decode()}" for pcs in self.objects(PODCLIQUESETS)
        ]
        events = [_event_line(event) for event in self.objects(EVENTS.viewed_as(SeenEvent))]
        words = [line for operator in self.cluster.operators for line in operator.last_words.splitlines()]
        parts = {"not right": wrong[:40], "sets": sets[:10], "events": events[-30:], "operators": words}
        return "\n".join(f"--- {name}\n" + "\n".join(lines) for name, lines in parts.items())

    # How it is done

    async def _apply_one(self, document: JsonObject) -> SimulatedApply:
        resource_info = _BY_KIND[document["apiVersion"], document["kind"]]
        metadata = {**document["metadata"], "namespace": self.namespace}
        body = {**document, "metadata": metadata}
        if document["kind"] == PODCLIQUESETS.kind and not self._has_nodes:
            body = _on_nodes_of(self.namespace, body)
        path = resource_info.path(self.namespace, metadata["name"])
        try:
            answer = await self._ask("POST", path.rpartition("/")[0], body)
        except ApiError as error:
            if not error.is_already_exists:
                raise
            answer = await self._ask("PATCH", path, body)
        return SimulatedApply(object=msgspec.json.decode(answer))

    async def _ask(self, method: str, path: str, body: JsonObject | None = None) -> bytes:
        content = b"" if body is None else msgspec.json.encode(body)
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        request = Request(method=method, path=path, body=content, content_type=kind)
        response = await self.cluster.transport.send(request)
        check(request, response)
        return response.body


class _ListMeta(WireStruct):
    resource_version: str = ""


class _Items(msgspec.Struct, frozen=True, kw_only=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] = ()


class _Named(WireStruct):
    kind: str = ""
    name: str = ""


class SeenEvent(WireStruct):
    metadata: ObjectMeta
    involved_object: _Named = _Named()
    reason: str = ""
    message: str = ""
    count: int | None = None


def _documents(manifest: JsonObject | Path) -> list[JsonObject]:
    if isinstance(manifest, dict):
        return [manifest]
    return [document for document in yaml.safe_load_all(manifest.read_text()) if document]


def _event_line(event: SeenEvent) -> str:
    about = event.involved_object
    return f"{about.kind}/{about.name} {event.reason} (x{event.count or 1}): {event.message}"


def _on_nodes_of(namespace: str, manifest: JsonObject) -> JsonObject:
    """The same set, for which only the scene's own nodes will do."""
    changed: JsonObject = msgspec.json.decode(msgspec.json.encode(manifest))
    for clique in changed["spec"]["template"]["cliques"]:
        clique["spec"]["podSpec"]["nodeSelector"] = {NODES_OF: namespace}
    return changed


def uids(pods: tuple[Pod, ...]) -> Mapping[str, str]:
    """Which pod is which: its uid by its name."""
    return {pod.metadata.name: pod.metadata.uid for pod in pods}
