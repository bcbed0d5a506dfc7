"""Build the tree of a set for `grove status`: replicas, groups, cliques and pods. Pure.

`--output json` prints these structs; `tree_view.py` renders them as rows. The planner is imported only for sets that
are breached or train, so that `grove status` starts fast.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from grove.api import labels, names
from grove.api.reasons import STATE_CONDITIONS, ConditionType
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, Resource
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import (
    Condition,
    HasMetadata,
    ObjectMeta,
    OwnerKey,
    WireStruct,
    find_condition,
    is_condition_true,
)
from grove.api.types.pod import ContainerStatus, Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet, SetPhase, WorkloadType
from grove.api.types.podgang import GangPhase, PodGang
from grove.api.values.autoscaler_summary import AutoscalerSummary, index_by_target, summarize_autoscaler

if TYPE_CHECKING:
    from grove.planner.snapshot import SetContext

TERMINATING = "Terminating"
GATED = "Gated"
BREACHED = "Breached"
REJECTED = "Rejected"
AT_ZERO = "ScaledToZero"
_WORST_FIRST = (
    TERMINATING,
    REJECTED,
    BREACHED,
    GangPhase.PENDING.value,
    GangPhase.STARTING.value,
    GangPhase.RUNNING.value,
    SetPhase.SUCCEEDED.value,
    AT_ZERO,
)


class SetObjects(WireStruct):
    """A set and all its children."""

    pcs: PodCliqueSet
    groups: tuple[PodCliqueScalingGroup, ...] = ()
    cliques: tuple[PodClique, ...] = ()
    gangs: tuple[PodGang, ...] = ()
    pods: tuple[Pod, ...] = ()
    # Of all owners. Those that scale something else are ignored.
    autoscalers: tuple[HorizontalPodAutoscaler, ...] = ()


class PodCounts(WireStruct):
    """Counts of pods that are not terminating, and the desired number."""

    wanted: int = 0
    ready: int = 0
    scheduled: int = 0
    # Only in training sets: pods that ended with exit code 0. They are not ready any more.
    succeeded: int = 0

    @property
    def is_complete(self) -> bool:
        return self.ready + self.succeeded >= self.wanted


class PodNode(WireStruct):
    name: str
    phase: str
    is_ready: bool
    node: str
    created_at: datetime | None


class CliqueNode(WireStruct):
    name: str
    phase: str
    min_available: int
    counts: PodCounts
    created_at: datetime | None
    # If breached: when its group replica or set replica is torn down.
    teardown_at: datetime | None = None
    autoscaler: AutoscalerSummary | None = None
    pods: tuple[PodNode, ...] = ()


class GroupReplicaNode(WireStruct):
    index: int
    # The gang of this replica: its own, or the base gang of the set replica.
    gang: str
    phase: str
    counts: PodCounts
    cliques: tuple[CliqueNode, ...] = ()


class GroupNode(WireStruct):
    name: str
    phase: str
    replicas: int
    available_replicas: int
    min_available: int
    counts: PodCounts
    created_at: datetime | None
    # If breached: when the set replica is torn down.
    teardown_at: datetime | None = None
    autoscaler: AutoscalerSummary | None = None
    group_replicas: tuple[GroupReplicaNode, ...] = ()


class ReplicaNode(WireStruct):
    index: int
    # The base gang.
    gang: str
    phase: str
    counts: PodCounts
    created_at: datetime | None
    cliques: tuple[CliqueNode, ...] = ()
    groups: tuple[GroupNode, ...] = ()


class Problem(WireStruct):
    """A condition of the set that needs attention."""

    type: str
    reason: str
    message: str


class Updating(WireStruct):
    """An update in progress, and the replica that is being updated."""

    replica_index: int | None
    # Of that replica.
    updated_pods: int
    pods: int


class Training(WireStruct):
    """Restarts and deadline of a training set."""

    restarts: int
    max_restarts: int
    # None: no deadline, or not started.
    deadline: datetime | None = None


class SetNode(WireStruct):
    name: str
    namespace: str
    phase: str
    replicas: int
    available_replicas: int
    updated_replicas: int
    counts: PodCounts
    created_at: datetime | None
    problems: tuple[Problem, ...] = ()
    updating: Updating | None = None
    training: Training | None = None
    autoscaler: AutoscalerSummary | None = None
    set_replicas: tuple[ReplicaNode, ...] = ()


T = TypeVar("T", bound=HasMetadata)
N = TypeVar("N", CliqueNode, GroupNode)


class Deadlines:
    """Times at which breaches lead to a teardown. The delay counts from the transition time of the condition."""

    def __init__(self, pcs: PodCliqueSet) -> None:
        self._pcs = pcs

    @cached_property
    def _context(self) -> "SetContext":
        from grove.planner.snapshot import build_context

        return build_context(self._pcs)

    def of(self, metadata: ObjectMeta, conditions: tuple[Condition, ...]) -> datetime | None:
        breach = find_condition(conditions, ConditionType.MIN_AVAILABLE_BREACHED)
        if breach is None or breach.status != "True" or breach.last_transition_time is None or metadata.is_terminating:
            return None
        from grove.planner.teardown.gang_termination import effective_delay
        from grove.planner.training.lifecycle import failure_of, is_finished

        if is_finished(self._pcs) or failure_of(self._pcs.status) is not None:
            # Nothing of a finished set is torn down.
            return None
        delay = effective_delay(self._context, metadata)
        return None if delay is None else breach.last_transition_time + delay


class Autoscalers:
    """The autoscalers of one namespace, by what they scale."""

    def __init__(self, objects: SetObjects) -> None:
        self._by_target = index_by_target(objects.autoscalers)

    def of(self, resource: Resource[Any], metadata: ObjectMeta) -> AutoscalerSummary | None:
        found = self._by_target.get((metadata.namespace, resource.kind, metadata.name))
        return None if found is None else summarize_autoscaler(found)


def build_tree(objects: SetObjects) -> SetNode:
    pcs = objects.pcs
    autoscalers = Autoscalers(objects)
    replicas = _build_replicas(objects, autoscalers)
    return SetNode(
        name=pcs.metadata.name,
        namespace=pcs.metadata.namespace,
        phase=TERMINATING if pcs.metadata.is_terminating else pcs.status.phase or SetPhase.PENDING,
        replicas=pcs.spec.replicas,
        available_replicas=pcs.status.available_replicas,
        updated_replicas=pcs.status.updated_replicas,
        counts=_sum(replica.counts for replica in replicas),
        created_at=pcs.metadata.creation_timestamp,
        problems=_find_problems(pcs.status.conditions),
        updating=_build_updating(objects),
        training=_build_training(pcs),
        autoscaler=autoscalers.of(PODCLIQUESETS, pcs.metadata),
        set_replicas=replicas,
    )


def _build_training(pcs: PodCliqueSet) -> Training | None:
    if pcs.spec.workload_type != WorkloadType.TRAINING:
        return None
    from grove.planner.training.lifecycle import deadline_of, is_finished
    from grove.planner.training.restarts import budget_of

    return Training(
        restarts=pcs.status.restart_count or 0,
        max_restarts=budget_of(pcs),
        deadline=None if is_finished(pcs) else deadline_of(pcs, pcs.status.start_time),
    )


def _build_updating(objects: SetObjects) -> Updating | None:
    progress = objects.pcs.status.rolling_update_progress
    if progress is None or progress.update_started_at is None or progress.update_ended_at is not None:
        return None
    index = progress.currently_updating.replica_index if progress.currently_updating else None
    cliques = [clique for clique in objects.cliques if _index(clique, labels.SET_REPLICA_INDEX) == index]
    return Updating(
        replica_index=index,
        updated_pods=sum(clique.status.updated_replicas for clique in cliques),
        pods=sum(clique.spec.replicas for clique in cliques),
    )


def without_pods(node: SetNode) -> SetNode:
    """Return the set without its pods, for small terminals."""
    return msgspec.structs.replace(node, set_replicas=tuple(map(_replica_without_pods, node.set_replicas)))


def _replica_without_pods(replica: ReplicaNode) -> ReplicaNode:
    groups = tuple(
        msgspec.structs.replace(
            group,
            group_replicas=tuple(
                msgspec.structs.replace(one, cliques=_cliques_without_pods(one.cliques)) for one in group.group_replicas
            ),
        )
        for group in replica.groups
    )
    return msgspec.structs.replace(replica, cliques=_cliques_without_pods(replica.cliques), groups=groups)


def _cliques_without_pods(cliques: tuple[CliqueNode, ...]) -> tuple[CliqueNode, ...]:
    return tuple(msgspec.structs.replace(clique, pods=()) for clique in cliques)


def is_settled(node: SetNode) -> bool:
    """Return whether all pods are ready or the set succeeded, and no condition needs attention."""
    if node.phase == SetPhase.SUCCEEDED:
        return not node.problems
    return is_complete(node) and node.phase not in (TERMINATING, SetPhase.FAILED) and not node.problems


def is_complete(node: SetNode) -> bool:
    """Return whether all replicas are available and no pod is missing."""
    return node.available_replicas >= node.replicas and node.counts.is_complete


def _find_problems(conditions: tuple[Condition, ...]) -> tuple[Problem, ...]:
    """Return the true conditions that report a problem."""
    return tuple(
        Problem(type=condition.type, reason=condition.reason, message=condition.message)
        for condition in conditions
        if condition.status == "True" and condition.type not in STATE_CONDITIONS
    )


def _build_replicas(objects: SetObjects, autoscalers: Autoscalers) -> tuple[ReplicaNode, ...]:
    pods = group_by_owner(sorted(objects.pods, key=_sort_key))
    cliques = group_by_owner(sorted(objects.cliques, key=_sort_key))
    owner = PODCLIQUESETS.owner_key(objects.pcs.metadata)
    standalone = _by_index(cliques.get(owner, []), labels.SET_REPLICA_INDEX)
    groups = _by_index(_select_owned(objects.groups, owner), labels.SET_REPLICA_INDEX)
    gangs = {gang.metadata.name: gang for gang in _select_owned(objects.gangs, owner)}
    indices = sorted({*range(objects.pcs.spec.replicas), *standalone, *groups})
    deadlines = Deadlines(objects.pcs)
    return tuple(
        _build_replica(
            objects.pcs,
            index,
            tuple(
                _with_autoscaler(_build_clique(clique, pods, deadlines), autoscalers.of(PODCLIQUES, clique.metadata))
                for clique in standalone.get(index, ())
            ),
            tuple(
                _with_autoscaler(
                    _build_group(group, cliques, pods, gangs, deadlines), autoscalers.of(GROUPS, group.metadata)
                )
                for group in groups.get(index, ())
            ),
            gangs,
        )
        for index in indices
    )


def _with_autoscaler(node: N, autoscaler: AutoscalerSummary | None) -> N:
    return node if autoscaler is None else msgspec.structs.replace(node, autoscaler=autoscaler)


def _build_replica(
    pcs: PodCliqueSet,
    index: int,
    cliques: tuple[CliqueNode, ...],
    groups: tuple[GroupNode, ...],
    gangs: dict[str, PodGang],
) -> ReplicaNode:
    name = names.replica_name(pcs.metadata.name, index)
    gang = gangs.get(name)
    return ReplicaNode(
        index=index,
        gang=name,
        phase=_replica_phase(gang, cliques, groups),
        counts=_sum((*(clique.counts for clique in cliques), *(group.counts for group in groups))),
        created_at=gang.metadata.creation_timestamp if gang else None,
        cliques=cliques,
        groups=groups,
    )


def _replica_phase(gang: PodGang | None, cliques: tuple[CliqueNode, ...], groups: tuple[GroupNode, ...]) -> str:
    """Return the phase of the gang. Succeeded if all cliques did; Breached if it waits for pods that it had before."""
    members = [clique for group in groups for one in group.group_replicas for clique in one.cliques]
    phases = [clique.phase for clique in (*cliques, *members)]
    is_done = bool(phases) and all(phase == SetPhase.SUCCEEDED for phase in phases)
    if is_done:
        return SetPhase.SUCCEEDED
    phase = _gang_phase(gang)
    is_waiting = phase in (GangPhase.PENDING, GangPhase.STARTING)
    return BREACHED if is_waiting and BREACHED in phases else phase


def _gang_phase(gang: PodGang | None) -> str:
    if gang is None:
        return GangPhase.PENDING
    return TERMINATING if gang.metadata.is_terminating else gang.status.phase or GangPhase.PENDING


def _build_group(
    group: PodCliqueScalingGroup,
    cliques: dict[OwnerKey, list[PodClique]],
    pods: dict[OwnerKey, list[Pod]],
    gangs: dict[str, PodGang],
    deadlines: Deadlines,
) -> GroupNode:
    members = _by_index(cliques.get(GROUPS.owner_key(group.metadata), []), labels.GROUP_REPLICA_INDEX)
    is_breached = is_condition_true(group.status.conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    # A breached group tears down the set replica, not single group replicas.
    inner = None if is_breached else deadlines
    replicas = tuple(_build_group_replica(index, members[index], pods, gangs, inner) for index in sorted(members))
    return GroupNode(
        name=group.metadata.name,
        phase=_group_phase(group),
        replicas=group.spec.replicas,
        available_replicas=group.status.available_replicas,
        min_available=group.spec.min_available,
        counts=_sum(replica.counts for replica in replicas),
        created_at=group.metadata.creation_timestamp,
        teardown_at=deadlines.of(group.metadata, group.status.conditions),
        group_replicas=replicas,
    )


def _group_phase(group: PodCliqueScalingGroup) -> str:
    status = group.status
    if group.metadata.is_terminating:
        return TERMINATING
    if is_condition_true(status.conditions, ConditionType.MIN_AVAILABLE_BREACHED):
        return BREACHED
    if group.spec.replicas == 0:
        return AT_ZERO
    return _compute_phase(status.scheduled_replicas, status.available_replicas, group.spec.min_available)


def _build_group_replica(
    index: int,
    cliques: list[PodClique],
    pods: dict[OwnerKey, list[Pod]],
    gangs: dict[str, PodGang],
    deadlines: Deadlines | None,
) -> GroupReplicaNode:
    nodes = tuple(_build_clique(clique, pods, deadlines) for clique in cliques)
    gang = next((name for clique in cliques if (name := clique.metadata.labels.get(labels.PODGANG, ""))), "")
    return GroupReplicaNode(
        index=index,
        gang=gang,
        phase=_group_replica_phase(gangs.get(gang), nodes),
        counts=_sum(node.counts for node in nodes),
        cliques=nodes,
    )


def _group_replica_phase(gang: PodGang | None, cliques: tuple[CliqueNode, ...]) -> str:
    """Return the worst phase of its cliques. Its gang may wait for other parts of the set replica."""
    if gang is not None and gang.metadata.is_terminating:
        return TERMINATING
    phases = [clique.phase for clique in cliques]
    return next((phase for phase in _WORST_FIRST if phase in phases), GangPhase.PENDING)


def _build_clique(clique: PodClique, pods: dict[OwnerKey, list[Pod]], deadlines: Deadlines | None) -> CliqueNode:
    mine = pods.get(PODCLIQUES.owner_key(clique.metadata), [])
    staying = [pod for pod in mine if not pod.metadata.is_terminating]
    counts = PodCounts(
        wanted=clique.spec.replicas,
        ready=sum(pod.is_ready for pod in staying),
        scheduled=sum(pod.is_scheduled for pod in staying),
        succeeded=min(len(clique.status.succeeded_indices), clique.spec.replicas),
    )
    return CliqueNode(
        name=clique.metadata.name,
        phase=_clique_phase(clique, counts),
        min_available=clique.min_available,
        counts=counts,
        created_at=clique.metadata.creation_timestamp,
        teardown_at=deadlines.of(clique.metadata, clique.status.conditions) if deadlines else None,
        pods=tuple(_build_pod(pod) for pod in mine),
    )


def _clique_phase(clique: PodClique, counts: PodCounts) -> str:
    conditions = clique.status.conditions
    if clique.metadata.is_terminating:
        return TERMINATING
    if is_condition_true(conditions, ConditionType.PODS_REJECTED):
        return REJECTED
    if is_condition_true(conditions, ConditionType.MIN_AVAILABLE_BREACHED):
        return BREACHED
    if is_condition_true(conditions, ConditionType.SUCCEEDED):
        return SetPhase.SUCCEEDED
    if clique.spec.replicas == 0:
        return AT_ZERO
    return _compute_phase(counts.scheduled, counts.ready + counts.succeeded, clique.min_available)


def _compute_phase(scheduled: int, ready: int, needed: int) -> str:
    """Return the phase of a group or clique. It is one of the phases of a gang."""
    if ready >= needed:
        return GangPhase.RUNNING
    return GangPhase.STARTING if scheduled >= needed else GangPhase.PENDING


def _build_pod(pod: Pod) -> PodNode:
    return PodNode(
        name=pod.metadata.name,
        phase=_pod_phase(pod),
        is_ready=pod.is_ready,
        node=pod.spec.node_name,
        created_at=pod.metadata.creation_timestamp,
    )


def _pod_phase(pod: Pod) -> str:
    """Return the status of a pod as `kubectl get pods` prints it."""
    if pod.metadata.is_terminating:
        return TERMINATING
    if pod.spec.scheduling_gates:
        return GATED
    statuses: Iterable[ContainerStatus] = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    for status in statuses:
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
            return waiting.reason
    return pod.status.reason or pod.status.phase


def _sum(counts: Iterable[PodCounts]) -> PodCounts:
    wanted = ready = scheduled = succeeded = 0
    for count in counts:
        wanted += count.wanted
        ready += count.ready
        scheduled += count.scheduled
        succeeded += count.succeeded
    return PodCounts(wanted=wanted, ready=ready, scheduled=scheduled, succeeded=succeeded)


def group_by_owner(objects: Iterable[T]) -> dict[OwnerKey, list[T]]:
    """Return the objects by their controller, in the order given; those without one are left out."""
    found: dict[OwnerKey, list[T]] = {}
    for obj in objects:
        owner = obj.metadata.controller
        if owner is not None:
            found.setdefault(owner, []).append(obj)
    return found


def _select_owned(objects: Iterable[T], owner: OwnerKey) -> list[T]:
    return sorted((obj for obj in objects if obj.metadata.controller == owner), key=_sort_key)


def _sort_key(obj: HasMetadata) -> tuple[int, str]:
    """Sort by pod index if there is one, so that pod 10 comes after pod 9."""
    return (_index(obj, labels.POD_INDEX), obj.metadata.name)


def _by_index(objects: Sequence[T], label: str) -> dict[int, list[T]]:
    found: dict[int, list[T]] = {}
    for obj in objects:
        found.setdefault(_index(obj, label), []).append(obj)
    return found


def _index(obj: HasMetadata, label: str) -> int:
    value = obj.metadata.labels.get(label, "")
    return int(value) if value.isdecimal() else -1
