"""The README's thirty seconds, as a newcomer lives them. Its training job is `test_training_page.py`'s."""

import re

import pytest

from tests.cli.console import ROOT, UpScript
from tests.markdown import fences

MAKE, TERMINAL, *_ = (fence.text for fence in fences((ROOT / "README.md").read_text()) if fence.language == "console")


def _commands() -> dict[str, list[str]]:
    """What the second terminal shows: each command with the lines it prints."""
    found: dict[str, list[str]] = {}
    for line in TERMINAL.splitlines():
        if line.startswith("$ "):
            found[line[2:]] = printed = []
        else:
            printed.append(line)
    return found


def _plain(line: str) -> str:
    """Without what differs from run to run: ports and ages."""
    return re.sub(r"\b\d+s$", "0s", re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", line))


def test_the_readme_shows_what_is_printed(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("readme")
    commands = _commands()
    with UpScript(folder, str(ROOT / "examples" / "quickstart.yaml")) as up:
        up.read_until("podcliqueset/chat created")
        assert [_plain(line) for line in up.lines] == [_plain(line) for line in MAKE.splitlines()[1:]]
        up.wait_for_lines([_plain(line) for line in commands["grove status"]], "status", plain=_plain)
        scale = "grove scale pcsg/chat-0-decode --replicas=8"
        scaled = up.grove(*scale.split()[1:])
        assert _plain(f"{scaled.err}{scaled.out}").splitlines() == [_plain(line) for line in commands[scale]]
        why = "why pg/chat-0-decode-6"
        up.wait_for_lines(commands[f"grove {why}"], *why.split())
