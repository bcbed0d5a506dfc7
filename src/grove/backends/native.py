"""`default-scheduler`: native gangs of Kubernetes where the cluster has them, else no gangs, which the set reports.

`native_podgroups.py` builds the objects of kube-scheduler.
"""

from collections.abc import Iterator, Mapping, Sequence

from grove.api import labels
from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS, Resource
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import GangTopologyConstraint
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.field_errors import FieldError
from grove.backends.base import (
    ClusterFeatures,
    GangInput,
    PodInput,
    SchedulerCapabilities,
    SchedulerObjectPlan,
    SetInput,
)
from grove.backends.native_podgroups import NativeFeatures, NativeGroupPlanner, leaf_name, root_name, surplus_name

DEFAULT_SCHEDULER = "default-scheduler"


class PlainBackend:
    """A scheduler that needs no objects: it reads PodGangs, or does not support gangs."""

    object_kinds: tuple[Resource[SchedulerObject], ...] = ()
    queues: tuple[Resource[SchedulerObject], ...] = ()
    gang_annotations: Mapping[str, str] = {}

    def __init__(self, name: str, *, reads_gangs: bool, why: str = "") -> None:
        self.name = name
        # The plan of every gang.
        self.nothing = SchedulerObjectPlan(gangless=(why,) if why else ())
        self.capabilities = SchedulerCapabilities(
            gang=reads_gangs,
            several_groups=reads_gangs,
            minimum_below_count=reads_gangs,
            required_topology=reads_gangs,
            preferred_topology=reads_gangs,
            # Other schedulers may read annotations.
            reads_annotations=reads_gangs or name != DEFAULT_SCHEDULER,
        )

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        return iter(())

    def hold(self, pcs: SetInput, features: ClusterFeatures) -> str:
        return ""

    def prepare_pod(self, pod: JsonObject, inputs: PodInput) -> None:
        pass

    def group_of(self, inputs: PodInput) -> str:
        return ""

    def plan_objects(
        self, inputs: GangInput, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]]
    ) -> SchedulerObjectPlan:
        return self.nothing


class NativeBackend:
    name = DEFAULT_SCHEDULER
    queues: tuple[Resource[SchedulerObject], ...] = ()
    gang_annotations: Mapping[str, str] = {}

    def __init__(self, features: NativeFeatures) -> None:
        self._features = features
        self.capabilities = SchedulerCapabilities(
            gang=True,
            several_groups=True,
            minimum_below_count=True,
            required_topology=features.topology,
            preferred_topology=True,
            mixes_surplus=True,
        )
        self.object_kinds = (NATIVE_PODGROUPS, NATIVE_COMPOSITES) if features.composites else (NATIVE_PODGROUPS,)

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        return iter(())

    def hold(self, pcs: SetInput, features: ClusterFeatures) -> str:
        return ""

    def prepare_pod(self, pod: JsonObject, inputs: PodInput) -> None:
        pod["spec"] = {**pod["spec"], "schedulingGroup": {"podGroupName": self.group_of(inputs)}}
        terms = list(_affinity_terms(pod["metadata"]["labels"], inputs))
        if terms:
            pod["spec"]["affinity"] = _with_affinity_terms(pod["spec"].get("affinity") or {}, terms)

    def group_of(self, inputs: PodInput) -> str:
        if inputs.index >= inputs.minimum:
            return surplus_name(inputs.gang, inputs.clique_name, inputs.clique_uid, inputs.priority_class_name)
        if self._features.composites:
            return leaf_name(inputs.gang, inputs.clique_name, inputs.clique_uid, inputs.priority_class_name)
        return root_name(inputs.gang, inputs.incarnation, inputs.priority_class_name)

    def plan_objects(
        self, inputs: GangInput, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]]
    ) -> SchedulerObjectPlan:
        return NativeGroupPlanner(inputs, found, self._features).plan()


# --- preferred topology: kube-scheduler has none for groups, so pods get a preferred pod affinity --------------------


def _affinity_terms(pod_labels: Mapping[str, str], inputs: PodInput) -> Iterator[JsonObject]:
    spec = inputs.gang.spec
    whole = (
        (labels.PODGANG,) if spec and labels.BASE_PODGANG in pod_labels else (labels.PART_OF, labels.SET_REPLICA_INDEX)
    )
    scopes: list[tuple[GangTopologyConstraint | None, tuple[str, ...]]] = [(spec.topology_constraint, whole)]
    scopes += [
        (config.topology_constraint, (labels.GROUP, labels.GROUP_REPLICA_INDEX))
        for config in spec.topology_constraint_group_configs
        if inputs.clique_name in config.pod_group_names
    ]
    scopes += [
        (group.topology_constraint, (labels.PODCLIQUE,)) for group in spec.podgroups if group.name == inputs.clique_name
    ]
    for constraint, keys in scopes:
        pack = constraint.pack_constraint if constraint else None
        if pack is not None and pack.preferred:
            matched = {key: pod_labels[key] for key in keys if key in pod_labels}
            yield {
                "weight": 100,
                "podAffinityTerm": {"topologyKey": pack.preferred, "labelSelector": {"matchLabels": matched}},
            }


def _with_affinity_terms(affinity: JsonObject, terms: list[JsonObject]) -> JsonObject:
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    pod_affinity = dict(affinity.get("podAffinity") or {})
    pod_affinity[field] = [*(pod_affinity.get(field) or ()), *terms]
    return {**affinity, "podAffinity": pod_affinity}
