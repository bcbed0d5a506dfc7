"""Strategy of PriorityClasses: defaults and validation. `pods/pod_strategy.py` resolves the class of a pod."""

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, forbidden, invalid

# Classes that exist in every cluster without an object.
BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
DEFAULT_PREEMPTION = "PreemptLowerPriority"
_HIGHEST = 1_000_000_000


def prepare_priority_class(obj: JsonObject) -> JsonObject:
    policy = obj.get("preemptionPolicy", DEFAULT_PREEMPTION)
    return {**obj, "value": obj.get("value", 0), "preemptionPolicy": policy}


def validate_priority_class(obj: JsonObject) -> list[FieldError]:
    name, value = obj["metadata"]["name"], obj["value"]
    if not isinstance(value, int) or isinstance(value, bool):
        return [invalid("value", value, "must be an integer")]
    if name.startswith("system-") and name not in BUILT_IN_PRIORITIES:
        error_message = (
            "priority class names with 'system-' prefix are reserved for system use only. error: "
            f"{name} is not a known system priority class"
        )
        return [forbidden("metadata.name", error_message)]
    if value > _HIGHEST and name not in BUILT_IN_PRIORITIES:
        return [forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}")]
    return []


def validate_priority_class_update(old: JsonObject, new: JsonObject) -> list[FieldError]:
    fields = ("value", "preemptionPolicy")
    return [
        forbidden(field, "may not be changed in an update.") for field in fields if old.get(field) != new.get(field)
    ]
