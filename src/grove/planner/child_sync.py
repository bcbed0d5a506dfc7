"""Sync of the children of one replica: what to create, repair and delete, in the order of their dependencies.

Units that go as a whole are in `planner/teardown/unit_removal.py` and `planner/teardown/group_scale_in.py`.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from grove.api import labels, names
from grove.api.reasons import EventReason, FindingReason
from grove.api.resources import GROUPS, PODCLIQUES, PODS, SERVICES
from grove.api.types.meta import JsonObject
from grove.planner.actions import (
    Action,
    Create,
    CreateRejection,
    EventRecord,
    EventSubject,
    Finding,
    Patch,
    Stage,
    delete_object,
    earliest,
    subject_of,
)
from grove.planner.child_manifests import (
    build_clique,
    build_group,
    build_service,
    build_service_spec,
    clique_template_patch,
    lost_labels,
)
from grove.planner.desired_state import CliqueBlueprint, ReplicaBlueprint
from grove.planner.gangs.gang_state import GangState
from grove.planner.gangs.podgang import (
    GangContent,
    draw_gang_spec,
    plan_gang_object,
    write_last_names,
    write_zero_counts,
)
from grove.planner.gangs.scheduler_objects import mirror_stages
from grove.planner.pods.create_backoff import has_started, is_about_pods, pods_failure_key
from grove.planner.pods.pod_builder import PodBuilder
from grove.planner.pods.pod_sync import NewPod
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.rollout.replica_update import ReplicaRoll
from grove.planner.snapshot import SetContext
from grove.planner.teardown.pod_deletion import delete_pod
from grove.planner.teardown.recreation import Recreation, Recreations
from grove.planner.teardown.set_deletion import plan_old_finalizers
from grove.planner.views import CliqueView, ReplicaView, pod_index

FIRST_RETRY = timedelta(seconds=5)
LONGEST_RETRY = timedelta(minutes=5)


class Retries:
    """Creates that were refused before wait for their time; everything else goes on."""

    def __init__(self, failures: tuple[CreateRejection, ...], now: datetime) -> None:
        self._due = {failure.key: _retry_at(failure) for failure in failures}
        self._now = now
        # Refused pods have rules of their own (`planner/pods/create_backoff.py`).
        waiting = [f for f in failures if not is_about_pods(f) and self._due[f.key] > now]
        self.requeue_at = earliest(*(self._due[failure.key] for failure in waiting))
        self.findings = tuple(
            Finding(
                about=failure.key,
                reason=FindingReason.NAME_TAKEN
                if failure.code == FindingReason.NAME_TAKEN
                else FindingReason.CREATE_REJECTED,
                message=failure.message,
                until=self._due[failure.key],
            )
            for failure in waiting
        )

    def allowed(self, stage: Stage) -> Stage:
        return tuple(action for action in stage if not isinstance(action, Create) or self.allow(action.failure_key))

    def allow(self, key: str) -> bool:
        due = self._due.get(key)
        return due is None or due <= self._now


def _retry_at(failure: CreateRejection) -> datetime:
    return failure.last_at + min(FIRST_RETRY * (1 << min(failure.count - 1, 10)), LONGEST_RETRY)


def plan_builds(
    facts: ReplicaFacts, states: tuple[GangState, ...], retries: Retries, roll: ReplicaRoll
) -> tuple[Stage, ...]:
    """Return the stages that create, repair and scale the children of a replica."""
    context, replica, desired, recreations = facts.context, facts.replica, facts.desired, facts.recreations
    groups = tuple(_plan_groups(context, replica, desired))
    cliques = tuple(action for state in states for action in _plan_cliques(facts, state))
    templates = {
        clique.name: action
        for clique in desired.cliques
        if roll.may_patch(clique, facts.role)
        for action in _plan_template(context, replica, recreations, clique)
    }
    relabels = {
        clique.name: action
        for clique in desired.cliques
        if clique.name not in templates and recreations.is_present(replica, clique)
        for action in _plan_labels(context, replica, clique)
    }
    gangs = tuple(action for state in states for action in _plan_gang(facts, state))
    # Pods are built from their clique. A clique that is patched now creates its pods in the next plan.
    creation = _PodCreation(
        context=context, retries=retries, changing=frozenset((*templates, *relabels)), now=facts.now
    )
    return (
        (*plan_old_finalizers(replica), *_plan_strangers(context, replica, desired)),
        *(retries.allowed(stage) for stage in (groups, (*cliques, *templates.values(), *relabels.values()), gangs)),
        *_plan_mirrors(states, retries),
        tuple(action for state in states for action in _plan_surplus(state, facts.now)),
        *(stage for state in states for stage in _plan_new_pods(creation, state)),
        tuple(action for state in states for action in _plan_ended(creation, state)),
    )


def plan_service(context: SetContext, replica: ReplicaView, retries: Retries) -> Stage:
    return retries.allowed(tuple(_plan_service(context, replica)))


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
    if current != wanted and not service.metadata.is_terminating:
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


def _plan_cliques(facts: ReplicaFacts, state: GangState) -> Iterable[Action]:
    context, replica, recreations = facts.context, facts.replica, facts.recreations
    for clique in state.blueprint.cliques:
        owner = _owner_of(context, replica, clique)
        # A leaving clique keeps its name until it is gone; its going wakes this set.
        if clique.name in replica.cliques or owner is None:
            continue
        recreation = recreations.of(clique)
        incarnation = (
            recreations.life_of(clique) or _incarnation(context, replica, state, facts.role.restarts)
            if recreation is None
            else _new_incarnation(replica, clique, recreation)
        )
        yield Create(
            resource=PODCLIQUES,
            namespace=context.namespace,
            name=clique.name,
            body=build_clique(
                context,
                replica.index,
                clique,
                owner=owner,
                incarnation=incarnation,
                gang_life=_gang_life(state, incarnation),
                replicas=None if recreation is None else recreation.scale.get(clique.name),
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


def _plan_template(
    context: SetContext, replica: ReplicaView, recreations: Recreations, clique: CliqueBlueprint
) -> Iterable[Patch]:
    """An existing clique takes the template of its replica over; its pods follow as the update goes on."""
    owner = _owner_of(context, replica, clique)
    if owner is None or not recreations.is_present(replica, clique):
        return
    view = replica.cliques[clique.name]
    if view.template_hash == context.template_hashes[clique.template.name]:
        return
    yield _patch_clique(
        view,
        clique_template_patch(context, replica.index, clique, view.clique, owner=owner),
        f"clique {clique.template.name} has a newer template",
        _made(owner, EventReason.POD_CLIQUE_SYNCED, "changed the template of PodClique", clique.name),
    )


def _plan_labels(context: SetContext, replica: ReplicaView, clique: CliqueBlueprint) -> Iterable[Patch]:
    """Labels that are ours to say, put back: by them a clique and its pods are found and deleted."""
    view = replica.cliques[clique.name]
    lost = lost_labels(context, replica.index, clique, view.clique)
    if lost:
        why = f"clique {clique.template.name} does not say any more whose it is"
        yield _patch_clique(view, {"metadata": {"labels": dict(lost)}}, why)


def _patch_clique(view: CliqueView, patch: JsonObject, reason: str, on_success: EventRecord | None = None) -> Patch:
    """Only the clique as it was seen."""
    metadata = view.clique.metadata
    return Patch(
        resource=PODCLIQUES,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        patch=patch,
        reason=reason,
        on_success=on_success,
    )


def _owner_of(context: SetContext, replica: ReplicaView, clique: CliqueBlueprint) -> EventSubject | None:
    """The set, or the group once it exists: a member needs its group's uid."""
    if not clique.group:
        return context.subject
    group = replica.groups.get(clique.group)
    return None if group is None or group.metadata.is_terminating else subject_of(GROUPS, group.metadata)


def _incarnation(context: SetContext, replica: ReplicaView, state: GangState, restarts: int) -> str:
    """Which life of its unit this is: kept while anything of it exists, never used twice.

    Generations only grow, and a unit comes back only after somebody changed a spec. Of a training set the restarts that
    were counted tell the life, also when somebody took all that was left of it away.
    """
    if state.gang is not None and labels.INCARNATION in state.gang.metadata.labels:
        return state.gang.metadata.labels[labels.INCARNATION]
    for clique in state.views:
        if clique.incarnation:
            return clique.incarnation
    group = replica.groups.get(state.blueprint.group)
    birth = f"{context.generation}.{restarts}" if restarts else str(context.generation)
    return f"{birth}-{group.metadata.generation}" if group else birth


def _new_incarnation(replica: ReplicaView, clique: CliqueBlueprint, recreation: Recreation) -> str:
    group = replica.groups.get(clique.group)
    # A scaled gang may go and come back while its replica is being recreated: then its group's generation tells.
    if clique.base_gang and not recreation.group and group is not None:
        return f"{recreation.incarnation}-{group.metadata.generation}"
    return recreation.incarnation


def _new_life(replica: ReplicaView, recreations: Recreations, state: GangState) -> str:
    """The incarnation that a gang takes over because all of it is recreated; "": it keeps its own."""
    if state.blueprint.is_base:
        # Its cliques do not tell: it may have none, when all of it is scaled to zero.
        return recreations.whole.incarnation if recreations.whole is not None else ""
    first = state.blueprint.cliques[0]
    recreation = recreations.of(first)
    return "" if recreation is None else _new_incarnation(replica, first, recreation)


def _was_placed(clique: CliqueView) -> bool:
    """Some pod of it is on a node, or was; of one that lost all its pods, its status remembers."""
    return (
        clique.placed_count > 0
        or clique.has_served
        or any(pod.is_scheduled for pod in (*clique.leaving, *clique.failed))
    )


def _gang_life(state: GangState, incarnation: str) -> str:
    """The life of those that a clique made anew waits with; "": its own, with which it is placed."""
    views = state.views
    if not views or any(map(_was_placed, views)):
        return ""
    life = views[0].gang_life
    return life if life != incarnation else ""


def _plan_gang(facts: ReplicaFacts, state: GangState) -> Iterable[Action]:
    context, replica = facts.context, facts.replica
    if not state.is_whole or (state.gang is not None and state.gang.metadata.is_terminating):
        return
    # In a base gang a single group replica may be recreated; that is not a new incarnation of the gang.
    new_incarnation = _new_life(replica, facts.recreations, state)
    content = GangContent(
        spec=draw_gang_spec(context, state.blueprint, state.cliques, state.pods),
        last_names=write_last_names(state.pods),
        zero_counts=write_zero_counts(state.gang, state.views) if context.backend.mirrors else None,
        incarnation=new_incarnation or _incarnation(context, replica, state, facts.role.restarts),
        is_new_incarnation=bool(new_incarnation),
        takes_revision=facts.role.is_turn or facts.role.is_on_delete,
    )
    action = plan_gang_object(context, replica.index, state.blueprint, state.gang, content)
    if action is not None:
        yield action


def _plan_mirrors(states: tuple[GangState, ...], retries: Retries) -> tuple[Stage, Stage]:
    """What the scheduler reads of the gangs; before any gate opens, and beside the pods."""
    stages = [mirror_stages(state.gang, state.mirror) for state in states]
    return (
        tuple(action for deletes, _ in stages for action in deletes),
        tuple(
            action
            for _, writes in stages
            for action in writes
            if not isinstance(action, Create) or retries.allow(action.failure_key)
        ),
    )


class _PodCreation(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether the pods of a gang may be created now."""

    context: SetContext
    retries: Retries
    # Cliques that are patched in the same plan.
    changing: frozenset[str]
    now: datetime


def _may_create_pods(creation: _PodCreation, state: GangState) -> bool:
    context = creation.context
    if context.hold and not has_started(state.views):
        return False
    # Where pods name a group of their scheduler, it is one of a gang that is stored.
    if state.gang is None and context.backend.mirrors:
        return False
    if not state.is_whole or (state.gang is not None and state.gang.metadata.is_terminating):
        return False
    # The gang names its pods first: while its own create waits, so do they.
    if state.gang is None and not creation.retries.allow(f"podgangs/{state.blueprint.name}"):
        return False
    return state.refusal is None or state.refusal.retry_at <= creation.now


def _plan_new_pods(creation: _PodCreation, state: GangState) -> tuple[Stage, Stage]:
    """Minima before extras, so that a server that refuses some leaves a gang its minimum."""
    if not _may_create_pods(creation, state):
        return (), ()
    minima: list[Action] = []
    extras: list[Action] = []
    for name, pods in state.pods.items():
        clique = state.cliques[name]
        if not pods.create or name in creation.changing:
            continue
        mold = PodBuilder(clique, state.gang, creation.context.backend)
        short = max(0, clique.min_available - clique.existing_count)
        for position, new in enumerate(pods.create):
            (minima if position < short else extras).append(_create_pod(clique, mold, new))
    return tuple(minima), tuple(extras)


def _create_pod(clique: CliqueView, mold: PodBuilder, new: NewPod) -> Create:
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
            yield from (delete_pod(clique, pod.metadata, why) for pod in clique.active)
        return
    for name, pods in state.pods.items():
        for entry in pods.delete:
            if entry.pod.is_active:
                yield delete_pod(state.cliques[name], entry.pod.metadata, entry.reason)


def _plan_ended(creation: _PodCreation, state: GangState) -> Iterable[Action]:
    """After their replacements were created, which carry on the count of failures; never before."""
    may_create = _may_create_pods(creation, state)
    for name, pods in state.pods.items():
        unreplaced = {} if may_create and name not in creation.changing else {new.index: None for new in pods.create}
        for entry in pods.delete:
            if not entry.pod.is_active and pod_index(entry.pod) not in unreplaced:
                yield delete_pod(state.cliques[name], entry.pod.metadata, entry.reason)


def _plan_strangers(context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint) -> Iterable[Action]:
    """Cliques of this set that no template explains any more; group replicas have their own removal."""
    known = {clique.name for clique in blueprint.cliques}
    groups = {group.name for group in blueprint.groups}
    for clique in replica.cliques.values():
        is_explained = clique.name in known or clique.clique.metadata.labels.get(labels.GROUP) in groups
        if not is_explained and not clique.is_terminating:
            yield delete_object(PODCLIQUES, clique.clique.metadata, "no clique of the template has this name")


def _made(subject: EventSubject, reason: EventReason, message: str, name: str) -> EventRecord:
    return EventRecord(subject=subject, reason=reason, message=message, names=(name,))
