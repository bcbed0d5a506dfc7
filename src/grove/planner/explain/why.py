"""Explain what an object waits for, what happens next and when; the most important first.

This module decides nothing. It puts into words the findings of the plan, the views behind it, and what schedulers and
kubelets wrote on the pods. Rejected creates, which only a running operator remembers, are read from the conditions that
it wrote.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import IntEnum
from functools import partial

from grove.api import labels
from grove.api.reasons import ConditionType, FindingReason, Reason
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODS
from grove.api.types.meta import ConditionStatus, LastError, ObjectMeta, find_condition
from grove.api.types.pod import Pod
from grove.planner.actions import CreateRejection, Finding, Plan, PlanStruct
from grove.planner.desired_state import DesiredGang, build_desired_replica
from grove.planner.explain.autoscaling import explain_autoscalers
from grove.planner.explain.cluster_facts import NO_FACTS, ClusterFacts
from grove.planner.explain.deletion import explain_deletion
from grove.planner.explain.finalizers import explain_held_objects
from grove.planner.explain.folding import fold
from grove.planner.explain.operator_absence import explain_absent_operator
from grove.planner.explain.pods import (
    Wait,
    blocks_minimum,
    describe_exit,
    explain_foreign_gates,
    explain_own_gate,
    explain_recent_crashes,
    explain_stuck_pods,
    explain_unplaced,
    explain_unready,
    has_foreign_gate,
    is_down,
    is_gated_by_us,
    is_unplaced,
)
from grove.planner.explain.rejections import describe_rejection
from grove.planner.explain.startup import explain_startup_waits, is_waiting_for_cliques
from grove.planner.explain.text import (
    Explanation,
    as_effect,
    cause,
    count_noun,
    effect,
    format_when,
    list_pods,
    next_step,
    note,
    order_by_kind,
    verb,
)
from grove.planner.explain.training import explain_limits, explain_outcome
from grove.planner.explain.updates import explain_update
from grove.planner.gangs.podgang import referenced_names
from grove.planner.gangs.rejected_gangs import find_gang_backoff, has_started, is_below_minima, pods_failure_key
from grove.planner.gangs.scheduling_gates import base_placement
from grove.planner.pods.pod_sync import plan_pods
from grove.planner.snapshot import Snapshot
from grove.planner.status.availability import AT_ZERO, clique_breach
from grove.planner.status.write_failures import WRITE_REASONS
from grove.planner.views import CliqueView, ReplicaView

LISTED_GANGS = 5
# They explain why a gang is not complete and why an update waits, not the other way round.
ROOT_CAUSES = (
    FindingReason.CONTAINER_CRASHES,
    FindingReason.CONTAINER_CANNOT_START,
    FindingReason.NODE_LOST,
    FindingReason.NEVER_FITS,
)


class ExplanationPriority(IntEnum):
    """The order in which gangs are explained."""

    BROKEN = 0
    LOST = 1
    BLOCKED = 2
    BEHIND = 3
    EXTRAS = 4


# The time in a message about a failing write (`planner/status/write_failures.py`).
_SINCE = re.compile(r" since (\S+):(?= )")
_REJECTIONS = (Reason.CREATE_REJECTED, Reason.NAME_TAKEN)


class GangExplanation(PlanStruct):
    """The reasons why one gang is not ready."""

    rank: ExplanationPriority
    explanations: tuple[Explanation, ...]


def recompute_rejections(clique: CliqueView, now: datetime) -> tuple[CreateRejection, ...]:
    """Return the rejected creates behind a clique's condition `PodsRejected`, one per attempt so far.

    Only the operator knows the number of its attempts. They follow the back-off schedule, so they can be recomputed.
    """
    reported = find_condition(clique.clique.status.conditions, ConditionType.PODS_REJECTED)
    if reported is None or reported.status != "True" or reported.last_transition_time is None:
        return ()
    first_at = reported.last_transition_time
    attempts: list[CreateRejection] = []
    next_at: datetime | None = first_at
    while next_at is not None and (next_at <= now or not attempts):
        failure = CreateRejection(
            key=pods_failure_key(clique.name), code=reported.reason, message=reported.message,
            count=len(attempts) + 1, first_at=first_at, last_at=next_at,
        )  # fmt: skip
        attempts.append(failure)
        backoff = find_gang_backoff((clique,), (failure,), gangs_ahead_count=0)
        next_at = backoff.retry_at if backoff else None
    return tuple(attempts)


class Explainer:
    """An explainer of one set and its parts.

    `pods` are all pods of the set, including those whose clique was deleted already.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        plan: Plan,
        now: datetime,
        facts: ClusterFacts = NO_FACTS,
        pods: Iterable[Pod] = (),
    ) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._now = now
        self._facts = facts
        self._findings: dict[str, list[Finding]] = {}
        for finding in plan.findings:
            self._findings.setdefault(finding.about, []).append(finding)
        self._gangs: dict[str, tuple[ReplicaView, DesiredGang]] = {}
        self._cliques: dict[str, tuple[ReplicaView, DesiredGang]] = {}
        for replica in snapshot.replicas:
            self._index_gangs(replica)
        seen = {pod.metadata.uid for clique in self._all_cliques() for pod in _pods(clique)}
        self._orphans = tuple(pod for pod in pods if pod.metadata.uid not in seen)

    def _index_gangs(self, replica: ReplicaView) -> None:
        scale = {group.metadata.name: group.spec.replicas for group in replica.groups.values()}
        for gang in build_desired_replica(self._snapshot.context, replica.index, scale).gangs:
            self._gangs[gang.name] = (replica, gang)
            self._cliques.update({clique.name: (replica, gang) for clique in gang.cliques})

    def explain_failing_writes(self, about: str) -> tuple[Explanation, ...]:
        """Explain writes of the set that keep failing, from its condition. This comes before everything else."""
        reported = find_condition(self._snapshot.pcs.status.conditions, ConditionType.RECONCILE_FAILED)
        if reported is None or reported.status != ConditionStatus.TRUE:
            return ()
        # Rejected pods are explained with the gang that needs them.
        is_rejected = reported.reason in _REJECTIONS and not reported.message.startswith(f"cannot create {PODS.kind} ")
        if reported.reason not in WRITE_REASONS and not is_rejected:
            return ()
        pause = "5 minutes" if is_rejected else "30 s"
        since = _SINCE.search(reported.message)
        return (
            cause(
                about,
                reported.reason,
                f"{_SINCE.sub(':', reported.message, count=1)}.",
                detail=f"It has failed since {since[1]}." if since else "",
            ),
            next_step(about, f"the operator retries at least every {pause}, and continues when the write succeeds."),
        )

    # One function per level

    def explain_set(self) -> tuple[Explanation, ...]:
        about = f"podcliqueset/{self._snapshot.context.name}"
        whole = self._explain_whole_set(about)
        if whole:
            return whole
        gangs = [(name, found) for name in self._gangs if (found := self._build_gang_explanation(name))]
        gangs.sort(key=lambda gang: gang[1].rank)
        listed = fold([(name, gang.explanations) for name, gang in gangs], about, LISTED_GANGS)
        is_reported = bool(gangs or self.explain_failing_writes(about))
        causes = self._explain_errors(about, () if is_reported else self._snapshot.pcs.status.last_errors)
        stuck = (*explain_held_objects(self._children()), *explain_stuck_pods(self._all_pods(), self._facts))
        is_explained = self._is_update_explained(gangs)
        update = explain_update(
            about, self._snapshot.pcs, self._findings.get(about, ()), is_explained=is_explained
        )  # fmt: skip
        waits = order_by_kind((*listed, *map(as_effect, update))) if is_explained else (*update, *listed)
        reported = (*self._explain_excess(about), *causes, *waits, *stuck) or self._explain_nothing(
            about, self._all_cliques()
        )
        return (
            *reported,
            *self._explain_missing_topology(about),
            *self._explain_scheduler_limits(about),
            *explain_limits(about, self._snapshot.pcs, self._now),
            *explain_autoscalers(self._facts.autoscalers, self._scalable()),
            *self._explain_unsupported_fields(about),
        )

    def _is_update_explained(self, gangs: Iterable[tuple[str, GangExplanation]]) -> bool:
        """Return whether something else explains why an update waits: a failing container, or nodes without room."""
        is_failing = any(one.reason in ROOT_CAUSES for _, gang in gangs for one in gang.explanations)
        return is_failing or bool(self._facts.misfits)

    def explain_group(self, name: str) -> tuple[Explanation, ...]:
        about = f"podcliquescalinggroup/{name}"
        cliques = [
            clique
            for replica in self._snapshot.replicas
            for clique in replica.cliques.values()
            if clique.clique.metadata.controller
            in [GROUPS.owner_key(group.metadata) for group in replica.groups.values() if group.metadata.name == name]
        ]
        names = [gang.name for _, gang in self._gangs.values() if any(clique.group == name for clique in gang.cliques)]
        gangs = [(gang, found) for gang in names if (found := self._explain_part(gang, cliques))]
        gangs.sort(key=lambda gang: gang[1].rank)
        held = explain_held_objects(self._children(about, *(clique.name for clique in cliques)))
        reported = (*held, *fold([(gang, found.explanations) for gang, found in gangs], about, LISTED_GANGS))
        groups = (group for replica in self._snapshot.replicas for group in replica.groups.values())
        if not (reported or cliques) and any(one.metadata.name == name and not one.spec.replicas for one in groups):
            reported = (note(about, f"Nothing: {AT_ZERO}."),)
        return self._explain_whole_set(about) or (
            *(reported or self._explain_nothing(about, cliques)),
            *explain_autoscalers(self._facts.autoscalers, self._scalable(about)),
        )

    def _explain_part(self, name: str, cliques: Sequence[CliqueView]) -> GangExplanation | None:
        """Explain what these cliques of a gang wait for, without what only its other cliques wait for."""
        found = self._build_gang_explanation(name)
        views = tuple(view for view in self._views(name) if view in cliques)
        if found is None or not views or found.explanations[0].reason not in (*ROOT_CAUSES, Reason.MINIMUM_NOT_READY):
            return found
        return self._explain_pods(f"podgang/{name}", views)

    def explain_gang(self, name: str) -> tuple[Explanation, ...]:
        about = f"podgang/{name}"
        if name not in self._gangs:
            return self._explain_whole_set(about) or self._explain_unwanted(about, about)
        found = self._build_gang_explanation(name)
        _, gang = self._gangs[name]
        held = explain_held_objects(self._children(about, *(view.name for view in self._views(name))))
        reported = (*held, *(found.explanations if found else ()))
        if (
            found
            and found.rank is ExplanationPriority.BEHIND
            and (base := self._build_gang_explanation(gang.base_gang))
        ):
            # The root cause is what its base gang waits for.
            reported = order_by_kind((*held, *base.explanations, *found.explanations))
        return self._explain_whole_set(about) or reported or self._explain_nothing(about, self._views(name))

    def explain_clique(self, name: str) -> tuple[Explanation, ...]:
        about = f"podclique/{name}"
        if name not in self._cliques:
            return self._explain_whole_set(about) or self._explain_unwanted(about, name)
        replica, gang = self._cliques[name]
        clique = replica.cliques.get(name)
        found = self._build_gang_explanation(gang.name)
        if clique is None or (found and found.rank in (ExplanationPriority.BROKEN, ExplanationPriority.BEHIND)):
            return self.explain_gang(gang.name)
        own = self._explain_pods(about, (clique,))
        waits_for_node = any(is_unplaced(pod) for pod in clique.active)
        reported = (
            *explain_held_objects(self._children(name)),
            *(self._explain_gates_of_others(clique) if waits_for_node else ()),
            *(own.explanations if own else ()),
        )
        stuck = explain_stuck_pods(self._terminating_pods(clique), self._facts)
        return self._explain_whole_set(about) or (
            *((*reported, *stuck) or self._explain_nothing(about, [clique])),
            *explain_autoscalers(self._facts.autoscalers, self._scalable(about)),
        )

    def explain_pod(self, name: str) -> tuple[Explanation, ...]:
        about = f"pod/{name}"
        pod = next((pod for pod in self._all_pods() if pod.metadata.name == name), None)
        if pod is not None and pod.metadata.is_terminating:
            return self._explain_terminating_pod(about, pod)
        clique = next((one for one in self._all_cliques() if pod in _pods(one)), None)
        if pod is None or clique is None:
            return self._explain_unwanted(about)
        if pod.is_failed or pod.is_succeeded:
            text = f"pod {name} ended ({pod.status.phase}{describe_exit(pod)})."
            return (cause(about, FindingReason.POD_ENDED, text), *self._explain_replacement(about, clique))
        if has_foreign_gate(pod):
            return explain_foreign_gates(about, [pod])
        if pod.is_gated and clique.name in self._cliques:
            return self.explain_gang(self._cliques[clique.name][1].name)
        if not pod.is_scheduled:
            return (*self._explain_gates_of_others(clique), *explain_unplaced(about, [pod], self._facts))
        if is_waiting_for_cliques(pod):
            return self._explain_startup_waits(about, [pod])
        if is_down(pod, self._facts):
            return order_by_kind((*explain_unready(about, [pod], self._facts), *self._explain_lost_minimum([clique])))
        ready = note(about, f"Nothing: pod {name} is ready on {pod.spec.node_name}.")
        return (ready, *explain_recent_crashes(about, [pod], self._facts))

    def _explain_terminating_pod(self, about: str, pod: Pod) -> tuple[Explanation, ...]:
        text = f"pod {pod.metadata.name} is being deleted and waits for its containers to stop."
        stuck = explain_stuck_pods((pod,), self._facts)
        return self._explain_whole_set(about) or stuck or (cause(about, FindingReason.BEING_DELETED, text),)

    # The whole set

    def _explain_whole_set(self, about: str) -> tuple[Explanation, ...]:
        """Explain what blocks the whole set. Empty if nothing does."""
        pcs = self._snapshot.pcs
        if pcs.metadata.is_terminating:
            return explain_deletion(
                about, pcs.metadata, self._children(), self._all_pods(), self._facts, self._now
            )  # fmt: skip
        if self._snapshot.context.errors:
            return (
                *(cause(about, FindingReason.INVALID_SET, f"the set breaks a rule: {error}.")
                  for error in self._snapshot.context.errors),
                next_step(about, "correct the set; until then the operator changes nothing."),
            )  # fmt: skip
        if over := explain_outcome(about, pcs):
            return over
        if self.explain_failing_writes(about):
            return ()
        return explain_absent_operator(about, pcs, self._plan, self._facts, self._now)

    def _scalable(self, *abouts: str) -> list[tuple[str, str, ObjectMeta]]:
        """Return what autoscalers may scale as KIND/NAME, kind and metadata: these, or the set and all its parts."""
        found = [(PODCLIQUESETS.kind, self._snapshot.pcs.metadata)]
        for replica in self._snapshot.replicas:
            found += [(PODCLIQUES.kind, clique.clique.metadata) for clique in replica.cliques.values()]
            found += [(GROUPS.kind, group.metadata) for group in replica.groups.values()]
        named = [(f"{kind.lower()}/{metadata.name}", kind, metadata) for kind, metadata in found]
        return [one for one in named if not abouts or one[0] in abouts]

    def _children(self, *names: str) -> list[tuple[str, ObjectMeta]]:
        """Return groups, cliques and gangs as KIND/NAME with metadata: those of these names, or all."""
        found = [
            child
            for replica in self._snapshot.replicas
            for child in (
                *((f"podcliquescalinggroup/{one.metadata.name}", one.metadata) for one in replica.groups.values()),
                *((f"podclique/{one.name}", one.clique.metadata) for one in replica.cliques.values()),
                *((f"podgang/{one.metadata.name}", one.metadata) for one in replica.gangs.values()),
            )
        ]
        return [one for one in found if not names or one[0] in names or one[1].name in names]

    def _explain_errors(self, about: str, errors: Iterable[LastError]) -> tuple[Explanation, ...]:
        found = tuple(
            cause(about, error.code, f"an object of the set cannot be created: {error.description}.")
            for error in errors
        )
        return (
            (*found, next_step(about, "the operator retries with growing pauses, at least every 5 minutes."))
            if found
            else ()
        )

    def _explain_excess(self, about: str) -> tuple[Explanation, ...]:
        found = (one for one in self._findings.get(about, ()) if one.reason == FindingReason.OBJECT_BUDGET_EXCEEDED)
        return tuple(cause(about, one.reason, f"{one.message}.") for one in found)

    def _explain_missing_topology(self, about: str) -> tuple[Explanation, ...]:
        """Report topology constraints that new gangs are placed without. Gangs that wait for them report that."""
        topology = self._snapshot.context.topology
        if not topology.missing or topology.is_waiting or topology.verdict is None:
            return ()
        return (note(about, f"{topology.verdict.message}."),)

    def _explain_scheduler_limits(self, about: str) -> tuple[Explanation, ...]:
        """Report what the scheduler does not support for this set, from its conditions."""
        types = (ConditionType.GANG_SCHEDULING_UNAVAILABLE, ConditionType.SCHEDULER_LIMITED)
        found = (find_condition(self._snapshot.pcs.status.conditions, type_) for type_ in types)
        return tuple(
            note(about, f"{reported.message}.")
            for reported in found
            if reported is not None and reported.status == "True" and reported.reason != Reason.MISSING_DEPENDENCY
        )

    def _explain_unsupported_fields(self, about: str) -> tuple[Explanation, ...]:
        return tuple(
            note(about, f"{field.path} is not supported yet and has no effect: {field.detail}.")
            for field in self._snapshot.context.unsupported_fields
        )

    def _explain_unwanted(self, about: str, name: str = "") -> tuple[Explanation, ...]:
        if name and (held := explain_held_objects(self._children(name))):
            return held
        findings = self._findings.get(about, ())
        reported = tuple(cause(about, finding.reason, f"{finding.message}.") for finding in findings)
        return reported or (
            cause(about, FindingReason.BEING_REMOVED, f"its set no longer needs {about}; the operator removes it."),
        )

    def _explain_nothing(self, about: str, cliques: Iterable[CliqueView]) -> tuple[Explanation, ...]:
        cliques = list(cliques)
        if about.startswith("podclique/") and all(clique.is_at_zero for clique in cliques):
            return (note(about, f"Nothing: {AT_ZERO}."),)
        ready, wanted = sum(clique.ready_count for clique in cliques), sum(clique.replicas for clique in cliques)
        pods = [pod for clique in cliques for pod in clique.active]
        return (
            note(about, f"Nothing: {ready} of {count_noun(wanted, 'pod')} {'is' if wanted == 1 else 'are'} ready."),
            *explain_recent_crashes(about, pods, self._facts),
        )

    # One gang. The order of the calls is the order of the causes.

    def _build_gang_explanation(self, name: str) -> GangExplanation | None:
        replica, gang = self._gangs[name]
        about = f"podgang/{name}"
        views = self._views(name)
        return self._explain_removal(about) or self._with_recreation(
            about, self._explain_waiting(about, replica, gang, views)
        )

    def _explain_waiting(
        self, about: str, replica: ReplicaView, gang: DesiredGang, views: tuple[CliqueView, ...]
    ) -> GangExplanation | None:
        return (
            self._explain_missing_dependency(about, views)
            or self._explain_rejection(about, views)
            or self._explain_failed_creates(about, replica, gang)
            or self._explain_base_gang(about, gang, views)
            or self._explain_incomplete(about, replica, gang, views)
            or self._explain_pods(about, views)
        )

    def _views(self, name: str) -> tuple[CliqueView, ...]:
        replica, gang = self._gangs[name]
        return tuple(replica.cliques[one.name] for one in gang.cliques if one.name in replica.cliques)

    def _finding(self, about: str, *reasons: FindingReason) -> Finding | None:
        return next((finding for finding in self._findings.get(about, ()) if finding.reason in reasons), None)

    def _explain_removal(self, about: str) -> GangExplanation | None:
        found = self._finding(about, FindingReason.BEING_REMOVED, FindingReason.TEARDOWN_UNFINISHED)
        if found is None:
            return None
        return GangExplanation(
            rank=ExplanationPriority.BROKEN, explanations=(cause(about, found.reason, f"{found.message}."),)
        )

    def _with_recreation(self, about: str, rest: GangExplanation | None) -> GangExplanation | None:
        """Explain a recreation until all of the unit exists again, then what the unit waits for."""
        found = self._finding(about, FindingReason.BEING_RECREATED)
        if found is None:
            return rest
        reported = cause(about, found.reason, f"{found.message}.")
        return GangExplanation(
            rank=rest.rank if rest else ExplanationPriority.LOST,
            explanations=(reported, *(rest.explanations if rest else ())),
        )

    def _explain_missing_dependency(self, about: str, views: tuple[CliqueView, ...]) -> GangExplanation | None:
        hold = self._snapshot.context.hold
        if not hold or has_started(views):
            return None
        explanations = (
            cause(about, FindingReason.MISSING_DEPENDENCY, f"{about} is not offered to its scheduler: {hold}."),
            next_step(about, "the operator creates no pod until then, and continues by itself."),
        )
        return GangExplanation(rank=ExplanationPriority.BROKEN, explanations=explanations)

    def _explain_rejection(self, about: str, views: tuple[CliqueView, ...]) -> GangExplanation | None:
        found = self._finding(about, FindingReason.PODS_REJECTED)
        if found is None:
            return None
        existing, wanted = sum(view.existing_count for view in views), sum(view.replicas for view in views)
        rejection = describe_rejection(about, found.message, self._facts.quotas)
        explanations = [
            cause(about, found.reason, f"{rejection.cause}."),
            *((next_step(about, f"{rejection.advice}."),) if rejection.advice else ()),
            next_step(
                about,
                f"the operator retries {format_when(found.until, self._now)}, then at least every 5 minutes "
                f"({existing} of {count_noun(wanted, 'pod')} exist).",
                until=found.until,
            ),
        ]
        if existing and is_below_minima(views) and not has_started(views):
            text = "a gang that stays below its minimum releases its waiting pods after 30 s, so that others can run."
            explanations.append(next_step(about, text))
        explanations += self._explain_lost_minimum(views)
        return GangExplanation(rank=ExplanationPriority.BROKEN, explanations=order_by_kind(explanations))

    def _explain_failed_creates(self, about: str, replica: ReplicaView, gang: DesiredGang) -> GangExplanation | None:
        """Explain objects other than pods that cannot be created."""
        keys = {
            f"podgangs/{gang.name}",
            f"services/{gang.base_gang or gang.name}",
            *(f"podcliques/{clique.name}" for clique in gang.cliques),
            *(f"podcliquescalinggroups/{clique.group}" for clique in gang.cliques if clique.group),
        }
        errors = [e for e in self._snapshot.pcs.status.last_errors if e.description.partition(": ")[0] in keys]
        found = self._explain_errors(about, errors)
        return GangExplanation(rank=ExplanationPriority.BROKEN, explanations=found) if found else None

    def _explain_base_gang(
        self, about: str, gang: DesiredGang, views: tuple[CliqueView, ...]
    ) -> GangExplanation | None:
        if gang.is_base:
            return None
        _, base = self._gangs[gang.base_gang]
        verdict = base_placement(self._views(base.name), base_name=base.name, clique_count=len(base.cliques))
        waiting = sum(pod.is_gated for view in views for pod in view.active)
        if verdict.may_go or not waiting:
            return None
        return GangExplanation(
            rank=ExplanationPriority.BEHIND,
            explanations=(
                cause(
                    about,
                    verdict.reason,
                    f"{count_noun(waiting, 'pod')} of {about} {verb(waiting, 'waits', 'wait')}: {verdict.message}.",
                ),
                next_step(
                    about, f"{about} may be placed as soon as every clique of {base.name} has its minimum on nodes."
                ),
            ),
        )

    def _explain_incomplete(
        self, about: str, replica: ReplicaView, gang: DesiredGang, views: tuple[CliqueView, ...]
    ) -> GangExplanation | None:
        missing = [view for view in views if view.existing_count < view.replicas]
        if len(views) == len(gang.cliques) and not missing:
            return None
        counts = [f"{len(view.active)} of {view.replicas} pods of {view.name} exist" for view in missing]
        if len(views) < len(gang.cliques):
            counts.insert(0, f"{len(views)} of {count_noun(len(gang.cliques), 'clique')} exist")
        text = f"{about} is not complete: {'; '.join(counts)}."
        later = [one for view in missing for one in self._explain_replacement(about, view)]
        rest = self._explain_pods(about, views)
        is_failing = rest is not None and any(one.reason in ROOT_CAUSES for one in rest.explanations)
        if is_failing or later:
            reported = effect(about, FindingReason.GANG_INCOMPLETE, text)
            return GangExplanation(
                rank=ExplanationPriority.BLOCKED if is_below_minima(views) else ExplanationPriority.EXTRAS,
                explanations=order_by_kind((*later, reported, *(rest.explanations if rest else ()))),
            )
        reported = cause(about, FindingReason.GANG_INCOMPLETE, text)
        return GangExplanation(
            rank=ExplanationPriority.BLOCKED
            if is_below_minima(views) or len(views) < len(gang.cliques)
            else ExplanationPriority.EXTRAS,
            explanations=(
                reported,
                *self._explain_creation(about),
                *(rest.explanations if rest else ()),
            ),
        )

    def _explain_creation(self, about: str) -> tuple[Explanation, ...]:
        if self.explain_failing_writes(about):
            return ()
        return (next_step(about, "the operator creates the others now; if this stays, the operator is not running."),)

    def _explain_replacement(self, about: str, view: CliqueView) -> tuple[Explanation, ...]:
        """Explain the back-off of pods that ended repeatedly."""
        replica = self._cliques[view.name][0] if view.name in self._cliques else None
        gang = replica.gangs.get(self._cliques[view.name][1].name) if replica else None
        due = plan_pods(view, referenced_names(gang, view.name), self._now).requeue_at
        if due is None:
            return ()
        ended = (*view.failed, *view.succeeded)
        code = describe_exit(ended[-1]).removeprefix(",")
        what = f"{count_noun(len(ended), 'pod')} of {view.name} {verb(len(ended), 'keeps', 'keep')} ending"
        what += f" with{code}" if code else ""
        text = f"the operator replaces {verb(len(ended), 'it', 'them')} {format_when(due, self._now)}; "
        text += "each pause is longer."
        words = self._last_log_line(ended)
        return (
            cause(about, FindingReason.POD_ENDED, f"{what}{words}.", detail=list_pods(about, ended)),
            next_step(about, text, reason=FindingReason.REPLACEMENT_BACK_OFF, until=due),
        )

    def _last_log_line(self, pods: Iterable[Pod]) -> str:
        uids = frozenset(pod.metadata.uid for pod in pods)
        found = (line for (uid, _), line in self._facts.log_lines.items() if uid in uids and line)
        return next((f"; last log line: {line}" for line in found), "")

    # Pods

    def _explain_pods(self, about: str, views: tuple[CliqueView, ...]) -> GangExplanation | None:
        """Explain what existing pods wait for, in the order in which a pod meets it: gates, the scheduler, kubelets."""
        lost = [view for view in views if clique_breach(view).is_true]
        pods = [pod for view in views for pod in view.active]
        questions: tuple[tuple[Wait, Callable[[str, list[Pod]], tuple[Explanation, ...]]], ...] = (
            (has_foreign_gate, explain_foreign_gates),
            (is_gated_by_us, self._explain_own_gate),
            (is_unplaced, self._explain_unplaced),
            (self._is_down, partial(explain_unready, facts=self._facts)),
            (is_waiting_for_cliques, self._explain_startup_waits),
        )
        answers = [
            (is_so, explain(about, found)) for is_so, explain in questions if (found := [p for p in pods if is_so(p)])
        ]
        if not answers and not lost:
            return None
        # A wait that keeps a clique below its minimum comes before one that keeps it below its replicas.
        answers.sort(key=lambda answer: not any(blocks_minimum(view, answer[0]) for view in views))
        reported = [one for _, found in answers for one in found]
        is_blocked = any(blocks_minimum(view, is_so) for is_so, _ in answers for view in views)
        return GangExplanation(
            rank=ExplanationPriority.LOST
            if lost
            else ExplanationPriority.BLOCKED
            if is_blocked
            else ExplanationPriority.EXTRAS,
            explanations=order_by_kind((*reported, *self._explain_lost_minimum(lost))),
        )

    def _explain_lost_minimum(self, views: Iterable[CliqueView]) -> tuple[Explanation, ...]:
        """Explain the effects of pods that are not ready: cliques below their minimum, and when a teardown is due."""
        lost = [view for view in views if clique_breach(view).is_true]
        return (
            *(
                effect(
                    f"podclique/{view.name}",
                    Reason.MINIMUM_LOST,
                    f"{view.name} lost its minimum: {clique_breach(view).message}.",
                )
                for view in lost
            ),
            *self._explain_breaches(lost),
        )

    def _explain_own_gate(self, about: str, pods: list[Pod]) -> tuple[Explanation, ...]:
        reasons = (FindingReason.ABOVE_MINIMUM_WAITS, FindingReason.SCHEDULER_OBJECT_PENDING, FindingReason.NO_SERVICE)
        found = self._finding(self._gang_of(pods[0]), *reasons)
        if found is None:
            return explain_own_gate(about, pods)
        return (
            cause(about, found.reason, f"{found.message}."),
            next_step(about, "the operator then removes their gate within seconds."),
        )

    def _explain_unplaced(self, about: str, pods: list[Pod]) -> tuple[Explanation, ...]:
        """Explain with the scheduler's message about the gang, then with those about its pods."""
        queued = self._finding(self._gang_of(pods[0]), FindingReason.WAITS_FOR_QUEUE)
        if queued is not None:
            return (
                cause(about, queued.reason, f"{queued.message}."),
                next_step(
                    about,
                    "the queue admits it when other gangs of the queue end, or when the queue or the cluster grows.",
                ),
            )
        found = self._finding(self._gang_of(pods[0]), FindingReason.DOES_NOT_FIT)
        reported = (cause(about, found.reason, f"the gang does not fit. {found.message}."),) if found else ()
        answers = explain_unplaced(about, pods, self._facts)
        is_diagnosed = any(pod.metadata.uid in self._facts.misfits for pod in pods)
        return (*answers, *reported) if is_diagnosed else (*reported, *answers)

    def _gang_of(self, pod: Pod) -> str:
        return f"podgang/{pod.metadata.labels.get(labels.PODGANG, '')}"

    def _explain_breaches(self, lost: list[CliqueView]) -> list[Explanation]:
        """Explain which teardown the breach of a clique, or of its group, leads to, and when."""
        groups = {view.clique.metadata.labels.get(labels.GROUP, ""): None for view in lost}
        abouts = [f"podclique/{view.name}" for view in lost] + [f"podcliquescalinggroup/{name}" for name in groups]
        found = [
            finding for about in abouts
            if (finding := self._finding(about, FindingReason.TERMINATION_DELAY, FindingReason.TEARDOWN_HELD))
        ]  # fmt: skip
        return [self._explain_breach(finding) for finding in found]

    def _explain_breach(self, finding: Finding) -> Explanation:
        # The message starts with the numbers, which the cause reported already.
        what = finding.message.rpartition("; ")[2]
        if finding.reason == FindingReason.TERMINATION_DELAY:
            what = f"{what} {format_when(finding.until, self._now)}"
        return next_step(finding.about, f"{what}.", reason=finding.reason, until=finding.until)

    def _explain_gates_of_others(self, clique: CliqueView) -> tuple[Explanation, ...]:
        """Explain foreign gates on pods of other cliques. They hold the whole gang if its minimum needs those pods."""
        name = self._cliques[clique.name][1].name if clique.name in self._cliques else ""
        others = [view for view in self._views(name) if view is not clique] if name else []
        gated = [pod for view in others if blocks_minimum(view, has_foreign_gate) for pod in view.active]
        return explain_foreign_gates(f"podgang/{name}", [pod for pod in gated if has_foreign_gate(pod)])

    def _is_down(self, pod: Pod) -> bool:
        return is_down(pod, self._facts) and not is_waiting_for_cliques(pod)

    def _explain_startup_waits(self, about: str, pods: list[Pod]) -> tuple[Explanation, ...]:
        return explain_startup_waits(about, pods, {clique.name: clique for clique in self._all_cliques()})

    def _all_cliques(self) -> list[CliqueView]:
        return [clique for replica in self._snapshot.replicas for clique in replica.cliques.values()]

    def _all_pods(self) -> list[Pod]:
        return [*(pod for clique in self._all_cliques() for pod in _pods(clique)), *self._orphans]

    def _terminating_pods(self, clique: CliqueView) -> list[Pod]:
        """Return the terminating pods of the clique, and those of its earlier incarnations."""
        earlier = [pod for pod in self._orphans if pod.metadata.labels.get(labels.PODCLIQUE) == clique.name]
        return [*clique.terminating, *earlier]


def _pods(clique: CliqueView) -> tuple[Pod, ...]:
    return (*clique.active, *clique.terminating, *clique.failed, *clique.succeeded)
