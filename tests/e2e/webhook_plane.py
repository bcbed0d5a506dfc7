"""A real control plane with objects of an older installation, and our webhooks in a process beside it."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grove.api.resources import Resource
from grove.api.schema.crd_generator import custom_resource_definitions
from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.transport import Request, Response
from tests.admission.tables import Case, updates
from tests.e2e.ports import free_port
from tests.kube.controlplane.plane import Plane, running_plane

T = TypeVar("T")

OPERATOR_NAMESPACE = "grove-system"
OPERATOR = f"system:serviceaccount:{OPERATOR_NAMESPACE}:grove-operator"
PATIENCE_SECONDS = 180.0
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Api:
    """The API server, spoken to directly: what it answers is looked at, whatever it is."""

    def __init__(self, transport: HttpTransport, clock: LoopClock) -> None:
        self._transport = transport
        self.clock = clock
        self.client = Client(transport, clock)

    async def send(self, method: str, path: str, body: Any = None, **query: str) -> Response:
        content = b"" if body is None else msgspec.json.encode(body)
        return await self._transport.send(Request(method=method, path=path, body=content, query=query))

    async def must(self, method: str, path: str, body: Any = None, **query: str) -> JsonObject:
        response = await self.send(method, path, body, **query)
        assert response.status < 300, response.body
        found: JsonObject = msgspec.json.decode(response.body)
        return found

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        deadline = self.clock.monotonic() + PATIENCE_SECONDS
        while not await condition():
            assert self.clock.monotonic() < deadline, "it never came true"
            await self.clock.sleep(0.05)


@asynccontextmanager
async def api_of(plane: Plane, token: str = "") -> AsyncIterator[Api]:
    clock = LoopClock.starting_now()
    async with HttpTransport(plane.access(token=token), clock) as transport:
        yield Api(transport, clock)


def with_api(plane: Plane, story: Callable[[Api], Awaitable[T]]) -> T:
    async def tell() -> T:
        async with api_of(plane) as api:
            return await story(api)

    return asyncio.run(tell())


@contextmanager
def inherited_plane(folder: Path) -> Iterator[Plane]:
    """Its sets were stored before there were rules: with a schema that knows none, and no webhook."""
    with running_plane(folder) as plane:
        with_api(plane, _inherit)
        yield plane


async def _inherit(api: Api) -> None:
    definitions = custom_resource_definitions()
    for definition in definitions:
        await api.must("POST", _DEFINITIONS, _loosened(definition))
    names = [definition["metadata"]["name"] for definition in definitions]
    await api.until(lambda: _are_established(api, names))
    await api.until(lambda: _are_served(api, definitions))
    await asyncio.gather(*(_store(api, i, case) for i, case in enumerate(updates()) if case.old is not None))
    for definition in definitions:
        path = f"{_DEFINITIONS}/{definition['metadata']['name']}"
        version = (await api.must("GET", path))["metadata"]["resourceVersion"]
        metadata = {**definition["metadata"], "resourceVersion": version}
        await api.must("PUT", path, {**definition, "metadata": metadata})
    await api.until(lambda: _have_rules(api, definitions))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}}
    await api.must("POST", "/api/v1/namespaces", namespace)


def _loosened(definition: JsonObject) -> JsonObject:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {"name": version["name"], "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
        | {"subresources": {"status": {}}}
        for version in definition["spec"]["versions"]
    ]
    return {**definition, "spec": {**definition["spec"], "versions": versions}}


async def _are_established(api: Api, names: list[str]) -> bool:
    ready = [
        item["metadata"]["name"]
        for item in (await api.must("GET", _DEFINITIONS))["items"]
        for condition in item["status"].get("conditions") or []
        if (condition["type"], condition["status"]) == ("Established", "True")
    ]
    return all(name in ready for name in names)


async def _are_served(api: Api, definitions: Sequence[JsonObject]) -> bool:
    """A moment after the server said that they are."""
    answers = [await api.send("GET", _collection(definition)) for definition in definitions]
    return all(answer.status == 200 for answer in answers)


async def _have_rules(api: Api, definitions: Sequence[JsonObject]) -> bool:
    """No schema of ours takes a spec that is a text."""
    answers = [
        await api.send("POST", _collection(definition), _misshapen(definition), dryRun="All")
        for definition in definitions
    ]
    return all(answer.status == 422 for answer in answers)


def _misshapen(definition: JsonObject) -> JsonObject:
    spec = definition["spec"]
    version = f"{spec['group']}/{spec['versions'][0]['name']}"
    return {"apiVersion": version, "kind": spec["names"]["kind"], "metadata": {"name": "misshapen"}, "spec": "x"}


def _collection(definition: JsonObject) -> str:
    spec = definition["spec"]
    place = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{place}{spec['names']['plural']}"


def home_of(number: int) -> str:
    """The namespace in which the object of an update waits."""
    return f"update-{number}"


def in_namespace(resource: Resource[Any], json: JsonObject, namespace: str, **metadata: Any) -> JsonObject:
    # Without owners: they do not exist here, and the garbage collector would see to that.
    kept = {key: value for key, value in json["metadata"].items() if key != "ownerReferences"}
    place = {"namespace": namespace, **metadata}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **json, "metadata": {**kept, **place}}


async def _store(api: Api, number: int, case: Case) -> None:
    namespace = home_of(number)
    await api.must(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    )
    assert case.old is not None
    old = in_namespace(case.resource, case.old, namespace)
    stored = await api.must("POST", case.resource.path(namespace), {k: v for k, v in old.items() if k != "status"})
    if "status" in old:
        path = case.resource.path(namespace, stored["metadata"]["name"], "status")
        await api.must("PUT", path, {**stored, "status": old["status"]})


class Webhooks:
    """The process. `kill` leaves everything as it is, as a crash does."""

    def __init__(self, plane: Plane, url: str) -> None:
        self.url = url
        command = [sys.executable, "-m", "tests.e2e.webhook_process", str(plane.kubeconfig), url]
        log = (plane.folder / "webhooks.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [*command, OPERATOR_NAMESPACE, OPERATOR], stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()) != b"ready\n":
            assert line, f"the webhooks ended; see {log.name}"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def webhooks_of(plane: Plane) -> Iterator[Webhooks]:
    webhooks = Webhooks(plane, f"https://127.0.0.1:{free_port()}")
    try:
        yield webhooks
    finally:
        webhooks.stop()
