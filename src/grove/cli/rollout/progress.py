"""Compute the progress of a set's update: what `grove rollout status --output json` prints. Pure.

The counts come from pods and gangs, not from statuses, because a status lags behind its pods.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from grove.api import labels, names
from grove.api.reasons import ConditionType
from grove.api.resources import PODCLIQUES, PODCLIQUESETS
from grove.api.template_revision import Revision
from grove.api.types.meta import ConditionStatus, WireStruct, find_condition
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import PodCliqueSet, UpdateType
from grove.api.types.podgang import PodGang
from grove.cli.status.tree import SetObjects, group_by_owner
from grove.operations.rollout.revisions import find_matching_revision
from grove.planner.desired_state import DesiredClique, DesiredReplica, build_desired_replica
from grove.planner.snapshot import SetContext


class RolloutState(StrEnum):
    # The operator has not observed the newest generation of the set yet.
    UNSEEN = "Unseen"
    UPDATING = "Updating"
    # Pods of an older template are left, and stay until the user deletes them.
    ON_DELETE = "OnDelete"
    UP_TO_DATE = "UpToDate"


class Share(WireStruct):
    """The number of pods or replicas that run the newest revision, and how many of those are ready."""

    updated: int
    total: int
    ready: int

    def __str__(self) -> str:
        return f"{self.ready}/{self.total}"


class UnitProgress(WireStruct):
    """The progress of a clique (in pods) or a group (in replicas) that is being updated."""

    kind: str
    name: str
    share: Share
    # The pod, or the index of the group replica, that is being replaced.
    current: str = ""


class CurrentReplica(WireStruct):
    """The set replica that is being updated."""

    replica_index: int
    started_at: datetime | None = None
    units: tuple[UnitProgress, ...] = ()


class Stall(WireStruct):
    reason: str
    message: str


class Rollout(WireStruct):
    name: str
    namespace: str
    state: RolloutState
    strategy: str
    # The newest stored revision. The counts refer to it.
    revision: int | None
    generation_hash: str | None
    generation: int
    observed_generation: int
    replicas: Share
    pods: Share
    available_replicas: int
    started_at: datetime | None = None
    ended_at: datetime | None = None
    turn: CurrentReplica | None = None
    stalled: Stall | None = None

    @property
    def is_over(self) -> bool:
        """Return whether the operator has nothing more to do."""
        return self.state in (RolloutState.UP_TO_DATE, RolloutState.ON_DELETE)


def build_rollout(objects: SetObjects, context: SetContext, revisions: tuple[Revision, ...]) -> Rollout:
    """Compute the progress. `context` is of the current set, `revisions` are its own, oldest first."""
    pcs = objects.pcs
    newest = revisions[-1] if revisions else None
    counting = UpdateCounter(objects, context, newest)
    progress = pcs.status.rolling_update_progress
    is_open = progress is not None and progress.update_started_at is not None and progress.update_ended_at is None
    current = progress.currently_updating if progress is not None and is_open else None
    is_moving = is_open or counting.has_old_replicas()
    state = _compute_state(pcs, context, revisions, is_moving=is_moving, has_old=counting.has_old_pods())
    return Rollout(
        name=pcs.metadata.name,
        namespace=pcs.metadata.namespace,
        state=state,
        strategy=_strategy_of(pcs),
        revision=newest.number if newest else None,
        generation_hash=newest.generation_hash if newest else None,
        generation=pcs.metadata.generation,
        observed_generation=pcs.status.observed_generation or 0,
        replicas=counting.replicas(None if current is None else current.replica_index),
        pods=counting.pods(),
        available_replicas=pcs.status.available_replicas,
        started_at=progress.update_started_at if progress else None,
        ended_at=progress.update_ended_at if progress else None,
        turn=None
        if current is None or state is RolloutState.UNSEEN
        else counting.current_replica(current.replica_index, current.update_started_at),
        stalled=_find_stall(pcs, state),
    )


def _find_stall(pcs: PodCliqueSet, state: RolloutState) -> Stall | None:
    """Return why the update cannot continue, from the conditions of the set."""
    types: tuple[ConditionType, ...] = (ConditionType.UPDATE_STALLED, ConditionType.RECONCILE_FAILED)
    if state is RolloutState.UP_TO_DATE:
        types = ()
    elif state is RolloutState.UNSEEN:
        # Another update stalled, but the failure may be why the operator does not begin this one.
        types = (ConditionType.RECONCILE_FAILED,)
    for type_ in types:
        found = find_condition(pcs.status.conditions, type_)
        if found is not None and found.status == ConditionStatus.TRUE:
            return Stall(reason=found.reason, message=found.message)
    return None


def _compute_state(
    pcs: PodCliqueSet, context: SetContext, revisions: tuple[Revision, ...], *, is_moving: bool, has_old: bool
) -> RolloutState:
    """Compute the state. The generation is checked first: a status of an older generation describes another update."""
    if (pcs.status.observed_generation or 0) < pcs.metadata.generation:
        return RolloutState.UNSEEN
    matching = find_matching_revision(context.spec.template, revisions)
    if (
        matching is None
        or matching is not revisions[-1]
        or pcs.status.current_generation_hash != matching.generation_hash
    ):
        return RolloutState.UNSEEN
    if _strategy_of(pcs) == UpdateType.ON_DELETE:
        return RolloutState.ON_DELETE if has_old else RolloutState.UP_TO_DATE
    return RolloutState.UPDATING if is_moving else RolloutState.UP_TO_DATE


def _strategy_of(pcs: PodCliqueSet) -> str:
    strategy = pcs.spec.update_strategy
    return strategy.type if strategy is not None else UpdateType.ROLLING_RECREATE


class UpdateCounter:
    """A counter of pods and replicas that run the newest revision."""

    def __init__(self, objects: SetObjects, context: SetContext, newest: Revision | None) -> None:
        self._context = context
        self._hash = newest.generation_hash if newest else None
        self._hashes = newest.template.hashes if newest else {}
        self._groups = {group.metadata.name: group for group in objects.groups}
        self._cliques = {clique.metadata.name: clique for clique in objects.cliques}
        self._gangs = {gang.metadata.name: gang for gang in objects.gangs}
        self._pods = group_by_owner(objects.pods)
        scale = {name: group.spec.replicas for name, group in self._groups.items()}
        self._replicas = tuple(build_desired_replica(context, index, scale) for index in range(context.spec.replicas))

    def replicas(self, updating: int | None) -> Share:
        """Count replicas with the newest revision in the base gang, no update in progress and no old pod."""
        updated = sum(
            replica.index != updating and self._is_new(replica) and not self._has_old_pods(replica)
            for replica in self._replicas
        )
        return Share(updated=updated, total=len(self._replicas), ready=updated)

    def has_old_replicas(self) -> bool:
        return any(self._running_hash(replica) not in (None, self._hash) for replica in self._replicas)

    def has_old_pods(self) -> bool:
        return any(map(self._has_old_pods, self._replicas))

    def _is_new(self, replica: DesiredReplica) -> bool:
        return self._hash is not None and self._running_hash(replica) == self._hash

    def _running_hash(self, replica: DesiredReplica) -> str | None:
        gang = self._gangs.get(replica.name)
        return None if gang is None else gang.metadata.labels.get(labels.GENERATION_HASH)

    def _has_old_pods(self, replica: DesiredReplica) -> bool:
        return any(
            not self._is_new_pod(pod, desired) and not pod.metadata.is_terminating
            for desired in replica.cliques
            for pod in self._pods_of(desired)
        )

    def pods(self) -> Share:
        return _sum(self._count_clique(clique) for replica in self._replicas for clique in replica.cliques)

    def current_replica(self, index: int, started_at: datetime) -> CurrentReplica:
        replica = next((one for one in self._replicas if one.index == index), None)
        units = () if replica is None else (*self._updating_cliques(replica), *self._updating_groups(replica))
        return CurrentReplica(replica_index=index, started_at=started_at, units=units)

    def _updating_cliques(self, replica: DesiredReplica) -> Iterable[UnitProgress]:
        for desired in replica.cliques:
            clique = self._cliques.get(desired.name)
            progress = clique.status.rolling_update_progress if clique is not None and not desired.group else None
            if progress is not None and progress.update_ended_at is None:
                selected = progress.ready_pods_selected_to_update
                current = selected.current if selected else ""
                yield UnitProgress(kind="pclq", name=desired.name, share=self._count_clique(desired), current=current)

    def _updating_groups(self, replica: DesiredReplica) -> Iterable[UnitProgress]:
        for desired in replica.groups:
            group = self._groups.get(desired.name)
            progress = group.status.rolling_update_progress if group is not None else None
            if progress is not None and progress.update_ended_at is None:
                selected = progress.ready_replica_indices_selected_to_update
                current = str(selected.current) if selected else ""
                share = self._count_group(replica, desired.name, desired.replicas)
                yield UnitProgress(kind="pcsg", name=desired.name, share=share, current=current)

    def _count_group(self, replica: DesiredReplica, group: str, total: int) -> Share:
        members: dict[int, list[DesiredClique]] = {}
        for clique in replica.cliques:
            if clique.group == group:
                members.setdefault(clique.group_replica_index, []).append(clique)
        whole = [_sum(map(self._count_clique, cliques)) for cliques in members.values()]
        return Share(
            updated=sum(share.updated >= share.total for share in whole),
            total=total,
            ready=sum(share.ready >= share.total for share in whole),
        )

    def _count_clique(self, desired: DesiredClique) -> Share:
        clique = self._cliques.get(desired.name)
        if clique is None or clique.metadata.is_terminating:
            # It is recreated with the scale that only its gang knows; the template's is the best guess.
            return Share(updated=0, total=desired.template.spec.replicas, ready=0)
        pods = (pod for pod in self._pods_of(desired) if not pod.metadata.is_terminating)
        new = [pod for pod in pods if self._is_new_pod(pod, desired)]
        wanted = clique.spec.replicas
        return Share(updated=min(len(new), wanted), total=wanted, ready=min(sum(pod.is_ready for pod in new), wanted))

    def _pods_of(self, desired: DesiredClique) -> list[Pod]:
        clique = self._cliques.get(desired.name)
        return [] if clique is None else self._pods.get(PODCLIQUES.owner_key(clique.metadata), [])

    def _is_new_pod(self, pod: Pod, desired: DesiredClique) -> bool:
        return pod.metadata.labels.get(labels.TEMPLATE_HASH) == self._hashes.get(desired.template.name)


def running_revisions(pcs: PodCliqueSet, gangs: Iterable[PodGang]) -> dict[str, int]:
    """Return the number of desired replicas that run each revision, by hash."""
    wanted = {names.replica_name(pcs.metadata.name, index) for index in range(pcs.spec.replicas)}
    owner = PODCLIQUESETS.owner_key(pcs.metadata)
    found: dict[str, int] = {}
    for gang in gangs:
        runs = gang.metadata.labels.get(labels.GENERATION_HASH)
        if runs and gang.metadata.name in wanted and gang.metadata.controller == owner:
            found[runs] = found.get(runs, 0) + 1
    return found


def _sum(shares: Iterable[Share]) -> Share:
    updated = total = ready = 0
    for share in shares:
        updated += share.updated
        total += share.total
        ready += share.ready
    return Share(updated=updated, total=total, ready=ready)
