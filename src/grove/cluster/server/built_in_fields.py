"""Which fields built-in kinds have, so that a misspelt one can be named. Our own kinds: `cluster/crds.py`.

Pods are known in full, from the schema that our CRDs embed; of the others the fields that people write by hand.
"""

from functools import cache
from typing import Any

from grove.api.kubernetes_schemas import kubernetes_schema
from grove.api.meta import JsonObject

_ANY: JsonObject = {}
# Names of fields; what is below them is anybody's.
_FIELDS: dict[str, tuple[str, ...]] = {
    "configmaps": ("binaryData", "data", "immutable"),
    "controllerrevisions.apps": ("data", "revision"),
    "priorityclasses.scheduling.k8s.io": ("description", "globalDefault", "preemptionPolicy", "value"),
    "secrets": ("data", "immutable", "stringData", "type"),
    "serviceaccounts": ("automountServiceAccountToken", "imagePullSecrets", "secrets"),
}
# The same of their specs, for kinds that have one.
_SPECS: dict[str, tuple[str, ...]] = {
    "horizontalpodautoscalers.autoscaling": ("behavior", "maxReplicas", "metrics", "minReplicas", "scaleTargetRef"),
    "leases.coordination.k8s.io": (
        "acquireTime", "holderIdentity", "leaseDurationSeconds", "leaseTransitions", "preferredHolder", "renewTime",
        "strategy",
    ),
    "namespaces": ("finalizers",),
    "nodes": ("configSource", "externalID", "podCIDR", "podCIDRs", "providerID", "taints", "unschedulable"),
    "resourcequotas": ("hard", "scopeSelector", "scopes"),
}  # fmt: skip
_ALWAYS = ("apiVersion", "kind", "metadata")
_SERVICE_PORT = ("appProtocol", "name", "nodePort", "port", "protocol", "targetPort")
_SERVICE = (
    "allocateLoadBalancerNodePorts", "clusterIP", "clusterIPs", "externalIPs", "externalName",
    "externalTrafficPolicy", "healthCheckNodePort", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy",
    "loadBalancerClass", "loadBalancerIP", "loadBalancerSourceRanges", "ports", "publishNotReadyAddresses", "selector",
    "sessionAffinity", "sessionAffinityConfig", "trafficDistribution", "type",
)  # fmt: skip


def without_unknown(qualified: str, obj: JsonObject) -> tuple[JsonObject, list[str]]:
    """The object as a real server would keep it, and the paths of what it would drop."""
    schema = _schema(qualified)
    unknown: list[str] = []
    return (obj, unknown) if schema is None else (_known(obj, schema, "", unknown), unknown)


@cache
def _schema(qualified: str) -> JsonObject | None:
    match qualified:
        case "pods":
            return _object(*_ALWAYS, "status", spec=kubernetes_schema("PodSpec"))
        case "services":
            ports = {"items": _object(*_SERVICE_PORT)}
            return _object(*_ALWAYS, "status", spec=_object(*_SERVICE, ports=ports))
        case _ if qualified in _SPECS:
            return _object(*_ALWAYS, "status", spec=_object(*_SPECS[qualified]))
        case _ if qualified in _FIELDS:
            return _object(*_ALWAYS, *_FIELDS[qualified])
        case _:
            return None


def _object(*names: str, **known: JsonObject) -> JsonObject:
    return {"properties": {**dict.fromkeys(names, _ANY), **known}}


def _known(value: Any, schema: JsonObject, path: str, unknown: list[str]) -> Any:
    """What is known of the value; the paths of the rest are added to `unknown`."""
    match value:
        case dict() if "properties" in schema:
            fields = schema["properties"]
            kept = {}
            for name, inner in value.items():
                where = f"{path}.{name}" if path else name
                if name in fields:
                    kept[name] = _known(inner, fields[name], where, unknown)
                else:
                    unknown.append(where)
            return kept
        case dict() if isinstance(schema.get("additionalProperties"), dict):
            inner_schema = schema["additionalProperties"]
            return {key: _known(inner, inner_schema, f"{path}.{key}", unknown) for key, inner in value.items()}
        case list() if "items" in schema:
            return [_known(inner, schema["items"], f"{path}[{index}]", unknown) for index, inner in enumerate(value)]
        case _:
            return value
