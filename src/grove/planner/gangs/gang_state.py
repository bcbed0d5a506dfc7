"""State of each gang of a replica: its pods, their rejected creates, and its scheduler object."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from grove.api.reasons import FindingReason
from grove.api.types.meta import Uid
from grove.api.types.podgang import PodGang
from grove.backends.base import NO_MIRROR, MirrorPlan
from grove.planner.actions import (
    CreateRejection,
    Finding,
    LiveRead,
    earliest,
)
from grove.planner.desired_state import GangBlueprint, ReplicaBlueprint
from grove.planner.gangs.podgang import read_last_names, referenced_names
from grove.planner.gangs.scheduler_objects import mirror_failure_key, plan_mirror, pod_ask
from grove.planner.live_reads import read_live
from grove.planner.pods.create_backoff import CreateBackoff, gang_refusal, pods_failure_key
from grove.planner.pods.pod_sync import CliquePods, plan_pods
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.snapshot import SetContext
from grove.planner.topology.domain_pinning import DomainPins
from grove.planner.views import CliqueView, ReplicaView, pod_index


class GangState(msgspec.Struct, frozen=True, kw_only=True):
    """One gang that should exist, and all that was decided about it."""

    blueprint: GangBlueprint
    gang: PodGang | None
    cliques: dict[str, CliqueView]
    pods: dict[str, CliquePods]
    refusal: CreateBackoff | None
    # What its scheduler has of it, and says.
    mirror: MirrorPlan = NO_MIRROR

    @property
    def views(self) -> tuple[CliqueView, ...]:
        return tuple(self.cliques.values())

    @property
    def clique_count(self) -> int:
        return len(self.blueprint.cliques)

    @property
    def is_whole(self) -> bool:
        """Every clique exists: only then can the gang name its pods."""
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
                _stranded(context, current, view, pins),
                last_names.get(name, ()),
            )
            for name, view in cliques.items()
        }
        refusal = gang_refusal(tuple(cliques.values()), _still_refused(replica, pods), gangs_ahead_count=ahead)
        ahead += refusal is not None
        states.append(
            GangState(
                blueprint=gang,
                gang=current,
                cliques=cliques,
                pods=pods,
                refusal=refusal,
                mirror=plan_mirror(context, replica, gang, current, cliques),
            )
        )
    return tuple(states)


def _stranded(context: SetContext, gang: PodGang | None, clique: CliqueView, pins: DomainPins) -> dict[Uid, str]:
    """Pods that wait in a group of their scheduler, or for a domain, which is not theirs any more.

    A pod names both for good.
    """
    if gang is None or gang.metadata.is_terminating:
        return {}
    group_of = context.backend.group_of
    return {
        **{pod.metadata.uid: "waits for a domain that its scope has left" for pod in pins.strayed(clique)},
        **{
            pod.metadata.uid: "names a scheduling group that is not kept any more"
            for pod in clique.active
            if not pod.is_scheduled and group_of(pod_ask(gang, clique, pod_index(pod))) != pod.group_name
        },
        **(_out_of_place(clique) if context.backend.can.mixes_extras else {}),
    }


def _out_of_place(clique: CliqueView) -> dict[Uid, str]:
    """Pods above the minimum that wait while a place below it stays empty: only the places below make a gang."""
    minimum = clique.min_available
    taken = clique.done_indices.union(map(pod_index, clique.active))
    empty_count = sum(index not in taken for index in range(minimum))
    missing_count = max(0, clique.replicas - clique.existing_count)
    above = [pod for pod in clique.active if pod_index(pod) >= minimum and not pod.is_scheduled]
    count = max(0, empty_count - missing_count)
    return {pod.metadata.uid: "is above the minimum, which is not whole" for pod in above[::-1][:count]}


def _still_refused(replica: ReplicaView, pods: dict[str, CliquePods]) -> tuple[CreateRejection, ...]:
    """Refusals of pods that are still missing; one that nobody wants any more refuses nothing."""
    wanted = {pods_failure_key(name) for name, clique in pods.items() if clique.create}
    return tuple(failure for failure in replica.failures if failure.key in wanted)


def open_failures(
    replica: ReplicaView, blueprint: ReplicaBlueprint, states: tuple[GangState, ...]
) -> tuple[CreateRejection, ...]:
    """The refusals of everything that is still missing."""
    if not replica.failures:
        return ()
    wanted = {
        *(f"services/{name}" for name in (blueprint.name,) if name not in replica.services),
        *(f"podcliquescalinggroups/{g.name}" for g in blueprint.groups if g.name not in replica.groups),
        *(f"podcliques/{c.name}" for c in blueprint.cliques if c.name not in replica.cliques),
        *(f"podgangs/{g.name}" for g in blueprint.gangs if g.name not in replica.gangs),
        *(pods_failure_key(name) for state in states for name, pods in state.pods.items() if pods.create),
        *(mirror_failure_key(one.resource.full_name, one.name) for state in states for one in state.mirror.create),
    }
    return tuple(failure for failure in replica.failures if failure.key in wanted)


def fresh_looks(state: GangState) -> Iterable[LiveRead]:
    return (read_live(state.cliques[name]) for name, pods in state.pods.items() if pods.needs_look)


def wake_of(state: GangState, now: datetime) -> datetime | None:
    waits = [pods.requeue_at for pods in state.pods.values()]
    if state.refusal:
        waits += [at for at in (state.refusal.retry_at, state.refusal.give_back_at) if at and at > now]
    return earliest(*waits)


def mirror_findings(context: SetContext, state: GangState) -> Iterable[Finding]:
    """What the scheduler says of a gang that it did not place, and what it does not carry out."""
    about = f"podgang/{state.blueprint.name}"
    if state.mirror.said and any(clique.placed_count < clique.min_available for clique in state.views):
        first = state.mirror.said[0]
        whose = f" about {first.clique}" if first.clique else ""
        message = f"{context.backend.name}{whose}: {first.message}"
        reason = FindingReason.WAITS_FOR_QUEUE if first.is_queued else FindingReason.DOES_NOT_FIT
        yield Finding(about=about, reason=reason, message=message)
    about = f"podcliqueset/{context.name}"
    for words in state.mirror.gangless:
        yield Finding(about=about, reason=FindingReason.NOT_AS_A_GANG, message=words)
    for words in state.mirror.unmet:
        yield Finding(about=about, reason=FindingReason.PARTIALLY_SUPPORTED, message=words)


def refusal_findings(state: GangState) -> Iterable[Finding]:
    if state.refusal:
        yield Finding(
            about=f"podgang/{state.blueprint.name}",
            reason=FindingReason.PODS_REJECTED,
            message=state.refusal.message,
            until=state.refusal.retry_at,
        )
