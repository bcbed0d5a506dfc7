"""The commands of docs/tutorial/first-set.md print what the page shows, on `grove up`."""

import re
import shlex
from pathlib import Path

from tests.cli.console import ROOT, Up, attempts
from tests.markdown import fences

PAGE = ROOT / "docs" / "tutorial" / "first-set.md"
ELISION = "..."


def commands() -> list[tuple[str, list[str]]]:
    """Each command of the second terminal with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    _, *blocks = [fence for fence in fences(PAGE.read_text()) if fence.language == "console"]
    for line in "".join(block.text for block in blocks).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def masked(line: str) -> str:
    """Without what differs from run to run: suffixes of pod names, ages, durations, and the width of columns."""
    line = re.sub(r"(-\d)-[a-z0-9]{5}\b", r"\1-xxxxx", line)
    return " ".join(re.sub(r"\b(?:\d+m)?\d+s\b", "0s", line).split())


def run(up: Up, command: str) -> list[str]:
    """Run `grove ...`, `grove ... > FILE` or `sed -i s/OLD/NEW/ FILE`, as the page has it."""
    words, _, target = command.partition(" > ")
    program, *arguments = shlex.split(words)
    if program == "sed":
        _, change, file = arguments
        _, old, new, _ = change.split("/")
        path = up.folder / file
        path.write_text(path.read_text().replace(old, new))
        return []
    assert program == "grove"
    said = up.grove(*arguments)
    assert said.code == 0, (command, said)
    if target:
        (up.folder / target).write_text(said.out)
        return []
    return [masked(line) for line in said.out.splitlines()]


def test_the_tutorial_shows_what_is_printed(tmp_path: Path) -> None:
    shown = commands()
    assert len(shown) > 6
    with Up(tmp_path, "--nodes", "4") as up:
        for command, lines in shown:
            assert _is_printed(up, command, [masked(line) for line in lines]), command


def _is_printed(up: Up, command: str, lines: list[str]) -> bool:
    """A question is asked again until the cluster has settled; a change is made once."""
    printed: list[str] = []
    for _ in attempts():
        printed = run(up, command)
        expected = iter(printed)
        # In this order; other lines may stand between them where the page leaves some out.
        if all(line in expected for line in lines if line != ELISION) and (ELISION in lines or printed == lines):
            return True
        if not re.match(r"grove (?:status|why)", command):
            break
    raise AssertionError(f"{command}: {lines} is not in {printed}")
