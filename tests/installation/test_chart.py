"""The Helm chart, as far as it can be read without helm: generated files, schema of the values, alerts, dashboard."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from grove.clock import LoopClock
from grove.controller.observability.metrics import Metrics
from grove.installation.alerts import ALERTS, RUNBOOK
from grove.installation.dashboard import ROWS, dashboard
from grove.installation.install_options import DEFAULT_CONFIGURATION
from grove.sim.virtual_clock import run_virtual
from tests.dsl import NOW
from tests.helm_chart import CHART, chart_files, values_schema
from tests.markdown import ROOT

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
# Names that every Prometheus has, or that a library exports.
FOREIGN = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}


@pytest.mark.parametrize("path", chart_files(), ids=lambda path: path.name)
def test_a_generated_file_of_the_chart_is_what_the_code_says(path: Path) -> None:
    """`python -m tests.helm_chart` writes them."""
    assert path.read_text() == chart_files()[path]


def test_the_chart_has_the_definitions_of_the_package() -> None:
    package = ROOT / "src" / "grove" / "api" / "schema" / "crd_yaml"
    assert (CHART / "files" / "crds").resolve() == package


def test_the_default_configuration_of_the_chart_is_that_of_the_manifests() -> None:
    text = yaml.safe_load(DEFAULT_CONFIGURATION)
    assert VALUES["config"] == {key: value for key, value in text.items() if key not in ("apiVersion", "kind")}


# --- values ----------------------------------------------------------------------------------------------------------


def errors(values: dict[str, Any]) -> list[str]:
    validator = jsonschema_rs.validator_for(values_schema())
    return [error.message for error in validator.iter_errors(values)]


def test_the_schema_accepts_the_default_values_and_knows_each_of_them() -> None:
    assert errors(VALUES) == []
    assert sorted(VALUES) == sorted(set(values_schema()["properties"]) - {"global"})


@pytest.mark.parametrize(
    "change",
    [
        {"replica": 3},
        {"replicas": 0},
        {"image": {"repo": "x"}},
        {"image": {"digest": "latest"}},
        {"certificates": {"mode": "self"}},
        {"watchNamespaces": ["Not_A_Name"]},
        {"config": {"server": VALUES["config"]["server"], "logLevl": "debug"}},
        {"config": {"server": {"webhooks": {"port": "many"}}}},
        {"networkPolicy": {"enabled": "yes"}},
    ],
)
def test_the_schema_rejects_a_value_that_the_chart_would_ignore_or_misread(change: dict[str, Any]) -> None:
    assert errors({**VALUES, **change}) != []


# --- alerts and dashboard --------------------------------------------------------------------------------------------


def exported() -> set[str]:
    """The names of all series that the operator exports."""

    async def main() -> set[str]:
        found: set[str] = set()
        for family in Metrics(LoopClock(NOW)).registry.collect():
            suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(family.type, ("",))
            found |= {family.name + suffix for suffix in suffixes}
        return found

    return run_virtual(main())


def names_in(query: str) -> Iterator[str]:
    """Yield the metrics of a query: words that are no function, keyword, label or text."""
    bare = re.sub(r'"[^"]*"|by \([^)]*\)|\{[^}]*\}|\[[^\]]*\]', " ", query)
    yield from (word for word in re.findall(r"\b[a-z_]+\b(?!\s*\()", bare) if word not in ("by", "or", "and", "unless"))


def queries() -> dict[str, str]:
    """Every query of the alerts and the dashboard, by where it stands."""
    charts = {f"{row}: {panel.title}": panel.queries for row, panels in ROWS for panel in panels}
    of_charts = {f"{where} {legend}": query for where, pairs in charts.items() for query, legend in pairs}
    return {**{alert.name: alert.expression for alert in ALERTS}, **of_charts}


def test_every_query_asks_for_metrics_that_the_operator_exports() -> None:
    known = exported() | FOREIGN
    assert {where: [name for name in names_in(query) if name not in known] for where, query in queries().items()} == {
        where: [] for where in queries()
    }
    assert all(list(names_in(query)) for query in queries().values())


def test_every_alert_has_a_section_in_the_runbook_and_every_section_an_alert() -> None:
    assert len(ALERTS) == 10
    headings = re.findall(r"^## (.*)$", (ROOT / RUNBOOK).read_text(), re.MULTILINE)
    assert headings == [alert.name for alert in ALERTS]
    assert {alert.severity for alert in ALERTS} == {"critical", "warning"}


def test_the_dashboard_has_a_chart_for_every_panel_and_none_covers_another() -> None:
    panels = dashboard()["panels"]
    assert len(panels) == len(ROWS) + sum(len(row) for _, row in ROWS)
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(frozenset(cells))
    assert max(x for x, _ in cells) < 24
