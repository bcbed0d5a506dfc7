"""Hostile bytes on real sockets: requests as no HTTP library would write them, and what comes back.

A request that is whole and well-formed must be answered; to one that is not, the server may also just hang up.
"""

import asyncio
import gzip
import ssl
from contextlib import suppress
from random import Random
from urllib.parse import quote

import msgspec

from grove.kube.transport import Request, Response
from tests.cluster.served_http import TOKEN, HttpClient
from tests.fuzz.mischief import Mischief
from tests.fuzz.verdicts import wrong_with_answer

# In real time, for an answer or the end of the connection. A watch ends by itself after a second.
_PATIENCE = 180.0
# With a request that is not whole: the server waits for the rest of it, and may.
_SHORT_PATIENCE = 0.2
_ZIPPED_BLANKS = gzip.compress(b" " * 4_000_000)
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
_UNKNOWN = Request(method="GET", path="")


class WireStruct(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, and whether it is HTTP that must be answered."""

    request: Request
    data: bytes
    is_well_formed: bool = True
    # The client goes before it has read anything.
    is_abandoned: bool = False


class Writer:
    """Draws what is written on a socket."""

    def __init__(self, random: Random, port: int) -> None:
        self._random = random
        self._mischief = Mischief(random)
        self._port = port

    def draw(self) -> WireStruct:
        request = self._mischief.request()
        if request.query.get("watch") is not None or request.query.get("follow") is not None:
            request = msgspec.structs.replace(request, query={**request.query, "timeoutSeconds": "1"})
        trick = self._random.choices(
            (self._plain, self._chunked, self._broken_chunks, self._short, self._cut, self._odd_headers, self._zipped,
             self._odd_line, self._abandoned, self._expecting, self._old),
            weights=(40, 6, 4, 4, 4, 10, 6, 6, 4, 2, 2),
        )[0]  # fmt: skip
        return trick(request)

    def _plain(self, request: Request) -> WireStruct:
        return WireStruct(request=request, data=self._head(request, self._length(request.body)) + request.body)

    def _chunked(self, request: Request) -> WireStruct:
        body, parts = request.body, []
        while body:
            size = self._random.randint(1, 400)
            parts.append(b"%x\r\n%b\r\n" % (len(body[:size]), body[:size]))
            body = body[size:]
        data = self._head(request, ["Transfer-Encoding: chunked"]) + b"".join(parts) + b"0\r\n\r\n"
        return WireStruct(request=request, data=data)

    def _broken_chunks(self, request: Request) -> WireStruct:
        tail = self._random.choice(
            (b"x\r\n", b"5\r\nab\r\n0\r\n\r\n", b"-1\r\n", b"ffffffffffffffff\r\n", b"1;" + b"x" * 9000)
        )
        data = self._head(request, ["Transfer-Encoding: chunked"]) + tail
        return WireStruct(request=request, data=data, is_well_formed=False)

    def _short(self, request: Request) -> WireStruct:
        """More is announced than comes."""
        data = self._head(request, [f"Content-Length: {len(request.body) + 5}"]) + request.body
        return WireStruct(request=request, data=data, is_well_formed=False)

    def _cut(self, request: Request) -> WireStruct:
        data = self._head(request, self._length(request.body)) + request.body
        return WireStruct(request=request, data=data[: self._random.randrange(len(data))], is_well_formed=False)

    def _abandoned(self, request: Request) -> WireStruct:
        data = self._head(request, self._length(request.body)) + request.body
        return WireStruct(request=request, data=data, is_abandoned=True)

    def _odd_headers(self, request: Request) -> WireStruct:
        odd = self._random.choice(
            (
                ["X: \xff\xfe"], ["User-Agent: \xff\xfe\xe9"], ["User-Agent: " + "a" * 2000],
                ["Impersonate-User: \xff"],
                ["Impersonate-User: u"], ["Impersonate-Group: g"],
                ["Impersonate-User: u", "Impersonate-Group: system:masters"],
                ["Impersonate-Extra-a%zz: b", "Impersonate-User: u"], ["Impersonate-Uid: 1"], ["Impersonate-User: "],
                ["Accept: \xff"], ["Accept-Encoding: gzip"], ["X-Forwarded-For: 1.2.3.4"], ["Cookie: a=b; c"],
                ["Upgrade: websocket", "Connection: close, Upgrade", "Sec-WebSocket-Key: x"],
                ["Upgrade: SPDY/3.1", "Connection: close, Upgrade"],
                ["If-None-Match: x"], ["Range: bytes=0-1"], ["Origin: https://evil.example"], ["Content-Type: \xff/x"],
                [f"X-{number}: y" for number in range(60)],
            )
        )  # fmt: skip
        head = self._head(request, self._length(request.body), {line.partition(":")[0]: line for line in odd})
        return WireStruct(request=request, data=head + request.body)

    def _zipped(self, request: Request) -> WireStruct:
        kind = self._random.choice(("gzip", "deflate", "br", "zstd", "identity", "x", "gzip, gzip"))
        body = self._random.choice((gzip.compress(request.body), request.body, b"\x1f\x8b", _ZIPPED_BLANKS))
        head = self._head(request, [*self._length(body), f"Content-Encoding: {kind}"])
        return WireStruct(request=request, data=head + body)

    def _odd_line(self, request: Request) -> WireStruct:
        line = self._random.choice(
            (
                b"GET /api/v1/pods HTTP/9.9", b"GET  /api HTTP/1.1", b"G\xffT /api HTTP/1.1", b"GET /api", b"",
                b"\x00\x01\x02",
                b"GET http://evil.example/api/v1/pods HTTP/1.1", b"GET //evil.example/api HTTP/1.1",
                b"CONNECT a:1 HTTP/1.1",
                b"OPTIONS * HTTP/1.1", b"GET /\xff\xfe HTTP/1.1", b"GET /%zz HTTP/1.1", b"GET /%ff?%ff=%ff HTTP/1.1",
                b"GET ? HTTP/1.1",
                b"GET /" + b"a" * 9000 + b" HTTP/1.1", b"GET /api/v1/pods?" + b"&" * 3000 + b" HTTP/1.1",
                b"PRI * HTTP/2.0",
                b"GET /api/v1/namespaces/default/pods/%2e%2e HTTP/1.1", b"GET /api/v1/../../api/v1/pods HTTP/1.1",
                b"GET /#x HTTP/1.1",
            )
        )  # fmt: skip
        headers = b"Host: 127.0.0.1\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\nConnection: close\r\n\r\n"
        return WireStruct(request=_UNKNOWN, data=line + b"\r\n" + headers, is_well_formed=False)

    def _expecting(self, request: Request) -> WireStruct:
        head = self._head(request, [*self._length(request.body), "Expect: 100-continue"])
        return WireStruct(request=request, data=head + request.body)

    def _old(self, request: Request) -> WireStruct:
        data = self._head(request, self._length(request.body)) + request.body
        return WireStruct(request=request, data=data.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1))

    def _length(self, body: bytes) -> list[str]:
        return [f"Content-Length: {len(body)}"]

    def _head(self, request: Request, more: list[str], instead: dict[str, str] | None = None) -> bytes:
        # Others are refused by the HTTP library, in its own words.
        method = request.method if request.method in _METHODS else "TRACE"
        query = "&".join(f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in request.query.items())
        path = quote(request.path, safe="/%;=*~.-_") or "/"
        lines = [
            f"{method} {path if path.startswith('/') else '/' + path}{'?' + query if query else ''} HTTP/1.1",
            f"Host: 127.0.0.1:{self._port}",
            f"Authorization: Bearer {TOKEN}",
            f"User-Agent: {request.program or 'wire'}",
            f"Content-Type: {request.content_type}",
            "Connection: close",
        ]
        if request.accept:
            lines.append(f"Accept: {request.accept}")
        named = {line.partition(":")[0]: line for line in (*lines[1:], *more)} | (instead or {})
        return "\r\n".join([lines[0], *named.values(), "", ""]).encode("latin-1", "replace")


async def attempt(http: HttpClient, wire: WireStruct, trusted: ssl.SSLContext) -> str:
    """What is wrong with what came back; empty: nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", http.api.port, ssl=trusted)
    try:
        writer.write(wire.data)
        await writer.drain()
        if wire.is_abandoned:
            return ""
        async with asyncio.timeout(_PATIENCE if wire.is_well_formed else _SHORT_PATIENCE):
            answer = await reader.read()
    except TimeoutError:
        # Whoever has announced more may be waited for.
        return "no answer" if wire.is_well_formed else ""
    except ConnectionError as problem:
        return f"the connection was cut: {problem}" if wire.is_well_formed else ""
    finally:
        await hung_up(writer)
    return _judged(wire, answer)


async def hung_up(writer: asyncio.StreamWriter) -> None:
    """At once, and with nothing left of it."""
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


def _judged(wire: WireStruct, answer: bytes) -> str:
    while answer.startswith(b"HTTP/1.1 100"):
        answer = answer.partition(b"\r\n\r\n")[2]
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/"):
        return f"an answer that is no HTTP: {answer[:100]!r}" if wire.is_well_formed or answer else ""
    status = int(head.split(b" ")[1])
    if not wire.is_well_formed and status == 400:
        # Said by the HTTP library, before anybody could say it as a Status.
        return ""
    if b"chunked" in head.lower() or wire.request.method == "HEAD":
        return f"{status}: {body[:200]!r}" if status >= 500 else ""
    return wrong_with_answer(wire.request, Response(status=status, body=body))
