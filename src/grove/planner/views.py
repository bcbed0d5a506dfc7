"""Views of observed objects, counted once: a clique and its pods, a set replica and its children.

`snapshot_builder.py` keeps a view until one of its objects changes. Decisions read views, never raw objects.
"""

from collections import Counter
from collections.abc import Mapping
from typing import dataclass_transform

import msgspec

from grove.api import labels
from grove.api.reasons import ConditionType, Reason
from grove.api.resources import PODCLIQUES, Resource
from grove.api.schema.limits import LARGEST_COUNT
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import Condition, ObjectMeta, OwnerKey, Uid, find_condition
from grove.api.types.pod import Pod, count_failed_runs, has_lost_readiness, has_succeeded_before_deletion, is_finishing
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podgang import PodGang
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.types.service import Service
from grove.api.values.numbers_in_text import parse_number
from grove.planner.actions import CreateRejection

# An index of a training set that failed this often is not retried; a container that did counts as a failed pod.
MOST_FAILURES = 6


@dataclass_transform(frozen_default=True, kw_only_default=True)
class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything observed."""


class CliqueView(View):
    """One PodClique and its pods, in named buckets."""

    clique: PodClique
    # Pods that hold an index, ordered by it; normally one each (see `planner/pods/pod_sync.py` for the other case).
    active: tuple[Pod, ...]
    terminating: tuple[Pod, ...]
    failed: tuple[Pod, ...]
    succeeded: tuple[Pod, ...]
    ready_count: int
    scheduled_count: int
    gated_count: int
    # The number of active pods by template hash.
    active_hashes: Mapping[str, int] = {}
    # Names of pods that are gone: an index never gets the same name twice.
    gone_names: frozenset[str] = frozenset()
    # Its group is being updated.
    is_group_rolling: bool = False
    # Part of a training set: pods that succeeded are not recreated.
    is_finite: bool = False
    # Indices of pods that succeeded, as stored and as observed.
    done_indices: frozenset[int] = frozenset()
    # Pods that are no longer ready because some containers succeeded while the others run.
    finishing_count: int = 0
    # Pods that are not ready yet.
    starting_count: int = 0
    # Active pods with phase Running, ready or not.
    running_count: int = 0
    # Training: active pods that are not ready because a container failed repeatedly.
    crash_looping: tuple[Pod, ...] = ()
    # Training: indices that are not retried, as stored and as observed.
    failed_indices: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        return self.clique.metadata.name

    @property
    def uid(self) -> Uid:
        return self.clique.metadata.uid

    @property
    def owner_key(self) -> OwnerKey:
        """Return the controller of its pods."""
        return PODCLIQUES.owner_key(self.clique.metadata)

    @property
    def is_terminating(self) -> bool:
        return self.clique.metadata.is_terminating

    @property
    def replicas(self) -> int:
        # Admission rejects more. A set stored without admission must not block the other sets.
        return min(self.clique.spec.replicas, LARGEST_COUNT)

    @property
    def is_at_zero(self) -> bool:
        """Return whether the clique is scaled to zero. A training clique cannot be."""
        return not self.is_finite and self.clique.spec.replicas <= 0

    @property
    def min_available(self) -> int:
        """Return how many pods it needs now: none while it is scaled to zero."""
        return 0 if self.is_at_zero else self.clique.min_available

    @property
    def has_served(self) -> bool:
        """Return whether it reached its minimum since it was created, or since it was last scaled up from zero.

        `wasAvailable` never turns false again. After a scale from zero the stored condition has the reason
        `NeverAvailable` until the minimum is reached.
        """
        status = self.clique.status
        return status.was_available and not is_starting_again(status.conditions)

    @property
    def existing_count(self) -> int:
        """Return the number of pods that count as existing for the gang, including those that succeeded."""
        return len(self.active) + self.done_count

    @property
    def placed_count(self) -> int:
        return self.scheduled_count + self.done_count

    @property
    def done_count(self) -> int:
        return len(self.done_indices) if self.is_finite else len(self.succeeded)

    @property
    def done_and_gone_count(self) -> int:
        """Return the number of pods that succeeded and no longer exist."""
        return len(self.done_indices) - len(self.done_indices.intersection(map(pod_index, self.succeeded)))

    @property
    def available_count(self) -> int:
        """Return the number of ready pods; in a training set also those that are finishing or succeeded."""
        return self.ready_count + (self.finishing_count + len(self.done_indices) if self.is_finite else 0)

    @property
    def is_done(self) -> bool:
        """Return whether every pod succeeded."""
        return self.is_finite and len(self.done_indices) >= self.replicas

    @property
    def failed_count(self) -> int:
        return len(self.failed) + len(self.crash_looping)

    @property
    def has_given_up(self) -> bool:
        """Return whether no pod is left to wait for, and not every pod succeeded."""
        return bool(self.failed_indices) and len(self.done_indices | self.failed_indices) >= self.replicas

    @property
    def has_begun(self) -> bool:
        """Return whether a pod of its current start passed Grove's gate. Terminating pods may be from before a zero."""
        if self.is_at_zero:
            return False
        is_first_start = self.has_served or not self.clique.status.was_available
        pods = (*self.active, *self.failed, *(self.terminating if is_first_start else ()))
        return self.done_count > 0 or any(not pod.is_gated for pod in pods)

    @property
    def incarnation(self) -> str:
        return self.clique.metadata.labels.get(labels.INCARNATION, "")

    @property
    def gang_incarnation(self) -> str:
        """Return the incarnation of the cliques that it is first placed with: its own, unless it joined others."""
        return self.clique.metadata.annotations.get(labels.GANG_INCARNATION) or self.incarnation

    @property
    def template_hash(self) -> str:
        """Return the hash of the template from which new pods of the clique are created."""
        return template_hash_of(self.clique.metadata)


def is_starting_again(conditions: tuple[Condition, ...]) -> bool:
    """Return whether the clique is at zero, or did not reach its minimum since, by its stored condition."""
    reported = find_condition(conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    return reported is not None and reported.reason in (Reason.SCALED_TO_ZERO, Reason.NEVER_AVAILABLE)


def template_hash_of(metadata: ObjectMeta) -> str:
    return metadata.labels.get(labels.TEMPLATE_HASH, "")


def pod_index(pod: Pod) -> int:
    """Return the index of a pod, or -1 if it has no valid index label. Such pods are not counted."""
    return parse_number(pod.metadata.labels.get(labels.POD_INDEX, ""))


def count_index_failures(pod: Pod) -> int:
    """Return how often the index of a training pod failed in this incarnation, including this pod."""
    before = parse_number(pod.metadata.annotations.get(labels.FAILURES, ""), 0)
    return before + (1 if pod.is_failed else count_failed_runs(pod))


def view_clique(
    clique: PodClique,
    pods: tuple[Pod, ...],
    gone_names: frozenset[str] = frozenset(),
    *,
    is_finite: bool = False,
    done_before: frozenset[int] = frozenset(),
) -> CliqueView:
    """Sort the pods of a clique by state and count them. `done_before`: indices that are known to have succeeded."""
    active: list[Pod] = []
    terminating: list[Pod] = []
    failed: list[Pod] = []
    succeeded: list[Pod] = []
    for pod in pods:
        if pod.metadata.is_terminating:
            terminating.append(pod)
        elif pod.is_failed:
            failed.append(pod)
        elif pod.is_succeeded:
            succeeded.append(pod)
        elif pod_index(pod) >= 0:
            active.append(pod)
    active.sort(key=lambda pod: (pod_index(pod), pod.metadata.name))
    view = CliqueView(
        clique=clique,
        active=tuple(active),
        terminating=tuple(terminating),
        failed=tuple(failed),
        succeeded=tuple(succeeded),
        ready_count=sum(pod.is_ready for pod in active),
        scheduled_count=sum(pod.is_scheduled for pod in active),
        gated_count=sum(bool(pod.spec.scheduling_gates) for pod in active),
        running_count=sum(pod.status.phase == "Running" for pod in active),
        active_hashes=Counter(template_hash_of(pod.metadata) for pod in active),
        gone_names=gone_names,
    )
    return _with_training_state(view, done_before) if is_finite else view


def _with_training_state(view: CliqueView, done_before: frozenset[int]) -> CliqueView:
    """Add what only a training clique has: succeeded and failed indices, and pods that start, finish or crash."""
    status = view.clique.status
    waiting = [pod for pod in view.active if not pod.is_ready]
    finishing_count = sum(map(is_finishing, waiting))
    seen = {pod_index(pod) for pod in (*view.succeeded, *view.terminating) if has_succeeded_before_deletion(pod)} - {-1}
    done = frozenset(seen.union(done_before, status.succeeded_indices))
    has_minimum = view.ready_count + finishing_count + len(done) >= view.clique.min_available
    broken = (*view.failed, *(pod for pod in waiting if count_failed_runs(pod)))
    exhausted = {pod_index(pod) for pod in broken if count_index_failures(pod) >= MOST_FAILURES}
    failed_indices = frozenset(status.failed_indices).union(exhausted - {-1} if has_minimum else ())
    return msgspec.structs.replace(
        view,
        is_finite=True,
        done_indices=done,
        finishing_count=finishing_count,
        starting_count=sum(
            not is_finishing(pod) and not has_lost_readiness(pod) and count_failed_runs(pod) < MOST_FAILURES
            for pod in waiting
        ),
        crash_looping=tuple(pod for pod in waiting if count_failed_runs(pod) >= MOST_FAILURES),
        failed_indices=failed_indices - done,
    )


class ReplicaView(View):
    """Everything observed of one set replica, by name."""

    index: int
    cliques: Mapping[str, CliqueView] = {}
    groups: Mapping[str, PodCliqueScalingGroup] = {}
    gangs: Mapping[str, PodGang] = {}
    services: Mapping[str, Service] = {}
    autoscalers: Mapping[str, HorizontalPodAutoscaler] = {}
    # The scheduler objects of each gang, by the uid of the gang.
    scheduler_objects: Mapping[Uid, tuple[tuple[Resource[SchedulerObject], SchedulerObject], ...]] = {}
    failures: tuple[CreateRejection, ...] = ()

    @property
    def has_anything(self) -> bool:
        return bool(self.cliques or self.groups or self.gangs or self.services or self.autoscalers)
