"""The light network door next to the complete one, on real sockets: the same answers, the same words, fewer modules.

What the complete one does with each of these servers is said in `test_connections.py` and `test_broken_servers.py`.
"""

import asyncio
import gzip
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from grove.kube import light_transport
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access, ExecPlugin
from grove.kube.light_transport import LightTransport
from grove.kube.transport import Request, Response
from tests.kube.loopback import (
    DELETE,
    GET,
    POST,
    WATCH,
    Answer,
    Authority,
    Proxy,
    SetClock,
    Talk,
    client_name,
    http_server,
    ok_bytes,
    raw_server,
    read_request,
)
from tests.kube.test_broken_servers import CHUNKED, LIES, NEVER, HangsUp, chunk, gzipped, saying

Door = HttpTransport | LightTransport
DOORS = (HttpTransport, LightTransport)

PLAIN = {
    "with a length": ok_bytes(b'{"a": 1}'),
    "empty": ok_bytes(b""),
    "in chunks": CHUNKED + chunk(b'{"a"') + chunk(b": 1}") + chunk(b""),
    "in chunks that explain themselves": CHUNKED + b"2;name=value\r\n{}\r\n0\r\nX-Trailer: x\r\n\r\n",
    "in capital digits": CHUNKED + b"A\r\n0123456789\r\n00\r\n\r\n",
    "compressed": gzipped(gzip.compress(b"x" * 10_000)),
    "with warnings": ok_bytes().replace(b"\r\n", b'\r\nWarning: 299 - "a"\r\nwarning: 299 - "\xc3\xa4"\r\n', 1),
    "and nothing else afterwards": ok_bytes().replace(b"\r\n", b"\r\nConnection: close\r\n", 1),
    "a million bytes": ok_bytes(b"x" * 1_000_000),
}
NOT_PLAIN = {
    "not found": b'HTTP/1.1 404 Not Found\r\nContent-Length: 26\r\n\r\n{"reason":"NotFound","a":1}',
    "not allowed": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nnope",
    "broken": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nRetry-After: 7\r\n\r\n",
    "elsewhere": b"HTTP/1.1 302 Found\r\nLocation: https://login.example/\r\nContent-Length: 0\r\n\r\n",
    "nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
    "of old": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "not yet": b"HTTP/1.1 100 Continue\r\n\r\n" + ok_bytes(),
    "squeezed": ok_bytes(b"{}").replace(b"\r\n", b"\r\nContent-Encoding: identity\r\n", 1),
}


async def ask(door: type[Door], access: Access, *requests: Request) -> list[Response | str]:
    """Return what each request comes to: an answer, or the words of an error, without the number of the port."""
    found: list[Response | str] = []
    async with door(access, SetClock()) as transport:
        for request in requests:
            try:
                found.append(await transport.send(request))
            except ApiError as error:
                found.append(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", str(error)))
    return found


def ask_both(talk: Talk, *requests: Request) -> tuple[list[Response | str], list[Response | str]]:
    """Ask a server of each door's own."""

    async def main(door: type[Door]) -> list[Response | str]:
        async with raw_server(talk) as url:
            return await ask(door, Access(server=url, source="test", token="hidden"), *requests)

    complete, quick = (asyncio.run(main(door)) for door in DOORS)
    return complete, quick


class Answering:
    """A server that says the same to every request, and counts them."""

    def __init__(self, said: bytes) -> None:
        self._said = said
        self.heard = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(reader):
            self.heard += 1
            writer.write(self._said)
            if b"\r\nConnection: close\r\n" in self._said or not re.search(b"Length|chunked", self._said):
                return


class Counted:
    """A server that counts its connections."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.connections = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await self._talk(reader, writer)


# --- the same answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", PLAIN.values(), ids=PLAIN)
def test_a_plain_answer_is_read_at_once_and_is_that_of_the_complete_door(said: bytes) -> None:
    server = Answering(said)
    complete, quick = ask_both(server.talk, GET, GET)
    assert quick == complete
    assert all(isinstance(one, Response) for one in quick)
    # Twice by each door: what is not plain is asked once more.
    assert server.heard == 4


@pytest.mark.parametrize("said", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_any_other_answer_is_that_of_the_complete_door(said: bytes) -> None:
    server = Answering(said)
    complete, quick = ask_both(server.talk, GET)
    assert quick == complete
    assert server.heard == 3


@pytest.mark.parametrize("talk", LIES.values(), ids=LIES)
def test_a_broken_answer_is_told_in_the_words_of_the_complete_door(talk: Talk) -> None:
    complete, quick = ask_both(talk, GET)
    assert quick == complete
    assert "hidden" not in str(quick)


def test_a_request_arrives_as_that_of_the_complete_door() -> None:
    seen: list[dict[str, Any]] = []

    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        headers = {name: value for name, value in http.headers.items() if name not in ("Accept-Encoding", "Host")}
        seen.append({"path": http.raw_path.partition("?")[0], "query": dict(http.query), "headers": headers})
        assert http.headers["Host"].startswith("127.0.0.1:")
        return web.Response(text="{}")

    async def main() -> None:
        async with http_server(answer) as url:
            for door in DOORS:
                access = Access(server=f"{url}/k8s/clusters/c%2F1", source="test", token="secret")
                strange = {"labelSelector": "a=b,c in (d, ü)", "fieldSelector": "metadata.name=x&y+z%", "limit": "500"}
                await ask(door, access, GET, Request(method="GET", path="/apis/x", query=strange, accept="a/b"))

    asyncio.run(main())
    assert seen[:2] == seen[2:]
    assert seen[0]["headers"]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("place", ["ada:pw@127.0.0.1", "127.0.0.1"])
@pytest.mark.parametrize("below", ["", "/k8s", "/k 8s", "/ü", "/k8s?a=b", "/k8s#a"])
def test_an_address_of_any_form_is_asked_as_by_the_complete_door(place: str, below: str) -> None:
    seen: list[tuple[str, str]] = []

    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        seen.append((http.raw_path, http.headers.get("Authorization", "")))
        return web.Response(text="{}")

    async def main() -> None:
        async with http_server(answer) as url:
            access = Access(server=url.replace("127.0.0.1", place) + below, source="test")
            complete, quick = [await ask(door, access, GET) for door in DOORS]
            assert quick == complete

    asyncio.run(main())
    assert seen[:1] == seen[1:]


# --- the same TLS ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "kubernetes.default", "another"])
@pytest.mark.parametrize("served", [(), ("kubernetes.default",)], ids=["address", "name"])
@pytest.mark.parametrize("trust", ["its authority", "another authority", "the machine's authorities", "anybody"])
def test_a_server_is_trusted_as_by_the_complete_door(trust: str, served: tuple[str, ...], name: str) -> None:
    authority = Authority()
    ours = authority.client("ada")
    authorities = {"its authority": authority.pem, "another authority": Authority().pem}

    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=client_name(http))

    async def main() -> None:
        async with http_server(answer, tls=authority.context(*served, asks_clients=True)) as url:
            access = Access(
                server=url, source="test", certificate_authority=authorities.get(trust), tls_server_name=name,
                is_insecure=trust == "anybody", client_certificate=ours.certificate, client_key=ours.key,
            )  # fmt: skip
            complete, quick = [await ask(door, access, GET, GET) for door in DOORS]
            assert quick == complete
            if isinstance(quick[0], Response):
                assert quick[0].body == b"ada"

    asyncio.run(main())


def test_nobody_at_an_address_is_told_in_the_words_of_the_complete_door() -> None:
    async def main() -> None:
        access = Access(server="https://127.0.0.1:1", source="test")
        complete, quick = [await ask(door, access, GET) for door in DOORS]
        assert quick == complete
        assert "Cannot connect to host" in str(quick)

    asyncio.run(main())


def test_a_token_that_is_no_longer_accepted_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        is_known = http.headers["Authorization"] == "Bearer new"
        path.write_text("new")
        return web.Response(text="{}", status=200 if is_known else 401)

    async def main() -> list[Response | str]:
        async with http_server(answer) as url:
            return await ask(LightTransport, Access(server=url, source="test", token_file=path), GET)

    (found,) = asyncio.run(main())
    assert isinstance(found, Response)
    assert found.status == 200


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("talk", NEVER.values(), ids=NEVER)
def test_a_server_that_never_answers_is_given_up_and_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, talk: Talk
) -> None:
    monkeypatch.setattr(light_transport, "ANSWER_SECONDS", 0.3)
    server = Counted(talk)
    found = ask_light(server.talk, GET)
    assert found == ["0 ConnectionLost: GET http://127.0.0.1:PORT/api/v1/x: no response in time"]
    assert server.connections == 1


def test_a_handshake_that_does_not_end_is_given_up_and_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light_transport, "CONNECT_SECONDS", 0.3)
    server = Counted(NEVER["accepts and never reads"])
    (found,) = ask_light(server.talk, GET, scheme="https")
    assert "Connection timeout to host https://127.0.0.1:PORT" in str(found)
    assert server.connections == 1


def ask_light(talk: Talk, *requests: Request, scheme: str = "http") -> list[Response | str]:
    async def main() -> list[Response | str]:
        async with raw_server(talk) as url:
            server = url.replace("http", scheme)
            return await ask(LightTransport, Access(server=server, source="test", is_insecure=True), *requests)

    return asyncio.run(main())


def test_a_read_that_is_cancelled_leaves_no_connection_behind() -> None:
    hung_up = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await reader.read()
        hung_up.set()

    async def main() -> None:
        async with raw_server(talk) as url, LightTransport(Access(server=url, source="test"), SetClock()) as transport:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await transport.send(GET)
            await hung_up.wait()

    asyncio.run(main())
    assert hung_up.is_set()


# --- connections -----------------------------------------------------------------------------------------------------


def count_connections(question: Callable[[LightTransport], Awaitable[None]], *, answer: Answer | None = None) -> int:
    connections: list[object] = []

    async def serve(http: web.BaseRequest) -> web.StreamResponse:
        if http.transport not in connections:
            connections.append(http.transport)
        return await answer(http) if answer else web.Response(text="{}")

    async def main() -> None:
        authority = Authority()
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(http_server(serve, tls=authority.context()))
            access = Access(server=url, source="test", certificate_authority=authority.pem)
            await question(await stack.enter_async_context(LightTransport(access, SetClock())))

    asyncio.run(main())
    return len(connections)


def test_one_connection_serves_one_read_after_the_other() -> None:
    async def question(transport: LightTransport) -> None:
        for _ in range(10):
            await transport.send(GET)

    assert count_connections(question) == 1


def test_reads_that_do_not_wait_for_each_other_are_on_their_way_together() -> None:
    waiting = 0
    everybody = asyncio.Event()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        nonlocal waiting
        waiting += 1
        if waiting == 5:
            everybody.set()
        await everybody.wait()
        return web.Response(text="{}")

    async def question(transport: LightTransport) -> None:
        for _ in range(3):
            await asyncio.gather(*(transport.send(GET) for _ in range(5)))

    assert count_connections(question, answer=answer) == 5


def test_a_crowd_is_served_by_no_more_connections_than_agreed() -> None:
    async def question(transport: LightTransport) -> None:
        await asyncio.gather(*(transport.send(GET) for _ in range(4 * light_transport.CONNECTIONS)))

    assert count_connections(question) <= light_transport.CONNECTIONS


def test_a_second_answer_that_nobody_asked_for_is_not_taken_for_the_next_one() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(ok_bytes(b'"asked"') + ok_bytes(b'"unasked"'))
        await reader.read()

    found = ask_light(talk, GET, GET, GET)
    assert [one.body if isinstance(one, Response) else one for one in found] == [b'"asked"'] * 3


def test_a_read_on_a_connection_that_ends_is_asked_once_more() -> None:
    server = HangsUp()
    found = ask_light(server.talk, GET, GET)
    assert [one.status if isinstance(one, Response) else one for one in found] == [200, 200]
    assert server.heard == ["GET"] * 3


# --- what goes to the complete door at once --------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [POST, DELETE], ids=lambda request: request.method)
def test_a_write_is_sent_once_whatever_is_answered(request_: Request) -> None:
    server = Answering(NOT_PLAIN["broken"])
    (found,) = ask_light(server.talk, request_)
    assert isinstance(found, Response)
    assert (found.status, server.heard) == (500, 1)


@pytest.mark.parametrize("path", ["/a b", "/ü", "/a\r\nX-Injected: x"])
def test_a_path_that_is_none_is_left_to_the_complete_door(path: str) -> None:
    complete, quick = ask_both(Answering(NOT_PLAIN["not found"]).talk, Request(method="GET", path=path))
    assert quick == complete


def test_a_stream_comes_through_the_complete_door() -> None:
    async def main() -> list[bytes]:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(raw_server(saying(CHUNKED, chunk(b"a\nb\n"), chunk(b""))))
            access = Access(server=url, source="test")
            transport = await stack.enter_async_context(LightTransport(access, SetClock()))
            lines = await stack.enter_async_context(transport.stream(WATCH))
            return [line async for line in lines]

    assert asyncio.run(main()) == [b"a", b"b"]


def test_a_proxy_is_used_for_reads_too() -> None:
    proxy, authority = Proxy(), Authority()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="{}")

    async def main() -> None:
        async with http_server(answer, tls=authority.context()) as url, raw_server(proxy.talk) as proxied:
            access = Access(server=url, source="test", certificate_authority=authority.pem, proxy_url=proxied)
            (found,) = await ask(LightTransport, access, GET)
            assert isinstance(found, Response)
            assert proxy.targets == [url.removeprefix("https://")]

    asyncio.run(main())


def test_a_credential_plugin_is_asked_for_reads_too() -> None:
    plugin = ExecPlugin(api_version="client.authentication.k8s.io/v1", command="no-such-plugin")

    async def main() -> None:
        access = Access(server="https://127.0.0.1:1", source="test", plugin=plugin)
        async with LightTransport(access, SetClock()) as transport:
            with pytest.raises(ConnectionLost, match="no-such-plugin"):
                await transport.send(GET)

    asyncio.run(main())


# --- a program that must stay small ----------------------------------------------------------------------------------


async def ask_small(access: Access, *requests: Request) -> list[Response | str]:
    """Ask with a transport that stays light, and check that it did."""
    found: list[Response | str] = []
    async with LightTransport(access, SetClock(), stays_light=True) as transport:
        for request in requests:
            try:
                if "watch" in request.query:
                    async with transport.stream(request) as lines:
                        found.append(str([line async for line in lines]))
                else:
                    found.append(await transport.send(request))
            except ApiError as error:
                found.append(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", str(error)))
        assert transport.is_light
    return found


@pytest.mark.parametrize("name", ["not allowed", "broken"])
def test_an_error_is_that_of_the_complete_transport_without_loading_it(name: str) -> None:
    server = Answering(NOT_PLAIN[name])

    async def main() -> list[Response | str]:
        async with raw_server(server.talk) as url:
            return await ask_small(Access(server=url, source="test", token="hidden"), GET)

    complete, _ = ask_both(Answering(NOT_PLAIN[name]).talk, GET)
    assert asyncio.run(main()) == complete
    assert server.heard == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (NOT_PLAIN["not allowed"], "403"),
        (b"HTTP/1.1 410 Gone\r\nContent-Length: 31\r\n\r\n" + b'{"reason":"Expired","code":410}', "410 Expired"),
        (NOT_PLAIN["elsewhere"], "0 ConnectionLost"),
        (b"nonsense\r\n\r\n", "0 ConnectionLost"),
        (b"", "the connection broke"),
    ],
)
def test_a_watch_that_is_not_opened_raises_the_reason(said: bytes, expected: str) -> None:
    async def main() -> list[Response | str]:
        async with raw_server(Answering(said).talk) as url:
            return await ask_small(Access(server=url, source="test"), WATCH)

    (found,) = asyncio.run(main())
    assert expected in str(found)


def test_a_server_that_is_away_is_an_error() -> None:
    (found,) = asyncio.run(ask_small(Access(server="https://127.0.0.1:1", source="test"), GET))
    assert "Connect call failed" in str(found)


def test_a_transport_that_stays_light_reads_a_rejected_token_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        is_known = http.headers["Authorization"] == "Bearer new"
        path.write_text("new")
        return web.Response(text="{}", status=200 if is_known else 401)

    async def main() -> list[Response | str]:
        async with http_server(answer) as url:
            return await ask_small(Access(server=url, source="test", token_file=path), GET)

    (found,) = asyncio.run(main())
    assert isinstance(found, Response)
    assert found.status == 200
