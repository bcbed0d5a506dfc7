"""Invariants of training sets: restarts, attempts, completed pods, and the end of the set.

Every restart is counted once and is within the budget. The next attempt begins when the last one is gone. Completed
pods do not run again. After the end nothing runs. `pods_and_gangs.py` checks these rules.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from grove.api import labels, names
from grove.api.types.meta import HasMetadata, Uid, find_condition
from grove.api.types.pod import Pod, is_finishing
from grove.api.types.podclique import PodClique
from grove.api.types.podcliqueset import PodCliqueSet, SetPhase, WorkloadType
from grove.api.types.podgang import PodGang
from grove.api.values.durations import parse_duration
from grove.clock import Clock
from grove.planner.rollout.clique_update import gone_at
from grove.planner.teardown.recreation import count_of, read_record
from grove.planner.training.lifecycle import FINISHED
from grove.planner.training.restarts import restarts_of
from grove.planner.views import pod_index
from grove.sim.invariants.rollout import Tables
from grove.sim.invariants.staleness import Lately, Staleness, owner_uid

# Times on the wire are whole seconds.
_ROUNDING = timedelta(seconds=1)
# A replica of a set: its namespace, the set's name, its index.
Replica = tuple[str, str, int]


def is_training(pcs: PodCliqueSet | None) -> bool:
    return pcs is not None and pcs.spec.workload_type == WorkloadType.TRAINING


class TrainingRules:
    """The rules of training sets, with a record of incarnations and of sets that ended."""

    def __init__(self, clock: Clock, staleness: Staleness, tables: Tables) -> None:
        self._clock = clock
        self._staleness = staleness
        self._tables = tables
        # How often a replica was recreated, by its created objects.
        self._incarnations: dict[Replica, int] = {}
        self._ended_at: dict[Uid, datetime] = {}
        # Cliques that were deleted, and pods that lost their clique: this is not a restart.
        self._clique_gone_at: dict[Replica, datetime] = {}
        # Indices that are ready, finishing or succeeded.
        self._available: Lately[int] = Lately(clock, staleness)
        self._orphans: dict[Uid, Pod] = {}

    # Changes of the store

    def note_set(self, pcs: PodCliqueSet, *, is_gone: bool) -> None:
        if is_gone:
            key = (pcs.metadata.namespace, pcs.metadata.name)
            self._incarnations = {replica: count for replica, count in self._incarnations.items() if replica[:2] != key}
            self._ended_at.pop(pcs.metadata.uid, None)
        elif is_training(pcs) and pcs.status.phase in FINISHED:
            self._ended_at.setdefault(pcs.metadata.uid, self._clock.now())

    def note_clique_gone(self, clique: PodClique) -> None:
        self._clique_gone_at[_replica_of(clique)] = self._clock.now()
        is_left = self._is_left(clique)
        for pod in self._tables.pods.get(clique.metadata.uid, {}).values():
            if is_left or not pod.metadata.is_terminating:
                self._orphans[pod.metadata.uid] = pod

    def note_index(self, clique: Uid, index: int, holders: Iterable[Pod], *, is_done: bool) -> None:
        """Record the pods of an index (`holders`), and whether the status reports its success (`is_done`)."""
        staying = (pod for pod in holders if not pod.metadata.is_terminating)
        is_available = any(pod.is_ready or pod.is_succeeded or is_finishing(pod) for pod in staying)
        self._available.note(clique, index, is_done or is_available)

    # The rules

    def find_unreported_breaches(self) -> Iterator[tuple[PodClique, str]]:
        """Yield cliques below their minimum whose condition does not report it. Call it when settled."""
        for clique in self._tables.cliques.values():
            reason = self._check_breach(clique)
            if reason is not None:
                yield clique, reason

    def _check_breach(self, clique: PodClique) -> str | None:
        """Check that a clique that was available and is below its minimum reports a breach.

        spec/gang-termination.md, "PodClique Level Detection". In a training set, pods that finish or have succeeded
        count as available; pods that start do not.
        """
        pcs = self._tables.sets.get(_replica_of(clique)[:2])
        is_checked = pcs is not None and is_training(pcs) and not pcs.metadata.is_terminating
        if not is_checked or clique.metadata.is_terminating or self._is_left(clique) or not clique.status.was_available:
            return None
        # An index whose success is recorded counts, also when its pod was deleted before that was written.
        available = {*self._available.members(clique.metadata.uid), *clique.status.succeeded_indices}
        count = len(available)
        condition = find_condition(clique.status.conditions, "MinAvailableBreached")
        if count >= clique.min_available or (condition is not None and condition.status == "True"):
            return None
        words = f"{condition.status}, {condition.reason}: {condition.message}" if condition is not None else "nothing"
        return f"{count} of at least {clique.min_available} pods are available, and its condition says {words}"

    def check_set(self, before: PodCliqueSet, pcs: PodCliqueSet) -> Iterator[str]:
        if not is_training(pcs):
            return
        old, new = before.status, pcs.status
        if old.start_time is not None and new.start_time != old.start_time:
            yield f"startTime changed from {old.start_time} to {new.start_time}"
        if old.phase in FINISHED and new.phase != old.phase:
            yield f"phase went from {old.phase} to {new.phase}"
        yield from self._check_restart_count(before, pcs)
        if new.phase == SetPhase.FAILED and old.phase != SetPhase.FAILED:
            yield from self._check_failed(pcs)

    def _check_restart_count(self, before: PodCliqueSet, pcs: PodCliqueSet) -> Iterator[str]:
        was, now = before.status.restart_count or 0, pcs.status.restart_count or 0
        counts = restarts_of(pcs.status)
        if now < was:
            yield f"restartCount went from {was} back to {now}"
        if now != sum(counts.values()):
            yield f"restartCount is {now}, and its replicas count {counts}"
        budget = (pcs.spec.training_spec.max_restarts or 0) if pcs.spec.training_spec else 0
        if now > max(was, budget):
            yield f"restartCount is {now}, at most {budget} are allowed"
        known = restarts_of(before.status)
        for index, count in counts.items():
            if count == known.get(index, 0):
                continue
            replica = (pcs.metadata.namespace, pcs.metadata.name, index)
            incarnations = self._incarnations.get(replica, 0)
            if count != incarnations + 1:
                yield f"replica {index} was recreated {incarnations} times, but its restart has number {count}"
            if not self._is_broken(pcs, replica):
                yield f"a restart of replica {index} is counted although nothing of it is in breach"

    def _is_broken(self, pcs: PodCliqueSet, replica: Replica) -> bool:
        gone_at = self._clique_gone_at.get(replica)
        if gone_at is not None and gone_at >= self._staleness.since():
            return True
        now = self._clock.now()
        mine = [clique for clique in self._tables.cliques.values() if _replica_of(clique) == replica]
        for clique in mine:
            condition = find_condition(clique.status.conditions, "MinAvailableBreached")
            since = condition.last_transition_time if condition is not None and condition.status == "True" else None
            if since is not None and since + _delay(pcs, clique) <= now + _ROUNDING:
                return True
        # A clique or its group was deleted, however long ago: the operator may have been down.
        groups = pcs.spec.template.pod_clique_scaling_groups
        wanted = {names.group(replica[1], replica[2], group.name) for group in groups}
        here = {group.metadata.name for group in self._tables.groups.values() if _replica_of(group) == replica}
        return len(mine) < len(pcs.spec.template.cliques) or not wanted <= here

    def _check_failed(self, pcs: PodCliqueSet) -> Iterator[str]:
        condition = find_condition(pcs.status.conditions, "Failed")
        if condition is None or condition.status != "True":
            yield "phase Failed without the condition that says why"
        for pod in self._pods_of(pcs.metadata.namespace, pcs.metadata.name):
            is_terminating = pod.metadata.is_terminating and self._clock.now() < gone_at(pod)
            if pod.is_active or is_terminating:
                yield f"phase Failed, and pod {pod.metadata.name} is still there"

    def check_gang(self, before: PodGang, gang: PodGang) -> Iterator[str]:
        """Check that an incarnation begins after its restart was counted."""
        known = {one.incarnation for one in read_record(before).open}
        for one in read_record(gang).open:
            if not one.group and one.incarnation not in known:
                yield from self._check_begin(gang, one.incarnation)

    def check_created_clique(self, clique: PodClique) -> str | None:
        found = next(self._check_begin(clique, clique.metadata.labels.get(labels.INCARNATION, "")), None)
        return found or self.check_not_ended(clique)

    def _check_begin(self, obj: HasMetadata, incarnation: str) -> Iterator[str]:
        replica, incarnation_count = _replica_of(obj), count_of(incarnation)
        pcs = self._tables.sets.get(replica[:2])
        if pcs is None or not is_training(pcs) or not incarnation_count:
            return
        counted = restarts_of(pcs.status).get(replica[2], 0)
        if incarnation_count > counted:
            yield f"incarnation {incarnation} begins, and only {counted} restarts of its replica are counted"
        self._incarnations[replica] = max(incarnation_count, self._incarnations.get(replica, 0))

    def check_not_ended(self, obj: HasMetadata) -> str | None:
        """Check that nothing is created after the end. A request sent before the end may still arrive."""
        pcs = self._tables.sets.get(_replica_of(obj)[:2])
        ended_at = None if pcs is None else self._ended_at.get(pcs.metadata.uid)
        if pcs is None or ended_at is None or ended_at >= self._staleness.since():
            return None
        return f"made although the set had {pcs.status.phase} at {ended_at:%H:%M:%S}"

    def check_created_pod(self, pod: Pod) -> str | None:
        replica, owner = _replica_of(pod), owner_uid(pod)
        if not is_training(self._tables.sets.get(replica[:2])):
            return None
        clique = self._tables.cliques.get(owner)
        if clique is not None and pod_index(pod) in clique.status.succeeded_indices:
            return f"index {pod_index(pod)} ended well and is run again"
        incarnation_count = count_of(pod.metadata.labels.get(labels.INCARNATION, ""))
        for other in self._pods_of(*replica[:2]):
            is_here = not other.metadata.is_terminating or self._clock.now() < gone_at(other)
            is_older = count_of(other.metadata.labels.get(labels.INCARNATION, "")) < incarnation_count
            if is_here and is_older and _replica_of(other) == replica:
                return f"made although {other.metadata.name} of an earlier attempt is still there"
        return self.check_not_ended(pod)

    def check_clique(self, before: PodClique, clique: PodClique) -> Iterator[str]:
        lost = frozenset(before.status.succeeded_indices) - frozenset(clique.status.succeeded_indices)
        if lost:
            yield f"indices {sorted(lost)} had ended well, and that is forgotten"
        reason = self._check_breach(clique) if before.status != clique.status else None
        if reason is not None:
            yield reason

    def _pods_of(self, namespace: str, name: str) -> Iterator[Pod]:
        """Yield all pods of a set, except those whose clique was deleted by another client."""
        for owner, siblings in self._tables.pods.items():
            clique = self._tables.cliques.get(owner)
            if clique is not None and self._is_left(clique):
                continue
            for pod in siblings.values():
                is_mine = (pod.metadata.namespace, pod.metadata.labels.get(labels.PART_OF)) == (namespace, name)
                if is_mine and pod.metadata.uid not in self._orphans:
                    yield pod

    def _is_left(self, clique: PodClique) -> bool:
        """Return whether its group was deleted: the garbage collector will delete the clique."""
        is_member = labels.GROUP in clique.metadata.labels
        return is_member and owner_uid(clique) not in self._tables.groups


def _replica_of(obj: HasMetadata) -> Replica:
    found = obj.metadata.labels
    index = found.get(labels.SET_REPLICA_INDEX, "")
    return obj.metadata.namespace, found.get(labels.PART_OF, ""), int(index) if index.isdecimal() else -1


def _delay(pcs: PodCliqueSet, clique: PodClique) -> timedelta:
    """Return the delay of its group, or else of the set; a training set without one has no delay."""
    index = _replica_of(clique)[2]
    group_name = clique.metadata.labels.get(labels.GROUP, "")
    for config in pcs.spec.template.pod_clique_scaling_groups:
        if config.termination_delay and names.group(pcs.metadata.name, index, config.name) == group_name:
            return parse_duration(config.termination_delay)
    return parse_duration(pcs.spec.template.termination_delay or "0s")
