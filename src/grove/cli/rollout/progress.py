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
from grove.cli.rollout.revisions import asked_revision
from grove.cli.status.tree import SetObjects, group_by_owner
from grove.planner.desired_state import CliqueBlueprint, ReplicaBlueprint, draw_replica
from grove.planner.snapshot import SetContext


class RolloutState(StrEnum):
    # The operator has not observed the newest generation of the set yet.
    UNSEEN = "Unseen"
    UPDATING = "Updating"
    # Pods of an older template are left, and stay until the user deletes them.
    ON_DELETE = "OnDelete"
    UP_TO_DATE = "UpToDate"


class Share(WireStruct):
    updated: int
    total: int

    def __str__(self) -> str:
        return f"{self.updated}/{self.total}"


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
    counting = Counting(objects, context, newest)
    progress = pcs.status.rolling_update_progress
    is_open = progress is not None and progress.update_started_at is not None and progress.update_ended_at is None
    current = progress.currently_updating if progress is not None and is_open else None
    is_moving = is_open or counting.has_old_replicas()
    state = _state(pcs, context, revisions, is_moving=is_moving, has_old=counting.has_old_pods())
    return Rollout(
        name=pcs.metadata.name,
        namespace=pcs.metadata.namespace,
        state=state,
        strategy=_strategy(pcs),
        revision=newest.number if newest else None,
        generation_hash=newest.generation_hash if newest else None,
        generation=pcs.metadata.generation,
        observed_generation=pcs.status.observed_generation or 0,
        replicas=counting.replicas(None if current is None else current.replica_index),
        pods=counting.pods(),
        available_replicas=pcs.status.available_replicas,
        started_at=progress.update_started_at if progress else None,
        ended_at=progress.update_ended_at if progress else None,
        turn=None if current is None else counting.turn(current.replica_index, current.update_started_at),
        stalled=None if state is RolloutState.UP_TO_DATE else _stall(pcs),
    )


def _stall(pcs: PodCliqueSet) -> Stall | None:
    """Return why the update cannot continue, from the conditions of the set."""
    for type_ in (ConditionType.UPDATE_STALLED, ConditionType.RECONCILE_FAILED):
        found = find_condition(pcs.status.conditions, type_)
        if found is not None and found.status == ConditionStatus.TRUE:
            return Stall(reason=found.reason, message=found.message)
    return None


def _state(
    pcs: PodCliqueSet, context: SetContext, revisions: tuple[Revision, ...], *, is_moving: bool, has_old: bool
) -> RolloutState:
    """Compute the state. The generation is checked first: a status of an older generation describes another update."""
    if (pcs.status.observed_generation or 0) < pcs.metadata.generation:
        return RolloutState.UNSEEN
    asked = asked_revision(context.spec.template, revisions)
    if asked is None or asked is not revisions[-1] or pcs.status.current_generation_hash != asked.generation_hash:
        return RolloutState.UNSEEN
    if _strategy(pcs) == UpdateType.ON_DELETE:
        return RolloutState.ON_DELETE if has_old else RolloutState.UP_TO_DATE
    return RolloutState.UPDATING if is_moving else RolloutState.UP_TO_DATE


def _strategy(pcs: PodCliqueSet) -> str:
    strategy = pcs.spec.update_strategy
    return strategy.type if strategy is not None else UpdateType.ROLLING_RECREATE


class Counting:
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
        self._replicas = tuple(draw_replica(context, index, scale) for index in range(context.spec.replicas))

    def replicas(self, updating: int | None) -> Share:
        """Count replicas with the newest revision in the base gang, no update in progress and no old pod."""
        updated = sum(
            replica.index != updating and self._is_new(replica) and not self._has_old_pods(replica)
            for replica in self._replicas
        )
        return Share(updated=updated, total=len(self._replicas))

    def has_old_replicas(self) -> bool:
        return any(self._runs(replica) not in (None, self._hash) for replica in self._replicas)

    def has_old_pods(self) -> bool:
        return any(map(self._has_old_pods, self._replicas))

    def _is_new(self, replica: ReplicaBlueprint) -> bool:
        return self._hash is not None and self._runs(replica) == self._hash

    def _runs(self, replica: ReplicaBlueprint) -> str | None:
        gang = self._gangs.get(replica.name)
        return None if gang is None else gang.metadata.labels.get(labels.GENERATION_HASH)

    def _has_old_pods(self, replica: ReplicaBlueprint) -> bool:
        return any(
            not self._is_new_pod(pod, drawn) and not pod.metadata.is_terminating
            for drawn in replica.cliques
            for pod in self._pods_of(drawn)
        )

    def pods(self) -> Share:
        return _sum(self._clique_share(clique) for replica in self._replicas for clique in replica.cliques)

    def turn(self, index: int, started_at: datetime) -> CurrentReplica:
        replica = next((one for one in self._replicas if one.index == index), None)
        units = () if replica is None else (*self._updating_cliques(replica), *self._updating_groups(replica))
        return CurrentReplica(replica_index=index, started_at=started_at, units=units)

    def _updating_cliques(self, replica: ReplicaBlueprint) -> Iterable[UnitProgress]:
        for drawn in replica.cliques:
            clique = self._cliques.get(drawn.name)
            progress = clique.status.rolling_update_progress if clique is not None and not drawn.group else None
            if progress is not None and progress.update_ended_at is None:
                selected = progress.ready_pods_selected_to_update
                current = selected.current if selected else ""
                yield UnitProgress(kind="pclq", name=drawn.name, share=self._clique_share(drawn), current=current)

    def _updating_groups(self, replica: ReplicaBlueprint) -> Iterable[UnitProgress]:
        for drawn in replica.groups:
            group = self._groups.get(drawn.name)
            progress = group.status.rolling_update_progress if group is not None else None
            if progress is not None and progress.update_ended_at is None:
                selected = progress.ready_replica_indices_selected_to_update
                current = str(selected.current) if selected else ""
                share = self._group_share(replica, drawn.name, drawn.replicas)
                yield UnitProgress(kind="pcsg", name=drawn.name, share=share, current=current)

    def _group_share(self, replica: ReplicaBlueprint, group: str, total: int) -> Share:
        members: dict[int, list[CliqueBlueprint]] = {}
        for clique in replica.cliques:
            if clique.group == group:
                members.setdefault(clique.group_replica_index, []).append(clique)
        whole = [_sum(map(self._clique_share, cliques)) for cliques in members.values()]
        return Share(updated=sum(share.updated >= share.total for share in whole), total=total)

    def _clique_share(self, drawn: CliqueBlueprint) -> Share:
        clique = self._cliques.get(drawn.name)
        if clique is None or clique.metadata.is_terminating:
            # It is recreated with the scale that only its gang knows; the template's is the best guess.
            return Share(updated=0, total=drawn.template.spec.replicas)
        new = sum(self._is_new_pod(pod, drawn) and not pod.metadata.is_terminating for pod in self._pods_of(drawn))
        return Share(updated=min(new, clique.spec.replicas), total=clique.spec.replicas)

    def _pods_of(self, drawn: CliqueBlueprint) -> list[Pod]:
        clique = self._cliques.get(drawn.name)
        return [] if clique is None else self._pods.get(PODCLIQUES.owner_key(clique.metadata), [])

    def _is_new_pod(self, pod: Pod, drawn: CliqueBlueprint) -> bool:
        return pod.metadata.labels.get(labels.TEMPLATE_HASH) == self._hashes.get(drawn.template.name)


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
    updated = total = 0
    for share in shares:
        updated += share.updated
        total += share.total
    return Share(updated=updated, total=total)
