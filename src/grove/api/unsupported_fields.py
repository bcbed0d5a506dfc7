"""Find fields of a PodCliqueSet that this version accepts but does not support.

Admission turns them into warnings, the planner into the condition `UnsupportedFields`. A field leaves this table when
it is implemented.
"""

from collections.abc import Iterator

from grove.api.labels import MNNVL_GROUP
from grove.api.types.meta import WireStruct
from grove.api.types.podcliqueset import CliqueTemplate, GroupConfig, PodCliqueSet, SetTemplate


class UnsupportedField(WireStruct):
    """A field without effect, and what happens instead."""

    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


_NO_SHARING = "resource sharing is not supported yet: no resource claims are created"
_NO_MNNVL = "multi-node NVLink is not supported yet: no compute domain is created"
_NO_RESCALE = "has no effect on existing children: scale them with kubectl scale"


def find_unsupported_fields(pcs: PodCliqueSet) -> tuple[UnsupportedField, ...]:
    """Return the fields of this set that have no effect, in the order of the manifest."""
    return tuple(UnsupportedField(path=path, detail=detail) for path, detail in _in_set(pcs))


def find_unsupported_changes(old: PodCliqueSet, new: PodCliqueSet) -> tuple[UnsupportedField, ...]:
    """Return the fields that this update changes without effect on existing children."""
    if old.spec.replicas == 0:
        return ()
    return tuple(
        UnsupportedField(path=path, detail=detail)
        for path, detail in _find_ignored_changes(old.spec.template, new.spec.template)
    )


def _in_set(pcs: PodCliqueSet) -> Iterator[tuple[str, str]]:
    if MNNVL_GROUP in pcs.metadata.annotations:
        yield f"metadata.annotations[{MNNVL_GROUP}]", _NO_MNNVL
    yield from _in_template(pcs.spec.template)


def _in_template(template: SetTemplate) -> Iterator[tuple[str, str]]:
    at = "spec.template"
    for i, clique in enumerate(template.cliques):
        yield from _in_clique(clique, f"{at}.cliques[{i}]")
    if template.resource_claim_templates:
        yield f"{at}.resourceClaimTemplates", _NO_SHARING
    if template.resource_sharing:
        yield f"{at}.resourceSharing", _NO_SHARING
    for i, group in enumerate(template.pod_clique_scaling_groups):
        yield from _in_group(group, f"{at}.podCliqueScalingGroups[{i}]")


def _in_clique(clique: CliqueTemplate, at: str) -> Iterator[tuple[str, str]]:
    if MNNVL_GROUP in clique.annotations:
        yield f"{at}.annotations[{MNNVL_GROUP}]", _NO_MNNVL
    if clique.resource_sharing:
        yield f"{at}.resourceSharing", _NO_SHARING


def _in_group(group: GroupConfig, at: str) -> Iterator[tuple[str, str]]:
    if MNNVL_GROUP in group.annotations:
        yield f"{at}.annotations[{MNNVL_GROUP}]", _NO_MNNVL
    if group.resource_sharing:
        yield f"{at}.resourceSharing", _NO_SHARING


def _find_ignored_changes(old: SetTemplate, new: SetTemplate) -> Iterator[tuple[str, str]]:
    cliques_before = {clique.name: clique for clique in old.cliques}
    for i, clique in enumerate(new.cliques):
        before = cliques_before.get(clique.name)
        if before is None:
            continue
        at = f"spec.template.cliques[{i}]"
        if before.spec.replicas != clique.spec.replicas:
            yield f"{at}.spec.replicas", _NO_RESCALE
    groups_before = {group.name: group for group in old.pod_clique_scaling_groups}
    for i, group in enumerate(new.pod_clique_scaling_groups):
        if group.name in groups_before and groups_before[group.name].replicas != group.replicas:
            yield f"spec.template.podCliqueScalingGroups[{i}].replicas", _NO_RESCALE
