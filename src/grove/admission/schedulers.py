"""Scheduler checks of a set: the rules of its backend, and whether its queue exists.

A queue may be deleted after a set was admitted; then the set waits and reports it. Only a newly requested queue is
checked, so that a queue never blocks another change.
"""

from collections.abc import Callable, Iterator

from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.field_errors import FieldError, invalid
from grove.api.validation.podcliqueset import ordered_like
from grove.api.validation.ratcheting import new_errors
from grove.api.validation.validation_options import ValidationOptions
from grove.backends.queues import QueueRequest, check_queue, find_queue_request
from grove.backends.registry import Backends
from grove.backends.volcano import VOLCANO, best_effort_cliques, describe_best_effort

FindQueue = Callable[[QueueRequest], SchedulerObject | None]


def scheduler_errors(
    old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions, find_queue: FindQueue | None
) -> tuple[FieldError, ...]:
    """Return the errors that the write adds; old errors may stay."""
    before = () if old is None else _rules(ordered_like(old, new), settings)
    errors = new_errors(_rules(new, settings), before)
    return errors or tuple(_closed_queue_errors(old, new, settings, find_queue))


def scheduler_warnings(
    old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions, find_queue: FindQueue | None
) -> Iterator[str]:
    """Return warnings for what is allowed but does not work as requested."""
    yield from _best_effort_warnings(old, new, settings)
    yield from _missing_queue_warnings(old, new, settings, find_queue)


def _best_effort_warnings(old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions) -> Iterator[str]:
    if scheduler_of(new, settings) != VOLCANO or VOLCANO not in settings.schedulers:
        return
    was_volcano = old is not None and scheduler_of(old, settings) == VOLCANO
    before = best_effort_cliques(old.spec) if old is not None and was_volcano else ()
    cliques = best_effort_cliques(new.spec)
    if not set(cliques) <= set(before):
        yield f"spec.template.cliques: {describe_best_effort(cliques)}"


def _missing_queue_warnings(
    old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions, find_queue: FindQueue | None
) -> Iterator[str]:
    """Warn about a missing queue of KAI, which may be created later."""
    queue_request = _new_queue(old, new, settings)
    if queue_request is None or find_queue is None or scheduler_of(new, settings) == VOLCANO:
        return
    if error_message := check_queue(queue_request, find_queue(queue_request)):
        yield f"{queue_request.path}: {error_message}; no pod is created before that"


def queue_of(pcs: PodCliqueSet, settings: ValidationOptions) -> QueueRequest | None:
    scheduler = scheduler_of(pcs, settings)
    return find_queue_request(scheduler, pcs) if scheduler in settings.schedulers else None


def scheduler_of(pcs: PodCliqueSet, settings: ValidationOptions) -> str:
    return _backends(settings).name_for(pcs.spec)


def _rules(pcs: PodCliqueSet, settings: ValidationOptions) -> tuple[FieldError, ...]:
    backends = _backends(settings)
    return tuple(backends.get(backends.name_for(pcs.spec)).errors(pcs))


def _closed_queue_errors(
    old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions, find_queue: FindQueue | None
) -> Iterator[FieldError]:
    """Reject a queue that is not open: Volcano rejects PodGroups of such a queue."""
    queue_request = _new_queue(old, new, settings)
    if queue_request is None or find_queue is None or scheduler_of(new, settings) != VOLCANO:
        return
    if error_message := check_queue(queue_request, find_queue(queue_request)):
        yield invalid(queue_request.path, queue_request.queue, error_message)


def _new_queue(old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions) -> QueueRequest | None:
    """Return the queue of the set if the old set had another one or none."""
    queue_request = queue_of(new, settings)
    before = None if old is None else queue_of(old, settings)
    return (
        None if queue_request is None or (before is not None and before.queue == queue_request.queue) else queue_request
    )


def _backends(settings: ValidationOptions) -> Backends:
    return Backends(enabled=settings.schedulers, default=settings.default_scheduler)
