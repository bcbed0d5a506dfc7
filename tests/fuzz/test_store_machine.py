"""A client that remembers what it was told, against a server that is kept on disk and may be restarted at any moment.

After every step: what a read, a list, a selected list and a watch say is what the answers to the writes said before.
"""

import asyncio
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.controllers.garbage_collector import GarbageCollector
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.storage.data_dir import open_data_dir
from grove.cluster.storage.group_commit import GroupCommit
from grove.kube.transport import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request
from tests.cluster.apidsl import Answer
from tests.fuzz.counts import BY_MACHINE
from tests.fuzz.mischief import Mischief
from tests.fuzz.rounds import attempt
from tests.fuzz.verdicts import contents, shown_by, wrong_with_owners, wrong_with_state

T = TypeVar("T")
CONFIGS = "/api/v1/namespaces/default/configmaps"
_NAMES = st.sampled_from(["a", "b", "c", "d"])
_VALUES = st.sampled_from(["", "x", "é", "y" * 100])
_PATCHES = st.sampled_from([MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH, APPLY_PATCH])
_POLICIES = st.sampled_from(["Background", "Foreground", "Orphan"])


class Cluster:
    """A server and its garbage collector, on a loop of their own, kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._stack = ExitStack()
        # One generator for all starts: a second with the same seed would give out the uids of the first again.
        self._random = Random(7)
        self.wait(self._open())

    async def _open(self) -> None:
        data_dir = self._stack.enter_context(open_data_dir(self._folder))
        self._journal = GroupCommit(data_dir.store, data_dir.log)
        clock = LoopClock.starting_now()
        self.server = ApiServer(clock, self._random, store=data_dir.store)
        self.collector = GarbageCollector(self.server, delay=0.0)
        self._care = asyncio.create_task(self.collector.run())
        self.transport = InProcessTransport(self.server, clock)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self.wait(self._close())
        self._loop.close()

    def restart(self) -> None:
        """As another process would go on."""
        self.wait(self._close())
        self._stack = ExitStack()
        self.wait(self._open())

    async def _close(self) -> None:
        self._care.cancel()
        await asyncio.gather(self._care, return_exceptions=True)
        await self._journal.close()
        self._stack.close()

    async def settle(self) -> None:
        """Until the garbage collector has nothing left to do."""
        for _ in range(60_000):
            revision = self.server.store.revision
            await self.server.clock.sleep(0.001)
            # Also when its queue is empty it may be in the middle of something, and wait for the disk.
            if revision == self.server.store.revision and not self.collector._has_work.is_set():
                return
        raise AssertionError("the garbage collector never rests")


class Client(RuleBasedStateMachine):
    """Knows of every object what it was told last. What the garbage collector takes, it learns from the answer 404."""

    requests = 0

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.cluster = Cluster(Path(self._folder.name) / "kept")
        self.known: dict[str, JsonObject] = {}
        self.last_revision = 0
        self.before = self.cluster.wait(shown_by(self.cluster.transport))

    def teardown(self) -> None:
        self.cluster.close()
        self._folder.cleanup()

    def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Answer:
        type(self).requests += 1
        data = b"" if body is None else msgspec.json.encode(body)
        request = Request(
            method=method, path=path, body=data, content_type=content_type, query=query, program="machine"
        )
        response = self.cluster.wait(self.cluster.transport.send(request))
        answer = Answer(response.status, msgspec.json.decode(response.body), dict(response.headers))
        assert answer.status < 500, answer.body
        return answer

    def learn(self, name: str, answer: Answer) -> None:
        """Take in the answer to a write: the newest version of all objects, unless nothing was written."""
        if answer.status in (200, 201) and answer.body["kind"] == "ConfigMap":
            if (revision := _revision(answer.body)) != self._known_revision(name):
                assert revision > self.last_revision
            self.remember(name, answer)

    def remember(self, name: str, answer: Answer) -> None:
        """Take in what a read shows. One collection delete changes several objects, in no promised order."""
        revision = _revision(answer.body)
        assert revision >= self._known_revision(name)
        self.last_revision = max(revision, self.last_revision)
        self.known[name] = answer.body

    def _known_revision(self, name: str) -> int:
        return _revision(self.known[name]) if name in self.known else 0

    @rule(name=_NAMES, value=_VALUES, owner=st.none() | _NAMES, is_held=st.booleans(), is_dry=st.booleans())
    def create(self, name: str, value: str, owner: str | None, is_held: bool, is_dry: bool) -> None:
        body = self._body(name, value, owner)
        if is_held:
            body["metadata"]["finalizers"] = ["example.com/held"]
        answer = self.send("POST", CONFIGS, body, **({"dryRun": "All"} if is_dry else {}))
        if answer.status == 409:
            assert name in self.known
        elif not is_dry:
            assert answer.status == 201, answer.body
            self.learn(name, answer)

    @rule(name=_NAMES, value=_VALUES, owner=st.none() | _NAMES, is_stale=st.booleans())
    def replace(self, name: str, value: str, owner: str | None, is_stale: bool) -> None:
        body = self._body(name, value, owner)
        if name in self.known:
            version = self.known[name]["metadata"]["resourceVersion"]
            body["metadata"]["resourceVersion"] = "1" if is_stale else version
            body["metadata"]["finalizers"] = self.known[name]["metadata"].get("finalizers", [])
        answer = self.send("PUT", f"{CONFIGS}/{name}", body)
        assert answer.status in (200, 404, 409), answer.body
        self.learn(name, answer)

    @rule(name=_NAMES, value=_VALUES, kind=_PATCHES)
    def patch(self, name: str, value: str, kind: str) -> None:
        body: Any = {"data": {"k": value}, "metadata": {"labels": {"x": value[:5].replace("é", "")}}}
        if kind == JSON_PATCH:
            body = [{"op": "replace", "path": "/data", "value": {"k": value}}]
        if kind == APPLY_PATCH:
            body = {"apiVersion": "v1", "kind": "ConfigMap", **body}
            body["metadata"]["name"] = name
        query = {"fieldManager": "m", "force": "true"} if kind == APPLY_PATCH else {}
        answer = self.send("PATCH", f"{CONFIGS}/{name}", body, kind, **query)
        assert answer.status in (200, 201, 404), answer.body
        self.learn(name, answer)

    @rule(name=_NAMES)
    def release(self, name: str) -> None:
        self.learn(name, self.send("PATCH", f"{CONFIGS}/{name}", {"metadata": {"finalizers": None}}, MERGE_PATCH))

    @rule(name=_NAMES, policy=_POLICIES)
    def delete(self, name: str, policy: str) -> None:
        self.learn(name, self.send("DELETE", f"{CONFIGS}/{name}", {"propagationPolicy": policy}))

    @rule(value=_VALUES)
    def delete_some(self, value: str) -> None:
        self.send("DELETE", CONFIGS, labelSelector=f"x={value[:5].replace('é', '')}")

    @rule(seed=st.integers(0, 2**32 - 1))
    def attack(self, seed: int) -> None:
        """Somebody else sends whatever he likes, as long as he leaves our objects alone."""
        request = Mischief(Random(seed)).request()
        if "configmaps" in request.path or request.path[-18:] == "namespaces/default" or request.method == "DELETE":
            request = msgspec.structs.replace(request, method="GET", query={}, body=b"")
        type(self).requests += 1
        problem = self.cluster.wait(attempt(self.cluster.transport, request))
        assert problem == "", (problem, request)

    @precondition(lambda self: len(self.known) > 1)
    @rule()
    def restart(self) -> None:
        self.cluster.wait(self.cluster.settle())
        before = list(contents(self.cluster.server.store))
        revision = self.cluster.server.store.revision
        self.cluster.restart()
        after = [each for each in contents(self.cluster.server.store) if each in before]
        assert after == before
        assert self.cluster.server.store.revision >= revision

    @invariant()
    def is_as_told(self) -> None:
        self.cluster.wait(self.cluster.settle())
        listed = {item["metadata"]["name"]: item for item in self.send("GET", CONFIGS).body["items"]}
        for name in list(self.known):
            answer = self.send("GET", f"{CONFIGS}/{name}")
            if answer.status == 404:
                assert name not in listed
                del self.known[name]
                continue
            shown = {key: value for key, value in answer.body.items() if key not in ("kind", "apiVersion")}
            assert shown == listed[name]
            if answer.metadata["resourceVersion"] == self.known[name]["metadata"]["resourceVersion"]:
                assert answer.body == self.known[name]
            self.remember(name, answer)
        assert sorted(self.known) == sorted(listed)
        assert wrong_with_owners(self.cluster.server, self.cluster.collector) == []

    @invariant()
    def is_told_alike(self) -> None:
        """All kinds, with a watch each: now and then, for it takes its time."""
        if type(self).requests % 20 == 0:
            assert self.cluster.wait(wrong_with_state(self.cluster.transport, self.before)) == []

    def _body(self, name: str, value: str, owner: str | None) -> JsonObject:
        metadata: JsonObject = {"name": name, "labels": {"x": value[:5].replace("é", "")}}
        if owner is not None and owner in self.known and owner != name:
            uid = self.known[owner]["metadata"]["uid"]
            metadata["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": True}
            ]
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": value}}


def _revision(body: JsonObject) -> int:
    return int(body["metadata"]["resourceVersion"])


def test_a_client_is_never_told_two_stories() -> None:
    Client.requests = 0
    run_state_machine_as_test(
        Client,
        settings=settings(
            max_examples=30,
            stateful_step_count=25,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Client.requests >= BY_MACHINE
