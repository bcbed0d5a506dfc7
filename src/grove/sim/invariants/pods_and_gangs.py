"""The safety rules, stated once and checked after every write to the store: each returns the reason it is broken.

They see only what the API shows. A decision takes a moment to arrive, so a rule that compares with what was asked for
or what was placed allows what was true a few seconds before (`staleness.py`). Those of gang termination, of updates
and of training have files of their own (`gang_termination.py`, `rollout.py`, `update_turns.py`,
`training.py`). They see only what belongs to a set, which is decided in `ownership.py`. Rules about the
operator's requests, rather than what came of them, are in `requests.py`.
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
from grove.sim.invariants.requests import breach_of_manners
from grove.sim.invariants.rollout import RolloutRules, Tables
from grove.sim.invariants.staleness import Lately, RecentValues, Sight, owner_uid
from grove.sim.invariants.training import TrainingRules, is_training
from grove.sim.invariants.update_turns import TurnRules

T = TypeVar("T", bound=HasMetadata)
V = TypeVar("V", bound=msgspec.Struct)


class InvariantBroken(Bug):
    """A safety rule does not hold; the message names the rule, the object and the time."""


class Invariants:
    """Watches a store from its first write on; `broken` holds what was found, and `check` raises it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: dict[Uid, dict[Uid, Pod]] = {}
        self._cliques: dict[Uid, PodClique] = {}
        self._clique_uids: dict[tuple[str, str], Uid] = {}
        self._gangs: dict[tuple[str, str], PodGang] = {}
        # Pod names that a gang does not reference any more, and since when.
        self._unreferenced_at: dict[tuple[str, str], datetime] = {}
        # Gangs of which somebody else deleted a part: the operator did not, so nothing was torn down.
        self._disturbed_at: dict[tuple[str, str], datetime] = {}
        self._owners: dict[Uid, None] = {}
        # Those that ever were: somebody may take one away at any moment.
        self._services: set[tuple[str, str]] = set()
        self._groups: dict[Uid, PodCliqueScalingGroup] = {}
        self._ownership = OwnershipRules()
        self._terminations = TerminationRules()
        self._gone: list[tuple[datetime, HasMetadata]] = []
        # The sets by name, and when those that are leaving or gone began to leave.
        self._sets: dict[tuple[str, str], PodCliqueSet] = {}
        self._left_at: dict[tuple[str, str], datetime] = {}
        self._sight = Sight(clock)
        # How many pods each clique asks for.
        self._asked: RecentValues[int] = RecentValues(clock, self._sight)
        self._existing: Lately[int] = Lately(clock, self._sight)
        self._placed: Lately[int] = Lately(clock, self._sight)
        self._ungated: Lately[Uid] = Lately(clock, self._sight)
        # Gangs that were ever scheduled, with the incarnation of their pods.
        self._placed_lives: set[tuple[str, str, str]] = set()
        tables = Tables(
            pods=self._pods, cliques=self._cliques, groups=self._groups, sets=self._sets, gangs=self._gangs
        )  # fmt: skip
        self._rollouts = RolloutRules(clock, self._sight, tables, self._is_scheduled)
        self._turns = TurnRules(clock, self._sight, tables, self._rollouts)
        self._training = TrainingRules(clock, self._sight, tables)
        # Whoever knows that the server never refused a pod may say so: then only whole gangs begin.
        self.is_nothing_refused = False
        self.broken: list[str] = []
        self.checked_count = 0

    def check(self) -> None:
        """Raise what was found so far. Call it at rest, while the operator runs: it reported every breach by then."""
        for clique, reason in self._training.find_unreported_breaches():
            self._report(clique, reason)
        self.check_safety()

    def check_safety(self) -> None:
        """Raise what was found so far. Call it at any time."""
        if self.broken:
            raise InvariantBroken("\n".join(self.broken))

    def lose_sight(self) -> None:
        """A watch of the operator says nothing: until `regain_sight` it may act on what was true before."""
        self._sight.lose()

    def regain_sight(self) -> None:
        self._sight.regain()

    def observe(self, change: Change) -> None:
        """One write to the store: remember it, then ask every rule that it could break."""
        if not self._ownership.note(change):
            return
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
        """One write of the operator, as it was asked for."""
        reason = breach_of_manners(write.request)
        if reason is not None:
            self.broken.append(f"{self._clock.now():%H:%M:%S.%f} {reason}")
        for reason in self._ownership.judge(write):
            self._complain(write.target.namespace, write.target.name, f"{write.target.resource}: {reason}")
        if write.status < 300 and write.target.verb == "delete":
            self._observe_delete(write)

    def end_request(self) -> None:
        """Note that the server has carried a request out, of the operator or of somebody else."""
        self._ownership.end_request()

    # What happened

    def _observe_delete(self, write: RecordedWrite) -> None:
        key = (write.target.namespace, write.target.name)
        uid = Uid(msgspec.json.decode(write.request.body).get("preconditions", {}).get("uid", ""))
        if write.target.resource == "pods":
            self._complain(*key, self._rollouts.pod_deleted_rightly(key, uid))
            for reason in self._turns.pod_taken_rightly(uid):
                self._complain(*key, reason)
        if write.target.resource == "controllerrevisions":
            self._complain(*key, self._rollouts.revision_deleted_rightly(key, uid))

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
            self._ask_all(group, self._rollouts.group_rightly(before, group))
            pcs = self._rollouts.set_of(group)
            self._ask_all(group, self._turns.counts_rightly(pcs) if pcs is not None else ())

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
                self._ask_all(pcs, self._rollouts.set_rightly(before, pcs))
                self._ask_all(pcs, self._turns.set_rightly(before, pcs))
                self._ask_all(pcs, self._training.set_rightly(before, pcs))

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
        self._ungated.note(owner, pod.metadata.uid, not pod.is_behind_our_gate)
        if change.type == ChangeType.ADDED:
            self._ask(pod, self._never_more_pods_than_asked_for, self._never_two_pods_with_one_index)
            self._ask(pod, self._created_under_a_referenced_name, self._nothing_new_in_a_marked_unit)
            self._ask(pod, self._created_for_a_set_that_stays, self._rollouts.pod_made_rightly)
            self._ask(pod, self._training.pod_made_rightly)
        if before is not None and before.is_behind_our_gate and not pod.is_behind_our_gate:
            self._ask(pod, self._ungated_only_when_its_turn_came, self._starts_whole)
            if _foreign_gates(before) != _foreign_gates(pod):
                self._report(pod, "another controller's gate went together with ours")

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
        self._asked.note(uid, clique.spec.replicas)
        if change.type == ChangeType.ADDED:
            self._ask(clique, self._nothing_new_in_a_marked_unit, self._created_for_a_set_that_stays)
            self._ask(clique, self._training.clique_made_rightly)
        before = _decode(change.before.obj, PodClique) if change.before else None
        if before is not None and before.status.was_available and not clique.status.was_available:
            self._report(clique, "wasAvailable went back to false")
        if before is not None and before.status != clique.status:
            self._ask(clique, self._is_told_at_zero_rightly)
        if before is not None:
            self._ask_all(clique, self._rollouts.clique_rightly(before, clique))
            pcs = self._rollouts.set_of(clique)
            self._ask_all(clique, self._turns.counts_rightly(pcs) if pcs is not None else ())
            self._ask_all(clique, self._training.clique_rightly(before, clique))

    def _observe_gang(self, change: Change, gang: PodGang) -> None:
        key = (gang.metadata.namespace, gang.metadata.name)
        if change.type == ChangeType.DELETED:
            self._note_disturbance(*key)
            self._gangs.pop(key, None)
            self._note_references(gang, None)
            if labels.TEARDOWN in gang.metadata.annotations:
                self._ask(gang, self._a_teardown_leaves_nothing)
            return
        self._gangs[key] = gang
        if change.type == ChangeType.ADDED:
            self._ask(gang, self._created_for_a_set_that_stays, self._training.made_before_the_end)
        before = _decode(change.before.obj, PodGang) if change.before else None
        self._note_references(before, gang)
        if before is None or before.spec != gang.spec:
            self._ask(gang, self._never_references_more_pods_than_asked_for, self._has_no_podgroup_without_pods)
        if before is not None:
            self._ask(gang, partial(self._never_lets_go_of_a_live_pod_for_a_new_one, before))
            self._ask(gang, partial(self._terminates_rightly, before), partial(self._recreates_wholly, before))
            self._ask_all(gang, self._rollouts.recreates_rightly(before, gang))
            self._ask_all(gang, self._turns.replica_taken_rightly(before, gang))
            self._ask_all(gang, self._training.gang_rightly(before, gang))

    def _note_references(self, before: PodGang | None, after: PodGang | None) -> None:
        for gang, at in ((before, self._clock.now()), (after, None)):
            for reference in (r for group in gang.spec.podgroups for r in group.pod_references) if gang else ():
                if at is None:
                    self._unreferenced_at.pop((reference.namespace, reference.name), None)
                else:
                    self._unreferenced_at[(reference.namespace, reference.name)] = at

    def _note_disturbance(self, namespace: str, gang_name: str) -> None:
        gang = self._gangs.get((namespace, gang_name))
        # Also before the gang exists: the operator may be about to make it of what it saw.
        if gang is None or labels.TEARDOWN not in gang.metadata.annotations:
            self._disturbed_at[(namespace, gang_name)] = self._clock.now()

    def _note_index(self, clique: Uid, index: int) -> None:
        holders = [pod for pod in self._pods[clique].values() if pod_index(pod) == index]
        # Of a training set, what ended well stays done when its pod is gone.
        owner = self._cliques.get(clique)
        is_done = owner is not None and index in owner.status.succeeded_indices
        self._training.note_index(clique, index, holders, is_done=is_done)
        self._existing.note(clique, index, is_done or any(pod.is_succeeded or pod.is_active for pod in holders))
        is_placed = any(pod.is_succeeded or (pod.is_active and pod.is_scheduled) for pod in holders)
        self._placed.note(clique, index, is_done or is_placed)

    def _note_placement(self, pod: Pod) -> None:
        life = _life_of(pod)
        if not pod.is_scheduled or life in self._placed_lives:
            return
        gang = self._gangs.get((pod.metadata.namespace, pod.metadata.labels.get(labels.PODGANG, "")))
        if gang is not None and self._is_at_minimum(gang, self._placed):
            self._placed_lives.add(life)

    # The rules

    def _never_more_pods_than_asked_for(self, pod: Pod) -> str | None:
        owner = owner_uid(pod)
        if owner not in self._cliques:
            return None
        most = self._most_asked(owner)
        active = sum(other.is_active for other in self._pods[owner].values())
        return f"{active} active pods, at most {most} were asked for" if active > most else None

    def _never_references_more_pods_than_asked_for(self, gang: PodGang) -> str | None:
        for group in gang.spec.podgroups:
            clique = self._clique_of(gang, group.name)
            if clique is not None and len(group.pod_references) > self._most_asked(clique):
                return f"{len(group.pod_references)} references for {group.name}, {self._most_asked(clique)} asked for"
        return None

    def _has_no_podgroup_without_pods(self, gang: PodGang) -> str | None:
        """What is scaled to zero has no podgroup in its gang."""
        if is_training(self._sets.get((gang.metadata.namespace, gang.metadata.labels.get(labels.PART_OF, "")))):
            return None
        for group in gang.spec.podgroups:
            clique = self._clique_of(gang, group.name)
            if clique is not None and self._most_asked(clique) == 0:
                return f"has a podgroup for {group.name}, which is scaled to zero"
        return None

    def _is_told_at_zero_rightly(self, clique: PodClique) -> str | None:
        """What is scaled to zero is never in breach. A status is written for the spec that was read."""
        told = find_condition(clique.status.conditions, "MinAvailableBreached")
        pcs = self._sets.get((clique.metadata.namespace, clique.metadata.labels.get(labels.PART_OF, "")))
        if told is None or is_training(pcs) or clique.status.observed_generation != clique.metadata.generation:
            return None
        is_at_zero, is_said = clique.spec.replicas == 0, told.reason == "ScaledToZero"
        if is_at_zero != is_said:
            return f"asks for {clique.spec.replicas} pods, and its condition says {told.reason}"
        return "is in breach, although it is scaled to zero" if is_at_zero and told.status != "False" else None

    def _starts_whole(self, pod: Pod) -> str | None:
        """A standalone clique that was scaled up from zero while others run starts when its minimum exists."""
        clique = self._cliques.get(owner_uid(pod))
        if clique is None or labels.GROUP in clique.metadata.labels:
            return None
        uid, told = clique.metadata.uid, find_condition(clique.status.conditions, "MinAvailableBreached")
        is_new_start = told is not None and told.reason in ("ScaledToZero", "NeverAvailable")
        if not is_new_start or self._ungated.has_other(uid, pod.metadata.uid):
            return None
        if self._existing.count(uid) < min(clique.min_available, self._least_asked(uid)):
            return "ungated although its clique never had its minimum since it was scaled up"
        return None

    def _waits_for_home(self, pod: Pod) -> bool:
        """Sent after the others of its scope, and not there yet: should they go elsewhere, it is made anew."""
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
                if pod.metadata.name in was - named and self._is_long_active(pod) and not self._waits_for_home(pod)
            ]
            new = sorted(named - was - {pod.metadata.name for pod in members})
            if let_go and new:
                return f"lets go of live pod {let_go[0]} and names {new[0]} instead"
        return None

    def _terminates_rightly(self, before: PodGang, gang: PodGang) -> str | None:
        if is_training(self._sets.get((gang.metadata.namespace, gang.metadata.labels.get(labels.PART_OF, "")))):
            # Judged where its restart is counted.
            return None
        return self._terminations.opened_rightly(
            before,
            gang,
            pcs=self._sets.get((gang.metadata.namespace, gang.metadata.labels.get(labels.PART_OF, ""))),
            cliques=(*self._cliques.values(), *self._gone_lately(PodClique)),
            groups=(*self._groups.values(), *self._gone_lately(PodCliqueScalingGroup)),
            now=self._clock.now(),
            is_judged_elsewhere=lambda unit: (
                self._rollouts.rolling_group(gang.metadata.namespace, unit) is not None
                or self._rollouts.is_at_zero(gang.metadata.namespace, unit)
            ),
        )

    def _gone_lately(self, kind: type[T]) -> list[T]:
        """What was deleted a moment ago: the operator may not know."""
        since = self._sight.since()
        self._gone = [(at, obj) for at, obj in self._gone if at >= since]
        return [obj for _, obj in self._gone if isinstance(obj, kind)]

    def _recreates_wholly(self, before: PodGang, gang: PodGang) -> str | None:
        return self._terminations.closed_rightly(before, gang, self._cliques.values())

    def _created_for_a_set_that_stays(self, obj: HasMetadata) -> str | None:
        key = (obj.metadata.namespace, obj.metadata.labels.get(labels.PART_OF, ""))
        left_at, pcs = self._left_at.get(key), self._sets.get(key)
        if left_at is not None and left_at < self._sight.since():
            return f"created although set {key[1]} is being deleted"
        if pcs is not None and labels.SET_FINALIZER not in pcs.metadata.finalizers and left_at is None:
            return f"created although set {key[1]} does not carry our finalizer"
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
        if pod.metadata.name in referenced or (let_go_at is not None and let_go_at >= self._sight.since()):
            return None
        return "created under a name its gang does not reference"

    def _ungated_only_when_its_turn_came(self, pod: Pod) -> str | None:
        base = self._undisturbed(pod.metadata.namespace, pod.metadata.labels.get(labels.BASE_PODGANG, ""))
        is_first = _life_of(pod) not in self._placed_lives
        if is_first and base is not None and not self._is_at_minimum(base, self._placed):
            return f"ungated although base gang {base.metadata.name} is not scheduled"
        gang = self._undisturbed(pod.metadata.namespace, pod.metadata.labels.get(labels.PODGANG, ""))
        if gang is None or self._has_started(gang, pod):
            return None
        is_base = labels.BASE_PODGANG not in pod.metadata.labels
        if is_base and (gang.metadata.namespace, gang.metadata.name) not in self._services:
            return f"ungated although service {gang.metadata.name} never was"
        if not self._is_at_minimum(gang, self._existing):
            return f"ungated although gang {gang.metadata.name} never had its minimum"
        if self.is_nothing_refused and not self._is_whole(gang):
            return f"ungated although gang {gang.metadata.name} was never whole, and nothing was refused"
        return None

    def _nothing_new_in_a_marked_unit(self, obj: HasMetadata) -> str | None:
        gang = self._gangs.get((obj.metadata.namespace, obj.metadata.labels.get(labels.PODGANG, "")))
        if gang is None or labels.TEARDOWN not in gang.metadata.annotations:
            return None
        return f"created while gang {gang.metadata.name} is being torn down"

    def _a_teardown_leaves_nothing(self, gang: PodGang) -> str | None:
        # A set that is deleted takes everything with it, in any order.
        if (gang.metadata.namespace, gang.metadata.labels.get(labels.PART_OF, "")) in self._left_at:
            return None
        incarnation = gang.metadata.labels.get(labels.INCARNATION)
        for clique in self._cliques.values():
            is_of_gang = clique.metadata.labels.get(labels.PODGANG) == gang.metadata.name
            is_of_life = clique.metadata.labels.get(labels.INCARNATION) == incarnation
            same_namespace = clique.metadata.namespace == gang.metadata.namespace
            # Without its owner it goes by itself: the garbage collector takes it.
            is_staying = not clique.metadata.is_terminating and owner_uid(clique) in self._owners
            if is_of_gang and is_of_life and same_namespace and is_staying:
                return f"gang gone, but its clique {clique.metadata.name} is left"
        return None

    # What the rules ask

    def _most_asked(self, clique: Uid) -> int:
        """The most pods that a clique asks for, or did a moment ago."""
        return max(self._asked.recent(clique))

    def _least_asked(self, clique: Uid) -> int:
        return min(self._asked.recent(clique))

    def _is_long_active(self, pod: Pod) -> bool:
        created_at = pod.metadata.creation_timestamp
        return pod.is_active and created_at is not None and created_at < self._sight.since()

    def _undisturbed(self, namespace: str, gang_name: str) -> PodGang | None:
        """The gang, unless somebody else took a part of it away just now and the operator may not know."""
        disturbed_at = self._disturbed_at.get((namespace, gang_name))
        is_disturbed = disturbed_at is not None and disturbed_at >= self._sight.since()
        return None if is_disturbed else self._gangs.get((namespace, gang_name))

    def _is_scheduled(self, namespace: str, gang_name: str) -> bool:
        gang = self._undisturbed(namespace, gang_name)
        return gang is None or self._is_at_minimum(gang, self._placed)

    def _clique_of(self, gang: PodGang, name: str) -> Uid | None:
        return self._clique_uids.get((gang.metadata.namespace, name))

    def _is_at_minimum(self, gang: PodGang, fact: Lately[int]) -> bool:
        """Of every podgroup, but those of cliques that are scaled to zero, or were a moment ago."""
        needed = [(self._clique_of(gang, g.name), g.min_replicas) for g in gang.spec.podgroups]
        return all(
            fact.count(uid) >= minimum
            for uid, minimum in needed
            if uid is None or uid not in self._cliques or self._least_asked(uid)
        )

    def _is_whole(self, gang: PodGang) -> bool:
        cliques = [self._clique_of(gang, group.name) for group in gang.spec.podgroups]
        return all(uid is None or self._existing.count(uid) >= self._least_asked(uid) for uid in cliques)

    def _has_started(self, gang: PodGang, pod: Pod) -> bool:
        """Another pod of the gang is past the gate: the first placement has begun."""
        return any(
            self._ungated.has_other(self._clique_of(gang, group.name), pod.metadata.uid)
            for group in gang.spec.podgroups
        )

    def _ask(self, obj: T, *rules: Callable[[T], str | None]) -> None:
        for rule in rules:
            self.checked_count += 1
            reason = rule(obj)
            if reason is not None:
                self._report(obj, reason)

    def _ask_all(self, obj: HasMetadata, reasons: Iterable[str]) -> None:
        self.checked_count += 1
        for reason in reasons:
            self._report(obj, reason)

    def _report(self, obj: HasMetadata, reason: str) -> None:
        self._complain(obj.metadata.namespace, obj.metadata.name, reason)

    def _complain(self, namespace: str, name: str, reason: str | None) -> None:
        if reason is not None:
            self.broken.append(f"{self._clock.now():%H:%M:%S.%f} {namespace}/{name}: {reason}")


def _life_of(pod: Pod) -> tuple[str, str, str]:
    found = pod.metadata.labels
    return pod.metadata.namespace, found.get(labels.PODGANG, ""), found.get(labels.INCARNATION, "")


def _foreign_gates(pod: Pod) -> list[str]:
    return [gate.name for gate in pod.spec.scheduling_gates if gate.name != labels.GATE]


def _decode(obj: JsonObject, view: type[V]) -> V:
    return msgspec.convert(obj, view)
