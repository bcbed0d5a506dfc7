"""Every test of this folder is told once and run against both servers: the embedded one, and the real one (`kube`).

Tests are coroutines with an argument `api`; all run on one event loop, which also runs the embedded server.
"""

import asyncio
import inspect
from collections.abc import Iterator
from itertools import count

import pytest

from grove.clock import LoopClock
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from tests.conformance.embedded import Embedded
from tests.conformance.known_differences import differences_of
from tests.conformance.talk import Talk
from tests.kube.controlplane.build import chosen_version
from tests.kube.controlplane.plane import Plane

_numbers = count()


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="session")
def embedded(runner: asyncio.Runner) -> Iterator[Access]:
    async def make() -> Embedded:
        return Embedded()

    server = runner.run(make())
    yield runner.run(server.start())
    runner.run(server.stop())


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def access(request: pytest.FixtureRequest) -> Access:
    """How to reach the server that the test is about."""
    if request.param == "embedded":
        embedded: Access = request.getfixturevalue("embedded")
        return embedded
    plane: Plane = request.getfixturevalue("plane")
    return plane.access()


@pytest.fixture
def api(runner: asyncio.Runner, access: Access) -> Iterator[Talk]:
    """A client with an empty namespace of its own."""

    async def open_talk() -> tuple[Talk, HttpTransport]:
        clock = LoopClock.starting_now()
        transport = HttpTransport(access, clock)
        talk = Talk(transport, clock, f"test-{next(_numbers)}")
        await talk.create("namespaces", {"metadata": {"name": talk.namespace}})
        await talk.furnished()
        return talk, transport

    talk, transport = runner.run(open_talk())
    yield talk
    runner.run(transport.close())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: value for name, value in pyfuncitem.funcargs.items() if name in wanted}
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(pyfuncitem.obj(**arguments))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and (server := _server_of(item)) is not None:
            known = differences_of(server, chosen_version())
            key = _key(item, server)
            reason = known.get(key) or known.get(key.partition("[")[0])
            if reason is not None:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))


def _server_of(item: pytest.Function) -> str | None:
    spec = getattr(item, "callspec", None)
    found = None if spec is None else spec.params.get("access") or spec.params.get("past")
    return None if found is None else str(found)


def _key(item: pytest.Function, server: str) -> str:
    """`test_module::test_name[parameters]`, without the parameter that names the server."""
    name = item.name.replace(f"[{server}-", "[").replace(f"[{server}]", "").replace(f"-{server}]", "]")
    return f"{item.path.stem}::{name}"
