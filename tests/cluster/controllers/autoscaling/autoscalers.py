"""Sets and autoscalers for tests of the horizontal controller, in one line each."""

from typing import Any

from grove.api.types.meta import JsonObject

CPU_50: JsonObject = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


def external(name: str, **target: Any) -> JsonObject:
    kind = "AverageValue" if "averageValue" in target else "Value"
    return {"type": "External", "external": {"metric": {"name": name}, "target": {"type": kind, **target}}}


def autoscaler(
    name: str, kind: str = "PodClique", *, least: int = 1, most: int = 10, metrics: Any = (CPU_50,), **spec: Any
) -> JsonObject:
    """An autoscaler with the name of its target, as the operator makes them."""
    target = {"apiVersion": "grove.io/v1alpha1", "kind": kind, "name": name}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": list(metrics),
            **spec,
        },
    }


def clique(name: str, replicas: int, minimum: int) -> JsonObject:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "roleName": name,
        "replicas": replicas,
        "minAvailable": minimum,
        "podSpec": {"containers": [container]},
    }
    return {"name": name, "spec": spec}


def chat(**annotations: str) -> JsonObject:
    """A set with the clique `web` (2 pods), and the group `decode` (1 replica of a leader and 2 workers)."""
    group = {"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 1, "minAvailable": 1}
    cliques = [clique("web", 2, 1), clique("leader", 1, 1), clique("worker", 2, 2)]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "chat", "annotations": annotations},
        "spec": {"replicas": 1, "template": {"cliques": cliques, "podCliqueScalingGroups": [group]}},
    }


def external_values(**values: str) -> JsonObject:
    labels = {"simulation.grove.io/external-metrics": "true"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "queue", "labels": labels},
        "data": values,
    }
