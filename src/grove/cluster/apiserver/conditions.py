"""Conditions of a status: one per type, with the time of the last transition."""

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import items


def with_condition(status: JsonObject, condition: JsonObject) -> JsonObject:
    """Return the status with the condition set. `lastTransitionTime` stays while the condition's status is the same."""
    conditions = items(status.get("conditions"))
    for index, before in enumerate(conditions):
        if before.get("type") == condition["type"]:
            since = before.get("lastTransitionTime") if before.get("status") == condition["status"] else None
            conditions[index] = {**condition, **({"lastTransitionTime": since} if since else {})}
            return {**status, "conditions": conditions}
    return {**status, "conditions": [*conditions, condition]}
