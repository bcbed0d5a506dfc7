"""Conditions of a status: one of each type, and the time at which it became what it is."""

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import items


def with_condition(status: JsonObject, condition: JsonObject) -> JsonObject:
    """In the place of the one of its type; the time stays as long as the status of the condition does."""
    conditions = items(status.get("conditions"))
    for index, before in enumerate(conditions):
        if before.get("type") == condition["type"]:
            kept = before.get("lastTransitionTime") if before.get("status") == condition["status"] else None
            conditions[index] = {**condition, **({"lastTransitionTime": kept} if kept else {})}
            return {**status, "conditions": conditions}
    return {**status, "conditions": [*conditions, condition]}
