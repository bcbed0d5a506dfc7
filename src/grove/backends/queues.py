"""Queues of KAI and Volcano: find the queue of a set and check it.

The set names the queue, or all of its cliques name the same one: a gang is in one queue.
"""

from collections.abc import Iterator, Mapping, Sequence

from grove.api.resources import KAI_QUEUES, VOLCANO_QUEUES, Resource
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetSpec
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.field_errors import FieldError, invalid, required
from grove.api.validation.syntax import check_dns_subdomain
from grove.backends.base import ClusterFeatures, Value

KAI_QUEUE = "kai.scheduler/queue"
VOLCANO_QUEUE = "scheduling.grove.io/volcano-queue"
# Volcano creates it.
VOLCANO_DEFAULT_QUEUE = "default"
VOLCANO_OPEN = "Open"


class QueueReference(Value):
    """A label or annotation that names a queue."""

    path: str
    queue: str


class QueueRequest(Value):
    """The queue that a set requests, and the path of the field."""

    resource: Resource[SchedulerObject]
    queue: str
    path: str


# --- KAI -------------------------------------------------------------------------------------------------------------


def kai_queue(labels: Mapping[str, str], annotations: Mapping[str, str], spec: PodCliqueSetSpec) -> QueueRequest | None:
    """Return the queue of a set; None: it names none, and KAI has no default queue."""
    found = next(iter(_kai_references(labels, annotations, spec)), None)
    return None if found is None else QueueRequest(resource=KAI_QUEUES, queue=found.queue, path=found.path)


def kai_queue_errors(
    labels: Mapping[str, str], annotations: Mapping[str, str], spec: PodCliqueSetSpec
) -> Iterator[FieldError]:
    references = _kai_references(labels, annotations, spec)
    if not references:
        yield required(f"metadata.labels[{KAI_QUEUE}]", "kai-scheduler needs a queue: write its name")
    yield from _conflict_errors(references)


def _kai_references(
    labels: Mapping[str, str], annotations: Mapping[str, str], spec: PodCliqueSetSpec
) -> tuple[QueueReference, ...]:
    """Return all references, that of the set first. A label overrides an annotation."""
    places = [("metadata", labels, annotations)]
    places += [(f"spec.template.cliques[{i}]", c.labels, c.annotations) for i, c in enumerate(spec.template.cliques)]
    found = (_kai_reference(path, own_labels, own_annotations) for path, own_labels, own_annotations in places)
    return tuple(reference for reference in found if reference is not None)


def _kai_reference(path: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> QueueReference | None:
    for field, values in (("labels", labels), ("annotations", annotations)):
        queue = values.get(KAI_QUEUE, "").strip()
        if queue:
            return QueueReference(path=f"{path}.{field}[{KAI_QUEUE}]", queue=queue)
    return None


# --- Volcano ---------------------------------------------------------------------------------------------------------


def volcano_queue(annotations: Mapping[str, str], spec: PodCliqueSetSpec) -> QueueRequest:
    references = _volcano_references(annotations, spec)
    found = references[0] if references else QueueReference(path=f"metadata.annotations[{VOLCANO_QUEUE}]", queue="")
    return QueueRequest(resource=VOLCANO_QUEUES, queue=found.queue or VOLCANO_DEFAULT_QUEUE, path=found.path)


def names_volcano_queue(annotations: Mapping[str, str], spec: PodCliqueSetSpec) -> bool:
    """Return whether the set names a queue; otherwise Volcano uses its default."""
    return bool(_volcano_references(annotations, spec))


def volcano_queue_errors(annotations: Mapping[str, str], spec: PodCliqueSetSpec) -> Iterator[FieldError]:
    references = _volcano_references(annotations, spec)
    for reference in references:
        if error_message := check_dns_subdomain(reference.queue):
            yield invalid(reference.path, reference.queue, error_message)
    yield from _conflict_errors(references)
    yield from _missing_queue_errors(annotations, spec, references)


def _volcano_references(annotations: Mapping[str, str], spec: PodCliqueSetSpec) -> tuple[QueueReference, ...]:
    places = [("metadata", annotations)]
    places += [(f"spec.template.cliques[{i}]", clique.annotations) for i, clique in enumerate(spec.template.cliques)]
    return tuple(
        QueueReference(path=f"{path}.annotations[{VOLCANO_QUEUE}]", queue=queue)
        for path, values in places
        if (queue := values.get(VOLCANO_QUEUE, "").strip())
    )


def _missing_queue_errors(
    annotations: Mapping[str, str], spec: PodCliqueSetSpec, references: Sequence[QueueReference]
) -> Iterator[FieldError]:
    """Validate that all cliques name the queue if the set names none: a clique without one would use the default."""
    if not references or annotations.get(VOLCANO_QUEUE, "").strip() or references[0].queue == VOLCANO_DEFAULT_QUEUE:
        return
    for i, clique in enumerate(spec.template.cliques):
        if not clique.annotations.get(VOLCANO_QUEUE, "").strip():
            detail = f'other cliques request queue "{references[0].queue}": write it here too, or once on the set'
            yield required(f"spec.template.cliques[{i}].annotations[{VOLCANO_QUEUE}]", detail)


# --- both ------------------------------------------------------------------------------------------------------------


def _conflict_errors(references: Sequence[QueueReference]) -> Iterator[FieldError]:
    for reference in references[1:]:
        if reference.queue != references[0].queue:
            detail = (
                f'a gang is in one queue, and {references[0].path} requests "{references[0].queue}": write that here'
            )
            yield invalid(reference.path, reference.queue, detail)


def check_queue(request: QueueRequest, found: SchedulerObject | None) -> str:
    """Return why the scheduler would place nothing from this queue; "": the queue is usable."""
    if found is None:
        return f'queue "{request.queue}" not found: create it, or correct {request.path}'
    if request.resource is not VOLCANO_QUEUES:
        return ""
    state = str(found.status.get("state") or "")
    if state == VOLCANO_OPEN:
        return ""
    return f'queue "{request.queue}" is {state or "not open yet"}: open it, or correct {request.path}'


def find_queue(features: ClusterFeatures, request: QueueRequest) -> SchedulerObject | None:
    return features.queues.get(request.resource.full_name, {}).get(request.queue)


def missing_kinds(features: ClusterFeatures, needed: Sequence[Resource[SchedulerObject]], whose: str) -> str:
    """Return which kinds of a scheduler the API server does not serve; "": none is missing."""
    missing = [resource.full_name for resource in needed if resource.full_name in features.missing]
    if not missing:
        return ""
    return f"the API server does not serve {', '.join(missing)}: install {whose}"


def find_queue_request(scheduler: str, pcs: PodCliqueSet) -> QueueRequest | None:
    """Return the queue that a set requests; None: the scheduler has no queues, or the set names none."""
    match scheduler:
        case "kai-scheduler":
            return kai_queue(pcs.metadata.labels, pcs.metadata.annotations, pcs.spec)
        case "volcano":
            return volcano_queue(pcs.metadata.annotations, pcs.spec)
        case _:
            return None
