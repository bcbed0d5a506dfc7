"""The commands of docs/how-to/update.md, "Follow, review and undo an update", do what the page says, on `grove up`."""

import re
import subprocess
from pathlib import Path

from tests.cli.console import GROVE, ROOT, SECONDS, Up, environment
from tests.markdown import fences

PAGE = ROOT / "docs" / "how-to" / "update.md"
HEADING = "## Follow, review and undo an update\n"
# Only how long something took differs from run to run, and what is told of an update on its way.
ON_THE_WAY = re.compile(r"\d\d:\d\d:\d\d pcs/")
DURATION = re.compile(r", the update took \S+|(?<=  )\d+[smh](\d+s)?(?= )")


def commands() -> list[tuple[str, list[str]]]:
    """Each command with the lines that it prints."""
    section = PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0]
    found: list[tuple[str, list[str]]] = []
    for line in "".join(f.text for f in fences(section) if f.language == "console").splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def masked(lines: list[str]) -> list[str]:
    kept = (line for line in lines if not ON_THE_WAY.match(line))
    return [" ".join(DURATION.sub("", line).split()) for line in kept]


def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    shown = commands()
    assert len(shown) > 6
    with Up(tmp_path, str(ROOT / "examples" / "quickstart.yaml")) as up:
        up.read_until("1/1 replicas available, 10/10 pods ready")
        env = environment(tmp_path, {"KUBECONFIG": str(tmp_path / ".grove" / "kubeconfig")})
        env["PATH"] = f"{GROVE.parent}:{env['PATH']}"
        for command, lines in shown:
            done = subprocess.run(
                ["bash", "-c", command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            # A command that writes names its cluster.
            warnings = [line for line in done.stderr.splitlines() if not line.startswith("Cluster: https://127.0.0.1:")]
            assert (done.returncode, warnings) == (0, []), command
            assert masked(done.stdout.splitlines()) == masked(lines), command
