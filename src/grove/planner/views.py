"""What was observed, counted once: a clique and its pods, a set replica and its parts.

A view is kept until one of its parts changes (`controller/observe.py`); decisions read views, never raw objects.
"""

from collections import Counter
from collections.abc import Mapping
from typing import dataclass_transform

import msgspec

from grove.api import labels
from grove.api.meta import ObjectMeta, Uid
from grove.api.mirror import Mirror
from grove.api.pod import Pod, ended_well, has_lost_readiness, is_finishing
from grove.api.podclique import PodClique
from grove.api.podgang import PodGang
from grove.api.resources import Resource
from grove.api.scalinggroup import PodCliqueScalingGroup
from grove.api.service import Service
from grove.api.validation.size import LARGEST_COUNT
from grove.planner.actions import Failure


@dataclass_transform(frozen_default=True, kw_only_default=True)
class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything observed."""


class CliqueView(View):
    """One PodClique and its pods, in named buckets."""

    clique: PodClique
    # Pods that hold an index, ordered by it; normally one each (see `pods.py` for the other case).
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

    @property
    def name(self) -> str:
        return self.clique.metadata.name

    @property
    def uid(self) -> Uid:
        return self.clique.metadata.uid

    @property
    def is_leaving(self) -> bool:
        return self.clique.metadata.is_leaving

    @property
    def replicas(self) -> int:
        # Admission refuses more; an edit past it must not hold up everybody else.
        return min(self.clique.spec.replicas, LARGEST_COUNT)

    @property
    def min_available(self) -> int:
        return self.clique.min_available

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


def template_hash_of(metadata: ObjectMeta) -> str:
    return metadata.labels.get(labels.TEMPLATE_HASH, "")


def pod_index(pod: Pod) -> int:
    """The index a pod holds, or -1 for a pod that carries none: it is not one of ours to count."""
    value = pod.metadata.labels.get(labels.POD_INDEX, "")
    return int(value) if value.isdecimal() else -1


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
    ready_count = scheduled_count = gated_count = 0
    for pod in pods:
        metadata = pod.metadata
        index = pod_index(pod)
        if metadata.is_leaving:
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
    waiting = [entry[2] for entry in active if not entry[2].is_ready] if is_finite else []
    finishing_count = sum(map(is_finishing, waiting))
    starting_count = sum(not is_finishing(pod) and not has_lost_readiness(pod) for pod in waiting)
    done = {pod_index(pod) for pod in (*succeeded, *leaving) if is_finite and ended_well(pod)} - {-1}
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
        done_indices=frozenset(done.union(done_before, clique.status.succeeded_indices)) if is_finite else frozenset(),
        finishing_count=finishing_count,
        starting_count=starting_count,
    )


class ReplicaView(View):
    """Everything observed of one set replica, by name."""

    index: int
    cliques: Mapping[str, CliqueView] = {}
    groups: Mapping[str, PodCliqueScalingGroup] = {}
    gangs: Mapping[str, PodGang] = {}
    services: Mapping[str, Service] = {}
    # What its scheduler has of each gang, by the uid of the gang.
    mirrors: Mapping[Uid, tuple[tuple[Resource[Mirror], Mirror], ...]] = {}
    failures: tuple[Failure, ...] = ()

    @property
    def has_anything(self) -> bool:
        return bool(self.cliques or self.groups or self.gangs or self.services)
