"""Lookups for admission: read from the API server what a response depends on besides the object itself.

`policy.py` is pure; this module reads all that it may need. "Not found" is a result; every other failure is
an `ApiError`: then there is no response.
"""

from typing import Any, Protocol, TypeVar

from grove.admission.policy import AdmissionLookups
from grove.admission.schedulers import FindQueue, queue_of
from grove.api.defaulting import default_podcliqueset
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, TOPOLOGY_BINDINGS, Resource
from grove.api.types.admission import AdmissionRequest
from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.meta import HasMetadata, JsonObject, ObjectMeta, OwnerReference, Uid, WireStruct, to_wire
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.schema import decode_object
from grove.api.validation.syntax import check_dns_label, check_dns_subdomain
from grove.api.validation.validation_options import FindBinding, ValidationOptions
from grove.backends.queues import QueueRequest
from grove.kube.api_errors import ApiError

T = TypeVar("T", bound=HasMetadata)

# A valid set names one topology; a set that names several is rejected in any case.
_MOST_TOPOLOGIES = 4
_OWNERS: tuple[Resource[Any], ...] = (PODCLIQUESETS, GROUPS, PODCLIQUES, PODGANGS)
# A clique, its group, its set. The limit ends a cycle of owners.
DEEPEST_OWNERS = 3


class Reader(Protocol):
    """The part of a client that lookups need."""

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T: ...


class UntypedObject(WireStruct):
    """An object with all fields that rules use."""

    metadata: ObjectMeta
    spec: JsonObject = {}
    status: JsonObject = {}


async def lookup_for(client: Reader, request: AdmissionRequest, settings: ValidationOptions) -> AdmissionLookups:
    """Read all that the review of this request may need."""
    match request.plural:
        case PODCLIQUESETS.plural:
            return await _set_lookup(client, request, settings)
        case PODCLIQUES.plural | GROUPS.plural if _changes_spec(request):
            return await _owner_lookup(client, request)
        case _:
            return AdmissionLookups()


async def find(client: Reader, resource: Resource[T], namespace: str, name: str) -> T | None:
    """Return the object, or None if it does not exist or its name is invalid: validation has not run yet."""
    if check_dns_subdomain(name) or (namespace and check_dns_label(namespace)):
        return None
    try:
        return await client.get(resource, namespace, name)
    except ApiError as error:
        if error.is_not_found:
            return None
        raise


async def find_as_json(client: Reader, resource: Resource[Any], namespace: str, name: str) -> JsonObject | None:
    """Return an object as JSON with its apiVersion and kind, or None if it does not exist."""
    found = await find(client, resource.viewed_as(UntypedObject), namespace, name)
    if found is None:
        return None
    return {"apiVersion": resource.api_version, "kind": resource.kind, **to_wire(found)}


async def _set_lookup(client: Reader, request: AdmissionRequest, settings: ValidationOptions) -> AdmissionLookups:
    topology, queue = await _topology_lookup(client, request), await _queue_lookup(client, request, settings)
    return AdmissionLookups(topology_binding=topology, queue=queue)


async def _queue_lookup(client: Reader, request: AdmissionRequest, settings: ValidationOptions) -> FindQueue:
    """Read the queue that the set newly requests. A kind that is not served counts as "not found"."""
    found: dict[str, SchedulerObject | None] = {}
    queue_request = _queue_request(request.object, settings)
    if queue_request is not None and queue_request != _queue_request(request.old, settings):
        found[queue_request.queue] = await find(client, queue_request.resource, "", queue_request.queue)
    return lambda request: found.get(request.queue)


def _queue_request(pcs: JsonObject | None, settings: ValidationOptions) -> QueueRequest | None:
    read_set = None if pcs is None else decode_object(PODCLIQUESETS, default_podcliqueset(pcs)).object
    return None if read_set is None else queue_of(read_set, settings)


async def _topology_lookup(client: Reader, request: AdmissionRequest) -> FindBinding:
    names = dict.fromkeys((*_topology_names(request.object), *_topology_names(request.old)))
    bindings: dict[str, ClusterTopologyBinding | None] = {}
    for name in list(names)[:_MOST_TOPOLOGIES]:
        bindings[name] = await find(client, TOPOLOGY_BINDINGS, "", name)
    return bindings.get


def _topology_names(pcs: JsonObject | None) -> list[str]:
    """Return the topologies that a set names on itself, its groups and its cliques."""
    template = _object(_object(_object(pcs).get("spec")).get("template"))
    levels = [template, *_objects(template.get("podCliqueScalingGroups")), *_objects(template.get("cliques"))]
    names = [_object(level.get("topologyConstraint")).get("topologyName") for level in levels]
    return [name for name in names if isinstance(name, str) and name]


def _changes_spec(request: AdmissionRequest) -> bool:
    return request.old is not None and request.old.get("spec") != _object(request.object).get("spec")


async def _owner_lookup(client: Reader, request: AdmissionRequest) -> AdmissionLookups:
    """Find the set of a clique or group through its controller."""
    child = _controller_of(_object(request.old))
    pcs = None if child is None else await find_owner_set(client, request.namespace, child)

    def owner_set(namespace: str, owner: OwnerReference) -> PodCliqueSet | None:
        return pcs if child is not None and (namespace, owner.uid) == (request.namespace, child.uid) else None

    return AdmissionLookups(owner_set=owner_set)


def _controller_of(json: JsonObject) -> OwnerReference | None:
    """Return the controller reference of an object."""
    for owner in _objects(_object(json.get("metadata")).get("ownerReferences")):
        version, kind, name, uid = (owner.get(key) for key in ("apiVersion", "kind", "name", "uid"))
        if owner.get("controller") is True and isinstance(name, str):
            return OwnerReference(
                api_version=str(version), kind=str(kind), name=name, uid=Uid(str(uid)), controller=True
            )
    return None


async def find_owner_set(client: Reader, namespace: str, owner: OwnerReference) -> PodCliqueSet | None:
    """Return the set that a controller is or belongs to, if every uid on the way matches."""
    above = owner
    for _ in range(DEEPEST_OWNERS):
        resource = owner_resource(above)
        found = None if resource is None else await find(client, resource, namespace, above.name)
        step = next_owner(above, found)
        if not isinstance(step, OwnerReference):
            return step
        above = step
    return None


def next_owner(owner: OwnerReference, found: HasMetadata | None) -> PodCliqueSet | OwnerReference | None:
    """Return the set, or the next owner to look up. None if `found` is not the owner, or has no controller."""
    if found is None or found.metadata.uid != owner.uid:
        return None
    return found if isinstance(found, PodCliqueSet) else found.metadata.controller_reference


def owner_resource(owner: OwnerReference) -> Resource[Any] | None:
    """Return the kind of Grove that a reference names; None for other kinds."""
    return next((one for one in _OWNERS if (one.group, one.kind) == (owner.group, owner.kind)), None)


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
