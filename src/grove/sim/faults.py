"""Fault injection: a transport that loses, delays, repeats and rejects requests, drawn from a seed.

Faults: delays (these make interleavings random), errors before a write, responses lost after a write, watches that are
slow, frozen, cut or too old, throttled creates, chosen rejections, and a crash at any write. The server itself never
misbehaves.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Never

import msgspec

from grove.clock import Clock
from grove.errors import require
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.request_info import RequestSummary, plural_of, summarize
from grove.kube.transport import Request, Response, Transport


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Probabilities of faults (0 to 1), and ranges of delays in seconds."""

    # The delay of a request, and again of its response.
    latency: tuple[float, float] = (0.0, 0.0)
    # The delay of each line of a watch; lines stay in order.
    watch_latency: tuple[float, float] = (0.0, 0.0)
    # The server responds 500, 503 or 429 and does nothing.
    server_error: float = 0.0
    # An update or patch gets a conflict and is not executed.
    conflict: float = 0.0
    # The connection breaks before the request arrives.
    lost_request: float = 0.0
    # The server executes the request, but the response is lost.
    lost_answer: float = 0.0
    # A watch ends after a line, and the client must resume.
    cut_watch: float = 0.0
    # A watch or a further page of a list gets a 410 "too old".
    gone: float = 0.0
    # Creates beyond this rate are delayed.
    creates_per_second: float | None = None


CALM = FaultPlan()


class RecordedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write that reached the server, and the status of the response."""

    at: float
    request: Request
    status: int

    @property
    def target(self) -> RequestSummary:
        return summarize(self.request)


class InjectedError(msgspec.Struct, frozen=True, kw_only=True):
    """An error that is returned for the chosen requests until `lift`."""

    applies: Callable[[Request], bool]
    error: ApiError


class FaultyTransport:
    """The connection of one program to its server. `plan` may be replaced at any time; `CALM` stops the faults."""

    def __init__(
        self,
        inner: Transport,
        clock: Clock,
        random: Random,
        plan: FaultPlan = CALM,
        *,
        on_write: Callable[[RecordedWrite], None] | None = None,
    ) -> None:
        self.plan = plan
        self.writes: list[RecordedWrite] = []
        # Started writes, including those that a crash prevented.
        self.write_count = 0
        # Set at the crash; after it no call returns.
        self.crashed = asyncio.Event()
        # Called just before a write reaches the server, and again after it was executed, before its response arrives.
        self.around_write: Callable[[], None] | None = None
        self._inner = inner
        self._clock = clock
        self._random = random
        self._on_write = on_write
        self._refusals: list[InjectedError] = []
        self._thawed: dict[str, asyncio.Event] = {}
        self._crash_before = 0
        self._crash_after = 0
        self._next_create_at = 0.0

    async def send(self, request: Request) -> Response:
        await self._delay(self.plan.latency)
        if request.method == "POST":
            await self._take_turn_of_creates()
        await self._hang_if_dead()
        fault = self._draw_fault(request)
        response = fault if fault is not None else await self._pass_on(request)
        await self._delay(self.plan.latency)
        await self._hang_if_dead()
        if fault is None and self._happens(self.plan.lost_answer):
            raise ConnectionLost(f"{request.method} {request.path}: the answer was lost")
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._delay(self.plan.latency)
        await self._hang_if_dead()
        if self._happens(self.plan.gone):
            raise too_old()
        if self._happens(self.plan.server_error):
            raise ApiError(503, "ServiceUnavailable", "simulated: the server is restarting")
        async with self._inner.stream(request) as lines:
            slowed = _SlowLines(self, lines, plural_of(request))
            # Not a TaskGroup: it would wrap the errors of the reader of the stream.
            pump = asyncio.create_task(slowed.pump())
            try:
                yield slowed
            finally:
                pump.cancel()
                await asyncio.wait([pump])

    def crash_before_write(self, number: int) -> None:
        """Crash the program just before its write `number` (1 is the first) reaches the server."""
        require(number > self.write_count, f"write {number} is still to come")
        self._crash_before = number

    def crash_after_write(self, number: int) -> None:
        """Crash the program after its write `number` is done, before the response arrives."""
        require(number > self.write_count, f"write {number} is still to come")
        self._crash_after = number

    def crash(self) -> None:
        """Crash the program now. Requests that it sent still reach the server; no response comes back."""
        self.crashed.set()

    def freeze_watch(self, plural: str) -> None:
        """Stop the events of this resource while its watches stay open. Everything else works."""
        self._thawed[plural] = asyncio.Event()

    def thaw_watch(self, plural: str) -> None:
        self._thawed.pop(plural).set()

    def refuse(self, applies: Callable[[Request], bool], error: ApiError) -> InjectedError:
        """Answer the chosen requests with `error`, until the refusal is lifted. `ConnectionLost`: with nothing."""
        refusal = InjectedError(applies=applies, error=error)
        self._refusals.append(refusal)
        return refusal

    def lift(self, refusal: InjectedError) -> None:
        self._refusals.remove(refusal)

    def write_counts(self) -> Counter[tuple[str, str]]:
        """Count the writes by (verb, resource)."""
        return Counter((target.verb, target.resource) for target in (write.target for write in self.writes))

    async def _pass_on(self, request: Request) -> Response:
        if not request.is_write:
            return await self._inner.send(request)
        if self.around_write is not None:
            self.around_write()
        self.write_count += 1
        number = self.write_count
        if number == self._crash_before:
            self.crash()
        await self._hang_if_dead()
        response = await self._inner.send(request)
        self._remember(request, response)
        if self.around_write is not None:
            self.around_write()
        if number == self._crash_after:
            self.crash()
        return response

    def _remember(self, request: Request, response: Response) -> None:
        write = RecordedWrite(at=self._clock.monotonic(), request=request, status=response.status)
        self.writes.append(write)
        if self._on_write is not None:
            self._on_write(write)

    def _draw_fault(self, request: Request) -> Response | None:
        """Return an injected response, or None; raise if the connection is lost."""
        for refusal in self._refusals:
            if refusal.applies(request):
                if isinstance(refusal.error, ConnectionLost):
                    raise refusal.error
                return error_response(refusal.error)
        if self._happens(self.plan.lost_request):
            raise ConnectionLost(f"{request.method} {request.path}: connection refused")
        if self._happens(self.plan.server_error):
            return error_response(self._random.choice(_SERVER_ERRORS))
        if request.method in ("PUT", "PATCH") and self._happens(self.plan.conflict):
            return error_response(_CONFLICT)
        if "continue" in request.query and self._happens(self.plan.gone):
            return error_response(too_old())
        return None

    async def _take_turn_of_creates(self) -> None:
        rate = self.plan.creates_per_second
        if rate is None:
            return
        now = self._clock.monotonic()
        turn_at = max(now, self._next_create_at)
        self._next_create_at = turn_at + 1 / rate
        if turn_at > now:
            await self._clock.sleep(turn_at - now)

    async def _delay(self, bounds: tuple[float, float]) -> None:
        if bounds[1] > 0:
            await self._clock.sleep(self._random.uniform(*bounds))

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability

    async def _hang_if_dead(self) -> None:
        if self.crashed.is_set():
            await _hang()

    # Used by `_SlowLines`.

    def delivery_time(self) -> float:
        """Return when to deliver a line that arrives now."""
        now = self._clock.monotonic()
        return now + self._random.uniform(*self.plan.watch_latency) if self.plan.watch_latency[1] > 0 else now

    def holds_back(self, at: float, plural: str) -> bool:
        return plural in self._thawed or at > self._clock.monotonic() or self.crashed.is_set()

    async def await_delivery(self, at: float, plural: str) -> None:
        if at > self._clock.monotonic():
            await self._clock.sleep(at - self._clock.monotonic())
        while (thawed := self._thawed.get(plural)) is not None:
            await thawed.wait()
        await self._hang_if_dead()

    def cuts_watch(self) -> bool:
        return self._happens(self.plan.cut_watch)


class _SlowLines:
    """The lines of one watch, each delivered at its own time, in order. It reads ahead, so delays do not add up."""

    def __init__(self, transport: FaultyTransport, lines: AsyncIterator[bytes], plural: str) -> None:
        self._transport = transport
        self._lines = lines
        self._plural = plural
        self._on_the_way: deque[tuple[float, bytes | Exception | None]] = deque()
        self._arrived = asyncio.Event()
        self._is_cut = False

    async def pump(self) -> None:
        try:
            async for line in self._lines:
                self._put(line)
            self._put(None)
        except ApiError as error:
            self._put(error)

    def __aiter__(self) -> "_SlowLines":
        return self

    async def __anext__(self) -> bytes:
        if self._is_cut:
            raise StopAsyncIteration
        while not self._on_the_way:
            self._arrived.clear()
            await self._arrived.wait()
        at, line = self._on_the_way[0]
        if self._transport.holds_back(at, self._plural):
            await self._transport.await_delivery(at, self._plural)
        self._on_the_way.popleft()
        if line is None:
            raise StopAsyncIteration
        if isinstance(line, Exception):
            raise line
        self._is_cut = self._transport.cuts_watch()
        return line

    def _put(self, line: bytes | Exception | None) -> None:
        self._on_the_way.append((self._transport.delivery_time(), line))
        self._arrived.set()


def error_response(error: ApiError) -> Response:
    """Build the response of a server that rejects a request with `error`."""
    retry_after = None if error.retry_after is None else int(error.retry_after)
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": error.code,
    }
    if retry_after is not None:
        status["details"] = {"retryAfterSeconds": retry_after}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Response(status=error.code, body=msgspec.json.encode(status), headers=headers)


def too_old() -> ApiError:
    return ApiError(410, "Expired", "simulated: too old resource version")


_SERVER_ERRORS = (
    ApiError(500, "InternalError", "simulated: etcdserver: request timed out"),
    ApiError(503, "ServiceUnavailable", "simulated: the server is currently unable to handle the request"),
    ApiError(429, "TooManyRequests", "simulated: too many requests, please try again later", retry_after=1),
)
_CONFLICT = ApiError(
    409, "Conflict", "simulated: the object has been modified; please apply your changes to the latest version"
)


async def _hang() -> Never:
    await asyncio.Event().wait()
    raise AssertionError("this event is never set")
