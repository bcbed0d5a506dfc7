"""`default-scheduler`: Kubernetes' own gangs where the cluster has them, else none, said aloud.

What is written for kube-scheduler is in `native_podgroups.py`.
"""

from collections.abc import Iterator, Mapping, Sequence

from grove.api import labels
from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS, Resource
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import GangTopologyConstraint
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.field_errors import FieldError
from grove.backends.base import ClusterFeatures, GangAsk, MirrorPlan, PodAsk, SchedulerCapabilities, SetAsk
from grove.backends.native_podgroups import Drawing, NativeFeatures, extras_name, leaf_name, root_name

DEFAULT_SCHEDULER = "default-scheduler"


class PlainBackend:
    """A scheduler that needs nothing written for it: it reads PodGangs, or knows no gangs at all."""

    mirrors: tuple[Resource[SchedulerObject], ...] = ()
    queues: tuple[Resource[SchedulerObject], ...] = ()
    gang_annotations: Mapping[str, str] = {}

    def __init__(self, name: str, *, reads_gangs: bool, why: str = "") -> None:
        self.name = name
        # All that it ever tells of a gang.
        self.nothing = MirrorPlan(gangless=(why,) if why else ())
        self.can = SchedulerCapabilities(
            gang=reads_gangs,
            several_groups=reads_gangs,
            minimum_below_count=reads_gangs,
            required_topology=reads_gangs,
            preferred_topology=reads_gangs,
            # What others read is theirs to know.
            reads_annotations=reads_gangs or name != DEFAULT_SCHEDULER,
        )

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        return iter(())

    def hold(self, pcs: SetAsk, surface: ClusterFeatures) -> str:
        return ""

    def prepare_pod(self, pod: JsonObject, ask: PodAsk) -> None:
        pass

    def group_of(self, ask: PodAsk) -> str:
        return ""

    def mirror(self, ask: GangAsk, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]]) -> MirrorPlan:
        return self.nothing


class NativeBackend:
    name = DEFAULT_SCHEDULER
    queues: tuple[Resource[SchedulerObject], ...] = ()
    gang_annotations: Mapping[str, str] = {}

    def __init__(self, features: NativeFeatures) -> None:
        self._features = features
        self.can = SchedulerCapabilities(
            gang=True,
            several_groups=True,
            minimum_below_count=True,
            required_topology=features.topology,
            preferred_topology=True,
            mixes_extras=True,
        )
        self.mirrors = (NATIVE_PODGROUPS, NATIVE_COMPOSITES) if features.composites else (NATIVE_PODGROUPS,)

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        return iter(())

    def hold(self, pcs: SetAsk, surface: ClusterFeatures) -> str:
        return ""

    def prepare_pod(self, pod: JsonObject, ask: PodAsk) -> None:
        pod["spec"] = {**pod["spec"], "schedulingGroup": {"podGroupName": self.group_of(ask)}}
        attractions = list(_attractions(pod["metadata"]["labels"], ask))
        if attractions:
            pod["spec"]["affinity"] = _with_attractions(pod["spec"].get("affinity") or {}, attractions)

    def group_of(self, ask: PodAsk) -> str:
        if ask.index >= ask.minimum:
            return extras_name(ask.gang, ask.clique_name, ask.clique_uid, ask.priority_class_name)
        if self._features.composites:
            return leaf_name(ask.gang, ask.clique_name, ask.clique_uid, ask.priority_class_name)
        return root_name(ask.gang, ask.life, ask.priority_class_name)

    def mirror(self, ask: GangAsk, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]]) -> MirrorPlan:
        return Drawing(ask, found, self._features).plan()


# --- soft topology: kube-scheduler has none for groups, but pods may like each other's company ------------------------


def _attractions(pod_labels: Mapping[str, str], ask: PodAsk) -> Iterator[JsonObject]:
    spec = ask.gang.spec
    whole = (
        (labels.PODGANG,) if spec and labels.BASE_PODGANG in pod_labels else (labels.PART_OF, labels.SET_REPLICA_INDEX)
    )
    scopes: list[tuple[GangTopologyConstraint | None, tuple[str, ...]]] = [(spec.topology_constraint, whole)]
    scopes += [
        (config.topology_constraint, (labels.GROUP, labels.GROUP_REPLICA_INDEX))
        for config in spec.topology_constraint_group_configs
        if ask.clique_name in config.pod_group_names
    ]
    scopes += [
        (group.topology_constraint, (labels.PODCLIQUE,)) for group in spec.podgroups if group.name == ask.clique_name
    ]
    for constraint, keys in scopes:
        pack = constraint.pack_constraint if constraint else None
        if pack is not None and pack.preferred:
            matched = {key: pod_labels[key] for key in keys if key in pod_labels}
            yield {
                "weight": 100,
                "podAffinityTerm": {"topologyKey": pack.preferred, "labelSelector": {"matchLabels": matched}},
            }


def _with_attractions(affinity: JsonObject, terms: list[JsonObject]) -> JsonObject:
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    company = dict(affinity.get("podAffinity") or {})
    company[field] = [*(company.get(field) or ()), *terms]
    return {**affinity, "podAffinity": company}
