"""Volcano: a PodGroup of `scheduling.volcano.sh` per gang, with a subgroup policy per clique. It knows no topology."""

from collections.abc import Iterator, Mapping, Sequence

from grove.api import labels
from grove.api.fielderrors import FieldError, forbidden
from grove.api.meta import JsonObject, find_condition
from grove.api.mirror import Mirror, conditions_of
from grove.api.podcliqueset import PodCliqueSet
from grove.api.podgang import PodGroup
from grove.api.resources import VOLCANO_PODGROUPS, VOLCANO_QUEUES, Resource
from grove.backends.base import Can, GangAsk, MirrorPlan, PodAsk, Said, SetAsk, Surface
from grove.backends.podgroups import Design, current_podgroup, plan_podgroup, priority_of, topology_paths
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
# Not let into its queue yet: nobody looks for nodes.
PENDING = "Pending"
_YOUNG = {
    "subGroupPolicy": (
        "PodGroups of this version of Volcano have no subGroupPolicy, so it cannot place gangs: install 1.14 or newer"
    )
}


class VolcanoBackend:
    name = VOLCANO
    can = Can(
        gang=True,
        several_groups=True,
        minimum_below_count=True,
        required_topology=False,
        preferred_topology=False,
        reads_annotations=True,
    )
    mirrors: tuple[Resource[Mirror], ...] = (VOLCANO_PODGROUPS,)
    queues: tuple[Resource[Mirror], ...] = (VOLCANO_QUEUES,)
    gang_annotations: Mapping[str, str] = {}

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        for path in topology_paths(pcs.spec):
            yield forbidden(path, "volcano packs nothing for us: remove the constraint, or choose another scheduler")
        yield from volcano_queue_errors(pcs.metadata.annotations, pcs.spec)

    def hold(self, pcs: SetAsk, surface: Surface) -> str:
        if missing := missing_kinds(surface, (*self.mirrors, *self.queues), "Volcano"):
            return missing
        queue = volcano_queue(pcs.annotations, pcs.spec)
        return queue_complaint(queue, queue_on(surface, queue))

    def prepare_pod(self, pod: JsonObject, ask: PodAsk) -> None:
        metadata = pod["metadata"]
        group = dict.fromkeys(GROUP_NAMES, ask.gang.metadata.name)
        pod["metadata"] = {**metadata, "annotations": {**metadata.get("annotations", {}), **group}}
        pod["spec"] = {**pod["spec"], "schedulerName": self.name}

    def group_of(self, ask: PodAsk) -> str:
        return ""

    def mirror(self, ask: GangAsk, found: Sequence[tuple[Resource[Mirror], Mirror]]) -> MirrorPlan:
        current = current_podgroup(ask.gang, VOLCANO_PODGROUPS, found)
        return plan_podgroup(ask, found, _design(ask), tuple(_said(ask, current)))


def _design(ask: GangAsk) -> Design:
    podgroups = ask.gang.spec.podgroups
    is_asked_for = names_volcano_queue(ask.pcs.annotations, ask.pcs.spec)
    return Design(
        resource=VOLCANO_PODGROUPS,
        spec={
            "minMember": max(1, sum(group.min_replicas for group in podgroups)),
            "queue": volcano_queue(ask.pcs.annotations, ask.pcs.spec).queue,
            "priorityClassName": priority_of(ask),
            "subGroupPolicy": [_policy(group) for group in podgroups],
        },
        # Volcano may give a namespace a queue of its own: that is not ours to undo.
        first_only=() if is_asked_for else ("queue",),
        vital=("minMember", "subGroupPolicy"),
        young=_YOUNG,
        item_fields=("name", "labelSelector", "matchLabelKeys", "subGroupSize", "minSubGroups"),
    )


def _policy(group: PodGroup) -> JsonObject:
    return {
        "name": group.name,
        "labelSelector": {"matchLabels": {labels.PODCLIQUE: group.name}},
        "matchLabelKeys": [labels.PODCLIQUE],
        "subGroupSize": max(1, group.min_replicas),
        # A clique whose pods are all done is waited for by nobody.
        "minSubGroups": 1 if group.min_replicas else 0,
    }


def _said(ask: GangAsk, current: Mirror | None) -> Iterator[Said]:
    if current is None:
        return
    told = find_condition(conditions_of(current), UNSCHEDULABLE)
    if told is not None and told.status == "True" and told.message:
        yield Said(message=told.message, reason=told.reason)
    elif current.status.get("phase") == PENDING:
        queue = current.spec.get("queue") or volcano_queue(ask.pcs.annotations, ask.pcs.spec).queue
        yield Said(message=f'it is not let into queue "{queue}" yet', reason=PENDING)
