"""Event, with the fields that the operator uses to count repeated events."""

from grove.api.types.meta import ObjectMeta, WireStruct


class Event(WireStruct):
    metadata: ObjectMeta
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int = 1
