"""Validate a ClusterTopologyBinding: every level and every scheduler may appear only once."""

from collections.abc import Iterator, Sequence

from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.validation.field_errors import FieldError, duplicate, invalid
from grove.api.validation.validation_options import ValidationOptions


def topology_binding_errors(binding: ClusterTopologyBinding, settings: ValidationOptions) -> Iterator[FieldError]:
    levels, bindings = binding.spec.levels, binding.spec.scheduler_topology_bindings
    yield from _unique("spec.levels", "domain", [level.domain for level in levels])
    yield from _unique("spec.levels", "key", [level.key for level in levels])
    names = [entry.scheduler_name for entry in bindings]
    yield from _unique("spec.schedulerTopologyBindings", "schedulerName", names)
    for i, name in enumerate(names):
        at = f"spec.schedulerTopologyBindings[{i}].schedulerName"
        if name not in settings.schedulers:
            yield invalid(at, name, f"the scheduler is not enabled: write one of {', '.join(settings.schedulers)}")
        elif name not in settings.topology_schedulers:
            known = ", ".join(settings.topology_schedulers) or "none"
            yield invalid(
                at, name, f"the scheduler has no topology resource (schedulers with one: {known}): remove the entry"
            )


def _unique(at: str, field: str, values: Sequence[str]) -> Iterator[FieldError]:
    first: dict[str, int] = {}
    for i, value in enumerate(values):
        if first.setdefault(value, i) != i:
            yield duplicate(f"{at}[{i}].{field}", value, f"already used at [{first[value]}]: remove one")
