"""Validate a PodCliqueScalingGroup that is edited or scaled directly: replicas must be 0 or at least minAvailable."""

from collections.abc import Iterator

from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.validation.field_errors import FieldError, invalid, required
from grove.api.validation.object_budget import count_errors


def scaling_group_errors(group: PodCliqueScalingGroup) -> Iterator[FieldError]:
    replicas, minimum = group.spec.replicas, group.spec.min_available
    yield from count_errors("spec.replicas", replicas)
    if minimum <= 0:
        yield invalid("spec.minAvailable", minimum, "must be greater than 0")
    elif replicas and replicas < minimum:
        yield invalid("spec.replicas", replicas, f"must be 0, or at least minAvailable ({minimum})")
    if not group.spec.clique_names:
        yield required("spec.cliqueNames", "write at least one clique name")
