"""Invariants of the order of updates: an update never takes a second available set replica while the first is not back.

From spec/rolling-update.md: one set replica at a time, and the update pauses until it is complete. A client that reads
the newest generation in a set never reads an old success in its children. `pods_and_gangs.py` checks these rules;
`rollout.py` has those of one clique or group.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from grove.api import labels
from grove.api.template_revision import makes_same_pods
from grove.api.types.meta import Uid, find_condition, is_condition_true
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import CurrentlyUpdating, PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.clock import Clock
from grove.planner.teardown.recreation import read_record
from grove.sim.invariants.rollout import Key, RolloutRules, Tables, index_of, is_open, template_of
from grove.sim.invariants.staleness import Lately, Staleness, owner_uid

# A pod counts as unschedulable after this time; times are whole seconds.
UNSCHEDULABLE_AFTER = timedelta(seconds=59)
# The set, the index of its replica, and the clique or group in it.
Minimum = tuple[Uid, int, str]
Part = PodClique | PodCliqueScalingGroup


class TurnRules:
    """The rules. They record the minimums that an update broke and has not restored yet, and all units ever created."""

    def __init__(self, clock: Clock, staleness: Staleness, tables: Tables, rollouts: RolloutRules) -> None:
        self._clock = clock
        self._staleness = staleness
        self._tables = tables
        self._rollouts = rollouts
        self._ready: Lately[Uid] = Lately(clock, staleness)
        self._owed: dict[Minimum, None] = {}
        # Pods that were ever created for each clique, by template.
        self._made: dict[Uid, dict[str, set[Uid]]] = {}
        # The templates that cliques of each group replica ever had.
        self._units: dict[tuple[Key, str], dict[str, set[str]]] = {}

    # Changes of the store

    def note_pod(self, owner: Uid, pod: Pod, *, is_gone: bool) -> None:
        hash_ = pod.metadata.labels.get(labels.TEMPLATE_HASH, "")
        self._made.setdefault(owner, {}).setdefault(hash_, set()).add(pod.metadata.uid)
        is_ready = pod.is_ready and not is_gone
        self._ready.note(owner, pod.metadata.uid, is_ready)
        clique = self._tables.cliques.get(owner)
        pcs = self._rollouts.set_of(clique) if clique is not None else None
        if is_ready and self._owed and clique is not None and pcs is not None:
            self._make_up(pcs, index_of(clique.metadata.labels))

    def note_clique(self, clique: PodClique) -> None:
        found = clique.metadata.labels
        if labels.GROUP in found:
            key = (clique.metadata.namespace, found[labels.GROUP])
            unit = self._units.setdefault((key, found.get(labels.GROUP_REPLICA_INDEX, "")), {})
            unit.setdefault(clique.metadata.name, set()).add(found.get(labels.TEMPLATE_HASH, ""))

    def _make_up(self, pcs: PodCliqueSet, index: int) -> None:
        """Record that a pod became ready: minima that are reached now are restored."""
        for part in self._parts(pcs, index):
            key = (pcs.metadata.uid, index, part.metadata.name)
            if key in self._owed and self._has_minimum(part, strictly=True):
                del self._owed[key]

    # The rules: what an update takes

    def check_replaced_pod(self, uid: Uid) -> Iterator[str]:
        """Check a pod that is deleted on its own because it has an older template."""
        pod = self._rollouts.alive(uid)
        clique = self._tables.cliques.get(owner_uid(pod)) if pod is not None else None
        pcs = self._rollouts.set_of(clique) if clique is not None else None
        if pod is None or clique is None or pcs is None or not is_open(clique.status.rolling_update_progress):
            return
        if not self._rollouts.is_newest(pcs, clique, pod):
            yield from self._check_replacement(pcs, index_of(pod.metadata.labels), clique.metadata.name)

    def check_replaced_replica(self, before: PodGang, gang: PodGang) -> Iterator[str]:
        """Check group replicas that are recreated because their group is updated."""
        pcs = self._rollouts.set_above(gang)
        known = {(one.key, one.incarnation) for one in read_record(before).open}
        for one in read_record(gang).open if pcs is not None else ():
            is_update = self._rollouts.rolling_group(gang.metadata.namespace, one) is not None
            if pcs is not None and is_update and (one.key, one.incarnation) not in known:
                yield from self._check_replacement(pcs, index_of(gang.metadata.labels), one.group)

    def _check_replacement(self, pcs: PodCliqueSet, index: int, part: str) -> Iterator[str]:
        turn = _turn(pcs)
        if turn is None or turn.replica_index != index:
            # `rollout.py` checks that only the current replica is updated.
            return
        if turn.was_available is not False:
            wanted = self._rollouts.least_wanted(pcs.metadata.uid)
            for uid, other, name in tuple(self._owed):
                if uid != pcs.metadata.uid or other == index or other >= wanted:
                    continue
                found = [one for one in self._parts(pcs, other) if one.metadata.name == name]
                if found and not self._has_minimum(found[0]):
                    yield (
                        f"takes pods of {part} in available replica {index}, while the minimum of {name}, in which the "
                        f"update replaced pods, is not reached in replica {other}"
                    )
        self._owed[(pcs.metadata.uid, index, part)] = None

    # The rules: order of replicas

    def check_set(self, before: PodCliqueSet, pcs: PodCliqueSet) -> Iterator[str]:
        yield from self.check_counts(pcs, (*self._tables.cliques.values(), *self._tables.groups.values()))
        was, turn = _turn(before), _turn(pcs)
        if before.status != pcs.status and not (pcs.metadata.is_terminating or self._rollouts.may_be_on_delete(pcs)):
            wanted = self._rollouts.least_wanted(pcs.metadata.uid)
            if was is not None and was != turn and was.replica_index < wanted:
                yield from self._check_turn_end(pcs, was)
            if turn is not None and turn != was and turn.replica_index < wanted:
                yield from self._check_begin(pcs, turn)
            yield from self._check_lists(before, pcs)
        self._forget_ended_updates(pcs, was.replica_index if was is not None and was != turn else None)

    def _forget_ended_updates(self, pcs: PodCliqueSet, done: int | None) -> None:
        """Forget the lost minimums of replicas whose update is over. They were checked when it ended."""
        is_over = not is_open(pcs.status.rolling_update_progress)
        for key in tuple(self._owed):
            if key[0] == pcs.metadata.uid and (is_over or key[1] == done or key[1] >= pcs.spec.replicas):
                del self._owed[key]

    def _check_turn_end(self, pcs: PodCliqueSet, turn: CurrentlyUpdating) -> Iterator[str]:
        for part in self._parts(pcs, turn.replica_index):
            if self._has_minimum(part):
                continue
            what = f"the turn of replica {turn.replica_index} is over, but {part.metadata.name} lacks its minimum"
            if turn.was_available is not False:
                yield f"{what}, and the replica was available before"
            elif not self._is_excused(part, turn):
                yield f"{what}, although its pods may still come"

    def _check_begin(self, pcs: PodCliqueSet, turn: CurrentlyUpdating) -> Iterator[str]:
        parts = self._parts(pcs, turn.replica_index)
        template = pcs.spec.template
        grouped = {name for group in template.pod_clique_scaling_groups for name in group.clique_names}
        is_whole = len(parts) == len(template.cliques) - len(grouped) + len(template.pod_clique_scaling_groups)
        if turn.was_available and not all(map(self._has_minimum, parts)):
            yield f"replica {turn.replica_index} is called available, and is not"
        if turn.was_available is False and is_whole and all(map(self._is_long_ready, parts)):
            yield f"replica {turn.replica_index} is called not available, and is"

    def _check_lists(self, before: PodCliqueSet, pcs: PodCliqueSet) -> Iterator[str]:
        was, now = before.status.rolling_update_progress, pcs.status.rolling_update_progress
        if now is None:
            return
        listed = (*now.updated_pod_cliques, *now.updated_pod_clique_scaling_groups)
        known = (*was.updated_pod_cliques, *was.updated_pod_clique_scaling_groups) if was is not None else ()
        found: tuple[Part, ...] = (*self._tables.cliques.values(), *self._tables.groups.values())
        parts = {part.metadata.name: part for part in found if self._rollouts.set_of(part) is pcs}
        for name in listed:
            if (
                name not in known
                and name in parts
                and self._is_whole(parts[name])
                and not self._has_minimum(parts[name])
            ):
                yield f"{name} is listed as updated without its minimum"

    # The rules: what clients read

    def check_counts(self, pcs: PodCliqueSet, parts: Iterable[Part]) -> Iterator[str]:
        """Check that no child reports more updated units for the observed generation than were ever created."""
        if pcs.metadata.is_terminating or pcs.status.observed_generation != pcs.metadata.generation:
            return
        counting = [part for part in parts if part.status.updated_replicas and self._is_checked(part, pcs)]
        if not counting:
            return
        wanted = [r for r in self._rollouts.revisions_of(pcs) if makes_same_pods(pcs.spec.template, r.template)]
        if not wanted:
            return
        newest = max(wanted, key=lambda r: r.number).template.hashes
        for part in counting:
            if part.status.updated_replicas > self._ever_updated(pcs, part, newest):
                units = "pods" if isinstance(part, PodClique) else "replicas"
                seen = f"generation {pcs.metadata.generation} is called seen"
                yield f"{seen}, but {part.metadata.name} counts old {units} as updated"

    def _is_checked(self, part: Part, pcs: PodCliqueSet) -> bool:
        is_leaving_clique = isinstance(part, PodClique) and part.metadata.is_terminating
        return not is_leaving_clique and self._rollouts.set_of(part) is pcs

    def _ever_updated(self, pcs: PodCliqueSet, part: Part, newest: dict[str, str]) -> int:
        """Return how many units of the part were ever made from the newest templates."""
        if not isinstance(part, PodClique):
            return self._ever_new(part, newest)
        return len(self._made.get(part.metadata.uid, {}).get(newest.get(template_of(pcs, part), ""), ()))

    def _ever_new(self, group: PodCliqueScalingGroup, newest: dict[str, str]) -> int:
        key = (group.metadata.namespace, group.metadata.name)
        units = [unit for (owner, _), unit in self._units.items() if owner == key]
        return sum(
            all(any(name.endswith(f"-{c}") and newest.get(c) in hashes for name, hashes in unit.items()) for c in names)
            for unit in units
            for names in (group.spec.clique_names,)
        )

    # Queries

    def _parts(self, pcs: PodCliqueSet, index: int) -> list[Part]:
        """Yield the standalone cliques and groups of a replica that exist and are not terminating."""
        found: list[Part] = [c for c in self._tables.cliques.values() if labels.GROUP not in c.metadata.labels]
        found += self._tables.groups.values()
        return [
            part
            for part in found
            if not part.metadata.is_terminating
            and index_of(part.metadata.labels) == index
            and self._rollouts.set_of(part) is pcs
        ]

    def _has_minimum(self, part: Part, *, strictly: bool = False) -> bool:
        """Return whether the minimum is reached, or was recently: the operator may still act on that."""
        requested = part.spec.replicas if strictly else self._rollouts.least_wanted(part.metadata.uid)
        if isinstance(part, PodClique):
            ready = self._ready_now(part) if strictly else self._ready.count(part.metadata.uid)
            return ready >= min(part.min_available, requested)
        # The operator may not know yet that the group was scaled in: then another of its replicas counts.
        units = self._units_of(part, part.spec.replicas if strictly else self._rollouts.most_wanted(part.metadata.uid))
        key = (part.metadata.namespace, part.metadata.name)
        good = sum(
            (bool(unit) and all(self._has_minimum(clique, strictly=strictly) for clique in unit))
            or (not strictly and self._rollouts.is_disturbed(key, index))
            for index, unit in enumerate(units)
        )
        return good >= min(part.spec.min_available, requested)

    def _is_long_ready(self, part: Part) -> bool:
        if not part.spec.replicas:
            # It may have been scaled to zero recently, and have lacked its minimum until then.
            return False
        if isinstance(part, PodClique):
            return self._rollouts.is_long_available(part)
        # A group replica that lost a clique is not ready.
        whole = [unit for unit in self._units_of(part) if len(unit) == len(part.spec.clique_names)]
        long_ready = sum(all(map(self._rollouts.is_long_available, unit)) for unit in whole)
        return long_ready >= min(part.spec.min_available, part.spec.replicas)

    def _is_whole(self, part: Part) -> bool:
        """Return whether all cliques of a group exist. One that was deleted a moment ago may have been ready."""
        if isinstance(part, PodClique):
            return True
        return all(len(unit) == len(part.spec.clique_names) for unit in self._units_of(part))

    def _units_of(self, group: PodCliqueScalingGroup, count: int | None = None) -> list[list[PodClique]]:
        """Return the cliques of each replica of a group: of the first `count`, or of all desired ones."""
        key = (group.metadata.namespace, group.metadata.name)
        return [self._rollouts.members(key, j) for j in range(group.spec.replicas if count is None else count)]

    def _ready_now(self, clique: PodClique) -> int:
        return sum(pod.is_ready for pod in self._tables.pods.get(clique.metadata.uid, {}).values())

    def _is_excused(self, part: Part, turn: CurrentlyUpdating) -> bool:
        """Return whether missing pods do not fit, or the part was broken before and the update does not change it."""
        progress = part.status.rolling_update_progress
        began_at = progress.update_started_at if progress is not None else None
        is_changed = began_at is not None and began_at >= turn.update_started_at
        if not is_changed and is_condition_true(part.status.conditions, "MinAvailableBreached"):
            return True
        cliques = [part] if isinstance(part, PodClique) else [c for unit in self._units_of(part) for c in unit]
        short = [clique for clique in cliques if not self._has_minimum(clique)]
        return not any(self._may_come(pod) for c in short for pod in self._tables.pods.get(c.metadata.uid, {}).values())

    def _may_come(self, pod: Pod) -> bool:
        """Return whether the pod is on a node and not ready, or not yet known to be unschedulable."""
        if not pod.is_active or pod.is_ready or pod.is_gated:
            return False
        condition = find_condition(pod.status.conditions, "PodScheduled")
        since = condition.last_transition_time if condition is not None else None
        if pod.is_scheduled:
            return since is None or since < self._staleness.since()
        born_at = pod.metadata.creation_timestamp
        return born_at is None or self._clock.now() - born_at < UNSCHEDULABLE_AFTER


def _turn(pcs: PodCliqueSet) -> CurrentlyUpdating | None:
    progress = pcs.status.rolling_update_progress
    return progress.currently_updating if progress is not None else None
