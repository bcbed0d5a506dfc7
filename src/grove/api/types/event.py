"""The slim view of an Event: how often it was seen."""

from grove.api.types.meta import ObjectMeta, Wire


class Event(Wire):
    metadata: ObjectMeta
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int = 1
