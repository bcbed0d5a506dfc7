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
    CliqueInput,
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
    plan_podgroup,
    priority_of,
    topology_paths,
)
from grove.backends.queues import (
    check_queue,
    find_queue,
    missing_kinds,
    names_volcano_queue,
    volcano_queue,
    volcano_queue_errors,
)

VOLCANO = "volcano"
GROUP_NAMES = ("scheduling.volcano.sh/group-name", "scheduling.k8s.io/group-name")
UNSCHEDULABLE = "Unschedulable"
# The queue has not admitted it yet: Volcano does not look for nodes.
PENDING = "Pending"
# As many pods as `minMember` are on nodes.
RUNNING = "Running"
# How many cliques a message lists.
_LISTED = 5
_NEWER_FIELDS = {
    "subGroupPolicy": (
        "PodGroups of this version of Volcano have no subGroupPolicy, so it cannot place gangs: install 1.14 or newer"
    )
}


class VolcanoBackend:
    name = VOLCANO
    capabilities = SchedulerCapabilities(
        gang=True,
        several_groups=True,
        minimum_below_count=True,
        required_topology=False,
        preferred_topology=False,
        reads_annotations=True,
    )
    object_kinds: tuple[Resource[SchedulerObject], ...] = (VOLCANO_PODGROUPS,)
    queues: tuple[Resource[SchedulerObject], ...] = (VOLCANO_QUEUES,)
    gang_annotations: Mapping[str, str] = {}

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        for path in topology_paths(pcs.spec):
            yield forbidden(
                path,
                "volcano does not support topology constraints: remove the constraint, or choose another scheduler",
            )
        yield from volcano_queue_errors(pcs.metadata.annotations, pcs.spec)

    def hold(self, pcs: SetInput, features: ClusterFeatures) -> str:
        if missing := missing_kinds(features, (*self.object_kinds, *self.queues), "Volcano"):
            return missing
        queue = volcano_queue(pcs.annotations, pcs.spec)
        return check_queue(queue, find_queue(features, queue))

    def prepare_pod(self, pod: JsonObject, inputs: PodInput) -> None:
        group = dict.fromkeys(GROUP_NAMES, inputs.gang.metadata.name)
        assign_pod(pod, self.name, labels={labels.PODCLIQUE_UID: inputs.clique_uid}, annotations=group)

    def group_of(self, inputs: PodInput) -> str:
        return ""

    def plan_objects(
        self, inputs: GangInput, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]]
    ) -> SchedulerObjectPlan:
        current = current_podgroup(inputs.gang, VOLCANO_PODGROUPS, found)
        plan = plan_podgroup(
            inputs, found, _desired_podgroup(inputs, current), tuple(_scheduler_messages(inputs, current))
        )
        return msgspec.structs.replace(plan, gangless=(*plan.gangless, *_best_effort_warnings(inputs.pcs.spec)))


# --- the PodGroup ----------------------------------------------------------------------------------------------------


def _desired_podgroup(inputs: GangInput, current: SchedulerObject | None) -> DesiredPodGroup:
    podgroups = inputs.gang.spec.podgroups
    cliques = {clique.name: clique for clique in inputs.cliques}
    relaxed = _relaxed_cliques(inputs, current)
    is_requested = names_volcano_queue(inputs.pcs.annotations, inputs.pcs.spec)
    return DesiredPodGroup(
        resource=VOLCANO_PODGROUPS,
        spec={
            "minMember": max(1, sum(group.min_replicas for group in podgroups if group.name not in relaxed)),
            "minResources": _keep_equal_value(_min_resources(podgroups, cliques), current),
            "queue": volcano_queue(inputs.pcs.annotations, inputs.pcs.spec).queue,
            "priorityClassName": priority_of(inputs),
            "subGroupPolicy": [
                _policy(group, cliques.get(group.name), is_relaxed=group.name in relaxed) for group in podgroups
            ],
        },
        # Volcano may assign the queue of the namespace: keep that.
        create_only=() if is_requested else ("queue",),
        essential=("minMember", "subGroupPolicy"),
        newer_fields=_NEWER_FIELDS,
        item_fields=("name", "labelSelector", "matchLabelKeys", "subGroupSize", "minSubGroups"),
    )


def _policy(group: PodGroup, clique: CliqueInput | None, *, is_relaxed: bool) -> JsonObject:
    # Volcano counts finished pods as ready, and the next incarnation reuses names: only the uid differs. The label is
    # selected only when all pods have it: pods of older versions would match nothing.
    uid = {labels.PODCLIQUE_UID: clique.uid} if clique is not None and not clique.has_unlabelled else {}
    return {
        "name": group.name,
        "labelSelector": {"matchLabels": {labels.PODCLIQUE: group.name, **uid}},
        "matchLabelKeys": [labels.PODCLIQUE],
        "subGroupSize": 1 if is_relaxed else max(1, group.min_replicas),
        # Nothing waits for a clique whose pods are all finished.
        "minSubGroups": 0 if is_relaxed or not group.min_replicas else 1,
    }


def _relaxed_cliques(inputs: GangInput, current: SchedulerObject | None) -> frozenset[str]:
    """Return the cliques whose first placement is over: their lost pods are replaced one by one.

    Volcano binds nothing of a PodGroup that is not ready as a whole, so a clique that cannot be repaired would block
    the repair of all others. The state is read from the PodGroup, so that it survives a restart of the operator.
    """
    written = _written_policies(current)
    relaxed = {clique.name for clique in inputs.cliques if _is_written_relaxed(clique, written.get(clique.name))}
    units: dict[str, list[CliqueInput]] = {}
    for clique in inputs.cliques:
        if clique.name not in relaxed:
            units.setdefault(clique.incarnation, []).append(clique)
    for unit in units.values():
        # Without a PodGroup: a user deleted it, because a pod gets no node before its PodGroup exists.
        was_placed = current is None and any(clique.placed_count for clique in unit)
        if was_placed or all(clique.placed_count >= clique.minimum for clique in unit):
            relaxed.update(clique.name for clique in unit)
    return frozenset(relaxed)


def _is_written_relaxed(clique: CliqueInput, policy: JsonObject | None) -> bool:
    if policy is None or policy.get("minSubGroups"):
        return False
    uid = _match_labels(policy).get(labels.PODCLIQUE_UID)
    # Without a uid it describes pods of older versions. Then no pod of the next incarnation has a node: their gates are
    # removed after the PodGroup was written for them.
    return uid == clique.uid if uid else clique.placed_count > 0


def _written_policies(current: SchedulerObject | None) -> dict[str, JsonObject]:
    policies = current.spec.get("subGroupPolicy") if current is not None else None
    found = [one for one in policies if isinstance(one, dict)] if isinstance(policies, list) else []
    return {str(one.get("name") or ""): one for one in found}


def _match_labels(policy: JsonObject) -> JsonObject:
    selector = policy.get("labelSelector")
    found = selector.get("matchLabels") if isinstance(selector, dict) else None
    return found if isinstance(found, dict) else {}


def _min_resources(podgroups: Sequence[PodGroup], cliques: Mapping[str, CliqueInput]) -> JsonObject | None:
    """Return the resources of all minima. Without them Volcano admits a gang into a queue that is too small."""
    total: dict[str, int] = {}
    for group in podgroups:
        clique = cliques.get(group.name)
        for name, amount in pod_requests(clique.pod_spec).items() if clique is not None else ():
            total[name] = total.get(name, 0) + amount * group.min_replicas
    return {name: format_resource(name, amount) for name, amount in sorted(total.items()) if amount} or None


def _keep_equal_value(wanted: JsonObject | None, current: SchedulerObject | None) -> JsonObject | None:
    """Return the stored amounts if they are equal in another notation: Volcano writes `1024Mi` as `1Gi`."""
    written = current.spec.get("minResources") if current is not None else None
    if not wanted or not isinstance(written, dict) or written.keys() != wanted.keys():
        return wanted
    is_equal = all(read_milli(written[name]) == read_milli(amount) for name, amount in wanted.items())
    return written if is_equal else wanted


# --- limits of Volcano -----------------------------------------------------------------------------------------------


def best_effort_cliques(spec: PodCliqueSetSpec) -> tuple[str, ...]:
    """Return the cliques whose pods request nothing: Volcano counts those pods as placed while they wait."""
    return tuple(clique.name for clique in spec.template.cliques if not pod_requests(clique.spec.pod_spec))


def describe_best_effort(cliques: Sequence[str]) -> str:
    more = f" and {len(cliques) - _LISTED} more" if len(cliques) > _LISTED else ""
    return (
        f"volcano does not wait for the pods of {', '.join(cliques[:_LISTED])}{more} when it places a gang, because "
        "they request no resources: request cpu or memory in every clique"
    )


def _best_effort_warnings(spec: PodCliqueSetSpec) -> Iterator[str]:
    if cliques := best_effort_cliques(spec):
        yield describe_best_effort(cliques)


# --- messages of Volcano ---------------------------------------------------------------------------------------------


def _scheduler_messages(inputs: GangInput, current: SchedulerObject | None) -> Iterator[SchedulerMessage]:
    if current is None:
        return
    phase = current.status.get("phase")
    if phase == PENDING:
        queue = current.spec.get("queue") or volcano_queue(inputs.pcs.annotations, inputs.pcs.spec).queue
        message = (
            f'queue "{queue}" has not admitted it yet: its minimum needs more than the queue or the cluster has left'
        )
        yield SchedulerMessage(message=message, reason=PENDING, is_queued=True)
        return
    condition = find_condition(conditions_of(current), UNSCHEDULABLE)
    # Volcano never clears the condition: for a running group it is outdated.
    if phase != RUNNING and condition is not None and condition.status == "True" and condition.message:
        yield SchedulerMessage(message=condition.message, reason=condition.reason)
