"""Views of what was observed, counted once: a clique and its pods, a set replica and its parts.

A view is kept until one of its parts changes (`snapshot_builder.py`); decisions read views, never raw objects.
"""

from collections import Counter
from collections.abc import Mapping
from typing import dataclass_transform

import msgspec

from grove.api import labels
from grove.api.reasons import ConditionType, Reason
from grove.api.resources import PODCLIQUES, Resource
from grove.api.schema.limits import LARGEST_COUNT
from grove.api.types.meta import Condition, ObjectMeta, OwnerKey, Uid, find_condition
from grove.api.types.pod import Pod, count_failed_runs, ended_well, has_lost_readiness, is_finishing
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podgang import PodGang
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.types.service import Service
from grove.planner.actions import CreateRejection

# An index of a training set that failed so often is not tried again; a container that did counts as a failed pod.
MOST_FAILURES = 6


@dataclass_transform(frozen_default=True, kw_only_default=True)
class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything observed."""


class CliqueView(View):
    """One PodClique and its pods, in named buckets."""

    clique: PodClique
    # Pods that hold an index, ordered by it; normally one each (see `planner/pods/pod_sync.py` for the other case).
    active: tuple[Pod, ...]
    leaving: tuple[Pod, ...]
    failed: tuple[Pod, ...]
    succeeded: tuple[Pod, ...]
    ready_count: int
    scheduled_count: int
    gated_count: int
    # How many of the active pods run which template.
    active_hashes: Mapping[str, int] = {}
    # Names whose pods were seen to vanish: an index never gets the same name twice.
    gone_names: frozenset[str] = frozenset()
    # Its group is being updated, and with it every member.
    is_group_rolling: bool = False
    # Of a training set: pods that end well have done their part, and are not made again.
    is_finite: bool = False
    # Indices of pods that ended well, as stored and as seen.
    done_indices: frozenset[int] = frozenset()
    # Not ready any more because some containers ended well, and the others run.
    finishing_count: int = 0
    # Not ready yet, and not because something was lost.
    starting_count: int = 0
    # Active pods whose kubelet says that they run, ready or not.
    running_count: int = 0
    # Of a training set: active pods that are not ready, with a container that failed again and again.
    looping: tuple[Pod, ...] = ()
    # Of a training set: indices that are not tried any more, as stored and as seen.
    given_up: frozenset[int] = frozenset()

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
        # Admission refuses more; an edit past it must not hold up everybody else.
        return min(self.clique.spec.replicas, LARGEST_COUNT)

    @property
    def is_at_zero(self) -> bool:
        """It is scaled to zero: it asks for nothing. A training clique cannot be."""
        return not self.is_finite and self.clique.spec.replicas <= 0

    @property
    def min_available(self) -> int:
        """How many pods it takes now: none while it is scaled to zero."""
        return 0 if self.is_at_zero else self.clique.min_available

    @property
    def has_served(self) -> bool:
        """It reached its minimum since it was created, or since it was last scaled up from zero.

        `wasAvailable` never turns false again. That a scale to zero began a new start is told by the stored condition:
        from `ScaledToZero` it goes to `NeverAvailable` until the minimum is reached.
        """
        status = self.clique.status
        return status.was_available and not is_starting_again(status.conditions)

    @property
    def existing_count(self) -> int:
        """Pods that exist for their gang; one that succeeded has done its part."""
        return len(self.active) + self.done_count

    @property
    def placed_count(self) -> int:
        return self.scheduled_count + self.done_count

    @property
    def done_count(self) -> int:
        return len(self.done_indices) if self.is_finite else len(self.succeeded)

    @property
    def done_and_gone_count(self) -> int:
        """Pods that ended well and are not there any more."""
        return len(self.done_indices) - len(self.done_indices.intersection(map(pod_index, self.succeeded)))

    @property
    def available_count(self) -> int:
        """Ready; of a training set also what is about to end well, or did."""
        return self.ready_count + (self.finishing_count + len(self.done_indices) if self.is_finite else 0)

    @property
    def is_done(self) -> bool:
        """Every pod ended well."""
        return self.is_finite and len(self.done_indices) >= self.replicas

    @property
    def failed_count(self) -> int:
        return len(self.failed) + len(self.looping)

    @property
    def is_given_up(self) -> bool:
        """No pod is left to wait for, and not every pod ended well."""
        return bool(self.given_up) and len(self.done_indices | self.given_up) >= self.replicas

    @property
    def has_begun(self) -> bool:
        """Some pod of its present start is past our gate. Pods that leave may be left from before it was at zero."""
        if self.is_at_zero:
            return False
        is_first_start = self.has_served or not self.clique.status.was_available
        told_by = (*self.active, *self.failed, *(self.leaving if is_first_start else ()))
        return self.done_count > 0 or any(not pod.is_behind_our_gate for pod in told_by)

    @property
    def incarnation(self) -> str:
        return self.clique.metadata.labels.get(labels.INCARNATION, "")

    @property
    def gang_life(self) -> str:
        """The life of those it is placed with for the first time; its own, unless it joined others that waited."""
        return self.clique.metadata.annotations.get(labels.GANG_LIFE) or self.incarnation

    @property
    def template_hash(self) -> str:
        """The template that its new pods get."""
        return template_hash_of(self.clique.metadata)


def is_starting_again(conditions: tuple[Condition, ...]) -> bool:
    """Does the stored condition say that the clique is at zero, or did not reach its minimum since?"""
    told = find_condition(conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    return told is not None and told.reason in (Reason.SCALED_TO_ZERO, Reason.NEVER_AVAILABLE)


def template_hash_of(metadata: ObjectMeta) -> str:
    return metadata.labels.get(labels.TEMPLATE_HASH, "")


def pod_index(pod: Pod) -> int:
    """The index a pod holds, or -1 for a pod that carries none: it is not one of ours to count."""
    value = pod.metadata.labels.get(labels.POD_INDEX, "")
    return int(value) if value.isdecimal() else -1


def count_index_failures(pod: Pod) -> int:
    """How often the index of a training pod failed in this incarnation, up to and with this pod."""
    value = pod.metadata.annotations.get(labels.FAILURES, "")
    before = int(value) if value.isdecimal() else 0
    return before + (1 if pod.is_failed else count_failed_runs(pod))


def view_clique(
    clique: PodClique,
    pods: tuple[Pod, ...],
    gone_names: frozenset[str] = frozenset(),
    *,
    is_finite: bool = False,
    done_before: frozenset[int] = frozenset(),
) -> CliqueView:
    active: list[tuple[int, str, Pod]] = []
    leaving: list[Pod] = []
    failed: list[Pod] = []
    succeeded: list[Pod] = []
    ready_count = scheduled_count = gated_count = running_count = 0
    for pod in pods:
        metadata = pod.metadata
        index = pod_index(pod)
        if metadata.is_terminating:
            leaving.append(pod)
        elif pod.is_failed:
            failed.append(pod)
        elif pod.is_succeeded:
            succeeded.append(pod)
        elif index >= 0:
            active.append((index, metadata.name, pod))
            ready_count += pod.is_ready
            scheduled_count += pod.is_scheduled
            gated_count += bool(pod.spec.scheduling_gates)
            running_count += pod.status.phase == "Running"
    waiting = [entry[2] for entry in active if not entry[2].is_ready] if is_finite else []
    finishing_count = sum(map(is_finishing, waiting))
    looping = tuple(pod for pod in waiting if count_failed_runs(pod) >= MOST_FAILURES)
    starting_count = sum(
        not is_finishing(pod) and not has_lost_readiness(pod) and count_failed_runs(pod) < MOST_FAILURES
        for pod in waiting
    )
    seen = {pod_index(pod) for pod in (*succeeded, *leaving) if is_finite and ended_well(pod)} - {-1}
    done = frozenset(seen.union(done_before, clique.status.succeeded_indices)) if is_finite else frozenset()
    has_minimum = ready_count + finishing_count + len(done) >= clique.min_available
    broken = (*failed, *(pod for pod in waiting if count_failed_runs(pod)))
    exhausted = {pod_index(pod) for pod in broken if count_index_failures(pod) >= MOST_FAILURES}
    given_up = frozenset(clique.status.failed_indices).union(exhausted - {-1} if has_minimum else ())
    # Names are unique, so the pods themselves are never compared.
    active.sort(key=lambda entry: entry[:2])
    return CliqueView(
        clique=clique,
        active=tuple(entry[2] for entry in active),
        leaving=tuple(leaving),
        failed=tuple(failed),
        succeeded=tuple(succeeded),
        ready_count=ready_count,
        scheduled_count=scheduled_count,
        gated_count=gated_count,
        active_hashes=Counter(template_hash_of(entry[2].metadata) for entry in active),
        gone_names=gone_names,
        is_finite=is_finite,
        done_indices=done,
        finishing_count=finishing_count,
        starting_count=starting_count,
        running_count=running_count,
        looping=looping,
        given_up=given_up - done if is_finite else frozenset(),
    )


class ReplicaView(View):
    """Everything observed of one set replica, by name."""

    index: int
    cliques: Mapping[str, CliqueView] = {}
    groups: Mapping[str, PodCliqueScalingGroup] = {}
    gangs: Mapping[str, PodGang] = {}
    services: Mapping[str, Service] = {}
    # What its scheduler has of each gang, by the uid of the gang.
    mirrors: Mapping[Uid, tuple[tuple[Resource[SchedulerObject], SchedulerObject], ...]] = {}
    failures: tuple[CreateRejection, ...] = ()

    @property
    def has_anything(self) -> bool:
        return bool(self.cliques or self.groups or self.gangs or self.services)
