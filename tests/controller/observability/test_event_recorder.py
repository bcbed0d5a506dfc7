"""Events for people: merged, counted, never a flood."""

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from grove.api.resources import EVENTS
from grove.api.types.meta import Uid
from grove.controller.observability.events import (
    BURST,
    NAMED_OBJECTS,
    SECONDS_PER_TOKEN,
    EventRecorder,
    build_event,
    merge,
)
from grove.kube.api_errors import ApiError
from grove.planner.actions import EventRecord, EventSubject, Severity
from tests.controller.small_operator import SmallOperator, creates_of, run
from tests.dsl import NOW

SUBJECT = EventSubject(
    api_version="grove.io/v1alpha1", kind="PodClique", namespace="default", name="p-0-a", uid=Uid("u")
)
OTHER = EventSubject(api_version="grove.io/v1alpha1", kind="PodClique", namespace="default", name="p-0-b", uid=Uid("v"))


def emit(
    name: str = "", *, message: str = "created pod", reason: str = "Created", subject: EventSubject = SUBJECT
) -> EventRecord:
    return EventRecord(subject=subject, reason=reason, message=message, names=(name,) if name else ())


class TestMerging:
    def test_events_of_one_kind_become_one_that_lists_its_objects(self) -> None:
        assert merge([emit("x"), emit("y"), emit("z")]) == [emit(message="created pod: x, y, z")]

    @pytest.mark.parametrize("count", [NAMED_OBJECTS - 1, NAMED_OBJECTS, NAMED_OBJECTS + 1, 1000])
    def test_only_so_many_objects_are_named(self, count: int) -> None:
        (merged,) = merge([emit(f"x{i}") for i in range(count)])
        shown = ", ".join(f"x{i}" for i in range(min(count, 5)))
        more = f" and {count - 5} more" if count > 5 else ""
        assert merged.message == f"created pod: {shown}{more}"

    def test_what_differs_stays_apart_in_the_order_of_the_first(self) -> None:
        emits = [emit("x"), emit("y", reason="Deleted"), emit("z", subject=OTHER), emit("w", message="other words")]
        assert merge(emits) == [
            emit(message="created pod: x"),
            emit(message="created pod: y", reason="Deleted"),
            emit(message="created pod: z", subject=OTHER),
            emit(message="other words: w"),
        ]

    def test_repeats_without_names_are_said_once(self) -> None:
        assert merge([emit(), emit()]) == [emit()]


def test_an_event_is_what_kubectl_shows() -> None:
    warning = EventRecord(subject=SUBJECT, reason="PodsRejected", message="exceeded quota", severity=Severity.WARNING)
    body = build_event(warning, NOW)
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": body["metadata"]["name"], "namespace": "default"},
        "involvedObject": {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "namespace": "default",
            "name": "p-0-a",
            "uid": "u",
        },
        "reason": "PodsRejected",
        "message": "exceeded quota",
        "type": "Warning",
        "source": {"component": "podcliqueset-controller"},
        "reportingComponent": "podcliqueset-controller",
        "reportingInstance": "podcliqueset-controller",
        "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:00:00Z",
        "count": 1,
    }
    assert body["metadata"]["name"].startswith("p-0-a.")
    assert build_event(warning, NOW + timedelta(hours=1))["metadata"] == body["metadata"]


def test_an_event_of_an_object_without_a_namespace_is_kept_in_the_default_one() -> None:
    binding = EventSubject(
        api_version="grove.io/v1alpha1", kind="ClusterTopologyBinding", namespace="", name="dc", uid=Uid("w")
    )
    body = build_event(emit(subject=binding), NOW)
    assert (body["metadata"]["namespace"], body["involvedObject"]["namespace"]) == ("default", "")
    assert body["source"] == {"component": "clustertopology-controller"}


def test_a_long_message_is_cut_as_the_server_wants() -> None:
    assert len(build_event(emit(message="x" * 2000), NOW)["message"]) == 1024


async def recorded(operator: SmallOperator) -> list[tuple[str, int]]:
    listing = await operator.user.list(EVENTS, namespace="default")
    return [(event.message, event.count) for event in listing.items]


class Running:
    """A recorder at work for the length of a story."""

    def __init__(self, operator: SmallOperator) -> None:
        self.recorder = EventRecorder(operator.client, operator.clock)

    async def __aenter__(self) -> EventRecorder:
        self._task = asyncio.create_task(self.recorder.run())
        return self.recorder

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


def test_repeats_are_counted_not_written_anew() -> None:
    async def story(operator: SmallOperator) -> None:
        async with Running(operator) as recorder:
            for _ in range(3):
                recorder.record([emit("x")])
                await operator.clock.sleep(60)
            assert await recorded(operator) == [("created pod: x", 3)]
            event = (await operator.user.list(EVENTS, namespace="default")).items[0]
            assert event.metadata.name == build_event(emit(message="created pod: x"), NOW)["metadata"]["name"]

    run(story)


def test_one_object_may_say_so_much_and_then_one_thing_every_five_minutes() -> None:
    async def story(operator: SmallOperator) -> None:
        async with Running(operator) as recorder:
            for number in range(BURST + 5):
                recorder.record([emit(message=f"number {number}")])
            recorder.record([emit(message="another object", subject=OTHER)])
            await operator.clock.sleep(1)
            assert (len(await recorded(operator)), recorder.dropped_count) == (BURST + 1, 5)
            recorder.record([emit(message="still too soon")])
            await operator.clock.sleep(SECONDS_PER_TOKEN)
            recorder.record([emit(message="in time"), emit(message="one too many")])
            await operator.clock.sleep(1)
            messages = [message for message, _ in await recorded(operator)]
            assert "in time" in messages
            assert "one too many" not in messages
            assert recorder.dropped_count == 7

    run(story)


def test_an_event_the_server_refuses_is_dropped_and_the_next_ones_are_written() -> None:
    async def story(operator: SmallOperator) -> None:
        async with Running(operator) as recorder:
            refusal = operator.transport.refuse(creates_of("events"), ApiError(500, "InternalError", "broken"))
            recorder.record([emit(message="lost")])
            await operator.clock.sleep(1)
            operator.transport.lift(refusal)
            recorder.record([emit(message="kept")])
            await operator.clock.sleep(1)
            assert (await recorded(operator), recorder.dropped_count) == ([("kept", 1)], 1)

    run(story)


def test_that_no_event_is_taken_is_said_once_and_that_it_is_over() -> None:
    forbidden = ApiError(403, "Forbidden", "events is forbidden: User cannot create resource events")
    leaving = ApiError(403, "Forbidden", "unable to create new content in namespace a because it is being terminated")

    async def story(operator: SmallOperator) -> None:
        async with Running(operator) as recorder:
            for error in (leaving, forbidden, forbidden, leaving):
                refusal = operator.transport.refuse(creates_of("events"), error)
                recorder.record([emit(message="lost")])
                await operator.clock.sleep(1)
                operator.transport.lift(refusal)
            recorder.record([emit(message="kept")])
            await operator.clock.sleep(1)
            assert (await recorded(operator), recorder.dropped_count) == ([("kept", 1)], 4)

    with capture_logs() as logged:
        run(story)
    assert [(line["event"], line.get("reason"), line.get("message")) for line in logged] == [
        ("events are lost: the API server rejects them", "403 Forbidden", forbidden.message),
        ("events are written again", None, None),
    ]
