"""A webhook of the tests: a real HTTPS server on loopback, which answers as a test says and keeps what it was asked."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.http.loopback_certificates import make_certificates

# From the request of a review to its response.
Answer = Callable[[JsonObject], JsonObject]


def allow(request: JsonObject) -> JsonObject:
    return {"allowed": True}


def deny(**status: Any) -> Answer:
    return lambda request: {"allowed": False, **({"status": status} if status else {})}


def patch(*operations: JsonObject) -> Answer:
    """Allows, and changes the object."""
    encoded = base64.b64encode(msgspec.json.encode(list(operations))).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


# What controllers put into every namespace, some time after it was made: a config map and an account.
_FURNITURE = ("kube-root-ca.crt", "default")


class Endpoint:
    """`start`, then `stop`. Each path has an answer of its own; what was asked is kept by path."""

    def __init__(self) -> None:
        self._certificates = make_certificates(LoopClock.starting_now().now())
        self._runner: web.ServerRunner | None = None
        self._answers: dict[str, Answer | web.Response] = {}
        self.asked: dict[str, list[JsonObject]] = {}
        self.queries: dict[str, list[str]] = {}
        self.url = ""

    @property
    def ca_bundle(self) -> str:
        return base64.b64encode(self._certificates.ca).decode()

    def at(self, path: str, answer: Answer | web.Response = allow) -> JsonObject:
        """The client config of a webhook that answers so."""
        self._answers[path] = answer
        self.asked.setdefault(path, [])
        return {"url": self.url + path, "caBundle": self.ca_bundle}

    async def start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._certificates.server_context())
        await site.start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        review = msgspec.json.decode(await http.read())
        request = review["request"]
        if request.get("name") not in _FURNITURE:
            self.asked.setdefault(http.path, []).append(request)
            self.queries.setdefault(http.path, []).append(http.query_string)
        answer = self._answers.get(http.path, allow)
        if isinstance(answer, web.Response):
            return web.Response(status=answer.status, body=answer.body, content_type=answer.content_type)
        response = {"uid": request["uid"], **answer(request)}
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")
