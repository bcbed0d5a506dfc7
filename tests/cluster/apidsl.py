"""Requests in one line, for tests of the API. They know only a transport, so they can be pointed at any API server."""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from grove.api.types.admission import AdmissionControl
from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.apiserver.metrics.pod_usage import UsageSource
from grove.cluster.apiserver.verbs.logs import NO_LOGS, LogSource
from grove.cluster.in_process_transport import InProcessTransport
from grove.kube.transport import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Transport
from grove.sim.virtual_clock import run_virtual

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
CLIQUES = "/apis/grove.io/v1alpha1/namespaces/default/podcliques"
CONFIGS = "/api/v1/namespaces/default/configmaps"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: JsonObject
    headers: dict[str, str]

    @property
    def metadata(self) -> JsonObject:
        metadata: JsonObject = self.body["metadata"]
        return metadata

    @property
    def refusal(self) -> tuple[int, str, str]:
        return self.status, self.body.get("reason", ""), self.body.get("message", "")

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]


class Api:
    """One client of one cluster."""

    def __init__(self, transport: Transport, clock: LoopClock, server: ApiServer) -> None:
        self.transport = transport
        self.clock = clock
        # Only for what no client could do: compacting the history, starting controllers.
        self.server = server

    async def get(self, path: str, **query: str) -> Answer:
        return await self._send("GET", path, query=query)

    async def get_as(self, accept: str, path: str, **query: str) -> Answer:
        """As `get`, in the form that `accept` names."""
        response = await self.transport.send(Request(method="GET", path=path, query=query, accept=accept))
        return Answer(response.status, msgspec.json.decode(response.body), dict(response.headers))

    async def post(self, path: str, body: Any, **query: str) -> Answer:
        return await self._send("POST", path, body, query=query)

    async def put(self, path: str, body: Any, **query: str) -> Answer:
        return await self._send("PUT", path, body, query=query)

    async def merge(self, path: str, patch: Any, **query: str) -> Answer:
        return await self._send("PATCH", path, patch, content_type=MERGE_PATCH, query=query)

    async def json_patch(self, path: str, *operations: JsonObject) -> Answer:
        return await self._send("PATCH", path, list(operations), content_type=JSON_PATCH)

    async def strategic(self, path: str, patch: JsonObject) -> Answer:
        return await self._send("PATCH", path, patch, content_type=STRATEGIC_PATCH)

    async def delete(self, path: str, options: JsonObject | None = None, **query: str) -> Answer:
        return await self._send("DELETE", path, options, query=query)

    async def send_raw(
        self, method: str, path: str, body: bytes, content_type: str = "application/json", **query: str
    ) -> Answer:
        response = await self.transport.send(
            Request(method=method, path=path, query=query, body=body, content_type=content_type)
        )
        return Answer(response.status, msgspec.json.decode(response.body), dict(response.headers))

    @asynccontextmanager
    async def watch(self, path: str, *, accept: str = "", **query: str) -> AsyncIterator["Watch"]:
        request = Request(method="GET", path=path, query={"watch": "true", **query}, accept=accept)
        async with self.transport.stream(request) as lines:
            yield Watch(lines)

    async def bind(self, pod: str, node: str, uid: str = "") -> Answer:
        return await self.post(
            f"{PODS}/{pod}/binding", {"metadata": {"name": pod, "uid": uid}, "target": {"kind": "Node", "name": node}}
        )

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        query: dict[str, str] | None = None,
    ) -> Answer:
        response = await self.transport.send(
            Request(
                method=method,
                path=path,
                query=query or {},
                body=b"" if body is None else msgspec.json.encode(body),
                content_type=content_type,
            )
        )
        return Answer(response.status, msgspec.json.decode(response.body), dict(response.headers))


class Watch:
    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    async def event(self) -> JsonObject:
        event: JsonObject = msgspec.json.decode(await anext(self._lines))
        return event

    async def next(self) -> tuple[str, str]:
        """Type and name of the next event."""
        event = await self.event()
        return event["type"], event["object"]["metadata"].get("name", "")

    async def all(self) -> list[tuple[str, str]]:
        """Type and name of every event until the server ends the watch."""
        events = [msgspec.json.decode(line) async for line in self._lines]
        return [(event["type"], event["object"].get("metadata", {}).get("name", "")) for event in events]


def fresh_api(
    *,
    admission: AdmissionControl | None = None,
    history: int = 100_000,
    logs: LogSource = NO_LOGS,
    usage: UsageSource | None = None,
) -> Api:
    """A client of a new, empty cluster."""
    clock = LoopClock(NOON)
    server = ApiServer(clock, Random(7), admission=admission, history=history, logs=logs, usage=usage)
    return Api(InProcessTransport(server, clock), clock, server)


Story = Callable[..., Coroutine[Any, Any, None]]
Test = Callable[..., None]


def on_cluster(story: Story) -> Test:
    """A test that is told as a coroutine: its argument `api` is a client of a fresh cluster in virtual time."""
    return on_cluster_with()(story)


def on_cluster_with(
    *, admission: AdmissionControl | None = None, history: int = 100_000, usage: UsageSource | None = None
) -> Callable[[Story], Test]:
    """As `on_cluster`, on a cluster with these settings."""

    def make_test(story: Story) -> Test:
        async def tell(arguments: dict[str, Any]) -> None:
            await story(fresh_api(admission=admission, history=history, usage=usage), **arguments)

        def test(**arguments: Any) -> None:
            run_virtual(tell(arguments))

        test.__name__, test.__doc__, test.__module__ = story.__name__, story.__doc__, story.__module__
        # What is left of the signature are the arguments that pytest fills in.
        signature = inspect.signature(story)
        arguments = [each for name, each in signature.parameters.items() if name != "api"]
        test.__dict__["__signature__"] = signature.replace(parameters=arguments)
        return test

    return make_test


def config(name: str, **metadata: Any) -> JsonObject:
    """A kind without rules of its own."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


CLIQUE_SPEC: JsonObject = {"roleName": "worker", "podSpec": {"containers": []}, "replicas": 1}


def clique(name: str, *, spec: JsonObject | None = None, **metadata: Any) -> JsonObject:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {"name": name, **metadata},
        "spec": {**CLIQUE_SPEC, **(spec or {})},
    }


def pod(name: str, *, gates: tuple[str, ...] = (), spec: JsonObject | None = None, **metadata: Any) -> JsonObject:
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    gated: JsonObject = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [container], **gated, **(spec or {})},
    }


def node(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def owner(answer: Answer, *, is_blocking: bool = False) -> JsonObject:
    """A reference to the object that was answered."""
    return {
        "apiVersion": answer.body["apiVersion"],
        "kind": answer.body["kind"],
        "name": answer.metadata["name"],
        "uid": answer.metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": is_blocking,
    }
