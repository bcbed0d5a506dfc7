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
    GangAsk,
    MirrorPlan,
    PodAsk,
    SchedulerCapabilities,
    SchedulerMessage,
    SetAsk,
)
from grove.backends.podgroup_sync import (
    Design,
    current_podgroup,
    is_same,
    plan_podgroup,
    priority_of,
    topology_paths,
)
from grove.backends.queues import (
    KAI_QUEUE,
    kai_queue,
    kai_queue_errors,
    missing_kinds,
    queue_complaint,
    queue_on,
)

KAI = "kai-scheduler"
SKIP_PODGROUPER = "kai.scheduler/skip-podgrouper"
GROUP_NAME = "pod-group-name"
SUBGROUP_NAME = "kai.scheduler/subgroup-name"
TOPOLOGY = "kai.scheduler/topology"
NODE_POOL = "kai.scheduler/node-pool"
# A negative time switches KAI's own teardown off.
NEVER = "-1s"
_STALENESS = "stalenessGracePeriod"
_YOUNG = {
    "subGroups": "PodGroups of this version of KAI have no subGroups, so it cannot place gangs: install a newer one",
    _STALENESS: (
        "this version of KAI ends a gang that fell below its minimum by its own clock, not by terminationDelay: "
        "its PodGroups have no stalenessGracePeriod; install 0.17 or newer"
    ),
}


class KaiBackend:
    name = KAI
    can = SchedulerCapabilities(
        gang=True,
        several_groups=True,
        minimum_below_count=True,
        required_topology=True,
        preferred_topology=True,
        reads_annotations=True,
    )
    mirrors: tuple[Resource[SchedulerObject], ...] = (KAI_PODGROUPS,)
    queues: tuple[Resource[SchedulerObject], ...] = (KAI_QUEUES,)
    # KAI's own grouper knows PodGangs, and would make PodGroups of them in its way.
    gang_annotations: Mapping[str, str] = {SKIP_PODGROUPER: "true"}

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        return kai_queue_errors(pcs.metadata.labels, pcs.metadata.annotations, pcs.spec)

    def hold(self, pcs: SetAsk, surface: ClusterFeatures) -> str:
        needed = (*self.mirrors, *self.queues, *((KAI_TOPOLOGIES,) if any(topology_paths(pcs.spec)) else ()))
        if missing := missing_kinds(surface, needed, "KAI"):
            return missing
        queue = kai_queue(pcs.labels, pcs.annotations, pcs.spec)
        return "" if queue is None else queue_complaint(queue, queue_on(surface, queue))

    def prepare_pod(self, pod: JsonObject, ask: PodAsk) -> None:
        metadata = pod["metadata"]
        group = {SKIP_PODGROUPER: "true", GROUP_NAME: ask.gang.metadata.name}
        pod["metadata"] = {
            **metadata,
            "labels": {**metadata.get("labels", {}), SUBGROUP_NAME: ask.clique_name},
            "annotations": {**metadata.get("annotations", {}), **group},
        }
        pod["spec"] = {**pod["spec"], "schedulerName": self.name}

    def group_of(self, ask: PodAsk) -> str:
        return ""

    def mirror(self, ask: GangAsk, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]]) -> MirrorPlan:
        current = current_podgroup(ask.gang, KAI_PODGROUPS, found)
        if not ask.is_topology_known:
            ask = _without_lost_topology(ask, current)
        plan = plan_podgroup(ask, found, _design(ask, current), tuple(_said(current)))
        if plan.waits or not _lacks_topology_name(ask):
            return msgspec.structs.replace(plan, unmet=(*plan.unmet, *_kept_queue(ask, current)))
        return msgspec.structs.replace(plan, waits="nothing says which topology the constraints are about")


# --- what a PodGroup says --------------------------------------------------------------------------------------------


def _design(ask: GangAsk, current: SchedulerObject | None) -> Design:
    spec = ask.gang.spec
    queue = kai_queue(ask.pcs.labels, ask.pcs.annotations, ask.pcs.spec)
    return Design(
        resource=KAI_PODGROUPS,
        spec={
            # KAI refuses a PodGroup of nobody. One is never waited for here: no pod is left that could be the one.
            "minMember": max(1, sum(group.min_replicas for group in spec.podgroups)),
            "queue": queue.queue if queue else None,
            "priorityClassName": priority_of(ask),
            "topologyConstraint": _constraint(spec.topology_constraint, _topology_name(ask)),
            "subGroups": list(_subgroups(ask)),
            _STALENESS: _kept_spelling(_staleness(ask), current),
        },
        first_only=("queue",),
        vital=("minMember", "subGroups", "topologyConstraint"),
        young=_YOUNG,
        kept_labels=(NODE_POOL, KAI_QUEUE),
        item_fields=("name", "minMember", "minSubGroup", "parent", "topologyConstraint"),
    )


def _subgroups(ask: GangAsk) -> Iterator[JsonObject]:
    """Parents before their children."""
    spec, topology = ask.gang.spec, _topology_name(ask)
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


def _topology_name(ask: GangAsk) -> str:
    annotations = ask.gang.metadata.annotations
    return ask.topology_reference or annotations.get(labels.TOPOLOGY_NAME) or annotations.get(TOPOLOGY, "")


def _without_lost_topology(ask: GangAsk, current: SchedulerObject | None) -> GangAsk:
    """Return the question without constraints that KAI cannot resolve.

    The Topology that is named like a binding is made from it and goes with it, and KAI places no pod of a PodGroup
    whose Topology or level does not exist. One that somebody else made stays, and so does what was written about it.
    """
    written = _written_topology(current) if current is not None else ""
    if written and written != ask.gang.metadata.annotations.get(labels.TOPOLOGY_NAME):
        return msgspec.structs.replace(ask, topology_reference=written)
    spec = msgspec.structs.replace(
        ask.gang.spec,
        topology_constraint=None,
        topology_constraint_group_configs=tuple(
            msgspec.structs.replace(one, topology_constraint=None)
            for one in ask.gang.spec.topology_constraint_group_configs
        ),
        podgroups=tuple(msgspec.structs.replace(one, topology_constraint=None) for one in ask.gang.spec.podgroups),
    )
    return msgspec.structs.replace(ask, gang=msgspec.structs.replace(ask.gang, spec=spec))


def _written_topology(current: SchedulerObject) -> str:
    """The one topology that a PodGroup speaks of."""
    groups = current.spec.get("subGroups")
    parts = [current.spec, *(groups if isinstance(groups, list) else ())]
    constraints = [part.get("topologyConstraint") for part in parts if isinstance(part, dict)]
    found = (str(one.get("topology") or "") for one in constraints if isinstance(one, dict))
    return next((name for name in found if name), "")


def _lacks_topology_name(ask: GangAsk) -> bool:
    return not _topology_name(ask) and _has_constraint(ask.gang)


def _has_constraint(gang: PodGang) -> bool:
    spec = gang.spec
    constraints = [spec.topology_constraint]
    constraints += [config.topology_constraint for config in spec.topology_constraint_group_configs]
    constraints += [group.topology_constraint for group in spec.podgroups]
    return any(_constraint(constraint, "") for constraint in constraints)


def _staleness(ask: GangAsk) -> str:
    """How long KAI lets a gang be that lost part of its minimum: as long as we do, so that it never acts before us."""
    template = ask.pcs.spec.template
    if template.termination_delay is None:
        return NEVER
    delays = [template.termination_delay, *(g.termination_delay for g in template.pod_clique_scaling_groups)]
    try:
        return format_duration(max(parse_duration(delay) for delay in delays if delay is not None))
    except DurationError:
        # Such a set is refused; one that came past us is not for KAI to tear down.
        return NEVER


def _kept_spelling(wanted: str, current: SchedulerObject | None) -> str:
    """The same time in other words, as somebody's client may write it back, is the same time."""
    spelled = current.spec.get(_STALENESS) if current is not None else None
    return spelled if isinstance(spelled, str) and _span(spelled) == _span(wanted) else wanted


def _span(text: str) -> timedelta | None:
    try:
        span = parse_duration(text)
    except DurationError:
        return None
    return max(span, timedelta(seconds=-1))


# --- what KAI says ---------------------------------------------------------------------------------------------------


def _said(current: SchedulerObject | None) -> Iterator[SchedulerMessage]:
    conditions = current.status.get("schedulingConditions") if current is not None else None
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("status", "True") == "True":
            yield from _explanations(condition)


def _explanations(condition: JsonObject) -> Iterator[SchedulerMessage]:
    """The list of reasons; older versions wrote one beside the condition."""
    reasons = condition.get("reasons")
    told = [one for one in reasons if isinstance(one, dict)] if isinstance(reasons, list) else []
    for one in told or [condition]:
        message = str(one.get("message") or "")
        if message:
            yield SchedulerMessage(message=message, reason=str(one.get("reason") or ""))


def _kept_queue(ask: GangAsk, current: SchedulerObject | None) -> Iterator[str]:
    asked = kai_queue(ask.pcs.labels, ask.pcs.annotations, ask.pcs.spec)
    now = current.spec.get("queue") if current is not None else None
    if asked is not None and now and not is_same(now, asked.queue):
        yield f'KAI keeps the gang in queue "{now}", not "{asked.queue}": a PodGroup stays in the queue it was made for'
