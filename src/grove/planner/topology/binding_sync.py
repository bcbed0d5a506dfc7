"""Sync ClusterTopologyBindings: create or compare the topology objects of schedulers.

A topology object that the binding names belongs to a user and is only compared. For every other scheduler with such
objects the operator creates one, owned by the binding. `node_label_keys.py` shows how sets use a binding.
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
from grove.planner.status.status_patch import (
    condition_false,
    condition_true,
    with_condition,
    without_condition,
    write_status,
)

# Schedulers with topology objects, and their kinds.
TOPOLOGY_KINDS: Mapping[str, Resource[SchedulerObject]] = {"kai-scheduler": KAI_TOPOLOGIES}


class SchedulerTopologies(msgspec.Struct, frozen=True, kw_only=True):
    """The topology objects of an enabled scheduler."""

    scheduler: str
    resource: Resource[SchedulerObject]
    # By name; None: the cluster does not serve the kind.
    topologies: Mapping[str, SchedulerObject] | None


class SyncResult(StrEnum):
    IN_SYNC = "in sync"
    DRIFT = "drift"
    # A scheduler that is not enabled here, or has no topologies of its own.
    UNKNOWN_SCHEDULER = "unknown scheduler"
    # A create or delete is in progress.
    UNDER_WAY = "under way"


class _Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler's topology compared with the binding, and the actions about it."""

    status: SchedulerTopologyStatus
    sync_result: SyncResult
    stages: tuple[Stage, ...] = ()
    is_error: bool = False


def plan_binding(
    binding: ClusterTopologyBinding,
    known: Sequence[SchedulerTopologies],
    now: datetime,
    failures: tuple[CreateRejection, ...] = (),
) -> Plan:
    """Plan one binding. The plan is empty when the topologies agree and the status reports it."""
    if binding.metadata.is_terminating:
        # The garbage collector deletes the topologies that it owns.
        return Plan()
    rejections = {failure.key: failure.message for failure in failures}
    comparisons = (
        *(_compare(binding, one, rejections) for one in sorted(known, key=lambda one: one.scheduler)),
        *_report_unknown(binding, known),
    )
    retries = Retries(failures, now)
    write = _status(binding, comparisons, now)
    return Plan(
        chains=tuple(
            c for one in comparisons for c in chain(one.status.scheduler_name, WHOLE_SET, *_due_stages(one, retries))
        ),
        statuses=(write,) if write else (),
        requeue_at=retries.requeue_at,
    )


def _due_stages(comparisons: _Comparison, retries: Retries) -> Iterator[Stage]:
    """Yield the stages up to the first with a rejected create that must wait."""
    for stage in comparisons.stages:
        if not all(retries.is_due(action.failure_key) for action in stage if isinstance(action, Create)):
            return
        yield stage


def _compare(binding: ClusterTopologyBinding, known: SchedulerTopologies, rejections: Mapping[str, str]) -> _Comparison:
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
        return _result(known, reference, SyncResult.DRIFT, message, is_error=True)
    found = known.topologies.get(reference)
    if named is not None:
        return _compare_foreign(binding, known, reference, found)
    if found is None:
        return _report_missing(binding, known, rejections)
    return _sync_own(binding, known, found)


def _compare_foreign(
    binding: ClusterTopologyBinding, known: SchedulerTopologies, reference: str, found: SchedulerObject | None
) -> _Comparison:
    """Compare a topology that the binding names. It belongs to a user and is never changed."""
    if found is None:
        message = f'there is no {known.resource.kind} "{reference}": create it, or correct the binding'
        return _result(known, reference, SyncResult.DRIFT, message)
    if _levels_of(found) == _keys_of(binding):
        return _result(known, reference, SyncResult.IN_SYNC, generation=found.metadata.generation)
    message = _difference(binding, known, found)
    return _result(known, reference, SyncResult.DRIFT, message, generation=found.metadata.generation)


def _report_missing(
    binding: ClusterTopologyBinding, known: SchedulerTopologies, rejections: Mapping[str, str]
) -> _Comparison:
    create = _create(binding, known)
    backoff = rejections.get(create.failure_key)
    if backoff is None:
        return _result(known, create.name, SyncResult.UNDER_WAY, "it is being created", stages=((create,),))
    message = f"it cannot be created: {backoff}"
    return _result(known, create.name, SyncResult.DRIFT, message, stages=((create,),), is_error=True)


def _sync_own(binding: ClusterTopologyBinding, known: SchedulerTopologies, found: SchedulerObject) -> _Comparison:
    """Sync a topology that the operator owns. Levels are immutable, so a change recreates it."""
    reference, generation = found.metadata.name, found.metadata.generation
    if found.metadata.controller != TOPOLOGY_BINDINGS.owner_key(binding.metadata):
        message = _describe_foreign(binding, known, found.metadata)
        return _result(known, reference, SyncResult.DRIFT, message, is_error=True, generation=generation)
    if found.metadata.is_terminating:
        return _result(known, reference, SyncResult.UNDER_WAY, "the old one is still being deleted")
    if _levels_of(found) == _keys_of(binding):
        return _result(known, reference, SyncResult.IN_SYNC, generation=generation)
    delete = delete_object(known.resource, found.metadata, "the levels of the binding changed")
    stages: tuple[Stage, ...] = ((delete,), (_create(binding, known),))
    return _result(known, reference, SyncResult.UNDER_WAY, _difference(binding, known, found), stages=stages)


def _report_unknown(binding: ClusterTopologyBinding, known: Sequence[SchedulerTopologies]) -> Iterator[_Comparison]:
    """Report schedulers that the binding names and that are not enabled here, or have no topology objects."""
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
            yield _Comparison(status=status, sync_result=SyncResult.UNKNOWN_SCHEDULER)


def _result(
    known: SchedulerTopologies,
    reference: str,
    sync_result: SyncResult,
    message: str = "",
    *,
    generation: int | None = None,
    stages: tuple[Stage, ...] = (),
    is_error: bool = False,
) -> _Comparison:
    status = SchedulerTopologyStatus(
        scheduler_name=known.scheduler,
        topology_reference=reference,
        in_sync=sync_result is SyncResult.IN_SYNC,
        scheduler_backend_topology_observed_generation=generation,
        message=message or None,
    )
    return _Comparison(status=status, sync_result=sync_result, stages=stages, is_error=is_error)


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


def _describe_foreign(binding: ClusterTopologyBinding, known: SchedulerTopologies, found: ObjectMeta) -> str:
    kind = known.resource.kind
    if any((o.kind, o.name) == (TOPOLOGY_BINDINGS.kind, binding.metadata.name) for o in found.owner_references):
        return f"{kind} {found.name} belongs to an earlier binding of this name; the operator waits until it is gone"
    hint = f"name it in schedulerTopologyBindings, or remove that {kind}"
    return f"{kind} {found.name} already exists and was not created for this binding; {hint}"


# --- the status -----------------------------------------------------------------------------------------------------


def _status(binding: ClusterTopologyBinding, comparisons: Sequence[_Comparison], now: datetime) -> StatusWrite | None:
    old = binding.status
    if any(one.sync_result is SyncResult.UNDER_WAY and one.stages for one in comparisons):
        # The status is written after the actions.
        return None
    verdict = _compare_all(comparisons)
    type_ = ConditionType.SCHEDULER_TOPOLOGY_DRIFT
    generation = binding.metadata.generation
    conditions = (
        without_condition(old.conditions, type_)
        if verdict is None
        else with_condition(old.conditions, type_, verdict, now, generation=generation)
    )
    status = msgspec.structs.replace(
        old,
        observed_generation=old.observed_generation if any(one.is_error for one in comparisons) else generation,
        conditions=conditions,
        scheduler_topology_statuses=tuple(one.status for one in comparisons),
    )
    write = write_status(TOPOLOGY_BINDINGS, binding.metadata, old, status, StatusPriority.TRANSITION)
    return None if write is None else msgspec.structs.replace(write, on_success=tuple(_events(binding, status)))


def _compare_all(comparisons: Sequence[_Comparison]) -> ConditionResult | None:
    if not comparisons:
        return None
    wrong = [one for one in comparisons if one.sync_result is not SyncResult.IN_SYNC]
    message = "; ".join(f"{one.status.scheduler_name}: {one.status.message}" for one in wrong)
    if any(one.sync_result is SyncResult.UNKNOWN_SCHEDULER for one in wrong):
        return ConditionResult(status=ConditionStatus.UNKNOWN, reason=Reason.TOPOLOGY_NOT_FOUND, message=message)
    if wrong:
        return condition_true(Reason.DRIFT, message)
    names = ", ".join(one.status.scheduler_name for one in comparisons)
    return condition_false(Reason.IN_SYNC, f"the topology of {names} equals the binding")


def _events(binding: ClusterTopologyBinding, status: TopologyBindingStatus) -> Iterator[EventRecord]:
    """Yield an event when the condition changes its status, except for a new binding that is in sync."""
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
