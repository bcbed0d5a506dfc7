"""Validate how many objects a set needs. Greater numbers are typing errors or abuse, and would slow down other users.

`stored_bytes.py` validates how many bytes they need.
"""

from collections.abc import Iterator, Mapping

import msgspec

from grove.api import labels
from grove.api.schema.limits import LARGEST_COUNT
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import CliqueTemplate, GroupConfig, PodCliqueSet, SetTemplate
from grove.api.validation.field_errors import FieldError, invalid

RAISE_BUDGET = "raise limits.objectsPerSet in the operator configuration"

# --- objects ---------------------------------------------------------------------------------------------------------


class ObjectCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of objects that the operator creates for a set or a part of it, by kind."""

    pods: int = 0
    cliques: int = 0
    groups: int = 0
    gangs: int = 0
    services: int = 0
    autoscalers: int = 0

    @property
    def total(self) -> int:
        return self.pods + self.cliques + self.groups + self.gangs + self.services + self.autoscalers

    def times(self, factor: int) -> "ObjectCount":
        return ObjectCount(
            pods=self.pods * factor,
            cliques=self.cliques * factor,
            groups=self.groups * factor,
            gangs=self.gangs * factor,
            services=self.services * factor,
            autoscalers=self.autoscalers * factor,
        )

    def plus(self, other: "ObjectCount") -> "ObjectCount":
        return ObjectCount(
            pods=self.pods + other.pods,
            cliques=self.cliques + other.cliques,
            groups=self.groups + other.groups,
            gangs=self.gangs + other.gangs,
            services=self.services + other.services,
            autoscalers=self.autoscalers + other.autoscalers,
        )

    def __str__(self) -> str:
        parts = (
            ("pods", self.pods),
            ("PodCliques", self.cliques),
            ("PodCliqueScalingGroups", self.groups),
            ("PodGangs", self.gangs),
            ("Services", self.services),
            ("HorizontalPodAutoscalers", self.autoscalers),
        )
        return ", ".join(f"{count} {what}" for what, count in parts if count)


def objects_of_set(pcs: PodCliqueSet) -> ObjectCount:
    """Count all objects that the template of a set needs."""
    return objects_of_replica(pcs.spec.template, {}, {}).times(max(pcs.spec.replicas, 0))


def objects_of_replica(
    template: SetTemplate, group_replicas: Mapping[str, int], clique_pods: Mapping[str, int]
) -> ObjectCount:
    """Count the objects of one set replica.

    `group_replicas` and `clique_pods` have the counts of scaled groups and standalone cliques, by their template names.
    """
    pods = {clique.name: clique.spec.replicas for clique in template.cliques}
    grouped = frozenset(name for group in template.pod_clique_scaling_groups for name in group.clique_names)
    standalone = [clique_pods.get(name, count) for name, count in pods.items() if name not in grouped]
    scaled = sum(c.spec.auto_scaling_config is not None for c in template.cliques if c.name not in grouped)
    total = ObjectCount(pods=sum(standalone), cliques=len(standalone), gangs=1, services=1, autoscalers=scaled)
    for group in template.pod_clique_scaling_groups:
        total = total.plus(objects_of_group(group, pods, group_replicas.get(group.name, group.replicas)))
    return total


def objects_of_group(group: GroupConfig, pods: Mapping[str, int], replicas: int) -> ObjectCount:
    """Count the objects of one group of one set replica; `pods` has the pods of each clique."""
    one = ObjectCount(pods=sum(pods.get(name, 0) for name in group.clique_names), cliques=len(group.clique_names))
    scaled_gangs = max(replicas - group.min_available, 0)
    rest = ObjectCount(groups=1, gangs=scaled_gangs, autoscalers=int(group.scale_config is not None))
    return one.times(max(replicas, 0)).plus(rest)


def budget_errors(pcs: PodCliqueSet, budget: int) -> Iterator[FieldError]:
    objects = objects_of_set(pcs)
    if objects.total > budget and not any(size_errors(pcs)):
        detail = f"{over_budget(objects, budget)}: split it into several sets, or {RAISE_BUDGET}"
        yield invalid("spec.replicas", pcs.spec.replicas, detail)


def group_budget_errors(group: PodCliqueScalingGroup, pcs: PodCliqueSet, budget: int) -> Iterator[FieldError]:
    """Validate the objects of a set after one group is scaled; all other counts are those of the template."""
    total, replicas = objects_of_set(pcs).total, group.spec.replicas
    config = next((one for one in pcs.spec.template.pod_clique_scaling_groups if _is_built_from(group, one, pcs)), None)
    if config is None:
        yield from _scaled_errors(replicas, total + replicas, budget)
        return
    pods = {clique.name: clique.spec.replicas for clique in pcs.spec.template.cliques}
    others = total - objects_of_group(config, pods, config.replicas).total
    yield from _scaled_errors(replicas, others + objects_of_group(config, pods, replicas).total, budget)


def clique_budget_errors(clique: PodClique, pcs: PodCliqueSet, budget: int) -> Iterator[FieldError]:
    """Validate the objects of a set after one clique is scaled; all other counts are those of the template."""
    template = template_of(clique, pcs)
    others = objects_of_set(pcs).total - (template.spec.replicas if template is not None else 0)
    yield from _scaled_errors(clique.spec.replicas, others + clique.spec.replicas, budget)


def _scaled_errors(replicas: int, objects: int, budget: int) -> Iterator[FieldError]:
    if objects > budget:
        detail = (
            f"the set would have {objects} objects, but the limit is {budget}: choose fewer replicas, or {RAISE_BUDGET}"
        )
        yield invalid("spec.replicas", replicas, detail)


def template_of(clique: PodClique, pcs: PodCliqueSet) -> CliqueTemplate | None:
    """Return the template that a PodClique was created from, found by the name that it produces."""
    own, set_name = clique.metadata.labels, pcs.metadata.name
    group, member = own.get(labels.GROUP), own.get(labels.GROUP_REPLICA_INDEX, "")
    prefix = f"{group}-{member}-" if group is not None else f"{set_name}-{own.get(labels.SET_REPLICA_INDEX, '')}-"
    return next((one for one in pcs.spec.template.cliques if clique.metadata.name == prefix + one.name), None)


def _is_built_from(group: PodCliqueScalingGroup, config: GroupConfig, pcs: PodCliqueSet) -> bool:
    index = group.metadata.labels.get(labels.SET_REPLICA_INDEX, "")
    return group.metadata.name == f"{pcs.metadata.name}-{index}-{config.name}"


def over_budget(objects: ObjectCount, budget: int) -> str:
    """Return the text that compares the objects with the budget."""
    return f"the set would have {objects.total} objects ({objects}), but the limit is {budget}"


# --- counts ----------------------------------------------------------------------------------------------------------


def count_errors(path: str, count: int) -> Iterator[FieldError]:
    if count > LARGEST_COUNT:
        yield invalid(path, count, f"must not be greater than {LARGEST_COUNT}")


def size_errors(pcs: PodCliqueSet) -> Iterator[FieldError]:
    template = pcs.spec.template
    yield from count_errors("spec.replicas", pcs.spec.replicas)
    for i, clique in enumerate(template.cliques):
        yield from count_errors(f"spec.template.cliques[{i}].spec.replicas", clique.spec.replicas)
    for i, group in enumerate(template.pod_clique_scaling_groups):
        yield from count_errors(f"spec.template.podCliqueScalingGroups[{i}].replicas", group.replicas)
