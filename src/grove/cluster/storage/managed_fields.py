"""Lazy managedFields: field ownership of stored objects, computed when a client reads it.

Every write records a note: the manager, the time, and the object before and after, which the store shares anyway. The
managers that follow from the notes (`field_managers.py`) are computed when managedFields are read or an object is
applied; Grove's own components do neither. The result is the same as if it had been computed with every write.
"""

from functools import lru_cache
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.custom_resource import grove_storage_versions
from grove.cluster.patches.field_managers import (
    UPDATE,
    ManagedWrite,
    Manager,
    Managers,
    after_update,
    managed_fields,
    read_managed_fields,
    without_fields,
)
from grove.cluster.patches.field_sets import FieldSet, field_step, intersection, set_of
from grove.cluster.patches.merge_types import DEDUCED, Type, built_in_type, custom_type

# Notes keep versions of their object in memory, so the write that exceeds this limit computes the managers.
_MAX_NOTES = 64

# Fields that the server fills in for a new object. They have no manager unless the client sent them.
_SERVER_FIELDS: dict[str, tuple[str, ...]] = {
    "namespaces": ("finalizers",),
    "pods": ("priority", "preemptionPolicy", "tolerations", "serviceAccount", "serviceAccountName"),
    "services": ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"),
}
# Fields that a built-in object always has. They have no manager.
_BLANK: dict[str, JsonObject] = {
    "customresourcedefinitions.apiextensions.k8s.io": {"spec": {"names": {}, "versions": None}},
    "events": {"involvedObject": {}, "source": {}},
    "horizontalpodautoscalers.autoscaling": {"spec": {"scaleTargetRef": {}}},
    "leases.coordination.k8s.io": {"spec": {}},
    "namespaces": {"spec": {}},
    "nodes": {"spec": {}, "status": {"daemonEndpoints": {"kubeletEndpoint": {}}, "nodeInfo": {}}},
    "persistentvolumeclaims": {"spec": {"resources": {}}},
    "poddisruptionbudgets.policy": {"spec": {}},
    "pods": {"spec": {"containers": None}, "status": {}},
    "resourcequotas": {"spec": {}, "status": {}},
    "services": {"spec": {}, "status": {"loadBalancer": {}}},
}
_NOTHING: FieldSet = {}
_STATUS = set_of(("f:status",))
_SPEC = set_of(("f:spec",))
_ALL_BUT_STATUS = set_of(("f:metadata",), ("f:spec",))


def blank_object(resource_info: ResourceInfo) -> JsonObject:
    return {
        "kind": resource_info.kind,
        "apiVersion": resource_info.api_version,
        "metadata": {},
        **_BLANK.get(resource_info.qualified, {}),
    }


def ignored_fields(resource_info: ResourceInfo, subresource: str) -> FieldSet:
    """Return the fields that a write to this subresource cannot change."""
    if subresource == "status":
        return _ALL_BUT_STATUS if resource_info.is_custom else _SPEC
    return _STATUS if resource_info.has_status else _NOTHING


@lru_cache(maxsize=256)
def merge_type(resource_info: ResourceInfo) -> Type:
    if resource_info.is_custom:
        return custom_type((resource_info.custom or grove_storage_versions()[resource_info.qualified]).schema)
    # Without schema data, the type is deduced: fields merge by name.
    return built_in_type(resource_info.api_version, resource_info.kind) or DEDUCED


class Note(msgspec.Struct, frozen=True, gc=False):
    """A record of one write."""

    resource_info: ResourceInfo
    # None: a create.
    old: JsonObject | None
    # The object before admission.
    new: JsonObject
    manager: str
    subresource: str
    time: str
    # For a create: the object as the client sent it, before defaulting.
    given: JsonObject | None = None

    def apply_to(self, managers: Managers) -> Managers:
        if not managers and self.old is not None:
            # Ownership that was cleared or never tracked stays untracked until the first apply.
            return managers
        resource_info = self.resource_info
        if self.subresource == "scale":
            replicas_field = self._replicas_field()
            if not any(intersection(owned.fields, replicas_field) for owned in managers.values()):
                # A scale write only changes the ownership of the replicas field.
                return managers
            if not self._sets_replicas():
                return without_fields(managers, replicas_field)
        manager = Manager(UPDATE, self.manager, self.subresource, resource_info.api_version)
        write = ManagedWrite(
            manager=manager,
            api_version=resource_info.api_version,
            time=self.time,
            ignored=ignored_fields(resource_info, self.subresource),
        )
        old = blank_object(resource_info) if self.old is None else self.old
        return after_update(managers, merge_type(resource_info), old, self._without_server_fields(), write)

    def _replicas_field(self) -> FieldSet:
        """Return the replicas field that the scale subresource writes."""
        return set_of(tuple(map(field_step, self._replicas_path())))

    def _sets_replicas(self) -> bool:
        """Return whether the write sets a number above 0. A Scale omits 0, and an omitted field has no manager."""
        value: Any = self.new
        for name in self._replicas_path():
            value = value.get(name) if isinstance(value, dict) else None
        return bool(value)

    def _replicas_path(self) -> tuple[str, ...]:
        paths = None if self.resource_info.custom is None else self.resource_info.custom.scale
        return () if paths is None else paths.spec

    def _without_server_fields(self) -> JsonObject:
        names = () if self.given is None else _SERVER_FIELDS.get(self.resource_info.qualified, ())
        if not names or self.given is None:
            return self.new
        requested = self.given.get("spec") or {}
        spec = {name: value for name, value in self.new["spec"].items() if name not in names}
        fields = {**spec, **{name: requested[name] for name in names if name in requested}}
        if fields.get("ports"):
            fields["ports"] = _without_allocated_ports(fields["ports"], requested.get("ports"))
        return {**self.new, "spec": fields}


def _without_allocated_ports(ports: list[JsonObject], requested: Any) -> list[JsonObject]:
    """Remove the node ports of a service that the server allocated."""
    if not isinstance(requested, list) or len(requested) != len(ports):
        # A webhook changed the ports, so they cannot be matched with the requested ones.
        return ports
    return [
        port if given.get("nodePort") else {field: value for field, value in port.items() if field != "nodePort"}
        for port, given in zip(ports, requested, strict=True)
    ]


class Ownership:
    """The field ownership of one version of an object. Immutable to callers; computed on first read."""

    __slots__ = ("_before", "_encoded", "_managers", "_note", "_note_count")

    def __init__(
        self,
        managers: Managers | None,
        before: "Ownership | None" = None,
        note: Note | None = None,
        note_count: int = 0,
    ) -> None:
        self._managers = managers
        self._before = before
        self._note = note
        self._note_count = note_count
        self._encoded: bytes | None = None

    @classmethod
    def restore(cls, encoded: bytes) -> "Ownership":
        """Return the ownership that was `encoded` before. It is decoded on first read."""
        if not encoded:
            return UNOWNED
        restore = cls(None)
        restore._encoded = encoded
        return restore

    def after(self, note: Note) -> "Ownership":
        count = self._note_count + 1
        if count > _MAX_NOTES:
            self._compute()
            count = 1
        return Ownership(None, self, note, count)

    @property
    def managers(self) -> Managers:
        return self._compute() if self._managers is None else self._managers

    @property
    def encoded(self) -> bytes:
        """Return `metadata.managedFields` as JSON; empty if there are none."""
        if self._encoded is None:
            entries = managed_fields(self.managers)
            self._encoded = msgspec.json.encode(entries) if entries else b""
        return self._encoded

    def _compute(self) -> Managers:
        """Apply all notes up to this one, the oldest first. Return the managers, and drop the notes."""
        uncomputed: list[Ownership] = []
        at: Ownership | None = self
        while at is not None and at._managers is None:
            if at._note is None:
                at._managers = read_managed_fields(msgspec.json.decode(at.encoded))
                break
            uncomputed.append(at)
            at = at._before
        managers: Managers = {} if at is None or at._managers is None else at._managers
        for each in reversed(uncomputed):
            assert each._note is not None
            managers = each._managers = each._note.apply_to(managers)
            each._before = each._note = None
            each._note_count = 0
        return managers


UNOWNED = Ownership({})


def with_managed_fields(obj: JsonObject, ownership: Ownership) -> JsonObject:
    """Return the object with `managedFields` as raw JSON, for encoding only."""
    if not (encoded := ownership.encoded):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "managedFields": msgspec.Raw(encoded)}}
