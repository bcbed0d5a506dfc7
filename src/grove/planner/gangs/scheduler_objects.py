"""Scheduler objects of the gangs of a set: keep them up to date, and read what the scheduler reports.

`grove.backends` decides what they contain; this module turns that into actions. A scheduler object is owned by its
PodGang and is deleted with it.
"""

from collections.abc import Mapping
from datetime import datetime

from grove.api import labels, names
from grove.api.resources import PODGANGS
from grove.api.types.meta import Uid
from grove.api.types.pod import Pod
from grove.api.types.podgang import PodGang
from grove.backends.base import CliqueInput, GangInput, PodInput, SchedulerObjectPlan, SetInput
from grove.backends.native import PlainBackend
from grove.planner.actions import Create, Delete, Patch, Stage, subject_of
from grove.planner.child_manifests import build_owner
from grove.planner.desired_state import DesiredClique, DesiredGang
from grove.planner.explain.pods import is_unschedulable
from grove.planner.gangs.podgang import read_zero_count
from grove.planner.gangs.rejected_gangs import has_started
from grove.planner.snapshot import SetContext
from grove.planner.views import CliqueView, ReplicaView, pod_index

_NOT_WHOLE = SchedulerObjectPlan(waits="the gang is not stored yet")


def plan_scheduler_objects(
    context: SetContext,
    replica: ReplicaView,
    gang: DesiredGang,
    current: PodGang | None,
    cliques: Mapping[str, CliqueView],
) -> SchedulerObjectPlan:
    if isinstance(context.backend, PlainBackend) and not context.hold:
        return context.backend.nothing
    if current is None or current.metadata.is_terminating or len(cliques) < len(gang.cliques):
        return _NOT_WHOLE
    found = replica.scheduler_objects.get(current.metadata.uid, ())
    # A gang that started keeps its scheduler objects even if a dependency is gone, so that lost pods are replaced.
    is_offered = has_started(tuple(cliques.values())) and (bool(found) or not context.scheduler_hold)
    if context.hold and not is_offered:
        return SchedulerObjectPlan(waits=context.hold)
    minima = {group.name: group.min_replicas for group in current.spec.podgroups}
    inputs = GangInput(
        pcs=_build_set_input(context),
        gang=current,
        cliques=tuple(
            _build_clique_input(context, current, cliques[c.name], c, minima.get(c.name))
            for c in gang.cliques
            if not cliques[c.name].is_at_zero
        ),
        topology_reference=_topology_reference(context),
        is_topology_known=not context.topology.missing,
    )
    return context.backend.plan_objects(inputs, found)


def _topology_reference(context: SetContext) -> str:
    """Return the scheduler's own name of the set's topology; "": the same name."""
    binding = context.cluster.bindings.get(context.topology.name)
    entries = binding.spec.scheduler_topology_bindings if binding else ()
    return next((one.topology_reference for one in entries if one.scheduler_name == context.backend.name), "")


def _build_set_input(context: SetContext) -> SetInput:
    return SetInput(
        uid=context.uid,
        namespace=context.namespace,
        name=context.name,
        labels=context.labels,
        annotations=context.annotations,
        spec=context.spec,
    )


def _build_clique_input(
    context: SetContext, gang: PodGang, clique: CliqueView, desired: DesiredClique, minimum: int | None
) -> CliqueInput:
    first, uid = clique.min_available, _start_of(gang, clique, clique.uid)
    members, above = (context.backend.group_of(build_pod_input(gang, clique, index)) for index in (0, first))
    return CliqueInput(
        name=clique.name,
        uid=uid,
        incarnation=_start_of(gang, clique, clique.gang_incarnation),
        replicas=clique.replicas,
        minimum=first if minimum is None else minimum,
        priority_class_name=_priority_class(clique),
        placed_count=clique.placed_count,
        has_waiting_member=any(not pod.is_scheduled and pod_index(pod) < first for pod in clique.active),
        is_unschedulable=any(pod_index(pod) < first and is_unschedulable(pod) for pod in clique.active),
        has_surplus=clique.replicas > first or any(pod_index(pod) >= first for pod in clique.active),
        has_outsiders=any(
            pod.is_scheduled and pod.group_name != (members if pod_index(pod) < first else above)
            for pod in clique.active
        ),
        newest_placed_at=max(
            (
                made
                for pod in clique.active
                if pod.is_scheduled and pod.group_name == members and (made := _created_at(pod))
            ),
            default=None,
        ),
        group_replica=names.group_replica(desired.group, desired.group_replica_index) if desired.group else "",
        pod_spec=clique.clique.spec.pod_spec,
        has_unlabelled=any(
            pod.metadata.labels.get(labels.PODCLIQUE_UID) != uid for pod in (*clique.active, *clique.succeeded)
        ),
    )


def _created_at(pod: Pod) -> datetime | None:
    return pod.metadata.creation_timestamp


def _priority_class(clique: CliqueView) -> str:
    return str(clique.clique.spec.pod_spec.get("priorityClassName") or "")


def _start_of(gang: PodGang, clique: CliqueView, incarnation: Uid | str) -> Uid:
    """Return the id for the scheduler's groups of a clique: a new one after each scale to zero.

    A scheduler may write it into a label, so it has only characters that a label may have.
    """
    count = read_zero_count(gang, clique.name)
    return Uid(f"{incarnation}.{count}" if count else incarnation)


def build_pod_input(gang: PodGang, clique: CliqueView, index: int) -> PodInput:
    return PodInput(
        gang=gang,
        clique_name=clique.name,
        clique_uid=_start_of(gang, clique, clique.uid),
        incarnation=_start_of(gang, clique, clique.gang_incarnation),
        index=index,
        minimum=clique.min_available,
        priority_class_name=_priority_class(clique),
    )


def scheduler_object_failure_key(resource_name: str, name: str) -> str:
    return f"{resource_name}/{name}"


def scheduler_object_stages(gang: PodGang | None, plan: SchedulerObjectPlan) -> tuple[Stage, Stage]:
    """Return the deletes, then creates and patches: some objects are immutable and are recreated with their name."""
    if gang is None:
        return (), ()
    deletes = tuple(
        Delete(
            resource=one.resource,
            namespace=one.existing.metadata.namespace,
            name=one.existing.metadata.name,
            uid=one.existing.metadata.uid,
            reason=one.reason,
        )
        for one in plan.delete
    )
    namespace = gang.metadata.namespace
    owner = build_owner(subject_of(PODGANGS, gang.metadata))
    creates = tuple(
        Create(
            resource=one.resource,
            namespace=namespace,
            name=one.name,
            body={**one.body, "metadata": {**one.body["metadata"], "namespace": namespace, "ownerReferences": [owner]}},
            failure_key=scheduler_object_failure_key(one.resource.full_name, one.name),
            reason=f"gang {gang.metadata.name} for its scheduler",
        )
        for one in plan.create
    )
    patches = tuple(
        Patch(
            resource=one.resource,
            namespace=namespace,
            name=one.existing.metadata.name,
            uid=one.existing.metadata.uid,
            resource_version=one.existing.metadata.resource_version,
            patch=one.patch,
            reason=one.reason,
        )
        for one in plan.patch
    )
    return deletes, (*creates, *patches)
