"""Credential plugins as real programs: what they are told, what they may answer, and what happens when they fail."""

import asyncio
import base64
import json
import os
import pty
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from grove.kube.api_errors import NoCredentials
from grove.kube.exec_credential import TIMEOUT_SECONDS, PluginCredential, run_plugin
from grove.kube.kubeconfig import Access, ExecPlugin, InteractiveMode
from tests.bent_time import BentLoop
from tests.cli.console import attempts
from tests.cluster.kubelet.process_cluster import is_alive
from tests.kube.exec_credential_script import V1, V1BETA1, PluginScript
from tests.kube.loopback import Authority

ACCESS = Access(
    server="https://x.example",
    source="config",
    certificate_authority=b"CA",
    tls_server_name="kubernetes",
    proxy_url="http://p.example",
    is_insecure=True,
)


@pytest.fixture
def script(tmp_path: Path) -> PluginScript:
    return PluginScript(tmp_path)


def ask(plugin: ExecPlugin, access: Access = ACCESS) -> PluginCredential:
    return asyncio.run(run_plugin(plugin, access))


# --- question and answer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api_version", [V1, V1BETA1])
def test_a_plugin_is_told_the_version_and_answers_in_it(script: PluginScript, api_version: str) -> None:
    script.says(token="secret", api_version=api_version)
    assert ask(script.plugin(api_version=api_version)) == PluginCredential(token="secret")
    assert script.asked == {"apiVersion": api_version, "kind": "ExecCredential", "spec": {"interactive": False}}


def test_a_plugin_that_wants_to_know_the_cluster_is_told(script: PluginScript) -> None:
    script.says(token="secret")
    ask(script.plugin(provide_cluster_info=True, cluster_config={"audience": "x"}))
    assert script.asked["spec"]["cluster"] == {
        "server": "https://x.example",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
        "proxy-url": "http://p.example",
        "config": {"audience": "x"},
    }


def test_a_plugin_gets_its_arguments_and_environment_on_top_of_ours(
    script: PluginScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "ours")
    monkeypatch.setenv("BOTH", "ours")
    script.does(
        'printf \'{"apiVersion":"%s","kind":"ExecCredential","status":{"token":"%s"}}\' "$1" "$OURS-$BOTH-$THEIRS"'
    )
    plugin = script.plugin(arguments=(V1,), environment=(("BOTH", "theirs"), ("THEIRS", "x y")))
    with pytest.raises(NoCredentials, match="a token with invalid characters"):
        ask(plugin)
    plugin = script.plugin(arguments=(V1,), environment=(("BOTH", "theirs"), ("THEIRS", "xy")))
    assert ask(plugin) == PluginCredential(token="ours-theirs-xy")


def test_a_plugin_may_answer_with_a_certificate_and_say_when_it_expires(script: PluginScript) -> None:
    pair = Authority().client("me")
    expires_at = datetime(2030, 1, 1, tzinfo=UTC)
    data = {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
    script.says(expires_at=expires_at, **data)
    assert ask(script.plugin()) == PluginCredential(certificate=pair.certificate, key=pair.key, expires_at=expires_at)


def credential(status: object = None, *, api_version: str = V1, kind: str = "ExecCredential") -> str:
    return json.dumps({"apiVersion": api_version, "kind": kind, "status": status})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "did not print an ExecCredential"),
        ("<html>", "did not print an ExecCredential"),
        ("{}", "did not print an ExecCredential"),
        (credential(kind="Pod"), "returned Pod of"),
        (credential(api_version=V1BETA1), "not ExecCredential of client.authentication.k8s.io/v1;"),
        (credential(), "neither a token nor a certificate"),
        (credential({"token": ""}), "neither a token nor a certificate"),
        (credential({"token": 7}), "did not print an ExecCredential"),
        (credential({"token": "a\nb: c"}), "a token with invalid characters"),
        (credential({"clientKeyData": "k"}), "both are required"),
        (credential({"token": "t", "expirationTimestamp": "soon"}), "did not print an ExecCredential"),
    ],
)
def test_an_answer_that_is_none_is_refused_with_words(script: PluginScript, text: str, words: str) -> None:
    script.prints(text)
    with pytest.raises(NoCredentials, match=re.escape(words)) as caught:
        ask(script.plugin())
    assert repr(str(script.path)) in str(caught.value)


# --- failures --------------------------------------------------------------------------------------------------------


def test_what_a_failing_plugin_said_is_in_the_error(script: PluginScript) -> None:
    script.does("echo the session has expired, >&2; echo log in again >&2; exit 3")
    with pytest.raises(NoCredentials, match=r"failed with code 3: the session has expired, log in again$"):
        ask(script.plugin())


def test_what_a_failing_plugin_printed_is_not_in_the_error(script: PluginScript) -> None:
    script.says(token="half-a-secret").does('cat "$HERE/answer.json"; exit 1')
    with pytest.raises(NoCredentials, match="failed with code 1: no error message") as caught:
        ask(script.plugin())
    assert "half-a-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        ("Get it at the help desk.", r"cannot be started \(No such file or directory\); Get it at the help desk\."),
        ("", "install it, or correct exec.command"),
    ],
)
def test_a_plugin_that_is_not_installed_is_named_with_how_to_install_it(tmp_path: Path, hint: str, words: str) -> None:
    plugin = ExecPlugin(api_version=V1, command=str(tmp_path / "none"), install_hint=hint)
    with pytest.raises(NoCredentials, match=words):
        ask(plugin)


def test_a_plugin_that_may_not_be_run_is_an_error(script: PluginScript) -> None:
    script.path.chmod(0o644)
    with pytest.raises(NoCredentials, match="Permission denied"):
        ask(script.plugin())


def test_a_plugin_that_hangs_is_stopped_with_all_that_it_started(script: PluginScript) -> None:
    script.does('sleep 1000 & echo $! > "$HERE/child.new"; mv "$HERE/child.new" "$HERE/child"; wait')

    async def main() -> None:
        asking = asyncio.create_task(run_plugin(script.plugin(), ACCESS))
        while not (script.folder / "child").exists():
            await asyncio.wait([asking], timeout=0.01)
        loop.leap(TIMEOUT_SECONDS)
        await asking

    loop = BentLoop()
    with (
        asyncio.Runner(loop_factory=lambda: loop) as runner,
        pytest.raises(NoCredentials, match="did not answer within 60 s and was stopped"),
    ):
        runner.run(main())
    child = int((script.folder / "child").read_text())
    # It is not ours to wait for: it ends a moment after the signal that none survives.
    assert any(not is_alive(child) for _ in attempts())


def test_a_plugin_is_stopped_when_nobody_waits_for_it_any_more(script: PluginScript) -> None:
    script.does('echo $$ > "$HERE/pid.new"; mv "$HERE/pid.new" "$HERE/pid"; exec sleep 1000')

    async def main() -> int:
        asking = asyncio.create_task(run_plugin(script.plugin(), ACCESS))
        while not (script.folder / "pid").exists():
            await asyncio.wait([asking], timeout=0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        return int((script.folder / "pid").read_text())

    assert not is_alive(asyncio.run(main()))


@pytest.mark.parametrize("commands", ["exec yes", "yes >&2; true"], ids=["output", "errors of a child"])
def test_a_plugin_that_prints_without_end_is_stopped(script: PluginScript, commands: str) -> None:
    script.does(commands)
    with pytest.raises(NoCredentials, match="printed more than 1 MiB and was stopped"):
        ask(script.plugin())


def test_a_plugin_may_say_much_before_it_answers(script: PluginScript) -> None:
    script.says(token="t").does('head -c 500000 /dev/zero >&2; cat "$HERE/answer.json"')
    assert ask(script.plugin()) == PluginCredential(token="t")


# --- the terminal ----------------------------------------------------------------------------------------------------


def test_without_a_terminal_a_plugin_that_must_ask_is_not_started(script: PluginScript) -> None:
    script.says(token="t")
    with pytest.raises(
        NoCredentials, match="needs a terminal to prompt the user, and there is none; log in with it by hand first"
    ):
        at_no_terminal(script.plugin(interactive_mode=InteractiveMode.ALWAYS))
    assert script.run_count == 0


def test_without_a_terminal_a_plugin_reads_nothing(script: PluginScript) -> None:
    script.says(token="t").does('cat > "$HERE/read"; cat "$HERE/answer.json"')
    assert at_no_terminal(script.plugin(interactive_mode=InteractiveMode.IF_AVAILABLE)) == PluginCredential(token="t")
    assert (script.folder / "read").read_text() == ""
    assert script.asked["spec"] == {"interactive": False}


def at_no_terminal(plugin: ExecPlugin) -> PluginCredential:
    with Path(os.devnull).open() as nothing, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", nothing)
        return ask(plugin)


PROGRAM = """
import asyncio, sys
from grove.kube.kubeconfig import Access, ExecPlugin, InteractiveMode
from grove.kube.exec_credential import run_plugin
plugin = ExecPlugin(api_version=sys.argv[2], command=sys.argv[1], interactive_mode=InteractiveMode(sys.argv[3]))
print(asyncio.run(run_plugin(plugin, Access(server="https://x", source="s"))).token)
"""


@pytest.mark.parametrize(
    ("mode", "is_interactive"),
    [(InteractiveMode.ALWAYS, True), (InteractiveMode.IF_AVAILABLE, True), (InteractiveMode.NEVER, False)],
)
def test_at_a_terminal_a_plugin_may_ask_the_person_who_sits_there(
    script: PluginScript, mode: InteractiveMode, is_interactive: bool
) -> None:
    script.does(
        'echo "your name?" >&2; read NAME; '
        f'printf \'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"it-is-%s"}}}}\' "$NAME"'
    )
    told, printed = at_a_terminal([sys.executable, "-c", PROGRAM, str(script.path), V1, mode], says="ada\n")
    assert script.asked["spec"] == {"interactive": is_interactive}
    assert (told, "your name?" in printed) == ("it-is-ada" if is_interactive else "it-is-", is_interactive)


def at_a_terminal(command: list[str], *, says: str) -> tuple[str, str]:
    """Standard output, and what the person saw besides."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, says.encode())
        process: subprocess.Popen[Any] = subprocess.Popen(
            command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            output, errors = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return output.strip(), errors
    finally:
        os.close(ours)
        os.close(theirs)
