"""schemathesis reads what the server says of itself (OpenAPI v3), and asks for it: are the answers what was announced?

Over HTTP, from a thread of its own. Names are chosen so that many requests meet objects.
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    status_code_conformance,
)

from grove.cluster.in_process_transport import InProcessTransport
from grove.kube.transport import Request, Response
from tests.cluster.served_http import TOKEN, HttpClient, http_cluster
from tests.fuzz.counts import BY_DOCUMENT
from tests.fuzz.rounds import moody, populate
from tests.fuzz.verdicts import wrong_with_answer
from tests.seeds import is_deep

_PER_OPERATION = 2 if is_deep() else 1
# In real time: a server that does not answer is a failure, and no watch goes on for ever.
_PATIENCE_SECONDS = 180
_NAMES = ("a", "b", "c", "new")
# What a success must be; a refusal is a Status, whatever was asked for.
_PROMISES = [not_a_server_error, status_code_conformance, content_type_conformance]


class ServedCluster:
    """A cluster on a loop that runs in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._is_over: asyncio.Event
        self._ready: Future[HttpClient] = Future()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))
        self._thread.start()
        self.http = self._ready.result(_PATIENCE_SECONDS)

    async def _run(self) -> None:
        self._is_over = asyncio.Event()
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(http_cluster())
            # Never those that a configuration names: schemathesis writes any address into it.
            http.server.enable_webhooks(moody(Random(7)))
            await populate(InProcessTransport(http.server, http.server.clock))
            self._ready.set_result(http)
            await self._is_over.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def served_cluster() -> Iterator[ServedCluster]:
    made = ServedCluster()
    yield made
    made.close()


@contextmanager
def _session(served_cluster: ServedCluster, folder: Path) -> Iterator[requests.Session]:
    authority = folder / "ca.pem"
    authority.write_bytes(served_cluster.http.api.ca)
    with requests.Session() as session:
        session.verify = str(authority)
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        yield session


def _documents(session: requests.Session, url: str) -> Iterator[dict[str, Any]]:
    index = session.get(f"{url}/openapi/v3", timeout=_PATIENCE_SECONDS).json()
    for path in index["paths"]:
        yield session.get(f"{url}/openapi/v3/{path}", timeout=_PATIENCE_SECONDS).json()


def test_what_is_documented_is_answered_as_documented(served_cluster: ServedCluster, tmp_path: Path) -> None:
    url, count = served_cluster.http.api.url, 0
    with _session(served_cluster, tmp_path) as session:
        for document in _documents(session, url):
            schema = schemathesis.openapi.from_dict(document)
            for found in schema.get_all_operations():
                assert isinstance(found, Ok), found
                count += _tried(found.ok(), session, url)
    assert count >= BY_DOCUMENT * _PER_OPERATION // 2


def _tried(operation: Any, session: requests.Session, url: str) -> int:
    """How many requests were sent."""
    chance = Random(operation.label)
    count = 0

    @settings(
        max_examples=_PER_OPERATION,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        nonlocal count
        count += 1
        _place(case, chance)
        response = case.call(base_url=url, session=session, timeout=_PATIENCE_SECONDS, verify=session.verify)
        if response.status_code < 400:
            case.validate_response(response, checks=_PROMISES)
        sent = Request(method=case.method, path=case.formatted_path)
        problem = wrong_with_answer(sent, Response(status=response.status_code, body=response.content))
        assert problem == "", (case.method, case.formatted_path, case.query, case.body)

    ask()
    return count


def _place(case: Any, chance: Random) -> None:
    """Mostly where there is something; and a body that says what it is has a chance to be taken."""
    name = chance.choice(_NAMES)
    for key in case.path_parameters or {}:
        if chance.random() < 0.8:
            case.path_parameters[key] = "default" if key == "namespace" else name
    if case.query is not None:
        # Ends by itself.
        case.query["timeoutSeconds"] = "1"
    if chance.random() < 0.7:
        case.query = None
    if isinstance(case.body, dict) and chance.random() < 0.7:
        case.body = {**case.body, "metadata": {"name": name}}
        kind = case.operation.definition.raw["x-kubernetes-group-version-kind"]
        group = f"{kind['group']}/" if kind["group"] else ""
        case.body |= {"kind": kind["kind"], "apiVersion": f"{group}{kind['version']}"}
        case.body = msgspec.json.decode(msgspec.json.encode(case.body))
