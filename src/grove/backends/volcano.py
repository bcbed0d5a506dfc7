"""Volcano: a PodGroup of `scheduling.volcano.sh` per gang, with a subgroup policy per clique. No topology yet."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from grove.api import labels
from grove.api.resources import VOLCANO_PODGROUPS, VOLCANO_QUEUES, Resource
from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetSpec
from grove.api.types.podgang import PodGroup
from grove.api.types.scheduler_object import SchedulerObject, conditions_of
from grove.api.validation.field_errors import FieldError, forbidden
from grove.api.values.pod_requests import pod_requests, read_milli
from grove.api.values.quantities import format_resource
from grove.backends.base import (
    CliqueAsk,
    ClusterFeatures,
    GangAsk,
    MirrorPlan,
    PodAsk,
    SchedulerCapabilities,
    SchedulerMessage,
    SetAsk,
)
from grove.backends.podgroup_sync import Design, current_podgroup, plan_podgroup, priority_of, topology_paths
from grove.backends.queues import (
    missing_kinds,
    names_volcano_queue,
    queue_complaint,
    queue_on,
    volcano_queue,
    volcano_queue_errors,
)

VOLCANO = "volcano"
GROUP_NAMES = ("scheduling.volcano.sh/group-name", "scheduling.k8s.io/group-name")
UNSCHEDULABLE = "Unschedulable"
# Not let into its queue yet: Volcano does not look for nodes.
PENDING = "Pending"
# As many pods as `minMember` are on nodes.
RUNNING = "Running"
# So many cliques are named in a sentence.
_LISTED = 5
_YOUNG = {
    "subGroupPolicy": (
        "PodGroups of this version of Volcano have no subGroupPolicy, so it cannot place gangs: install 1.14 or newer"
    )
}


class VolcanoBackend:
    name = VOLCANO
    can = SchedulerCapabilities(
        gang=True,
        several_groups=True,
        minimum_below_count=True,
        required_topology=False,
        preferred_topology=False,
        reads_annotations=True,
    )
    mirrors: tuple[Resource[SchedulerObject], ...] = (VOLCANO_PODGROUPS,)
    queues: tuple[Resource[SchedulerObject], ...] = (VOLCANO_QUEUES,)
    gang_annotations: Mapping[str, str] = {}

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        for path in topology_paths(pcs.spec):
            yield forbidden(path, "volcano packs nothing for us: remove the constraint, or choose another scheduler")
        yield from volcano_queue_errors(pcs.metadata.annotations, pcs.spec)

    def hold(self, pcs: SetAsk, surface: ClusterFeatures) -> str:
        if missing := missing_kinds(surface, (*self.mirrors, *self.queues), "Volcano"):
            return missing
        queue = volcano_queue(pcs.annotations, pcs.spec)
        return queue_complaint(queue, queue_on(surface, queue))

    def prepare_pod(self, pod: JsonObject, ask: PodAsk) -> None:
        metadata = pod["metadata"]
        group = dict.fromkeys(GROUP_NAMES, ask.gang.metadata.name)
        pod["metadata"] = {
            **metadata,
            "labels": {**metadata.get("labels", {}), labels.PODCLIQUE_UID: ask.clique_uid},
            "annotations": {**metadata.get("annotations", {}), **group},
        }
        pod["spec"] = {**pod["spec"], "schedulerName": self.name}

    def group_of(self, ask: PodAsk) -> str:
        return ""

    def mirror(self, ask: GangAsk, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]]) -> MirrorPlan:
        current = current_podgroup(ask.gang, VOLCANO_PODGROUPS, found)
        plan = plan_podgroup(ask, found, _design(ask, current), tuple(_said(ask, current)))
        return msgspec.structs.replace(plan, gangless=(*plan.gangless, *_gangless(ask.pcs.spec)))


# --- what a PodGroup says --------------------------------------------------------------------------------------------


def _design(ask: GangAsk, current: SchedulerObject | None) -> Design:
    podgroups = ask.gang.spec.podgroups
    cliques = {clique.name: clique for clique in ask.cliques}
    relaxed = _relaxed(ask, current)
    is_asked_for = names_volcano_queue(ask.pcs.annotations, ask.pcs.spec)
    return Design(
        resource=VOLCANO_PODGROUPS,
        spec={
            "minMember": max(1, sum(group.min_replicas for group in podgroups if group.name not in relaxed)),
            "minResources": _kept_spelling(_min_resources(podgroups, cliques), current),
            "queue": volcano_queue(ask.pcs.annotations, ask.pcs.spec).queue,
            "priorityClassName": priority_of(ask),
            "subGroupPolicy": [
                _policy(group, cliques.get(group.name), is_relaxed=group.name in relaxed) for group in podgroups
            ],
        },
        # Volcano may give a namespace a queue of its own: that is not ours to undo.
        first_only=() if is_asked_for else ("queue",),
        vital=("minMember", "subGroupPolicy"),
        young=_YOUNG,
        item_fields=("name", "labelSelector", "matchLabelKeys", "subGroupSize", "minSubGroups"),
    )


def _policy(group: PodGroup, clique: CliqueAsk | None, *, is_relaxed: bool) -> JsonObject:
    # Volcano counts pods that ended as ready, and names return in the next incarnation: the uid tells old from new.
    # Pods that were made without the label would match nothing, so it is asked for once all of them carry it.
    uid = {labels.PODCLIQUE_UID: clique.uid} if clique is not None and not clique.has_unlabelled else {}
    return {
        "name": group.name,
        "labelSelector": {"matchLabels": {labels.PODCLIQUE: group.name, **uid}},
        "matchLabelKeys": [labels.PODCLIQUE],
        "subGroupSize": 1 if is_relaxed else max(1, group.min_replicas),
        # A clique whose pods are all done is not waited for.
        "minSubGroups": 0 if is_relaxed or not group.min_replicas else 1,
    }


def _relaxed(ask: GangAsk, current: SchedulerObject | None) -> frozenset[str]:
    """Return the cliques whose first placement is over: their lost pods come back one by one.

    Volcano binds nothing of a PodGroup that is not ready as a whole, so a clique that cannot be repaired would hold up
    the repairs of all others. That a clique was placed must outlive the operator, so it is read from the PodGroup.
    """
    written = _written_policies(current)
    relaxed = {clique.name for clique in ask.cliques if _is_written_relaxed(clique, written.get(clique.name))}
    units: dict[str, list[CliqueAsk]] = {}
    for clique in ask.cliques:
        if clique.name not in relaxed:
            units.setdefault(clique.life, []).append(clique)
    for unit in units.values():
        # Without a PodGroup: somebody deleted it, for a pod gets no node before its PodGroup is there.
        was_placed = current is None and any(clique.placed_count for clique in unit)
        if was_placed or all(clique.placed_count >= clique.minimum for clique in unit):
            relaxed.update(clique.name for clique in unit)
    return frozenset(relaxed)


def _is_written_relaxed(clique: CliqueAsk, policy: JsonObject | None) -> bool:
    if policy is None or policy.get("minSubGroups"):
        return False
    uid = _match_labels(policy).get(labels.PODCLIQUE_UID)
    # Without a uid it is about pods that were made before the label. None of the next incarnation has a node then:
    # their gates open after the PodGroup was written for them.
    return uid == clique.uid if uid else clique.placed_count > 0


def _written_policies(current: SchedulerObject | None) -> dict[str, JsonObject]:
    policies = current.spec.get("subGroupPolicy") if current is not None else None
    found = [one for one in policies if isinstance(one, dict)] if isinstance(policies, list) else []
    return {str(one.get("name") or ""): one for one in found}


def _match_labels(policy: JsonObject) -> JsonObject:
    selector = policy.get("labelSelector")
    found = selector.get("matchLabels") if isinstance(selector, dict) else None
    return found if isinstance(found, dict) else {}


def _min_resources(podgroups: Sequence[PodGroup], cliques: Mapping[str, CliqueAsk]) -> JsonObject | None:
    """Return what the minima need together. Without it Volcano lets a gang into a queue that has no room for it."""
    total: dict[str, int] = {}
    for group in podgroups:
        clique = cliques.get(group.name)
        for name, amount in pod_requests(clique.pod_spec).items() if clique is not None else ():
            total[name] = total.get(name, 0) + amount * group.min_replicas
    return {name: format_resource(name, amount) for name, amount in sorted(total.items()) if amount} or None


def _kept_spelling(wanted: JsonObject | None, current: SchedulerObject | None) -> JsonObject | None:
    """Volcano writes PodGroups back, and spells amounts in its way: `1024Mi` as `1Gi`."""
    written = current.spec.get("minResources") if current is not None else None
    if not wanted or not isinstance(written, dict) or written.keys() != wanted.keys():
        return wanted
    is_equal = all(read_milli(written[name]) == read_milli(amount) for name, amount in wanted.items())
    return written if is_equal else wanted


# --- what Volcano does not do ----------------------------------------------------------------------------------------


def best_effort_cliques(spec: PodCliqueSetSpec) -> tuple[str, ...]:
    """Return the cliques whose pods request nothing: Volcano counts those pods as placed while they wait."""
    return tuple(clique.name for clique in spec.template.cliques if not pod_requests(clique.spec.pod_spec))


def best_effort_complaint(cliques: Sequence[str]) -> str:
    more = f" and {len(cliques) - _LISTED} more" if len(cliques) > _LISTED else ""
    return (
        f"volcano does not wait for the pods of {', '.join(cliques[:_LISTED])}{more} when it places a gang, because "
        "they request no resources: request cpu or memory in every clique"
    )


def _gangless(spec: PodCliqueSetSpec) -> Iterator[str]:
    if cliques := best_effort_cliques(spec):
        yield best_effort_complaint(cliques)


# --- what Volcano says -----------------------------------------------------------------------------------------------


def _said(ask: GangAsk, current: SchedulerObject | None) -> Iterator[SchedulerMessage]:
    if current is None:
        return
    phase = current.status.get("phase")
    if phase == PENDING:
        queue = current.spec.get("queue") or volcano_queue(ask.pcs.annotations, ask.pcs.spec).queue
        message = (
            f'queue "{queue}" does not let it in yet: its minimum is more than the queue, or the cluster, has left'
        )
        yield SchedulerMessage(message=message, reason=PENDING, is_queued=True)
        return
    told = find_condition(conditions_of(current), UNSCHEDULABLE)
    # Volcano never takes it back: of a group that runs, it is about the time before.
    if phase != RUNNING and told is not None and told.status == "True" and told.message:
        yield SchedulerMessage(message=told.message, reason=told.reason)
