"""How connections are made and kept: TLS, names, proxies, reuse, and how we introduce ourselves."""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from grove.errors import UserError
from grove.kube import http_transport
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from grove.kube.tls import tls_context
from grove.kube.transport import Request, user_agent
from tests.kube.loopback import (
    GET,
    POST,
    Authority,
    Proxy,
    client_name,
    connected,
    http_server,
    lines_of,
    ok_bytes,
    raw_server,
    read_request,
)


async def who_asks(http_request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text=f"{client_name(http_request)} {http_request.host}")


def send(tls: ssl.SSLContext | None, **described: Any) -> str:
    """What a server that serves like this answers, reached like that."""

    async def main() -> str:
        async with http_server(who_asks, tls=tls) as url, connected(access_to(url, **described)) as transport:
            return (await transport.send(GET)).body.decode()

    return asyncio.run(main())


def access_to(url: str, **described: Any) -> Access:
    return Access(**{"server": url, "source": "test", **described})


# --- TLS -------------------------------------------------------------------------------------------------------------


def test_a_client_certificate_says_who_we_are() -> None:
    authority = Authority()
    pair = authority.client("ada")
    ours = {"client_certificate": pair.certificate, "client_key": pair.key}
    tls = authority.context(asks_clients=True)
    assert send(tls, certificate_authority=authority.pem, **ours).startswith("ada 127.0.0.1")
    assert send(tls, is_insecure=True, **ours).startswith("ada ")
    assert send(tls, certificate_authority=authority.pem).startswith(" 127.0.0.1")


def test_a_server_is_checked_by_the_name_that_we_are_told_to_expect() -> None:
    authority = Authority()
    tls = authority.context("kubernetes.default")
    with pytest.raises(ConnectionLost, match="IP address mismatch"):
        send(tls, certificate_authority=authority.pem)
    assert send(tls, certificate_authority=authority.pem, tls_server_name="kubernetes.default")
    with pytest.raises(ConnectionLost, match="Hostname mismatch"):
        send(tls, certificate_authority=authority.pem, tls_server_name="another")


def test_a_server_of_another_authority_is_not_talked_to() -> None:
    with pytest.raises(ConnectionLost, match="certificate verify failed") as caught:
        send(Authority().context(), certificate_authority=Authority().pem)
    # These words go to people as they are: on a terminal, in the operator's log and on its page of readiness.
    assert "ssl:" not in caught.value.message


def test_nobody_at_an_address_is_told_without_the_settings_of_our_connection() -> None:
    async def main() -> None:
        async with connected(access_to("https://127.0.0.1:1")) as transport:
            await transport.send(GET)

    with pytest.raises(ConnectionLost, match=r"Cannot connect to host 127\.0\.0\.1:1 \["):
        asyncio.run(main())


def test_a_server_that_speaks_no_tls_is_an_error_and_no_secret_is_sent() -> None:
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1000))
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def main() -> None:
        async with raw_server(talk) as url:
            access = access_to(url.replace("http:", "https:"), is_insecure=True, token="hidden")
            async with connected(access) as transport:
                await transport.send(GET)

    with pytest.raises(ConnectionLost, match=r"SSL|ssl"):
        asyncio.run(main())
    assert b"hidden" not in b"".join(heard)


def test_a_key_that_needs_a_password_is_an_error_and_not_a_question() -> None:
    pair = Authority().client("ada")
    key = serialization.load_pem_private_key(pair.key, None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"pw")
    )
    with pytest.raises(UserError, match="a certificate or key is not valid PEM"):
        tls_context(access_to("https://x", client_certificate=pair.certificate, client_key=key))


# --- proxies ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def behind(
    proxy: Proxy, authority: Authority, *, tls: ssl.SSLContext | None = None, login: str = ""
) -> AsyncIterator[tuple[HttpTransport, str]]:
    """A TLS server that is reached through a proxy; and its address."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(http_server(who_asks, tls=authority.context()))
        proxy_url = await stack.enter_async_context(raw_server(proxy.talk, tls=tls))
        access = access_to(
            url, certificate_authority=authority.pem, proxy_url=proxy_url.replace("://", f"://{login}"), token="hidden"
        )
        yield await stack.enter_async_context(connected(access)), url.removeprefix("https://")


@pytest.mark.parametrize("is_tls", [False, True], ids=["http", "https"])
def test_a_proxy_tunnels_and_keeps_its_tunnel_open(is_tls: bool) -> None:
    async def main() -> None:
        authority, proxy = Authority(), Proxy()
        async with behind(proxy, authority, tls=authority.context() if is_tls else None) as (transport, address):
            answers = [(await transport.send(request)).body.decode() for request in (GET, POST, GET)]
            assert answers == [f" {address}"] * 3
            assert proxy.targets == [address]

    asyncio.run(main())


def test_a_server_behind_a_proxy_is_checked_by_its_own_name() -> None:
    async def main() -> str:
        authority, proxy = Authority(), Proxy()
        async with http_server(who_asks, tls=authority.context("kubernetes")) as url, raw_server(proxy.talk) as proxied:
            known = {"certificate_authority": authority.pem, "proxy_url": proxied}
            async with connected(access_to(url, **known)) as transport:
                with pytest.raises(ConnectionLost, match="certificate verify failed"):
                    await transport.send(GET)
            async with connected(access_to(url, **known, tls_server_name="kubernetes")) as transport:
                return (await transport.send(GET)).body.decode()

    assert asyncio.run(main())


def test_a_proxy_is_told_the_password_in_its_address_and_nobody_else_is() -> None:
    async def main() -> None:
        proxy = Proxy(password="p/w")
        async with behind(proxy, Authority(), login="me:p%2Fw@") as (transport, address):
            assert [(await transport.send(GET)).body.decode() for _ in range(3)] == [f" {address}"] * 3
            assert proxy.targets == [address]
        async with behind(Proxy(password="other"), Authority(), login="me:pw@") as (transport, _):
            with pytest.raises(ConnectionLost, match="407, message='Proxy Authentication Required'") as caught:
                await transport.send(GET)
            # Not even where a traceback would show it.
            assert not re.search("pw|hidden", f"{caught.value} {caught.value.__cause__!r}")

    asyncio.run(main())


def test_a_plain_server_behind_a_proxy_is_asked_for_by_its_whole_address() -> None:
    heard: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await read_request(reader))
        writer.write(ok_bytes())

    async def main() -> int:
        async with raw_server(proxy) as proxied:
            access = access_to("http://far.example", proxy_url=proxied.replace("://", "://me:pw@"))
            async with connected(access) as transport:
                return (await transport.send(GET)).status

    assert asyncio.run(main()) == 200
    assert heard[0].startswith(b"GET http://far.example/api/v1/x HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6cHc=" in heard[0]


@pytest.mark.parametrize("refusal", ["403 Forbidden", "502 Bad Gateway", "200", "nonsense"])
def test_a_proxy_that_refuses_is_a_lost_connection(refusal: str) -> None:
    async def main() -> None:
        async with behind(Proxy(refuses_with=refusal), Authority()) as (transport, _):
            await transport.send(POST)

    with pytest.raises(ConnectionLost, match=refusal.partition(" ")[2] or "POST https://"):
        asyncio.run(main())


def test_a_proxy_that_accepts_and_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "CONNECT_SECONDS", 0.2)

    async def never(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass

    async def main() -> None:
        async with AsyncExitStack() as stack:
            proxied = await stack.enter_async_context(raw_server(never))
            access = access_to("https://127.0.0.1:1", proxy_url=proxied)
            await (await stack.enter_async_context(connected(access))).send(GET)

    with pytest.raises(ConnectionLost, match=r"Connection timeout to host https://127\.0\.0\.1:1"):
        asyncio.run(main())


# --- reuse -----------------------------------------------------------------------------------------------------------


def count_connections(ask: Callable[[HttpTransport], Awaitable[None]]) -> int:
    connections: list[object] = []

    async def answer(http_request: web.BaseRequest) -> web.StreamResponse:
        if http_request.transport not in connections:
            connections.append(http_request.transport)
        await http_request.read()
        return web.Response(text="{}", status=404 if http_request.path == "/missing" else 200)

    async def main() -> None:
        authority = Authority()
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(http_server(answer, tls=authority.context()))
            access = access_to(url, certificate_authority=authority.pem)
            await ask(await stack.enter_async_context(connected(access)))

    asyncio.run(main())
    return len(connections)


def test_one_connection_serves_one_request_after_the_other() -> None:
    async def ask(transport: HttpTransport) -> None:
        for request in (GET, POST, Request(method="GET", path="/missing"), GET) * 5:
            await transport.send(request)

    assert count_connections(ask) == 1


def test_a_crowd_is_served_by_no_more_connections_than_agreed() -> None:
    async def ask(transport: HttpTransport) -> None:
        await asyncio.gather(*(transport.send(POST) for _ in range(4 * http_transport.CONNECTIONS)))

    assert count_connections(ask) <= http_transport.CONNECTIONS


def test_a_vanished_peer_is_noticed_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    class Socket(socket.socket):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    async def main() -> list[int]:
        async with http_server(who_asks) as url, connected(access_to(url)) as transport:
            monkeypatch.setattr(socket, "socket", Socket)
            await transport.send(GET)
            options = (socket.SO_KEEPALIVE,)
            return [made[0].getsockopt(socket.SOL_SOCKET, option) for option in options] + [
                made[0].getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            ]

    assert asyncio.run(main()) == [1, 30, 10, 3]


# --- how we introduce ourselves --------------------------------------------------------------------------------------


def test_a_request_says_which_version_asks() -> None:
    async def answer(http_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=http_request.headers["User-Agent"])

    async def main() -> str:
        async with http_server(answer) as url, connected(access_to(url)) as transport:
            return (await transport.send(GET)).body.decode()

    assert re.fullmatch(r"grove/\d+\.\d+\.\d+\S* \(linux/\w+\)", asyncio.run(main()))
    assert user_agent() == asyncio.run(main())


def test_a_compressed_answer_is_read() -> None:
    async def answer(http_request: web.BaseRequest) -> web.StreamResponse:
        response = web.Response(text=f'"{http_request.headers["Accept-Encoding"]} {"x" * 10_000}"')
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async def main() -> str:
        async with http_server(answer) as url, connected(access_to(url)) as transport:
            return (await transport.send(GET)).body.decode()

    assert re.fullmatch('"gzip.* x{10000}"', asyncio.run(main()))


def test_a_server_may_live_below_a_path() -> None:
    async def answer(http_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=http_request.path_qs)

    async def main() -> str:
        async with http_server(answer) as url, connected(access_to(f"{url}/k8s/clusters/c%2F1")) as transport:
            return (await transport.send(GET)).body.decode()

    assert asyncio.run(main()) == "/k8s/clusters/c%2F1/api/v1/x"


# --- answers that are not an API server's ----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirection_is_not_followed_and_says_where_to(status: int) -> None:
    seen: list[str] = []

    async def answer(http_request: web.BaseRequest) -> web.StreamResponse:
        seen.append(http_request.path)
        return web.Response(status=status, headers={"Location": "https://login.example/?state=hidden"})

    async def main() -> None:
        async with http_server(answer) as url, connected(access_to(url, token="secret")) as transport:
            await lines_of(transport)

    with pytest.raises(ApiError) as caught:
        asyncio.run(main())
    assert (caught.value.code, caught.value.reason) == (status, "Redirected")
    assert caught.value.message == (
        "GET /api/v1/x: redirected to https://login.example/; set server to the API server itself"
    )
    assert seen == ["/api/v1/x"]


def test_a_page_for_people_is_no_watch() -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="<html>\n<b>Welcome</b>\n", content_type="text/html")

    async def main() -> None:
        async with http_server(answer) as url, connected(access_to(url)) as transport:
            await lines_of(transport)

    with pytest.raises(ConnectionLost, match="the response is text/html, perhaps from a proxy"):
        asyncio.run(main())
