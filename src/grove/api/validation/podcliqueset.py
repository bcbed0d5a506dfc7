"""The rules of a PodCliqueSet: the table of contents. Each theme has its own file beside this one."""

from collections.abc import Iterator

import msgspec

from grove.api.fielderrors import FieldError, invalid
from grove.api.podcliqueset import PodCliqueSet, SetTemplate
from grove.api.validation.changes import change_errors
from grove.api.validation.cliques import clique_errors
from grove.api.validation.groups import group_errors
from grove.api.validation.mnnvl import mnnvl_errors
from grove.api.validation.names import metadata_errors, name_errors
from grove.api.validation.ratchet import new_errors
from grove.api.validation.settings import FindBinding, Settings
from grove.api.validation.sharing import sharing_errors
from grove.api.validation.size import size_errors
from grove.api.validation.startup import startup_errors
from grove.api.validation.termination import termination_errors
from grove.api.validation.topology import (
    is_deprecation,
    is_topology_repaired,
    stored_topology_errors,
    topology_errors,
)
from grove.api.validation.training import training_errors


def validate_podcliqueset(
    pcs: PodCliqueSet, settings: Settings, find_binding: FindBinding | None = None
) -> tuple[FieldError, ...]:
    """Everything that is wrong with a new, defaulted set."""
    topology = topology_errors(pcs.spec.template, settings, find_binding)
    return tuple(_errors(pcs, settings, topology))


def validate_stored_podcliqueset(pcs: PodCliqueSet, settings: Settings) -> tuple[FieldError, ...]:
    """Everything that keeps a defaulted set, which came past admission or is older, from being carried out."""
    return tuple(_errors(pcs, settings, stored_topology_errors(pcs.spec.template)))


def validate_podcliqueset_update(
    old: PodCliqueSet, new: PodCliqueSet, settings: Settings, find_binding: FindBinding | None = None
) -> tuple[FieldError, ...]:
    """Everything that the update makes wrong; what was already wrong may stay."""
    after = validate_podcliqueset(new, settings, find_binding)
    before = _known_errors(ordered_like(old, new), new, settings, find_binding) if after else ()
    return new_errors(after, before) + tuple(change_errors(old, new))


def _known_errors(
    old: PodCliqueSet, new: PodCliqueSet, settings: Settings, find_binding: FindBinding | None
) -> tuple[FieldError, ...]:
    """What may stay wrong: all that was, but of a topology that is only named now nothing but its deprecated form."""
    before = validate_podcliqueset(old, settings, find_binding)
    if not is_topology_repaired(old.spec.template, new.spec.template):
        return before
    topology = tuple(topology_errors(old.spec.template, settings, find_binding))
    return tuple(error for error in before if error not in topology or is_deprecation(error))


def _errors(pcs: PodCliqueSet, settings: Settings, topology: Iterator[FieldError]) -> Iterator[FieldError]:
    template = pcs.spec.template
    yield from metadata_errors(pcs)
    if pcs.spec.replicas < 0:
        yield invalid("spec.replicas", pcs.spec.replicas, "must be at least 0")
    yield from size_errors(pcs)
    yield from name_errors(pcs)
    yield from clique_errors(template, settings)
    yield from group_errors(template)
    yield from startup_errors(template)
    yield from sharing_errors(template)
    yield from topology
    yield from termination_errors(pcs.spec)
    yield from training_errors(pcs.spec)
    yield from mnnvl_errors(pcs, settings)


def ordered_like(old: PodCliqueSet, new: PodCliqueSet) -> PodCliqueSet:
    """The old set with its lists in the new order, so that the same error stands at the same path."""
    cliques = [clique.name for clique in new.spec.template.cliques]
    groups = [group.name for group in new.spec.template.pod_clique_scaling_groups]
    template: SetTemplate = msgspec.structs.replace(
        old.spec.template,
        cliques=tuple(sorted(old.spec.template.cliques, key=lambda c: _place(c.name, cliques))),
        pod_clique_scaling_groups=tuple(
            sorted(old.spec.template.pod_clique_scaling_groups, key=lambda g: _place(g.name, groups))
        ),
    )
    return msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, template=template))


def _place(name: str, names: list[str]) -> int:
    return names.index(name) if name in names else len(names)
