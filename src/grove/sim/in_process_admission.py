"""Admission of an embedded cluster: Grove's review, with lookups in the cluster's own store."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from grove.admission.lookups import DEEPEST_OWNERS, next_owner, owner_resource
from grove.admission.policy import DEFAULT_SETTINGS, AdmissionLookups, review
from grove.api.resources import KAI_QUEUES, TOPOLOGY_BINDINGS, VOLCANO_QUEUES, Resource
from grove.api.types.admission import AdmissionControl, AdmissionRequest, AdmissionResult
from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.meta import HasMetadata, OwnerReference
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.validation_options import ValidationOptions
from grove.backends.queues import QueueRequest
from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.cluster.storage.store import Storage, Table

T = TypeVar("T", bound=HasMetadata)


def admission_of(find_store: Callable[[], Storage], settings: ValidationOptions = DEFAULT_SETTINGS) -> AdmissionControl:
    """Return the admission of the server that owns the store. The store is looked up later."""
    return partial(_review, find_store, settings)


def _review(
    find_store: Callable[[], Storage], settings: ValidationOptions, request: AdmissionRequest
) -> AdmissionResult:
    store = find_store()
    lookup = AdmissionLookups(
        topology_binding=partial(_topology_binding, store),
        owner_set=partial(_owner_set, store),
        # Without the CRDs of a scheduler, its queues are unknown.
        queue=partial(_queue, store) if any(map(_is_of_queues, store.tables())) else None,
    )
    return review(request, lookup, settings)


def _topology_binding(store: Storage, name: str) -> ClusterTopologyBinding | None:
    return _find(store, TOPOLOGY_BINDINGS, "", name)


def _is_of_queues(table: Table) -> bool:
    return table.resource_info.qualified in (KAI_QUEUES.full_name, VOLCANO_QUEUES.full_name)


def _queue(store: Storage, request: QueueRequest) -> SchedulerObject | None:
    kind = request.resource.full_name
    table = next((table for table in store.tables() if table.resource_info.qualified == kind), None)
    entry = None if table is None else table.find("", request.queue)
    return None if entry is None else msgspec.json.decode(entry.data, type=SchedulerObject)


def _owner_set(store: Storage, namespace: str, owner: OwnerReference) -> PodCliqueSet | None:
    """Return the set itself, or the one above the group."""
    above = owner
    for _ in range(DEEPEST_OWNERS):
        resource = owner_resource(above)
        step = next_owner(above, None if resource is None else _find(store, resource, namespace, above.name))
        if not isinstance(step, OwnerReference):
            return step
        above = step
    return None


def _find(store: Storage, resource: Resource[T], namespace: str, name: str) -> T | None:
    entry = store.table(BY_QUALIFIED[f"{resource.plural}.{resource.group}"]).find(namespace, name)
    return None if entry is None else msgspec.json.decode(entry.data, type=resource.view)
