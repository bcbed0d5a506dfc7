"""Validate that an update does not change the structure of a set, on which running gangs rely."""

from collections.abc import Iterator
from typing import Any

from grove.api.types.meta import to_wire
from grove.api.types.podcliqueset import CliqueTemplate, GroupConfig, PodCliqueSet, SetTemplate, StartupType
from grove.api.validation.devices.mnnvl import mnnvl_change_errors
from grove.api.validation.field_errors import FieldError, forbidden, invalid, listed
from grove.api.validation.topology_constraints import topology_change_errors
from grove.api.validation.training import training_change_errors

_IMMUTABLE = "never changes: write the old value again, or make a new set"
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
    yield from _fixed(f"{at}.cliqueStartupType", old.clique_startup_type, new.clique_startup_type)
    yield from _fixed(f"{at}.resourceClaimTemplates", old.resource_claim_templates, new.resource_claim_templates)
    yield from _fixed(f"{at}.resourceSharing", old.resource_sharing, new.resource_sharing)
    names_before, names_after = [c.name for c in old.cliques], [c.name for c in new.cliques]
    yield from _same_names(f"{at}.cliques", "cliques", names_before, names_after)
    is_reordered = names_before != names_after and sorted(names_before) == sorted(names_after)
    if is_reordered and old.clique_startup_type in _ORDERED:
        detail = f"the order of cliques is fixed with this start-up type: write {listed(names_before)}"
        yield invalid(f"{at}.cliques", listed(names_after), detail)
    groups_before = [g.name for g in old.pod_clique_scaling_groups]
    groups_after = [g.name for g in new.pod_clique_scaling_groups]
    yield from _same_names(f"{at}.podCliqueScalingGroups", "groups", groups_before, groups_after)


def _same_names(at: str, what: str, old: list[str], new: list[str]) -> Iterator[FieldError]:
    if sorted(old) != sorted(new):
        detail = f"{what} are never added, removed or renamed (here: {listed(old) or 'none'}): make a new set"
        yield forbidden(at, detail)


def _clique_changes(old: SetTemplate, new: SetTemplate) -> Iterator[FieldError]:
    before: dict[str, CliqueTemplate] = {clique.name: clique for clique in old.cliques}
    for i, clique in enumerate(new.cliques):
        if clique.name not in before:
            continue
        then, at = before[clique.name], f"spec.template.cliques[{i}]"
        yield from _fixed(f"{at}.spec.roleName", then.role_name, clique.role_name)
        yield from _fixed(f"{at}.spec.minAvailable", then.spec.min_available, clique.spec.min_available)
        yield from _fixed(f"{at}.spec.startsAfter", then.spec.starts_after, clique.spec.starts_after)
        scheduler_then = then.spec.pod_spec.get("schedulerName") or ""
        scheduler_now = clique.spec.pod_spec.get("schedulerName") or ""
        yield from _fixed(f"{at}.spec.podSpec.schedulerName", scheduler_then, scheduler_now)
        yield from _fixed(f"{at}.resourceSharing", then.resource_sharing, clique.resource_sharing)


def _group_changes(old: SetTemplate, new: SetTemplate) -> Iterator[FieldError]:
    before: dict[str, GroupConfig] = {group.name: group for group in old.pod_clique_scaling_groups}
    for i, group in enumerate(new.pod_clique_scaling_groups):
        if group.name not in before:
            continue
        then, at = before[group.name], f"spec.template.podCliqueScalingGroups[{i}]"
        yield from _fixed(f"{at}.cliqueNames", then.clique_names, group.clique_names)
        yield from _fixed(f"{at}.minAvailable", then.min_available, group.min_available)
        yield from _fixed(f"{at}.resourceSharing", then.resource_sharing, group.resource_sharing)


def _fixed(path: str, old: Any, new: Any) -> Iterator[FieldError]:
    if old != new:
        yield invalid(path, _plain(new), _IMMUTABLE)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [item if isinstance(item, str) else to_wire(item) for item in value]
    return value
