"""Set the defaults of absent fields of a PodCliqueSet before it is stored.

JSON in, JSON out; the input is not modified. Values of a wrong type stay as they are; validation reports them.
"""

from typing import Any

from grove.api.types.meta import JsonObject, without_nulls
from grove.api.types.podcliqueset import StartupType, UpdateType, WorkloadType

_GRACE_SECONDS = 30


def default_podcliqueset(
    pcs: JsonObject, old: JsonObject | None = None, *, default_delay: str | None = None
) -> JsonObject:
    """Return the set with every default. Nulls are dropped first, as the API server does.

    `old` is the stored object of an update: a minAvailable that the update leaves out keeps its old value, because it
    is immutable. `default_delay` is the terminationDelay of new Inference sets from the operator configuration; an
    update that removes the delay is not defaulted again.
    """
    result: JsonObject = without_nulls(pcs)
    metadata = result.get("metadata", {})
    if isinstance(metadata, dict) and not metadata.get("namespace"):
        result["metadata"] = {**metadata, "namespace": "default"}
    if not isinstance(result.get("spec"), dict):
        return result
    spec: JsonObject = {"replicas": 0, "workloadType": WorkloadType.INFERENCE.value, **result["spec"]}
    if isinstance(spec.get("updateStrategy"), dict):
        spec["updateStrategy"] = {"type": UpdateType.ROLLING_RECREATE.value, **spec["updateStrategy"]}
    if isinstance(spec.get("template"), dict):
        spec["template"] = _default_template(spec["template"], spec["workloadType"], _stored_minima(old))
        if old is None and default_delay is not None:
            spec["template"].setdefault("terminationDelay", default_delay)
    return {**result, "spec": spec}


def default_scaling_group(group: JsonObject) -> JsonObject:
    """Return a PodCliqueScalingGroup with the defaults of its schema."""
    result: JsonObject = without_nulls(group)
    if isinstance(result.get("spec"), dict):
        result = {**result, "spec": {"replicas": 1, "minAvailable": 1, **result["spec"]}}
    return result


def _default_template(template: JsonObject, workload_type: object, minima: dict[str, int]) -> JsonObject:
    is_training = workload_type == WorkloadType.TRAINING
    result: JsonObject = {"cliqueStartupType": StartupType.ANY_ORDER.value, **template}
    headless = result.get("headlessServiceConfig", {})
    if isinstance(headless, dict):
        result["headlessServiceConfig"] = {"publishNotReadyAddresses": True, **headless}
    if is_training:
        result.setdefault("terminationDelay", "0s")
    if isinstance(result.get("cliques"), list):
        restart_policy = "Never" if is_training else "Always"
        result["cliques"] = [_default_clique(clique, restart_policy, minima) for clique in result["cliques"]]
    if isinstance(result.get("podCliqueScalingGroups"), list):
        result["podCliqueScalingGroups"] = [_default_group(group) for group in result["podCliqueScalingGroups"]]
    return result


def _default_clique(clique: Any, restart_policy: str, minima: dict[str, int]) -> Any:
    if not isinstance(clique, dict) or not isinstance(clique.get("spec"), dict):
        return clique
    spec: JsonObject = dict(clique["spec"])
    if not spec.get("roleName") and isinstance(clique.get("name"), str):
        spec["roleName"] = clique["name"]
    submitted = spec.setdefault("replicas", 1)
    if isinstance(submitted, int):
        # "replicas: 0" alone is rejected: minAvailable is immutable, so the user must choose it.
        spec.setdefault("minAvailable", _default_min_available(clique, submitted, minima))
    if isinstance(spec.get("podSpec"), dict):
        spec["podSpec"] = _default_pod_spec(spec["podSpec"], restart_policy)
    if isinstance(spec.get("autoScalingConfig"), dict):
        spec["autoScalingConfig"] = {"minReplicas": submitted or spec.get("minAvailable"), **spec["autoScalingConfig"]}
    return {**clique, "spec": spec}


def _default_min_available(clique: JsonObject, submitted: int, minima: dict[str, int]) -> int:
    name = clique.get("name")
    return minima.get(name, submitted) if isinstance(name, str) else submitted


def _default_pod_spec(pod_spec: JsonObject, restart_policy: str) -> JsonObject:
    result = dict(pod_spec)
    if not result.get("restartPolicy"):
        result["restartPolicy"] = restart_policy
    if result.get("terminationGracePeriodSeconds") is None:
        result["terminationGracePeriodSeconds"] = _GRACE_SECONDS
    return result


def _default_group(group: Any) -> Any:
    if not isinstance(group, dict):
        return group
    result: JsonObject = {"replicas": 1, "minAvailable": 1, **group}
    if isinstance(result.get("scaleConfig"), dict):
        first = result["replicas"] or result["minAvailable"]
        result["scaleConfig"] = {"minReplicas": first, **result["scaleConfig"]}
    return result


def _stored_minima(old: JsonObject | None) -> dict[str, int]:
    """Return the stored minAvailable of each clique."""
    template = _object(_object(_object(old).get("spec")).get("template"))
    cliques = template.get("cliques")
    minima: dict[str, int] = {}
    for clique in cliques if isinstance(cliques, list) else []:
        name, minimum = _object(clique).get("name"), _object(_object(clique).get("spec")).get("minAvailable")
        if isinstance(name, str) and isinstance(minimum, int):
            minima[name] = minimum
    return minima


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}
