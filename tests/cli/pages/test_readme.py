"""The README's thirty seconds, as a newcomer lives them. Its training job is `test_training_page.py`'s."""

import asyncio
import re

import pytest

from grove.api.resources import GROUPS
from grove.clock import LoopClock
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access
from grove.kube.transport import MERGE_PATCH, Request
from tests.cli.console import ROOT, Up, UpScript
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
        up.ask_until_lines([_plain(line) for line in commands["grove status"]], "status", plain=_plain)
        asyncio.run(_scale(up, replicas=8))
        why = "why pg/chat-0-decode-6"
        up.ask_until_lines(commands[f"grove {why}"], *why.split())


async def _scale(up: Up, *, replicas: int) -> None:
    """What `kubectl scale` does; that kubectl does it is seen in tests/e2e."""
    scaling = f"kubectl --kubeconfig .grove/kubeconfig scale pcsg chat-0-decode --replicas={replicas}"
    assert scaling in _commands()
    access = find_access({}, kubeconfig=up.folder / ".grove" / "kubeconfig")
    path = GROUPS.path("default", "chat-0-decode", "scale")
    body = b'{"spec":{"replicas":%d}}' % replicas
    async with HttpTransport(access, LoopClock.starting_now()) as transport:
        request = Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH)
        assert (await transport.send(request)).status == 200
