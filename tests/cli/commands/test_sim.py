"""`grove sim`: the scenarios that we ship, and what becomes of files that are wrong."""

from pathlib import Path

import msgspec
import pytest

from grove.cli.main import main
from tests.cli.console import ROOT, grove

SCENARIOS = ROOT / "examples" / "scenarios"

# How lines begin that each shipped scenario must tell, in this order.
ESSENTIAL = {
    "a-day-of-load.yaml": (
        "   6:00:00  scenario   finds all as expected",
        "   7:00:00  scenario   sets the load of pclq/chat-0-frontend to 6 CPU over 3h",
        "   7:15:15  scaler     scaled podclique/chat-0-frontend from 2 to 3: cpu resource utilization (percentage of",
        "   9:00:15  scaler     scaled podcliquescalinggroup/chat-0-decode from 1 to 4: external metric queued_reques",
        "   9:00:15  operator   created 9 pods of chat replica 0",
        "  11:00:00  scenario   finds all as expected",
        "  12:00:15  scaler     scaled podclique/chat-0-frontend from 9 to 12: cpu resource utilization (percentage o",
        "  12:30:00  scenario   finds all as expected",
        "  13:00:00  scenario   crashes the operator",
        "  13:29:00  scaler     scaled podclique/chat-0-frontend from 12 to 11: All metrics below target",
        "  14:00:00  operator   deleted 7 pods of chat replica 0: the clique has 12 pods and requests 5",
        "  20:05:15  scaler     scaled podcliquescalinggroup/chat-0-decode from 4 to 1: All metrics below target",
        "  23:00:00  scenario   finds all as expected",
        "At 24:00:00:",
    ),
    "crash-that-recovers-in-time.yaml": (
        "   0:10:00  scenario   loses 2 pods of serve-0-engine-0-worker",
        "   0:10:00  operator   MinAvailableBreached podclique/serve-0-engine-0-worker: 1 of at least 2 pods are ready",
        "   0:10:10  operator   MinAvailableRestored podclique/serve-0-engine-0-worker: 3 of at least 2 pods are ready",
        "   0:11:00  scenario   loses 2 pods of serve-0-engine-0-worker",
        "   0:11:00  operator   MinAvailableBreached podclique/serve-0-engine-0-worker: 1 of at least 2 pods are ready",
        "   0:11:10  operator   MinAvailableRestored podclique/serve-0-engine-0-worker: 3 of at least 2 pods are ready",
        "   0:12:00  scenario   finds all as expected",
        "At 0:15:00:",
    ),
    "node-loss-at-group-level.yaml": (
        "   0:10:00  scenario   loses 2 pods of serve-0-engine-0-worker and fails node-0, node-1",
        "   0:10:29  scenario   finds all as expected",
        "   0:10:30  operator   noted on podgang/serve-0: recorded before anything is deleted: below the minimum",
        "   0:10:30  operator   deleted 4 pods of serve-0-engine replica 0: below the minimum for longer than the term",
        "   0:10:30  operator   created 4 pods of serve replica 0",
        "   0:10:30  scheduler  placed 3 pods of podgang/serve-0",
        "   0:20:00  scenario   recovers node-0, node-1",
        "   0:20:00  scheduler  placed 1 pod of podgang/serve-0",
        "At 0:30:00:",
    ),
    "breach-of-the-whole-set.yaml": (
        "   0:10:00  scenario   loses 2 pods of serve-0-engine-0-worker and fails node-0, node-1",
        "   2:00:00  scenario   crashes the operator",
        "   2:30:00  scenario   restarts the operator",
        "   4:09:59  scenario   finds all as expected",
        "   4:10:00  operator   noted on podgang/serve-0: recorded before anything is deleted: below the minimum",
        "   4:10:00  operator   deleted 8 pods of serve replica 0: below the minimum for longer than the termination ",
        "   4:10:00  operator   created 8 pods of serve replica 0",
        "   4:10:00  scheduler  placed 6 pods of podgang/serve-0",
        "   6:00:00  scenario   adds node-7, node-8",
        "   6:00:00  scheduler  placed 2 pods of podgang/serve-0",
        "At 8:00:00:",
    ),
}

SMALL = """
manifests: [MANIFEST]
timeline:
  - at: 10m
    expect: {running: {serve-0-router: COUNT}}
until: 20m
"""


def scenario(folder: Path, *, count: int = 2, manifest: str = str(ROOT / "examples" / "gang-termination.yaml")) -> str:
    path = folder / "scenario.yaml"
    path.write_text(SMALL.replace("MANIFEST", manifest).replace("COUNT", str(count)))
    return str(path)


def test_every_scenario_that_we_ship_is_played_here() -> None:
    assert sorted(ESSENTIAL) == sorted(path.name for path in SCENARIOS.glob("*"))


@pytest.mark.parametrize("name", ESSENTIAL)
def test_a_shipped_scenario_tells_its_story(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", str(SCENARIOS / name)]) == 0
    out, err = capsys.readouterr()
    lines = iter(out.splitlines())
    # Each is looked for after the one before it.
    assert [start for start in ESSENTIAL[name] if not any(line.startswith(start) for line in lines)] == []
    assert err == ""


def test_every_unit_has_one_line_however_many_pods_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    main(["sim", str(SCENARIOS / "breach-of-the-whole-set.yaml")])
    lines = capsys.readouterr().out.splitlines()
    assert sum("deleted" in line and "pods of" in line for line in lines) == 1


def test_the_command_runs_where_no_cluster_is(tmp_path: Path) -> None:
    said = grove(tmp_path, "sim", scenario(tmp_path))
    assert (said.code, said.err) == (0, "")
    assert "At 0:20:00:" in said.out
    assert not (tmp_path / ".grove").exists()


def test_paths_of_manifests_are_those_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "set.yaml").write_text((ROOT / "examples" / "gang-termination.yaml").read_text())
    assert main(["sim", scenario(tmp_path, manifest="set.yaml")]) == 0
    assert "applies podcliqueset/serve" in capsys.readouterr().out


def test_an_expectation_that_fails_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = scenario(tmp_path, count=3)
    assert main(["sim", path]) == 1
    out, err = capsys.readouterr()
    assert "   0:10:00  scenario   expected otherwise: 2 pods of serve-0-router are ready, not 3" in out
    assert err == f"grove: {path}: 0:10:00 timeline[0].expect: 2 pods of serve-0-router are ready, not 3\n"


def test_json_is_one_object_per_line_and_ends_with_the_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", scenario(tmp_path), "--output", "json"]) == 0
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == {"at": 0.0, "who": "scenario", "what": "applies podcliqueset/serve", "why": ""}
    assert (lines[-1]["at"], lines[-1]["set"]["name"], lines[-1]["sentences"]) == (1200.0, "serve", [])


def test_until_counts_more_than_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", scenario(tmp_path, count=3), "--until", "5s"]) == 0
    out = capsys.readouterr().out
    assert "At 0:00:05:" in out
    # The workers are not ready after 5 s: what the set waits for is said at the end.
    assert "is not ready" in out or "are not ready" in out
    assert "grove why" not in out


def test_the_same_seed_is_the_same_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = scenario(tmp_path)
    shown = []
    for _ in range(2):
        assert main(["sim", path, "--seed", "7"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodse: []", "nodse: unknown key; did you mean nodes?"),
        ("manifests: [none.yaml]", "none.yaml: cannot be read (No such file or directory); check the path"),
        ("- 1", "must have exactly one YAML document, a mapping; correct the file"),
        ("nodes: [", "not valid YAML"),
        ("timeline: [{at: 1m, fail: node-9}]", "timeline[0].fail: no node 'node-9' at 0:01:00; did you mean node-7?"),
    ],
)
def test_a_wrong_file_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    assert main(["sim", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert str(tmp_path) in err


def test_a_time_that_is_none_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", scenario(tmp_path), "--until", "soon"]) == 2
    assert capsys.readouterr().err.startswith('grove: --until: "soon" is not a duration')
