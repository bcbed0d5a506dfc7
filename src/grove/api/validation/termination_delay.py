"""Validate `terminationDelay` of a set and of its groups."""

from collections.abc import Iterator
from datetime import timedelta

from grove.api.types.podcliqueset import PodCliqueSetSpec, WorkloadType
from grove.api.validation.field_errors import FieldError, forbidden, invalid
from grove.api.values.durations import DurationError, parse_duration


def termination_errors(spec: PodCliqueSetSpec) -> Iterator[FieldError]:
    """Validate the delays. Without a delay, gang termination is disabled."""
    is_training = spec.workload_type == WorkloadType.TRAINING
    delay = spec.template.termination_delay
    if delay is not None:
        yield from _delay_errors(delay, is_training, "spec.template.terminationDelay")
    for i, group in enumerate(spec.template.pod_clique_scaling_groups):
        if group.termination_delay is None:
            continue
        at = f"spec.template.podCliqueScalingGroups[{i}].terminationDelay"
        if delay is None:
            yield forbidden(at, "only allowed with spec.template.terminationDelay: set that, or remove this field")
        yield from _delay_errors(group.termination_delay, is_training, at)


def _delay_errors(text: str, is_training: bool, at: str) -> Iterator[FieldError]:
    try:
        delay = parse_duration(text)
    except DurationError as error:
        yield invalid(at, text, str(error))
        return
    if delay < timedelta(0):
        yield invalid(at, text, "must not be negative")
    elif not delay and not is_training:
        yield invalid(
            at, text, "must be greater than 0: write a duration, or remove the field to disable gang termination"
        )
