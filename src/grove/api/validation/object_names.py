"""Validate the names of a set, its cliques and its groups: syntax, collisions, and the length of derived names."""

import re
from collections.abc import Iterator, Sequence

from grove.api.types.podcliqueset import PodCliqueSet, SetTemplate
from grove.api.validation.field_errors import FieldError, duplicate, invalid, required, shorten
from grove.api.validation.syntax import LONGEST_LABEL, annotation_errors, check_dns_label, label_errors

# A pod's host name is set-replica-group-replica-clique-index and may have 63 characters: 45 leave 13 digits.
NAME_BUDGET = 45
_GENERATED_SUFFIX = "xxxxx"
_GROUPS = "spec.template.podCliqueScalingGroups"
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_ANY = "*"


def metadata_errors(pcs: PodCliqueSet) -> Iterator[FieldError]:
    name = _set_name(pcs)
    if not name:
        yield required("metadata.name", "write a name")
    elif error_message := check_dns_label(name):
        yield invalid("metadata.name", name, error_message)
    yield from label_errors(pcs.metadata.labels, "metadata.labels")
    yield from annotation_errors(pcs.metadata.annotations, "metadata.annotations")


def name_errors(pcs: PodCliqueSet) -> Iterator[FieldError]:
    template = pcs.spec.template
    cliques, groups = template.cliques, template.pod_clique_scaling_groups
    yield from _syntax_errors("spec.template.cliques", [clique.name for clique in cliques])
    yield from _unique("spec.template.cliques", "name", [clique.name for clique in cliques])
    yield from _unique("spec.template.cliques", "spec.roleName", [clique.role_name for clique in cliques])
    yield from _syntax_errors(_GROUPS, [group.name for group in groups])
    yield from _unique(_GROUPS, "name", [group.name for group in groups])
    yield from _collision_errors(template)
    yield from _budget_errors(_set_name(pcs), template)


def _set_name(pcs: PodCliqueSet) -> str:
    """Return the name of the set. A name that is not generated yet has a placeholder suffix of the right length."""
    metadata = pcs.metadata
    return metadata.name or (metadata.generate_name and metadata.generate_name + _GENERATED_SUFFIX)


def _syntax_errors(at: str, names: Sequence[str]) -> Iterator[FieldError]:
    for i, name in enumerate(names):
        if not name:
            yield required(f"{at}[{i}].name", "write a name")
        elif error_message := check_dns_label(name):
            yield invalid(f"{at}[{i}].name", name, error_message)


def _unique(at: str, field: str, values: Sequence[str]) -> Iterator[FieldError]:
    first: dict[str, int] = {}
    for i, value in enumerate(values):
        if value and first.setdefault(value, i) != i:
            yield duplicate(f"{at}[{i}].{field}", value, f"already used at [{first[value]}]: choose another")


def _collision_errors(template: SetTemplate) -> Iterator[FieldError]:
    """Validate that no two PodCliques of a set can have the same name: `clique`, or `group-replica-clique`."""
    grouped = frozenset(name for group in template.pod_clique_scaling_groups for name in group.clique_names)
    standalone = _replica_names([clique.name for clique in template.cliques if clique.name not in grouped])
    # Key: name parts with both numbers replaced, and the position of the replica number. Value: the first such group.
    shapes: dict[tuple[tuple[str, ...], int], str] = {}
    for i, group in enumerate(template.pod_clique_scaling_groups):
        for k, clique in enumerate(group.clique_names):
            at = f"{_GROUPS}[{i}].cliqueNames[{k}]"
            clique_name = standalone.get((group.name, clique))
            if clique_name is not None:
                name = shorten(group.name)
                yield invalid(
                    at,
                    clique,
                    f'a clique of group "{name}" would have the same name as clique "{clique_name}": rename one',
                )
            yield from _member_collision_errors(group.name, clique, at, shapes)


def _replica_names(cliques: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return each (group, clique) pair whose replica could have one of these names, with the first such name."""
    found: dict[tuple[str, str], str] = {}
    for name in cliques:
        parts = _parts(name)
        for i in _numbers(parts):
            found.setdefault(("-".join(parts[:i]), "-".join(parts[i + 1 :])), name)
    return found


def _member_collision_errors(
    group: str, clique: str, at: str, shapes: dict[tuple[tuple[str, ...], int], str]
) -> Iterator[FieldError]:
    """Validate that no replica of another member has the same name as a replica of this one.

    Two members collide if they differ only in two parts: where one has its replica number, the other has a fixed
    number. So each member is recorded once for each fixed number that it has, with both parts as wildcards.
    """
    before, after = _parts(group), _parts(clique)
    own = len(before)
    parts = [*before, _ANY, *after] if before and after else []
    other_groups = []
    for fixed in _numbers(parts):
        shape = tuple(_ANY if i == fixed else part for i, part in enumerate(parts))
        other_groups += [shapes[shape, fixed]] if (shape, fixed) in shapes else []
        shapes.setdefault((shape, own), group)
    if other_groups:
        detail = f'cliques of groups "{group}" and "{other_groups[0]}" would have the same names: rename one'
        yield invalid(at, clique, detail)


def _parts(name: str) -> list[str]:
    """Split a name at its hyphens; a name that is too long has no parts, because it is rejected anyway."""
    return name.split("-") if len(name) <= LONGEST_LABEL else []


def _numbers(parts: Sequence[str]) -> list[int]:
    """Return the positions that could be a replica number."""
    return [i for i, part in enumerate(parts) if _NUMBER.fullmatch(part)]


def _budget_errors(set_name: str, template: SetTemplate) -> Iterator[FieldError]:
    places = {clique.name: f"spec.template.cliques[{i}].name" for i, clique in enumerate(template.cliques)}
    members = frozenset(name for group in template.pod_clique_scaling_groups for name in group.clique_names)
    combinations: list[tuple[tuple[str, str], ...]] = [
        ((name, path),) for name, path in places.items() if name not in members
    ]
    for i, group in enumerate(template.pod_clique_scaling_groups):
        group_place = (group.name, f"{_GROUPS}[{i}].name")
        combinations += [(group_place, (name, places[name])) for name in group.clique_names if name in places]
    lengths: dict[tuple[str, str], int] = {}
    for combination in combinations:
        length = len(set_name) + sum(len(name) for name, _ in combination)
        if length > NAME_BUDGET:
            for place in (*combination, (set_name, "metadata.name")):
                lengths[place] = max(length, lengths.get(place, 0))
    for (name, path), length in lengths.items():
        detail = (
            f"the names of set, group and clique together must have at most {NAME_BUDGET} characters, but have {length}"
        )
        yield invalid(path, name, f"{detail}: shorten them")
