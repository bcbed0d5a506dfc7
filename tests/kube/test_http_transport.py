"""The client's network door, on real sockets of this machine: answers, streams, and what happens when they break."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest
from aiohttp import web

from grove.api.resources import NODES
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.http.https_server import HttpApi
from grove.errors import UserError
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from grove.kube.tls import tls_context
from grove.kube.transport import Request

T = TypeVar("T")

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def talk(
    answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    ask: Callable[[HttpTransport], Awaitable[T]],
    *,
    token: str = "",
    token_file: Path | None = None,
) -> T:
    """Ask a plain HTTP server that answers like this."""

    async def conversation() -> T:
        runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            clock = LoopClock.starting_now()
            access = Access(server=server, source="test", token=token, token_file=token_file)
            async with HttpTransport(access, clock) as transport:
                return await ask(transport)
        finally:
            await runner.cleanup()

    return asyncio.run(conversation())


async def lines_of(transport: HttpTransport) -> list[bytes]:
    async with transport.stream(Request(method="GET", path="/watch")) as lines:
        return [line async for line in lines]


def test_a_request_arrives_as_it_was_meant() -> None:
    async def answer(http: web.BaseRequest) -> web.Response:
        seen = (http.method, http.path, dict(http.query), http.headers["Authorization"], http.content_type)
        response = web.Response(text=repr((*seen, await http.text())), status=207)
        response.headers.extend([("Warning", '299 - "a"'), ("Warning", '299 - "b"')])
        return response

    async def ask(transport: HttpTransport) -> None:
        request = Request(
            method="PATCH", path="/api/v1/x", query={"a": "b c&d"}, body=b"{}", content_type="application/x+json"
        )
        response = await transport.send(request)
        expected = ("PATCH", "/api/v1/x", {"a": "b c&d"}, "Bearer secret", "application/x+json", "{}")
        assert response.body.decode() == repr(expected)
        assert (response.status, response.headers["Warning"]) == (207, '299 - "a"\n299 - "b"')

    talk(answer, ask, token="secret")


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b\nc", b"\n"], [b"ab", b"c"]),
        ([b"a\n", b"rest"], [b"a", b"rest"]),
        ([b"x" * 300_000, b"y" * 300_000 + b"\n"], [b"x" * 300_000 + b"y" * 300_000]),
        ([], []),
    ],
)
def test_a_stream_is_split_into_lines_of_any_length(chunks: list[bytes], lines: list[bytes]) -> None:
    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(http)
        for chunk in chunks:
            await response.write(chunk)
        return response

    assert talk(answer, lines_of) == lines


def test_a_stream_that_breaks_off_is_a_lost_connection() -> None:
    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(http)
        await response.write(b"a\n")
        assert http.transport is not None
        http.transport.abort()
        return response

    with pytest.raises(ConnectionLost, match="GET http://127"):
        talk(answer, lines_of)


def test_a_stream_that_is_refused_says_why_and_when_to_come_back() -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        body = '{"kind":"Status","status":"Failure","reason":"TooManyRequests","message":"busy","code":429}'
        return web.Response(text=body, status=429, headers={"Retry-After": "7"})

    with pytest.raises(ApiError) as caught:
        talk(answer, lines_of)
    assert (caught.value.code, caught.value.message, caught.value.retry_after) == (429, "busy", 7.0)


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_a_write_that_comes_too_late_when_its_connection_stands_is_not_carried_out(method: str) -> None:
    carried_out: list[bytes] = []

    async def answer(http: web.BaseRequest) -> web.Response:
        carried_out.append(await http.read())
        return web.Response(body=b"{}")

    async def ask(transport: HttpTransport) -> None:
        in_time = Request(method=method, path="/x", body=b"in time", may_send=lambda: True)
        too_late = Request(method=method, path="/x", body=b"too late", may_send=lambda: False)
        await transport.send(in_time)
        with pytest.raises(ConnectionLost, match="its deadline has passed"):
            await transport.send(too_late)
        await transport.send(in_time)

    talk(answer, ask)
    assert carried_out == [b"in time", b"in time"]


def test_nobody_listening_is_a_lost_connection() -> None:
    async def ask() -> None:
        access = Access(server="http://127.0.0.1:1", source="test")
        async with HttpTransport(access, LoopClock.starting_now()) as transport:
            await transport.send(Request(method="GET", path="/"))

    with pytest.raises(ConnectionLost, match="GET http://127"):
        asyncio.run(ask())


def test_a_key_that_is_not_a_key_is_the_users_error() -> None:
    with pytest.raises(UserError, match="a certificate or key is not valid PEM"):
        tls_context(Access(server="https://x", source="config", certificate_authority=b"CA"))


# --- against the embedded API ----------------------------------------------------------------------------------------


def resource_info(ask: Callable[[ApiServer, HttpApi, Access], Awaitable[T]]) -> T:
    async def conversation() -> T:
        server = ApiServer(LoopClock.starting_now(), Random(1))
        api = HttpApi(server, token="secret")
        await api.start()
        try:
            access = Access(server=api.url, source="test", certificate_authority=api.ca, token="secret")
            return await ask(server, api, access)
        finally:
            await api.stop()

    return asyncio.run(conversation())


def test_objects_are_created_and_watched_over_tls() -> None:
    async def ask(_: ApiServer, __: HttpApi, access: Access) -> list[str]:
        clock = LoopClock.starting_now()
        async with HttpTransport(access, clock) as transport:
            client = Client(transport, clock)
            before = await client.list(NODES)
            await client.create(NODES, "", NODE)
            watch = client.watch(NODES, resource_version=before.resource_version, timeout_seconds=5)
            async with watch as events:
                return [type(await anext(events)).__name__]

    assert resource_info(ask) == ["Added"]


def test_a_server_that_cannot_prove_itself_is_not_talked_to() -> None:
    async def ask(_: ApiServer, __: HttpApi, access: Access) -> None:
        stranger = Access(server=access.server, source="test", token="secret")
        async with HttpTransport(stranger, LoopClock.starting_now()) as transport:
            await transport.send(Request(method="GET", path="/version"))

    with pytest.raises(ConnectionLost, match="certificate"):
        resource_info(ask)


def test_an_insecure_cluster_is_talked_to_when_asked_for() -> None:
    async def ask(_: ApiServer, __: HttpApi, access: Access) -> int:
        careless = Access(server=access.server, source="test", token="secret", is_insecure=True)
        async with HttpTransport(careless, LoopClock.starting_now()) as transport:
            return (await transport.send(Request(method="GET", path="/version"))).status

    assert resource_info(ask) == 200
