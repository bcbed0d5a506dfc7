"""Events of an object and of everything below it, found by name: the events of deleted pods count too."""

import re
from collections.abc import Iterable
from datetime import datetime

import msgspec

from grove.api import labels
from grove.api.resources import EVENTS, PODCLIQUESETS, PODS
from grove.api.types.meta import ObjectMeta, WireStruct
from grove.kube.client import Client
from grove.operations.object_ref import KINDS, ObjectRef


class InvolvedObject(WireStruct):
    kind: str = ""
    name: str = ""


class EventSource(WireStruct):
    component: str = ""


class EventSeries(WireStruct):
    count: int = 0
    last_observed_time: datetime | None = None


class ObservedEvent(WireStruct):
    """An event as any component writes it: with a count, or with a series."""

    metadata: ObjectMeta
    involved_object: InvolvedObject = InvolvedObject()
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: EventSeries | None = None
    source: EventSource | None = None
    reporting_component: str = ""


OBSERVED_EVENTS = EVENTS.viewed_as(ObservedEvent)


class EventEntry(WireStruct):
    """One event for the output."""

    namespace: str
    object: str
    type: str
    reason: str
    message: str
    count: int
    source: str
    first_seen: datetime | None
    last_seen: datetime | None


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of events by the name of their object. An empty target: objects of all sets."""

    target: ObjectRef
    # Names of the sets of the namespace.
    sets: frozenset[str]
    # Pods of the target, for a gang.
    pods: frozenset[str] = frozenset()
    # Only the events of the target itself.
    is_exact: bool = False

    def matches(self, event: ObservedEvent) -> bool:
        kind, name = event.involved_object.kind.lower(), event.involved_object.name
        if self.is_exact:
            return self._is_target(kind, name)
        match self.target.kind:
            case "":
                return (kind in KINDS and kind != "pod") or _find_set(name, self.sets) is not None
            case "podcliqueset":
                return (kind == "podcliqueset" and name == self.target.name) or (
                    kind != "podcliqueset" and _find_set(name, self.sets | {self.target.name}) == self.target.name
                )
            case "podcliquescalinggroup":
                return self._is_target(kind, name) or _is_below(name, self.target.name)
            case "podclique":
                is_pod = kind == "pod" and re.fullmatch(rf"{re.escape(self.target.name)}-\d+-[a-z0-9]+", name)
                return self._is_target(kind, name) or bool(is_pod)
            case "podgang":
                is_mirror = kind in ("podgroup", "compositepodgroup") and name.startswith(self.target.name)
                return self._is_target(kind, name) or is_mirror or (kind == "pod" and name in self.pods)
            case _:
                return self._is_target(kind, name)

    def _is_target(self, kind: str, name: str) -> bool:
        return (kind, name) == (self.target.kind, self.target.name)


def _find_set(name: str, sets: Iterable[str]) -> str | None:
    """Return the set of an object by its name, `SET-INDEX...`. Of `chat` and `chat-0`, the longer one owns it."""
    return max((one for one in sets if _is_below(name, one)), key=len, default=None)


def _is_below(name: str, owner: str) -> bool:
    return re.fullmatch(r"-\d+(-.*)?", name.removeprefix(owner)) is not None if name.startswith(owner) else False


async def build_filter(client: Client, namespace: str, target: ObjectRef) -> EventFilter:
    """Read the names that the filter needs."""
    sets = await client.list_metadata(PODCLIQUESETS, namespace=namespace)
    pods: frozenset[str] = frozenset()
    if target.kind == "podgang":
        selector = labels.selector({labels.PODGANG: target.name})
        found = await client.list_metadata(PODS, namespace=namespace, label_selector=selector)
        pods = frozenset(pod.metadata.name for pod in found.items)
    return EventFilter(target=target, sets=frozenset(one.metadata.name for one in sets.items), pods=pods)


async def list_events(client: Client, namespace: str, wanted: EventFilter) -> list[EventEntry]:
    """Return the events that match, oldest first."""
    found = await client.list(OBSERVED_EVENTS, namespace=namespace)
    return sort_events(to_entry(event) for event in found.items if wanted.matches(event))


def sort_events(entries: Iterable[EventEntry]) -> list[EventEntry]:
    def key(entry: EventEntry) -> tuple[float, str, str, str]:
        at = entry.last_seen.timestamp() if entry.last_seen else 0.0
        return at, entry.object, entry.reason, entry.message

    return sorted(entries, key=key)


def to_entry(event: ObservedEvent) -> EventEntry:
    kind = event.involved_object.kind.lower()
    series = event.series or EventSeries()
    first = event.first_timestamp or event.event_time or event.metadata.creation_timestamp
    return EventEntry(
        namespace=event.metadata.namespace,
        object=f"{_short(kind)}/{event.involved_object.name}",
        type=event.type,
        reason=event.reason,
        message=event.message,
        count=event.count or series.count or 1,
        source=(event.source.component if event.source else "") or event.reporting_component,
        first_seen=first,
        last_seen=event.last_timestamp or series.last_observed_time or first,
    )


def _short(kind: str) -> str:
    """Return the short name of a kind of Grove, as in `grove status`; any other kind as it is."""
    return KINDS[kind][0] if kind in KINDS and kind != "pod" else kind
