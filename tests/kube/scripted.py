"""A transport that plays back what a server might say, so that every broken protocol can be told in a few lines."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from grove.api.types.meta import JsonObject
from grove.kube.api_errors import ApiError
from grove.kube.transport import Request, Response


class Silence(msgspec.Struct, frozen=True):
    """The server keeps the connection and says nothing for this long; None: for ever."""

    seconds: float | None = None


# The server says nothing until the time is over that the watch was asked for.
UNTIL_THE_END = Silence(-1)

WatchItem = bytes | Silence | ApiError


class ScriptedTransport:
    """Answers requests and watches in the order of the script, and remembers what it was asked."""

    def __init__(
        self,
        answers: list[Response | ApiError | Silence] | None = None,
        watches: list[list[WatchItem]] | None = None,
    ) -> None:
        self._answers = deque(answers or [])
        self._watches = deque(watches or [])
        self.requests: list[Request] = []
        # How far the server is, for those who ask before they resume a watch.
        self.version = 1_000_000
        self.watched_from: list[str] = []

    async def send(self, request: Request) -> Response:
        if request.query.get("limit") == "1" and self.watched_from:
            return page(version=self.version)
        self.requests.append(request)
        answer = self._answers.popleft()
        while isinstance(answer, Silence):
            await _wait(answer)
            answer = self._answers.popleft()
        if isinstance(answer, ApiError):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.watched_from.append(request.query["resourceVersion"])
        script: list[WatchItem] = self._watches.popleft() if self._watches else [Silence()]
        if script and isinstance(script[0], ApiError):
            raise script[0]
        rest = Silence(float(request.query["timeoutSeconds"]))
        yield _play([rest if said is UNTIL_THE_END else said for said in script])


async def _play(script: list[WatchItem]) -> AsyncIterator[bytes]:
    for said in script:
        match said:
            case Silence():
                await _wait(said)
            case ApiError():
                raise said
            case bytes():
                yield said


async def _wait(silence: Silence) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(silence.seconds):
            await asyncio.get_running_loop().create_future()


def pod_json(name: str, version: int, *, uid: str = "", owner: str = "") -> JsonObject:
    metadata: JsonObject = {
        "name": name, "namespace": "default", "uid": uid or f"uid-of-{name}", "resourceVersion": str(version),
    }  # fmt: skip
    if owner:
        metadata["ownerReferences"] = [{"kind": "PodClique", "name": owner, "uid": owner, "controller": True}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def ok(body: JsonObject) -> Response:
    return Response(status=200, body=msgspec.json.encode(body))


def page(*items: JsonObject, version: int, continue_token: str = "") -> Response:
    metadata = {"resourceVersion": str(version)} | ({"continue": continue_token} if continue_token else {})
    return ok({"kind": "PodList", "metadata": metadata, "items": list(items)})


def refusal(code: int, reason: str, *, retry_after: int | None = None) -> Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": f"no: {reason}"}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Response(status=code, body=msgspec.json.encode(body), headers=headers)


def line(kind: str, obj: JsonObject) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj})


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def error_line(code: int, reason: str) -> bytes:
    return line("ERROR", {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason})
