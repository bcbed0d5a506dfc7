"""One round: a cluster of its own, a number of hostile requests, and verdicts after each and at the end.

In virtual time, with all that lives in a cluster: what is stored must not bring down scheduler or kubelet, either.
"""

import asyncio
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import msgspec
from structlog.processors import format_exc_info
from structlog.testing import capture_logs

from grove.clock import LoopClock
from grove.cluster.apiserver.admission.webhook_request import Call, CallFailure, CallResult, WebhookResult
from grove.cluster.apiserver.api_server import is_stream
from grove.cluster.built_in_resources import NAMESPACES, ResourceInfo
from grove.cluster.embedded_cluster import EmbeddedCluster
from grove.cluster.in_process_transport import InProcessTransport
from grove.controller.manager import Controller
from grove.kube.api_errors import ApiError
from grove.kube.transport import Request
from grove.sim.in_process_admission import admission_of
from grove.sim.virtual_clock import run_virtual
from tests.cluster.apidsl import NOON
from tests.fuzz.mischief import Mischief
from tests.fuzz.specimens import NAMES, SPACES, collection, kinds, specimen
from tests.fuzz.verdicts import shown_by, wrong_with_answer, wrong_with_state

# Of the processor, for one request and what follows from it: far more than any takes, and less than a hang.
_MOST_SECONDS = 20.0
# What a stream may take of the cluster's time, and how many lines are read of it.
_STREAM_SECONDS, _MOST_LINES = 3.0, 20


class HostilityWon(AssertionError):
    """A request did what no request may do; the message tells which."""


class TooLong(BaseException):
    """No answer after a time in which there are hundreds; nobody catches it by accident."""


def play(seeds: Iterable[int]) -> int:
    """Sends the requests of these seeds to one cluster; how many there were. Raises `HostilityWon`."""
    with limited(), capture_logs(processors=[format_exc_info]) as log:
        return run_virtual(_played(tuple(seeds), log))


async def _played(seeds: tuple[int, ...], log: list[Any]) -> int:
    clock = LoopClock(NOON)
    cluster: EmbeddedCluster = EmbeddedCluster(clock, Random(7), admission=admission_of(lambda: cluster.server.store))
    cluster.server.enable_webhooks(moody(Random(7)))
    failures: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(str(context)))
    life = asyncio.create_task(_lived(cluster, clock))
    transport = cluster.connect()
    await populate(transport)
    await clock.sleep(1)
    before = await shown_by(transport)
    sent: list[Request] = []
    for seed in seeds:
        request = Mischief(Random(seed)).request()
        sent.append(request)
        problem = await attempt(transport, request)
        if life.done():
            problem = f"the cluster ended: {life.exception()!r}"
        problem = error_message(log) or problem or "; ".join(failures)
        if problem:
            raise HostilityWon(_told(seed, request, problem))
        await clock.sleep(0.1)
    await clock.sleep(30)
    if life.done():
        raise HostilityWon(f"the cluster ended: {life.exception()!r}")
    problems = await wrong_with_state(transport, before)
    problems += failures + [error_message(log)] * bool(error_message(log))
    if problems:
        raise HostilityWon("\n".join(["after " + ", ".join(map(str, seeds)), *problems, *map(_shown, sent)]))
    life.cancel()
    return len(sent)


async def _lived(cluster: EmbeddedCluster, clock: LoopClock) -> None:
    """All that `grove up` starts, for ever."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cluster.run())
        tasks.create_task(Controller(cluster.client(), clock, Random(7)).run())


async def populate(transport: InProcessTransport) -> None:
    """Some of everything."""
    for space in SPACES[1:]:
        await _create(transport, NAMESPACES, space, "")
    for resource_info in kinds():
        is_silent = resource_info.group != "admissionregistration.k8s.io"
        for space in SPACES if resource_info.namespaced else ("",):
            for name in NAMES[: 2 * is_silent]:
                await _create(transport, resource_info, name, space)


async def _create(transport: InProcessTransport, resource_info: ResourceInfo, name: str, space: str) -> None:
    body = msgspec.json.encode(specimen(resource_info, name, space))
    answer = await transport.send(Request(method="POST", path=collection(resource_info, space), body=body))
    assert answer.status == 201, (resource_info.plural, answer.body)


async def attempt(transport: InProcessTransport, request: Request) -> str:
    """What is wrong with the answer; empty: nothing."""
    if is_stream(request):
        return await _streamed(transport, request)
    response = await transport.send(request)
    return wrong_with_answer(request, response)


async def _streamed(transport: InProcessTransport, request: Request) -> str:
    try:
        async with asyncio.timeout(_STREAM_SECONDS), transport.stream(request) as lines:
            count = 0
            async for _ in lines:
                count += 1
                if count >= _MOST_LINES:
                    break
    except TimeoutError:
        return ""
    except ApiError as refused:
        return "" if refused.code < 500 or refused.code in (501, 504) else f"stream: {refused}"
    return ""


def moody(random: Random) -> Any:
    """Webhooks that say anything."""

    async def ask(call: Call, uid: str) -> CallResult:
        return random.choice(
            (
                WebhookResult(is_allowed=True),
                WebhookResult(is_allowed=True, warnings=("w\n\x00é", "")),
                WebhookResult(is_allowed=False, status={"code": 418, "message": "no", "reason": "x"}),
                WebhookResult(is_allowed=False, status={"code": 403}),
                WebhookResult(is_allowed=False),
                WebhookResult(is_allowed=True, patch=[{"op": "add", "path": "/data", "value": {"k": 1}}]),
                WebhookResult(is_allowed=True, patch=[{"op": "add", "path": "/metadata/labels", "value": {"m": "n"}}]),
                WebhookResult(is_allowed=True, patch=[{"op": "remove", "path": "/metadata"}]),
                WebhookResult(is_allowed=True, patch=[None]),
                CallFailure("it did not answer"),
            )
        )

    return ask


@contextmanager
def limited() -> Iterator[None]:
    """Whoever takes too much of the processor is stopped, wherever it is."""

    def stop(*_: object) -> None:
        raise TooLong(f"no answer after {_MOST_SECONDS:g} s of the processor")

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def error_message(log: list[Any]) -> str:
    """The first traceback or error in the log."""
    return next(
        (
            f"{line['event']} {line.get('exception', line)}"
            for line in log
            if line.get("exception") or line.get("log_level") in ("error", "critical")
        ),
        "",
    )


def _told(seed: int, request: Request, problem: str) -> str:
    return f"seed {seed}: {problem}\n{_shown(request)}"


def _shown(request: Request) -> str:
    head = f"{request.method} {request.path[:300]!r} {dict(request.query)!r:.300}"
    return f"{head} type={request.content_type!r} accept={request.accept!r} {request.body[:1500]!r}"
