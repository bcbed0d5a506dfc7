"""The runs that README.md and docs/how-to/train.md show are what `grove run` prints."""

import re
import shutil
from pathlib import Path

import pytest

from tests.cli.console import ROOT, run_script
from tests.markdown import fences

COMMAND = "$ grove run "
ELISION = "..."


def runs() -> list[tuple[str, list[str]]]:
    """Each run's arguments with the lines that are shown of it."""
    found: list[tuple[str, list[str]]] = []
    for page in ("README.md", "docs/how-to/train.md"):
        for fence in fences((ROOT / page).read_text()):
            if fence.language == "console" and fence.text.startswith(COMMAND):
                command, *lines = fence.text.splitlines()
                found.append((command.removeprefix(COMMAND), lines))
    return found


def masked(line: str) -> str:
    """Without what differs from run to run: names that are drawn, and how long it took."""
    return re.sub(r" after [\d.m]+s", " after 0s", re.sub(r"(-\d)-[a-z0-9]{5}\b", r"\1-xxxxx", line))


def test_both_pages_show_a_run() -> None:
    assert [arguments for arguments, _ in runs()] == [
        "examples/training-allreduce.yaml",
        "examples/training-restart.yaml",
    ]


@pytest.mark.parametrize(("arguments", "shown"), runs(), ids=lambda value: str(value)[-30:])
def test_a_page_shows_what_is_printed(arguments: str, shown: list[str], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    path = tmp_path / arguments
    # Whoever runs the same example at this moment has a folder of his own.
    path.write_text(re.sub(r"(?<=path: )/var/tmp/[\w-]+", str(tmp_path / "shared"), path.read_text()))
    said = run_script(tmp_path, "run", *arguments.split())
    assert (said.code, said.err) == (0, "")
    printed = iter([masked(line) for line in said.out.splitlines()])
    # In this order; other lines may stand between them where the page leaves some out.
    assert [line for line in shown if line != ELISION and masked(line) not in printed] == []
    assert len(shown) > 5
