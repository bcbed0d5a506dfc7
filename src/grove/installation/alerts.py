"""Alerts for Prometheus: the groups of a PrometheusRule. `docs/how-to/alerts.md` has a section for each.

A leader exports the metrics of sets and gangs, and a new leader starts at 0, so expressions aggregate over replicas.
"""

import msgspec

from grove.api.types.meta import JsonObject
from grove.installation.install_options import NAME

RUNBOOK = "docs/how-to/alerts.md"
_JOB = f'job="{NAME}"'


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert. `wait`: how long the expression must hold."""

    name: str
    expression: str
    wait: str
    severity: str
    summary: str
    description: str

    def wire(self) -> JsonObject:
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.wait,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook": f"{RUNBOOK}#{self.name.lower()}",
            },
        }


OPERATOR_ALERTS = (
    Alert(
        name="GroveOperatorDown",
        expression=f"absent(up{{{_JOB}}} == 1)",
        wait="5m",
        severity="critical",
        summary="No replica of the Grove operator answers.",
        description="Running pods continue. Nothing is repaired, and the API server rejects changes of sets.",
    ),
    Alert(
        name="GroveNoLeader",
        expression=f"sum(grove_leader{{{_JOB}}}) == 0",
        wait="2m",
        severity="critical",
        summary="No replica of the Grove operator leads.",
        description="Webhooks answer, but no set is reconciled: no pod is created, repaired or updated.",
    ),
    Alert(
        name="GroveReconcileErrors",
        expression=(
            "sum by (reason) (grove_writes_failing) > 0 or "
            'label_replace(sum(increase(grove_reconcile_panics_total[10m])) > 0, "reason", "Panic", "", "")'
        ),
        wait="5m",
        severity="warning",
        summary="The Grove operator cannot write: {{ $labels.reason }}.",
        description="{{ $value }} writes fail with the reason {{ $labels.reason }}. `grove why` of a set shows which.",
    ),
    Alert(
        name="GroveQueueAge",
        expression="max(grove_queue_oldest_seconds) > 60",
        wait="5m",
        severity="warning",
        summary="Sets wait for {{ $value | humanizeDuration }} until the Grove operator reconciles them.",
        description="The operator is too slow for the changes in the cluster: repairs and updates are late.",
    ),
    Alert(
        name="GroveWatchRestarts",
        expression=(
            "sum by (resource) (increase(grove_watch_restarts_total[15m])) > 10 or "
            "sum by (resource) (grove_watch_failing) > 0"
        ),
        wait="5m",
        severity="warning",
        summary="The Grove operator cannot watch {{ $labels.resource }}.",
        description="Watches of {{ $labels.resource }} break again and again, or are rejected.",
    ),
    Alert(
        name="GroveWebhookErrors",
        expression=(
            'sum by (webhook) (rate(grove_webhook_requests_total{result="error"}[10m])) / '
            "sum by (webhook) (rate(grove_webhook_requests_total[10m])) > 0.05"
        ),
        wait="5m",
        severity="critical",
        summary="The webhook {{ $labels.webhook }} of Grove fails.",
        description="{{ $value | humanizePercentage }} of its reviews fail, so the API server rejects these writes.",
    ),
    Alert(
        name="GroveCertificateExpiry",
        expression="min(grove_webhook_certificate_expiry_timestamp_seconds) - time() < 7 * 86400",
        wait="1h",
        severity="critical",
        summary="The webhook certificate of Grove expires in {{ $value | humanizeDuration }}.",
        description="The operator, or the program that manages the certificate, should have renewed it before.",
    ),
)
WORKLOAD_ALERTS = (
    Alert(
        name="GroveGangPendingTooLong",
        expression="max by (namespace) (grove_gang_pending_oldest_seconds) > 1800",
        wait="5m",
        severity="warning",
        summary="A gang in {{ $labels.namespace }} has waited for nodes for {{ $value | humanizeDuration }}.",
        description="`grove why` of its set says what is missing, `grove top` which sets hold it.",
    ),
    Alert(
        name="GroveUpdateStalled",
        expression="sum by (namespace, reason) (grove_sets_update_stalled) > 0",
        wait="10m",
        severity="warning",
        summary="An update in {{ $labels.namespace }} makes no progress: {{ $labels.reason }}.",
        description="{{ $value }} sets. `grove rollout status` shows each, `grove rollout undo` goes back.",
    ),
    Alert(
        name="GroveTerminationStorm",
        expression="sum by (namespace) (increase(grove_terminations_total[30m])) > 10",
        wait="5m",
        severity="warning",
        summary="Gangs in {{ $labels.namespace }} are terminated again and again.",
        description="{{ $value }} in 30 minutes. Each one restarts all pods of a replica.",
    ),
)
ALERTS = (*OPERATOR_ALERTS, *WORKLOAD_ALERTS)


def alert_groups() -> JsonObject:
    """Return the spec of the PrometheusRule, which is also a rule file of Prometheus."""
    return {
        "groups": [
            {"name": "grove-operator", "rules": [alert.wire() for alert in OPERATOR_ALERTS]},
            {"name": "grove-workloads", "rules": [alert.wire() for alert in WORKLOAD_ALERTS]},
        ]
    }
