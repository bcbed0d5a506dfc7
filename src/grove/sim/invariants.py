"""The safety rules, stated once and checked after every write to the store: each returns the reason it is broken.

They see only what the API shows. A decision takes a moment to arrive, so a rule that compares with what was asked for
or what was placed allows what was true a few seconds before (`MOMENT`).
"""

from collections.abc import Callable, Iterable
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


class _Lately:
    """What is true of a gang, or was a moment ago."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_true: dict[tuple[str, str], bool] = {}
        self._ended_at: dict[tuple[str, str], datetime] = {}

    def note(self, key: tuple[str, str], is_true: bool) -> None:
        if self._is_true.get(key) and not is_true:
            self._ended_at[key] = self._clock.now()
        self._is_true[key] = is_true

    def holds(self, key: tuple[str, str]) -> bool:
        ended_at = self._ended_at.get(key)
        return self._is_true.get(key, False) or (ended_at is not None and self._clock.now() - ended_at <= MOMENT)


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
        # Gangs that are placed or whole, or when they last were.
        self._placed = _Lately(clock)
        self._whole = _Lately(clock)
        self.broken: list[str] = []
        self.checked_count = 0

    def check(self) -> None:
        if self.broken:
            raise InvariantBroken("\n".join(self.broken))

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
            self._note_placement(pod)
            return
        siblings[pod.metadata.uid] = pod
        before = _decode(change.before.obj, Pod) if change.before else None
        self._note_placement(pod)
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

    def _note_placement(self, pod: Pod) -> None:
        key = (pod.metadata.namespace, pod.metadata.labels.get(labels.PODGANG, ""))
        gang = self._gangs.get(key)
        if gang is None:
            return
        groups = gang.spec.podgroups
        self._placed.note(key, all(self._placed_count(key[0], g.name) >= g.min_replicas for g in groups))
        self._whole.note(key, all(self._existing_count(key[0], g.name) >= len(g.pod_references) for g in groups))

    # The rules

    def _never_more_pods_than_asked_for(self, pod: Pod) -> str | None:
        owner = pod.metadata.controller_uid
        if owner is None or owner not in self._cliques:
            return None
        since = self._clock.now() - MOMENT
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
        base = pod.metadata.labels.get(labels.BASE_PODGANG)
        if base and not self._placed.holds((namespace, base)):
            return f"ungated although base gang {base} is not scheduled"
        key = (namespace, pod.metadata.labels.get(labels.PODGANG, ""))
        gang = self._gangs.get(key)
        if gang is None or self._whole.holds(key) or self._has_other_ungated(gang, pod):
            return None
        minima = all(self._existing_count(namespace, g.name) >= g.min_replicas for g in gang.spec.podgroups)
        return None if minima else f"ungated although gang {key[1]} was never complete"

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

    def _members(self, namespace: str, clique_name: str) -> Iterable[Pod]:
        uid = self._clique_uids.get((namespace, clique_name))
        return self._pods.get(uid, {}).values() if uid else ()

    def _placed_count(self, namespace: str, clique_name: str) -> int:
        return sum(p.is_succeeded or (p.is_active and p.is_scheduled) for p in self._members(namespace, clique_name))

    def _existing_count(self, namespace: str, clique_name: str) -> int:
        return sum(pod.is_succeeded or pod.is_active for pod in self._members(namespace, clique_name))

    def _has_other_ungated(self, gang: PodGang, pod: Pod) -> bool:
        return any(
            other.metadata.uid != pod.metadata.uid and not other.is_behind_our_gate
            for group in gang.spec.podgroups
            for other in self._members(gang.metadata.namespace, group.name)
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
