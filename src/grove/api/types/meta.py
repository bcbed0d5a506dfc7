"""Types that all kinds share: metadata, owner references, conditions; and the encoding of structs as JSON.

Each kind has its own file; the table of resources is in `resources.py`.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, NewType, Protocol, cast, dataclass_transform

import msgspec

Uid = NewType("Uid", str)

JsonObject = dict[str, Any]

# Types that need no recursion; most values of a large object have one of them.
_LEAVES = frozenset({str, int, bool, float})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class WireStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The base of all structs that are decoded from or encoded to JSON.

    Unknown fields are ignored. This is safe because Grove patches objects and never replaces them.
    """


class OwnerReference(WireStruct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: Uid = Uid("")
    controller: bool = False
    block_owner_deletion: bool = False

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


class OwnerKey(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a controlling owner. Ownership is decided only by comparing this key.

    An owner is in the namespace of its dependent. Any user can write the uid of a foreign object into an owner
    reference, so the whole key must equal `Resource.owner_key` of an existing object.
    """

    namespace: str
    group: str
    kind: str
    # The uid identifies the object among those of this name. Garbage collector and authorizer find owners by name.
    name: str
    uid: Uid


class ObjectMeta(WireStruct):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def is_terminating(self) -> bool:
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerKey | None:
        """Return the key of the owner that manages this object, or None if no owner reference is the controller's."""
        owner = self.controller_reference
        if owner is None:
            return None
        return OwnerKey(namespace=self.namespace, group=owner.group, kind=owner.kind, name=owner.name, uid=owner.uid)

    @property
    def controller_reference(self) -> OwnerReference | None:
        """Return the owner reference of the controller. It is only a claim until the owner was looked up."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class HasMetadata(Protocol):
    """Any object with metadata, for packages that do not depend on kinds."""

    @property
    def metadata(self) -> ObjectMeta: ...


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(WireStruct):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


class LastError(WireStruct):
    """An error that keeps the operator from reconciling an object, as its status reports it."""

    code: str
    description: str
    observed_at: datetime


class NamespacedName(WireStruct):
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def find_condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    return next((c for c in conditions if c.type == type_), None)


def is_condition_true(conditions: tuple[Condition, ...], type_: str) -> bool:
    condition = find_condition(conditions, type_)
    return condition is not None and condition.status == ConditionStatus.TRUE


def to_wire(value: msgspec.Struct) -> JsonObject:
    """Return the JSON object of a struct. Fields that are None are left out; zeros and empty strings are kept."""
    return cast("JsonObject", without_nulls(msgspec.to_builtins(value)))


def without_nulls(value: Any) -> Any:
    """Return JSON without null fields, as the API server prunes them. Charts render null for unset values."""
    if isinstance(value, dict):
        return {k: v if type(v) in _LEAVES else without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [v if type(v) in _LEAVES else without_nulls(v) for v in value]
    return value
