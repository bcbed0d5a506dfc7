"""Sync of ClusterTopologyBindings: create or compare the topologies that schedulers keep themselves.

A binding that names a scheduler's topology leaves it to whoever made it, and is only compared with it; for every other
scheduler that has such objects one is made, owned by the binding. How sets use a binding is `node_label_keys.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from grove.api import labels
from grove.api.reasons import ConditionType, EventReason, Reason
from grove.api.resources import KAI_TOPOLOGIES, TOPOLOGY_BINDINGS, Resource
from grove.api.types.clustertopologybinding import (
    ClusterTopologyBinding,
    SchedulerTopologyStatus,
    TopologyBindingStatus,
)
from grove.api.types.meta import ConditionStatus, JsonObject, ObjectMeta, find_condition
from grove.api.types.scheduler_object import SchedulerObject
from grove.planner.actions import (
    WHOLE_SET,
    Create,
    CreateRejection,
    EventRecord,
    Plan,
    Severity,
    Stage,
    StatusPriority,
    StatusWrite,
    chain,
    delete_object,
    subject_of,
)
from grove.planner.child_manifests import build_owner
from grove.planner.child_sync import Retries
from grove.planner.status.availability import ConditionResult
from grove.planner.status.status_patch import no, with_condition, without_condition, write_status, yes

# Schedulers that keep topologies of their own, and as what.
TOPOLOGY_KINDS: Mapping[str, Resource[SchedulerObject]] = {"kai-scheduler": KAI_TOPOLOGIES}


class SchedulerTopologies(msgspec.Struct, frozen=True, kw_only=True):
    """What an enabled scheduler has of its own."""

    scheduler: str
    resource: Resource[SchedulerObject]
    # By name; None: the cluster does not serve the kind.
    topologies: Mapping[str, SchedulerObject] | None


class SyncResult(StrEnum):
    IN_SYNC = "in sync"
    DRIFT = "drift"
    # A scheduler that is not enabled here, or has no topologies of its own.
    UNKNOWN_SCHEDULER = "unknown scheduler"
    # Neither good nor bad: what is under way ends soon.
    UNDER_WAY = "under way"


class _Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler's topology beside the binding, and what is to be done about it."""

    status: SchedulerTopologyStatus
    outcome: SyncResult
    stages: tuple[Stage, ...] = ()
    is_error: bool = False


def plan_binding(
    binding: ClusterTopologyBinding,
    known: Sequence[SchedulerTopologies],
    now: datetime,
    failures: tuple[CreateRejection, ...] = (),
) -> Plan:
    """The same binding and topologies give the same plan; when they agree and it was said, an empty one."""
    if binding.metadata.is_terminating:
        # What was made for it goes with it: it is their owner.
        return Plan()
    refusals = {failure.key: failure.message for failure in failures}
    judged = (
        *(_judge(binding, one, refusals) for one in sorted(known, key=lambda one: one.scheduler)),
        *_unknown(binding, known),
    )
    retries = Retries(failures, now)
    write = _status(binding, judged, now)
    return Plan(
        chains=tuple(c for one in judged for c in chain(one.status.scheduler_name, WHOLE_SET, *_allowed(one, retries))),
        statuses=(write,) if write else (),
        requeue_at=retries.requeue_at,
    )


def _allowed(judged: _Judged, retries: Retries) -> Iterator[Stage]:
    """What was refused before waits for its time, and with it what comes after."""
    for stage in judged.stages:
        if not all(retries.allow(action.failure_key) for action in stage if isinstance(action, Create)):
            return
        yield stage


def _judge(binding: ClusterTopologyBinding, known: SchedulerTopologies, refusals: Mapping[str, str]) -> _Judged:
    named = next(
        (
            entry.topology_reference
            for entry in binding.spec.scheduler_topology_bindings
            if entry.scheduler_name == known.scheduler
        ),
        None,
    )
    reference = binding.metadata.name if named is None else named
    if known.topologies is None:
        message = f"the cluster does not serve {known.resource.full_name}: install {known.scheduler}"
        return _told(known, reference, SyncResult.DRIFT, message, is_error=True)
    found = known.topologies.get(reference)
    if named is not None:
        return _compared(binding, known, reference, found)
    if found is None:
        return _missing(binding, known, refusals)
    return _kept(binding, known, found)


def _compared(
    binding: ClusterTopologyBinding, known: SchedulerTopologies, reference: str, found: SchedulerObject | None
) -> _Judged:
    """Somebody else's topology, which the binding names: never touched."""
    if found is None:
        message = f'there is no {known.resource.kind} "{reference}": create it, or correct the binding'
        return _told(known, reference, SyncResult.DRIFT, message)
    if _levels_of(found) == _keys_of(binding):
        return _told(known, reference, SyncResult.IN_SYNC, generation=found.metadata.generation)
    message = _difference(binding, known, found)
    return _told(known, reference, SyncResult.DRIFT, message, generation=found.metadata.generation)


def _missing(binding: ClusterTopologyBinding, known: SchedulerTopologies, refusals: Mapping[str, str]) -> _Judged:
    create = _create(binding, known)
    refusal = refusals.get(create.failure_key)
    if refusal is None:
        return _told(known, create.name, SyncResult.UNDER_WAY, "it is being created", stages=((create,),))
    message = f"it cannot be created: {refusal}"
    return _told(known, create.name, SyncResult.DRIFT, message, stages=((create,),), is_error=True)


def _kept(binding: ClusterTopologyBinding, known: SchedulerTopologies, found: SchedulerObject) -> _Judged:
    """A topology that is ours to make, and to make anew when the levels changed: a scheduler's are immutable."""
    reference, generation = found.metadata.name, found.metadata.generation
    if found.metadata.controller != TOPOLOGY_BINDINGS.owner_key(binding.metadata):
        message = _stranger(binding, known, found.metadata)
        return _told(known, reference, SyncResult.DRIFT, message, is_error=True, generation=generation)
    if found.metadata.is_terminating:
        return _told(known, reference, SyncResult.UNDER_WAY, "the old one is still being deleted")
    if _levels_of(found) == _keys_of(binding):
        return _told(known, reference, SyncResult.IN_SYNC, generation=generation)
    delete = delete_object(known.resource, found.metadata, "the levels of the binding changed")
    stages: tuple[Stage, ...] = ((delete,), (_create(binding, known),))
    return _told(known, reference, SyncResult.UNDER_WAY, _difference(binding, known, found), stages=stages)


def _unknown(binding: ClusterTopologyBinding, known: Sequence[SchedulerTopologies]) -> Iterator[_Judged]:
    """Schedulers that the binding names and that are not enabled here, or have no topologies of their own."""
    schedulers = {one.scheduler for one in known}
    for entry in binding.spec.scheduler_topology_bindings:
        if entry.scheduler_name not in schedulers:
            message = f"{entry.scheduler_name} is not enabled here, or has no topology of its own: remove the entry"
            status = SchedulerTopologyStatus(
                scheduler_name=entry.scheduler_name,
                topology_reference=entry.topology_reference,
                in_sync=False,
                message=message,
            )
            yield _Judged(status=status, outcome=SyncResult.UNKNOWN_SCHEDULER)


def _told(
    known: SchedulerTopologies,
    reference: str,
    outcome: SyncResult,
    message: str = "",
    *,
    generation: int | None = None,
    stages: tuple[Stage, ...] = (),
    is_error: bool = False,
) -> _Judged:
    status = SchedulerTopologyStatus(
        scheduler_name=known.scheduler,
        topology_reference=reference,
        in_sync=outcome is SyncResult.IN_SYNC,
        scheduler_backend_topology_observed_generation=generation,
        message=message or None,
    )
    return _Judged(status=status, outcome=outcome, stages=stages, is_error=is_error)


def _create(binding: ClusterTopologyBinding, known: SchedulerTopologies) -> Create:
    name = binding.metadata.name
    body: JsonObject = {
        "apiVersion": known.resource.api_version,
        "kind": known.resource.kind,
        "metadata": {
            "name": name,
            "labels": {labels.MANAGED_BY: labels.MANAGED_BY_VALUE},
            "ownerReferences": [build_owner(subject_of(TOPOLOGY_BINDINGS, binding.metadata))],
        },
        "spec": {"levels": [{"nodeLabel": key} for key in _keys_of(binding)]},
    }
    return Create(
        resource=known.resource,
        namespace="",
        name=name,
        body=body,
        failure_key=f"{known.resource.plural}/{name}",
        reason=f"{known.scheduler} reads the levels of ClusterTopologyBinding {name} from a {known.resource.kind}",
    )


def _keys_of(binding: ClusterTopologyBinding) -> tuple[str, ...]:
    return tuple(level.key for level in binding.spec.levels)


def _levels_of(topology: SchedulerObject) -> tuple[str, ...]:
    levels = topology.spec.get("levels")
    found = levels if isinstance(levels, list) else []
    return tuple(str(level.get("nodeLabel", "")) for level in found if isinstance(level, dict))


def _difference(binding: ClusterTopologyBinding, known: SchedulerTopologies, found: SchedulerObject) -> str:
    theirs, ours = ", ".join(_levels_of(found)) or "none", ", ".join(_keys_of(binding))
    return f"the levels of {known.resource.kind} {found.metadata.name} are {theirs}; those of the binding are {ours}"


def _stranger(binding: ClusterTopologyBinding, known: SchedulerTopologies, found: ObjectMeta) -> str:
    kind = known.resource.kind
    if any((o.kind, o.name) == (TOPOLOGY_BINDINGS.kind, binding.metadata.name) for o in found.owner_references):
        return f"{kind} {found.name} is left of an earlier binding of this name; it is waited for until it is gone"
    hint = f"name it in schedulerTopologyBindings, or remove that {kind}"
    return f"{kind} {found.name} exists already and was not made for this binding; {hint}"


# --- what is said of it ----------------------------------------------------------------------------------------------


def _status(binding: ClusterTopologyBinding, judged: Sequence[_Judged], now: datetime) -> StatusWrite | None:
    old = binding.status
    if any(one.outcome is SyncResult.UNDER_WAY and one.stages for one in judged):
        # What is about to be done is told when it is done.
        return None
    verdict = _verdict(judged)
    type_ = ConditionType.SCHEDULER_TOPOLOGY_DRIFT
    generation = binding.metadata.generation
    conditions = (
        without_condition(old.conditions, type_)
        if verdict is None
        else with_condition(old.conditions, type_, verdict, now, generation=generation)
    )
    status = msgspec.structs.replace(
        old,
        observed_generation=old.observed_generation if any(one.is_error for one in judged) else generation,
        conditions=conditions,
        scheduler_topology_statuses=tuple(one.status for one in judged),
    )
    write = write_status(TOPOLOGY_BINDINGS, binding.metadata, old, status, StatusPriority.NEWS)
    return None if write is None else msgspec.structs.replace(write, on_success=tuple(_events(binding, status)))


def _verdict(judged: Sequence[_Judged]) -> ConditionResult | None:
    if not judged:
        return None
    wrong = [one for one in judged if one.outcome is not SyncResult.IN_SYNC]
    message = "; ".join(f"{one.status.scheduler_name}: {one.status.message}" for one in wrong)
    if any(one.outcome is SyncResult.UNKNOWN_SCHEDULER for one in wrong):
        return ConditionResult(status=ConditionStatus.UNKNOWN, reason=Reason.TOPOLOGY_NOT_FOUND, message=message)
    if wrong:
        return yes(Reason.DRIFT, message)
    names = ", ".join(one.status.scheduler_name for one in judged)
    return no(Reason.IN_SYNC, f"the topology of {names} equals the binding")


def _events(binding: ClusterTopologyBinding, status: TopologyBindingStatus) -> Iterator[EventRecord]:
    """When the condition changes its status; that a new binding is in sync from the start is no news."""
    type_ = ConditionType.SCHEDULER_TOPOLOGY_DRIFT
    old, new = find_condition(binding.status.conditions, type_), find_condition(status.conditions, type_)
    if new is None or (old is not None and old.status == new.status):
        return
    subject = subject_of(TOPOLOGY_BINDINGS, binding.metadata)
    if new.status != ConditionStatus.FALSE:
        yield EventRecord(
            subject=subject,
            reason=EventReason.TOPOLOGY_DRIFT_DETECTED,
            message=new.message,
            severity=Severity.WARNING,
        )
    elif old is not None:
        yield EventRecord(subject=subject, reason=EventReason.TOPOLOGY_IN_SYNC, message=new.message)
