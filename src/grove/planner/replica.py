"""Plan one set replica: a table of contents. Each capability has its own package; here is only their order."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType

import msgspec

from grove.api import names
from grove.api.reasons import FindingReason, Reason
from grove.api.resources import PODGANGS, PODS
from grove.api.types.podcliqueset import GangStatus
from grove.api.types.podgang import GangPhase
from grove.planner.actions import (
    Chain,
    ChainPriority,
    CreateRejection,
    Finding,
    LiveRead,
    Patch,
    Stage,
    StatusPriority,
    StatusWrite,
    chain,
    earliest,
)
from grove.planner.child_sync import Retries, plan_builds, plan_service
from grove.planner.desired_state import GroupBlueprint, ReplicaBlueprint, draw_replica
from grove.planner.gangs.gang_state import (
    GangState,
    fresh_looks,
    gang_states,
    mirror_findings,
    open_failures,
    refusal_findings,
    wake_of,
)
from grove.planner.gangs.gate_removal import extras_wake, gate_findings, gates_of
from grove.planner.gangs.scheduling_gates import gate_patience, plan_gates
from grove.planner.object_budget import is_scaled_out, limit_scale
from grove.planner.pods.create_backoff import has_started
from grove.planner.rollout.completion import NO_TURN, judge_completion
from grove.planner.rollout.replica_update import (
    NO_ROLE,
    ReplicaRoll,
    UpdatePriority,
    UpdateRole,
    freshness,
    held,
    is_labelled_older,
    roll_replica,
    standing,
)
from grove.planner.rollout.revision_history import clique_template_name
from grove.planner.rollout.rollout_actions import plan_update_deletes, plan_update_intents, update_findings
from grove.planner.rollout.stall import StallReason
from grove.planner.snapshot import NodeLabels, SetContext
from grove.planner.status.availability import GroupReplica, is_available, is_replica_available
from grove.planner.status.child_status import (
    clique_status,
    gang_health,
    gang_status,
    group_status,
)
from grove.planner.status.group_replicas import group_replicas
from grove.planner.teardown.gang_termination import plan_terminations
from grove.planner.teardown.group_scale_in import plan_group_replica_removals, plan_zero_intents
from grove.planner.teardown.recreation import (
    Recreations,
    plan_close,
    plan_notes,
    plan_recreation_deletes,
    recreation_findings,
)
from grove.planner.teardown.set_deletion import plan_old_finalizers
from grove.planner.teardown.unit_removal import is_marked, plan_replica_removal
from grove.planner.topology.domain_pinning import DomainPins
from grove.planner.topology.topology_scopes import required_scopes, stored_scopes
from grove.planner.training.lifecycle import (
    ReplicaRun,
    is_restart_pending,
    plan_restart_deletes,
    plan_restart_intent,
    run_of,
)
from grove.planner.views import CliqueView, ReplicaView


class ReplicaPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica adds to the plan and the status of its set. Valid until its view changes, or `requeue_at`."""

    chains: tuple[Chain, ...] = ()
    statuses: tuple[StatusWrite, ...] = ()
    looks: tuple[LiveRead, ...] = ()
    findings: tuple[Finding, ...] = ()
    requeue_at: datetime | None = None
    is_available: bool = False
    # A pod of it that stays has phase Running.
    is_running: bool = False
    is_updated: bool = False
    # Some status of it counts units as updated that are not, or not any more.
    is_overstated: bool = False
    waiting_gangs: tuple[GangStatus, ...] = ()
    refused_gang_count: int = 0
    # Refusals of what is still wanted.
    failures: tuple[CreateRejection, ...] = ()
    # Teardowns that are due and held.
    held_count: int = 0
    # Why its gangs are not placed all or nothing, and what else its scheduler does not do, in words.
    gangless: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    # Something of it runs an older template than the newest, or its base gang says so.
    is_outdated: bool = False
    standing: UpdatePriority = UpdatePriority.AVAILABLE
    # In its turn: all of it runs the newest templates, and no minimum is waited for.
    is_turn_done: bool = False
    update_wait: StallReason | None = None
    updated_cliques: tuple[str, ...] = ()
    updated_groups: tuple[str, ...] = ()
    clique_count: int = 0
    group_count: int = 0
    # Of a training set.
    run: ReplicaRun | None = None

    @property
    def is_at_rest(self) -> bool:
        """Return whether there is nothing to do, to report or to wait for."""
        return not (
            self.chains
            or self.statuses
            or self.looks
            or self.findings
            or self.waiting_gangs
            or self.failures
            or self.gangless
            or self.unmet
            or self.requeue_at is not None
        )


def plan_replica(
    context: SetContext,
    replica: ReplicaView,
    now: datetime,
    *,
    role: UpdateRole = NO_ROLE,
    gangs_ahead_count: int = 0,
    hold_until: datetime | None = None,
    outage_until: datetime | None = None,
    node_labels: NodeLabels = MappingProxyType({}),
    is_over_budget: bool = False,
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
    # With a budget that is exceeded, what exists is seen as ever, and nothing is made.
    is_held = is_over_budget and is_scaled_out(context, replica)
    if is_held:
        live_scale = limit_scale(replica, live_scale)
    blueprint = draw_replica(context, replica.index, live_scale)
    removals = plan_group_replica_removals(context, replica, blueprint)
    recreations = Recreations(replica, blueprint)
    terminations = plan_terminations(
        context, replica, blueprint, recreations, now, hold_until=hold_until, outage_until=outage_until
    )
    restart = plan_restart_intent(context, replica, blueprint, role.restarts) if context.is_training else ()
    is_counted = context.is_training and is_restart_pending(replica, blueprint, role.restarts)
    due = "" if is_counted else terminations.restart
    roll = roll_replica(context, replica, blueprint, recreations, role, now)
    if hold_until is not None and now < hold_until:
        # With most nodes out, what is not ready is more likely out of reach than of no use.
        roll = held(roll, hold_until)
    groups = {group.name: group_replicas(replica, blueprint, group, recreations) for group in blueprint.groups}
    fresh = freshness(context, replica, blueprint, groups, now)
    is_known = not context.topology.missing
    scopes = required_scopes(context.topology, blueprint) if is_known else stored_scopes(replica.gangs, blueprint)
    homes = DomainPins(scopes, replica.cliques, node_labels)
    states = gang_states(context, replica, blueprint, recreations, removals.busy_gangs, homes, now, gangs_ahead_count)
    completion = NO_TURN
    if role.is_turn:
        refusals = {name: state.refusal for state in states for name in state.cliques}
        completion = judge_completion(replica, blueprint, recreations, groups, refusals, roll, role.turn, now)
    is_turn_done = completion.is_done and not fresh.is_outdated
    failures = open_failures(replica, blueprint, states)
    is_waiting = role.is_turn and not is_turn_done
    wait = (_refused_wait(states, failures) or roll.wait or completion.wait) if is_waiting else None
    retries = Retries(failures, now)
    builds = plan_builds(context, replica, blueprint, recreations, states, retries, role, roll, now)
    waiting = gates_of(context, states, now)
    gates = tuple(
        patch
        for gate in waiting
        for patch in plan_gates(gate.gang, gate.cliques, gate.verdict, extras=gate.extras, homes=homes)
    )
    opening = _plan_opening(context, replica, states, gates, retries, now)
    deletes, old_gone_at = (
        plan_restart_deletes(context, replica, blueprint, recreations, now)
        if context.is_training
        else (plan_recreation_deletes(context, replica, blueprint, recreations), None)
    )
    intents = (
        restart
        or terminations.intents
        or plan_update_intents(context, replica, blueprint, roll)
        or plan_zero_intents(context, replica, blueprint, recreations)
        or tuple(plan_notes(context, replica, blueprint, recreations))
    )
    is_serving = _is_replica_available(context, replica, blueprint)
    statuses = _plan_statuses(context, replica, blueprint, groups, states, roll, now)
    if intents:
        # Recorded alone: what is about to go is not repaired any more.
        chains = chain(f"{base_name}/intent", replica.index, intents, rank=ChainPriority.FIRST)
    elif due or terminations.is_restart_held:
        # What is to be restarted waits until that is counted.
        chains = ()
    else:
        chains = (
            *chain(f"{base_name}/update", replica.index, plan_update_deletes(replica, roll), rank=ChainPriority.FIRST),
            *chain(f"{base_name}/recreation", replica.index, *deletes, rank=ChainPriority.FIRST),
            *opening.chains,
            *removals.chains,
            # A counted restart comes as soon as there is a gang to record it on: until then no pod is replaced.
            *chain(base_name, replica.index, *(() if is_held else _without_pods(builds) if is_counted else builds)),
            *chain(f"{base_name}/done", replica.index, _closing(context, replica, blueprint, recreations, builds)),
        )
    return ReplicaPlan(
        chains=chains,
        statuses=statuses,
        looks=(*terminations.looks, *roll.looks, *(look for state in states for look in fresh_looks(state))),
        findings=(
            *terminations.findings,
            *(update_findings(context, replica, wait, now) if is_waiting else ()),
            *recreation_findings(blueprint, recreations),
            *removals.findings,
            *gate_findings(waiting),
            *opening.findings,
            *(finding for state in states for finding in mirror_findings(context, state)),
            *(f for s in states for f in refusal_findings(s)),
            *retries.findings,
        ),
        requeue_at=earliest(
            retries.requeue_at,
            terminations.requeue_at,
            roll.requeue_at,
            completion.requeue_at,
            fresh.requeue_at,
            old_gone_at,
            opening.requeue_at,
            extras_wake(context, states, waiting, now),
            *(wake_of(state, now) for state in states),
        ),
        is_available=is_serving,
        is_updated=not fresh.is_outdated and all(clique.name in replica.cliques for clique in blueprint.cliques),
        is_overstated=any(status.takes_back for status in statuses)
        or _has_stale_counts(context, replica, (name for state in states for name in state.cliques)),
        waiting_gangs=tuple(status for state in states for status in _waiting_gang(state)),
        refused_gang_count=sum(state.refusal is not None for state in states),
        failures=failures,
        held_count=terminations.held_count,
        gangless=tuple(dict.fromkeys(words for state in states for words in state.mirror.gangless)),
        unmet=tuple(dict.fromkeys(words for state in states for words in state.mirror.unmet)),
        is_outdated=fresh.is_outdated,
        standing=standing(replica, is_available=is_serving) if fresh.is_outdated else UpdatePriority.AVAILABLE,
        is_turn_done=is_turn_done,
        update_wait=wait,
        updated_cliques=fresh.updated_cliques,
        updated_groups=fresh.updated_groups,
        clique_count=len(context.standalone),
        group_count=len(blueprint.groups),
        is_running=_is_running(replica),
        run=run_of(replica, blueprint, recreations, due, now) if context.is_training else None,
    )


class _Opening(msgspec.Struct, frozen=True, kw_only=True):
    chains: tuple[Chain, ...]
    findings: tuple[Finding, ...]
    # When it stands back no longer.
    requeue_at: datetime | None


def _plan_opening(
    context: SetContext,
    replica: ReplicaView,
    states: tuple[GangState, ...],
    gates: Stage,
    retries: Retries,
    now: datetime,
) -> _Opening:
    """The gates that open, and first the service by which the pods behind them find each other."""
    name = names.replica_name(context.name, replica.index)
    views = [view for state in states for view in state.views]
    service = plan_service(context, replica, retries)
    # Only the first start waits for it: what ran before is repaired also without.
    has_run = has_started(tuple(views)) or any(view.clique.status.was_available for view in views)
    is_needed = not has_run and name not in replica.services
    findings = (_no_service(name),) if is_needed and gates else ()
    if is_needed and not service:
        # It was refused and is tried again later.
        gates = ()
    patience_ends_at = gate_patience(views) if gates or service else None
    is_late = patience_ends_at is not None and patience_ends_at <= now
    rank = ChainPriority.FIRST if is_late else ChainPriority.GATES
    if is_needed:
        chains = chain(f"{name}/gates", replica.index, service, gates, rank=rank)
    else:
        chains = (
            *chain(f"{name}/service", replica.index, service),
            *chain(f"{name}/gates", replica.index, gates, rank=rank),
        )
    return _Opening(chains=chains, findings=findings, requeue_at=None if is_late else patience_ends_at)


def _no_service(name: str) -> Finding:
    message = f"service {name}, by which its pods find each other, does not exist yet"
    return Finding(about=f"podgang/{name}", reason=FindingReason.NO_SERVICE, message=message)


def _refused_wait(states: tuple[GangState, ...], failures: tuple[CreateRejection, ...]) -> StallReason | None:
    refused = next((state for state in states if state.refusal is not None), None)
    if refused is None or refused.refusal is None:
        if not failures:
            return None
        first = min(failures, key=lambda failure: (failure.first_at, failure.key))
        message = f"{first.key} is refused: {first.message}"
        return StallReason(reason=Reason.PODS_REJECTED, message=message, since=first.first_at, is_hopeless=True)
    message = f"pods of {refused.blueprint.name} are refused: {refused.refusal.message}"
    return StallReason(reason=Reason.PODS_REJECTED, message=message, since=refused.refusal.since, is_hopeless=True)


def _without_pods(builds: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return tuple(tuple(action for action in stage if action.resource is not PODS) for stage in builds)


def _closing(
    context: SetContext,
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    recreations: Recreations,
    builds: tuple[Stage, ...],
) -> Stage:
    """An intent is dropped when nothing is left to do to its gang: two patches of one object would meet."""
    patched = {a.name for stage in builds for a in stage if isinstance(a, Patch) and a.resource is PODGANGS}
    return tuple(patch for patch in plan_close(context, replica, blueprint, recreations) if patch.name not in patched)


def _plan_removal(
    context: SetContext, replica: ReplicaView, base_name: str, reason: FindingReason, why: str
) -> ReplicaPlan:
    is_wanted = replica.index < context.spec.replicas
    if not replica.has_anything:
        return ReplicaPlan()
    stages = plan_replica_removal(context, replica, base_name, why)
    finding = Finding(about=f"podgang/{base_name}", reason=reason, message=f"replica {replica.index} goes: {why}")
    return ReplicaPlan(
        chains=chain(base_name, replica.index, plan_old_finalizers(replica), *stages, rank=ChainPriority.FIRST),
        findings=(finding,),
        is_running=_is_running(replica),
        is_overstated=_has_stale_counts(context, replica)
        or any(one.status.updated_replicas and not one.metadata.is_terminating for one in replica.groups.values()),
        # Not wanted or not there yet: the set is not updated as long as this replica is in between.
        is_updated=not is_wanted,
        # It comes back with the newest templates; until then it is on the way there.
        is_outdated=is_wanted and is_labelled_older(context, replica, base_name),
        standing=UpdatePriority.NOTHING_SCHEDULED,
    )


def _plan_statuses(
    context: SetContext,
    replica: ReplicaView,
    blueprint: ReplicaBlueprint,
    groups: Mapping[str, tuple[GroupReplica, ...]],
    states: tuple[GangState, ...],
    roll: ReplicaRoll,
    now: datetime,
) -> tuple[StatusWrite, ...]:
    found: list[StatusWrite | None] = []
    for state in states:
        found += [
            clique_status(
                context,
                clique.template.name,
                state.cliques[clique.name],
                state.refusal,
                roll.cliques.get(clique.name),
                now,
            )
            for clique in state.blueprint.cliques
            if clique.name in state.cliques
        ]
        found += _old_statuses(context, replica, state, now)
        if state.gang is not None and not state.gang.metadata.is_terminating:
            health = gang_health(state.gang, state.views, state.clique_count, state.mirror.said)
            write = gang_status(state.gang, health, now, state.mirror.said)
            if write is not None and context.is_training and write.urgency is StatusPriority.NEWS:
                # When somebody deletes its only clique, nobody else knows that it ran.
                write = msgspec.structs.replace(write, urgency=StatusPriority.FACT)
            found.append(write)
    for group in blueprint.groups:
        current = replica.groups.get(group.name)
        if current is not None and not current.metadata.is_terminating:
            cliques = _group_cliques(context, replica, group)
            rolled = roll.groups.get(group.name)
            judged = groups[group.name]
            found.append(group_status(context, group.config, current, cliques, judged, rolled, now))
    # Whatever a label says: they are about this replica, and come before what is done to it.
    return tuple(
        status if status.part == replica.index else msgspec.structs.replace(status, part=replica.index)
        for status in found
        if status is not None
    )


def _has_stale_counts(context: SetContext, replica: ReplicaView, told: Iterable[str] = ()) -> bool:
    """Cliques that are recreated or removed keep their last status until they go: it may count what is not the newest.

    `told` are those whose status is kept.
    """
    kept = frozenset(told)
    return any(
        view.clique.status.updated_replicas > _newest_count(context, view)
        for name, view in replica.cliques.items()
        if name not in kept and not view.is_terminating
    )


def _newest_count(context: SetContext, view: CliqueView) -> int:
    """Count the pods of the newest template of this clique. Another clique may have the hash of an older one of it."""
    newest = context.newest_hashes.get(clique_template_name(context, view), "")
    return view.active_hashes.get(newest, 0)


def _old_statuses(context: SetContext, replica: ReplicaView, state: GangState, now: datetime) -> Iterable[StatusWrite]:
    """Cliques of an attempt that is torn down stay until their pods are gone, and count them; nothing rests on it."""
    for clique in state.blueprint.cliques if context.is_training else ():
        view = replica.cliques.get(clique.name)
        if view is not None and not view.is_terminating and clique.name not in state.cliques:
            write = clique_status(context, clique.template.name, view, None, None, now)
            if write is not None:
                yield msgspec.structs.replace(write, urgency=StatusPriority.COUNT, on_success=())


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
        >= min(group.config.min_available, group.replicas)
        for group in blueprint.groups
    )


def _is_running(replica: ReplicaView) -> bool:
    return any(view.running_count for view in replica.cliques.values())


def _waiting_gang(state: GangState) -> Iterable[GangStatus]:
    if state.gang is None:
        yield GangStatus(name=state.blueprint.name, phase=GangPhase.PENDING)
        return
    health = gang_health(state.gang, state.views, state.clique_count)
    if health.phase != GangPhase.RUNNING:
        yield GangStatus(name=state.blueprint.name, phase=health.phase)
