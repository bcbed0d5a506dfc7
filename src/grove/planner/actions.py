"""The parts of a plan: actions in stages, stages in chains, statuses, events, and the time of the next reconcile.

`controller/executor.py` executes them without knowing what they mean.
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
    """The object that an event is about."""

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
    """An event to record. Several of one subject and reason in a reconcile become one that lists their `names`."""

    subject: EventSubject
    reason: str
    message: str
    severity: Severity = Severity.NORMAL
    names: tuple[str, ...] = ()


class Create(PlanStruct):
    """Create an object with this name. An existing object with the same controller counts as success."""

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
    """Merge-patch an object, only if it still has this uid and, if given, this resource version."""

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
    """Delete one object, only if it still has this uid."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: Uid
    reason: str
    on_success: EventRecord | None = None


class DeleteMany(PlanStruct):
    """Delete by label. `uids` are the observed objects.

    The executor sends one request only if every match has one of `owners` as its controller. Foreign objects may carry
    the same labels and must stay. If there are any, the executor deletes each object by its uid.
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
    """The order of the chains of a set when one reconcile cannot execute all of them."""

    # Deletes, which free capacity, and gates that have waited long enough.
    FIRST = 0
    BUILD = 1
    # A Service and a removed gate cause work on the API server that the remaining creates need.
    GATES = 2


# The replica index of chains and statuses that concern the whole set.
WHOLE_SET = -1


class Chain(PlanStruct):
    """Stages in order; a failing stage ends its own chain and no other. `replica_index` is the set replica."""

    key: str
    replica_index: int
    stages: tuple[Stage, ...]
    rank: ChainPriority = ChainPriority.BUILD


class StatusPriority(StrEnum):
    """The priority of a status write."""

    # Later decisions depend on it: written before any action.
    DURABLE = "durable"
    # Everything is ready now: written after the actions, and when most of the set has settled.
    TRANSITION = "transition"
    # Only counts changed: debounced, so that ten changes become one write.
    COUNTS = "counts"


class StatusWrite(PlanStruct):
    """A new status, as the smallest patch. `replica_index` is the set replica that it is about."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: Uid
    resource_version: str
    patch: JsonObject
    priority: StatusPriority
    replica_index: int = WHOLE_SET
    on_success: tuple[EventRecord, ...] = ()
    # It lowers a count of updated units. The set's observedGeneration is written after it.
    lowers_updated_count: bool = False


class LiveRead(PlanStruct):
    """Pods, or their owners, to list from the API server before a plan that deletes some of them is executed."""

    namespace: str
    selector: str
    # Objects of other owners that match are ignored.
    owners: tuple[OwnerKey, ...]
    resource: Resource[Any] = PODS


class Finding(PlanStruct):
    """A decision as text: what this object waits for or what happened to it, and when that could change."""

    about: str
    reason: str
    message: str
    until: datetime | None = None


class CreateRejection(PlanStruct):
    """A create that the API server rejected, remembered until it succeeds."""

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
    """All writes for one set, and the time of the next reconcile if nothing changes before."""

    chains: tuple[Chain, ...] = ()
    statuses: tuple[StatusWrite, ...] = ()
    events: tuple[EventRecord, ...] = ()
    live_reads: tuple[LiveRead, ...] = ()
    findings: tuple[Finding, ...] = ()
    requeue_at: datetime | None = None
    # The rejected creates that the plan still needs; the others can be forgotten. None: keep all.
    rejections: tuple[CreateRejection, ...] | None = ()

    @property
    def is_empty(self) -> bool:
        return not (self.chains or self.statuses or self.events)


def delete_object(
    resource: Resource[Any], metadata: ObjectMeta, reason: str, on_success: EventRecord | None = None
) -> Delete:
    """Build the delete of exactly the object that was observed."""
    return Delete(
        resource=resource,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        reason=reason,
        on_success=on_success,
    )


def chain(key: str, replica_index: int, *stages: Stage, rank: ChainPriority = ChainPriority.BUILD) -> tuple[Chain, ...]:
    """Build a chain without its empty stages; an empty tuple if none is left."""
    nonempty = tuple(stage for stage in stages if stage)
    return (Chain(key=key, replica_index=replica_index, stages=nonempty, rank=rank),) if nonempty else ()


def earliest(*instants: datetime | None) -> datetime | None:
    return min((instant for instant in instants if instant is not None), default=None)
