"""KAI: a PodGroup of `scheduling.run.ai` per gang, a subgroup per clique, and one around each group replica to pack.

KAI's own objects of topology are made from ClusterTopologyBindings elsewhere (`planner/topology/binding_sync.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import msgspec

from grove.api import labels
from grove.api.resources import KAI_PODGROUPS, KAI_QUEUES, KAI_TOPOLOGIES, Resource
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import GangTopologyConstraint, PodGang
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.field_errors import FieldError
from grove.api.values.durations import DurationError, format_duration, parse_duration
from grove.backends.base import (
    ClusterFeatures,
    GangInput,
    PodInput,
    SchedulerCapabilities,
    SchedulerMessage,
    SchedulerObjectPlan,
    SetInput,
)
from grove.backends.podgroup_sync import (
    DesiredPodGroup,
    assign_pod,
    current_podgroup,
    is_same,
    plan_podgroup,
    priority_of,
    topology_paths,
)
from grove.backends.queues import (
    KAI_QUEUE,
    check_queue,
    find_queue,
    kai_queue,
    kai_queue_errors,
    missing_kinds,
)

KAI = "kai-scheduler"
SKIP_PODGROUPER = "kai.scheduler/skip-podgrouper"
GROUP_NAME = "pod-group-name"
SUBGROUP_NAME = "kai.scheduler/subgroup-name"
TOPOLOGY = "kai.scheduler/topology"
NODE_POOL = "kai.scheduler/node-pool"
# A negative duration disables the teardown of KAI.
NEVER = "-1s"
_STALENESS = "stalenessGracePeriod"
_NEWER_FIELDS = {
    "subGroups": "PodGroups of this version of KAI have no subGroups, so it cannot place gangs: install a newer one",
    _STALENESS: (
        "this version of KAI ends a gang below its minimum after its own delay, not after terminationDelay: "
        "its PodGroups have no stalenessGracePeriod; install 0.17 or newer"
    ),
}


class KaiBackend:
    name = KAI
    capabilities = SchedulerCapabilities(
        gang=True,
        several_groups=True,
        minimum_below_count=True,
        required_topology=True,
        preferred_topology=True,
        reads_annotations=True,
    )
    object_kinds: tuple[Resource[SchedulerObject], ...] = (KAI_PODGROUPS,)
    queues: tuple[Resource[SchedulerObject], ...] = (KAI_QUEUES,)
    # The podgrouper of KAI would create other PodGroups for PodGangs.
    gang_annotations: Mapping[str, str] = {SKIP_PODGROUPER: "true"}

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        return kai_queue_errors(pcs.metadata.labels, pcs.metadata.annotations, pcs.spec)

    def hold(self, pcs: SetInput, features: ClusterFeatures) -> str:
        needed = (*self.object_kinds, *self.queues, *((KAI_TOPOLOGIES,) if any(topology_paths(pcs.spec)) else ()))
        if missing := missing_kinds(features, needed, "KAI"):
            return missing
        queue = kai_queue(pcs.labels, pcs.annotations, pcs.spec)
        return "" if queue is None else check_queue(queue, find_queue(features, queue))

    def prepare_pod(self, pod: JsonObject, inputs: PodInput) -> None:
        group = {SKIP_PODGROUPER: "true", GROUP_NAME: inputs.gang.metadata.name}
        assign_pod(pod, self.name, labels={SUBGROUP_NAME: inputs.clique_name}, annotations=group)

    def group_of(self, inputs: PodInput) -> str:
        return ""

    def plan_objects(
        self, inputs: GangInput, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]]
    ) -> SchedulerObjectPlan:
        current = current_podgroup(inputs.gang, KAI_PODGROUPS, found)
        if not inputs.is_topology_known:
            inputs = _without_lost_topology(inputs, current)
        plan = plan_podgroup(inputs, found, _desired_podgroup(inputs, current), tuple(_scheduler_messages(current)))
        if plan.waits or not _lacks_topology_name(inputs):
            return msgspec.structs.replace(plan, unmet=(*plan.unmet, *_other_queue_warnings(inputs, current)))
        return msgspec.structs.replace(plan, waits="no topologyName names the topology of the constraints")


# --- the PodGroup ----------------------------------------------------------------------------------------------------


def _desired_podgroup(inputs: GangInput, current: SchedulerObject | None) -> DesiredPodGroup:
    spec = inputs.gang.spec
    queue = kai_queue(inputs.pcs.labels, inputs.pcs.annotations, inputs.pcs.spec)
    return DesiredPodGroup(
        resource=KAI_PODGROUPS,
        spec={
            # KAI rejects a PodGroup with minMember 0. With 1 nothing waits: there is no pod left.
            "minMember": max(1, sum(group.min_replicas for group in spec.podgroups)),
            "queue": queue.queue if queue else None,
            "priorityClassName": priority_of(inputs),
            "topologyConstraint": _constraint(spec.topology_constraint, _topology_name(inputs)),
            "subGroups": list(_subgroups(inputs)),
            _STALENESS: _keep_equal_value(_staleness(inputs), current),
        },
        create_only=("queue",),
        essential=("minMember", "subGroups", "topologyConstraint"),
        newer_fields=_NEWER_FIELDS,
        kept_labels=(NODE_POOL, KAI_QUEUE),
        item_fields=("name", "minMember", "minSubGroup", "parent", "topologyConstraint"),
    )


def _subgroups(inputs: GangInput) -> Iterator[JsonObject]:
    """Yield the subgroups, parents before their children."""
    spec, topology = inputs.gang.spec, _topology_name(inputs)
    known = {group.name for group in spec.podgroups}
    parents: dict[str, str] = {}
    for config in spec.topology_constraint_group_configs:
        members = [name for name in config.pod_group_names if name in known]
        if members:
            parents.update(dict.fromkeys(members, config.name))
            packed = _constraint(config.topology_constraint, topology)
            yield _subgroup(config.name, {"minSubGroup": len(members)}, "", packed)
    for group in spec.podgroups:
        packed = _constraint(group.topology_constraint, topology)
        yield _subgroup(group.name, {"minMember": group.min_replicas}, parents.get(group.name, ""), packed)


def _subgroup(name: str, minimum: JsonObject, parent: str, packed: JsonObject | None) -> JsonObject:
    inside = {"parent": parent} if parent else {}
    return {"name": name, **minimum, **inside, **({"topologyConstraint": packed} if packed else {})}


def _constraint(constraint: GangTopologyConstraint | None, topology: str) -> JsonObject | None:
    pack = constraint.pack_constraint if constraint else None
    if pack is None or not (pack.required or pack.preferred):
        return None
    levels = {"requiredTopologyLevel": pack.required, "preferredTopologyLevel": pack.preferred}
    return {"topology": topology, **{field: key for field, key in levels.items() if key}}


def _topology_name(inputs: GangInput) -> str:
    annotations = inputs.gang.metadata.annotations
    return inputs.topology_reference or annotations.get(labels.TOPOLOGY_NAME) or annotations.get(TOPOLOGY, "")


def _without_lost_topology(inputs: GangInput, current: SchedulerObject | None) -> GangInput:
    """Return the gang without constraints that KAI cannot resolve.

    KAI places no pod of a PodGroup whose Topology or level does not exist. The operator creates the Topology of a
    binding and deletes it with the binding. A Topology of others stays, and so do the constraints that name it.
    """
    written = _written_topology(current) if current is not None else ""
    if written and written != inputs.gang.metadata.annotations.get(labels.TOPOLOGY_NAME):
        return msgspec.structs.replace(inputs, topology_reference=written)
    spec = msgspec.structs.replace(
        inputs.gang.spec,
        topology_constraint=None,
        topology_constraint_group_configs=tuple(
            msgspec.structs.replace(one, topology_constraint=None)
            for one in inputs.gang.spec.topology_constraint_group_configs
        ),
        podgroups=tuple(msgspec.structs.replace(one, topology_constraint=None) for one in inputs.gang.spec.podgroups),
    )
    return msgspec.structs.replace(inputs, gang=msgspec.structs.replace(inputs.gang, spec=spec))


def _written_topology(current: SchedulerObject) -> str:
    """Return the topology that a PodGroup names."""
    groups = current.spec.get("subGroups")
    parts = [current.spec, *(groups if isinstance(groups, list) else ())]
    constraints = [part.get("topologyConstraint") for part in parts if isinstance(part, dict)]
    found = (str(one.get("topology") or "") for one in constraints if isinstance(one, dict))
    return next((name for name in found if name), "")


def _lacks_topology_name(inputs: GangInput) -> bool:
    return not _topology_name(inputs) and _has_constraint(inputs.gang)


def _has_constraint(gang: PodGang) -> bool:
    spec = gang.spec
    constraints = [spec.topology_constraint]
    constraints += [config.topology_constraint for config in spec.topology_constraint_group_configs]
    constraints += [group.topology_constraint for group in spec.podgroups]
    return any(_constraint(constraint, "") for constraint in constraints)


def _staleness(inputs: GangInput) -> str:
    """Return how long KAI keeps a gang below its minimum: as long as the operator, so that it never acts before it."""
    template = inputs.pcs.spec.template
    if template.termination_delay is None:
        return NEVER
    delays = [template.termination_delay, *(g.termination_delay for g in template.pod_clique_scaling_groups)]
    try:
        return format_duration(max(parse_duration(delay) for delay in delays if delay is not None))
    except DurationError:
        # Admission rejects such a set. If it was bypassed, KAI must not tear the set down.
        return NEVER


def _keep_equal_value(wanted: str, current: SchedulerObject | None) -> str:
    """Return the stored text if it is the same duration in another notation."""
    stored = current.spec.get(_STALENESS) if current is not None else None
    return stored if isinstance(stored, str) and _span(stored) == _span(wanted) else wanted


def _span(text: str) -> timedelta | None:
    try:
        span = parse_duration(text)
    except DurationError:
        return None
    return max(span, timedelta(seconds=-1))


# --- messages of KAI -------------------------------------------------------------------------------------------------


def _scheduler_messages(current: SchedulerObject | None) -> Iterator[SchedulerMessage]:
    conditions = current.status.get("schedulingConditions") if current is not None else None
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("status", "True") == "True":
            yield from _explanations(condition)


def _explanations(condition: JsonObject) -> Iterator[SchedulerMessage]:
    """Yield a message for each reason; older versions of KAI wrote one beside the condition."""
    reasons = condition.get("reasons")
    messages = [one for one in reasons if isinstance(one, dict)] if isinstance(reasons, list) else []
    for one in messages or [condition]:
        message = str(one.get("message") or "")
        if message:
            yield SchedulerMessage(message=message, reason=str(one.get("reason") or ""))


def _other_queue_warnings(inputs: GangInput, current: SchedulerObject | None) -> Iterator[str]:
    requested = kai_queue(inputs.pcs.labels, inputs.pcs.annotations, inputs.pcs.spec)
    now = current.spec.get("queue") if current is not None else None
    if requested is not None and now and not is_same(now, requested.queue):
        yield f'KAI keeps the gang in queue "{now}", not "{requested.queue}": the queue of a PodGroup is immutable'
