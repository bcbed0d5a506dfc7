"""Objects for Prometheus and Grafana: what to scrape, alerts, and a dashboard."""

import msgspec

from grove.api.types.meta import JsonObject
from grove.installation.alerts import alert_groups
from grove.installation.dashboard import dashboard
from grove.installation.install_options import NAME, Installation
from grove.installation.labels import LABELS, object_metadata

DASHBOARD_NAME = "grove-grafana-dashboard"
SCRAPE_INTERVAL = "30s"
_API = "monitoring.coreos.com/v1"


def monitoring_objects(installation: Installation) -> tuple[JsonObject, ...]:
    optional = installation.optional
    return (
        *((_service_monitor(installation),) if optional.has_service_monitor else ()),
        *((_prometheus_rule(installation),) if optional.has_prometheus_rule else ()),
        *((_dashboard(installation),) if optional.has_grafana_dashboard else ()),
    )


def _service_monitor(installation: Installation) -> JsonObject:
    return {
        "apiVersion": _API,
        "kind": "ServiceMonitor",
        "metadata": object_metadata(NAME, installation.namespace),
        "spec": {
            "selector": {"matchLabels": dict(LABELS)},
            "endpoints": [{"port": "metrics", "interval": SCRAPE_INTERVAL}],
        },
    }


def _prometheus_rule(installation: Installation) -> JsonObject:
    return {
        "apiVersion": _API,
        "kind": "PrometheusRule",
        "metadata": object_metadata(NAME, installation.namespace),
        "spec": alert_groups(),
    }


def _dashboard(installation: Installation) -> JsonObject:
    metadata = object_metadata(DASHBOARD_NAME, installation.namespace)
    # The sidecar of Grafana finds dashboards by this label.
    labels = {**metadata["labels"], "grafana_dashboard": "1"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "labels": labels},
        "data": {"grove.json": dashboard_text()},
    }


def dashboard_text() -> str:
    return msgspec.json.format(msgspec.json.encode(dashboard()), indent=1).decode() + "\n"
