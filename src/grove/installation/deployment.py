"""The operator's Deployment, its configuration, and the Service through which the API server calls it."""

import hashlib

from grove.api.types.meta import JsonObject
from grove.installation.install_options import NAME, Installation
from grove.installation.labels import LABELS, SELECTOR, object_metadata

CONFIG_FOLDER = "/etc/grove-operator/config"
CONFIG_FILE = "config.yaml"
WEBHOOK_PORT = 443
# An unprivileged user; `nonroot` images use the same number.
USER_ID = 65532
_HASH_DIGITS = 8


def workload_objects(installation: Installation) -> tuple[JsonObject, ...]:
    return (
        _config_map(installation),
        _service(installation),
        _deployment(installation),
        _disruption_budget(installation),
    )


def config_map_name(installation: Installation) -> str:
    """Return a name with the hash of the configuration.

    Every configuration is a new object, so pods are restarted after a change, and a rollback finds the old one.
    """
    digest = hashlib.sha256(installation.configuration_text.encode()).hexdigest()
    return f"{NAME}-cm-{digest[:_HASH_DIGITS]}"


def _config_map(installation: Installation) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": object_metadata(config_map_name(installation), installation.namespace),
        "immutable": True,
        "data": {CONFIG_FILE: installation.configuration_text},
    }


def _service(installation: Installation) -> JsonObject:
    ports = [
        {"name": "webhooks", "port": WEBHOOK_PORT, "targetPort": "webhooks"},
        {"name": "metrics", "port": installation.configuration.server.metrics.port, "targetPort": "metrics"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_metadata(NAME, installation.namespace),
        "spec": {"selector": dict(SELECTOR), "ports": ports},
    }


def _disruption_budget(installation: Installation) -> JsonObject:
    """Build a budget for one pod at a time. With a single replica it does not block a node drain."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": object_metadata(NAME, installation.namespace),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(SELECTOR)}},
    }


def _deployment(installation: Installation) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": object_metadata(NAME, installation.namespace),
        "spec": {
            "replicas": installation.replicas,
            "selector": {"matchLabels": dict(SELECTOR)},
            # A new pod is ready before an old one stops, so an upgrade never rejects writes to sets.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod_spec(installation)},
        },
    }


def _pod_spec(installation: Installation) -> JsonObject:
    priority = {"priorityClassName": installation.priority_class} if installation.priority_class else {}
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        **priority,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [_spread("topology.kubernetes.io/zone"), _spread("kubernetes.io/hostname")],
        "containers": [_container(installation)],
        "volumes": _volumes(installation),
    }


def _spread(key: str) -> JsonObject:
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(SELECTOR)},
    }


def _container(installation: Installation) -> JsonObject:
    server = installation.configuration.server
    return {
        "name": "operator",
        "image": installation.image,
        "args": ["operator", f"--config={CONFIG_FOLDER}/{CONFIG_FILE}", *_scope(installation)],
        "env": [
            {
                "name": "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME",
                "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}},
            },
            {"name": "GROVE_INIT_CONTAINER_IMAGE", "value": installation.image},
        ],
        "ports": [
            {"name": "webhooks", "containerPort": server.webhooks.port},
            {"name": "health", "containerPort": server.health_probes.port},
            {"name": "metrics", "containerPort": server.metrics.port},
        ],
        # The program responds within milliseconds, unless it hangs.
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5, "timeoutSeconds": 5},
        "resources": installation.resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for name, path in _mounts(installation)],
    }


def _scope(installation: Installation) -> tuple[str, ...]:
    namespaces = ",".join(installation.watch_namespaces)
    return (f"--watch-namespaces={namespaces}",) if namespaces else ()


def _probe(path: str) -> JsonObject:
    return {"httpGet": {"path": path, "port": "health"}}


def _mounts(installation: Installation) -> tuple[tuple[str, str], ...]:
    certificate = ("certificate", installation.configuration.server.webhooks.server_cert_dir)
    return (("config", CONFIG_FOLDER), *((certificate,) if installation.is_manual else ()))


def _volumes(installation: Installation) -> list[JsonObject]:
    volumes: list[JsonObject] = [{"name": "config", "configMap": {"name": config_map_name(installation)}}]
    if installation.is_manual:
        secret = installation.configuration.server.webhooks.secret_name
        volumes.append({"name": "certificate", "secret": {"secretName": secret}})
    return volumes
