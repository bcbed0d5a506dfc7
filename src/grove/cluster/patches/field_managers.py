"""Field managers: the ownership of fields after each write, apply conflicts, and the encoding of `managedFields`.

No I/O. `cluster/storage/managed_fields.py` names the managers of writes and decides when ownership is computed.
"""

from datetime import datetime
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.patches.field_sets import (
    FieldSet,
    NotAFieldSetError,
    Path,
    difference,
    from_wire,
    intersection,
    members,
    path_text,
    set_of,
    to_wire,
    union,
    without_parts,
)
from grove.cluster.patches.merge_types import Type
from grove.cluster.patches.server_side_apply import merge, prune
from grove.cluster.patches.typed_compare import compare, field_set

UPDATE = "Update"
APPLY = "Apply"
FIRST_APPLY = "before-first-apply"
_ANCIENT = "ancient-changes"
_MAX_UPDATERS = 10
_MAX_NAME_LENGTH = 128
_OPERATIONS = (APPLY, UPDATE)

# Fields that only the server sets have no owner.
_OWNERLESS = set_of(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{field}")
        for field in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
            "resourceVersion",
        )
    ),
)  # fmt: skip


class Manager(msgspec.Struct, frozen=True, order=True):
    """A field manager. The same name has one manager per operation and subresource."""

    operation: str
    name: str
    subresource: str = ""
    # Only for updates: an applier is the same manager in every version.
    api_version: str = ""

    @property
    def description(self) -> str:
        """The manager as error messages name it."""
        place = f' with subresource "{self.subresource}"' if self.subresource else ""
        version = f" using {self.api_version}" if self.operation == UPDATE else ""
        return f'"{self.name}"{place}{version}'


class Owned(msgspec.Struct, frozen=True):
    """The fields of a manager, and the time of its last change; None if it is unknown."""

    fields: FieldSet
    api_version: str
    time: str | None


Managers = dict[Manager, Owned]


class ManagedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """One write: its manager, its time, and the fields that it cannot change."""

    manager: Manager
    api_version: str
    time: str
    ignored: FieldSet = {}


class Conflict(msgspec.Struct, frozen=True):
    manager: Manager
    path: Path


class ApplyConflictError(Exception):
    """Other managers own fields that the applier wants to change. The applier must agree with them or force it."""

    def __init__(self, conflicts: tuple[Conflict, ...]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts

    def causes(self) -> list[JsonObject]:
        return [
            {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {conflict.manager.description}",
                "field": path_text(conflict.path),
            }
            for conflict in self.conflicts
        ]

    def message(self) -> str:
        if len(self.conflicts) == 1:
            only = self.conflicts[0]
            return f"Apply failed with 1 conflict: conflict with {only.manager.description}: {path_text(only.path)}"
        paths: dict[str, list[str]] = {}
        for conflict in self.conflicts:
            paths.setdefault(conflict.manager.description, []).append(path_text(conflict.path))
        lines = [line for who in paths for line in (f"conflicts with {who}:", *(f"- {path}" for path in paths[who]))]
        return f"Apply failed with {len(self.conflicts)} conflicts: " + "\n".join(lines)


def after_update(managers: Managers, type_: Type, old: Any, new: Any, write: ManagedWrite) -> Managers:
    """Return the managers after an update: the writer owns changed fields alone; removed fields have no owner."""
    change = compare(type_, old, new).without(write.ignored)
    owned_fields = difference(change.written, _OWNERLESS)
    found = without_fields(managers, union(change.written, change.removed))
    if owned_fields:
        before = found.get(write.manager)
        fields = owned_fields if before is None else union(before.fields, owned_fields)
        found[write.manager] = Owned(fields, write.api_version, write.time)
    return _cap_updaters(found)


def without_fields(managers: Managers, fields: FieldSet) -> Managers:
    """Return the managers without these fields. Managers without fields are dropped."""
    found: Managers = {}
    for manager, owned in managers.items():
        rest = difference(owned.fields, fields)
        if rest is owned.fields:
            found[manager] = owned
        elif rest:
            found[manager] = Owned(rest, owned.api_version, owned.time)
    return found


def _cap_updaters(managers: Managers) -> Managers:
    """Merge the oldest updaters into one manager if there are too many."""
    updaters = sorted((m for m in managers if m.operation == UPDATE), key=lambda m: (_timestamp(managers[m]), m.name))
    surplus = len(updaters) - _MAX_UPDATERS
    if surplus <= 0:
        return managers
    found = dict(managers)
    ancient = Manager(UPDATE, _ANCIENT, "", managers[updaters[0]].api_version)
    merged_fields: FieldSet = {}
    for manager in updaters[: surplus + 1]:
        owned = found.pop(manager)
        merged_fields = union(merged_fields, owned.fields)
        found[ancient] = Owned(merged_fields, owned.api_version, owned.time)
    return found


def _timestamp(owned: Owned) -> float:
    try:
        return datetime.fromisoformat(owned.time or "").timestamp()
    except ValueError:
        return 0.0


class ServerSideApplyResult(msgspec.Struct, frozen=True):
    """The object and its managers after an apply."""

    obj: JsonObject
    managers: Managers


def after_apply(
    managers: Managers, type_: Type, live: JsonObject, config: JsonObject, write: ManagedWrite, *, is_forced: bool
) -> ServerSideApplyResult:
    """Apply the configuration. Fields that the manager no longer applies are removed. Raises `ApplyConflictError`."""
    manager = write.manager
    wanted = without_parts(field_set(type_, config), write.ignored)
    last = managers.get(manager)
    found = {**managers, manager: Owned(wanted, write.api_version, None if last is None else last.time)}
    obj = merge(type_, live, config)
    if last is not None:
        all_owned: FieldSet = {}
        for owned in found.values():
            all_owned = union(all_owned, owned.fields)
        obj = prune(type_, obj, last.fields, all_owned) or {}
    others = {other: owned for other, owned in found.items() if other != manager}
    change = compare(type_, live, obj).without(write.ignored)
    if not is_forced and (conflicts := _find_conflicts(others, change.written)):
        raise ApplyConflictError(conflicts)
    result = without_fields(others, union(change.written, change.removed))
    if fields := difference(wanted, _OWNERLESS):
        time = found[manager].time if obj == live else write.time
        result[manager] = Owned(fields, write.api_version, time)
    return ServerSideApplyResult(obj, result)


def _find_conflicts(others: Managers, wanted: FieldSet) -> tuple[Conflict, ...]:
    return tuple(
        Conflict(manager, path)
        for manager in sorted(others, key=_rank)
        for path in members(intersection(others[manager].fields, wanted))
    )


def _rank(manager: Manager) -> tuple[str, str, str, bool, str]:
    """Return the sort key of conflicts, as in a real API server: subresources before the object itself."""
    return manager.name, manager.operation, manager.api_version, not manager.subresource, manager.subresource


# Encoding


def managed_fields(managers: Managers) -> list[JsonObject]:
    """Encode the managers as `metadata.managedFields`."""
    order = sorted(managers, key=lambda m: (m.operation, _timestamp(managers[m]), m.name, m.api_version, m.subresource))
    return [_entry(manager, managers[manager]) for manager in order]


def _entry(manager: Manager, owned: Owned) -> JsonObject:
    entry: JsonObject = {"manager": manager.name, "operation": manager.operation, "apiVersion": owned.api_version}
    if owned.time is not None:
        entry["time"] = owned.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": to_wire(owned.fields)}
    return {**entry, "subresource": manager.subresource} if manager.subresource else entry


class NotManagedFieldsError(Exception):
    """The client sent `managedFields` that cannot be decoded."""


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str | None = None
    fields_type: str = ""
    fields_v1: Any = msgspec.field(default=None, name="fieldsV1")
    subresource: str = ""


def read_managed_fields(wire: Any) -> Managers:
    """Decode `metadata.managedFields`. Raises `NotManagedFieldsError`."""
    try:
        entries = msgspec.convert(wire, list[_Entry])
        return dict(_read_entry(entry) for entry in entries)
    except (msgspec.ValidationError, NotAFieldSetError) as error:
        raise NotManagedFieldsError(str(error)) from None


def _read_entry(entry: _Entry) -> tuple[Manager, Owned]:
    if entry.operation not in _OPERATIONS or entry.fields_type not in ("", "FieldsV1"):
        raise NotManagedFieldsError("unknown operation or fieldsType")
    api_version = entry.api_version if entry.operation == UPDATE else ""
    manager = Manager(entry.operation, entry.manager, entry.subresource, api_version)
    fields = {} if entry.fields_v1 is None else from_wire(entry.fields_v1)
    return manager, Owned(fields, entry.api_version, entry.time)


def manager_name(text: str) -> str:
    """Return the manager name of a User-Agent: the program name before its version, shortened to the limit."""
    name = "".join(letter for letter in text.partition("/")[0] if letter.isprintable())
    return name[:_MAX_NAME_LENGTH] or "unknown"
