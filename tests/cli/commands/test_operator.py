"""`grove operator`: a process beside a cluster that has none."""

import asyncio
import re
import signal
import socket
from pathlib import Path

import msgspec
import pytest
import yaml

from grove.clock import LoopClock
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access
from grove.kube.transport import Request
from tests.cli.console import ROOT, SECONDS, Up, grove
from tests.cli.operators import ELECTION, Operator, OperatorScript, write_config

QUICKSTART = str(ROOT / "examples" / "quickstart.yaml")
SHORT_LEASE = """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: grove-operator-leader-election}
spec: {leaseDurationSeconds: 1}
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_makes_sets_available_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    config = write_config(tmp_path)
    with Up(tmp_path, QUICKSTART, "--no-operator") as up, OperatorScript(tmp_path, "--config", str(config)) as operator:
        up.read_until("1/1 replicas available, 10/10 pods ready")
        assert operator.ask("healthz").text == "ok\n"
        ready = operator.ask("readyz")
        assert (ready.status, ready.text) == (200, "ok\nleader: this process, without an election\n")
        metrics = operator.wait_for_output('grove_gangs{namespace="default",phase="Running"} 2.0', "metrics")
        assert 'grove_api_requests_total{code="201",resource="pods",verb="create"} 10.0' in metrics
        # Everything happens in one thread, where the system tells.
        tasks = Path(f"/proc/{operator.process.pid}/task")
        assert not tasks.exists() or len(list(tasks.iterdir())) == 1
        assert operator.end(number) == 0
    assert operator.lines[-1]["msg"] == "stopped"
    made = [line for line in operator.lines if line["msg"] == "create pods"]
    # One line per pass; and a pass that takes a second goes on in the next.
    assert {(line["namespace"], line["set"], line["replica"]) for line in made} == {("default", "chat", "0")}
    assert sum(line["count"] for line in made) == 10


def test_when_the_leader_is_killed_the_other_one_takes_over(tmp_path: Path) -> None:
    config = str(write_config(tmp_path, leaderElection=ELECTION))
    with Up(tmp_path, "--no-operator") as up, Operator(tmp_path, "--config", config) as first:
        first.read_until("leading")
        with Operator(tmp_path, "--config", config) as second:
            assert second.read_until("waiting for the lease")["holder"] == first.start["identity"]
            assert second.ask("readyz").text == f"ok\nleader: {first.start['identity']}\n"
            assert "grove_leader 0.0" in second.ask("metrics").text
            first.end(signal.SIGKILL)
            # Lest the test waits longer: a candidate believes what the lease says of its duration.
            assert up.grove("apply", "-f", "-", given=SHORT_LEASE).code == 0
            up.grove("apply", "-f", QUICKSTART)
            second.read_until("leading")
            up.read_until("1/1 replicas available, 10/10 pods ready")
            second.wait_for_output("grove_leader 1.0", "metrics")
            assert second.end() == 0
            assert [line["msg"] for line in second.lines[-2:]] == ["lease released", "stopped"]
        lease = up.read("/apis/coordination.k8s.io/v1/namespaces/default/leases/grove-operator-leader-election")
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("", 1)


def test_a_server_that_is_out_of_reach_is_said_and_waited_for(tmp_path: Path) -> None:
    config = str(write_config(tmp_path))
    kubeconfig = tmp_path / "kubeconfig"
    with Up(tmp_path, "--kubeconfig", str(kubeconfig)) as up:
        text = kubeconfig.read_text()
        up.end(signal.SIGKILL)
    kubeconfig.write_text(text)
    with Operator(tmp_path, "--config", config, "--kubeconfig", str(kubeconfig)) as operator:
        line = operator.read_until("cannot list podcliquesets")
        assert (line["level"], line["reason"]) == ("error", "ConnectionLost")
        ready = operator.ask("readyz")
        assert ready.status == 503
        assert ready.text.startswith("not ready: waiting for podcliquesets, ")
        assert "podcliquesets: 0 ConnectionLost: " in ready.text
        assert operator.end() == 0


def test_a_wrong_configuration_is_wrong_usage_and_names_every_error(tmp_path: Path) -> None:
    config = write_config(tmp_path, logLevel="trace", network={"autoMNNVLEnabled": True})
    said = grove(tmp_path, "operator", "--config", str(config))
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines() == [
        f'grove: {config}: logLevel: Unsupported value: "trace": supported values: "debug", "info", "error"',
        "network.autoMNNVLEnabled: Forbidden: compute domains are not supported yet: write false, or remove the key",
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("--config", "nowhere.yaml"),
            "grove: nowhere.yaml: cannot be read (No such file or directory); check --config",
        ),
        (("--webhook-url", "http://localhost"), "grove: --webhook-url 'http://localhost': write https://HOST:PORT, "),
        (("--kubeconfig", "nowhere"), "grove: nowhere: no such file; check --kubeconfig"),
    ],
)
def test_what_cannot_be_meant_is_one_line(tmp_path: Path, arguments: tuple[str, ...], error: str) -> None:
    kubeconfig = tmp_path / ".grove" / "kubeconfig"
    kubeconfig.parent.mkdir()
    kubeconfig.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    said = grove(tmp_path, "operator", *arguments, env={"KUBECONFIG": str(kubeconfig)})
    assert (said.code, said.err.count("\n")) == (1 if "--kubeconfig" in arguments else 2, 1)
    assert said.err.startswith(error)


def test_where_the_certificate_cannot_live_it_says_so_and_ends_with_1(tmp_path: Path) -> None:
    with Up(tmp_path, "--nodes", "0", "--no-operator"):
        kubeconfig, administrator = tmp_path / "stranger", tmp_path / ".grove" / "kubeconfig"
        content = yaml.safe_load(administrator.read_text())
        content["users"][0]["user"] = {"token": asyncio.run(token_of_a_stranger(administrator))}
        kubeconfig.write_text(yaml.safe_dump(content))
        config = write_config(tmp_path)
        said = grove(
            tmp_path, "operator", "--config", str(config), "--kubeconfig", str(kubeconfig),
            "--webhook-url", "https://127.0.0.1:9443",
        )  # fmt: skip
    assert said.code == 1
    last = said.err.splitlines()[-1]
    assert last.startswith("grove: webhook certificate: Secret grove-system/grove-webhook-server-cert cannot be read: ")
    assert "cannot create resource" in last
    assert last.endswith("grant the operator the permission, or create namespace grove-system and grant it there")


async def token_of_a_stranger(administrator: Path) -> str:
    """A token of an account without rights."""
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    async with HttpTransport(find_access({}, kubeconfig=administrator), LoopClock.starting_now()) as transport:
        answer = await transport.send(Request(method="POST", path=path, body=b'{"spec": {}}'))
    return str(msgspec.json.decode(answer.body)["status"]["token"])


def test_a_port_in_use_is_a_failure_that_names_the_key(tmp_path: Path) -> None:
    with socket.socket() as taken, Up(tmp_path, "--no-operator"):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = write_config(tmp_path, server={"healthProbes": {"port": port}, "metrics": {"port": 0}})
        said = grove(tmp_path, "operator", "--config", str(config))
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith(f"grove: 127.0.0.1, port {port} cannot be used (")
    assert said.err.endswith("; choose another server.healthProbes.port\n")


def test_text_is_for_people(tmp_path: Path) -> None:
    config = write_config(tmp_path, logFormat="text", logLevel="info", banana=1)
    with Up(tmp_path, "--no-operator"):
        operator = Operator(tmp_path, "--config", str(config))
        assert "banana: unknown key, ignored" in operator.stderr.readline()
        # When it was comes first, as people read.
        assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z \[info +\] grove operator ", operator.stderr.readline())
        operator.process.send_signal(signal.SIGTERM)
        assert operator.process.wait(SECONDS) == 0
        operator.stderr.close()


def test_errors_only_are_told_when_only_errors_are_asked_for(tmp_path: Path) -> None:
    config = write_config(tmp_path, logLevel="error")
    with Up(tmp_path, QUICKSTART, "--no-operator") as up:
        operator = Operator(tmp_path, "--config", str(config))
        up.read_until("pcs/chat Pending -> Running")
        assert operator.end() == 0
    assert operator.lines == []


def test_profiles_are_served_on_loopback_when_asked_for(tmp_path: Path) -> None:
    config = write_config(tmp_path, debugging={"enableProfiling": True, "pprofBindPort": 0})
    with Up(tmp_path, "--no-operator"), Operator(tmp_path, "--config", str(config)) as operator:
        assert operator.start["profiling"].startswith("http://127.0.0.1:")
        operator.start["health"] = operator.start["profiling"]
        operator.wait_for_output("Reflector.run", "debug/tasks")
        assert "function calls" in operator.ask("debug/profile?seconds=0.01").text
        assert operator.ask("debug/profile?seconds=soon").status == 400
        assert operator.ask("debug/memory").text == "counting from now on: ask again later\n"
        assert "src/grove" in operator.ask("debug/memory").text
        assert operator.end() == 0
