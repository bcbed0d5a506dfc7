"""Objects of schedulers, such as the pod group of a PodGang, a queue or a topology."""

from grove.api.types.meta import Condition, JsonObject, ObjectMeta, WireStruct


class SchedulerObject(WireStruct):
    """Any object of a scheduler. The spec is untyped: the operator patches its own fields and keeps the rest."""

    metadata: ObjectMeta
    spec: JsonObject = {}
    status: JsonObject = {}


def conditions_of(scheduler_object: SchedulerObject) -> tuple[Condition, ...]:
    """Return the conditions that the scheduler wrote. Malformed entries are ignored."""
    found = scheduler_object.status.get("conditions")
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
