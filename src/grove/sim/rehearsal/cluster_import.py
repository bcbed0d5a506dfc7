"""Import of a real cluster into a rehearsal, with GET requests only: some sets, and the capacity around them.

Of other pods it keeps only what uses capacity. `sandbox.py` runs the rehearsal.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from grove.api import labels
from grove.api.resources import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    GROUPS,
    NODES,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SERVICES,
    TOPOLOGY_BINDINGS,
    Resource,
)
from grove.api.types.meta import JsonObject, NamespacedName, ObjectMeta, OwnerKey
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.response_decoding import check
from grove.kube.transport import Request, Transport
from grove.planner.explain.text import count_noun, verb

PAGE_SIZE = "500"
# Owners before their dependents.
_CHILDREN: tuple[Resource[Any], ...] = (CONTROLLER_REVISIONS, SERVICES, AUTOSCALERS, GROUPS, PODCLIQUES, PODGANGS)
# The fields of other pods that matter for capacity and pod affinity.
_CAPACITY_METADATA = ("name", "namespace", "uid", "labels", "creationTimestamp")
_CAPACITY_SPEC = ("nodeName", "overhead", "affinity", "priority", "priorityClassName", "restartPolicy")
_CAPACITY_CONTAINER = ("name", "image", "resources", "restartPolicy")
_OVER = ("Succeeded", "Failed")


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment. `notes` describe what could not be read, and what is assumed instead."""

    at: datetime
    objects: tuple[JsonObject, ...]
    # Without nodes everything fits.
    has_nodes: bool = True
    notes: tuple[str, ...] = ()


class RehearsalSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The sets to rehearse, as far as they decide what to read."""

    sets: tuple[NamespacedName, ...]
    # Namespaces that need not exist yet.
    new_namespaces: tuple[str, ...] = ()
    # Priority classes of the new pods; if classes cannot be read, replacements are created.
    classes: tuple[str, ...] = ()


async def observe(transport: Transport, subject: RehearsalSubject, now: datetime) -> Observed:
    """Read the cluster. Raises `UserError` if a namespace does not exist, `ApiError` if the sets cannot be read."""
    sets = subject.sets
    importer = _Importer(transport, sets)
    namespaces = [
        name for name in dict.fromkeys(one.namespace for one in sets) if name not in subject.new_namespaces
    ]  # fmt: skip
    objects = [await importer.namespace(name) for name in namespaces]
    nodes = await importer.nodes()
    objects += nodes or []
    objects += await importer.classes(subject.classes)
    objects += await importer.visible(TOPOLOGY_BINDINGS) or []
    for name in namespaces:
        objects += await importer.quotas(name)
    for one in sets:
        objects += await importer.tree(one)
    objects += await importer.pods(namespaces)
    return Observed(at=now, objects=tuple(objects), has_nodes=nodes is not None, notes=tuple(importer.notes))


class _Importer:
    """One import of a cluster, with notes about what the user may not read."""

    def __init__(self, transport: Transport, sets: Sequence[NamespacedName]) -> None:
        self._transport = transport
        self._sets = tuple((one.namespace, one.name) for one in sets)
        # The owner keys of the sets and of their parts that may own other objects.
        self._owners: set[OwnerKey] = set()
        self.notes: list[str] = []

    async def namespace(self, name: str) -> JsonObject:
        plain: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": f"of-{name}"}}
        try:
            found = await self._get(Request(method="GET", path=f"/api/v1/namespaces/{name}"))
        except ApiError as error:
            if error.is_not_found:
                raise UserError(f"no namespace {name!r}; create it first, or check -n") from error
            if error.code != 403:
                raise
            return plain
        return {**plain, **found}

    async def nodes(self) -> list[JsonObject] | None:
        nodes = await self.visible(NODES)
        if nodes is None:
            self.notes.append("nodes cannot be read: free capacity is unknown, and every pod is assumed to fit")
            return None
        return [_without_images(node) for node in nodes]

    async def classes(self, needed: Iterable[str]) -> list[JsonObject]:
        found = await self.visible(PRIORITY_CLASSES)
        return [_made_up_class(name) for name in needed] if found is None else found

    async def quotas(self, namespace: str) -> list[JsonObject]:
        found = await self.visible(RESOURCE_QUOTAS, namespace)
        if found is None:
            self.notes.append(f"quotas of namespace {namespace} may not be read: none is taken into account")
            return []
        plain = [quota for quota in found if not _is_scoped(quota)]
        if len(plain) < len(found):
            self.notes.append(f"quotas with scopes in namespace {namespace} are not taken into account")
        return plain

    async def tree(self, one: NamespacedName) -> list[JsonObject]:
        """Return the set and all it owns except pods; empty if the set does not exist."""
        try:
            pcs = await self._get(Request(method="GET", path=PODCLIQUESETS.path(one.namespace, one.name)))
        except ApiError as error:
            if not error.is_not_found or "could not find" in error.message:
                raise
            return []
        selector = labels.selector(labels.default_labels(one.name))
        objects, owners = [pcs], {PODCLIQUESETS.owner_key(_metadata(pcs))}
        for resource in _CHILDREN:
            # Labels prove nothing: an object with another controller is not part of the set.
            listed = [child async for child in self._list(resource, one.namespace, selector)]
            children = [child for child in listed if _metadata(child).controller in owners]
            objects += children
            owners |= {resource.owner_key(_metadata(child)) for child in children}
        self._owners |= owners
        return objects

    async def pods(self, namespaces: Sequence[str]) -> list[JsonObject]:
        """Return the pods of the sets whole; of all others, only the capacity that they use."""
        try:
            return await self._pods_everywhere()
        except ApiError as error:
            if error.code != 403:
                raise
        self.notes.append("pods of other namespaces cannot be read: the capacity that they use is not counted")
        return [
            pod if self._is_of_sets(pod) else _reduce_to_capacity(pod)
            for namespace in namespaces
            async for pod in self._list(PODS, namespace)
            if self._is_of_sets(pod) or _uses_capacity(pod)
        ]

    async def _pods_everywhere(self) -> list[JsonObject]:
        kept: list[JsonObject] = []
        waiting = 0
        async for pod in self._list(PODS):
            if self._is_of_sets(pod):
                kept.append(pod)
            elif _uses_capacity(pod):
                kept.append(_reduce_to_capacity(pod))
            elif _is_unschedulable(pod):
                waiting += 1
        if waiting:
            others = f"{count_noun(waiting, 'pod')} of others {verb(waiting, 'waits', 'wait')} for a node"
            self.notes.append(f"{others}, and may use capacity that becomes free meanwhile; this is not simulated")
        return kept

    async def visible(self, resource: Resource[Any], namespace: str = "") -> list[JsonObject] | None:
        """Return the objects, None if the user may not list them."""
        try:
            return [obj async for obj in self._list(resource, namespace)]
        except ApiError as error:
            if error.code == 403:
                return None
            raise

    async def _list(
        self, resource: Resource[Any], namespace: str = "", label_selector: str = ""
    ) -> AsyncIterator[JsonObject]:
        query = {"limit": PAGE_SIZE} | ({"labelSelector": label_selector} if label_selector else {})
        token = ""
        while True:
            more = {**query, "continue": token} if token else query
            page = await self._get(Request(method="GET", path=resource.path(namespace), query=more))
            for item in page.get("items") or ():
                # List items have no kind and apiVersion.
                yield {"apiVersion": resource.api_version, "kind": resource.kind, **_without_managers(item)}
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    async def _get(self, request: Request) -> JsonObject:
        response = await self._transport.send(request)
        check(request, response)
        found: JsonObject = msgspec.json.decode(response.body)
        return _without_managers(found)

    def _is_of_sets(self, pod: JsonObject) -> bool:
        metadata = pod["metadata"]
        pod_labels = metadata.get("labels") or {}
        is_ours = pod_labels.get(labels.MANAGED_BY) == labels.MANAGED_BY_VALUE
        is_named = is_ours and (metadata.get("namespace"), pod_labels.get(labels.PART_OF)) in self._sets
        return is_named and _metadata(pod).controller in self._owners


def _metadata(obj: JsonObject) -> ObjectMeta:
    return msgspec.convert(obj["metadata"], ObjectMeta)


def _without_managers(obj: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _without_images(node: JsonObject) -> JsonObject:
    return {**node, "status": {key: value for key, value in (node.get("status") or {}).items() if key != "images"}}


def _made_up_class(name: str) -> JsonObject:
    return {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": PRIORITY_CLASSES.kind,
        "metadata": {"name": name, "uid": f"of-{name}"},
        "value": 0,
    }


def _is_scoped(quota: JsonObject) -> bool:
    spec = quota.get("spec") or {}
    return bool(spec.get("scopes") or spec.get("scopeSelector"))


def _uses_capacity(pod: JsonObject) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName")) and _phase(pod) not in _OVER


def _is_unschedulable(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return _phase(pod) not in _OVER and any(
        one.get("type") == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions
    )


def _phase(pod: JsonObject) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _reduce_to_capacity(pod: JsonObject) -> JsonObject:
    """Return a pod without owner, with only the fields that matter for capacity and affinity."""
    spec = pod.get("spec") or {}
    containers = {
        field: [_only(_CAPACITY_CONTAINER, one) for one in spec.get(field) or ()]
        for field in ("containers", "initContainers")
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _only(_CAPACITY_METADATA, pod["metadata"]),
        "spec": {**_only(_CAPACITY_SPEC, spec), **containers},
        "status": {"phase": _phase(pod)},
    }


def _only(keys: Iterable[str], found: Mapping[str, object]) -> JsonObject:
    return {key: found[key] for key in keys if key in found}
