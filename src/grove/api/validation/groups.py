"""Validate the scaling groups of a set: their members and counts."""

from collections.abc import Iterator

from grove.api.types.podcliqueset import GroupConfig, SetTemplate
from grove.api.validation.cliques import upper_bound_errors
from grove.api.validation.field_errors import FieldError, duplicate, invalid, required, shorten
from grove.api.validation.syntax import annotation_errors

_GROUPS = "spec.template.podCliqueScalingGroups"


def group_errors(template: SetTemplate) -> Iterator[FieldError]:
    for i, group in enumerate(template.pod_clique_scaling_groups):
        at = f"{_GROUPS}[{i}]"
        yield from annotation_errors(group.annotations, f"{at}.annotations")
        yield from _count_errors(group, at)
    yield from _membership_errors(template)
    yield from _member_autoscaling_errors(template)
    yield from _member_count_errors(template)


def _count_errors(group: GroupConfig, at: str) -> Iterator[FieldError]:
    if group.replicas < 0:
        yield invalid(f"{at}.replicas", group.replicas, "must be at least 0")
    if group.min_available <= 0:
        yield invalid(f"{at}.minAvailable", group.min_available, "must be greater than 0")
    elif group.min_available > group.replicas > 0:
        detail = f"must not be greater than replicas ({group.replicas})"
        yield invalid(f"{at}.minAvailable", group.min_available, detail)
    config = group.scale_config
    if config is not None and config.min_replicas is not None and config.min_replicas < group.min_available:
        detail = f"must be at least minAvailable ({group.min_available})"
        yield invalid(f"{at}.scaleConfig.minReplicas", config.min_replicas, detail)


def autoscaling_errors(template: SetTemplate) -> Iterator[FieldError]:
    """Validate the bounds of autoscalers of new sets. Older versions stored any upper bound of a group."""
    for i, group in enumerate(template.pod_clique_scaling_groups):
        config, at = group.scale_config, f"{_GROUPS}[{i}].scaleConfig"
        if config is not None:
            yield from upper_bound_errors(config, group.replicas, at)


def _membership_errors(template: SetTemplate) -> Iterator[FieldError]:
    cliques = frozenset(clique.name for clique in template.cliques)
    owners: dict[str, str] = {}
    for i, group in enumerate(template.pod_clique_scaling_groups):
        if not group.clique_names:
            yield required(f"{_GROUPS}[{i}].cliqueNames", "write at least one clique name")
        for k, name in enumerate(group.clique_names):
            at = f"{_GROUPS}[{i}].cliqueNames[{k}]"
            if name not in cliques:
                yield invalid(at, name, "is not a clique of this set: define it in spec.template.cliques")
            elif name in owners:
                owner = shorten(owners[name])
                yield duplicate(at, name, f'already belongs to group "{owner}": remove it from one of the groups')
            owners.setdefault(name, group.name)


def _member_count_errors(template: SetTemplate) -> Iterator[FieldError]:
    """Validate that no member has 0 replicas: only the whole group can be scaled to zero."""
    owners = _group_by_clique(template)
    for i, clique in enumerate(template.cliques):
        if clique.spec.replicas == 0 and clique.name in owners:
            at = f"spec.template.cliques[{i}].spec.replicas"
            detail = f'must be greater than 0 for a member of group "{shorten(owners[clique.name])}": scale the group'
            yield invalid(at, clique.spec.replicas, detail)


def _group_by_clique(template: SetTemplate) -> dict[str, str]:
    return {name: group.name for group in template.pod_clique_scaling_groups for name in group.clique_names}


def _member_autoscaling_errors(template: SetTemplate) -> Iterator[FieldError]:
    owners = _group_by_clique(template)
    for i, clique in enumerate(template.cliques):
        if clique.spec.auto_scaling_config is not None and clique.name in owners:
            at = f"spec.template.cliques[{i}].spec.autoScalingConfig"
            detail = f'the clique scales with its group "{shorten(owners[clique.name])}": use scaleConfig of the group'
            yield invalid(at, clique.name, detail)
