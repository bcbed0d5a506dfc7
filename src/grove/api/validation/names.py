"""Names of a set, its cliques and its groups: spelling, and the room they leave for what is built from them."""

import re
from collections.abc import Iterator, Sequence

from grove.api.fielderrors import FieldError, duplicate, invalid, required
from grove.api.podcliqueset import PodCliqueSet, SetTemplate
from grove.api.validation.syntax import annotation_errors, dns_label_complaint, label_errors

# A pod's host name is set-replica-group-replica-clique-index and may have 63 characters: 45 leave 13 digits.
NAME_BUDGET = 45
_GENERATED_SUFFIX = "xxxxx"
_GROUPS = "spec.template.podCliqueScalingGroups"
_NUMBER = r"(?:0|[1-9]\d*)"


def metadata_errors(pcs: PodCliqueSet) -> Iterator[FieldError]:
    name = _set_name(pcs)
    if not name:
        yield required("metadata.name", "name the set")
    elif complaint := dns_label_complaint(name):
        yield invalid("metadata.name", name, complaint)
    yield from label_errors(pcs.metadata.labels, "metadata.labels")
    yield from annotation_errors(pcs.metadata.annotations, "metadata.annotations")


def name_errors(pcs: PodCliqueSet) -> Iterator[FieldError]:
    template = pcs.spec.template
    cliques, groups = template.cliques, template.pod_clique_scaling_groups
    yield from _spelling("spec.template.cliques", [clique.name for clique in cliques])
    yield from _unique("spec.template.cliques", "name", [clique.name for clique in cliques])
    yield from _unique("spec.template.cliques", "spec.roleName", [clique.spec.role_name for clique in cliques])
    yield from _spelling(_GROUPS, [group.name for group in groups])
    yield from _unique(_GROUPS, "name", [group.name for group in groups])
    yield from _collision_errors(template)
    yield from _budget_errors(_set_name(pcs), template)


def _set_name(pcs: PodCliqueSet) -> str:
    """The name; of one that is yet to be generated, only the length is true."""
    metadata = pcs.metadata
    return metadata.name or (metadata.generate_name and metadata.generate_name + _GENERATED_SUFFIX)


def _spelling(at: str, names: Sequence[str]) -> Iterator[FieldError]:
    for i, name in enumerate(names):
        if not name:
            yield required(f"{at}[{i}].name", "name it")
        elif complaint := dns_label_complaint(name):
            yield invalid(f"{at}[{i}].name", name, complaint)


def _unique(at: str, field: str, values: Sequence[str]) -> Iterator[FieldError]:
    for i, value in enumerate(values):
        if value and value in values[:i]:
            yield duplicate(f"{at}[{i}].{field}", value, f"the same stands at [{values.index(value)}]: choose another")


def _collision_errors(template: SetTemplate) -> Iterator[FieldError]:
    """A PodClique is named clique, or group-replica-clique: no two of a set may ever come out the same."""
    grouped = [name for group in template.pod_clique_scaling_groups for name in group.clique_names]
    alone = [clique.name for clique in template.cliques if clique.name not in grouped]
    members = [
        (group.name, name, f"{_GROUPS}[{i}].cliqueNames[{k}]")
        for i, group in enumerate(template.pod_clique_scaling_groups)
        for k, name in enumerate(group.clique_names)
    ]
    for n, (group, clique, at) in enumerate(members):
        rival = next((other for other in alone if _is_replica_of(other, group, clique)), None)
        if rival is not None:
            yield invalid(at, clique, f'a replica of group "{group}" would be named as clique "{rival}": rename one')
        for other_group, other, _ in members[:n]:
            if _may_meet(group, clique, other_group, other):
                detail = f'replicas of groups "{group}" and "{other_group}" would have the same names: rename one'
                yield invalid(at, clique, detail)


def _is_replica_of(name: str, group: str, clique: str) -> bool:
    return re.fullmatch(rf"{re.escape(group)}-{_NUMBER}-{re.escape(clique)}", name) is not None


def _may_meet(group: str, clique: str, other_group: str, other: str) -> bool:
    """Is there a replica of each whose names are the same? Its number must then stand in the other's fixed parts."""
    numbers = [part for part in f"{other_group}-{other}".split("-") if re.fullmatch(_NUMBER, part)]
    return (group, clique) != (other_group, other) and any(
        _is_replica_of(f"{group}-{number}-{clique}", other_group, other) for number in numbers
    )


def _budget_errors(set_name: str, template: SetTemplate) -> Iterator[FieldError]:
    places = {clique.name: f"spec.template.cliques[{i}].name" for i, clique in enumerate(template.cliques)}
    members = [name for group in template.pod_clique_scaling_groups for name in group.clique_names]
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
        detail = f"the names of set, group and clique may have {NAME_BUDGET} characters together, here {length}"
        yield invalid(path, name, f"{detail}: shorten them")
