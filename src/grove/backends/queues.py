"""Queues of KAI and Volcano: which queue a set names, and what is wrong with it.

A queue is named on the set, or by its cliques if they agree: a gang is in one queue.
"""

from collections.abc import Iterator, Mapping, Sequence

from grove.api.resources import KAI_QUEUES, VOLCANO_QUEUES, Resource
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetSpec
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.field_errors import FieldError, invalid, required
from grove.api.validation.syntax import dns_subdomain_complaint
from grove.backends.base import ClusterFeatures, Value

KAI_QUEUE = "kai.scheduler/queue"
VOLCANO_QUEUE = "scheduling.grove.io/volcano-queue"
# Volcano makes it by itself.
VOLCANO_DEFAULT_QUEUE = "default"
VOLCANO_OPEN = "Open"


class Naming(Value):
    """One place that names a queue."""

    path: str
    queue: str


class QueueAsk(Value):
    """The queue that a set needs, and where it says so."""

    resource: Resource[SchedulerObject]
    queue: str
    path: str


# --- KAI -------------------------------------------------------------------------------------------------------------


def kai_queue(labels: Mapping[str, str], annotations: Mapping[str, str], spec: PodCliqueSetSpec) -> QueueAsk | None:
    """None: the set names none, and KAI has no queue for those."""
    found = next(iter(_kai_namings(labels, annotations, spec)), None)
    return None if found is None else QueueAsk(resource=KAI_QUEUES, queue=found.queue, path=found.path)


def kai_queue_errors(
    labels: Mapping[str, str], annotations: Mapping[str, str], spec: PodCliqueSetSpec
) -> Iterator[FieldError]:
    namings = _kai_namings(labels, annotations, spec)
    if not namings:
        yield required(f"metadata.labels[{KAI_QUEUE}]", "kai-scheduler places nothing without a queue: name one")
    yield from _quarrels(namings)


def _kai_namings(
    labels: Mapping[str, str], annotations: Mapping[str, str], spec: PodCliqueSetSpec
) -> tuple[Naming, ...]:
    """The set's own first. A label counts before an annotation."""
    places = [("metadata", labels, annotations)]
    places += [(f"spec.template.cliques[{i}]", c.labels, c.annotations) for i, c in enumerate(spec.template.cliques)]
    found = (_kai_naming(path, own_labels, own_annotations) for path, own_labels, own_annotations in places)
    return tuple(naming for naming in found if naming is not None)


def _kai_naming(path: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Naming | None:
    for field, values in (("labels", labels), ("annotations", annotations)):
        queue = values.get(KAI_QUEUE, "").strip()
        if queue:
            return Naming(path=f"{path}.{field}[{KAI_QUEUE}]", queue=queue)
    return None


# --- Volcano ---------------------------------------------------------------------------------------------------------


def volcano_queue(annotations: Mapping[str, str], spec: PodCliqueSetSpec) -> QueueAsk:
    namings = _volcano_namings(annotations, spec)
    found = namings[0] if namings else Naming(path=f"metadata.annotations[{VOLCANO_QUEUE}]", queue="")
    return QueueAsk(resource=VOLCANO_QUEUES, queue=found.queue or VOLCANO_DEFAULT_QUEUE, path=found.path)


def names_volcano_queue(annotations: Mapping[str, str], spec: PodCliqueSetSpec) -> bool:
    """Otherwise it gets what Volcano gives to those who ask for none."""
    return bool(_volcano_namings(annotations, spec))


def volcano_queue_errors(annotations: Mapping[str, str], spec: PodCliqueSetSpec) -> Iterator[FieldError]:
    namings = _volcano_namings(annotations, spec)
    for naming in namings:
        if error_message := dns_subdomain_complaint(naming.queue):
            yield invalid(naming.path, naming.queue, error_message)
    yield from _quarrels(namings)
    yield from _silent_cliques(annotations, spec, namings)


def _volcano_namings(annotations: Mapping[str, str], spec: PodCliqueSetSpec) -> tuple[Naming, ...]:
    places = [("metadata", annotations)]
    places += [(f"spec.template.cliques[{i}]", clique.annotations) for i, clique in enumerate(spec.template.cliques)]
    return tuple(
        Naming(path=f"{path}.annotations[{VOLCANO_QUEUE}]", queue=queue)
        for path, values in places
        if (queue := values.get(VOLCANO_QUEUE, "").strip())
    )


def _silent_cliques(
    annotations: Mapping[str, str], spec: PodCliqueSetSpec, namings: Sequence[Naming]
) -> Iterator[FieldError]:
    """Where the set names none, a clique without a name asks for the default queue."""
    if not namings or annotations.get(VOLCANO_QUEUE, "").strip() or namings[0].queue == VOLCANO_DEFAULT_QUEUE:
        return
    for i, clique in enumerate(spec.template.cliques):
        if not clique.annotations.get(VOLCANO_QUEUE, "").strip():
            detail = f'other cliques ask for queue "{namings[0].queue}": name it here too, or once on the set'
            yield required(f"spec.template.cliques[{i}].annotations[{VOLCANO_QUEUE}]", detail)


# --- both ------------------------------------------------------------------------------------------------------------


def _quarrels(namings: Sequence[Naming]) -> Iterator[FieldError]:
    for naming in namings[1:]:
        if naming.queue != namings[0].queue:
            detail = f'a gang is in one queue, and {namings[0].path} asks for "{namings[0].queue}": write that here'
            yield invalid(naming.path, naming.queue, detail)


def queue_complaint(ask: QueueAsk, found: SchedulerObject | None) -> str:
    """Why nothing would be placed from this queue; "": nothing is known against it."""
    if found is None:
        return f'there is no queue "{ask.queue}": create it, or correct {ask.path}'
    if ask.resource is not VOLCANO_QUEUES:
        return ""
    state = str(found.status.get("state") or "")
    if state == VOLCANO_OPEN:
        return ""
    return f'queue "{ask.queue}" is {state or "not open yet"}: open it, or correct {ask.path}'


def queue_on(surface: ClusterFeatures, ask: QueueAsk) -> SchedulerObject | None:
    return surface.queues.get(ask.resource.full_name, {}).get(ask.queue)


def missing_kinds(surface: ClusterFeatures, needed: Sequence[Resource[SchedulerObject]], whose: str) -> str:
    """Which of the kinds that a scheduler brings is not served; "": none."""
    missing = [resource.full_name for resource in needed if resource.full_name in surface.missing]
    if not missing:
        return ""
    return f"the API server does not serve {', '.join(missing)}: install {whose}"


def queue_asked(scheduler: str, pcs: PodCliqueSet) -> QueueAsk | None:
    """The queue that a set needs there; None: the scheduler has no queues, or the set names none."""
    match scheduler:
        case "kai-scheduler":
            return kai_queue(pcs.metadata.labels, pcs.metadata.annotations, pcs.spec)
        case "volcano":
            return volcano_queue(pcs.metadata.annotations, pcs.spec)
        case _:
            return None
