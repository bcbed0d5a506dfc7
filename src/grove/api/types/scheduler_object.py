"""A scheduler's own objects, as far as we look at one: its mirror of a PodGang, its queue, its topology."""

from grove.api.types.meta import Condition, JsonObject, ObjectMeta, WireStruct


class SchedulerObject(WireStruct):
    """Any object of a scheduler. Its spec stays what it is on the wire: we patch what is ours and keep the rest."""

    metadata: ObjectMeta
    spec: JsonObject = {}
    status: JsonObject = {}


def conditions_of(mirror: SchedulerObject) -> tuple[Condition, ...]:
    """The conditions that its scheduler wrote, whatever else stands there."""
    found = mirror.status.get("conditions")
    return tuple(
        Condition(
            type=str(one.get("type", "")),
            status=str(one.get("status", "")),
            reason=str(one.get("reason", "")),
            message=str(one.get("message", "")),
        )
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict)
    )
