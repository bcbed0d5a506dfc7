"""Lookups for admission: read from the API server what a response depends on besides the object itself.

`policy.py` is pure and asks functions; here is known what it will ask. "Not found" is an answer; every other failure is
an `ApiError`, and then nobody knows what the answer would be.
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
from grove.api.validation.schema import read
from grove.api.validation.syntax import dns_label_complaint, dns_subdomain_complaint
from grove.api.validation.validation_options import FindBinding, ValidationOptions
from grove.backends.queues import QueueAsk
from grove.kube.api_errors import ApiError

T = TypeVar("T", bound=HasMetadata)

# A good set names one topology. One that names many is refused for that, whatever those are.
_MOST_TOPOLOGIES = 4
_OWNERS: tuple[Resource[Any], ...] = (PODCLIQUESETS, GROUPS, PODCLIQUES, PODGANGS)
# A clique, its group, its set; owners that own each other in a circle are not followed.
DEEPEST_OWNERS = 3


class Reader(Protocol):
    """What of a client is needed here."""

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T: ...


class Whole(WireStruct):
    """An object with everything that rules look at."""

    metadata: ObjectMeta
    spec: JsonObject = {}
    status: JsonObject = {}


async def lookup_for(client: Reader, request: AdmissionRequest, settings: ValidationOptions) -> AdmissionLookups:
    """Answers to all that the review of this request may ask."""
    match request.plural:
        case PODCLIQUESETS.plural:
            return await _set_lookup(client, request, settings)
        case PODCLIQUES.plural | GROUPS.plural if _changes_spec(request):
            return await _owner_lookup(client, request)
        case _:
            return AdmissionLookups()


async def find(client: Reader, resource: Resource[T], namespace: str, name: str) -> T | None:
    """None: there is none. Names come out of bodies that nobody has judged yet, and are made part of a path here."""
    if dns_subdomain_complaint(name) or (namespace and dns_label_complaint(namespace)):
        return None
    try:
        return await client.get(resource, namespace, name)
    except ApiError as error:
        if error.is_not_found:
            return None
        raise


async def find_whole(client: Reader, resource: Resource[Any], namespace: str, name: str) -> JsonObject | None:
    """An object as JSON, as rules read it."""
    found = await find(client, resource.viewed_as(Whole), namespace, name)
    if found is None:
        return None
    return {"apiVersion": resource.api_version, "kind": resource.kind, **to_wire(found)}


async def _set_lookup(client: Reader, request: AdmissionRequest, settings: ValidationOptions) -> AdmissionLookups:
    topology, queue = await _topology_lookup(client, request), await _queue_lookup(client, request, settings)
    return AdmissionLookups(topology_binding=topology, queue=queue)


async def _queue_lookup(client: Reader, request: AdmissionRequest, settings: ValidationOptions) -> FindQueue:
    """The queue that the set asks for now. A kind that is not served has no objects: that is "not found" too."""
    found: dict[str, SchedulerObject | None] = {}
    ask = _queue_ask(request.object, settings)
    if ask is not None and ask != _queue_ask(request.old, settings):
        found[ask.queue] = await find(client, ask.resource, "", ask.queue)
    return lambda asked: found.get(asked.queue)


def _queue_ask(pcs: JsonObject | None, settings: ValidationOptions) -> QueueAsk | None:
    read_set = None if pcs is None else read(PODCLIQUESETS, default_podcliqueset(pcs)).object
    return None if read_set is None else queue_of(read_set, settings)


async def _topology_lookup(client: Reader, request: AdmissionRequest) -> FindBinding:
    names = dict.fromkeys((*_topology_names(request.object), *_topology_names(request.old)))
    bindings: dict[str, ClusterTopologyBinding | None] = {}
    for name in list(names)[:_MOST_TOPOLOGIES]:
        bindings[name] = await find(client, TOPOLOGY_BINDINGS, "", name)
    return bindings.get


def _topology_names(pcs: JsonObject | None) -> list[str]:
    """Wherever a set names a topology: on itself, on groups, on cliques."""
    template = _object(_object(_object(pcs).get("spec")).get("template"))
    levels = [template, *_objects(template.get("podCliqueScalingGroups")), *_objects(template.get("cliques"))]
    names = [_object(level.get("topologyConstraint")).get("topologyName") for level in levels]
    return [name for name in names if isinstance(name, str) and name]


def _changes_spec(request: AdmissionRequest) -> bool:
    return request.old is not None and request.old.get("spec") != _object(request.object).get("spec")


async def _owner_lookup(client: Reader, request: AdmissionRequest) -> AdmissionLookups:
    """The set of a clique or group, found through its controller: the set itself, or the group above a clique."""
    child = _controller_of(_object(request.old))
    pcs = None if child is None else await set_above(client, request.namespace, child)

    def owner_set(namespace: str, owner: OwnerReference) -> PodCliqueSet | None:
        return pcs if child is not None and (namespace, owner.uid) == (request.namespace, child.uid) else None

    return AdmissionLookups(owner_set=owner_set)


def _controller_of(json: JsonObject) -> OwnerReference | None:
    """The controller of an object."""
    for owner in _objects(_object(json.get("metadata")).get("ownerReferences")):
        version, kind, name, uid = (owner.get(key) for key in ("apiVersion", "kind", "name", "uid"))
        if owner.get("controller") is True and isinstance(name, str):
            return OwnerReference(
                api_version=str(version), kind=str(kind), name=name, uid=Uid(str(uid)), controller=True
            )
    return None


async def set_above(client: Reader, namespace: str, owner: OwnerReference) -> PodCliqueSet | None:
    """Return the set that a controller is or belongs to, if every object in between is the one that is named."""
    above: OwnerReference | None = owner
    for _ in range(DEEPEST_OWNERS):
        resource = None if above is None else owner_resource(above)
        found = None if above is None or resource is None else await find(client, resource, namespace, above.name)
        if found is None or above is None or found.metadata.uid != above.uid:
            return None
        if isinstance(found, PodCliqueSet):
            return found
        above = found.metadata.controller_reference
    return None


def owner_resource(owner: OwnerReference) -> Resource[Any] | None:
    """Return which of our kinds a reference names; None for a kind of others."""
    return next((one for one in _OWNERS if (one.group, one.kind) == (owner.group, owner.kind)), None)


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
