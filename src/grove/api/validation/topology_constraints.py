"""Validate topology constraints of set, groups and cliques: names, domains, and that outer domains are broader."""

from collections.abc import Iterator, Mapping

import msgspec

from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.podcliqueset import SetTemplate, TopologyConstraint
from grove.api.validation.field_errors import IMMUTABLE, FieldError, forbidden, invalid, join_names, required
from grove.api.validation.validation_options import FindBinding, ValidationOptions


class ConstraintLevel(msgspec.Struct, frozen=True, kw_only=True):
    """A level of a set and its constraint; `parents` are the levels that contain it, narrowest first."""

    path: str
    constraint: TopologyConstraint | None
    parents: tuple["ConstraintLevel", ...] = ()

    @property
    def topology_name(self) -> str:
        """Return its own topologyName, or that of the nearest parent."""
        levels = (self, *self.parents)
        return next((c.topology_name for level in levels if (c := level.constraint) and c.topology_name), "")


def levels_of(template: SetTemplate) -> dict[str, ConstraintLevel]:
    """Return every level that may have a constraint, by a key that does not depend on the order of lists."""
    whole = ConstraintLevel(path="spec.template.topologyConstraint", constraint=template.topology_constraint)
    levels = {"set": whole}
    for i, group in enumerate(template.pod_clique_scaling_groups):
        path = f"spec.template.podCliqueScalingGroups[{i}].topologyConstraint"
        levels[f"group/{group.name}"] = ConstraintLevel(
            path=path, constraint=group.topology_constraint, parents=(whole,)
        )
    owners = {name: group.name for group in template.pod_clique_scaling_groups for name in group.clique_names}
    for i, clique in enumerate(template.cliques):
        path = f"spec.template.cliques[{i}].topologyConstraint"
        parents = (levels[f"group/{owners[clique.name]}"], whole) if clique.name in owners else (whole,)
        levels[f"clique/{clique.name}"] = ConstraintLevel(
            path=path, constraint=clique.topology_constraint, parents=parents
        )
    return levels


def topology_errors(
    template: SetTemplate, settings: ValidationOptions, find_binding: FindBinding | None
) -> Iterator[FieldError]:
    """Validate the constraints of a new set. Without `find_binding`, the bindings of the cluster are not checked."""
    levels = [level for level in levels_of(template).values() if level.constraint is not None]
    if not settings.is_topology_aware:
        for level in levels:
            yield invalid(
                level.path,
                None,
                (
                    "topology-aware scheduling is disabled: remove the constraint, "
                    "or enable it in the operator configuration"
                ),
            )
        return
    for level in levels:
        yield from _deprecation_errors(level)
        yield from _form_errors(level)
        if not level.topology_name:
            yield required(
                f"{level.path}.topologyName", "write the name of a ClusterTopologyBinding, here or on a parent level"
            )
    names = _names(levels)
    yield from _several_names_errors(levels, names)
    if len(names) == 1 and find_binding is not None:
        yield from _binding_errors(levels, names[0], find_binding(names[0]))


def stored_topology_errors(template: SetTemplate) -> Iterator[FieldError]:
    """Validate what the operator needs of a stored set. Missing names and deprecated fields are allowed."""
    levels = [level for level in levels_of(template).values() if level.constraint is not None]
    for level in levels:
        yield from _form_errors(level)
    yield from _several_names_errors(levels, _names(levels))


def topology_warnings(template: SetTemplate, find_binding: FindBinding | None) -> Iterator[str]:
    ranks: dict[str, Mapping[str, int]] = {}
    for level in levels_of(template).values():
        constraint = level.constraint
        if constraint is None:
            continue
        if constraint.pack_domain:
            yield f"{level.path}.packDomain: deprecated, write pack.required instead"
        name = level.topology_name
        if name not in ranks:
            ranks[name] = _ranks(find_binding(name) if find_binding and name else None)
        preferred, needed = ranks[name].get(constraint.preferred_domain), ranks[name].get(constraint.required_domain)
        if preferred is not None and needed is not None and preferred < needed:
            detail = f"{constraint.preferred_domain} is broader than the required {constraint.required_domain}"
            yield f"{level.path}.pack.preferred: has no effect: {detail}"


def topology_change_errors(old: SetTemplate, new: SetTemplate) -> Iterator[FieldError]:
    """Validate that constraints do not change.

    Two changes are allowed: to replace the deprecated packDomain, and to add its missing topologyName.
    """
    before = levels_of(old)
    for key, level in levels_of(new).items():
        if key not in before or _is_same(before[key].constraint, level.constraint):
            continue
        if not _is_migration(before[key].constraint, level.constraint) and not _is_repair(before[key], level):
            yield forbidden(_changed_path(before[key].constraint, level), IMMUTABLE)


def _changed_path(old: TopologyConstraint | None, level: ConstraintLevel) -> str:
    """Return the path of the deprecated field if both have it with different values, else of the whole constraint."""
    new = level.constraint
    domains = (old.pack_domain if old else "", new.pack_domain if new else "")
    return f"{level.path}.packDomain" if all(domains) and domains[0] != domains[1] else level.path


def is_topology_repaired(old: SetTemplate, new: SetTemplate) -> bool:
    """Return whether the update adds a missing topologyName to a constraint, which is then validated as a new one."""
    before = levels_of(old)
    return any(
        key in before and not _is_same(before[key].constraint, level.constraint) and _is_repair(before[key], level)
        for key, level in levels_of(new).items()
    )


def is_deprecation(error: FieldError) -> bool:
    """Return whether the error is about the deprecated packDomain, which stored sets may keep."""
    return error.path.endswith(".topologyConstraint.packDomain")


def _deprecation_errors(level: ConstraintLevel) -> Iterator[FieldError]:
    if level.constraint is not None and level.constraint.pack_domain:
        yield forbidden(f"{level.path}.packDomain", "deprecated and rejected in new sets: write pack.required")


def _form_errors(level: ConstraintLevel) -> Iterator[FieldError]:
    constraint = level.constraint
    assert constraint is not None
    if constraint.pack is None and not constraint.pack_domain:
        yield required(f"{level.path}.pack", "write pack.required or pack.preferred")
    if constraint.pack is not None and not constraint.pack.required and not constraint.pack.preferred:
        yield invalid(f"{level.path}.pack", {}, "write required, preferred, or both")
    if constraint.pack_domain and constraint.pack is not None and constraint.pack.required:
        detail = "is a deprecated alias of pack.required: write only pack.required"
        yield invalid(f"{level.path}.packDomain", constraint.pack_domain, detail)


def _names(levels: list[ConstraintLevel]) -> list[str]:
    return list(dict.fromkeys(level.topology_name for level in levels if level.topology_name))


def _several_names_errors(levels: list[ConstraintLevel], names: list[str]) -> Iterator[FieldError]:
    for level in _levels_with_name(levels) if len(names) > 1 else ():
        detail = f"all constraints of a set must use one topology, but name {join_names(names)}: choose one"
        yield invalid(f"{level.path}.topologyName", level.topology_name, detail)


def _levels_with_name(levels: list[ConstraintLevel]) -> Iterator[ConstraintLevel]:
    """Return the levels that have a topologyName of their own."""
    return (level for level in levels if level.constraint is not None and level.constraint.topology_name)


def _binding_errors(
    levels: list[ConstraintLevel], name: str, binding: ClusterTopologyBinding | None
) -> Iterator[FieldError]:
    if binding is None:
        for level in _levels_with_name(levels):
            detail = "ClusterTopologyBinding not found: create it, or correct the name"
            yield invalid(f"{level.path}.topologyName", name, detail)
        return
    ranks = _ranks(binding)
    domains = join_names(ranks)
    for level in levels:
        for field, domain in _domains(level):
            if domain not in ranks:
                yield invalid(
                    f"{level.path}.{field}", domain, f'is not a level of topology "{name}": choose one of {domains}'
                )
        for parent in level.parents:
            yield from _nesting_errors(parent, level, ranks)


def _domains(level: ConstraintLevel) -> Iterator[tuple[str, str]]:
    constraint = level.constraint
    assert constraint is not None
    pack = constraint.pack
    fields = (
        ("packDomain", constraint.pack_domain),
        ("pack.required", pack.required if pack else ""),
        ("pack.preferred", pack.preferred if pack else ""),
    )
    return ((field, domain) for field, domain in fields if domain)


def _nesting_errors(parent: ConstraintLevel, child: ConstraintLevel, ranks: Mapping[str, int]) -> Iterator[FieldError]:
    outer, inner = parent.constraint, child.constraint
    if outer is None or inner is None:
        return
    required_field = "pack.required" if outer.pack and outer.pack.required else "packDomain"
    pairs = (
        (required_field, outer.required_domain, inner.required_domain),
        ("pack.preferred", outer.preferred_domain, inner.preferred_domain),
    )
    for field, broad, narrow in pairs:
        outer_rank, inner_rank = ranks.get(broad), ranks.get(narrow)
        if outer_rank is not None and inner_rank is not None and outer_rank > inner_rank:
            detail = f'is narrower than "{narrow}" of {child.path}, which is inside this level: choose a broader domain'
            yield invalid(f"{parent.path}.{field}", broad, detail)


def _ranks(binding: ClusterTopologyBinding | None) -> Mapping[str, int]:
    """Return the position of every domain, from broad to narrow."""
    ranks: dict[str, int] = {}
    for i, level in enumerate(binding.spec.levels if binding else ()):
        ranks.setdefault(level.domain, i)
    return ranks


def _is_same(old: TopologyConstraint | None, new: TopologyConstraint | None) -> bool:
    if old is None or new is None:
        return old is new
    return _fields_of(old) == _fields_of(new)


def _fields_of(constraint: TopologyConstraint) -> tuple[str, str, str, str]:
    return (
        constraint.topology_name,
        constraint.pack_domain,
        constraint.required_domain,
        constraint.preferred_domain,
    )


def _is_migration(old: TopologyConstraint | None, new: TopologyConstraint | None) -> bool:
    if old is None or new is None or not old.pack_domain or new.pack_domain:
        return False
    before = (old.topology_name, old.required_domain, old.preferred_domain)
    return before == (new.topology_name, new.required_domain, new.preferred_domain)


def _is_repair(old: ConstraintLevel, new: ConstraintLevel) -> bool:
    if old.constraint is None or new.constraint is None or not old.constraint.pack_domain or old.topology_name:
        return False
    return _fields_of(new.constraint)[1:] == _fields_of(old.constraint)[1:]
