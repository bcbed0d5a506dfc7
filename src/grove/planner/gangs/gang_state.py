"""State of each gang of a replica: its pods, their rejected creates, and its scheduler object."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from grove.api.reasons import FindingReason
from grove.api.types.meta import Uid
from grove.api.types.podgang import PodGang
from grove.backends.base import NO_SCHEDULER_OBJECTS, SchedulerObjectPlan
from grove.planner.actions import (
    CreateRejection,
    Finding,
    LiveRead,
    earliest,
)
from grove.planner.desired_state import DesiredGang, DesiredReplica
from grove.planner.gangs.podgang import read_last_names, referenced_names
from grove.planner.gangs.rejected_gangs import CreateBackoff, find_gang_backoff, pods_failure_key
from grove.planner.gangs.scheduler_objects import build_pod_input, plan_scheduler_objects, scheduler_object_failure_key
from grove.planner.live_reads import read_live
from grove.planner.pods.pod_sync import CliquePods, plan_pods
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.snapshot import SetContext
from grove.planner.topology.domain_pinning import DomainPins
from grove.planner.views import CliqueView, ReplicaView, pod_index


class GangState(msgspec.Struct, frozen=True, kw_only=True):
    """One desired gang, with the decisions about its pods, creates and scheduler objects."""

    desired: DesiredGang
    gang: PodGang | None
    cliques: dict[str, CliqueView]
    pods: dict[str, CliquePods]
    backoff: CreateBackoff | None
    # The plan for its scheduler objects, and the messages of its scheduler.
    scheduler_plan: SchedulerObjectPlan = NO_SCHEDULER_OBJECTS

    @property
    def views(self) -> tuple[CliqueView, ...]:
        return tuple(self.cliques.values())

    @property
    def clique_count(self) -> int:
        return len(self.desired.cliques)

    @property
    def is_whole(self) -> bool:
        """Return whether every clique exists: only then can the gang reference its pods."""
        return len(self.cliques) == self.clique_count


def gang_states(facts: ReplicaFacts, busy_gangs: frozenset[str], pins: DomainPins) -> tuple[GangState, ...]:
    """Return the gangs in the order in which rejected ones retry: the base first. `busy_gangs` are removed first."""
    context, replica, recreations = facts.context, facts.replica, facts.recreations
    states: list[GangState] = []
    ahead = facts.environment.gangs_ahead_count
    for gang in facts.desired.gangs:
        if gang.name in busy_gangs:
            continue
        current = replica.gangs.get(gang.name)
        cliques = {c.name: replica.cliques[c.name] for c in gang.cliques if recreations.is_present(replica, c)}
        last_names = read_last_names(current)
        pods = {
            name: plan_pods(
                view,
                referenced_names(current, name),
                facts.now,
                _find_unplaceable_pods(context, current, view, pins),
                last_names.get(name, ()),
            )
            for name, view in cliques.items()
        }
        backoff = find_gang_backoff(
            tuple(cliques.values()), _find_missing_pod_rejections(replica, pods), gangs_ahead_count=ahead
        )
        ahead += backoff is not None
        states.append(
            GangState(
                desired=gang,
                gang=current,
                cliques=cliques,
                pods=pods,
                backoff=backoff,
                scheduler_plan=plan_scheduler_objects(context, replica, gang, current, cliques),
            )
        )
    return tuple(states)


def _find_unplaceable_pods(
    context: SetContext, gang: PodGang | None, clique: CliqueView, pins: DomainPins
) -> dict[Uid, str]:
    """Return pods that wait in a wrong group of their scheduler, or for a wrong domain, and why.

    Both are immutable in a pod, so the pod is recreated.
    """
    if gang is None or gang.metadata.is_terminating:
        return {}
    group_of = context.backend.group_of
    return {
        **{pod.metadata.uid: "waits for a domain that its scope has left" for pod in pins.find_wrongly_pinned(clique)},
        **{
            pod.metadata.uid: "names a scheduling group that no longer exists"
            for pod in clique.active
            if not pod.is_scheduled and group_of(build_pod_input(gang, clique, pod_index(pod))) != pod.group_name
        },
        **(_find_misindexed_pods(clique) if context.backend.capabilities.mixes_surplus else {}),
    }


def _find_misindexed_pods(clique: CliqueView) -> dict[Uid, str]:
    """Return waiting pods above the minimum while an index below it is free: only those form the gang."""
    minimum = clique.min_available
    taken = clique.done_indices.union(map(pod_index, clique.active))
    empty_count = sum(index not in taken for index in range(minimum))
    missing_count = max(0, clique.replicas - clique.existing_count)
    above = [pod for pod in clique.active if pod_index(pod) >= minimum and not pod.is_scheduled]
    count = max(0, empty_count - missing_count)
    return {pod.metadata.uid: "is above the minimum, which is not whole" for pod in above[::-1][:count]}


def _find_missing_pod_rejections(replica: ReplicaView, pods: dict[str, CliquePods]) -> tuple[CreateRejection, ...]:
    """Return the rejections of pods that are still needed."""
    wanted = {pods_failure_key(name) for name, clique in pods.items() if clique.create}
    return tuple(failure for failure in replica.failures if failure.key in wanted)


def find_open_rejections(
    replica: ReplicaView, desired: DesiredReplica, states: tuple[GangState, ...]
) -> tuple[CreateRejection, ...]:
    """Return the rejections of all objects that are still missing."""
    if not replica.failures:
        return ()
    wanted = {
        *(f"services/{name}" for name in (desired.name,) if name not in replica.services),
        *(f"podcliquescalinggroups/{g.name}" for g in desired.groups if g.name not in replica.groups),
        *(f"horizontalpodautoscalers/{a.name}" for a in desired.autoscalers if a.name not in replica.autoscalers),
        *(f"podcliques/{c.name}" for c in desired.cliques if c.name not in replica.cliques),
        *(f"podgangs/{g.name}" for g in desired.gangs if g.name not in replica.gangs),
        *(pods_failure_key(name) for state in states for name, pods in state.pods.items() if pods.create),
        *(
            scheduler_object_failure_key(one.resource.full_name, one.name)
            for state in states
            for one in state.scheduler_plan.create
        ),
    }
    return tuple(failure for failure in replica.failures if failure.key in wanted)


def plan_live_reads(state: GangState) -> Iterable[LiveRead]:
    return (read_live(state.cliques[name]) for name, pods in state.pods.items() if pods.needs_live_read)


def requeue_time(state: GangState, now: datetime) -> datetime | None:
    waits = [pods.requeue_at for pods in state.pods.values()]
    if state.backoff:
        waits += [at for at in (state.backoff.retry_at, state.backoff.release_at) if at and at > now]
    return earliest(*waits)


def scheduler_findings(context: SetContext, state: GangState) -> Iterable[Finding]:
    """Yield the messages of the scheduler about a gang that it did not place, and what it does not support."""
    about = f"podgang/{state.desired.name}"
    if state.scheduler_plan.messages and any(clique.placed_count < clique.min_available for clique in state.views):
        first = state.scheduler_plan.messages[0]
        whose = f" about {first.clique}" if first.clique else ""
        message = f"{context.backend.name}{whose}: {first.message}"
        reason = FindingReason.WAITS_FOR_QUEUE if first.is_queued else FindingReason.DOES_NOT_FIT
        yield Finding(about=about, reason=reason, message=message)
    about = f"podcliqueset/{context.name}"
    for words in state.scheduler_plan.gangless:
        yield Finding(about=about, reason=FindingReason.NOT_AS_A_GANG, message=words)
    for words in state.scheduler_plan.unmet:
        yield Finding(about=about, reason=FindingReason.PARTIALLY_SUPPORTED, message=words)


def rejection_findings(state: GangState) -> Iterable[Finding]:
    if state.backoff:
        yield Finding(
            about=f"podgang/{state.desired.name}",
            reason=FindingReason.PODS_REJECTED,
            message=state.backoff.message,
            until=state.backoff.retry_at,
        )
