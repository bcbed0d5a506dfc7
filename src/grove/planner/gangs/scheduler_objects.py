"""Scheduler objects of the gangs of a set: keep them up to date, and read what the scheduler reports.

What it should have is the backend's knowledge (`grove.backends`); here it becomes actions, and what the scheduler says
back is handed on. A mirror belongs to its PodGang and goes with it.
"""

from collections.abc import Mapping
from datetime import datetime

from grove.api import labels, names
from grove.api.resources import PODGANGS
from grove.api.types.meta import Uid
from grove.api.types.pod import Pod
from grove.api.types.podgang import PodGang
from grove.backends.base import CliqueAsk, GangAsk, MirrorPlan, PodAsk, SetAsk
from grove.backends.native import PlainBackend
from grove.planner.actions import Create, Delete, Patch, Stage, subject_of
from grove.planner.child_manifests import build_owner
from grove.planner.desired_state import CliqueBlueprint, GangBlueprint
from grove.planner.explain.pods import is_told_full
from grove.planner.gangs.podgang import read_zero_count
from grove.planner.pods.create_backoff import has_started
from grove.planner.snapshot import SetContext
from grove.planner.views import CliqueView, ReplicaView, pod_index

_NOT_WHOLE = MirrorPlan(waits="the gang is not stored yet")


def plan_mirror(
    context: SetContext,
    replica: ReplicaView,
    gang: GangBlueprint,
    current: PodGang | None,
    cliques: Mapping[str, CliqueView],
) -> MirrorPlan:
    if isinstance(context.backend, PlainBackend) and not context.hold:
        return context.backend.nothing
    if current is None or current.metadata.is_terminating or len(cliques) < len(gang.cliques):
        return _NOT_WHOLE
    found = replica.mirrors.get(current.metadata.uid, ())
    # What was offered before stays offered, whatever was taken away since: its lost pods come back.
    is_offered = has_started(tuple(cliques.values())) and (bool(found) or not context.scheduler_hold)
    if context.hold and not is_offered:
        return MirrorPlan(waits=context.hold)
    minima = {group.name: group.min_replicas for group in current.spec.podgroups}
    ask = GangAsk(
        pcs=_set_ask(context),
        gang=current,
        cliques=tuple(
            _clique_ask(context, current, cliques[c.name], c, minima.get(c.name))
            for c in gang.cliques
            if not cliques[c.name].is_at_zero
        ),
        topology_reference=_topology_reference(context),
        is_topology_known=not context.topology.missing,
    )
    return context.backend.mirror(ask, found)


def _topology_reference(context: SetContext) -> str:
    """What the scheduler itself calls the topology of the set; "": as we do."""
    binding = context.surroundings.bindings.get(context.topology.name)
    entries = binding.spec.scheduler_topology_bindings if binding else ()
    return next((one.topology_reference for one in entries if one.scheduler_name == context.backend.name), "")


def _set_ask(context: SetContext) -> SetAsk:
    return SetAsk(
        uid=context.uid,
        namespace=context.namespace,
        name=context.name,
        labels=context.labels,
        annotations=context.annotations,
        spec=context.spec,
    )


def _clique_ask(
    context: SetContext, gang: PodGang, clique: CliqueView, blueprint: CliqueBlueprint, minimum: int | None
) -> CliqueAsk:
    first, uid = clique.min_available, _start_of(gang, clique, clique.uid)
    members, above = (context.backend.group_of(pod_ask(gang, clique, index)) for index in (0, first))
    return CliqueAsk(
        name=clique.name,
        uid=uid,
        life=_start_of(gang, clique, clique.gang_life),
        replicas=clique.replicas,
        minimum=first if minimum is None else minimum,
        priority_class_name=_priority_class(clique),
        placed_count=clique.placed_count,
        has_waiting_member=any(not pod.is_scheduled and pod_index(pod) < first for pod in clique.active),
        is_told_full=any(pod_index(pod) < first and is_told_full(pod) for pod in clique.active),
        has_extras=clique.replicas > first or any(pod_index(pod) >= first for pod in clique.active),
        has_outsiders=any(
            pod.is_scheduled and pod.group_name != (members if pod_index(pod) < first else above)
            for pod in clique.active
        ),
        newest_placed_at=max(
            (
                made
                for pod in clique.active
                if pod.is_scheduled and pod.group_name == members and (made := _made_at(pod))
            ),
            default=None,
        ),
        group_replica=names.group_replica(blueprint.group, blueprint.group_replica_index) if blueprint.group else "",
        pod_spec=clique.clique.spec.pod_spec,
        has_unlabelled=any(
            pod.metadata.labels.get(labels.PODCLIQUE_UID) != uid for pod in (*clique.active, *clique.succeeded)
        ),
    )


def _made_at(pod: Pod) -> datetime | None:
    return pod.metadata.creation_timestamp


def _priority_class(clique: CliqueView) -> str:
    return str(clique.clique.spec.pod_spec.get("priorityClassName") or "")


def _start_of(gang: PodGang, clique: CliqueView, life: Uid | str) -> Uid:
    """What names the scheduler's groups of a clique: another one after every time that it was at zero.

    A scheduler may write it into a label, so it has only characters that a label may have.
    """
    count = read_zero_count(gang, clique.name)
    return Uid(f"{life}.{count}" if count else life)


def pod_ask(gang: PodGang, clique: CliqueView, index: int) -> PodAsk:
    return PodAsk(
        gang=gang,
        clique_name=clique.name,
        clique_uid=_start_of(gang, clique, clique.uid),
        life=_start_of(gang, clique, clique.gang_life),
        index=index,
        minimum=clique.min_available,
        priority_class_name=_priority_class(clique),
    )


def mirror_failure_key(resource_name: str, name: str) -> str:
    return f"{resource_name}/{name}"


def mirror_stages(gang: PodGang | None, plan: MirrorPlan) -> tuple[Stage, Stage]:
    """What goes before what comes: some objects cannot be changed, only made anew under their name."""
    if gang is None:
        return (), ()
    deletes = tuple(
        Delete(
            resource=one.resource,
            namespace=one.mirror.metadata.namespace,
            name=one.mirror.metadata.name,
            uid=one.mirror.metadata.uid,
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
            failure_key=mirror_failure_key(one.resource.full_name, one.name),
            reason=f"gang {gang.metadata.name} in the words of its scheduler",
        )
        for one in plan.create
    )
    patches = tuple(
        Patch(
            resource=one.resource,
            namespace=namespace,
            name=one.mirror.metadata.name,
            uid=one.mirror.metadata.uid,
            resource_version=one.mirror.metadata.resource_version,
            patch=one.patch,
            reason=one.reason,
        )
        for one in plan.patch
    )
    return deletes, (*creates, *patches)
