"""The parts of a plan: actions in stages, stages in chains, statuses, events, and the time of the next reconcile.

The executor carries these out without knowing what they mean (`controller/executor.py`).
"""

from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, dataclass_transform

import msgspec

from grove.api.resources import PODS, Resource
from grove.api.types.meta import JsonObject, ObjectMeta, OwnerKey, Uid


@dataclass_transform(frozen_default=True, kw_only_default=True)
class PlanStruct(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything inside a plan."""


class EventSubject(PlanStruct):
    """The object a message is about: events are attached to it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: Uid


def subject_of(resource: Resource[Any], metadata: ObjectMeta) -> EventSubject:
    return EventSubject(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
    )


class Severity(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


class EventRecord(PlanStruct):
    """An event to record. Several of one subject and reason in a pass become one, listing their `names`."""

    subject: EventSubject
    reason: str
    message: str
    severity: Severity = Severity.NORMAL
    names: tuple[str, ...] = ()


class Create(PlanStruct):
    """Create an object under exactly this name; one that exists already and has the same controller is as good."""

    resource: Resource[Any]
    namespace: str
    name: str
    body: JsonObject
    # Failures of creates that share a cause share a key, e.g. all pods of one clique.
    failure_key: str
    reason: str
    on_success: EventRecord | None = None

    @property
    def owner(self) -> OwnerKey:
        """Return the controller that the object is created with."""
        reference = self.body["metadata"]["ownerReferences"][0]
        group = reference["apiVersion"].rpartition("/")[0]
        return OwnerKey(
            namespace=self.namespace,
            group=group,
            kind=reference["kind"],
            name=reference["name"],
            uid=reference["uid"],
        )


class Patch(PlanStruct):
    """Merge-patch an object, only if it is still the one (and, if given, the version) that was decided on."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: Uid
    patch: JsonObject
    reason: str
    resource_version: str = ""
    subresource: str = ""
    on_success: EventRecord | None = None


class Delete(PlanStruct):
    """Delete one object, by the uid that was decided on."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: Uid
    reason: str
    on_success: EventRecord | None = None


class DeleteMany(PlanStruct):
    """Delete by label. `uids` are those observed.

    It is one request only if every match has one of `owners` as its controller. Labels prove nothing: whatever else
    carries them must stay, so then each of ours is deleted by its uid.
    """

    resource: Resource[Any]
    namespace: str
    selector: str
    owners: tuple[OwnerKey, ...]
    uids: tuple[Uid, ...]
    reason: str
    field_selector: str = ""
    on_success: EventRecord | None = None


Action = Create | Patch | Delete | DeleteMany

Stage = tuple[Action, ...]


class ChainPriority(IntEnum):
    """Which chains of a set go first when a pass cannot carry out all of them."""

    # What goes makes room, and whoever has waited long enough waits no longer.
    FIRST = 0
    BUILD = 1
    # A Service and an opened gate set others to work, on the same server that the remaining creates need.
    GATES = 2


# The part of whatever is about no replica of the set in particular.
WHOLE_SET = -1


class Chain(PlanStruct):
    """Stages in order; a failing stage ends its own chain and no other. `part` is the set replica."""

    key: str
    part: int
    stages: tuple[Stage, ...]
    rank: ChainPriority = ChainPriority.BUILD


class StatusPriority(StrEnum):
    # Later decisions rest on it: written before anything else is done.
    FACT = "fact"
    # All is well now: written after what is to be done, and when most of the set is not under way any more.
    NEWS = "news"
    # May wait a moment for the next change, so that ten of them become one write.
    COUNT = "count"


class StatusWrite(PlanStruct):
    """A new status, as the smallest patch. `part` is the set replica it tells about."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: Uid
    resource_version: str
    patch: JsonObject
    urgency: StatusPriority
    part: int = WHOLE_SET
    on_success: tuple[EventRecord, ...] = ()
    # It says of fewer units than before that they are updated: the set's observedGeneration waits for that.
    takes_back: bool = False


class LiveRead(PlanStruct):
    """Pods, or what makes them, to list anew before a plan that destroys some of them may be carried out."""

    namespace: str
    selector: str
    # Whose they are: of others that match, nothing is concluded.
    owners: tuple[OwnerKey, ...]
    resource: Resource[Any] = PODS


class Finding(PlanStruct):
    """A decision in words: what this object waits for or what happened to it, and when that could change."""

    about: str
    reason: str
    message: str
    until: datetime | None = None


class CreateRejection(PlanStruct):
    """The server's refusal to carry out an action, remembered until it succeeds."""

    key: str
    code: str
    message: str
    count: int
    first_at: datetime
    last_at: datetime
    # The object that was tried last, as in `Pod default/a`, and the HTTP status code.
    target: str = ""
    status_code: int = 0


class Plan(PlanStruct):
    """All that shall be done now for one set, and when to look again if nothing changes before."""

    chains: tuple[Chain, ...] = ()
    statuses: tuple[StatusWrite, ...] = ()
    events: tuple[EventRecord, ...] = ()
    looks: tuple[LiveRead, ...] = ()
    findings: tuple[Finding, ...] = ()
    requeue_at: datetime | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.chains or self.statuses or self.events)


def delete_object(
    resource: Resource[Any], metadata: ObjectMeta, reason: str, on_success: EventRecord | None = None
) -> Delete:
    """Delete exactly the object that was observed."""
    return Delete(
        resource=resource,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        reason=reason,
        on_success=on_success,
    )


def chain(key: str, part: int, *stages: Stage, rank: ChainPriority = ChainPriority.BUILD) -> tuple[Chain, ...]:
    """A chain without its empty stages, or nothing."""
    kept = tuple(stage for stage in stages if stage)
    return (Chain(key=key, part=part, stages=kept, rank=rank),) if kept else ()


def earliest(*instants: datetime | None) -> datetime | None:
    return min((instant for instant in instants if instant is not None), default=None)
