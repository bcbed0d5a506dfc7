"""The slim view of an Event: how often it was seen."""

from grove.api.types.meta import ObjectMeta, WireStruct


class Event(WireStruct):
    metadata: ObjectMeta
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int = 1
