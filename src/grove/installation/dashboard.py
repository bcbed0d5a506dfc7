"""The Grafana dashboard: all sets, one namespace, and the operator. Every query is one of the operator's metrics."""

from typing import Any

import msgspec

from grove.api.types.meta import JsonObject

_SELECTED = 'namespace=~"$namespace"'
_WIDTH = 8
_HEIGHT = 7
_COLUMNS = 3


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One chart: pairs of query and legend."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"


def _quantile(share: float, metric: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket[10m])))"


FLEET = (
    Panel(title="Sets by phase", queries=(("sum by (phase) (grove_sets)", "{{phase}}"),)),
    Panel(title="Gangs by phase", queries=(("sum by (phase) (grove_gangs)", "{{phase}}"),)),
    Panel(title="Gangs without nodes, by reason", queries=(("sum by (reason) (grove_gangs_pending)", "{{reason}}"),)),
    Panel(
        title="Oldest gang without nodes",
        queries=(("max by (namespace) (grove_gang_pending_oldest_seconds)", "{{namespace}}"),),
        unit="s",
    ),
    Panel(
        title="GPUs held by gangs that do not run",
        queries=(("sum by (namespace, resource) (grove_gpus_idle)", "{{namespace}} {{resource}}"),),
    ),
    Panel(
        title="Breaches and terminations per hour",
        queries=(
            ("sum(increase(grove_breaches_total[1h]))", "breaches"),
            ("sum(increase(grove_terminations_total[1h]))", "terminations"),
            ("sum(increase(grove_training_restarts_total[1h]))", "training restarts"),
        ),
    ),
)
ONE_SET = (
    Panel(title="Gangs by phase", queries=((f"sum by (phase) (grove_gangs{{{_SELECTED}}})", "{{phase}}"),)),
    Panel(
        title="From creation to nodes",
        queries=tuple(
            (_quantile(share, "grove_gang_scheduled_seconds").replace("_bucket[", f"_bucket{{{_SELECTED}}}["), name)
            for share, name in ((0.5, "median"), (0.99, "p99"))
        ),
        unit="s",
    ),
    Panel(
        title="From creation to ready",
        queries=tuple(
            (_quantile(share, "grove_gang_ready_seconds").replace("_bucket[", f"_bucket{{{_SELECTED}}}["), name)
            for share, name in ((0.5, "median"), (0.99, "p99"))
        ),
        unit="s",
    ),
    Panel(
        title="Progress of updates",
        queries=((f'max by (set) (grove_set_update_progress_ratio{{{_SELECTED}, set=~"$set"}})', "{{set}}"),),
        unit="percentunit",
    ),
    Panel(
        title="Age of updates",
        queries=((f'max by (set) (grove_set_update_seconds{{{_SELECTED}, set=~"$set"}})', "{{set}}"),),
        unit="s",
    ),
    Panel(
        title="Stalled updates",
        queries=((f"sum by (reason) (grove_sets_update_stalled{{{_SELECTED}}})", "{{reason}}"),),
    ),
)
OPERATOR = (
    Panel(
        title="Leaders and replicas",
        queries=(("sum(grove_leader)", "leaders"), ("sum by (version) (grove_build_info)", "{{version}}")),
    ),
    Panel(
        title="Reconcile duration",
        queries=tuple(
            (_quantile(share, "grove_reconcile_duration_seconds"), name)
            for share, name in ((0.5, "median"), (0.99, "p99"))
        ),
        unit="s",
    ),
    Panel(
        title="Work queue",
        queries=(("sum(grove_queue_depth)", "sets"), ("max(grove_queue_oldest_seconds)", "oldest, seconds")),
    ),
    Panel(
        title="Requests to the API server per second",
        queries=(("sum by (verb, code) (rate(grove_api_requests_total[5m]))", "{{verb}} {{code}}"),),
        unit="reqps",
    ),
    Panel(
        title="Failing writes and watches",
        queries=(
            ("sum by (reason) (grove_writes_failing)", "{{reason}}"),
            ("sum by (resource) (increase(grove_watch_restarts_total[15m]))", "watch of {{resource}}"),
        ),
    ),
    Panel(
        title="Reviews of webhooks per second",
        queries=(
            ("sum by (webhook, result) (rate(grove_webhook_requests_total[5m]))", "{{webhook}} {{result}}"),
            (_quantile(0.99, "grove_webhook_duration_seconds", "webhook"), "{{webhook}} p99, seconds"),
        ),
    ),
    Panel(
        title="Webhook certificate expires in",
        queries=(("min(grove_webhook_certificate_expiry_timestamp_seconds) - time()", "certificate"),),
        unit="s",
    ),
    Panel(
        title="Memory and CPU",
        queries=(
            ("process_resident_memory_bytes", "memory of {{instance}}"),
            ("rate(process_cpu_seconds_total[5m])", "cores of {{instance}}"),
        ),
    ),
    Panel(title="Event loop delay", queries=(("max(grove_event_loop_lag_seconds)", "delay"),), unit="s"),
)
ROWS = (("All sets", FLEET), ("Namespace $namespace, set $set", ONE_SET), ("Operator", OPERATOR))


def dashboard() -> JsonObject:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "grove",
        "title": "Grove",
        "description": "Gangs of pods: sets, gangs, updates, and the operator.",
        "tags": ["grove", "kubernetes"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source(), _variable("namespace", "grove_sets"), _variable("set", _UPDATES)]},
        "panels": _panels(),
    }


_UPDATES = 'grove_set_update_seconds{namespace=~"$namespace"}'


def _panels() -> list[JsonObject]:
    made: list[JsonObject] = []
    top = 0
    for title, panels in ROWS:
        made.append(_base(len(made), "row", title, {"x": 0, "y": top, "w": 24, "h": 1}) | {"collapsed": False})
        for number, panel in enumerate(panels):
            row, column = divmod(number, _COLUMNS)
            place = {"x": column * _WIDTH, "y": top + 1 + row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            made.append(_chart(len(made), panel, place))
        top += 1 + -(-len(panels) // _COLUMNS) * _HEIGHT
    return made


def _chart(number: int, panel: Panel, place: JsonObject) -> JsonObject:
    targets = [
        {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend, "datasource": _DATASOURCE}
        for index, (query, legend) in enumerate(panel.queries)
    ]
    return _base(number, "timeseries", panel.title, place) | {
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def _base(number: int, kind: str, title: str, place: JsonObject) -> JsonObject:
    return {"id": number + 1, "type": kind, "title": title, "gridPos": place}


_DATASOURCE: JsonObject = {"type": "prometheus", "uid": "${source}"}


def _source() -> JsonObject:
    return {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _variable(name: str, series: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": f"label_values({series}, {name})",
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }
