"""Requests in one line, to whichever API server a test is about, and the answers as they came."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.clock import Clock
from grove.kube.transport import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Transport

JSON = "application/json"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# A safety net, far above what anything takes. A real garbage collector learns of new kinds every 30 s only, and then
# tries again later and later.
PATIENCE_SECONDS = 180.0

_ROOTS = {
    "leases": "/apis/coordination.k8s.io/v1",
    "controllerrevisions": "/apis/apps/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
    "poddisruptionbudgets": "/apis/policy/v1",
    "priorityclasses": "/apis/scheduling.k8s.io/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "mutatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1",
    "podcliquesets": "/apis/grove.io/v1alpha1",
    "podcliques": "/apis/grove.io/v1alpha1",
    "podcliquescalinggroups": "/apis/grove.io/v1alpha1",
    "clustertopologybindings": "/apis/grove.io/v1alpha1",
    "podgangs": "/apis/scheduler.grove.io/v1alpha1",
}
_CLUSTER_WIDE = (
    "nodes", "namespaces", "priorityclasses", "customresourcedefinitions", "clustertopologybindings", "clusterroles",
    "clusterrolebindings", "mutatingwebhookconfigurations", "validatingwebhookconfigurations",
)  # fmt: skip


class Answer(msgspec.Struct, frozen=True):
    status: int
    raw: bytes
    headers: dict[str, str]

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.raw)

    @property
    def metadata(self) -> JsonObject:
        metadata: JsonObject = self.body["metadata"]
        return metadata

    @property
    def spec(self) -> JsonObject:
        spec: JsonObject = self.body["spec"]
        return spec

    @property
    def refusal(self) -> tuple[int, str, str]:
        """The code (said twice), the reason and the message of a Status that says no."""
        body = self.body
        assert (body.get("kind"), body.get("apiVersion"), body.get("metadata")) == ("Status", "v1", {}), body
        assert (body["status"], body["code"]) == ("Failure", self.status), body
        return self.status, body.get("reason", ""), body.get("message", "")

    @property
    def details(self) -> JsonObject | None:
        details: JsonObject | None = self.body.get("details")
        return details

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.headers.get("Warning", "").splitlines() if line]


class Talk:
    """One client of one API server, at home in a namespace of its own."""

    def __init__(self, transport: Transport, clock: Clock, namespace: str) -> None:
        self.transport = transport
        self.clock = clock
        self.namespace = namespace

    def at(self, plural: str, name: str = "", subresource: str = "", *, namespace: str = "") -> str:
        """The path of a collection, an object, or a subresource, in our namespace or that one."""
        root = _ROOTS.get(plural, "/api/v1")
        place = "" if plural in _CLUSTER_WIDE else f"/namespaces/{namespace or self.namespace}"
        return "/".join(filter(None, (f"{root}{place}/{plural}", name, subresource)))

    def everywhere(self, plural: str) -> str:
        """The path of a collection over all namespaces."""
        return f"{_ROOTS.get(plural, '/api/v1')}/{plural}"

    async def get(self, path: str, *, accept: str = "", **query: str) -> Answer:
        return await self.send("GET", path, accept=accept, query=query)

    async def post(self, path: str, body: Any, **query: str) -> Answer:
        return await self.send("POST", path, body, query=query)

    async def put(self, path: str, body: Any, **query: str) -> Answer:
        return await self.send("PUT", path, body, query=query)

    async def merge(self, path: str, patch: Any, **query: str) -> Answer:
        return await self.send("PATCH", path, patch, content_type=MERGE_PATCH, query=query)

    async def json_patch(self, path: str, *operations: JsonObject, **query: str) -> Answer:
        return await self.send("PATCH", path, list(operations), content_type=JSON_PATCH, query=query)

    async def strategic(self, path: str, patch: Any, **query: str) -> Answer:
        return await self.send("PATCH", path, patch, content_type=STRATEGIC_PATCH, query=query)

    async def delete(self, path: str, options: JsonObject | None = None, **query: str) -> Answer:
        return await self.send("DELETE", path, options, query=query)

    async def create(self, plural: str, body: JsonObject) -> Answer:
        """Which must succeed: the beginning of a story."""
        answer = await self.post(self.at(plural), body)
        assert answer.status == 201, answer.body
        return answer

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = "",
        query: dict[str, str] | None = None,
    ) -> Answer:
        """Bytes are sent as they are, everything else as JSON."""
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        request = Request(
            method=method, path=path, query=query or {}, body=data, content_type=content_type, accept=accept
        )
        response = await self.transport.send(request)
        return Answer(response.status, response.body, dict(response.headers))

    @asynccontextmanager
    async def watch(self, path: str, *, accept: str = "", **query: str) -> AsyncIterator["Watched"]:
        """A watch that cannot hang: the server ends it after a minute, unless the query says otherwise."""
        question = {"watch": "true", "timeoutSeconds": "60", **query}
        request = Request(method="GET", path=path, query=question, accept=accept)
        async with self.transport.stream(request) as lines:
            yield Watched(lines)

    async def until(self, path: str, is_reached: Callable[[Answer], Any]) -> Answer:
        """Polls an object that a controller changes, until it is as wanted."""
        return await self.until_answered(lambda: self.get(path), is_reached)

    async def until_answered(self, ask: Callable[[], Awaitable[Answer]], is_reached: Callable[[Answer], Any]) -> Answer:
        """Asks again and again, until the answer is as wanted: a real server learns of some writes a moment later."""
        deadline = self.clock.monotonic() + PATIENCE_SECONDS
        while True:
            answer = await ask()
            if is_reached(answer):
                return answer
            assert self.clock.monotonic() < deadline, answer.raw
            await self.clock.sleep(0.02)

    async def caught_up(self, plural: str, names: list[str], **query: str) -> None:
        """A list of now, which a real server answers when its cache knows of these.

        Whoever asks for any moment (`resourceVersion=0`) may be shown one before the last write."""
        assert (await self.get(self.at(plural), **query)).names == names

    async def until_gone(self, path: str) -> None:
        await self.until(path, lambda answer: answer.status == 404)

    async def furnished(self) -> None:
        """Until our namespace has its account: a real server takes no pod before."""
        await self.until(self.at("serviceaccounts", "default"), lambda answer: answer.status == 200)

    async def seen_by_the_collector(self, plural: str, body: JsonObject) -> None:
        """Until the garbage collector knows of all objects of this kind that were made before: it takes this one away.

        A real one hears of each kind apart, and may hear of an owner's end before it hears of a dependent."""
        metadata = {**body["metadata"], "name": "canary", "ownerReferences": [NOBODY]}
        await self.create(plural, {**body, "metadata": metadata})
        await self.until_gone(self.at(plural, "canary"))


class Watched:
    """The events of a watch as they come."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    async def event(self) -> JsonObject:
        event: JsonObject = msgspec.json.decode(await anext(self._lines))
        return event

    async def next(self) -> tuple[str, str]:
        """Type and name of the next event."""
        event = await self.event()
        return event["type"], event["object"]["metadata"].get("name", "")

    async def rest(self) -> list[JsonObject]:
        """All events until the server ends the watch."""
        return [msgspec.json.decode(line) async for line in self._lines]


# Objects


def config(name: str, data: JsonObject | None = None, **metadata: Any) -> JsonObject:
    """A kind with hardly any rule of its own."""
    body: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return body if data is None else {**body, "data": data}


# An owner that never was.
NOBODY: JsonObject = {
    "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "11111111-2222-4333-a444-555555555555"
}  # fmt: skip
_nodes = count()


def bound() -> JsonObject:
    """On a node that is not there: nobody stops the pod, so that it can be seen leaving.

    Always another one: 40 s after a real server's controller first heard of such a node, it takes away all its pods."""
    return {"nodeName": f"no-such-node-{next(_nodes)}"}


def pod(name: str, *, spec: JsonObject | None = None, **metadata: Any) -> JsonObject:
    """A pod that no scheduler touches, and into which no token is mounted."""
    container = {"name": "main", "image": "registry.example/pause:3.10"}
    quiet = {"containers": [container], "schedulerName": "nobody", "automountServiceAccountToken": False}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {**quiet, **(spec or {})},
    }


def gated(name: str, *gates: str, **metadata: Any) -> JsonObject:
    return pod(name, spec={"schedulingGates": [{"name": gate} for gate in gates]}, **metadata)


def clique(name: str, *, spec: JsonObject | None = None, **metadata: Any) -> JsonObject:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {"name": name, **metadata},
        "spec": {"roleName": "worker", "replicas": 1, "podSpec": POD_SPEC, **(spec or {})},
    }


POD_SPEC: JsonObject = {"containers": [{"name": "main", "image": "registry.example/pause:3.10"}]}


def owned_by(answer: Answer, *, is_blocking: bool = False) -> JsonObject:
    """A reference to the object that was answered."""
    body = answer.body
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": body["metadata"]["name"],
        "uid": body["metadata"]["uid"],
        "blockOwnerDeletion": is_blocking,
    }
