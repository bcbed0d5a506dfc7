"""An event recorder: it merges similar events, counts repeats and limits the rate per object.

Events are written last and may be lost in a crash. No decision depends on an event.
"""

import asyncio
import hashlib
from collections import deque
from datetime import datetime

import structlog

from grove.api.resources import EVENTS, TOPOLOGY_BINDINGS
from grove.api.types.meta import JsonObject, Uid
from grove.api.values.message_text import truncate
from grove.api.values.times import wire_time
from grove.clock import Clock
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.planner.actions import EventRecord

COMPONENT = "podcliqueset-controller"
TOPOLOGY_COMPONENT = "clustertopology-controller"
# The namespace of events about cluster-scoped objects.
CLUSTER_EVENTS_NAMESPACE = "default"
BURST = 25
SECONDS_PER_TOKEN = 300.0
NAMED_OBJECTS = 5
QUEUE_LIMIT = 10_000
REMEMBERED_SUBJECTS = 50_000

log = structlog.get_logger()


class EventRecorder:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client.with_flow("events")
        self._clock = clock
        self._queue: deque[EventRecord] = deque(maxlen=QUEUE_LIMIT)
        self._wake = asyncio.Event()
        self._tokens: dict[Uid, tuple[float, float]] = {}
        self.dropped_count = 0
        # Why the API server rejects events; empty: it does not.
        self._rejection = ""

    @property
    def error(self) -> str:
        """Return why the API server rejects events; empty: it does not."""
        return self._rejection

    def record(self, emits: list[EventRecord]) -> None:
        for emit in merge(emits):
            if self._take_token(emit.subject.uid):
                self._queue.append(emit)
            else:
                self.dropped_count += 1
        self._wake.set()

    async def run(self) -> None:
        while True:
            while self._queue:
                await self._write(self._queue.popleft())
            self._wake.clear()
            await self._wake.wait()

    def _take_token(self, subject: Uid) -> bool:
        now = self._clock.monotonic()
        tokens, at = self._tokens.pop(subject, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - at) / SECONDS_PER_TOKEN)
        if len(self._tokens) >= REMEMBERED_SUBJECTS:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[subject] = (tokens - 1, now) if tokens >= 1 else (tokens, now)
        return tokens >= 1

    async def _write(self, emit: EventRecord) -> None:
        now = self._clock.now().replace(microsecond=0)
        try:
            await self._create_or_count(build_event(emit, now), now)
        except ApiError as error:
            self._drop(error)
        else:
            self._note("")

    async def _create_or_count(self, body: JsonObject, now: datetime) -> None:
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        try:
            await self._client.create(EVENTS, namespace, body)
        except ApiError as error:
            if not error.is_already_exists:
                raise
            old = await self._client.get(EVENTS, namespace, name)
            patch = {"count": old.count + 1, "lastTimestamp": wire_time(now)}
            await self._client.patch(EVENTS, namespace, name, patch)

    def _drop(self, error: ApiError) -> None:
        self.dropped_count += 1
        # A terminating namespace rejects events; that is not an error of the operator.
        if error.is_rejection and "being terminated" not in error.message:
            self._note(f"{error.code} {error.reason}", error.brief)

    def _note(self, rejection: str, message: str = "") -> None:
        """Log each change once, so that users learn why events are missing."""
        before, self._rejection = self._rejection, rejection
        if rejection and rejection != before:
            log.error("events are lost: the API server rejects them", reason=rejection, message=message)
        elif before and not rejection:
            log.info("events are written again")


def merge(emits: list[EventRecord]) -> list[EventRecord]:
    """Merge events of one subject, reason and message into one that lists the names."""
    merged: dict[tuple[Uid, str, str], list[EventRecord]] = {}
    for emit in emits:
        merged.setdefault((emit.subject.uid, emit.reason, emit.message), []).append(emit)
    return [_merge_names(same) for same in merged.values()]


def _merge_names(same: list[EventRecord]) -> EventRecord:
    first = same[0]
    names = [name for emit in same for name in emit.names]
    if not names:
        return first
    shown = ", ".join(names[:NAMED_OBJECTS])
    more = f" and {len(names) - NAMED_OBJECTS} more" if len(names) > NAMED_OBJECTS else ""
    return EventRecord(
        subject=first.subject, reason=first.reason, severity=first.severity, message=f"{first.message}: {shown}{more}"
    )


def build_event(emit: EventRecord, now: datetime) -> JsonObject:
    subject = emit.subject
    component = TOPOLOGY_COMPONENT if subject.kind == TOPOLOGY_BINDINGS.kind else COMPONENT
    seed = "\n".join((subject.uid, emit.reason, emit.message)).encode()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name}.{hashlib.blake2b(seed, digest_size=8).hexdigest()}",
            "namespace": subject.namespace or CLUSTER_EVENTS_NAMESPACE,
        },
        "involvedObject": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "reason": emit.reason,
        "message": truncate(emit.message),
        "type": emit.severity,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
        "firstTimestamp": wire_time(now),
        "lastTimestamp": wire_time(now),
        "count": 1,
    }
