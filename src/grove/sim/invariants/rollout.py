"""The safety rules of rolling updates: a ready unit is taken only while enough are ready and after the one before it
was replaced, only where it is the turn, only when its template changed; and nothing is called done that is not.

Asked by `pods_and_gangs.py` at every write that could break one; each answers with the reason it is broken. They
judge what
the operator wrote about its own decisions by what it could know then: its own writes always, the acts of others with a
moment's delay (`staleness.py`). How units are torn down and come back is judged in `gang_termination.py`.
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
from grove.sim.invariants.staleness import Lately, RecentValues, Sight, owner_uid

Progress = SetRollingUpdateProgress | GroupRollingUpdateProgress | CliqueRollingUpdateProgress | None
Key = tuple[str, str]


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """What `Invariants` knows of the store, always as it is now."""

    pods: Mapping[Uid, Mapping[Uid, Pod]]
    cliques: Mapping[Uid, PodClique]
    groups: Mapping[Uid, PodCliqueScalingGroup]
    sets: Mapping[Key, PodCliqueSet]
    gangs: Mapping[Key, PodGang]


class RolloutRules:
    """Remembers what was ready, asked for and gone a moment ago."""

    def __init__(
        self, clock: Clock, sight: Sight, tables: Tables, is_gang_scheduled: Callable[[str, str], bool]
    ) -> None:
        self._clock = clock
        self._sight = sight
        self._tables = tables
        self._is_gang_scheduled = is_gang_scheduled
        self._revisions: dict[Uid, Revision] = {}
        # All that ever could be read; of a damaged one nothing is lost.
        self._readable: set[Uid] = set()
        self._ready: Lately[Uid] = Lately(clock, sight)
        self._ready_since: dict[Uid, datetime] = {}
        # Pods as they were last before they began to leave.
        self._alive: dict[Uid, Pod] = {}
        self._gone: deque[tuple[datetime, Uid]] = deque()
        # Groups that somebody deleted, and when: the operator may not know.
        self._gone_groups: list[tuple[datetime, PodCliqueScalingGroup]] = []
        self._counts: RecentValues[int] = RecentValues(clock, sight)
        self._strategies: RecentValues[str] = RecentValues(clock, sight)
        self._templates: RecentValues[SetTemplate] = RecentValues(clock, sight)
        # Pods that updates selected, by clique: by uid, since a name may come back.
        self._taken: dict[Uid, dict[Uid, None]] = {}
        # The last pod of a clique, and the last replica of a group, that an update took and that nothing made up for.
        self._owed_pods: dict[Uid, Uid] = {}
        self._owed_replicas: dict[Uid, int] = {}
        # Group replicas of which a clique vanished, and when: whoever took it, the operator may not know.
        self._disturbed_at: dict[tuple[Key, str], datetime] = {}

    # What happened

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
        """A pod became ready: with it what its clique or group owes may be made up for."""
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
        while self._gone and self._gone[0][0] < self._sight.since():
            _, uid = self._gone.popleft()
            self._alive.pop(uid, None)
            self._ready_since.pop(uid, None)

    # The rules: a clique

    def clique_rightly(self, before: PodClique, clique: PodClique) -> Iterator[str]:
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
            yield from self._takes_a_pod_rightly(pcs, clique, taken.current)
        if not is_open(now):
            self._owed_pods.pop(clique.metadata.uid, None)
        if is_open(was) and now is not None and now.update_ended_at is not None:
            yield from self._clique_ends_rightly(pcs, clique)

    def _takes_a_pod_rightly(self, pcs: PodCliqueSet, clique: PodClique, current: str) -> Iterator[str]:
        yield from self._in_its_turn(pcs, clique.metadata.labels)
        if labels.GROUP in clique.metadata.labels:
            yield f"takes pod {current}, although its group replica is replaced as a whole"
        uid = clique.metadata.uid
        present = self._tables.pods.get(uid, {})
        chosen = next((pod for pod in present.values() if pod.metadata.name == current), None)
        if chosen is not None and self.is_newest(pcs, clique, chosen):
            yield f"takes pod {current}, which runs the newest template"
        taken = self._taken.setdefault(uid, {})
        # A pod that the update took itself is known to be down at once; of others the operator hears later.
        known_down = {one for one in taken if one not in present or not present[one].is_active}
        ready = [one for one in self._ready.members(uid) if one not in known_down]
        if len(ready) < clique.min_available:
            yield f"takes pod {current} while {len(ready)} of at least {clique.min_available} are ready"
        owed = self._owed_pods.get(uid)
        # A clique that was scaled in meanwhile may have all that it wants.
        is_short = len(ready) < min(self._counts.recent(uid), default=0)
        if owed in known_down and is_short:
            yield f"takes pod {current}, although nothing made up for the pod that was taken before"
        if chosen is not None:
            taken[chosen.metadata.uid] = None
            self._owed_pods[uid] = chosen.metadata.uid

    def _clique_ends_rightly(self, pcs: PodCliqueSet, clique: PodClique) -> Iterator[str]:
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
        """Another change took the turn from its replica; what arrived where it was going has ended all the same."""
        own = clique.metadata.labels.get(labels.TEMPLATE_HASH)
        pods = self._tables.pods.get(clique.metadata.uid, {}).values()
        has_arrived = all(pod.metadata.labels.get(labels.TEMPLATE_HASH) == own for pod in pods if pod.is_active)
        return has_arrived and turn_of(pcs) != index_of(clique.metadata.labels)

    # The rules: a group

    def group_rightly(self, before: PodCliqueScalingGroup, group: PodCliqueScalingGroup) -> Iterator[str]:
        was, now = before.status.rolling_update_progress, group.status.rolling_update_progress
        if is_open(was) and is_open(now) and not _is_breached(before) and _is_breached(group):
            yield "is called breached while it is updated"
        pcs = self.set_of(group)
        taken_before = was.ready_replica_indices_selected_to_update if was else None
        taken = now.ready_replica_indices_selected_to_update if now else None
        is_new = taken is not None and (taken_before is None or taken_before.current != taken.current)
        if pcs is not None and taken is not None and is_new:
            yield from self._takes_a_replica_rightly(pcs, group, taken.current)
        if not is_open(now):
            self._owed_replicas.pop(group.metadata.uid, None)

    def _takes_a_replica_rightly(self, pcs: PodCliqueSet, group: PodCliqueScalingGroup, current: int) -> Iterator[str]:
        yield from self._in_its_turn(pcs, group.metadata.labels)
        base = names.replica_name(pcs.metadata.name, index_of(group.metadata.labels))
        if current >= group.spec.min_available and not self._is_gang_scheduled(group.metadata.namespace, base):
            yield f"takes scaled replica {current} while base gang {base} is not scheduled"
        key = (group.metadata.namespace, group.metadata.name)
        wanted = self._counts.recent(group.metadata.uid)
        indices = range(max(wanted, default=0))
        owed = self._owed_replicas.get(group.metadata.uid)
        self._owed_replicas[group.metadata.uid] = current
        since = self._sight.since()
        if any(self._disturbed_at.get((key, str(j)), since) > since for j in indices if j not in (current, owed)):
            return
        members = {j: self.members(key, j) for j in indices}
        available = [j for j in indices if members[j] and all(map(self._was_available_lately, members[j]))]
        if len(available) < group.spec.min_available:
            found = f"{len(available)} of at least {group.spec.min_available}"
            yield f"takes replica {current} while {found} are available"
        is_short = len(available) < min(wanted, default=0)
        if owed is not None and owed not in available and is_short:
            yield f"takes replica {current}, although nothing made up for replica {owed} that was taken before"

    def recreates_rightly(self, before: PodGang, gang: PodGang) -> Iterator[str]:
        """Every replica of a rolling group that is recorded for recreation is one that the update may replace."""
        pcs = self.set_above(gang)
        known = {(one.key, one.incarnation) for one in read_record(before).open}
        for one in read_record(gang).open:
            group = self.rolling_group(gang.metadata.namespace, one)
            if pcs is None or group is None or (one.key, one.incarnation) in known:
                continue
            yield from self._in_its_turn(pcs, gang.metadata.labels)
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
        """The group of this unit, if its update is under way: then the unit goes because of that.

        Unless the group was scaled to zero: then it goes in any case.
        """
        return None if self.is_at_zero(namespace, unit) else self._rolling_group(namespace, unit)

    def is_at_zero(self, namespace: str, unit: Recreation) -> bool:
        """Its group asks for no replicas, or did a moment ago."""
        groups = (*self._tables.groups.values(), *(group for _, group in self._gone_groups))
        mine = (g for g in groups if (g.metadata.namespace, g.metadata.name) == (namespace, unit.group))
        return any(0 in self._counts.recent(group.metadata.uid) for group in mine)

    def _rolling_group(self, namespace: str, unit: Recreation) -> PodCliqueScalingGroup | None:
        since = self._sight.since()
        self._gone_groups = [(at, group) for at, group in self._gone_groups if at >= since]
        for group in (*self._tables.groups.values(), *(group for _, group in self._gone_groups)):
            is_its_group = (group.metadata.namespace, group.metadata.name) == (namespace, unit.group)
            if is_its_group and is_open(group.status.rolling_update_progress):
                return group
        return None

    # The rules: a set

    def set_rightly(self, before: PodCliqueSet, pcs: PodCliqueSet) -> Iterator[str]:
        """Judged only when the operator had seen the spec as it is: else it speaks of an older wish."""
        told = self._revision(pcs, pcs.status.current_generation_hash or "")
        is_seen = told is not None and makes_same_pods(pcs.spec.template, told)
        is_rolling = pcs.spec.update_strategy is None or pcs.spec.update_strategy.type != UpdateType.ON_DELETE
        if not is_seen or not is_rolling or pcs.metadata.is_terminating or before.status == pcs.status:
            return
        turn_before, turn = turn_of(before), turn_of(pcs)
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
        """Live pods of wanted units that do not run what the status calls the newest."""
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
        """It goes anyway: its gang is marked, or its group does not want this replica any more."""
        found = clique.metadata.labels
        gang = self._tables.gangs.get((clique.metadata.namespace, found.get(labels.PODGANG, "")))
        if gang is not None and (labels.TEARDOWN in gang.metadata.annotations or gang.metadata.is_terminating):
            return True
        if labels.GROUP not in found:
            return False
        return _group_index_of(found) >= min(self._counts.recent(owner_uid(clique)), default=0)

    # The rules: pods and revisions

    def pod_made_rightly(self, pod: Pod) -> str | None:
        """In a replica whose turn has not come, a new pod gets the revision that its replica runs."""
        clique = self._tables.cliques.get(owner_uid(pod))
        pcs = self.set_of(clique) if clique is not None else None
        if clique is None or pcs is None or self.may_be_on_delete(pcs):
            return None
        index = index_of(pod.metadata.labels)
        base = self._tables.gangs.get((pod.metadata.namespace, names.replica_name(pcs.metadata.name, index)))
        told = base.metadata.labels.get(labels.GENERATION_HASH, "") if base else ""
        running = self._revision(pcs, told)
        if running is None or turn_of(pcs) == index or self._runs(pcs, clique, running.hashes, pod):
            return None
        return f"made from template {_hash(pod)}, but its replica runs revision {told} and it is not its turn"

    def pod_deleted_rightly(self, name: Key, uid: Uid) -> str | None:
        """A pod that is ready, wanted and named by its gang is deleted alone only when the update selected it.

        Or with all of its unit, one by one: where something of others carries the same labels.
        """
        pod = self._alive.get(uid)
        since = self._ready_since.get(uid)
        if pod is None or not pod.is_ready or since is None or since >= self._sight.since():
            return None
        clique = self._tables.cliques.get(owner_uid(pod))
        gang = self._tables.gangs.get((name[0], pod.metadata.labels.get(labels.PODGANG, "")))
        referenced = [r.name for group in gang.spec.podgroups for r in group.pod_references] if gang else []
        pcs = self.set_of(clique) if clique is not None else None
        if clique is None or pcs is None or pod.metadata.name not in referenced or self._is_torn_down(pcs, pod):
            return None
        others = sum(one.is_active for one in self._tables.pods.get(clique.metadata.uid, {}).values())
        is_surplus = others >= min(self._counts.recent(clique.metadata.uid), default=0)
        if is_surplus or uid in self._taken.get(clique.metadata.uid, {}):
            return None
        return "deletes a ready pod that is wanted, that its gang names and that no update selected"

    def _is_torn_down(self, pcs: PodCliqueSet, pod: Pod) -> bool:
        """That all of its unit goes was recorded, for good or to come back; or the whole set has failed."""
        found = pod.metadata.labels
        base = names.replica_name(pcs.metadata.name, index_of(found))
        recorded = (
            self._tables.gangs.get((pod.metadata.namespace, name)) for name in (found.get(labels.PODGANG, ""), base)
        )
        gangs = [gang for gang in recorded if gang is not None]
        life = found.get(labels.INCARNATION, "")
        is_old = any(not one.is_new(life) for gang in gangs for one in read_record(gang).open)
        is_marked = any(labels.TEARDOWN in gang.metadata.annotations for gang in gangs)
        return is_old or is_marked or is_condition_true(pcs.status.conditions, "Failed")

    def revision_deleted_rightly(self, name: Key, uid: Uid) -> str | None:
        """A revision that some replica runs is never given up."""
        if uid not in self._readable:
            return None
        for gang in self._tables.gangs.values():
            told = gang.metadata.labels.get(labels.GENERATION_HASH)
            if told is None or labels.BASE_PODGANG in gang.metadata.labels or gang.metadata.is_terminating:
                continue
            pcs = self.set_above(gang)
            if pcs is not None and (gang.metadata.namespace, names.revision(pcs.metadata.name, told)) == name:
                return f"given up, although replica {gang.metadata.name} runs it"
        return None

    # What other rules ask

    def alive(self, uid: Uid) -> Pod | None:
        """A pod as it was last before it began to leave."""
        return self._alive.get(uid)

    def least_wanted(self, uid: Uid) -> int:
        """The fewest units that a set, group or clique asks for, or did a moment ago."""
        return min(self._counts.recent(uid), default=0)

    def is_disturbed(self, group: Key, index: int) -> bool:
        """Return whether a clique of this group replica vanished a moment ago: the operator may not know."""
        at = self._disturbed_at.get((group, str(index)))
        return at is not None and at >= self._sight.since()

    def most_wanted(self, uid: Uid) -> int:
        """The most units that a set, group or clique asks for, or did a moment ago."""
        return max(self._counts.recent(uid), default=0)

    def revisions_of(self, pcs: PodCliqueSet) -> list[Revision]:
        return [r for r in self._revisions.values() if owner_uid(r.object) == pcs.metadata.uid]

    # What the rules ask

    def _in_its_turn(self, pcs: PodCliqueSet, found: Mapping[str, str]) -> Iterator[str]:
        if turn_of(pcs) != index_of(found):
            yield f"is updated, but it is the turn of replica {turn_of(pcs)}"
        if frozenset(self._strategies.recent(pcs.metadata.uid)) == {str(UpdateType.ON_DELETE)}:
            yield "is updated, although the set updates on delete only"

    def may_be_on_delete(self, pcs: PodCliqueSet) -> bool:
        return str(UpdateType.ON_DELETE) in self._strategies.recent(pcs.metadata.uid)

    def _newest(self, pcs: PodCliqueSet) -> list[dict[str, str]]:
        """The hashes of what may be the newest to the operator: asked for now or a moment ago, stored last, or told."""
        mine = self.revisions_of(pcs)
        told = pcs.status.current_generation_hash
        highest = max((r.number for r in mine), default=0)
        asked = self._templates.recent(pcs.metadata.uid)
        return [
            r.template.hashes
            for r in mine
            if r.number == highest
            or r.generation_hash == told
            or any(makes_same_pods(template, r.template) for template in asked)
        ]

    def _revision(self, pcs: PodCliqueSet, generation_hash: str) -> RevisionTemplate | None:
        for revision in self._revisions.values():
            is_mine = owner_uid(revision.object) == pcs.metadata.uid
            if is_mine and revision.generation_hash == generation_hash:
                return revision.template
        return None

    def set_of(self, obj: PodClique | PodCliqueScalingGroup) -> PodCliqueSet | None:
        """The set that it belongs to by uid, if that stays."""
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
        """The clique, or one pod of it, is made from these templates. What they do not know is not judged."""
        wanted = hashes.get(template_of(pcs, clique))
        found = (pod or clique).metadata.labels.get(labels.TEMPLATE_HASH)
        return wanted is None or found == wanted

    def is_newest(self, pcs: PodCliqueSet, clique: PodClique, pod: Pod) -> bool:
        """Whatever the operator may take for the newest, this pod runs it."""
        newest = self._newest(pcs)
        return bool(newest) and all(self._runs(pcs, clique, hashes, pod) for hashes in newest)

    def _runs_wholly(self, pcs: PodCliqueSet, clique: PodClique, hashes: Mapping[str, str]) -> bool:
        pods = self._tables.pods.get(clique.metadata.uid, {}).values()
        is_old = any(pod.is_active and not self._runs(pcs, clique, hashes, pod) for pod in pods)
        return self._runs(pcs, clique, hashes) and not is_old

    def _was_available_lately(self, clique: PodClique) -> bool:
        return self._ready.count(clique.metadata.uid) >= min(clique.min_available, clique.spec.replicas)

    def is_long_available(self, clique: PodClique) -> bool:
        since = self._sight.since()
        pods = self._tables.pods.get(clique.metadata.uid, {})
        long_ready = sum(pod.is_ready and self._ready_since.get(uid, since) < since for uid, pod in pods.items())
        return long_ready >= min(clique.min_available, clique.spec.replicas)


def is_open(progress: Progress) -> bool:
    return progress is not None and progress.update_ended_at is None


def turn_of(pcs: PodCliqueSet) -> int | None:
    progress = pcs.status.rolling_update_progress
    return progress.currently_updating.replica_index if progress and progress.currently_updating else None


def template_of(pcs: PodCliqueSet, clique: PodClique) -> str:
    """Which clique of the set this is, by the name that it got from it; "" for one that the set does not know."""
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
