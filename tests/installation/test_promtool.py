"""Alerts and dashboard, evaluated by Prometheus' own promtool: each alert fires, and none when all is well."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.api.types.meta import JsonObject
from grove.installation.alerts import ALERTS, alert_groups
from grove.installation.dashboard import ROWS
from tests.controller.observability.busy_cluster import busy_scrapes
from tests.kube.tools.build import PROMTOOL, run_tool

pytestmark = pytest.mark.kube

Series = dict[str, str]
# Two replicas for two hours, one of which leads; a value for each minute.
UP = 'up{job="grove-operator", instance="a"}'
LEADER = 'grove_leader{job="grove-operator", instance="a"}'
WRITES = 'grove_writes_failing{instance="a", reason="WriteRejected"}'
PANICS = 'grove_reconcile_panics_total{instance="a"}'
QUEUE = 'grove_queue_oldest_seconds{instance="a"}'
WATCHES = 'grove_watch_restarts_total{instance="a", resource="pods"}'
ALLOWED = 'grove_webhook_requests_total{instance="a", webhook="w", result="allowed"}'
ERRORS = 'grove_webhook_requests_total{instance="a", webhook="w", result="error"}'
CERTIFICATE = 'grove_webhook_certificate_expiry_timestamp_seconds{instance="a"}'
PENDING = 'grove_gang_pending_oldest_seconds{instance="a", namespace="n"}'
STALLED = 'grove_sets_update_stalled{instance="a", namespace="n", reason="PodsNotReady"}'
TERMINATIONS = 'grove_terminations_total{instance="a", namespace="n", level="set-replica"}'
HEALTHY: Series = {
    UP: "1x120",
    'up{job="grove-operator", instance="b"}': "1x120",
    LEADER: "1x120",
    'grove_leader{job="grove-operator", instance="b"}': "0x120",
    WRITES: "0x30 1x2 0x90",
    PANICS: "0x120",
    QUEUE: "0x30 70x3 1x90",
    WATCHES: "0+0.2x120",
    ALLOWED: "0+60x120",
    ERRORS: "0+1x120",
    # In 300 days.
    CERTIFICATE: "25920000x120",
    PENDING: "600x120",
    TERMINATIONS: "0+0.1x120",
}
# For each alert: what is different when it must fire.
FAULTS: dict[str, list[Series]] = {
    "GroveOperatorDown": [{UP: "0x120", 'up{job="grove-operator", instance="b"}': "0x120"}],
    "GroveNoLeader": [{LEADER: "0x120"}],
    "GroveReconcileErrors": [{WRITES: "2x120"}, {PANICS: "0+1x120"}],
    "GroveQueueAge": [{QUEUE: "61x120"}],
    "GroveWatchRestarts": [
        {WATCHES: "0+2x120"},
        {'grove_watch_failing{instance="a", resource="pods", verb="list", code="403"}': "1x120"},
    ],
    "GroveWebhookErrors": [{ERRORS: "0+6x120"}],
    "GroveCertificateExpiry": [{CERTIFICATE: "604800x120"}],
    "GroveGangPendingTooLong": [{PENDING: "1801x120"}],
    "GroveUpdateStalled": [{STALLED: "1x120"}],
    "GroveTerminationStorm": [{TERMINATIONS: "0+1x120"}],
}


def input_series(series: Series) -> list[JsonObject]:
    return [{"series": name, "values": values} for name, values in series.items()]


def run_rules(folder: Path, tests: list[JsonObject]) -> None:
    (folder / "alerts.yaml").write_text(yaml.safe_dump(alert_groups()))
    (folder / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": tests})
    )
    done = run_tool(PROMTOOL, "test", "rules", "tests.yaml", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(alert_groups()))
    done = run_tool(PROMTOOL, "check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 rules found" in done.stdout + done.stderr


def test_each_alert_fires_alone_with_its_fault_and_none_fires_when_all_is_well(tmp_path: Path) -> None:
    assert list(FAULTS) == [alert.name for alert in ALERTS]
    tests = [_expected("healthy", HEALTHY, ())]
    for name, faults in FAULTS.items():
        tests += [_expected(name, {**HEALTHY, **fault}, (name,)) for fault in faults]
    run_rules(tmp_path, tests)


def _expected(name: str, series: Series, firing: tuple[str, ...]) -> JsonObject:
    """Compare the names of all alerts that fire after two hours; for the healthy case, at three times."""
    times = ("119m",) if firing else ("20m", "45m", "119m")
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in firing]
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "name": name,
        "interval": "1m",
        "input_series": input_series(series),
        "promql_expr_test": [{"expr": query, "eval_time": time, "exp_samples": samples} for time in times],
    }


def test_a_firing_alert_says_where_and_leads_to_its_runbook(tmp_path: Path) -> None:
    expected = {
        "exp_labels": {"severity": "warning", "namespace": "n"},
        "exp_annotations": {
            "summary": "A gang in n has waited for nodes for 30m 1s.",
            "description": "`grove why` of its set says what is missing, `grove top` which sets hold it.",
            "runbook": "docs/how-to/alerts.md#grovegangpendingtoolong",
        },
    }
    test = {
        "interval": "1m",
        "input_series": input_series({**HEALTHY, **FAULTS["GroveGangPendingTooLong"][0]}),
        "alert_rule_test": [
            {"eval_time": "119m", "alertname": "GroveGangPendingTooLong", "exp_alerts": [expected]},
        ],
    }
    run_rules(tmp_path, [test])


# --- the dashboard ---------------------------------------------------------------------------------------------------


def test_every_query_of_the_dashboard_finds_data_in_a_real_scrape(tmp_path: Path) -> None:
    first, second = (dict(samples(text)) for text in busy_scrapes())
    series = {name: f"{first.get(name, '_')}x5 {value}x5" for name, value in second.items()}
    tests = [
        {"expr": f"count({_filled(query)}) > bool 0", "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": 1}]}
        for _, panels in ROWS
        for panel in panels
        for query, _ in panel.queries
    ]
    test: dict[str, Any] = {"interval": "1m", "input_series": input_series(series), "promql_expr_test": tests}
    run_rules(tmp_path, [test])
    assert len(tests) > 20


def _filled(query: str) -> str:
    """The query as Grafana sends it when nothing is selected."""
    return query.replace("$namespace", ".*").replace("$set", ".*")


def samples(text: str) -> Iterator[tuple[str, str]]:
    """Yield the series of a scrape with their values, in the notation of promtool."""
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            yield name, value
