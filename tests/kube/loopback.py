"""Real servers on this machine's loopback for the client to talk to: HTTP, TLS, a proxy, and raw bytes at will.

Also the certificates they need, and a clock that tests set. What they prove is in the tests.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from grove.clock import LoopClock
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from grove.kube.transport import Request

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

GET = Request(method="GET", path="/api/v1/x")
WATCH = Request(method="GET", path="/api/v1/x", query={"watch": "true"})
POST = Request(method="POST", path="/api/v1/x", body=b"{}")
DELETE = Request(method="DELETE", path="/api/v1/x", body=b"{}")


class SetClock:
    """Implements `Clock`: the machine's, moved on by the test."""

    def __init__(self) -> None:
        self._clock = LoopClock.starting_now()
        self.ahead = 0.0

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return self._clock.monotonic() + self.ahead

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


@asynccontextmanager
async def connected(access: Access, clock: SetClock | None = None) -> AsyncIterator[HttpTransport]:
    async with HttpTransport(access, clock or SetClock()) as transport:
        yield transport


async def lines_of(transport: HttpTransport, request: Request = WATCH) -> list[bytes]:
    async with transport.stream(request) as lines:
        return [line async for line in lines]


# --- servers ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def http_server(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that answers like this; yields its address."""
    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(talk: Talk, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that says any bytes it likes to each connection; yields its address."""
    tasks: list[asyncio.Task[None]] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await talk(reader, writer)
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        tasks.append(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        # What was accepted a moment ago is handed over one turn of the loop later.
        await SetClock().sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            # A task that is cancelled before its first step closes nothing.
            writer.close()
        # The transports close one turn of the loop later.
        await SetClock().sleep(0)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """One request: its head and a body as long as it says."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    return head + await reader.readexactly(length)


def ok_bytes(body: bytes = b"{}") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Proxy:
    """An HTTP proxy that tunnels what it is asked to CONNECT to, and remembers that it was."""

    def __init__(self, *, password: str = "", refuses_with: str = "") -> None:
        self.targets: list[str] = []
        self._expected = base64.b64encode(f"me:{password}".encode()).decode() if password else ""
        self._refusal = refuses_with

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        _, target, _ = head.split(" ", 2)
        self.targets.append(target)
        if self._expected and f"Proxy-Authorization: Basic {self._expected}" not in head:
            self._refusal = "407 Proxy Authentication Required"
        if self._refusal:
            writer.write(f"HTTP/1.1 {self._refusal}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        host, port = target.split(":")
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, inner_writer))
                group.create_task(_pump(inner_reader, writer))
        finally:
            inner_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()


# --- certificates ----------------------------------------------------------------------------------------------------


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A CA that signs whatever a test needs."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a CA")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self.pem = _pem(self._builder(self._name, self._key).add_extension(constraints, critical=True), self._key)

    def server(self, *names: str) -> Pair:
        """For this machine's loopback address, unless other names are given."""
        wanted: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternatives = x509.SubjectAlternativeName(wanted or [x509.IPAddress(ip_address("127.0.0.1"))])
        return self._signed("server", alternatives)

    def client(self, name: str) -> Pair:
        return self._signed(name, None)

    def context(self, *names: str, asks_clients: bool = False) -> ssl.SSLContext:
        """What a server of this CA serves with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = self.server(*names)
        with TemporaryDirectory() as folder:
            path = Path(folder, "server.pem")
            path.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(path)
        context.load_verify_locations(cadata=self.pem.decode())
        # As API servers do: asked for, and judged later.
        context.verify_mode = ssl.CERT_OPTIONAL if asks_clients else ssl.CERT_NONE
        return context

    def _signed(self, name: str, alternatives: x509.SubjectAlternativeName | None) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Pair(certificate=_pem(builder, self._key), key=private)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
            .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        )


def _pem(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def client_name(http: web.BaseRequest) -> str:
    """Who the client's certificate says it is; empty without one."""
    assert http.transport is not None
    certificate = http.transport.get_extra_info("peercert")
    return next((value for part in (certificate or {}).get("subject", ()) for key, value in part), "")
