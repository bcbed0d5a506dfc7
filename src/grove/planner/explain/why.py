"""Explain what an object waits for, what happens next and when; the most important first.

This module decides nothing. It puts into words the findings of the plan, the views behind it, and what schedulers and
kubelets wrote on the pods. Rejected creates, which only a running operator remembers, are read from the conditions that
it wrote.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from enum import IntEnum
from functools import partial

from grove.api import labels
from grove.api.reasons import ConditionType, FindingReason, Reason
from grove.api.resources import GROUPS
from grove.api.types.meta import ConditionStatus, LastError, find_condition
from grove.api.types.pod import Pod
from grove.planner.actions import CreateRejection, Finding, Plan, PlanStruct
from grove.planner.desired_state import GangBlueprint, draw_replica
from grove.planner.explain.pods import (
    Wait,
    blocks_minimum,
    exit_of,
    foreign_gate_sentences,
    has_foreign_gate,
    is_gated_by_us,
    is_unplaced,
    is_unready,
    own_gate_sentences,
    stuck_sentences,
    unplaced_sentences,
    unready_sentences,
)
from grove.planner.explain.text import Explanation, cause, counted, named, next_step, note, verb, when
from grove.planner.explain.training import over_sentences, run_sentences
from grove.planner.explain.updates import update_sentences
from grove.planner.gangs.podgang import referenced_names
from grove.planner.gangs.scheduling_gates import base_placement
from grove.planner.pods.create_backoff import gang_refusal, has_started, is_below_minima, pods_failure_key
from grove.planner.pods.pod_sync import plan_pods
from grove.planner.snapshot import Snapshot
from grove.planner.status.availability import AT_ZERO, clique_breach
from grove.planner.status.write_failures import WRITE_REASONS
from grove.planner.views import CliqueView, ReplicaView

LISTED_GANGS = 5
# A running operator acts on a new set within this time.
ATTENTION_SECONDS = 5


class ExplanationPriority(IntEnum):
    """The order in which gangs are explained."""

    BROKEN = 0
    LOST = 1
    BLOCKED = 2
    BEHIND = 3
    EXTRAS = 4


class Story(PlanStruct):
    """The reasons why one gang is not ready."""

    rank: ExplanationPriority
    sentences: tuple[Explanation, ...]


def told_failures(clique: CliqueView, now: datetime) -> tuple[CreateRejection, ...]:
    """Return the rejected creates behind a clique's condition `PodsRejected`, one per attempt so far.

    Only the operator knows the number of its attempts. They follow the back-off schedule, so they can be recomputed.
    """
    told = find_condition(clique.clique.status.conditions, ConditionType.PODS_REJECTED)
    if told is None or told.status != "True" or told.last_transition_time is None:
        return ()
    first_at = told.last_transition_time
    attempts: list[CreateRejection] = []
    next_at: datetime | None = first_at
    while next_at is not None and (next_at <= now or not attempts):
        failure = CreateRejection(
            key=pods_failure_key(clique.name), code=told.reason, message=told.message,
            count=len(attempts) + 1, first_at=first_at, last_at=next_at,
        )  # fmt: skip
        attempts.append(failure)
        refusal = gang_refusal((clique,), (failure,), gangs_ahead_count=0)
        next_at = refusal.retry_at if refusal else None
    return tuple(attempts)


class Explainer:
    """An explainer of one set and its parts. `lost_nodes` do not answer, or no longer exist.

    `pods` are all pods of the set, including those whose clique was deleted already.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        plan: Plan,
        now: datetime,
        lost_nodes: frozenset[str] = frozenset(),
        pods: Iterable[Pod] = (),
    ) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._now = now
        self._lost_nodes = lost_nodes
        self._findings: dict[str, list[Finding]] = {}
        for finding in plan.findings:
            self._findings.setdefault(finding.about, []).append(finding)
        self._gangs: dict[str, tuple[ReplicaView, GangBlueprint]] = {}
        self._cliques: dict[str, tuple[ReplicaView, GangBlueprint]] = {}
        for replica in snapshot.replicas:
            self._draw(replica)
        seen = {pod.metadata.uid for clique in self._all_cliques() for pod in _pods(clique)}
        self._orphans = tuple(pod for pod in pods if pod.metadata.uid not in seen)

    def _draw(self, replica: ReplicaView) -> None:
        scale = {group.metadata.name: group.spec.replicas for group in replica.groups.values()}
        for gang in draw_replica(self._snapshot.context, replica.index, scale).gangs:
            self._gangs[gang.name] = (replica, gang)
            self._cliques.update({clique.name: (replica, gang) for clique in gang.cliques})

    def failing(self, about: str) -> tuple[Explanation, ...]:
        """Explain writes of the set that keep failing, from its condition. This comes before everything else."""
        told = find_condition(self._snapshot.pcs.status.conditions, ConditionType.RECONCILE_FAILED)
        if told is None or told.status != ConditionStatus.TRUE or told.reason not in WRITE_REASONS:
            return ()
        return (
            cause(about, told.reason, f"{told.message}."),
            next_step(about, "it is tried again, at least every 30 s; the set goes on when it succeeds."),
        )

    # One function per level

    def of_set(self) -> tuple[Explanation, ...]:
        about = f"podcliqueset/{self._snapshot.context.name}"
        whole = self._whole_set(about)
        if whole:
            return whole
        stories = [story for name in self._gangs if (story := self._story(name))]
        stories.sort(key=lambda story: story.rank)
        told = [sentence for story in stories[:LISTED_GANGS] for sentence in story.sentences]
        if len(stories) > LISTED_GANGS:
            told.append(note(about, f"{len(stories) - LISTED_GANGS} more gangs are not complete."))
        causes = self._errors(about, self._snapshot.pcs.status.last_errors if not stories else ())
        stuck = stuck_sentences(self._all_pods(), self._lost_nodes)
        update = update_sentences(about, self._snapshot.pcs, self._findings.get(about, ()))
        said = (*self._excess(about), *update, *causes, *told, *stuck) or self._fine(about, self._all_cliques())
        return (
            *said,
            *self._missing_topology(about),
            *self._scheduler_limits(about),
            *run_sentences(about, self._snapshot.pcs, self._now),
            *self._unbuilt(about),
        )

    def of_group(self, name: str) -> tuple[Explanation, ...]:
        about = f"podcliquescalinggroup/{name}"
        cliques = [
            clique
            for replica in self._snapshot.replicas
            for clique in replica.cliques.values()
            if clique.clique.metadata.controller
            in [GROUPS.owner_key(group.metadata) for group in replica.groups.values() if group.metadata.name == name]
        ]
        gangs = [gang.name for _, gang in self._gangs.values() if any(clique.group == name for clique in gang.cliques)]
        stories = [story for gang in gangs if (story := self._story(gang))]
        told = tuple(sentence for story in stories[:LISTED_GANGS] for sentence in story.sentences)
        groups = (group for replica in self._snapshot.replicas for group in replica.groups.values())
        if not (told or cliques) and any(one.metadata.name == name and not one.spec.replicas for one in groups):
            told = (note(about, f"Nothing: {AT_ZERO}."),)
        return self._whole_set(about) or told or self._fine(about, cliques)

    def of_gang(self, name: str) -> tuple[Explanation, ...]:
        about = f"podgang/{name}"
        if name not in self._gangs:
            return self._whole_set(about) or self._not_wanted(about)
        story = self._story(name)
        _, gang = self._gangs[name]
        told = story.sentences if story else ()
        if story and story.rank is ExplanationPriority.BEHIND and (base := self._story(gang.base_gang)):
            # The root cause: what its base gang waits for.
            told = (told[0], *base.sentences, *told[1:])
        return self._whole_set(about) or told or self._fine(about, self._views(name))

    def of_clique(self, name: str) -> tuple[Explanation, ...]:
        about = f"podclique/{name}"
        if name not in self._cliques:
            return self._whole_set(about) or self._not_wanted(about)
        replica, gang = self._cliques[name]
        clique = replica.cliques.get(name)
        story = self._story(gang.name)
        if clique is None or (story and story.rank in (ExplanationPriority.BROKEN, ExplanationPriority.BEHIND)):
            return self.of_gang(gang.name)
        own = self._pods_story(about, (clique,))
        waits_for_node = any(is_unplaced(pod) for pod in clique.active)
        told = (*(self._gates_in_the_way(clique) if waits_for_node else ()), *(own.sentences if own else ()))
        return (
            self._whole_set(about)
            or (*told, *stuck_sentences(self._leaving(clique), self._lost_nodes))
            or self._fine(about, [clique])
        )

    def of_pod(self, name: str) -> tuple[Explanation, ...]:
        about = f"pod/{name}"
        pod = next((pod for pod in self._all_pods() if pod.metadata.name == name), None)
        if pod is not None and pod.metadata.is_terminating:
            return self._leaving_pod(about, pod)
        clique = next((one for one in self._all_cliques() if pod in _pods(one)), None)
        if pod is None or clique is None:
            return self._not_wanted(about)
        if pod.is_failed or pod.is_succeeded:
            return (cause(about, FindingReason.POD_ENDED, f"pod {name} ended ({pod.status.phase}{exit_of(pod)})."),
                    *self._replacement(about, clique))  # fmt: skip
        if has_foreign_gate(pod):
            return foreign_gate_sentences(about, [pod])
        if pod.is_behind_our_gate and clique.name in self._cliques:
            return self.of_gang(self._cliques[clique.name][1].name)
        if not pod.is_scheduled:
            return (*self._gates_in_the_way(clique), *unplaced_sentences(about, [pod]))
        if not pod.is_ready:
            return unready_sentences(about, [pod], self._lost_nodes)
        return (note(about, f"Nothing: pod {name} is ready on {pod.spec.node_name}."),)

    def _leaving_pod(self, about: str, pod: Pod) -> tuple[Explanation, ...]:
        text = f"pod {pod.metadata.name} is being deleted and waits for its containers to stop."
        stuck = stuck_sentences((pod,), self._lost_nodes)
        return stuck or (cause(about, FindingReason.BEING_DELETED, text),)

    # The whole set

    def _whole_set(self, about: str) -> tuple[Explanation, ...]:
        """Explain what blocks the whole set. Empty if nothing does."""
        pcs = self._snapshot.pcs
        if pcs.metadata.is_terminating:
            return self._being_deleted(about)
        if self._snapshot.context.errors:
            return (
                *(cause(about, FindingReason.INVALID_SET, f"the set breaks a rule: {error}.")
                  for error in self._snapshot.context.errors),
                next_step(about, "nothing is changed until the set is corrected."),
            )  # fmt: skip
        if over := over_sentences(about, pcs):
            return over
        created = pcs.metadata.creation_timestamp
        waited = int((self._now - created).total_seconds()) if created else 0
        if pcs.status.observed_generation is None and waited >= ATTENTION_SECONDS and not self.failing(about):
            return (
                cause(
                    about, FindingReason.UNATTENDED, f"nobody has acted on the set since it was created {waited} s ago."
                ),
                next_step(about, "start the operator; it goes on by itself then."),
            )
        return ()

    def _being_deleted(self, about: str) -> tuple[Explanation, ...]:
        others = [name for name in self._snapshot.pcs.metadata.finalizers if not name.startswith("grove.io/")]
        left = counted(len(self._all_pods()), "pod")
        return (
            cause(about, FindingReason.BEING_DELETED, f"the set is being deleted, {left} of it still there."),
            *self._unattended_deletion(about),
            *(
                cause(about, FindingReason.HELD_BY_FINALIZER, f"finalizer {name} holds it: its controller removes it.")
                for name in others
            ),
            *stuck_sentences(self._all_pods(), self._lost_nodes),
        )  # fmt: skip

    def _unattended_deletion(self, about: str) -> tuple[Explanation, ...]:
        """Explain a deletion that no operator works on. A running operator deletes the pods first."""
        metadata = self._snapshot.pcs.metadata
        deleted = metadata.deletion_timestamp
        waited = int((self._now - deleted).total_seconds()) if deleted else 0
        is_begun = any(pod.metadata.is_terminating for pod in self._all_pods())
        if labels.SET_FINALIZER not in metadata.finalizers or is_begun or waited < ATTENTION_SECONDS:
            return ()
        return (
            cause(about, FindingReason.UNATTENDED, f"nobody has acted on it since it was deleted {waited} s ago."),
            next_step(
                about,
                "start the operator; or let the set go without one, as docs/how-to/install.md says under Uninstall.",
            ),
        )

    def _errors(self, about: str, errors: Iterable[LastError]) -> tuple[Explanation, ...]:
        found = tuple(
            cause(about, error.code, f"part of the set cannot be made: {error.description}.") for error in errors
        )
        return (*found, next_step(about, "tried again, later and later, at least every 5 minutes.")) if found else ()

    def _excess(self, about: str) -> tuple[Explanation, ...]:
        found = (one for one in self._findings.get(about, ()) if one.reason == FindingReason.OBJECT_BUDGET_EXCEEDED)
        return tuple(cause(about, one.reason, f"{one.message}.") for one in found)

    def _missing_topology(self, about: str) -> tuple[Explanation, ...]:
        """Report topology constraints that new gangs are placed without. Gangs that wait for them report that."""
        topology = self._snapshot.context.topology
        if not topology.missing or topology.is_waiting or topology.verdict is None:
            return ()
        return (note(about, f"{topology.verdict.message}."),)

    def _scheduler_limits(self, about: str) -> tuple[Explanation, ...]:
        """Report what the scheduler does not support for this set, from its conditions."""
        types = (ConditionType.GANG_SCHEDULING_UNAVAILABLE, ConditionType.SCHEDULER_LIMITED)
        found = (find_condition(self._snapshot.pcs.status.conditions, type_) for type_ in types)
        return tuple(
            note(about, f"{told.message}.")
            for told in found
            if told is not None and told.status == "True" and told.reason != Reason.MISSING_DEPENDENCY
        )

    def _unbuilt(self, about: str) -> tuple[Explanation, ...]:
        return tuple(
            note(about, f"{field.path} is accepted but not carried out yet: {field.detail}.")
            for field in self._snapshot.context.unbuilt
        )

    def _not_wanted(self, about: str) -> tuple[Explanation, ...]:
        findings = self._findings.get(about, ())
        told = tuple(cause(about, finding.reason, f"{finding.message}.") for finding in findings)
        return told or (
            cause(
                about, FindingReason.BEING_REMOVED, f"{about} is not wanted by its set any more and is being removed."
            ),
        )

    def _fine(self, about: str, cliques: Iterable[CliqueView]) -> tuple[Explanation, ...]:
        cliques = list(cliques)
        if about.startswith("podclique/") and all(clique.is_at_zero for clique in cliques):
            return (note(about, f"Nothing: {AT_ZERO}."),)
        ready, wanted = sum(clique.ready_count for clique in cliques), sum(clique.replicas for clique in cliques)
        return (note(about, f"Nothing: {ready} of {counted(wanted, 'pod')} {'is' if wanted == 1 else 'are'} ready."),)

    # One gang. The order of the calls is the order of the causes.

    def _story(self, name: str) -> Story | None:
        replica, gang = self._gangs[name]
        about = f"podgang/{name}"
        views = self._views(name)
        return self._removal(about) or self._coming_back(about, self._waiting(about, replica, gang, views))

    def _waiting(
        self, about: str, replica: ReplicaView, gang: GangBlueprint, views: tuple[CliqueView, ...]
    ) -> Story | None:
        return (
            self._not_offered(about, views)
            or self._refusal(about, views)
            or self._obstacle(about, replica, gang)
            or self._behind_base(about, gang, views)
            or self._incomplete(about, replica, gang, views)
            or self._pods_story(about, views)
        )

    def _views(self, name: str) -> tuple[CliqueView, ...]:
        replica, gang = self._gangs[name]
        return tuple(replica.cliques[one.name] for one in gang.cliques if one.name in replica.cliques)

    def _finding(self, about: str, *reasons: FindingReason) -> Finding | None:
        return next((finding for finding in self._findings.get(about, ()) if finding.reason in reasons), None)

    def _removal(self, about: str) -> Story | None:
        found = self._finding(about, FindingReason.BEING_REMOVED, FindingReason.TEARDOWN_UNFINISHED)
        if found is None:
            return None
        return Story(rank=ExplanationPriority.BROKEN, sentences=(cause(about, found.reason, f"{found.message}."),))

    def _coming_back(self, about: str, rest: Story | None) -> Story | None:
        """Explain a recreation until all of the unit exists again, then what the unit waits for."""
        found = self._finding(about, FindingReason.COMING_BACK)
        if found is None:
            return rest
        told = cause(about, found.reason, f"{found.message}.")
        return Story(
            rank=rest.rank if rest else ExplanationPriority.LOST, sentences=(told, *(rest.sentences if rest else ()))
        )

    def _not_offered(self, about: str, views: tuple[CliqueView, ...]) -> Story | None:
        hold = self._snapshot.context.hold
        if not hold or has_started(views):
            return None
        sentences = (
            cause(about, FindingReason.MISSING_DEPENDENCY, f"{about} is not offered to its scheduler: {hold}."),
            next_step(about, "no pod is made until then; it goes on by itself."),
        )
        return Story(rank=ExplanationPriority.BROKEN, sentences=sentences)

    def _refusal(self, about: str, views: tuple[CliqueView, ...]) -> Story | None:
        found = self._finding(about, FindingReason.PODS_REJECTED)
        if found is None:
            return None
        existing, wanted = sum(view.existing_count for view in views), sum(view.replicas for view in views)
        sentences = [
            cause(about, found.reason, f"the API server refuses pods of {about}: {found.message}."),
            next_step(
                about,
                f"{existing} of {counted(wanted, 'pod')} exist; the others are tried again "
                f"{when(found.until, self._now)}, then later and later, at least every 5 minutes.",
                until=found.until,
            ),
        ]
        if existing and is_below_minima(views) and not has_started(views):
            text = "a gang that stays below its minimum gives its waiting pods back after 30 s, so that others can run."
            sentences.append(next_step(about, text))
        sentences += self._countdown([view for view in views if clique_breach(view).is_true])
        return Story(rank=ExplanationPriority.BROKEN, sentences=tuple(sentences))

    def _obstacle(self, about: str, replica: ReplicaView, gang: GangBlueprint) -> Story | None:
        """Explain objects other than pods that cannot be created."""
        keys = {
            f"podgangs/{gang.name}",
            f"services/{gang.base_gang or gang.name}",
            *(f"podcliques/{clique.name}" for clique in gang.cliques),
            *(f"podcliquescalinggroups/{clique.group}" for clique in gang.cliques if clique.group),
        }
        errors = [e for e in self._snapshot.pcs.status.last_errors if e.description.partition(": ")[0] in keys]
        found = self._errors(about, errors)
        return Story(rank=ExplanationPriority.BROKEN, sentences=found) if found else None

    def _behind_base(self, about: str, gang: GangBlueprint, views: tuple[CliqueView, ...]) -> Story | None:
        if gang.is_base:
            return None
        _, base = self._gangs[gang.base_gang]
        verdict = base_placement(self._views(base.name), base_name=base.name, clique_count=len(base.cliques))
        waiting = sum(pod.is_behind_our_gate for view in views for pod in view.active)
        if verdict.may_go or not waiting:
            return None
        return Story(
            rank=ExplanationPriority.BEHIND,
            sentences=(
                cause(
                    about,
                    verdict.reason,
                    f"{counted(waiting, 'pod')} of {about} {verb(waiting, 'waits', 'wait')}: {verdict.message}.",
                ),
                next_step(
                    about, f"{about} may be placed as soon as every clique of {base.name} has its minimum on nodes."
                ),
            ),
        )

    def _incomplete(
        self, about: str, replica: ReplicaView, gang: GangBlueprint, views: tuple[CliqueView, ...]
    ) -> Story | None:
        missing = [view for view in views if view.existing_count < view.replicas]
        if len(views) == len(gang.cliques) and not missing:
            return None
        counts = [f"{len(view.active)} of {view.replicas} pods of {view.name} exist" for view in missing]
        if len(views) < len(gang.cliques):
            counts.insert(0, f"{len(views)} of {counted(len(gang.cliques), 'clique')} exist")
        told = cause(about, FindingReason.GANG_INCOMPLETE, f"{about} is not complete: {'; '.join(counts)}.")
        later = [one for view in missing for one in self._replacement(about, view)]
        rest = self._pods_story(about, views)
        return Story(
            rank=ExplanationPriority.BLOCKED
            if is_below_minima(views) or len(views) < len(gang.cliques)
            else ExplanationPriority.EXTRAS,
            sentences=(
                told,
                *(later or self._creation(about)),
                *(rest.sentences if rest else ()),
            ),
        )

    def _creation(self, about: str) -> tuple[Explanation, ...]:
        if self.failing(about):
            return ()
        return (next_step(about, "the operator creates the others now; if this stays, it is not running."),)

    def _replacement(self, about: str, view: CliqueView) -> tuple[Explanation, ...]:
        """Explain the back-off of pods that ended repeatedly."""
        replica = self._cliques[view.name][0] if view.name in self._cliques else None
        gang = replica.gangs.get(self._cliques[view.name][1].name) if replica else None
        due = plan_pods(view, referenced_names(gang, view.name), self._now).requeue_at
        if due is None:
            return ()
        ended = (*view.failed, *view.succeeded)
        text = f"{named(ended)} of {view.name} ended{exit_of(ended[-1])} again; replaced {when(due, self._now)}."
        return (next_step(about, text, reason=FindingReason.REPLACEMENT_BACK_OFF, until=due),)

    # Pods

    def _pods_story(self, about: str, views: tuple[CliqueView, ...]) -> Story | None:
        """Explain what existing pods wait for, in the order in which a pod meets it: gates, the scheduler, kubelets."""
        lost = [view for view in views if clique_breach(view).is_true]
        sentences: list[Explanation] = [
            cause(about, Reason.MINIMUM_LOST, f"{view.name} lost its minimum: {clique_breach(view).message}.")
            for view in lost
        ]
        sentences += self._countdown(lost)
        pods = [pod for view in views for pod in view.active]
        questions: tuple[tuple[Wait, Callable[[str, list[Pod]], tuple[Explanation, ...]]], ...] = (
            (has_foreign_gate, foreign_gate_sentences),
            (is_gated_by_us, self._own_gate),
            (is_unplaced, self._unplaced),
            (is_unready, partial(unready_sentences, lost_nodes=self._lost_nodes)),
        )
        answers = [(is_so, say(about, found)) for is_so, say in questions if (found := [p for p in pods if is_so(p)])]
        if not answers and not lost:
            return None
        # A wait that keeps a clique below its minimum comes before one that keeps it below its replicas.
        answers.sort(key=lambda answer: not any(blocks_minimum(view, answer[0]) for view in views))
        sentences += [sentence for _, found in answers for sentence in found]
        is_blocked = any(blocks_minimum(view, is_so) for is_so, _ in answers for view in views)
        return Story(
            rank=ExplanationPriority.LOST
            if lost
            else ExplanationPriority.BLOCKED
            if is_blocked
            else ExplanationPriority.EXTRAS,
            sentences=tuple(sentences),
        )

    def _own_gate(self, about: str, pods: list[Pod]) -> tuple[Explanation, ...]:
        reasons = (FindingReason.EXTRAS_WAIT, FindingReason.SCHEDULER_NOT_TOLD, FindingReason.NO_SERVICE)
        found = self._finding(self._gang_of(pods[0]), *reasons)
        if found is None:
            return own_gate_sentences(about, pods)
        return (
            cause(about, found.reason, f"{found.message}."),
            next_step(about, "the operator opens their gate then, within seconds."),
        )

    def _unplaced(self, about: str, pods: list[Pod]) -> tuple[Explanation, ...]:
        """Explain with the scheduler's message about the gang, then with those about its pods."""
        queued = self._finding(self._gang_of(pods[0]), FindingReason.WAITS_FOR_QUEUE)
        if queued is not None:
            return (
                cause(about, queued.reason, f"{queued.message}."),
                next_step(about, "it is let in when others of the queue end, or when the queue or the cluster grows."),
            )
        found = self._finding(self._gang_of(pods[0]), FindingReason.DOES_NOT_FIT)
        told = (cause(about, found.reason, f"there is no room for the gang. {found.message}."),) if found else ()
        return (*told, *unplaced_sentences(about, pods))

    def _gang_of(self, pod: Pod) -> str:
        return f"podgang/{pod.metadata.labels.get(labels.PODGANG, '')}"

    def _countdown(self, lost: list[CliqueView]) -> list[Explanation]:
        """Explain what a breach leads to and when: that of the clique, or of its group if that is in breach too."""
        groups = {view.clique.metadata.labels.get(labels.GROUP, ""): None for view in lost}
        abouts = [f"podclique/{view.name}" for view in lost] + [f"podcliquescalinggroup/{name}" for name in groups]
        found = [
            finding for about in abouts
            if (finding := self._finding(about, FindingReason.TERMINATION_DELAY, FindingReason.TEARDOWN_HELD))
        ]  # fmt: skip
        return [self._consequence(finding) for finding in found]

    def _consequence(self, finding: Finding) -> Explanation:
        # The message starts with the numbers, which the cause reported already.
        what = finding.message.rpartition("; ")[2]
        if finding.reason == FindingReason.TERMINATION_DELAY:
            what = f"{what} {when(finding.until, self._now)}"
        return next_step(finding.about, f"{what}.", reason=finding.reason, until=finding.until)

    def _gates_in_the_way(self, clique: CliqueView) -> tuple[Explanation, ...]:
        """Explain foreign gates on pods of other cliques. They hold the whole gang if its minimum needs those pods."""
        name = self._cliques[clique.name][1].name if clique.name in self._cliques else ""
        others = [view for view in self._views(name) if view is not clique] if name else []
        gated = [pod for view in others if blocks_minimum(view, has_foreign_gate) for pod in view.active]
        return foreign_gate_sentences(f"podgang/{name}", [pod for pod in gated if has_foreign_gate(pod)])

    def _all_cliques(self) -> list[CliqueView]:
        return [clique for replica in self._snapshot.replicas for clique in replica.cliques.values()]

    def _all_pods(self) -> list[Pod]:
        return [*(pod for clique in self._all_cliques() for pod in _pods(clique)), *self._orphans]

    def _leaving(self, clique: CliqueView) -> list[Pod]:
        """Return the terminating pods of the clique, and those of its earlier incarnations."""
        earlier = [pod for pod in self._orphans if pod.metadata.labels.get(labels.PODCLIQUE) == clique.name]
        return [*clique.leaving, *earlier]


def _pods(clique: CliqueView) -> tuple[Pod, ...]:
    return (*clique.active, *clique.leaving, *clique.failed, *clique.succeeded)
