"""The safety rules, stated once and checked after every write to the store: each returns the reason it is broken.

They see only what the API shows. A decision takes a moment to arrive, so a rule that compares with what was asked for
or what was placed allows what was true a few seconds before (`MOMENT`).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from grove.api import labels
from grove.api.meta import HasMetadata, JsonObject, Uid
from grove.api.pod import Pod
from grove.api.podclique import PodClique
from grove.api.podgang import PodGang
from grove.clock import Clock
from grove.cluster.store import Change, ChangeType
from grove.errors import Bug
from grove.planner.views import pod_index

T = TypeVar("T", bound=HasMetadata)
V = TypeVar("V", bound=msgspec.Struct)

# Longer than any delay a fault plan draws between observing and acting, queueing included.
MOMENT = timedelta(seconds=20)


class InvariantBroken(Bug):
    """A safety rule does not hold; the message names the rule, the object and the time."""


class _Sight:
    """Since when facts may be what the operator acts on: a moment, or longer while a watch says nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._blind_count = 0
        self._lost_at: datetime | None = None
        self._regained_at: datetime | None = None

    def lose(self) -> None:
        self._lost_at = self.since()
        self._blind_count += 1

    def regain(self) -> None:
        self._blind_count -= 1
        self._regained_at = self._clock.now()

    def since(self) -> datetime:
        now = self._clock.now()
        is_blind = self._blind_count or (self._regained_at is not None and now - self._regained_at <= MOMENT)
        return self._lost_at if self._lost_at is not None and is_blind else now - MOMENT


class _Lately:
    """Of which indices of a clique something is true, or was a moment ago: the operator may still rest on it."""

    def __init__(self, clock: Clock, sight: _Sight) -> None:
        self._clock = clock
        self._sight = sight
        # None: true now; else when it ended.
        self._ended_at: dict[Uid, dict[int, datetime | None]] = {}

    def note(self, clique: Uid, index: int, is_true: bool) -> None:
        indices = self._ended_at.setdefault(clique, {})
        if is_true:
            indices[index] = None
        elif index in indices and indices[index] is None:
            indices[index] = self._clock.now()

    def count(self, clique: Uid | None) -> int:
        return sum(self._is_recent(ended_at) for ended_at in self._ended_at.get(clique or Uid(""), {}).values())

    def has_other(self, clique: Uid | None, index: int) -> bool:
        ended = self._ended_at.get(clique or Uid(""), {})
        return any(self._is_recent(ended_at) for other, ended_at in ended.items() if other != index)

    def _is_recent(self, ended_at: datetime | None) -> bool:
        return ended_at is None or ended_at >= self._sight.since()


class Invariants:
    """Watches a store from its first write on; `broken` holds what was found, and `check` raises it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: dict[Uid, dict[Uid, Pod]] = {}
        self._cliques: dict[Uid, PodClique] = {}
        self._clique_uids: dict[tuple[str, str], Uid] = {}
        self._gangs: dict[tuple[str, str], PodGang] = {}
        # When each clique last asked for more pods than it does now, and how many.
        self._asked: dict[Uid, list[tuple[datetime, int]]] = {}
        self._sight = _Sight(clock)
        self._existing = _Lately(clock, self._sight)
        self._placed = _Lately(clock, self._sight)
        self._ungated = _Lately(clock, self._sight)
        self.broken: list[str] = []
        self.checked_count = 0

    def check(self) -> None:
        if self.broken:
            raise InvariantBroken("\n".join(self.broken))

    def lose_sight(self) -> None:
        """A watch of the operator says nothing: until `regain_sight` it may act on what was true before."""
        self._sight.lose()

    def regain_sight(self) -> None:
        self._sight.regain()

    def observe(self, change: Change) -> None:
        """One write to the store: remember it, then ask every rule that it could break."""
        match change.served.plural:
            case "pods":
                self._observe_pod(change, _decode(change.entry.obj, Pod))
            case "podcliques":
                self._observe_clique(change, _decode(change.entry.obj, PodClique))
            case "podgangs":
                self._observe_gang(change, _decode(change.entry.obj, PodGang))
            case _:
                return

    # What happened

    def _observe_pod(self, change: Change, pod: Pod) -> None:
        owner = pod.metadata.controller_uid
        if owner is None:
            return
        siblings = self._pods.setdefault(owner, {})
        if change.type == ChangeType.DELETED:
            siblings.pop(pod.metadata.uid, None)
            self._note_index(owner, pod_index(pod))
            return
        siblings[pod.metadata.uid] = pod
        before = _decode(change.before.obj, Pod) if change.before else None
        self._note_index(owner, pod_index(pod))
        if change.type == ChangeType.ADDED:
            self._ask(pod, self._never_more_pods_than_asked_for, self._never_two_pods_with_one_index)
            self._ask(pod, self._created_under_a_referenced_name, self._nothing_new_in_a_marked_unit)
        if before is not None and before.is_behind_our_gate and not pod.is_behind_our_gate:
            self._ask(pod, self._ungated_only_when_its_turn_came)

    def _observe_clique(self, change: Change, clique: PodClique) -> None:
        uid, key = clique.metadata.uid, (clique.metadata.namespace, clique.metadata.name)
        if change.type == ChangeType.DELETED:
            self._cliques.pop(uid, None)
            if self._clique_uids.get(key) == uid:
                del self._clique_uids[key]
            return
        self._cliques[uid] = clique
        self._clique_uids[key] = uid
        asked = self._asked.setdefault(uid, [])
        if not asked or asked[-1][1] != clique.spec.replicas:
            if asked:
                asked[-1] = (self._clock.now(), asked[-1][1])
            asked.append((self._clock.now(), clique.spec.replicas))
        if change.type == ChangeType.ADDED:
            self._ask(clique, self._nothing_new_in_a_marked_unit)
        before = _decode(change.before.obj, PodClique) if change.before else None
        if before is not None and before.status.was_available and not clique.status.was_available:
            self._report(clique, "wasAvailable went back to false")

    def _observe_gang(self, change: Change, gang: PodGang) -> None:
        key = (gang.metadata.namespace, gang.metadata.name)
        if change.type == ChangeType.DELETED:
            self._gangs.pop(key, None)
            if labels.TEARDOWN in gang.metadata.annotations:
                self._ask(gang, self._a_teardown_leaves_nothing)
            return
        self._gangs[key] = gang

    def _note_index(self, clique: Uid, index: int) -> None:
        holders = [pod for pod in self._pods[clique].values() if pod_index(pod) == index]
        self._existing.note(clique, index, any(pod.is_succeeded or pod.is_active for pod in holders))
        self._placed.note(clique, index, any(p.is_succeeded or (p.is_active and p.is_scheduled) for p in holders))
        self._ungated.note(clique, index, any(not pod.is_behind_our_gate for pod in holders))

    # The rules

    def _never_more_pods_than_asked_for(self, pod: Pod) -> str | None:
        owner = pod.metadata.controller_uid
        if owner is None or owner not in self._cliques:
            return None
        since = self._sight.since()
        asked = self._asked[owner]
        most = max(count for i, (at, count) in enumerate(asked) if i == len(asked) - 1 or at >= since)
        active = sum(other.is_active for other in self._pods[owner].values())
        return f"{active} active pods, at most {most} were asked for" if active > most else None

    def _never_two_pods_with_one_index(self, pod: Pod) -> str | None:
        owner = pod.metadata.controller_uid
        siblings = self._pods[owner].values() if owner else ()
        rivals = [
            other.metadata.name
            for other in siblings
            if other is not pod and other.is_active and pod_index(other) == pod_index(pod)
        ]
        return f"index {pod_index(pod)} is held by {rivals[0]} too" if rivals else None

    def _created_under_a_referenced_name(self, pod: Pod) -> str | None:
        gang = self._gangs.get((pod.metadata.namespace, pod.metadata.labels.get(labels.PODGANG, "")))
        referenced = [ref.name for group in gang.spec.podgroups for ref in group.pod_references] if gang else []
        return None if pod.metadata.name in referenced else "created under a name its gang does not reference"

    def _ungated_only_when_its_turn_came(self, pod: Pod) -> str | None:
        namespace = pod.metadata.namespace
        base = self._gangs.get((namespace, pod.metadata.labels.get(labels.BASE_PODGANG, "")))
        if base is not None and not self._is_at_minimum(base, self._placed):
            return f"ungated although base gang {base.metadata.name} is not scheduled"
        gang = self._gangs.get((namespace, pod.metadata.labels.get(labels.PODGANG, "")))
        if gang is None or self._is_at_minimum(gang, self._existing) or self._has_started(gang, pod):
            return None
        return f"ungated although gang {gang.metadata.name} never had its minimum"

    def _nothing_new_in_a_marked_unit(self, obj: HasMetadata) -> str | None:
        gang = self._gangs.get((obj.metadata.namespace, obj.metadata.labels.get(labels.PODGANG, "")))
        if gang is None or labels.TEARDOWN not in gang.metadata.annotations:
            return None
        return f"created while gang {gang.metadata.name} is being torn down"

    def _a_teardown_leaves_nothing(self, gang: PodGang) -> str | None:
        incarnation = gang.metadata.labels.get(labels.INCARNATION)
        for clique in self._cliques.values():
            is_of_gang = clique.metadata.labels.get(labels.PODGANG) == gang.metadata.name
            is_of_life = clique.metadata.labels.get(labels.INCARNATION) == incarnation
            same_namespace = clique.metadata.namespace == gang.metadata.namespace
            if is_of_gang and is_of_life and same_namespace and not clique.metadata.is_leaving:
                return f"gang gone, but its clique {clique.metadata.name} is left"
        return None

    # What the rules ask

    def _clique_of(self, gang: PodGang, name: str) -> Uid | None:
        return self._clique_uids.get((gang.metadata.namespace, name))

    def _is_at_minimum(self, gang: PodGang, fact: _Lately) -> bool:
        return all(fact.count(self._clique_of(gang, g.name)) >= g.min_replicas for g in gang.spec.podgroups)

    def _has_started(self, gang: PodGang, pod: Pod) -> bool:
        """Another pod of the gang is past the gate: the first placement has begun."""
        return any(
            self._ungated.has_other(uid, pod_index(pod) if uid == pod.metadata.controller_uid else -1)
            for uid in (self._clique_of(gang, group.name) for group in gang.spec.podgroups)
        )

    def _ask(self, obj: T, *rules: Callable[[T], str | None]) -> None:
        for rule in rules:
            self.checked_count += 1
            reason = rule(obj)
            if reason is not None:
                self._report(obj, reason)

    def _report(self, obj: HasMetadata, reason: str) -> None:
        self.broken.append(f"{self._clock.now():%H:%M:%S.%f} {obj.metadata.namespace}/{obj.metadata.name}: {reason}")


def _decode(obj: JsonObject, view: type[V]) -> V:
    return msgspec.convert(obj, view)
