"""Validate the annotation that puts cliques into one NVLink domain: its value, and that it is immutable."""

from collections.abc import Iterator, Mapping

from grove.api.labels import MNNVL_GROUP
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.validation.field_errors import FieldError, forbidden, invalid
from grove.api.validation.syntax import check_dns_label
from grove.api.validation.validation_options import ValidationOptions

NO_GROUP = "none"


def mnnvl_errors(pcs: PodCliqueSet, settings: ValidationOptions) -> Iterator[FieldError]:
    for path, value in _values(pcs).values():
        if value is None or value == NO_GROUP:
            continue
        if error_message := check_dns_label(value):
            yield invalid(path, value, f'{error_message}, or be "{NO_GROUP}"')
        if not settings.is_mnnvl_enabled:
            yield invalid(path, value, f'multi-node NVLink is disabled: remove the annotation, or write "{NO_GROUP}"')


def mnnvl_change_errors(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    before = _values(old)
    for key, (path, value) in _values(new).items():
        if key not in before or before[key][1] == value:
            continue
        if before[key][1] is None or value is None:
            yield forbidden(path, "the annotation cannot be added or removed later: create a new PodCliqueSet")
        else:
            yield invalid(path, value, f'field is immutable: restore "{before[key][1]}", or create a new PodCliqueSet')


def _values(pcs: PodCliqueSet) -> dict[str, tuple[str, str | None]]:
    """Return path and value of every place where the annotation is allowed."""
    template = pcs.spec.template
    found = {"set": _value(pcs.metadata.annotations, "metadata")}
    for i, clique in enumerate(template.cliques):
        found[f"clique/{clique.name}"] = _value(clique.annotations, f"spec.template.cliques[{i}]")
    for i, group in enumerate(template.pod_clique_scaling_groups):
        found[f"group/{group.name}"] = _value(group.annotations, f"spec.template.podCliqueScalingGroups[{i}]")
    return found


def _value(annotations: Mapping[str, str], at: str) -> tuple[str, str | None]:
    return f"{at}.annotations[{MNNVL_GROUP}]", annotations.get(MNNVL_GROUP)
