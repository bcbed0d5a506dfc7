"""Invariants of pods and gangs, checked after every write to the store. Each rule returns why it is broken.

The rules read only what the API shows. A decision takes a moment to arrive, so rules that compare with the requested or
placed state also allow the state of some seconds before (`staleness.py`). The rules of gang termination, updates and
training are in their own files (`gang_termination.py`, `rollout.py`, `update_turns.py`, `training.py`). `ownership.py`
decides which objects belong to a set. `requests.py` has rules about the requests of the operator.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import TypeVar

import msgspec

from grove.api import labels
from grove.api.template_revision import read_revision
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import HasMetadata, JsonObject, Uid, find_condition
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.clock import Clock
from grove.cluster.storage.store import Change, ChangeType
from grove.errors import Bug
from grove.planner.views import pod_index
from grove.sim.faults import RecordedWrite
from grove.sim.invariants.gang_termination import TerminationRules
from grove.sim.invariants.ownership import OwnershipRules
from grove.sim.invariants.requests import find_broken_rule
from grove.sim.invariants.rollout import RolloutRules, Tables
from grove.sim.invariants.set_conditions import check_set_conditions
from grove.sim.invariants.staleness import Lately, RecentValues, Staleness, owner_uid
from grove.sim.invariants.training import TrainingRules, is_training
from grove.sim.invariants.update_turns import TurnRules

T = TypeVar("T", bound=HasMetadata)
V = TypeVar("V", bound=msgspec.Struct)


class InvariantBroken(Bug):
    """An error for a broken invariant. The message names the rule, the object and the time."""


class Invariants:
    """All invariants of one store, from its first write on. `broken` has the violations; `check` raises them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: dict[Uid, dict[Uid, Pod]] = {}
        self._cliques: dict[Uid, PodClique] = {}
        self._clique_uids: dict[tuple[str, str], Uid] = {}
        self._gangs: dict[tuple[str, str], PodGang] = {}
        # Pod names that a gang does not reference any more, and since when.
        self._unreferenced_at: dict[tuple[str, str], datetime] = {}
        # Gangs of which another client deleted a part: this is no teardown.
        self._disturbed_at: dict[tuple[str, str], datetime] = {}
        self._owners: dict[Uid, None] = {}
        # All Services that ever existed: a client may delete one at any time.
        self._services: set[tuple[str, str]] = set()
        self._groups: dict[Uid, PodCliqueScalingGroup] = {}
        self._ownership = OwnershipRules()
        self._terminations = TerminationRules()
        self._gone: list[tuple[datetime, HasMetadata]] = []
        # The sets by name, and when terminating or deleted ones began to terminate.
        self._sets: dict[tuple[str, str], PodCliqueSet] = {}
        self._left_at: dict[tuple[str, str], datetime] = {}
        self._staleness = Staleness(clock)
        # The replicas of each clique.
        self._replicas: RecentValues[int] = RecentValues(clock, self._staleness)
        self._existing: Lately[int] = Lately(clock, self._staleness)
        self._placed: Lately[int] = Lately(clock, self._staleness)
        self._ungated: Lately[Uid] = Lately(clock, self._staleness)
        # Gangs that were ever scheduled, with the incarnation of their pods.
        self._placed_incarnations: set[tuple[str, str, str]] = set()
        tables = Tables(
            pods=self._pods, cliques=self._cliques, groups=self._groups, sets=self._sets, gangs=self._gangs
        )  # fmt: skip
        self._rollouts = RolloutRules(clock, self._staleness, tables, self._is_scheduled)
        self._turns = TurnRules(clock, self._staleness, tables, self._rollouts)
        self._training = TrainingRules(clock, self._staleness, tables)
        # Set by a test in which the server never rejects a pod: then only whole gangs start.
        self.is_nothing_rejected = False
        self.broken: list[str] = []
        self.checked_count = 0

    def check(self) -> None:
        """Raise the violations so far.

        Call it when the cluster has settled: the operator has then reported every breach.
        """
        for clique, reason in self._training.find_unreported_breaches():
            self._report(clique, reason)
        self.check_safety()

    def check_safety(self) -> None:
        """Raise the violations so far. It may be called at any time."""
        if self.broken:
            raise InvariantBroken("\n".join(self.broken))

    def begin_stale(self) -> None:
        """Record that a watch of the operator is frozen: until `end_stale` it may act on an older state."""
        self._staleness.begin_stale()

    def end_stale(self) -> None:
        self._staleness.end_stale()

    def observe(self, change: Change) -> None:
        """Record one write to the store, then check every rule that it could break."""
        if not self._ownership.note(change):
            if change.before is None or not self._ownership.is_part_of_set(change.before):
                return
            # A client took its owner reference away: to the set, the object is gone.
            change = msgspec.structs.replace(change, type=ChangeType.DELETED, entry=change.before)
        if change.resource_info.plural in ("podcliquesets", "podcliquescalinggroups"):
            self._observe_owner(change)
        match change.resource_info.plural:
            case "pods":
                self._observe_pod(change, _decode(change.entry.obj, Pod))
            case "podcliques":
                self._observe_clique(change, _decode(change.entry.obj, PodClique))
            case "podgangs":
                self._observe_gang(change, _decode(change.entry.obj, PodGang))
            case "podcliquesets":
                self._observe_set(change, _decode(change.entry.obj, PodCliqueSet))
            case "podcliquescalinggroups":
                self._observe_group(change, _decode(change.entry.obj, PodCliqueScalingGroup))
            case "controllerrevisions":
                self._observe_revision(change, _decode(change.entry.obj, ControllerRevision))
            case "services":
                self._services.add((change.entry.obj["metadata"]["namespace"], change.entry.obj["metadata"]["name"]))
            case _:
                return

    def observe_write(self, write: RecordedWrite) -> None:
        """Check one request of the operator."""
        reason = find_broken_rule(write.request)
        if reason is not None:
            self.broken.append(f"{self._clock.now():%H:%M:%S.%f} {reason}")
        for reason in self._ownership.check(write):
            self._report_at(write.target.namespace, write.target.name, f"{write.target.resource}: {reason}")
        if write.status < 300 and write.target.verb == "delete":
            self._observe_delete(write)

    def end_request(self) -> None:
        """Note that the server has finished a request of any client."""
        self._ownership.end_request()

    # Changes of the store

    def _observe_delete(self, write: RecordedWrite) -> None:
        key = (write.target.namespace, write.target.name)
        uid = Uid(msgspec.json.decode(write.request.body).get("preconditions", {}).get("uid", ""))
        if write.target.resource == "pods":
            self._report_at(*key, self._rollouts.check_deleted_pod(key, uid))
            for reason in self._turns.check_replaced_pod(uid):
                self._report_at(*key, reason)
        if write.target.resource == "controllerrevisions":
            self._report_at(*key, self._rollouts.check_deleted_revision(key, uid))

    def _observe_owner(self, change: Change) -> None:
        uid = Uid(change.entry.obj["metadata"]["uid"])
        if change.type == ChangeType.DELETED:
            self._owners.pop(uid, None)
            group = self._groups.pop(uid, None)
            if group is not None:
                self._gone.append((self._clock.now(), group))
            return
        self._owners[uid] = None

    def _observe_group(self, change: Change, group: PodCliqueScalingGroup) -> None:
        self._rollouts.note_group(group, is_gone=change.type == ChangeType.DELETED)
        if change.type == ChangeType.DELETED:
            return
        self._groups[group.metadata.uid] = group
        if change.before is not None:
            before = _decode(change.before.obj, PodCliqueScalingGroup)
            self._report_all(group, self._rollouts.check_group(before, group))
            pcs = self._rollouts.set_of(group)
            self._report_all(group, self._turns.check_counts(pcs, (group,)) if pcs is not None else ())

    def _observe_revision(self, change: Change, stored: ControllerRevision) -> None:
        owner = stored.metadata.controller_reference
        revision = None if owner is None else read_revision(stored, owner.name)
        if revision is not None:
            self._rollouts.note_revision(revision, is_gone=change.type == ChangeType.DELETED)

    def _observe_set(self, change: Change, pcs: PodCliqueSet) -> None:
        key = (pcs.metadata.namespace, pcs.metadata.name)
        is_gone = change.type == ChangeType.DELETED
        if pcs.metadata.is_terminating or is_gone:
            self._left_at.setdefault(key, self._clock.now())
        else:
            self._left_at.pop(key, None)
        self._training.note_set(pcs, is_gone=is_gone)
        if is_gone:
            self._sets.pop(key, None)
        else:
            self._sets[key] = pcs
            self._rollouts.note_set(pcs)
            if change.before is not None:
                before = _decode(change.before.obj, PodCliqueSet)
                self._report_all(pcs, self._rollouts.check_set(before, pcs))
                self._report_all(pcs, self._turns.check_set(before, pcs))
                self._report_all(pcs, self._training.check_set(before, pcs))
                self._report_all(pcs, check_set_conditions(before, pcs))

    def _observe_pod(self, change: Change, pod: Pod) -> None:
        owner = owner_uid(pod)
        siblings = self._pods.setdefault(owner, {})
        self._rollouts.note_pod(owner, pod, is_gone=change.type == ChangeType.DELETED)
        self._turns.note_pod(owner, pod, is_gone=change.type == ChangeType.DELETED)
        if change.type == ChangeType.DELETED:
            siblings.pop(pod.metadata.uid, None)
            self._note_index(owner, pod_index(pod))
            self._ungated.note(owner, pod.metadata.uid, False)
            return
        siblings[pod.metadata.uid] = pod
        before = _decode(change.before.obj, Pod) if change.before else None
        self._note_index(owner, pod_index(pod))
        self._note_placement(pod)
        self._ungated.note(owner, pod.metadata.uid, not pod.is_gated)
        if change.type == ChangeType.ADDED:
            self._check(pod, self._never_more_pods_than_asked_for, self._never_two_pods_with_one_index)
            self._check(pod, self._created_under_a_referenced_name, self._nothing_new_in_a_marked_unit)
            self._check(pod, self._created_for_a_set_that_stays, self._rollouts.check_created_pod)
            self._check(pod, self._training.check_created_pod)
        if before is not None and before.is_gated and not pod.is_gated:
            self._check(pod, self._ungated_only_when_its_turn_came, self._starts_whole)
            if _foreign_gates(before) != _foreign_gates(pod):
                self._report(pod, "another controller's gate was removed together with Grove's")

    def _observe_clique(self, change: Change, clique: PodClique) -> None:
        uid, key = clique.metadata.uid, (clique.metadata.namespace, clique.metadata.name)
        self._rollouts.note_clique(clique, is_gone=change.type == ChangeType.DELETED)
        if change.type == ChangeType.DELETED:
            self._cliques.pop(uid, None)
            self._training.note_clique_gone(clique)
            self._gone.append((self._clock.now(), clique))
            if self._clique_uids.get(key) == uid:
                del self._clique_uids[key]
            self._note_disturbance(clique.metadata.namespace, clique.metadata.labels.get(labels.PODGANG, ""))
            return
        self._cliques[uid] = clique
        self._clique_uids[key] = uid
        self._turns.note_clique(clique)
        self._replicas.note(uid, clique.spec.replicas)
        if change.type == ChangeType.ADDED:
            self._check(clique, self._nothing_new_in_a_marked_unit, self._created_for_a_set_that_stays)
            self._check(clique, self._training.check_created_clique)
        before = _decode(change.before.obj, PodClique) if change.before else None
        if before is not None and before.status.was_available and not clique.status.was_available:
            self._report(clique, "wasAvailable went back to false")
        if before is not None and before.status != clique.status:
            self._check(clique, self._check_zero_condition)
        if before is not None:
            self._report_all(clique, self._rollouts.check_clique(before, clique))
            pcs = self._rollouts.set_of(clique)
            self._report_all(clique, self._turns.check_counts(pcs, (clique,)) if pcs is not None else ())
            self._report_all(clique, self._training.check_clique(before, clique))

    def _observe_gang(self, change: Change, gang: PodGang) -> None:
        key = (gang.metadata.namespace, gang.metadata.name)
        if change.type == ChangeType.DELETED:
            self._note_disturbance(*key)
            self._gangs.pop(key, None)
            self._note_references(gang, None)
            if labels.TEARDOWN in gang.metadata.annotations:
                self._check(gang, self._a_teardown_leaves_nothing)
            return
        self._gangs[key] = gang
        if change.type == ChangeType.ADDED:
            self._check(gang, self._created_for_a_set_that_stays, self._training.check_not_ended)
        before = _decode(change.before.obj, PodGang) if change.before else None
        self._note_references(before, gang)
        if before is None or before.spec != gang.spec:
            self._check(gang, self._never_references_more_pods_than_asked_for, self._has_no_podgroup_without_pods)
        if before is not None:
            self._check(gang, partial(self._never_lets_go_of_a_live_pod_for_a_new_one, before))
            self._check(gang, partial(self._check_termination, before), partial(self._check_recreated_whole, before))
            self._report_all(gang, self._rollouts.check_recreated(before, gang))
            self._report_all(gang, self._turns.check_replaced_replica(before, gang))
            self._report_all(gang, self._training.check_gang(before, gang))

    def _note_references(self, before: PodGang | None, after: PodGang | None) -> None:
        for gang, at in ((before, self._clock.now()), (after, None)):
            for reference in (r for group in gang.spec.podgroups for r in group.pod_references) if gang else ():
                if at is None:
                    self._unreferenced_at.pop((reference.namespace, reference.name), None)
                else:
                    self._unreferenced_at[(reference.namespace, reference.name)] = at

    def _note_disturbance(self, namespace: str, gang_name: str) -> None:
        gang = self._gangs.get((namespace, gang_name))
        # Also before the gang exists: the operator may be creating it from an older state.
        if gang is None or labels.TEARDOWN not in gang.metadata.annotations:
            self._disturbed_at[(namespace, gang_name)] = self._clock.now()

    def _note_index(self, clique: Uid, index: int) -> None:
        holders = [pod for pod in self._pods[clique].values() if pod_index(pod) == index]
        # An index of a training set stays succeeded after its pod is gone.
        owner = self._cliques.get(clique)
        is_done = owner is not None and index in owner.status.succeeded_indices
        self._training.note_index(clique, index, holders, is_done=is_done)
        self._existing.note(clique, index, is_done or any(pod.is_succeeded or pod.is_active for pod in holders))
        is_placed = any(pod.is_succeeded or (pod.is_active and pod.is_scheduled) for pod in holders)
        self._placed.note(clique, index, is_done or is_placed)

    def _note_placement(self, pod: Pod) -> None:
        incarnation = _incarnation_of(pod)
        if not pod.is_scheduled or incarnation in self._placed_incarnations:
            return
        gang = self._gangs.get((pod.metadata.namespace, pod.metadata.labels.get(labels.PODGANG, "")))
        if gang is not None and self._is_at_minimum(gang, self._placed):
            self._placed_incarnations.add(incarnation)

    # The rules

    def _never_more_pods_than_asked_for(self, pod: Pod) -> str | None:
        owner = owner_uid(pod)
        if owner not in self._cliques:
            return None
        most = self._most_replicas(owner)
        active = sum(other.is_active for other in self._pods[owner].values())
        return f"{active} active pods, at most {most} were requested" if active > most else None

    def _never_references_more_pods_than_asked_for(self, gang: PodGang) -> str | None:
        for group in gang.spec.podgroups:
            clique = self._clique_of(gang, group.name)
            if clique is not None and len(group.pod_references) > self._most_replicas(clique):
                return (
                    f"{len(group.pod_references)} references for {group.name}, {self._most_replicas(clique)} asked for"
                )
        return None

    def _has_no_podgroup_without_pods(self, gang: PodGang) -> str | None:
        """Check that a clique at zero has no podgroup in its gang."""
        if is_training(self._sets.get((gang.metadata.namespace, gang.metadata.labels.get(labels.PART_OF, "")))):
            return None
        for group in gang.spec.podgroups:
            clique = self._clique_of(gang, group.name)
            if clique is not None and self._most_replicas(clique) == 0:
                return f"has a podgroup for {group.name}, which is scaled to zero"
        return None

    def _check_zero_condition(self, clique: PodClique) -> str | None:
        """Check that what is scaled to zero is not in breach. A status describes the spec that was read."""
        condition = find_condition(clique.status.conditions, "MinAvailableBreached")
        pcs = self._sets.get((clique.metadata.namespace, clique.metadata.labels.get(labels.PART_OF, "")))
        if condition is None or is_training(pcs) or clique.status.observed_generation != clique.metadata.generation:
            return None
        is_at_zero, is_reported = clique.spec.replicas == 0, condition.reason == "ScaledToZero"
        if is_at_zero != is_reported:
            return f"requests {clique.spec.replicas} pods, and its condition says {condition.reason}"
        return "is in breach, although it is scaled to zero" if is_at_zero and condition.status != "False" else None

    def _starts_whole(self, pod: Pod) -> str | None:
        """Check that a standalone clique that is scaled up from zero starts only when its minimum exists."""
        clique = self._cliques.get(owner_uid(pod))
        if clique is None or labels.GROUP in clique.metadata.labels:
            return None
        uid, condition = clique.metadata.uid, find_condition(clique.status.conditions, "MinAvailableBreached")
        is_new_start = condition is not None and condition.reason in ("ScaledToZero", "NeverAvailable")
        if not is_new_start or self._ungated.has_other(uid, pod.metadata.uid):
            return None
        if self._existing.count(uid) < min(clique.min_available, self._fewest_replicas(uid)):
            return "ungated although its clique never had its minimum since it was scaled up"
        return None

    def _waits_for_pinned_domain(self, pod: Pod) -> bool:
        """Return whether a pod is pinned to the domain of its scope and not scheduled yet; it may be recreated."""
        owner = self._cliques.get(owner_uid(pod))
        written = owner.spec.pod_spec.get("nodeSelector") or {} if owner is not None else {}
        return not pod.is_scheduled and bool(pod.spec.node_selector.keys() - written.keys())

    def _never_lets_go_of_a_live_pod_for_a_new_one(self, before: PodGang, gang: PodGang) -> str | None:
        was = {reference.name for group in before.spec.podgroups for reference in group.pod_references}
        for group in gang.spec.podgroups:
            named = {reference.name for reference in group.pod_references}
            members = self._pods.get(self._clique_of(gang, group.name) or Uid(""), {}).values()
            let_go = [
                pod.metadata.name
                for pod in members
                if pod.metadata.name in was - named
                and self._is_long_active(pod)
                and not self._waits_for_pinned_domain(pod)
            ]
            new = sorted(named - was - {pod.metadata.name for pod in members})
            if let_go and new:
                return f"lets go of live pod {let_go[0]} and names {new[0]} instead"
        return None

    def _check_termination(self, before: PodGang, gang: PodGang) -> str | None:
        if is_training(self._sets.get((gang.metadata.namespace, gang.metadata.labels.get(labels.PART_OF, "")))):
            # `training.py` checks it when the restart is counted.
            return None
        return self._terminations.check_opened(
            before,
            gang,
            pcs=self._sets.get((gang.metadata.namespace, gang.metadata.labels.get(labels.PART_OF, ""))),
            cliques=(*self._cliques.values(), *self._gone_lately(PodClique)),
            groups=(*self._groups.values(), *self._gone_lately(PodCliqueScalingGroup)),
            now=self._clock.now(),
            is_checked_elsewhere=lambda unit: (
                self._rollouts.rolling_group(gang.metadata.namespace, unit) is not None
                or self._rollouts.is_at_zero(gang.metadata.namespace, unit)
            ),
        )

    def _gone_lately(self, kind: type[T]) -> list[T]:
        """Return objects that were deleted recently: the operator may not know it yet."""
        since = self._staleness.since()
        self._gone = [(at, obj) for at, obj in self._gone if at >= since]
        return [obj for _, obj in self._gone if isinstance(obj, kind)]

    def _check_recreated_whole(self, before: PodGang, gang: PodGang) -> str | None:
        return self._terminations.check_closed(before, gang, self._cliques.values())

    def _created_for_a_set_that_stays(self, obj: HasMetadata) -> str | None:
        key = (obj.metadata.namespace, obj.metadata.labels.get(labels.PART_OF, ""))
        left_at, pcs = self._left_at.get(key), self._sets.get(key)
        if left_at is not None and left_at < self._staleness.since():
            return f"created although set {key[1]} is being deleted"
        if pcs is not None and labels.SET_FINALIZER not in pcs.metadata.finalizers and left_at is None:
            return f"created although set {key[1]} does not have Grove's finalizer"
        return None

    def _never_two_pods_with_one_index(self, pod: Pod) -> str | None:
        siblings = self._pods[owner_uid(pod)].values()
        rivals = [
            other.metadata.name
            for other in siblings
            if other is not pod and other.is_active and pod_index(other) == pod_index(pod)
        ]
        return f"index {pod_index(pod)} is held by {rivals[0]} too" if rivals else None

    def _created_under_a_referenced_name(self, pod: Pod) -> str | None:
        gang = self._gangs.get((pod.metadata.namespace, pod.metadata.labels.get(labels.PODGANG, "")))
        referenced = [ref.name for group in gang.spec.podgroups for ref in group.pod_references] if gang else []
        let_go_at = self._unreferenced_at.get((pod.metadata.namespace, pod.metadata.name))
        if pod.metadata.name in referenced or (let_go_at is not None and let_go_at >= self._staleness.since()):
            return None
        return "created under a name its gang does not reference"

    def _ungated_only_when_its_turn_came(self, pod: Pod) -> str | None:
        base = self._find_undisturbed(pod.metadata.namespace, pod.metadata.labels.get(labels.BASE_PODGANG, ""))
        is_first = _incarnation_of(pod) not in self._placed_incarnations
        if is_first and base is not None and not self._is_at_minimum(base, self._placed):
            return f"ungated although base gang {base.metadata.name} is not scheduled"
        gang = self._find_undisturbed(pod.metadata.namespace, pod.metadata.labels.get(labels.PODGANG, ""))
        if gang is None or self._has_started(gang, pod):
            return None
        is_base = labels.BASE_PODGANG not in pod.metadata.labels
        if is_base and (gang.metadata.namespace, gang.metadata.name) not in self._services:
            return f"ungated although service {gang.metadata.name} never existed"
        if not self._is_at_minimum(gang, self._existing):
            return f"ungated although gang {gang.metadata.name} never had its minimum"
        if self.is_nothing_rejected and not self._is_whole(gang):
            return f"ungated although gang {gang.metadata.name} was never complete, and nothing was rejected"
        return None

    def _nothing_new_in_a_marked_unit(self, obj: HasMetadata) -> str | None:
        gang = self._gangs.get((obj.metadata.namespace, obj.metadata.labels.get(labels.PODGANG, "")))
        if gang is None or labels.TEARDOWN not in gang.metadata.annotations:
            return None
        return f"created while gang {gang.metadata.name} is being torn down"

    def _a_teardown_leaves_nothing(self, gang: PodGang) -> str | None:
        # When a set is deleted, everything is deleted with it, in any order.
        if (gang.metadata.namespace, gang.metadata.labels.get(labels.PART_OF, "")) in self._left_at:
            return None
        incarnation = gang.metadata.labels.get(labels.INCARNATION)
        for clique in self._cliques.values():
            is_of_gang = clique.metadata.labels.get(labels.PODGANG) == gang.metadata.name
            is_of_incarnation = clique.metadata.labels.get(labels.INCARNATION) == incarnation
            same_namespace = clique.metadata.namespace == gang.metadata.namespace
            # The garbage collector deletes it if its owner is gone.
            is_staying = not clique.metadata.is_terminating and owner_uid(clique) in self._owners
            if is_of_gang and is_of_incarnation and same_namespace and is_staying:
                return f"gang gone, but its clique {clique.metadata.name} is left"
        return None

    # Queries

    def _most_replicas(self, clique: Uid) -> int:
        """Return the largest recent number of replicas of a clique."""
        return max(self._replicas.recent(clique))

    def _fewest_replicas(self, clique: Uid) -> int:
        return min(self._replicas.recent(clique))

    def _is_long_active(self, pod: Pod) -> bool:
        created_at = pod.metadata.creation_timestamp
        return pod.is_active and created_at is not None and created_at < self._staleness.since()

    def _find_undisturbed(self, namespace: str, gang_name: str) -> PodGang | None:
        """Return the gang; None if another client just deleted a part of it: the operator may not know it yet."""
        disturbed_at = self._disturbed_at.get((namespace, gang_name))
        is_disturbed = disturbed_at is not None and disturbed_at >= self._staleness.since()
        return None if is_disturbed else self._gangs.get((namespace, gang_name))

    def _is_scheduled(self, namespace: str, gang_name: str) -> bool:
        gang = self._find_undisturbed(namespace, gang_name)
        return gang is None or self._is_at_minimum(gang, self._placed)

    def _clique_of(self, gang: PodGang, name: str) -> Uid | None:
        return self._clique_uids.get((gang.metadata.namespace, name))

    def _is_at_minimum(self, gang: PodGang, fact: Lately[int]) -> bool:
        """Return whether every podgroup has its minimum. Cliques that are, or recently were, at zero do not count."""
        needed = [(self._clique_of(gang, g.name), g.min_replicas) for g in gang.spec.podgroups]
        return all(
            fact.count(uid) >= minimum
            for uid, minimum in needed
            if uid is None or uid not in self._cliques or self._fewest_replicas(uid)
        )

    def _is_whole(self, gang: PodGang) -> bool:
        cliques = [self._clique_of(gang, group.name) for group in gang.spec.podgroups]
        return all(uid is None or self._existing.count(uid) >= self._fewest_replicas(uid) for uid in cliques)

    def _has_started(self, gang: PodGang, pod: Pod) -> bool:
        """Return whether another pod of the gang is ungated: then the first placement has begun."""
        return any(
            self._ungated.has_other(self._clique_of(gang, group.name), pod.metadata.uid)
            for group in gang.spec.podgroups
        )

    def _check(self, obj: T, *rules: Callable[[T], str | None]) -> None:
        for rule in rules:
            self.checked_count += 1
            reason = rule(obj)
            if reason is not None:
                self._report(obj, reason)

    def _report_all(self, obj: HasMetadata, reasons: Iterable[str]) -> None:
        self.checked_count += 1
        for reason in reasons:
            self._report(obj, reason)

    def _report(self, obj: HasMetadata, reason: str) -> None:
        self._report_at(obj.metadata.namespace, obj.metadata.name, reason)

    def _report_at(self, namespace: str, name: str, reason: str | None) -> None:
        if reason is not None:
            self.broken.append(f"{self._clock.now():%H:%M:%S.%f} {namespace}/{name}: {reason}")


def _incarnation_of(pod: Pod) -> tuple[str, str, str]:
    found = pod.metadata.labels
    return pod.metadata.namespace, found.get(labels.PODGANG, ""), found.get(labels.INCARNATION, "")


def _foreign_gates(pod: Pod) -> list[str]:
    return [gate.name for gate in pod.spec.scheduling_gates if gate.name != labels.GATE]


def _decode(obj: JsonObject, view: type[V]) -> V:
    return msgspec.convert(obj, view)
