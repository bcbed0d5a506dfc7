"""The safety rules of training: every restart is counted once and within the budget, the next attempt begins when the
last one is gone, what ended well does not run again, and after the end nothing does. Asked by `pods_and_gangs.py`.
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
from grove.planner.training.lifecycle import FINISHED, restarts_of
from grove.planner.views import pod_index
from grove.sim.invariants.rollout import Tables
from grove.sim.invariants.staleness import Lately, Sight, owner_uid

# Times on the wire are whole seconds.
_ROUNDING = timedelta(seconds=1)
# A replica of a set: its namespace, the set's name, its index.
Replica = tuple[str, str, int]


def is_training(pcs: PodCliqueSet | None) -> bool:
    return pcs is not None and pcs.spec.workload_type == WorkloadType.TRAINING


class TrainingRules:
    """Remembers the lives that were begun, and when sets came to their end."""

    def __init__(self, clock: Clock, sight: Sight, tables: Tables) -> None:
        self._clock = clock
        self._sight = sight
        self._tables = tables
        # How often a replica was recreated, by what was made of it.
        self._lives: dict[Replica, int] = {}
        self._ended_at: dict[Uid, datetime] = {}
        # Cliques that went, and pods that were left without one: whoever did that had no attempt in mind.
        self._clique_gone_at: dict[Replica, datetime] = {}
        # Indices that are ready, about to end well, or have.
        self._available: Lately[int] = Lately(clock, sight)
        self._orphans: dict[Uid, Pod] = {}

    # What happened

    def note_set(self, pcs: PodCliqueSet, *, is_gone: bool) -> None:
        if is_gone:
            key = (pcs.metadata.namespace, pcs.metadata.name)
            self._lives = {replica: count for replica, count in self._lives.items() if replica[:2] != key}
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
        """`holders`: the pods that carry the index. `is_done`: its clique's status says that it ended well."""
        staying = (pod for pod in holders if not pod.metadata.is_terminating)
        is_available = any(pod.is_ready or pod.is_succeeded or is_finishing(pod) for pod in staying)
        self._available.note(clique, index, is_done or is_available)

    # The rules

    def find_unreported_breaches(self) -> Iterator[tuple[PodClique, str]]:
        """Yield the cliques below their minimum whose condition does not say so. Ask only at rest."""
        for clique in self._tables.cliques.values():
            reason = self._breached_rightly(clique)
            if reason is not None:
                yield clique, reason

    def _breached_rightly(self, clique: PodClique) -> str | None:
        """spec/gang-termination.md, "PodClique Level Detection": available before and below the minimum is a breach.

        Of a training set pods that are about to end well, or did, count as available; those that start do not.
        """
        pcs = self._tables.sets.get(_replica_of(clique)[:2])
        is_judged = pcs is not None and is_training(pcs) and not pcs.metadata.is_terminating
        if not is_judged or clique.metadata.is_terminating or self._is_left(clique) or not clique.status.was_available:
            return None
        # An index whose success is recorded counts, also when its pod was deleted before that was written.
        available = {*self._available.members(clique.metadata.uid), *clique.status.succeeded_indices}
        count = len(available)
        told = find_condition(clique.status.conditions, "MinAvailableBreached")
        if count >= clique.min_available or (told is not None and told.status == "True"):
            return None
        words = f"{told.status}, {told.reason}: {told.message}" if told is not None else "nothing"
        return f"{count} of at least {clique.min_available} pods are available, and its condition says {words}"

    def set_rightly(self, before: PodCliqueSet, pcs: PodCliqueSet) -> Iterator[str]:
        if not is_training(pcs):
            return
        old, new = before.status, pcs.status
        if old.start_time is not None and new.start_time != old.start_time:
            yield f"startTime changed from {old.start_time} to {new.start_time}"
        if old.phase in FINISHED and new.phase != old.phase:
            yield f"phase went from {old.phase} to {new.phase}"
        yield from self._counted_rightly(before, pcs)
        if new.phase == SetPhase.FAILED and old.phase != SetPhase.FAILED:
            yield from self._failed_rightly(pcs)

    def _counted_rightly(self, before: PodCliqueSet, pcs: PodCliqueSet) -> Iterator[str]:
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
            lives = self._lives.get(replica, 0)
            if count != lives + 1:
                yield f"replica {index} was recreated {lives} times, and its restart is counted as number {count}"
            if not self._is_broken(pcs, replica):
                yield f"a restart of replica {index} is counted although nothing of it is in breach"

    def _is_broken(self, pcs: PodCliqueSet, replica: Replica) -> bool:
        gone_at = self._clique_gone_at.get(replica)
        if gone_at is not None and gone_at >= self._sight.since():
            return True
        now = self._clock.now()
        mine = [clique for clique in self._tables.cliques.values() if _replica_of(clique) == replica]
        for clique in mine:
            told = find_condition(clique.status.conditions, "MinAvailableBreached")
            since = told.last_transition_time if told is not None and told.status == "True" else None
            if since is not None and since + _delay(pcs, clique) <= now + _ROUNDING:
                return True
        # Somebody took a clique or its group away, however long ago: the operator may have been down, or held it.
        groups = pcs.spec.template.pod_clique_scaling_groups
        wanted = {names.group(replica[1], replica[2], group.name) for group in groups}
        here = {group.metadata.name for group in self._tables.groups.values() if _replica_of(group) == replica}
        return len(mine) < len(pcs.spec.template.cliques) or not wanted <= here

    def _failed_rightly(self, pcs: PodCliqueSet) -> Iterator[str]:
        told = find_condition(pcs.status.conditions, "Failed")
        if told is None or told.status != "True":
            yield "phase Failed without the condition that says why"
        for pod in self._pods_of(pcs.metadata.namespace, pcs.metadata.name):
            is_terminating = pod.metadata.is_terminating and self._clock.now() < gone_at(pod)
            if pod.is_active or is_terminating:
                yield f"phase Failed, and pod {pod.metadata.name} is still there"

    def gang_rightly(self, before: PodGang, gang: PodGang) -> Iterator[str]:
        """A life begins after it was counted."""
        known = {one.incarnation for one in read_record(before).open}
        for one in read_record(gang).open:
            if not one.group and one.incarnation not in known:
                yield from self._begins_rightly(gang, one.incarnation)

    def clique_made_rightly(self, clique: PodClique) -> str | None:
        found = next(self._begins_rightly(clique, clique.metadata.labels.get(labels.INCARNATION, "")), None)
        return found or self.made_before_the_end(clique)

    def _begins_rightly(self, obj: HasMetadata, incarnation: str) -> Iterator[str]:
        replica, life = _replica_of(obj), count_of(incarnation)
        pcs = self._tables.sets.get(replica[:2])
        if pcs is None or not is_training(pcs) or not life:
            return
        counted = restarts_of(pcs.status).get(replica[2], 0)
        if life > counted:
            yield f"life {incarnation} begins, and only {counted} restarts of its replica are counted"
        self._lives[replica] = max(life, self._lives.get(replica, 0))

    def made_before_the_end(self, obj: HasMetadata) -> str | None:
        """A request that was on its way when the end was written may still arrive."""
        pcs = self._tables.sets.get(_replica_of(obj)[:2])
        ended_at = None if pcs is None else self._ended_at.get(pcs.metadata.uid)
        if pcs is None or ended_at is None or ended_at >= self._sight.since():
            return None
        return f"made although the set had {pcs.status.phase} at {ended_at:%H:%M:%S}"

    def pod_made_rightly(self, pod: Pod) -> str | None:
        replica, owner = _replica_of(pod), owner_uid(pod)
        if not is_training(self._tables.sets.get(replica[:2])):
            return None
        clique = self._tables.cliques.get(owner)
        if clique is not None and pod_index(pod) in clique.status.succeeded_indices:
            return f"index {pod_index(pod)} ended well and is run again"
        life = count_of(pod.metadata.labels.get(labels.INCARNATION, ""))
        for other in self._pods_of(*replica[:2]):
            is_here = not other.metadata.is_terminating or self._clock.now() < gone_at(other)
            is_older = count_of(other.metadata.labels.get(labels.INCARNATION, "")) < life
            if is_here and is_older and _replica_of(other) == replica:
                return f"made although {other.metadata.name} of an earlier attempt is still there"
        return self.made_before_the_end(pod)

    def clique_rightly(self, before: PodClique, clique: PodClique) -> Iterator[str]:
        lost = frozenset(before.status.succeeded_indices) - frozenset(clique.status.succeeded_indices)
        if lost:
            yield f"indices {sorted(lost)} had ended well, and that is forgotten"
        reason = self._breached_rightly(clique) if before.status != clique.status else None
        if reason is not None:
            yield reason

    def _pods_of(self, namespace: str, name: str) -> Iterator[Pod]:
        """All pods of a set; not those that were left when somebody deleted their clique under them."""
        for owner, siblings in self._tables.pods.items():
            clique = self._tables.cliques.get(owner)
            if clique is not None and self._is_left(clique):
                continue
            for pod in siblings.values():
                is_mine = (pod.metadata.namespace, pod.metadata.labels.get(labels.PART_OF)) == (namespace, name)
                if is_mine and pod.metadata.uid not in self._orphans:
                    yield pod

    def _is_left(self, clique: PodClique) -> bool:
        """Somebody deleted its group: the garbage collector is about to take it."""
        is_member = labels.GROUP in clique.metadata.labels
        return is_member and owner_uid(clique) not in self._tables.groups


def _replica_of(obj: HasMetadata) -> Replica:
    found = obj.metadata.labels
    index = found.get(labels.SET_REPLICA_INDEX, "")
    return obj.metadata.namespace, found.get(labels.PART_OF, ""), int(index) if index.isdecimal() else -1


def _delay(pcs: PodCliqueSet, clique: PodClique) -> timedelta:
    """Its group's own, or that of the set; a training set without one acts at once."""
    index = _replica_of(clique)[2]
    group_name = clique.metadata.labels.get(labels.GROUP, "")
    for config in pcs.spec.template.pod_clique_scaling_groups:
        if config.termination_delay and names.group(pcs.metadata.name, index, config.name) == group_name:
            return parse_duration(config.termination_delay)
    return parse_duration(pcs.spec.template.termination_delay or "0s")
