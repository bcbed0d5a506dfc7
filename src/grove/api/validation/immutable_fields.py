"""Validate that an update does not change the structure of a set, on which running gangs rely."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from grove.api.types.meta import to_wire
from grove.api.types.podcliqueset import CliqueTemplate, GroupConfig, PodCliqueSet, SetTemplate, StartupType
from grove.api.validation.devices.mnnvl import mnnvl_change_errors
from grove.api.validation.field_errors import FieldError, describe_immutable, forbidden, invalid, join_names
from grove.api.validation.topology_constraints import topology_change_errors
from grove.api.validation.training import training_change_errors

T = TypeVar("T", CliqueTemplate, GroupConfig)

_ORDERED = (StartupType.IN_ORDER, StartupType.EXPLICIT)


def change_errors(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    before, after = old.spec.template, new.spec.template
    yield from _structure_changes(before, after)
    yield from _clique_changes(before, after)
    yield from _group_changes(before, after)
    yield from topology_change_errors(before, after)
    yield from mnnvl_change_errors(old, new)
    yield from training_change_errors(old, new)


def _structure_changes(old: SetTemplate, new: SetTemplate) -> Iterator[FieldError]:
    at = "spec.template"
    yield from _immutable(f"{at}.cliqueStartupType", old.clique_startup_type, new.clique_startup_type)
    yield from _immutable(f"{at}.resourceClaimTemplates", old.resource_claim_templates, new.resource_claim_templates)
    yield from _immutable(f"{at}.resourceSharing", old.resource_sharing, new.resource_sharing)
    names_before, names_after = [c.name for c in old.cliques], [c.name for c in new.cliques]
    yield from _same_names(f"{at}.cliques", "cliques", names_before, names_after)
    is_reordered = names_before != names_after and sorted(names_before) == sorted(names_after)
    if is_reordered and old.clique_startup_type in _ORDERED:
        detail = f"the order of cliques is immutable with this cliqueStartupType: write {join_names(names_before)}"
        yield invalid(f"{at}.cliques", join_names(names_after), detail)
    groups_before = [g.name for g in old.pod_clique_scaling_groups]
    groups_after = [g.name for g in new.pod_clique_scaling_groups]
    yield from _same_names(f"{at}.podCliqueScalingGroups", "groups", groups_before, groups_after)


def _same_names(at: str, what: str, old: list[str], new: list[str]) -> Iterator[FieldError]:
    if sorted(old) != sorted(new):
        detail = (
            f"{what} cannot be added, removed or renamed (existing: {join_names(old) or 'none'}): "
            "create a new PodCliqueSet"
        )
        yield forbidden(at, detail)


def _clique_changes(old: SetTemplate, new: SetTemplate) -> Iterator[FieldError]:
    for then, clique, at in _match_by_name(old.cliques, new.cliques, "spec.template.cliques"):
        yield from _immutable(f"{at}.spec.roleName", then.role_name, clique.role_name)
        yield from _immutable(f"{at}.spec.minAvailable", then.spec.min_available, clique.spec.min_available)
        yield from _immutable(f"{at}.spec.startsAfter", then.spec.starts_after, clique.spec.starts_after)
        scheduler_then = then.spec.pod_spec.get("schedulerName") or ""
        scheduler_now = clique.spec.pod_spec.get("schedulerName") or ""
        yield from _immutable(f"{at}.spec.podSpec.schedulerName", scheduler_then, scheduler_now)
        yield from _immutable(f"{at}.resourceSharing", then.resource_sharing, clique.resource_sharing)


def _group_changes(old: SetTemplate, new: SetTemplate) -> Iterator[FieldError]:
    path = "spec.template.podCliqueScalingGroups"
    for then, group, at in _match_by_name(old.pod_clique_scaling_groups, new.pod_clique_scaling_groups, path):
        yield from _immutable(f"{at}.cliqueNames", then.clique_names, group.clique_names)
        yield from _immutable(f"{at}.minAvailable", then.min_available, group.min_available)
        yield from _immutable(f"{at}.resourceSharing", then.resource_sharing, group.resource_sharing)


def _match_by_name(old: Sequence[T], new: Sequence[T], path: str) -> Iterator[tuple[T, T, str]]:
    """Return the old item, the new item and its path for every name that both lists have."""
    before = {item.name: item for item in old}
    return ((before[item.name], item, f"{path}[{i}]") for i, item in enumerate(new) if item.name in before)


def _immutable(path: str, old: Any, new: Any) -> Iterator[FieldError]:
    if old != new:
        yield invalid(path, _as_json(new), describe_immutable(_as_json(old)))


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [item if isinstance(item, str) else to_wire(item) for item in value]
    return value
