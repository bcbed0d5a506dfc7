"""Sync the children of one replica: create, repair and delete them, in the order of their dependencies.

`planner/teardown/` deletes whole units.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from grove.api import labels
from grove.api.reasons import EventReason, FindingReason
from grove.api.resources import GROUPS, PODCLIQUES, PODS
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
    autoscaling_patch,
    build_clique,
    build_group,
    clique_template_patch,
    find_lost_labels,
)
from grove.planner.desired_state import DesiredClique, DesiredReplica
from grove.planner.gangs.gang_state import GangState
from grove.planner.gangs.podgang import (
    GangContent,
    build_gang_spec,
    plan_gang_object,
    write_last_names,
    write_zero_counts,
)
from grove.planner.gangs.rejected_gangs import has_started, is_about_pods, pods_failure_key
from grove.planner.gangs.scheduler_objects import scheduler_object_stages
from grove.planner.pods.pod_builder import PodBuilder
from grove.planner.pods.pod_sync import NewPod
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.rollout.replica_update import ReplicaRoll
from grove.planner.snapshot import SetContext
from grove.planner.startup.init_container import awaited_cliques
from grove.planner.teardown.pod_deletion import delete_pod
from grove.planner.teardown.recreation import Recreation, Recreations
from grove.planner.teardown.set_deletion import plan_old_finalizers
from grove.planner.views import CliqueView, ReplicaView, pod_index

FIRST_RETRY = timedelta(seconds=5)
LONGEST_RETRY = timedelta(minutes=5)


class Retries:
    """The back-off of creates that the API server rejected. Other actions are not delayed."""

    def __init__(self, failures: tuple[CreateRejection, ...], now: datetime) -> None:
        self._due = {failure.key: _retry_at(failure) for failure in failures}
        self._now = now
        # Rejected pods have their own rules (`planner/gangs/rejected_gangs.py`).
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

    def without_waiting(self, stage: Stage) -> Stage:
        return tuple(action for action in stage if not isinstance(action, Create) or self.is_due(action.failure_key))

    def is_due(self, key: str) -> bool:
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
    repairs = {
        clique.name: action
        for clique in desired.cliques
        if clique.name not in templates and recreations.is_present(replica, clique)
        for action in _plan_repair(context, replica, clique)
    }
    gangs = tuple(action for state in states for action in _plan_gang(facts, state))
    # Pods are built from their clique. A clique that is patched now creates its pods in the next plan.
    creation = _PodCreation(facts=facts, retries=retries, changing=frozenset((*templates, *repairs)))
    return (
        (*plan_old_finalizers(replica), *_plan_leftover_cliques(context, replica, desired)),
        *(
            retries.without_waiting(stage)
            for stage in (groups, (*cliques, *templates.values(), *repairs.values()), gangs)
        ),
        *_plan_scheduler_objects(states, retries),
        tuple(action for state in states for action in _plan_surplus(state, facts.now)),
        *(stage for state in states for stage in _plan_new_pods(creation, state)),
        tuple(action for state in states for action in _plan_ended(creation, state)),
    )


def _plan_groups(context: SetContext, replica: ReplicaView, desired: DesiredReplica) -> Iterable[Action]:
    for group in desired.groups:
        if group.name not in replica.groups:
            yield Create(
                resource=GROUPS,
                namespace=context.namespace,
                name=group.name,
                body=build_group(context, replica.index, group),
                failure_key=f"podcliquescalinggroups/{group.name}",
                reason=f"group {group.config.name} of replica {replica.index}",
                on_success=_created_event(
                    context.subject, EventReason.GROUP_CREATED, "created PodCliqueScalingGroup", group.name
                ),
            )


def _plan_cliques(facts: ReplicaFacts, state: GangState) -> Iterable[Action]:
    context, replica, recreations = facts.context, facts.replica, facts.recreations
    for clique in state.desired.cliques:
        owner = _owner_of(context, replica, clique)
        # A terminating clique keeps its name until it is gone. That event triggers the next reconcile.
        if clique.name in replica.cliques or owner is None:
            continue
        recreation = recreations.of(clique)
        incarnation = (
            recreations.recreated_incarnation(clique) or _incarnation(context, replica, state, facts.role.restarts)
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
                gang_incarnation=_joined_incarnation(state, incarnation),
                replicas=None if recreation is None else recreation.scale.get(clique.name),
            ),
            failure_key=f"podcliques/{clique.name}",
            reason=f"clique {clique.template.name} of gang {clique.gang}",
            on_success=_created_event(
                owner,
                EventReason.POD_CLIQUE_CREATED if clique.group else EventReason.POD_CLIQUE_SYNCED,
                "created PodClique",
                clique.name,
            ),
        )


def _plan_template(
    context: SetContext, replica: ReplicaView, recreations: Recreations, clique: DesiredClique
) -> Iterable[Patch]:
    """Give an existing clique the template of its replica. The update replaces its pods."""
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
        _created_event(owner, EventReason.POD_CLIQUE_SYNCED, "changed the template of PodClique", clique.name),
    )


def _plan_repair(context: SetContext, replica: ReplicaView, clique: DesiredClique) -> Iterable[Patch]:
    """Restore the identity labels of a clique, by which bulk deletes select it, and what it copies from the set."""
    view = replica.cliques[clique.name]
    patch: JsonObject = {}
    spec: JsonObject = {}
    if lost := find_lost_labels(context, replica.index, clique, view.clique):
        patch["metadata"] = {"labels": dict(lost)}
    if view.clique.spec.starts_after != clique.starts_after:
        spec["startsAfter"] = list(clique.starts_after)
    if (config := autoscaling_patch(view.clique.spec, clique.template.spec)) is not None:
        spec.update(config)
    if spec:
        patch["spec"] = spec
    if patch:
        changed = " and ".join(what for key, what in _REPAIRED.items() if key in patch or key in spec)
        yield _patch_clique(view, patch, f"clique {clique.template.name} lost its {changed}")


_REPAIRED = {"metadata": "labels", "startsAfter": "start-up order", "autoScalingConfig": "autoscaling configuration"}


def _patch_clique(view: CliqueView, patch: JsonObject, reason: str, on_success: EventRecord | None = None) -> Patch:
    """Patch the clique only in the observed resource version."""
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


def _owner_of(context: SetContext, replica: ReplicaView, clique: DesiredClique) -> EventSubject | None:
    """Return the set or, for a member, its group. None while the group, whose uid is needed, does not exist."""
    if not clique.group:
        return context.subject
    group = replica.groups.get(clique.group)
    return None if group is None or group.metadata.is_terminating else subject_of(GROUPS, group.metadata)


def _incarnation(context: SetContext, replica: ReplicaView, state: GangState, restarts: int) -> str:
    """Return the incarnation of a unit: that of its existing objects, else a new one that was never used.

    Generations only grow, and a deleted unit is created again only after a spec changed. In a training set the counted
    restarts are part of it, so it is new even if a user deleted all objects of the unit.
    """
    if state.gang is not None and labels.INCARNATION in state.gang.metadata.labels:
        return state.gang.metadata.labels[labels.INCARNATION]
    for clique in state.views:
        if clique.incarnation:
            return clique.incarnation
    group = replica.groups.get(state.desired.group)
    birth = f"{context.generation}.{restarts}" if restarts else str(context.generation)
    return f"{birth}-{group.metadata.generation}" if group else birth


def _new_incarnation(replica: ReplicaView, clique: DesiredClique, recreation: Recreation) -> str:
    group = replica.groups.get(clique.group)
    # A scaled gang may be scaled in and out while its replica is recreated: the generation of its group differs.
    if clique.base_gang and not recreation.group and group is not None:
        return f"{recreation.incarnation}-{group.metadata.generation}"
    return recreation.incarnation


def _new_gang_incarnation(replica: ReplicaView, recreations: Recreations, state: GangState) -> str:
    """Return the new incarnation of a gang that is recreated as a whole; "": it keeps its own."""
    if state.desired.is_base:
        # Its cliques cannot be used: it has none when all of it is scaled to zero.
        return recreations.whole.incarnation if recreations.whole is not None else ""
    first = state.desired.cliques[0]
    recreation = recreations.of(first)
    return "" if recreation is None else _new_incarnation(replica, first, recreation)


def _was_placed(clique: CliqueView) -> bool:
    """Return whether a pod of the clique is or was on a node. The status remembers it after all pods are gone."""
    return (
        clique.placed_count > 0
        or clique.has_served
        or any(pod.is_scheduled for pod in (*clique.terminating, *clique.failed))
    )


def _joined_incarnation(state: GangState, incarnation: str) -> str:
    """Return the incarnation of the cliques that a recreated clique waits with; "": it is placed with its own."""
    views = state.views
    if not views or any(map(_was_placed, views)):
        return ""
    gang_incarnation = views[0].gang_incarnation
    return gang_incarnation if gang_incarnation != incarnation else ""


def _plan_gang(facts: ReplicaFacts, state: GangState) -> Iterable[Action]:
    context, replica = facts.context, facts.replica
    if not state.is_whole or (state.gang is not None and state.gang.metadata.is_terminating):
        return
    # In a base gang a single group replica may be recreated; that is not a new incarnation of the gang.
    new_incarnation = _new_gang_incarnation(replica, facts.recreations, state)
    content = GangContent(
        spec=build_gang_spec(context, state.desired, state.cliques, state.pods),
        last_names=write_last_names(state.pods),
        zero_counts=write_zero_counts(state.gang, state.views) if context.backend.object_kinds else None,
        incarnation=new_incarnation or _incarnation(context, replica, state, facts.role.restarts),
        is_new_incarnation=bool(new_incarnation),
        takes_revision=facts.role.is_current or facts.role.is_on_delete,
    )
    action = plan_gang_object(context, replica.index, state.desired, state.gang, content)
    if action is not None:
        yield action


def _plan_scheduler_objects(states: tuple[GangState, ...], retries: Retries) -> tuple[Stage, Stage]:
    """Return the writes of scheduler objects: deletes, then creates and patches. They come before gates are removed."""
    stages = [scheduler_object_stages(state.gang, state.scheduler_plan) for state in states]
    return (
        tuple(action for deletes, _ in stages for action in deletes),
        tuple(
            action
            for _, writes in stages
            for action in writes
            if not isinstance(action, Create) or retries.is_due(action.failure_key)
        ),
    )


class _PodCreation(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that decide whether the pods of a gang may be created now."""

    facts: ReplicaFacts
    retries: Retries
    # Cliques that are patched in the same plan.
    changing: frozenset[str]

    @property
    def context(self) -> SetContext:
        return self.facts.context


def _may_create_pods(creation: _PodCreation, state: GangState) -> bool:
    context = creation.context
    if context.hold and not has_started(state.views):
        return False
    # Pods that name a group of their scheduler need the stored gang.
    if state.gang is None and context.backend.object_kinds:
        return False
    if not state.is_whole or (state.gang is not None and state.gang.metadata.is_terminating):
        return False
    # The gang must reference its pods first: while its create waits, they wait too.
    if state.gang is None and not creation.retries.is_due(f"podgangs/{state.desired.name}"):
        return False
    return state.backoff is None or state.backoff.retry_at <= creation.facts.now


def _plan_new_pods(creation: _PodCreation, state: GangState) -> tuple[Stage, Stage]:
    """Create the minima before the surplus, so that a quota that rejects some pods leaves the gang its minimum."""
    if not _may_create_pods(creation, state):
        return (), ()
    minima: list[Action] = []
    surplus: list[Action] = []
    for name, pods in state.pods.items():
        clique = state.cliques[name]
        builder = _pod_builder(creation, state, clique) if pods.create and name not in creation.changing else None
        if builder is None:
            continue
        short = max(0, clique.min_available - clique.existing_count)
        for position, new in enumerate(pods.create):
            (minima if position < short else surplus).append(_create_pod(clique, builder, new))
    return tuple(minima), tuple(surplus)


def _pod_builder(creation: _PodCreation, state: GangState, clique: CliqueView) -> PodBuilder | None:
    """Return the builder of a clique's pods; None while they need an init container whose image is not known."""
    facts, context = creation.facts, creation.context
    awaited = awaited_cliques(clique, facts.replica.cliques, facts.desired.cliques)
    image = context.cluster.init_image
    if awaited and not image:
        return None
    return PodBuilder(clique, state.gang, context.backend, awaited=awaited, init_image=image)


def _create_pod(clique: CliqueView, builder: PodBuilder, new: NewPod) -> Create:
    return Create(
        resource=PODS,
        namespace=clique.clique.metadata.namespace,
        name=new.name,
        body=builder.build(new.name, new.index, new.failures),
        failure_key=pods_failure_key(clique.name),
        reason=f"index {new.index} of clique {clique.name}",
        on_success=_created_event(
            subject_of(PODCLIQUES, clique.clique.metadata), EventReason.POD_CREATED, "created pod", new.name
        ),
    )


def _plan_surplus(state: GangState, now: datetime) -> Iterable[Action]:
    """Delete pods above the count, and all waiting pods of a gang that releases them after rejected creates."""
    backoff = state.backoff
    # From the retry on the pods are needed again.
    if backoff and backoff.release_at and backoff.release_at <= now < backoff.retry_at:
        why = "the API server rejects the minimum of the gang, so its waiting pods are released"
        for clique in state.views:
            yield from (delete_pod(clique, pod.metadata, why) for pod in clique.active)
        return
    for name, pods in state.pods.items():
        for entry in pods.delete:
            if entry.pod.is_active:
                yield delete_pod(state.cliques[name], entry.pod.metadata, entry.reason)


def _plan_ended(creation: _PodCreation, state: GangState) -> Iterable[Action]:
    """Delete ended pods, but only after their replacements, which inherit the failure count, were created."""
    may_create = _may_create_pods(creation, state)
    for name, pods in state.pods.items():
        unreplaced = {} if may_create and name not in creation.changing else {new.index: None for new in pods.create}
        for entry in pods.delete:
            if not entry.pod.is_active and pod_index(entry.pod) not in unreplaced:
                yield delete_pod(state.cliques[name], entry.pod.metadata, entry.reason)


def _plan_leftover_cliques(context: SetContext, replica: ReplicaView, desired: DesiredReplica) -> Iterable[Action]:
    """Delete cliques that are not in the template any more. Group replicas are removed elsewhere."""
    known = {clique.name for clique in desired.cliques}
    groups = {group.name for group in desired.groups}
    for clique in replica.cliques.values():
        is_explained = clique.name in known or clique.clique.metadata.labels.get(labels.GROUP) in groups
        if not is_explained and not clique.is_terminating:
            yield delete_object(PODCLIQUES, clique.clique.metadata, "no clique of the template has this name")


def _created_event(subject: EventSubject, reason: EventReason, message: str, name: str) -> EventRecord:
    return EventRecord(subject=subject, reason=reason, message=message, names=(name,))
