"""A webhook server behind real sockets, and API servers that ask it: real TLS, real bodies, same loop."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from random import Random
from typing import Any

import aiohttp
import msgspec

from grove.admission.authorizer import AuthorizerOptions
from grove.admission.handler import AdmissionHandler
from grove.admission.lookups import Reader
from grove.admission.tls import LiveContext
from grove.admission.webhook_certificates import KeyMaterial, Lifetimes, RotationStep, rotate
from grove.admission.webhook_server import WebhookServer
from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.in_process_transport import InProcessTransport
from grove.kube.client import Client
from grove.sim.faults import FaultyTransport

HOST = "127.0.0.1"
AUTHORIZER = AuthorizerOptions(operator_user="operator", exempt_users=("collector",))
NOTHING = KeyMaterial(certificate=b"", key=b"", authorities=b"")


class Answer(msgspec.Struct, frozen=True):
    status: int
    text: str

    @property
    def response(self) -> JsonObject:
        found: JsonObject = msgspec.json.decode(self.text)["response"]
        return found


class Asked:
    """The server, the cluster that it looks things up in, and a way to ask."""

    def __init__(self, authorizer: AuthorizerOptions | None, reader: Reader | None = None) -> None:
        self.clock = LoopClock.starting_now()
        self.cluster = ApiServer(self.clock, Random(7))
        self.transport = FaultyTransport(InProcessTransport(self.cluster, self.clock), self.clock, Random(7))
        self.user = Client(InProcessTransport(self.cluster, self.clock), self.clock)
        self.tls = LiveContext()
        judge = AdmissionHandler(reader or Client(self.transport, self.clock), authorizer=authorizer)
        self.server = WebhookServer(judge, self.tls, host=HOST, port=0)
        self.material = NOTHING

    def renew(self, what: RotationStep) -> None:
        """Makes something anew, and serves it."""
        self.material = rotate(self.material, what, (HOST,), self.clock.now(), Lifetimes())
        self.tls.use(self.material.certificate, self.material.key)

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.material.authorities.decode())

    async def send(self, path: str, body: bytes, *, method: str = "POST", **headers: str) -> Answer:
        """A connection of its own; headers are written with `_` for `-`."""
        sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        connector = aiohttp.TCPConnector(ssl=self.client_context())
        async with aiohttp.ClientSession(connector=connector) as session:
            url = f"https://{HOST}:{self.server.port}{path}"
            async with session.request(method, url, data=BytesIO(body), headers=sent) as response:
                return Answer(response.status, await response.text())

    async def ask(self, path: str, request: JsonObject) -> Answer:
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "q1", **request}}
        return await self.send(path + "?timeout=10s", msgspec.json.encode(review))


@asynccontextmanager
async def webhook_server(authorizer: AuthorizerOptions | None = AUTHORIZER) -> AsyncIterator[Asked]:
    asked = Asked(authorizer)
    await asked.server.start()
    try:
        asked.renew(RotationStep.AUTHORITY)
        yield asked
    finally:
        await asked.server.stop()


def asking(story: Callable[[Asked], Awaitable[None]], **options: Any) -> None:
    async def tell() -> None:
        async with webhook_server(**options) as asked:
            await story(asked)

    asyncio.run(tell())


def question(
    plural: str,
    new: JsonObject | None,
    old: JsonObject | None = None,
    *,
    group: str = "grove.io",
    kind: str = "",
    user: str = "someone",
    **fields: Any,
) -> JsonObject:
    """What an API server asks about one write."""
    operation = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    metadata = (new or old or {}).get("metadata", {})
    return {
        "operation": operation,
        "kind": {"group": group, "version": "v1alpha1", "kind": kind},
        "resource": {"group": group, "version": "v1alpha1", "resource": plural},
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "userInfo": {"username": user},
        "object": new,
        "oldObject": old,
        **fields,
    }
