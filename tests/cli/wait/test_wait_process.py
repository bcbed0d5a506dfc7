"""`grove wait` as the process of an init container, against a server that restarts and tokens that are replaced."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from tests.kube.loopback import Authority
from tests.processes import die_with_parent

MOST_KILOBYTES = 40_000
GROVE = Path(sys.executable).with_name("grove")


class Cliques:
    """An API server with one PodClique, that accepts one token. It counts requests."""

    def __init__(self) -> None:
        self.token = "first"
        self.ready = 0
        self.version = 1
        self.requests: list[str] = []
        self._changed = asyncio.Condition()

    async def set_ready(self, ready: int) -> None:
        async with self._changed:
            self.ready, self.version = ready, self.version + 1
            self._changed.notify_all()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append("watch" if "watch" in request.query else "list")
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            status = {"kind": "Status", "status": "Failure", "message": "Unauthorized", "code": 401}
            return web.json_response(status, status=401)
        if "watch" not in request.query:
            body = {
                "kind": "PodCliqueList",
                "metadata": {"resourceVersion": f"{self.version}"},
                "items": [self._clique],
            }
            return web.json_response(body)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        async with self._changed:
            await self._changed.wait_for(lambda: self.version > int(request.query["resourceVersion"]))
        await response.write(msgspec.json.encode({"type": "MODIFIED", "object": self._clique}) + b"\n")
        await asyncio.Event().wait()
        return response

    @property
    def _clique(self) -> dict[str, object]:
        return {
            "metadata": {"name": "job-0-a", "namespace": "lab", "uid": "u", "resourceVersion": f"{self.version}"},
            "spec": {"replicas": 2},
            "status": {"readyReplicas": self.ready},
        }


@asynccontextmanager
async def serving(cliques: Cliques, authority: Authority, port: int = 0) -> AsyncIterator[int]:
    runner = web.ServerRunner(web.Server(cliques.answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=authority.context()).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def write_account(root: Path, authority: Authority, token: str) -> None:
    """Write the files that the projected volume and the downward API give to the init container."""
    account, info = root / "var/run/secrets/kubernetes.io/serviceaccount", root / "var/grove/pod-info"
    for folder in (account, info):
        folder.mkdir(parents=True, exist_ok=True)
    (account / "token").write_text(token)
    (account / "namespace").write_text("lab")
    (account / "ca.crt").write_bytes(authority.pem)
    (info / "podgangname").write_text("job-0")


class Waiting:
    """A process of `grove wait` in a folder that is its pod."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            return (await self._process.stdout.readline()).decode().strip()

    @property
    def peak_kilobytes(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])

    async def ended(self) -> int:
        async with asyncio.timeout(30):
            return await self._process.wait()

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)


@asynccontextmanager
async def waiting(root: Path, port: int) -> AsyncIterator[Waiting]:
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    pod = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": f"{port}", "GROVE_ROOT": f"{root}"}
    process = await asyncio.create_subprocess_exec(
        str(GROVE),
        "wait",
        "--podcliques=job-0-a:2",
        env={**inherited, **pod, "HOME": str(root)},
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    try:
        yield Waiting(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_it_survives_a_restart_of_the_server_and_a_replaced_token_below_40_megabytes(tmp_path: Path) -> None:
    async def story() -> None:
        cliques, authority = Cliques(), Authority()
        write_account(tmp_path, authority, "first")
        async with AsyncExitStack() as stack:
            async with serving(cliques, authority) as port:
                program = await stack.enter_async_context(waiting(tmp_path, port))
                assert await program.line() == "waiting for podclique/job-0-a (0 of 2 ready)"
                await cliques.set_ready(1)
                assert await program.line() == "waiting for podclique/job-0-a (1 of 2 ready)"
                assert cliques.requests == ["list", "watch"]
            assert (await program.line()).startswith("waiting for the API server: GET https://127.0.0.1:")
            cliques.token = "second"
            write_account(tmp_path, authority, "second")
            async with serving(cliques, authority, port):
                while (line := await program.line()).startswith("waiting for the API server"):
                    pass
                assert line == "waiting for podclique/job-0-a (1 of 2 ready)"
                assert program.peak_kilobytes < MOST_KILOBYTES
                await cliques.set_ready(2)
                assert await program.line() == "started: podclique/job-0-a"
                assert await program.ended() == 0

    asyncio.run(story())


def test_sigterm_ends_it_with_1(tmp_path: Path) -> None:
    async def story() -> None:
        cliques, authority = Cliques(), Authority()
        write_account(tmp_path, authority, "first")
        async with serving(cliques, authority) as port, waiting(tmp_path, port) as program:
            assert await program.line() == "waiting for podclique/job-0-a (0 of 2 ready)"
            program.terminate()
            assert await program.ended() == 1

    asyncio.run(story())
