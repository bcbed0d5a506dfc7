"""Invariants of gang termination: after the delay, only units that were available, once per breach, and completely.

`pods_and_gangs.py` checks them at every write to a PodGang. Each rule returns why it is broken.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from grove.api import labels, names
from grove.api.types.meta import Condition, Uid, find_condition, is_condition_true
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.api.values.durations import parse_duration
from grove.planner.teardown.recreation import Recreation, read_record

# One breach: the object with the condition, since when, and the gang that records its termination.
Breach = tuple[Uid, datetime, Uid]


class TerminationRules:
    """The rules, with a record of which breach terminated which unit."""

    def __init__(self) -> None:
        self._ended: dict[Breach, str] = {}

    def check_opened(
        self,
        before: PodGang,
        gang: PodGang,
        *,
        pcs: PodCliqueSet | None,
        cliques: Iterable[PodClique],
        groups: Iterable[PodCliqueScalingGroup],
        now: datetime,
        is_checked_elsewhere: Callable[[Recreation], bool],
    ) -> str | None:
        """Check that every unit recorded for recreation had a breach that lasted longer than its delay.

        `is_checked_elsewhere`: its group is being updated (`rollout.py`), or was scaled to zero.
        """
        known = {(one.key, one.incarnation) for one in read_record(before).open}
        fresh = [
            one
            for one in read_record(gang).open
            if (one.key, one.incarnation) not in known and not is_checked_elsewhere(one)
        ]
        if not fresh or pcs is None:
            return None
        mine = [c for c in cliques if _is_of_replica(c.metadata.labels, c.metadata.namespace, gang)]
        above = [g for g in groups if _is_of_replica(g.metadata.labels, g.metadata.namespace, gang)]
        for recreation in fresh:
            breaches = list(_breaches(pcs, recreation, mine, above, gang))
            if not breaches:
                return f"{recreation.key or 'the replica'} is recreated although nothing of it is in breach"
            due = [(breach, at) for breach, at in breaches if at <= now]
            if not due:
                return f"{recreation.key or 'the replica'} is recreated before the delay of any breach is over"
            used = [self._ended[breach] for breach, _ in due if breach in self._ended]
            if len(used) == len(due):
                return f"{recreation.key or 'the replica'} is recreated twice for one breach ({used[0]})"
            self._ended.update((breach, recreation.incarnation) for breach, _ in due)
        return None

    def check_closed(self, before: PodGang, gang: PodGang, cliques: Iterable[PodClique]) -> str | None:
        """Check that nothing of the old incarnation is left when an intent is dropped."""
        kept = {(one.key, one.incarnation) for one in read_record(gang).open}
        whole = any(not one.group for one in read_record(gang).open)
        for one in read_record(before).open:
            if (one.key, one.incarnation) in kept or whole:
                continue
            unit = one.key or "the replica"
            for clique in cliques:
                is_covered = _is_of_replica(clique.metadata.labels, clique.metadata.namespace, gang) and _is_of_unit(
                    clique, one
                )
                incarnation = clique.metadata.labels.get(labels.INCARNATION, "")
                if is_covered and not clique.metadata.is_terminating and not one.is_new(incarnation):
                    return f"the recreation of {unit} ended, but old clique {clique.metadata.name} stays"
        return None


def _breaches(
    pcs: PodCliqueSet,
    unit: Recreation,
    cliques: list[PodClique],
    groups: list[PodCliqueScalingGroup],
    gang: PodGang,
) -> Iterator[tuple[Breach, datetime]]:
    """Yield the breaches that may terminate this unit, and from when on."""
    # A recently deleted group and its successor have the same name: the operator may have read either.
    own = [g for g in groups if g.metadata.name == unit.group]
    if own and not any(_is_false(g.status.conditions) for g in own):
        # While the condition of the group is True or Unknown, the set decides.
        return
    for clique in cliques:
        is_standalone = labels.GROUP not in clique.metadata.labels
        may_end = _is_of_unit(clique, unit) if unit.group else is_standalone
        since = _true_since(clique.status.conditions)
        if may_end and since is not None and clique.status.was_available:
            delay = _delay(pcs, clique.metadata.labels.get(labels.GROUP, ""), gang)
            if delay is not None:
                yield (clique.metadata.uid, since, gang.metadata.uid), since + delay
    for group in groups if not unit.group else ():
        since = _true_since(group.status.conditions)
        delay = _delay(pcs, group.metadata.name, gang)
        if since is not None and delay is not None:
            yield (group.metadata.uid, since, gang.metadata.uid), since + delay


def _is_false(conditions: tuple[Condition, ...]) -> bool:
    condition = find_condition(conditions, "MinAvailableBreached")
    return condition is None or condition.status == "False"


def _true_since(conditions: tuple[Condition, ...]) -> datetime | None:
    condition = find_condition(conditions, "MinAvailableBreached")
    is_true = is_condition_true(conditions, "MinAvailableBreached")
    return condition.last_transition_time if condition is not None and is_true else None


def _delay(pcs: PodCliqueSet, group_name: str, gang: PodGang) -> timedelta | None:
    text = pcs.spec.template.termination_delay
    if text is None:
        return None
    index = int(gang.metadata.labels.get(labels.SET_REPLICA_INDEX, "0"))
    for config in pcs.spec.template.pod_clique_scaling_groups:
        if config.termination_delay and names.group(pcs.metadata.name, index, config.name) == group_name:
            return parse_duration(config.termination_delay)
    return parse_duration(text)


def _is_of_replica(found: dict[str, str], namespace: str, gang: PodGang) -> bool:
    wanted = gang.metadata.labels
    return namespace == gang.metadata.namespace and all(
        found.get(key) == wanted.get(key) for key in (labels.PART_OF, labels.SET_REPLICA_INDEX)
    )


def _is_of_unit(clique: PodClique, unit: Recreation) -> bool:
    found = clique.metadata.labels
    return not unit.group or (found.get(labels.GROUP), found.get(labels.GROUP_REPLICA_INDEX)) == (
        unit.group,
        str(unit.index),
    )
