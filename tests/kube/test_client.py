"""Typed verbs: what is sent, and what an answer becomes."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import pytest

from grove.api.resources import NODES, PODGANGS, PODS, Object
from grove.api.types.meta import ObjectMeta, Uid
from grove.api.types.pod import Pod
from grove.clock import LoopClock
from grove.kube.api_errors import ApiError, ConnectionLost, NoCredentials
from grove.kube.client import Client
from grove.kube.response_decoding import Added, Bookmark, Deleted, Listing, Modified, Unreadable, WatchEvent
from grove.kube.transport import JSON_PATCH, Request, Response
from grove.kube.write_limiter import WriteLimiter
from grove.sim.virtual_clock import run_virtual
from tests.kube.scripted import ScriptedTransport, Silence, bookmark, error_line, line, ok, page, pod_json, refusal

T = TypeVar("T")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def ask(transport: ScriptedTransport, question: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    async def main() -> T:
        return await question(Client(transport, LoopClock(EPOCH)))

    return run_virtual(main())


def pod(name: str, version: int) -> Pod:
    return msgspec.convert(pod_json(name, version), Pod)


def sent(transport: ScriptedTransport) -> list[tuple[str, str, dict[str, str], object]]:
    return [
        (r.method, r.path, dict(r.query), msgspec.json.decode(r.body) if r.body else None) for r in transport.requests
    ]


def watch(script: list[bytes]) -> list[WatchEvent[Pod]]:
    async def question(client: Client) -> list[WatchEvent[Pod]]:
        async with client.watch(PODS, resource_version="1", timeout_seconds=300) as events:
            return [event async for event in events]

    return ask(ScriptedTransport(watches=[[*script]]), question)


def test_get_reads_one_object() -> None:
    transport = ScriptedTransport([ok(pod_json("a", 4))])
    assert ask(transport, lambda client: client.get(PODS, "default", "a")) == pod("a", 4)
    assert sent(transport) == [("GET", "/api/v1/namespaces/default/pods/a", {}, None)]


def test_what_is_created_is_written_as_an_api_server_writes_it() -> None:
    """Inside a ControllerRevision other bytes for the same text would be other data, for ever."""
    transport = ScriptedTransport([ok(pod_json("a", 4))])
    words = ["a && b", "<c>", "\u2028\u2029", r"\u0026"]
    ask(transport, lambda client: client.create(PODS, "default", {"args": words}))
    (request,) = transport.requests
    assert request.body == rb'{"args":["a \u0026\u0026 b","\u003cc\u003e","\u2028\u2029","\\u0026"]}'
    assert msgspec.json.decode(request.body) == {"args": words}


def test_a_list_follows_its_pages_and_keeps_the_first_version() -> None:
    transport = ScriptedTransport(
        [page(pod_json("a", 3), version=7, continue_token="t"), page(pod_json("b", 8), version=9)]
    )
    listing = ask(transport, lambda client: client.list(PODS, label_selector="x=y", page_size=1))
    assert listing == Listing(items=(pod("a", 3), pod("b", 8)), resource_version="7")
    assert [dict(request.query) for request in transport.requests] == [
        {"labelSelector": "x=y", "limit": "1"},
        {"labelSelector": "x=y", "limit": "1", "continue": "t"},
    ]


def test_a_list_whose_continue_token_grew_too_old_starts_over() -> None:
    first = page(pod_json("a", 3), version=7, continue_token="t")
    transport = ScriptedTransport([first, refusal(410, "Expired"), page(pod_json("b", 8), version=9)])
    listing = ask(transport, lambda client: client.list(PODS))
    assert listing == Listing(items=(pod("b", 8),), resource_version="9")


def test_a_list_that_grows_too_old_again_and_again_is_an_error() -> None:
    transport = ScriptedTransport([refusal(410, "Expired")] * 3)
    with pytest.raises(ApiError, match="410 Expired"):
        ask(transport, lambda client: client.list(PODS))
    assert len(transport.requests) == 3


def test_an_object_that_cannot_be_read_does_not_hide_the_others() -> None:
    broken = pod_json("b", 5) | {"status": {"phase": 3}}
    unversioned = pod_json("c", 0)
    unversioned["metadata"]["resourceVersion"] = ""
    transport = ScriptedTransport([page(pod_json("a", 4), broken, unversioned, version=7)])
    listing = ask(transport, lambda client: client.list(PODS))
    names = ("b", "5"), ("c", "")
    assert listing == Listing(
        items=(pod("a", 4),),
        resource_version="7",
        unreadable=tuple(
            ObjectMeta(name=name, namespace="default", uid=Uid(f"uid-of-{name}"), resource_version=version)
            for name, version in names
        ),
    )


def test_a_list_without_a_version_is_an_error() -> None:
    with pytest.raises(ConnectionLost, match="no resourceVersion"):
        ask(ScriptedTransport([ok({"metadata": {}, "items": []})]), lambda client: client.list(PODS))


def test_an_empty_list_may_be_null() -> None:
    transport = ScriptedTransport([ok({"metadata": {"resourceVersion": "7"}, "items": None})])
    assert ask(transport, lambda client: client.list(PODS)) == Listing(items=(), resource_version="7")


def test_create_sends_the_body_as_it_is() -> None:
    transport = ScriptedTransport([ok(pod_json("a", 4)), ok(pod_json("a", 4))])

    async def both(client: Client) -> tuple[Pod, Pod]:
        return (
            await client.create(PODS, "default", {"metadata": {"name": "a"}}),
            await client.create(PODS, "default", b'{"metadata":{"name":"a"}}'),
        )

    assert ask(transport, both) == (pod("a", 4), pod("a", 4))
    assert sent(transport) == [("POST", "/api/v1/namespaces/default/pods", {}, {"metadata": {"name": "a"}})] * 2


def test_patch_names_its_kind_of_patch_and_its_subresource() -> None:
    transport = ScriptedTransport([ok(pod_json("a", 5))])
    operations = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    answer = ask(
        transport,
        lambda client: client.patch(PODS, "default", "a", operations, content_type=JSON_PATCH, subresource="status"),
    )
    assert answer == pod("a", 5)
    assert transport.requests == [
        Request(
            method="PATCH",
            path="/api/v1/namespaces/default/pods/a/status",
            body=msgspec.json.encode(operations),
            content_type=JSON_PATCH,
        )
    ]


def leaving(*, grace: int, finalizers: list[str]) -> Response:
    body = pod_json("a", 5)
    body["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": grace, "finalizers": finalizers,
    }  # fmt: skip
    return ok(body)


@pytest.mark.parametrize(
    ("answer", "is_gone"),
    [
        pytest.param(ok({"kind": "Status", "status": "Success", "metadata": {}}), True, id="a success status"),
        pytest.param(refusal(404, "NotFound"), True, id="not found"),
        pytest.param(ok(pod_json("a", 4)), True, id="its last state"),
        pytest.param(leaving(grace=0, finalizers=[]), True, id="nothing keeps it"),
        pytest.param(leaving(grace=30, finalizers=[]), False, id="a grace period keeps it"),
        pytest.param(leaving(grace=0, finalizers=["x"]), False, id="a finalizer keeps it"),
    ],
)
def test_a_delete_says_whether_the_object_is_gone(answer: Response, is_gone: bool) -> None:
    left = ask(ScriptedTransport([answer]), lambda client: client.delete(PODS, "default", "a"))
    assert (left is None) == is_gone


def test_a_delete_carries_what_it_was_decided_on() -> None:
    transport = ScriptedTransport([refusal(404, "NotFound"), refusal(404, "NotFound")])

    async def both(client: Client) -> None:
        await client.delete(PODS, "default", "a", uid="u", resource_version="5", grace_period_seconds=0)
        await client.delete(NODES, "", "n", propagation="Foreground")

    ask(transport, both)
    assert sent(transport) == [
        (
            "DELETE",
            "/api/v1/namespaces/default/pods/a",
            {},
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Background",
                "gracePeriodSeconds": 0,
                "preconditions": {"uid": "u", "resourceVersion": "5"},
            },
        ),
        (
            "DELETE",
            "/api/v1/nodes/n",
            {},
            {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"},
        ),
    ]


def test_a_delete_of_another_uid_is_a_conflict() -> None:
    with pytest.raises(ApiError) as caught:
        ask(ScriptedTransport([refusal(409, "Conflict")]), lambda client: client.delete(PODS, "default", "a", uid="u"))
    assert caught.value.is_conflict


def test_a_bulk_delete_selects_by_label() -> None:
    transport = ScriptedTransport([page(pod_json("a", 4), version=9)])
    ask(transport, lambda client: client.delete_collection(PODGANGS, "default", label_selector="a=b"))
    path = "/apis/scheduler.grove.io/v1alpha1/namespaces/default/podgangs"
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    assert sent(transport) == [("DELETE", path, {"labelSelector": "a=b"}, options)]


def test_a_binding_names_the_pod_by_uid() -> None:
    transport = ScriptedTransport([ok({"kind": "Status", "status": "Success"})])
    ask(transport, lambda client: client.bind("default", "a", "node-1", uid="u"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }
    assert sent(transport) == [("POST", "/api/v1/namespaces/default/pods/a/binding", {}, binding)]


@pytest.mark.parametrize(
    ("answer", "retry_after"),
    [
        pytest.param(refusal(429, "TooManyRequests", retry_after=7), 7.0, id="in the header"),
        pytest.param(
            Response(
                status=429, body=b'{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":3}}'
            ),
            3.0,
            id="in the body",
        ),
        pytest.param(refusal(429, "TooManyRequests"), None, id="not said"),
        pytest.param(refusal(429, "TooManyRequests", retry_after=86400), 300.0, id="a day"),
        pytest.param(
            Response(
                status=429, body=b'{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":-3}}'
            ),
            0.0,
            id="in the past",
        ),
        pytest.param(
            Response(status=429, body=refusal(429, "TooManyRequests").body, headers={"Retry-After": "9" * 400}),
            300.0,
            id="beyond all numbers",
        ),
    ],
)
def test_an_error_says_when_to_come_back(answer: Response, retry_after: float | None) -> None:
    with pytest.raises(ApiError) as caught:
        ask(ScriptedTransport([answer]), lambda client: client.get(PODS, "default", "a"))
    assert (caught.value.code, caught.value.reason) == (429, "TooManyRequests")
    assert caught.value.retry_after == retry_after


def test_a_kind_that_is_not_installed_is_told_in_one_way() -> None:
    """Of a group that it does not know, a real server says so without an object."""
    with pytest.raises(ApiError, match=r"^404 NotFound: the server could not find the requested resource$"):
        ask(
            ScriptedTransport([Response(status=404, body=b"404 page not found\n")]),
            lambda client: client.get(PODS, "default", "a"),
        )


def test_an_error_page_of_a_proxy_is_quoted() -> None:
    with pytest.raises(ApiError, match="502 : GET /api/v1/namespaces/default/pods/a: <html>bad gateway"):
        ask(
            ScriptedTransport([Response(status=502, body=b"<html>bad gateway")]),
            lambda client: client.get(PODS, "default", "a"),
        )


def test_a_page_for_people_in_place_of_an_object_is_quoted_with_its_kind() -> None:
    login = Response(status=200, body=b"<html>\n Please  log in", headers={"Content-Type": "text/html; charset=utf-8"})
    with pytest.raises(ConnectionLost, match=r"it is text/html, perhaps from a proxy: <html> Please log in$"):
        ask(ScriptedTransport([login]), lambda client: client.get(PODS, "default", "a"))


def test_an_object_that_cannot_be_read_is_not_quoted() -> None:
    """It might be a Secret."""
    broken = Response(status=200, body=b'{"metadata": hidden', headers={"Content-Type": "application/json"})
    with pytest.raises(ConnectionLost, match="the response cannot be decoded") as caught:
        ask(ScriptedTransport([broken]), lambda client: client.get(PODS, "default", "a"))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("status", [300, 302, 307, 399])
def test_a_redirection_is_an_error_that_says_where_to(status: int) -> None:
    away = Response(status=status, headers={"Location": "https://login.example/x?state=hidden"})
    with pytest.raises(
        ApiError, match=r"redirected to https://login\.example/x; set server to the API server itself"
    ) as caught:
        ask(ScriptedTransport([away]), lambda client: client.create(PODS, "default", {}))
    assert (caught.value.code, caught.value.is_transient) == (status, False)


def test_a_list_that_takes_too_long_as_a_whole_is_given_up() -> None:
    pages: list[Response | ApiError | Silence] = []
    for number in range(4):
        pages += [Silence(50), page(pod_json("a", number + 1), version=7, continue_token="more")]
    transport = ScriptedTransport(pages)
    with pytest.raises(ConnectionLost, match="the list was not complete after 120 s"):
        ask(transport, lambda client: client.list(PODS))
    assert len(transport.requests) == 3


def limited(answers: list[Response | ApiError | Silence], writes: int) -> int:
    """The write limit after so many writes got such answers."""

    async def main() -> int:
        clock = LoopClock(EPOCH)
        limiter = WriteLimiter(clock)
        client = Client(ScriptedTransport(answers), clock, limiter)
        for _ in range(writes):
            with suppress(ApiError):
                await client.create(PODS, "default", {})
        return limiter.limit

    return run_virtual(main())


@pytest.mark.parametrize(
    ("answers", "limit"),
    [
        pytest.param([refusal(429, "TooManyRequests")], 16, id="too many"),
        pytest.param([refusal(503, "ServiceUnavailable")], 16, id="unavailable"),
        pytest.param([Silence(60), ConnectionLost("no response in time")], 16, id="no answer"),
        pytest.param([ConnectionLost("reset")], 32, id="a broken connection"),
        pytest.param([Silence(60), NoCredentials("the plugin hangs")], 32, id="nothing was sent"),
        pytest.param([refusal(500, "InternalError")], 32, id="an error"),
    ],
)
def test_what_the_write_limit_learns_from_an_answer(answers: list[Response | ApiError | Silence], limit: int) -> None:
    assert limited(answers, 1) == limit


def test_an_answer_that_cannot_be_read_is_as_good_as_none() -> None:
    transport = ScriptedTransport([Response(status=201, body=b"<html>")])
    with pytest.raises(ConnectionLost, match=r"POST .* cannot be decoded"):
        ask(transport, lambda client: client.create(PODS, "default", {}))


def test_a_watch_asks_for_bookmarks_and_a_timeout_and_yields_typed_events() -> None:
    lines = [
        line("ADDED", pod_json("a", 2)),
        line("MODIFIED", pod_json("a", 3)),
        bookmark(8),
        line("DELETED", pod_json("a", 9)),
    ]
    assert watch(lines) == [
        Added(object=pod("a", 2)),
        Modified(object=pod("a", 3)),
        Bookmark(resource_version="8"),
        Deleted(object=pod("a", 9)),
    ]


def test_a_broken_line_is_passed_on_as_unreadable_with_what_is_known() -> None:
    broken = pod_json("a", 4) | {"status": {"phase": 3}}
    known = ObjectMeta(name="a", namespace="default", uid=Uid("uid-of-a"), resource_version="4")
    unversioned = ObjectMeta(name="", uid=Uid("u"))
    assert watch(
        [
            b"{",
            line("SURPRISE", {}),
            line("MODIFIED", broken),
            line("DELETED", broken),
            line("ADDED", {"metadata": {"uid": "u"}}),
        ]
    ) == [
        Unreadable(metadata=ObjectMeta(), is_deleted=False),
        Unreadable(metadata=ObjectMeta(), is_deleted=False),
        Unreadable(metadata=known, is_deleted=False),
        Unreadable(metadata=known, is_deleted=True),
        Unreadable(metadata=unversioned, is_deleted=False),
    ]


def test_an_error_event_is_raised() -> None:
    with pytest.raises(ApiError) as caught:
        watch([error_line(410, "Expired")])
    assert caught.value.is_gone


def test_one_resource_can_be_read_through_another_view() -> None:
    transport = ScriptedTransport([ok(pod_json("a", 4))])
    answer = ask(transport, lambda client: client.get(PODS.viewed_as(Object), "default", "a"))
    assert answer == msgspec.convert(pod_json("a", 4), Object)
