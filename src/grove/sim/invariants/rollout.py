"""Invariants of rolling updates: how many ready units an update takes, which units, in which order, and when it ends.

An update takes a ready unit only while enough units are ready and the last one was replaced, only in the replica that
is updated now, and only if its template changed. The status reports nothing as updated that is not.

`pods_and_gangs.py` checks these rules at every write that could break one; each returns why it is broken. They compare
the writes of the operator with what it could know then: its own writes at once, those of other clients with a delay
(`staleness.py`). `gang_termination.py` has the rules of teardown and recreation.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import msgspec

from grove.api import labels, names
from grove.api.template_revision import Revision, RevisionTemplate, makes_same_pods
from grove.api.types.meta import HasMetadata, Uid, is_condition_true
from grove.api.types.pod import Pod
from grove.api.types.podclique import CliqueRollingUpdateProgress, PodClique
from grove.api.types.podcliquescalinggroup import GroupRollingUpdateProgress, PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet, SetRollingUpdateProgress, SetTemplate, UpdateType
from grove.api.types.podgang import PodGang
from grove.clock import Clock
from grove.planner.teardown.recreation import Recreation, read_record
from grove.sim.invariants.staleness import Lately, RecentValues, Staleness, owner_uid

Progress = SetRollingUpdateProgress | GroupRollingUpdateProgress | CliqueRollingUpdateProgress | None
Key = tuple[str, str]


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """The current objects of the store, shared with `Invariants`."""

    pods: Mapping[Uid, Mapping[Uid, Pod]]
    cliques: Mapping[Uid, PodClique]
    groups: Mapping[Uid, PodCliqueScalingGroup]
    sets: Mapping[Key, PodCliqueSet]
    gangs: Mapping[Key, PodGang]


class RolloutRules:
    """The rules, with a record of what was ready, requested and deleted recently."""

    def __init__(
        self, clock: Clock, staleness: Staleness, tables: Tables, is_gang_scheduled: Callable[[str, str], bool]
    ) -> None:
        self._clock = clock
        self._staleness = staleness
        self._tables = tables
        self._is_gang_scheduled = is_gang_scheduled
        self._revisions: dict[Uid, Revision] = {}
        # All revisions that could ever be decoded.
        self._readable: set[Uid] = set()
        self._ready: Lately[Uid] = Lately(clock, staleness)
        self._ready_since: dict[Uid, datetime] = {}
        # The last state of pods before they were terminating.
        self._alive: dict[Uid, Pod] = {}
        self._gone: deque[tuple[datetime, Uid]] = deque()
        # Deleted groups, and when: the operator may not know it yet.
        self._gone_groups: list[tuple[datetime, PodCliqueScalingGroup]] = []
        self._counts: RecentValues[int] = RecentValues(clock, staleness)
        self._strategies: RecentValues[str] = RecentValues(clock, staleness)
        self._templates: RecentValues[SetTemplate] = RecentValues(clock, staleness)
        # Uids of the pods that updates selected, by clique.
        self._taken: dict[Uid, dict[Uid, None]] = {}
        # The last pod of a clique, and the last replica of a group, that an update took and that is not replaced yet.
        self._owed_pods: dict[Uid, Uid] = {}
        self._owed_replicas: dict[Uid, int] = {}
        # Group replicas that lost a clique, and when: the operator may not know it yet.
        self._disturbed_at: dict[tuple[Key, str], datetime] = {}

    # Changes of the store

    def note_revision(self, revision: Revision, *, is_gone: bool) -> None:
        uid = revision.object.metadata.uid
        self._readable.add(uid)
        if is_gone:
            self._revisions.pop(uid, None)
        else:
            self._revisions[uid] = revision

    def note_set(self, pcs: PodCliqueSet) -> None:
        strategy = pcs.spec.update_strategy.type if pcs.spec.update_strategy else UpdateType.ROLLING_RECREATE
        self._strategies.note(pcs.metadata.uid, str(strategy))
        self._counts.note(pcs.metadata.uid, pcs.spec.replicas)
        self._templates.note(pcs.metadata.uid, pcs.spec.template)

    def note_group(self, group: PodCliqueScalingGroup, *, is_gone: bool) -> None:
        self._counts.note(group.metadata.uid, group.spec.replicas)
        if is_gone:
            self._gone_groups.append((self._clock.now(), group))

    def note_clique(self, clique: PodClique, *, is_gone: bool) -> None:
        if not is_gone:
            self._counts.note(clique.metadata.uid, clique.spec.replicas)
        elif labels.GROUP in clique.metadata.labels:
            at = (_key(clique, labels.GROUP), clique.metadata.labels.get(labels.GROUP_REPLICA_INDEX, ""))
            self._disturbed_at[at] = self._clock.now()

    def note_pod(self, clique: Uid, pod: Pod, *, is_gone: bool) -> None:
        uid = pod.metadata.uid
        is_ready = pod.is_ready and not is_gone
        self._ready.note(clique, uid, is_ready)
        if is_ready:
            if uid not in self._ready_since:
                self._make_up(clique, pod)
            self._ready_since.setdefault(uid, self._clock.now())
        elif not pod.metadata.is_terminating and not is_gone:
            self._ready_since.pop(uid, None)
        if not pod.metadata.is_terminating:
            self._alive[uid] = pod
        if is_gone:
            self._gone.append((self._clock.now(), uid))
            self._forget()

    def _make_up(self, owner: Uid, pod: Pod) -> None:
        """Record that a pod became ready: its clique or group may now have its minimum again."""
        clique = self._tables.cliques.get(owner)
        pcs = self.set_of(clique) if clique is not None else None
        group = owner_uid(clique) if clique is not None else None
        if clique is None or pcs is None or not (owner in self._owed_pods or group in self._owed_replicas):
            return
        if not any(self._runs(pcs, clique, hashes, pod) for hashes in self._newest(pcs)):
            return
        self._owed_pods.pop(owner, None)
        index = _group_index_of(clique.metadata.labels)
        others = [c for c in self.members(_key(clique, labels.GROUP), index) if c is not clique]
        is_whole = all(self._was_available_lately(c) for c in (clique, *others))
        if group is not None and is_whole:
            self._owed_replicas.pop(group, None)

    def _forget(self) -> None:
        while self._gone and self._gone[0][0] < self._staleness.since():
            _, uid = self._gone.popleft()
            self._alive.pop(uid, None)
            self._ready_since.pop(uid, None)

    # The rules: a clique

    def check_clique(self, before: PodClique, clique: PodClique) -> Iterator[str]:
        was, now = before.status.rolling_update_progress, clique.status.rolling_update_progress
        if is_open(was) and is_open(now):
            if not _is_breached(before) and _is_breached(clique):
                yield "is called breached while it is updated"
            if not before.status.was_available and clique.status.was_available:
                yield "wasAvailable was written during an update"
        pcs = self.set_of(clique)
        if pcs is None:
            return
        taken_before = was.ready_pods_selected_to_update if was else None
        taken = now.ready_pods_selected_to_update if now else None
        if taken is not None and (taken_before is None or taken_before.current != taken.current):
            yield from self._check_selected_pod(pcs, clique, taken.current)
        if not is_open(now):
            self._owed_pods.pop(clique.metadata.uid, None)
        if is_open(was) and now is not None and now.update_ended_at is not None:
            yield from self._check_clique_end(pcs, clique)

    def _check_selected_pod(self, pcs: PodCliqueSet, clique: PodClique, current: str) -> Iterator[str]:
        yield from self._check_turn(pcs, clique.metadata.labels)
        if labels.GROUP in clique.metadata.labels:
            yield f"takes pod {current}, although its group replica is replaced as a whole"
        uid = clique.metadata.uid
        present = self._tables.pods.get(uid, {})
        chosen = next((pod for pod in present.values() if pod.metadata.name == current), None)
        if chosen is not None and self.is_newest(pcs, clique, chosen):
            yield f"takes pod {current}, which runs the newest template"
        taken = self._taken.setdefault(uid, {})
        # The operator knows at once which pods its update deleted; it learns of others later.
        known_down = {one for one in taken if one not in present or not present[one].is_active}
        ready = [one for one in self._ready.members(uid) if one not in known_down]
        if len(ready) < clique.min_available:
            yield f"takes pod {current} while {len(ready)} of at least {clique.min_available} are ready"
        owed = self._owed_pods.get(uid)
        # A clique that was scaled in meanwhile may have all its pods.
        is_short = len(ready) < min(self._counts.recent(uid), default=0)
        if owed in known_down and is_short:
            yield f"takes pod {current}, although the pod that was taken before has no replacement yet"
        if chosen is not None:
            taken[chosen.metadata.uid] = None
            self._owed_pods[uid] = chosen.metadata.uid

    def _check_clique_end(self, pcs: PodCliqueSet, clique: PodClique) -> Iterator[str]:
        if self.may_be_on_delete(pcs) or labels.GROUP in clique.metadata.labels:
            return
        old = [
            pod.metadata.name
            for pod in self._tables.pods.get(clique.metadata.uid, {}).values()
            if pod.is_active and not any(self._runs(pcs, clique, hashes, pod) for hashes in self._newest(pcs))
        ]
        if old and not self._was_overtaken(pcs, clique):
            yield f"its update is called ended, but pod {old[0]} runs an older template"

    def _was_overtaken(self, pcs: PodCliqueSet, clique: PodClique) -> bool:
        """Return whether another change ended the update of its replica; units that were updated still count."""
        own = clique.metadata.labels.get(labels.TEMPLATE_HASH)
        pods = self._tables.pods.get(clique.metadata.uid, {}).values()
        has_arrived = all(pod.metadata.labels.get(labels.TEMPLATE_HASH) == own for pod in pods if pod.is_active)
        return has_arrived and current_replica_index(pcs) != index_of(clique.metadata.labels)

    # The rules: a group

    def check_group(self, before: PodCliqueScalingGroup, group: PodCliqueScalingGroup) -> Iterator[str]:
        was, now = before.status.rolling_update_progress, group.status.rolling_update_progress
        if is_open(was) and is_open(now) and not _is_breached(before) and _is_breached(group):
            yield "is called breached while it is updated"
        pcs = self.set_of(group)
        taken_before = was.ready_replica_indices_selected_to_update if was else None
        taken = now.ready_replica_indices_selected_to_update if now else None
        is_new = taken is not None and (taken_before is None or taken_before.current != taken.current)
        if pcs is not None and taken is not None and is_new:
            yield from self._check_selected_replica(pcs, group, taken.current)
        if not is_open(now):
            self._owed_replicas.pop(group.metadata.uid, None)

    def _check_selected_replica(self, pcs: PodCliqueSet, group: PodCliqueScalingGroup, current: int) -> Iterator[str]:
        yield from self._check_turn(pcs, group.metadata.labels)
        base = names.replica_name(pcs.metadata.name, index_of(group.metadata.labels))
        if current >= group.spec.min_available and not self._is_gang_scheduled(group.metadata.namespace, base):
            yield f"takes scaled replica {current} while base gang {base} is not scheduled"
        key = (group.metadata.namespace, group.metadata.name)
        wanted = self._counts.recent(group.metadata.uid)
        indices = range(max(wanted, default=0))
        owed = self._owed_replicas.get(group.metadata.uid)
        self._owed_replicas[group.metadata.uid] = current
        since = self._staleness.since()
        if any(self._disturbed_at.get((key, str(j)), since) > since for j in indices if j not in (current, owed)):
            return
        members = {j: self.members(key, j) for j in indices}
        available = [j for j in indices if members[j] and all(map(self._was_available_lately, members[j]))]
        if len(available) < group.spec.min_available:
            found = f"{len(available)} of at least {group.spec.min_available}"
            yield f"takes replica {current} while {found} are available"
        is_short = len(available) < min(wanted, default=0)
        if owed is not None and owed not in available and is_short:
            yield f"takes replica {current}, although replica {owed}, taken before, has no replacement yet"

    def check_recreated(self, before: PodGang, gang: PodGang) -> Iterator[str]:
        """Check that the update may replace every recorded replica of a group that is being updated."""
        pcs = self.set_above(gang)
        known = {(one.key, one.incarnation) for one in read_record(before).open}
        for one in read_record(gang).open:
            group = self.rolling_group(gang.metadata.namespace, one)
            if pcs is None or group is None or (one.key, one.incarnation) in known:
                continue
            yield from self._check_turn(pcs, gang.metadata.labels)
            key = (group.metadata.namespace, group.metadata.name)
            members = self.members(key, one.index)
            # A replica that lost a clique is neither up to date nor available.
            is_whole = len(members) == len(group.spec.clique_names)
            is_newest = all(self._runs_wholly(pcs, c, hashes) for c in members for hashes in self._newest(pcs))
            if is_whole and is_newest:
                yield f"replaces {one.key}, which runs the newest templates"
            taken = group.status.rolling_update_progress
            selected = taken.ready_replica_indices_selected_to_update if taken else None
            is_selected = selected is not None and selected.current == one.index
            if is_whole and all(map(self.is_long_available, members)) and not is_selected:
                yield f"replaces {one.key}, which is available, without having selected it"

    def rolling_group(self, namespace: str, unit: Recreation) -> PodCliqueScalingGroup | None:
        """Return the group of this unit if it is being updated: then the unit is deleted because of the update.

        None if the group was scaled to zero: then the unit is deleted in any case.
        """
        return None if self.is_at_zero(namespace, unit) else self._rolling_group(namespace, unit)

    def is_at_zero(self, namespace: str, unit: Recreation) -> bool:
        """Return whether its group has, or recently had, zero replicas."""
        groups = (*self._tables.groups.values(), *(group for _, group in self._gone_groups))
        mine = (g for g in groups if (g.metadata.namespace, g.metadata.name) == (namespace, unit.group))
        return any(0 in self._counts.recent(group.metadata.uid) for group in mine)

    def _rolling_group(self, namespace: str, unit: Recreation) -> PodCliqueScalingGroup | None:
        since = self._staleness.since()
        self._gone_groups = [(at, group) for at, group in self._gone_groups if at >= since]
        for group in (*self._tables.groups.values(), *(group for _, group in self._gone_groups)):
            is_its_group = (group.metadata.namespace, group.metadata.name) == (namespace, unit.group)
            if is_its_group and is_open(group.status.rolling_update_progress):
                return group
        return None

    # The rules: a set

    def check_set(self, before: PodCliqueSet, pcs: PodCliqueSet) -> Iterator[str]:
        """Check a status only if the operator had read the current spec: otherwise it describes an older one."""
        reported = self._revision(pcs, pcs.status.current_generation_hash or "")
        is_seen = reported is not None and makes_same_pods(pcs.spec.template, reported)
        is_rolling = pcs.spec.update_strategy is None or pcs.spec.update_strategy.type != UpdateType.ON_DELETE
        if not is_seen or not is_rolling or pcs.metadata.is_terminating or before.status == pcs.status:
            return
        turn_before, turn = current_replica_index(before), current_replica_index(pcs)
        if turn_before is not None and turn != turn_before:
            old = next(self._old_pods(pcs, lambda index: index == turn_before), None)
            if old is not None:
                yield f"replica {turn_before} is called done, but pod {old} runs an older template"
        progress = pcs.status.rolling_update_progress
        if progress is not None and progress.update_ended_at is not None:
            old = next(self._old_pods(pcs, lambda _: True), None)
            if old is not None:
                yield f"the update is called done, but pod {old} runs an older template"

    def _old_pods(self, pcs: PodCliqueSet, is_asked: Callable[[int], bool]) -> Iterator[str]:
        """Yield live pods of desired units that do not run the revision that the status calls the newest."""
        revision = self._revision(pcs, pcs.status.current_generation_hash or "")
        wanted = min(self._counts.recent(pcs.metadata.uid), default=0)
        if revision is None:
            return
        for clique in self._tables.cliques.values():
            index = index_of(clique.metadata.labels)
            if clique.metadata.is_terminating or self.set_of(clique) is not pcs:
                continue
            if index >= wanted or not is_asked(index) or self._is_unwanted(clique):
                continue
            for pod in self._tables.pods.get(clique.metadata.uid, {}).values():
                if pod.is_active and not self._runs(pcs, clique, revision.hashes, pod):
                    yield pod.metadata.name

    def _is_unwanted(self, clique: PodClique) -> bool:
        """Return whether it is deleted anyway: its gang is marked, or its group was scaled in."""
        found = clique.metadata.labels
        gang = self._tables.gangs.get((clique.metadata.namespace, found.get(labels.PODGANG, "")))
        if gang is not None and (labels.TEARDOWN in gang.metadata.annotations or gang.metadata.is_terminating):
            return True
        if labels.GROUP not in found:
            return False
        return _group_index_of(found) >= min(self._counts.recent(owner_uid(clique)), default=0)

    # The rules: pods and revisions

    def check_created_pod(self, pod: Pod) -> str | None:
        """Check that a new pod has the revision of its replica, unless the replica is updated now."""
        clique = self._tables.cliques.get(owner_uid(pod))
        pcs = self.set_of(clique) if clique is not None else None
        if clique is None or pcs is None or self.may_be_on_delete(pcs):
            return None
        index = index_of(pod.metadata.labels)
        base = self._tables.gangs.get((pod.metadata.namespace, names.replica_name(pcs.metadata.name, index)))
        recorded_hash = base.metadata.labels.get(labels.GENERATION_HASH, "") if base else ""
        running = self._revision(pcs, recorded_hash)
        if running is None or current_replica_index(pcs) == index or self._runs(pcs, clique, running.hashes, pod):
            return None
        return f"made from template {_hash(pod)}, but its replica runs revision {recorded_hash} and it is not its turn"

    def check_deleted_pod(self, name: Key, uid: Uid) -> str | None:
        """Check that a ready, desired and referenced pod is deleted alone only if the update selected it.

        It may also be deleted together with its whole unit, one pod at a time, if foreign objects have the same labels.
        """
        pod = self._alive.get(uid)
        since = self._ready_since.get(uid)
        if pod is None or not pod.is_ready or since is None or since >= self._staleness.since():
            return None
        clique = self._tables.cliques.get(owner_uid(pod))
        gang = self._tables.gangs.get((name[0], pod.metadata.labels.get(labels.PODGANG, "")))
        referenced = [r.name for group in gang.spec.podgroups for r in group.pod_references] if gang else []
        pcs = self.set_of(clique) if clique is not None else None
        if clique is None or pcs is None or pod.metadata.name not in referenced or self._is_torn_down(pcs, pod):
            return None
        if index_of(pod.metadata.labels) >= self.least_wanted(pcs.metadata.uid):
            # The set was scaled in. If a user deleted the base gang, there was no gang to record it on.
            return None
        others = sum(one.is_active for one in self._tables.pods.get(clique.metadata.uid, {}).values())
        is_surplus = others >= min(self._counts.recent(clique.metadata.uid), default=0)
        if is_surplus or uid in self._taken.get(clique.metadata.uid, {}):
            return None
        return "deletes a ready pod that is wanted, that its gang names and that no update selected"

    def _is_torn_down(self, pcs: PodCliqueSet, pod: Pod) -> bool:
        """Return whether the teardown of its whole unit was recorded, or the whole set has failed."""
        found = pod.metadata.labels
        base = names.replica_name(pcs.metadata.name, index_of(found))
        recorded = (
            self._tables.gangs.get((pod.metadata.namespace, name)) for name in (found.get(labels.PODGANG, ""), base)
        )
        gangs = [gang for gang in recorded if gang is not None]
        incarnation = found.get(labels.INCARNATION, "")
        is_old = any(not one.is_new(incarnation) for gang in gangs for one in read_record(gang).open)
        is_marked = any(labels.TEARDOWN in gang.metadata.annotations for gang in gangs)
        return is_old or is_marked or is_condition_true(pcs.status.conditions, "Failed")

    def check_deleted_revision(self, name: Key, uid: Uid) -> str | None:
        """Check that no replica runs a deleted revision."""
        if uid not in self._readable:
            return None
        for gang in self._tables.gangs.values():
            recorded_hash = gang.metadata.labels.get(labels.GENERATION_HASH)
            if recorded_hash is None or labels.BASE_PODGANG in gang.metadata.labels or gang.metadata.is_terminating:
                continue
            pcs = self.set_above(gang)
            if pcs is not None and (gang.metadata.namespace, names.revision(pcs.metadata.name, recorded_hash)) == name:
                return f"given up, although replica {gang.metadata.name} runs it"
        return None

    # Queries of other rules

    def alive(self, uid: Uid) -> Pod | None:
        """Return the pod as it was before its deletion began."""
        return self._alive.get(uid)

    def least_wanted(self, uid: Uid) -> int:
        """Return the smallest recent number of units of a set, group or clique."""
        return min(self._counts.recent(uid), default=0)

    def is_disturbed(self, group: Key, index: int) -> bool:
        """Return whether a clique of this group replica was deleted so recently that the operator may not know it."""
        at = self._disturbed_at.get((group, str(index)))
        return at is not None and at >= self._staleness.since()

    def most_wanted(self, uid: Uid) -> int:
        """Return the largest recent number of units of a set, group or clique."""
        return max(self._counts.recent(uid), default=0)

    def revisions_of(self, pcs: PodCliqueSet) -> list[Revision]:
        return [r for r in self._revisions.values() if owner_uid(r.object) == pcs.metadata.uid]

    # Queries

    def _check_turn(self, pcs: PodCliqueSet, found: Mapping[str, str]) -> Iterator[str]:
        if current_replica_index(pcs) != index_of(found):
            yield f"is updated, but it is the turn of replica {current_replica_index(pcs)}"
        if frozenset(self._strategies.recent(pcs.metadata.uid)) == {str(UpdateType.ON_DELETE)}:
            yield "is updated, although the set updates on delete only"

    def may_be_on_delete(self, pcs: PodCliqueSet) -> bool:
        return str(UpdateType.ON_DELETE) in self._strategies.recent(pcs.metadata.uid)

    def _newest(self, pcs: PodCliqueSet) -> list[dict[str, str]]:
        """Return the template hashes that the operator may take for the newest.

        These are the hashes of the current and recent specs, of the last revision, and of the revision in the status.
        """
        mine = self.revisions_of(pcs)
        recorded_hash = pcs.status.current_generation_hash
        highest = max((r.number for r in mine), default=0)
        requested = self._templates.recent(pcs.metadata.uid)
        return [
            r.template.hashes
            for r in mine
            if r.number == highest
            or r.generation_hash == recorded_hash
            or any(makes_same_pods(template, r.template) for template in requested)
        ]

    def _revision(self, pcs: PodCliqueSet, generation_hash: str) -> RevisionTemplate | None:
        for revision in self._revisions.values():
            is_mine = owner_uid(revision.object) == pcs.metadata.uid
            if is_mine and revision.generation_hash == generation_hash:
                return revision.template
        return None

    def set_of(self, obj: PodClique | PodCliqueScalingGroup) -> PodCliqueSet | None:
        """Return the set that owns the object, by uid; None if the set is terminating."""
        owner = owner_uid(obj)
        group = self._tables.groups.get(owner)
        top = owner_uid(group) if group is not None else owner
        pcs = self._tables.sets.get(_key(obj, labels.PART_OF))
        return pcs if pcs is not None and pcs.metadata.uid == top and not pcs.metadata.is_terminating else None

    def set_above(self, gang: PodGang) -> PodCliqueSet | None:
        pcs = self._tables.sets.get(_key(gang, labels.PART_OF))
        is_mine = pcs is not None and pcs.metadata.uid == owner_uid(gang)
        return pcs if pcs is not None and is_mine and not pcs.metadata.is_terminating else None

    def members(self, group: Key, index: int) -> list[PodClique]:
        return [
            clique
            for clique in self._tables.cliques.values()
            if not clique.metadata.is_terminating
            and _key(clique, labels.GROUP) == group
            and clique.metadata.labels.get(labels.GROUP_REPLICA_INDEX) == str(index)
        ]

    def _runs(self, pcs: PodCliqueSet, clique: PodClique, hashes: Mapping[str, str], pod: Pod | None = None) -> bool:
        """Return whether the clique, or one pod of it, has these templates. Unknown cliques are not checked."""
        wanted = hashes.get(template_of(pcs, clique))
        found = (pod or clique).metadata.labels.get(labels.TEMPLATE_HASH)
        return wanted is None or found == wanted

    def is_newest(self, pcs: PodCliqueSet, clique: PodClique, pod: Pod) -> bool:
        """Return whether the pod is up to date, whichever of its possible newest templates the operator has seen."""
        newest = self._newest(pcs)
        return bool(newest) and all(self._runs(pcs, clique, hashes, pod) for hashes in newest)

    def _runs_wholly(self, pcs: PodCliqueSet, clique: PodClique, hashes: Mapping[str, str]) -> bool:
        pods = self._tables.pods.get(clique.metadata.uid, {}).values()
        is_old = any(pod.is_active and not self._runs(pcs, clique, hashes, pod) for pod in pods)
        return self._runs(pcs, clique, hashes) and not is_old

    def _was_available_lately(self, clique: PodClique) -> bool:
        return self._ready.count(clique.metadata.uid) >= min(clique.min_available, clique.spec.replicas)

    def is_long_available(self, clique: PodClique) -> bool:
        since = self._staleness.since()
        pods = self._tables.pods.get(clique.metadata.uid, {})
        long_ready = sum(pod.is_ready and self._ready_since.get(uid, since) < since for uid, pod in pods.items())
        return long_ready >= min(clique.min_available, clique.spec.replicas)


def is_open(progress: Progress) -> bool:
    return progress is not None and progress.update_ended_at is None


def current_replica_index(pcs: PodCliqueSet) -> int | None:
    progress = pcs.status.rolling_update_progress
    return progress.currently_updating.replica_index if progress and progress.currently_updating else None


def template_of(pcs: PodCliqueSet, clique: PodClique) -> str:
    """Return the name of the clique template of this clique, by its full name; "" if the set has none."""
    found = clique.metadata.labels
    group = found.get(labels.GROUP)
    for template in pcs.spec.template.cliques:
        name = (
            names.standalone_clique(pcs.metadata.name, index_of(found), template.name)
            if group is None
            else names.member_clique(group, _group_index_of(found), template.name)
        )
        if name == clique.metadata.name:
            return template.name
    return ""


def _is_breached(obj: PodClique | PodCliqueScalingGroup) -> bool:
    return is_condition_true(obj.status.conditions, "MinAvailableBreached")


def _hash(pod: Pod) -> str:
    return pod.metadata.labels.get(labels.TEMPLATE_HASH, "")


def _key(obj: HasMetadata, label: str) -> Key:
    return obj.metadata.namespace, obj.metadata.labels.get(label, "")


def index_of(found: Mapping[str, str]) -> int:
    value = found.get(labels.SET_REPLICA_INDEX, "")
    return int(value) if value.isdecimal() else -1


def _group_index_of(found: Mapping[str, str]) -> int:
    value = found.get(labels.GROUP_REPLICA_INDEX, "")
    return int(value) if value.isdecimal() else -1
