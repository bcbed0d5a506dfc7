"""Scheduler checks of a set: the rules of its backend, and whether its queue exists.

A queue may come and go after a set was let in; then the set waits for it, and says so. Here only what a write asks for
anew is judged, so that no queue ever stands in the way of another change.
"""

from collections.abc import Callable, Iterator

from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.field_errors import FieldError, invalid
from grove.api.validation.podcliqueset import ordered_like
from grove.api.validation.ratcheting import new_errors
from grove.api.validation.validation_options import ValidationOptions
from grove.backends.queues import QueueAsk, queue_asked, queue_complaint
from grove.backends.registry import Backends
from grove.backends.volcano import VOLCANO, best_effort_cliques, best_effort_complaint

FindQueue = Callable[[QueueAsk], SchedulerObject | None]


def scheduler_errors(
    old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions, find_queue: FindQueue | None
) -> tuple[FieldError, ...]:
    """What the write makes wrong; what was already wrong may stay."""
    before = () if old is None else _rules(ordered_like(old, new), settings)
    errors = new_errors(_rules(new, settings), before)
    return errors or tuple(_closed_queue(old, new, settings, find_queue))


def scheduler_warnings(
    old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions, find_queue: FindQueue | None
) -> Iterator[str]:
    """What is allowed, and yet will not do what was asked for."""
    yield from _unganged(old, new, settings)
    yield from _missing_queue(old, new, settings, find_queue)


def _unganged(old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions) -> Iterator[str]:
    if scheduler_of(new, settings) != VOLCANO or VOLCANO not in settings.schedulers:
        return
    was_here = old is not None and scheduler_of(old, settings) == VOLCANO
    before = best_effort_cliques(old.spec) if old is not None and was_here else ()
    cliques = best_effort_cliques(new.spec)
    if not set(cliques) <= set(before):
        yield f"spec.template.cliques: {best_effort_complaint(cliques)}"


def _missing_queue(
    old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions, find_queue: FindQueue | None
) -> Iterator[str]:
    """A queue of KAI may be made after the set that uses it."""
    ask = _new_queue(old, new, settings)
    if ask is None or find_queue is None or scheduler_of(new, settings) == VOLCANO:
        return
    if error_message := queue_complaint(ask, find_queue(ask)):
        yield f"{ask.path}: {error_message}; no pod is made before that"


def queue_of(pcs: PodCliqueSet, settings: ValidationOptions) -> QueueAsk | None:
    scheduler = scheduler_of(pcs, settings)
    return queue_asked(scheduler, pcs) if scheduler in settings.schedulers else None


def scheduler_of(pcs: PodCliqueSet, settings: ValidationOptions) -> str:
    return _backends(settings).name_for(pcs.spec)


def _rules(pcs: PodCliqueSet, settings: ValidationOptions) -> tuple[FieldError, ...]:
    backends = _backends(settings)
    return tuple(backends.named(backends.name_for(pcs.spec)).errors(pcs))


def _closed_queue(
    old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions, find_queue: FindQueue | None
) -> Iterator[FieldError]:
    """Volcano refuses PodGroups of a queue that is not open, so whoever asks for one is told at once."""
    ask = _new_queue(old, new, settings)
    if ask is None or find_queue is None or scheduler_of(new, settings) != VOLCANO:
        return
    if error_message := queue_complaint(ask, find_queue(ask)):
        yield invalid(ask.path, ask.queue, error_message)


def _new_queue(old: PodCliqueSet | None, new: PodCliqueSet, settings: ValidationOptions) -> QueueAsk | None:
    """The queue of a set that asked for another one before, or for none."""
    ask = queue_of(new, settings)
    before = None if old is None else queue_of(old, settings)
    return None if ask is None or (before is not None and before.queue == ask.queue) else ask


def _backends(settings: ValidationOptions) -> Backends:
    return Backends(enabled=settings.schedulers, default=settings.default_scheduler)
