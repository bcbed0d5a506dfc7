"""What a server says that has forgotten its past: each test has a server of its own kind that forgot."""

import asyncio
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from grove.clock import LoopClock
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from tests.conformance.embedded import Embedded
from tests.conformance.talk import Talk, config
from tests.kube.controlplane.plane import Plane, running_plane


class Past(msgspec.Struct, frozen=True):
    """Read before the server forgot: a version, and how a list of it goes on after its first object."""

    access: Access
    version: str
    token: str


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def past(
    request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Past]:
    with ExitStack() as stack:
        if request.param == "real":
            plane = stack.enter_context(running_plane(tmp_path_factory.mktemp("forgetful")))
            before = runner.run(_remember(plane.access()))
            _compact(plane, runner.run(_present(plane.access())))
            # The server itself remembers too, until it is started again.
            plane.restart("kube-apiserver")
            plane.await_ready()
        else:
            embedded = runner.run(_embedded())
            access = runner.run(embedded.start())
            stack.callback(lambda: runner.run(embedded.stop()))
            before = runner.run(_remember(access))
            embedded.forget()
        yield before


@pytest.fixture
def talk(runner: asyncio.Runner, past: Past) -> Iterator[Talk]:
    async def open_talk() -> tuple[Talk, HttpTransport]:
        clock = LoopClock.starting_now()
        transport = HttpTransport(past.access, clock)
        return Talk(transport, clock, "default"), transport

    one, transport = runner.run(open_talk())
    yield one
    runner.run(transport.close())


async def _embedded() -> Embedded:
    return Embedded()


async def _remember(access: Access) -> Past:
    clock = LoopClock.starting_now()
    async with HttpTransport(access, clock) as transport:
        talk = Talk(transport, clock, "default")
        for name in ("a", "b", "c"):
            await talk.create("configmaps", config(name, labels={"mine": "1"}))
        page = (await talk.get(talk.at("configmaps"), limit="1", labelSelector="mine")).metadata
        await talk.create("configmaps", config("bb", labels={"mine": "1"}))
        return Past(access, page["resourceVersion"], page["continue"])


async def _present(access: Access) -> str:
    clock = LoopClock.starting_now()
    async with HttpTransport(access, clock) as transport:
        talk = Talk(transport, clock, "default")
        version: str = (await talk.get(talk.at("configmaps"))).metadata["resourceVersion"]
        return version


def _compact(plane: Plane, version: str) -> None:
    body = msgspec.json.encode({"revision": version, "physical": True})
    url = f"{plane.etcd_url}/v3/kv/compaction"
    with urllib.request.urlopen(urllib.request.Request(url, data=body, method="POST"), timeout=60) as answer:
        assert answer.status == 200


async def test_a_watch_of_the_past_is_told_that_it_is_too_late(talk: Talk, past: Past) -> None:
    async with talk.watch(talk.at("configmaps"), resourceVersion=past.version) as watched:
        (event,) = await watched.rest()
    message = event["object"].pop("message")
    assert event == {
        "type": "ERROR",
        "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
        },
    }  # fmt: skip
    assert message.startswith(f"too old resource version: {past.version} (")


async def test_the_past_cannot_be_listed(talk: Talk, past: Past) -> None:
    query = {"resourceVersion": past.version, "resourceVersionMatch": "Exact"}
    answer = await talk.get(talk.at("configmaps"), **query)
    assert answer.refusal == (410, "Expired", "The resourceVersion for the provided list is too old.")


async def test_a_list_as_new_as_the_past_is_the_present(talk: Talk, past: Past) -> None:
    query = {"resourceVersion": past.version, "resourceVersionMatch": "NotOlderThan", "labelSelector": "mine"}
    assert (await talk.get(talk.at("configmaps"), **query)).names == ["a", "b", "bb", "c"]


async def test_a_watch_that_begins_with_a_list_does_so_from_any_past(talk: Talk, past: Past) -> None:
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with talk.watch(
        talk.at("configmaps"), resourceVersion=past.version, labelSelector="mine", **query
    ) as watched:
        seen = [await watched.next() for _ in range(5)]
    assert seen == [*(("ADDED", name) for name in ("a", "b", "bb", "c")), ("BOOKMARK", "")]


async def test_a_list_that_was_begun_in_the_past_can_go_on_in_the_present(talk: Talk, past: Past) -> None:
    path = talk.at("configmaps")
    answer = await talk.get(path, limit="2", labelSelector="mine", **{"continue": past.token})
    body = answer.body
    assert (answer.status, body["reason"], body["code"]) == (410, "Expired", 410)
    assert body["message"].startswith(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response"
    )
    rest = await talk.get(path, limit="2", labelSelector="mine", **{"continue": body["metadata"]["continue"]})
    assert rest.names == ["b", "bb"]
