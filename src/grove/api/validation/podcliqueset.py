"""Validate a PodCliqueSet on create and update. The rules of each topic are in the files beside this one."""

from collections.abc import Iterator
from itertools import chain, islice

import msgspec

from grove.api.types.podcliqueset import PodCliqueSet, SetTemplate
from grove.api.validation.cliques import clique_errors
from grove.api.validation.devices.mnnvl import mnnvl_errors
from grove.api.validation.devices.resource_claims import sharing_errors
from grove.api.validation.field_errors import FieldError, error_keys, invalid
from grove.api.validation.groups import autoscaling_errors, group_errors
from grove.api.validation.immutable_fields import change_errors
from grove.api.validation.object_budget import budget_errors, objects_of_set, size_errors
from grove.api.validation.object_names import metadata_errors, name_errors
from grove.api.validation.ratcheting import new_errors
from grove.api.validation.startup_order import dependency_count_errors, reserved_name_errors, startup_errors
from grove.api.validation.stored_bytes import byte_errors
from grove.api.validation.termination_delay import termination_errors
from grove.api.validation.topology_constraints import (
    is_deprecation,
    is_topology_repaired,
    stored_topology_errors,
    topology_errors,
)
from grove.api.validation.training import training_errors
from grove.api.validation.validation_options import FindBinding, ValidationOptions

# Validation stops here: more errors would not help the user and would cost time.
ENOUGH_ERRORS = 1_000


def validate_podcliqueset(
    pcs: PodCliqueSet, settings: ValidationOptions, find_binding: FindBinding | None = None
) -> tuple[FieldError, ...]:
    """Return the errors of a new, defaulted set, at most `ENOUGH_ERRORS`."""
    errors = chain(_new_set_errors(pcs, settings, find_binding), budget_errors(pcs, settings.objects_per_set))
    return tuple(islice(errors, ENOUGH_ERRORS))


def validate_stored_podcliqueset(pcs: PodCliqueSet, settings: ValidationOptions) -> tuple[FieldError, ...]:
    """Return the errors for which the operator cannot reconcile a stored set, such as one that bypassed admission."""
    errors = _errors(pcs, settings, stored_topology_errors(pcs.spec.template))
    return tuple(islice(errors, ENOUGH_ERRORS))


def validate_podcliqueset_update(
    old: PodCliqueSet, new: PodCliqueSet, settings: ValidationOptions, find_binding: FindBinding | None = None
) -> tuple[FieldError, ...]:
    """Return the errors that an update adds; errors of the old set may stay."""
    # No limit here: a new error may come after a thousand old ones.
    after = tuple(_new_set_errors(new, settings, find_binding))
    before = _tolerated_errors(ordered_like(old, new), new, settings, find_binding) if after else ()
    is_growing = objects_of_set(new).total > objects_of_set(old).total
    budget = budget_errors(new, settings.objects_per_set) if is_growing else ()
    return (*new_errors(after, before), *budget, *change_errors(old, new))


def _tolerated_errors(
    old: PodCliqueSet, new: PodCliqueSet, settings: ValidationOptions, find_binding: FindBinding | None
) -> tuple[FieldError, ...]:
    """Return the errors of the old set that an update may keep.

    If the update adds a missing topologyName, only the deprecation errors of the topology may stay.
    """
    before = tuple(_new_set_errors(old, settings, find_binding))
    if not is_topology_repaired(old.spec.template, new.spec.template):
        return before
    topology = error_keys(topology_errors(old.spec.template, settings, find_binding))
    return tuple(error for error in before if error.key not in topology or is_deprecation(error))


def _new_set_errors(
    pcs: PodCliqueSet, settings: ValidationOptions, find_binding: FindBinding | None
) -> Iterator[FieldError]:
    yield from _errors(pcs, settings, topology_errors(pcs.spec.template, settings, find_binding))
    yield from byte_errors(pcs)
    yield from autoscaling_errors(pcs.spec.template)
    yield from dependency_count_errors(pcs.spec.template)
    yield from reserved_name_errors(pcs.spec.template)


def _errors(pcs: PodCliqueSet, settings: ValidationOptions, topology: Iterator[FieldError]) -> Iterator[FieldError]:
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
    """Return the old set with its lists in the new order, so that the same error has the same path."""
    cliques = _positions([clique.name for clique in new.spec.template.cliques])
    groups = _positions([group.name for group in new.spec.template.pod_clique_scaling_groups])
    template: SetTemplate = msgspec.structs.replace(
        old.spec.template,
        cliques=tuple(sorted(old.spec.template.cliques, key=lambda c: cliques.get(c.name, len(cliques)))),
        pod_clique_scaling_groups=tuple(
            sorted(old.spec.template.pod_clique_scaling_groups, key=lambda g: groups.get(g.name, len(groups)))
        ),
    )
    return msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, template=template))


def _positions(names: list[str]) -> dict[str, int]:
    """Return the first position of each name."""
    return {name: i for i, name in reversed(list(enumerate(names)))}
