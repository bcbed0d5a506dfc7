"""One set replica: from what was observed of it to the stages that bring it where it should be.

The order of the story is here; each question is answered in its own file.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from grove.api import labels, names
from grove.api.meta import JsonObject, ObjectMeta
from grove.api.podcliqueset import GangStatus
from grove.api.podgang import GangPhase, PodGang
from grove.api.reasons import EventReason, FindingReason
from grove.api.resources import GROUPS, PODCLIQUES, PODS, SERVICES
from grove.planner.actions import (
    Action,
    Chain,
    Create,
    Delete,
    Emit,
    Failure,
    Finding,
    FreshLook,
    Patch,
    Stage,
    StatusWrite,
    Subject,
    chain,
    delete_object,
    earliest,
    subject_of,
)
from grove.planner.availability import is_available
from grove.planner.blueprint import CliqueBlueprint, GangBlueprint, GroupBlueprint, ReplicaBlueprint, draw_replica
from grove.planner.deletion import plan_old_finalizers
from grove.planner.gangs import draw_gang_spec, plan_gang_object, referenced_names
from grove.planner.gates import GateVerdict, base_placement, gang_gate, gate_finding, plan_gates
from grove.planner.objects import build_clique, build_group, build_service, build_service_spec
from grove.planner.pod_build import PodMold
from grove.planner.pods import CliquePods, NewPod, plan_pods
from grove.planner.refusals import Refusal, gang_refusal, is_about_pods, pods_failure_key
from grove.planner.removal import is_marked, plan_group_replica_removal, plan_replica_removal
from grove.planner.snapshot import SetContext
from grove.planner.status import (
    clique_status,
    gang_health,
    gang_status,
    group_status,
    is_newest,
    is_replica_available,
)
from grove.planner.views import CliqueView, ReplicaView, pod_index

FIRST_RETRY = timedelta(seconds=5)
LONGEST_RETRY = timedelta(minutes=5)


class ReplicaPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica adds to its set's plan and status. Holds until its view changes or `wake_at` comes."""

    chains: tuple[Chain, ...] = ()
    statuses: tuple[StatusWrite, ...] = ()
    looks: tuple[FreshLook, ...] = ()
    findings: tuple[Finding, ...] = ()
    wake_at: datetime | None = None
    is_available: bool = False
    is_updated: bool = False
    waiting_gangs: tuple[GangStatus, ...] = ()
    refused_gang_count: int = 0
    # Refusals of what is still wanted.
    failures: tuple[Failure, ...] = ()

    @property
    def is_at_rest(self) -> bool:
        """Nothing to do, to say or to wait for."""
        return not (
            self.chains
            or self.statuses
            or self.looks
            or self.findings
            or self.waiting_gangs
            or self.failures
            or self.wake_at is not None
        )


class GangState(msgspec.Struct, frozen=True, kw_only=True):
    """One gang that should exist, and all that was decided about it."""

    blueprint: GangBlueprint
    gang: PodGang | None
    cliques: dict[str, CliqueView]
    pods: dict[str, CliquePods]
    refusal: Refusal | None

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


def plan_replica(
    context: SetContext, replica: ReplicaView, now: datetime, *, gangs_ahead_count: int = 0
) -> ReplicaPlan:
    base_name = names.replica_name(context.name, replica.index)
    if replica.index >= context.spec.replicas:
        return _plan_removal(context, replica, base_name, FindingReason.BEING_REMOVED, "the set was scaled in")
    if is_marked(replica.gangs.get(base_name)):
        return _plan_removal(
            context,
            replica,
            base_name,
            FindingReason.TEARDOWN_UNFINISHED,
            "its removal was begun and is finished first",
        )
    live_scale = {group.metadata.name: group.spec.replicas for group in replica.groups.values()}
    blueprint = draw_replica(context, replica.index, live_scale)
    removals = _plan_group_replica_removals(context, replica, blueprint)
    states = _gang_states(replica, blueprint, removals.busy_gangs, now, gangs_ahead_count)
    failures = _open_failures(replica, blueprint, states)
    retries = _Retries(failures, now)
    verdicts = _verdicts(states)
    builds = _plan_builds(context, replica, blueprint, states, retries, now)
    gates = tuple(
        patch for state in states for patch in plan_gates(state.gang, state.views, verdicts[state.blueprint.name])
    )
    return ReplicaPlan(
        chains=(
            *chain(f"{base_name}/gates", replica.index, gates),
            *removals.chains,
            *chain(base_name, replica.index, *builds),
        ),
        statuses=_plan_statuses(context, replica, blueprint, states, now),
        looks=tuple(look for state in states for look in _looks(context, state)),
        findings=(
            *removals.findings,
            *(f for s in states for f in gate_finding(s.blueprint.name, s.views, verdicts[s.blueprint.name])),
            *(f for s in states for f in _refusal_findings(s)),
            *retries.findings,
        ),
        wake_at=earliest(retries.wake_at, *(_wake_of(state, now) for state in states)),
        is_available=_is_replica_available(context, replica, blueprint),
        is_updated=all(
            clique.name in replica.cliques and is_newest(context, replica.cliques[clique.name])
            for clique in blueprint.cliques
        ),
        waiting_gangs=tuple(status for state in states for status in _waiting_gang(state)),
        refused_gang_count=sum(state.refusal is not None for state in states),
        failures=failures,
    )


# --- removal ---------------------------------------------------------------------------------------------------------


def _plan_removal(
    context: SetContext, replica: ReplicaView, base_name: str, reason: FindingReason, why: str
) -> ReplicaPlan:
    if not replica.has_anything:
        return ReplicaPlan()
    stages = plan_replica_removal(context, replica, base_name, why)
    finding = Finding(about=f"podgang/{base_name}", reason=reason, message=f"replica {replica.index} goes: {why}")
    return ReplicaPlan(
        chains=chain(base_name, replica.index, plan_old_finalizers(replica), *stages),
        findings=(finding,),
        # Not wanted or not there yet: the set is not updated as long as this replica is in between.
        is_updated=replica.index >= context.spec.replicas,
    )


class _Removals(msgspec.Struct, frozen=True, kw_only=True):
    chains: tuple[Chain, ...] = ()
    findings: tuple[Finding, ...] = ()
    # Gangs whose unit must be gone before anything of it is created again.
    busy_gangs: frozenset[str] = frozenset()


def _plan_group_replica_removals(context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint) -> _Removals:
    """Group replicas above the count, and those whose removal was begun."""
    chains: list[Chain] = []
    findings: list[Finding] = []
    busy: list[str] = []
    wanted = {gang.name for gang in blueprint.gangs}
    for group in blueprint.groups:
        for j, members in sorted(_observed_group_replicas(replica, group).items()):
            if j < group.config.min_available:
                continue
            gang_name = names.scaled_gang(group.name, j - group.config.min_available)
            gang = replica.gangs.get(gang_name)
            if gang_name in wanted and not is_marked(gang):
                continue
            why = (
                "the group was scaled in" if gang_name not in wanted else "its removal was begun and is finished first"
            )
            reason = FindingReason.BEING_REMOVED if gang_name not in wanted else FindingReason.TEARDOWN_UNFINISHED
            selector = {labels.GROUP: group.name, labels.GROUP_REPLICA_INDEX: str(j)}
            stages = plan_group_replica_removal(context, gang, members, selector, why)
            chains += chain(gang_name, replica.index, *stages)
            findings.append(
                Finding(about=f"podgang/{gang_name}", reason=reason, message=f"{group.name} replica {j} goes: {why}")
            )
            busy.append(gang_name)
    return _Removals(chains=tuple(chains), findings=tuple(findings), busy_gangs=frozenset(busy))


def _observed_group_replicas(replica: ReplicaView, group: GroupBlueprint) -> dict[int, tuple[CliqueView, ...]]:
    """The replicas of a group of which something exists, by the labels of their cliques and gangs."""
    found: dict[int, list[CliqueView]] = {}
    for clique in replica.cliques.values():
        if clique.clique.metadata.labels.get(labels.GROUP) == group.name:
            found.setdefault(_group_replica_index(clique.clique.metadata), []).append(clique)
    for gang in replica.gangs.values():
        if gang.metadata.labels.get(labels.GROUP) == group.name:
            found.setdefault(_group_replica_index(gang.metadata), [])
    return {j: tuple(members) for j, members in found.items()}


def _group_replica_index(metadata: ObjectMeta) -> int:
    value = metadata.labels.get(labels.GROUP_REPLICA_INDEX, "")
    return int(value) if value.isdecimal() else -1


# --- what is decided per gang ----------------------------------------------------------------------------------------


def _gang_states(
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    busy_gangs: frozenset[str],
    now: datetime,
    gangs_ahead_count: int,
) -> tuple[GangState, ...]:
    """Gangs in the order in which refused ones try again: the base first."""
    states: list[GangState] = []
    ahead = gangs_ahead_count
    for gang in blueprint.gangs:
        if gang.name in busy_gangs:
            continue
        current = replica.gangs.get(gang.name)
        cliques = {c.name: replica.cliques[c.name] for c in gang.cliques if _is_present(replica, c.name)}
        pods = {name: plan_pods(view, referenced_names(current, name), now) for name, view in cliques.items()}
        refusal = gang_refusal(tuple(cliques.values()), _still_refused(replica, pods), gangs_ahead_count=ahead)
        ahead += refusal is not None
        states.append(GangState(blueprint=gang, gang=current, cliques=cliques, pods=pods, refusal=refusal))
    return tuple(states)


def _still_refused(replica: ReplicaView, pods: dict[str, CliquePods]) -> tuple[Failure, ...]:
    """Refusals of pods that are still missing; one that nobody wants any more refuses nothing."""
    wanted = {pods_failure_key(name) for name, clique in pods.items() if clique.create}
    return tuple(failure for failure in replica.failures if failure.key in wanted)


def _open_failures(
    replica: ReplicaView, blueprint: ReplicaBlueprint, states: tuple[GangState, ...]
) -> tuple[Failure, ...]:
    """The refusals of everything that is still missing."""
    if not replica.failures:
        return ()
    wanted = {
        *(f"services/{name}" for name in (blueprint.name,) if name not in replica.services),
        *(f"podcliquescalinggroups/{g.name}" for g in blueprint.groups if g.name not in replica.groups),
        *(f"podcliques/{c.name}" for c in blueprint.cliques if c.name not in replica.cliques),
        *(f"podgangs/{g.name}" for g in blueprint.gangs if g.name not in replica.gangs),
        *(pods_failure_key(name) for state in states for name, pods in state.pods.items() if pods.create),
    }
    return tuple(failure for failure in replica.failures if failure.key in wanted)


def _is_present(replica: ReplicaView, clique_name: str) -> bool:
    clique = replica.cliques.get(clique_name)
    return clique is not None and not clique.is_leaving


def _verdicts(states: tuple[GangState, ...]) -> dict[str, GateVerdict]:
    verdicts: dict[str, GateVerdict] = {}
    base: GateVerdict | None = None
    for state in states:
        is_refused = state.refusal is not None
        verdicts[state.blueprint.name] = gang_gate(
            state.views, clique_count=state.clique_count, is_refused=is_refused, base=base
        )
        if state.blueprint.is_base:
            base = base_placement(state.views, base_name=state.blueprint.name, clique_count=state.clique_count)
    return verdicts


def _looks(context: SetContext, state: GangState) -> Iterable[FreshLook]:
    for name, pods in state.pods.items():
        if pods.needs_look:
            yield FreshLook(
                namespace=context.namespace,
                selector=labels.selector({labels.PODCLIQUE: name}),
                owner_uid=state.cliques[name].uid,
            )


def _wake_of(state: GangState, now: datetime) -> datetime | None:
    waits = [pods.wake_at for pods in state.pods.values()]
    if state.refusal:
        waits += [at for at in (state.refusal.retry_at, state.refusal.give_back_at) if at and at > now]
    return earliest(*waits)


def _refusal_findings(state: GangState) -> Iterable[Finding]:
    if state.refusal:
        yield Finding(
            about=f"podgang/{state.blueprint.name}",
            reason=FindingReason.PODS_REFUSED,
            message=state.refusal.message,
            until=state.refusal.retry_at,
        )


# --- what is built ---------------------------------------------------------------------------------------------------


class _Retries:
    """Creates that were refused before wait for their time; everything else goes on."""

    def __init__(self, failures: tuple[Failure, ...], now: datetime) -> None:
        self._due = {failure.key: _retry_at(failure) for failure in failures}
        self._now = now
        # Refused pods have rules of their own (`refusals.py`).
        waiting = [f for f in failures if not is_about_pods(f) and self._due[f.key] > now]
        self.wake_at = earliest(*(self._due[failure.key] for failure in waiting))
        self.findings = tuple(
            Finding(
                about=failure.key,
                reason=FindingReason.NAME_TAKEN
                if failure.code == FindingReason.NAME_TAKEN
                else FindingReason.CREATE_REFUSED,
                message=failure.message,
                until=self._due[failure.key],
            )
            for failure in waiting
        )

    def allow(self, key: str) -> bool:
        due = self._due.get(key)
        return due is None or due <= self._now


def _retry_at(failure: Failure) -> datetime:
    return failure.last_at + min(FIRST_RETRY * (1 << min(failure.count - 1, 10)), LONGEST_RETRY)


def _plan_builds(
    context: SetContext,
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    states: tuple[GangState, ...],
    retries: _Retries,
    now: datetime,
) -> tuple[Stage, ...]:
    objects = (*_plan_service(context, replica), *_plan_groups(context, replica, blueprint))
    cliques = tuple(action for state in states for action in _plan_cliques(context, replica, state))
    gangs = tuple(action for state in states for action in _plan_gang(context, replica, state))
    allowed = [
        tuple(action for action in stage if not isinstance(action, Create) or retries.allow(action.failure_key))
        for stage in (objects, cliques, gangs)
    ]
    return (
        (*plan_old_finalizers(replica), *_plan_strangers(context, replica, blueprint)),
        *allowed,
        tuple(action for state in states for action in _plan_surplus(state, now)),
        *(stage for state in states for stage in _plan_new_pods(state, retries, now)),
        tuple(action for state in states for action in _plan_ended(state, retries, now)),
    )


def _plan_service(context: SetContext, replica: ReplicaView) -> Iterable[Action]:
    name = names.replica_name(context.name, replica.index)
    service = replica.services.get(name)
    if service is None:
        yield Create(
            resource=SERVICES,
            namespace=context.namespace,
            name=name,
            body=build_service(context, replica.index),
            failure_key=f"services/{name}",
            reason="pods of a replica find each other by name",
        )
        return
    wanted = build_service_spec(context, replica.index)
    current: JsonObject = {
        "publishNotReadyAddresses": service.spec.publish_not_ready_addresses,
        "selector": service.spec.selector,
    }
    if current != wanted and not service.metadata.is_leaving:
        changed = {key: value for key, value in wanted.items() if current[key] != value}
        if "selector" in changed:
            # A merge patch keeps what it does not name: keys that are not ours are taken out.
            changed["selector"] = {**dict.fromkeys(service.spec.selector), **wanted["selector"]}
        yield Patch(
            resource=SERVICES,
            namespace=context.namespace,
            name=name,
            uid=service.metadata.uid,
            patch={"spec": changed},
            reason="the service is not as the set's headlessServiceConfig says",
        )


def _plan_groups(context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint) -> Iterable[Action]:
    for group in blueprint.groups:
        if group.name not in replica.groups:
            yield Create(
                resource=GROUPS,
                namespace=context.namespace,
                name=group.name,
                body=build_group(context, replica.index, group),
                failure_key=f"podcliquescalinggroups/{group.name}",
                reason=f"group {group.config.name} of replica {replica.index}",
                on_success=_made(
                    context.subject, EventReason.GROUP_CREATED, "created PodCliqueScalingGroup", group.name
                ),
            )


def _plan_cliques(context: SetContext, replica: ReplicaView, state: GangState) -> Iterable[Action]:
    for clique in state.blueprint.cliques:
        owner = _owner_of(context, replica, clique)
        # A leaving clique keeps its name until it is gone; its going wakes this set.
        if clique.name in replica.cliques or owner is None:
            continue
        yield Create(
            resource=PODCLIQUES,
            namespace=context.namespace,
            name=clique.name,
            body=build_clique(
                context, replica.index, clique, owner=owner, incarnation=_incarnation(context, replica, state)
            ),
            failure_key=f"podcliques/{clique.name}",
            reason=f"clique {clique.template.name} of gang {clique.gang}",
            on_success=_made(
                owner,
                EventReason.POD_CLIQUE_CREATED if clique.group else EventReason.POD_CLIQUE_SYNCED,
                "created PodClique",
                clique.name,
            ),
        )


def _owner_of(context: SetContext, replica: ReplicaView, clique: CliqueBlueprint) -> Subject | None:
    """The set, or the group once it exists: a member needs its group's uid."""
    if not clique.group:
        return context.subject
    group = replica.groups.get(clique.group)
    return None if group is None or group.metadata.is_leaving else subject_of(GROUPS, group.metadata)


def _incarnation(context: SetContext, replica: ReplicaView, state: GangState) -> str:
    """Which life of its unit this is: kept while anything of it exists, never used twice.

    Generations only grow, and a unit comes back only after somebody changed a spec.
    """
    if state.gang is not None and labels.INCARNATION in state.gang.metadata.labels:
        return state.gang.metadata.labels[labels.INCARNATION]
    for clique in state.views:
        if clique.incarnation:
            return clique.incarnation
    group = replica.groups.get(state.blueprint.group)
    return f"{context.generation}-{group.metadata.generation}" if group else str(context.generation)


def _plan_gang(context: SetContext, replica: ReplicaView, state: GangState) -> Iterable[Action]:
    if not state.is_whole or (state.gang is not None and state.gang.metadata.is_leaving):
        return
    action = plan_gang_object(
        context,
        replica.index,
        state.blueprint,
        state.gang,
        spec=draw_gang_spec(context, state.blueprint, state.cliques, state.pods),
        incarnation=_incarnation(context, replica, state),
    )
    if action is not None:
        yield action


def _may_create_pods(state: GangState, retries: _Retries, now: datetime) -> bool:
    if not state.is_whole or (state.gang is not None and state.gang.metadata.is_leaving):
        return False
    # The gang names its pods first: while its own create waits, so do they.
    if state.gang is None and not retries.allow(f"podgangs/{state.blueprint.name}"):
        return False
    return state.refusal is None or state.refusal.retry_at <= now


def _plan_new_pods(state: GangState, retries: _Retries, now: datetime) -> tuple[Stage, Stage]:
    """Minima before extras, so that a server that refuses some leaves a gang its minimum."""
    if not _may_create_pods(state, retries, now):
        return (), ()
    minima: list[Action] = []
    extras: list[Action] = []
    for name, pods in state.pods.items():
        clique = state.cliques[name]
        if not pods.create:
            continue
        mold = PodMold(clique.clique)
        short = max(0, clique.min_available - clique.existing_count)
        for position, new in enumerate(pods.create):
            (minima if position < short else extras).append(_create_pod(clique, mold, new))
    return tuple(minima), tuple(extras)


def _create_pod(clique: CliqueView, mold: PodMold, new: NewPod) -> Create:
    return Create(
        resource=PODS,
        namespace=clique.clique.metadata.namespace,
        name=new.name,
        body=mold.cast(new.name, new.index, new.failures),
        failure_key=pods_failure_key(clique.name),
        reason=f"index {new.index} of clique {clique.name}",
        on_success=_made(
            subject_of(PODCLIQUES, clique.clique.metadata), EventReason.POD_CREATED, "created pod", new.name
        ),
    )


def _plan_surplus(state: GangState, now: datetime) -> Iterable[Action]:
    """Pods above the count; and those of a refused gang that gives its waiting pods back."""
    refusal = state.refusal
    # At the time to try again it is tried again: then the pods are needed after all.
    if refusal and refusal.give_back_at and refusal.give_back_at <= now < refusal.retry_at:
        why = "the gang is refused its minimum and gives its waiting pods back"
        for clique in state.views:
            yield from (_delete_pod(clique, pod.metadata, why) for pod in clique.active)
        return
    for name, pods in state.pods.items():
        for entry in pods.delete:
            if entry.pod.is_active:
                yield _delete_pod(state.cliques[name], entry.pod.metadata, entry.reason)


def _plan_ended(state: GangState, retries: _Retries, now: datetime) -> Iterable[Action]:
    """After their replacements were created, which carry on the count of failures; never before."""
    may_create = _may_create_pods(state, retries, now)
    for name, pods in state.pods.items():
        unreplaced = {} if may_create else {new.index: None for new in pods.create}
        for entry in pods.delete:
            if not entry.pod.is_active and pod_index(entry.pod) not in unreplaced:
                yield _delete_pod(state.cliques[name], entry.pod.metadata, entry.reason)


def _delete_pod(clique: CliqueView, pod: ObjectMeta, reason: str) -> Delete:
    subject = subject_of(PODCLIQUES, clique.clique.metadata)
    return delete_object(
        PODS, pod, reason, _made(subject, EventReason.POD_DELETED, f"deleted pod ({reason})", pod.name)
    )


def _plan_strangers(context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint) -> Iterable[Action]:
    """Cliques of this set that no template explains any more; group replicas have their own removal."""
    known = {clique.name for clique in blueprint.cliques}
    groups = {group.name for group in blueprint.groups}
    for clique in replica.cliques.values():
        is_explained = clique.name in known or clique.clique.metadata.labels.get(labels.GROUP) in groups
        if not is_explained and not clique.is_leaving:
            yield delete_object(PODCLIQUES, clique.clique.metadata, "no clique of the template has this name")


def _made(subject: Subject, reason: EventReason, message: str, name: str) -> Emit:
    return Emit(subject=subject, reason=reason, message=message, names=(name,))


# --- what is said ----------------------------------------------------------------------------------------------------


def _plan_statuses(
    context: SetContext,
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    states: tuple[GangState, ...],
    now: datetime,
) -> tuple[StatusWrite, ...]:
    found: list[StatusWrite | None] = []
    for state in states:
        found += [clique_status(context, clique, state.refusal, now) for clique in state.views]
        if state.gang is not None and not state.gang.metadata.is_leaving:
            found.append(gang_status(state.gang, gang_health(state.gang, state.views, state.clique_count), now))
    for group in blueprint.groups:
        current = replica.groups.get(group.name)
        if current is not None and not current.metadata.is_leaving:
            found.append(group_status(context, current, _group_cliques(context, replica, group), now))
    return tuple(status for status in found if status is not None)


def _group_cliques(context: SetContext, replica: ReplicaView, group: GroupBlueprint) -> list[list[CliqueView | None]]:
    return [
        [
            replica.cliques.get(names.member_clique(group.name, j, member.name))
            for member in context.members[group.config.name]
        ]
        for j in range(group.replicas)
    ]


def _is_replica_available(context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint) -> bool:
    for template in context.standalone:
        clique = replica.cliques.get(names.standalone_clique(context.name, replica.index, template.name))
        if clique is None or not is_available(clique):
            return False
    return all(
        sum(is_replica_available(cliques) for cliques in _group_cliques(context, replica, group))
        >= group.config.min_available
        for group in blueprint.groups
    )


def _waiting_gang(state: GangState) -> Iterable[GangStatus]:
    if state.gang is None:
        yield GangStatus(name=state.blueprint.name, phase=GangPhase.PENDING)
        return
    health = gang_health(state.gang, state.views, state.clique_count)
    if health.phase != GangPhase.RUNNING:
        yield GangStatus(name=state.blueprint.name, phase=health.phase)
