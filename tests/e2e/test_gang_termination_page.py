"""The commands of docs/explanation/gang-termination.md work as shown: in virtual time, and with kubectl on grove up."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.console import GROVE, ROOT, environment, grove
from tests.e2e.served import Kubectl, grove_up
from tests.markdown import fences

PAGE = ROOT / "docs" / "explanation" / "gang-termination.md"
ELISION = "..."


def commands(*, of_kubectl: bool) -> list[tuple[str, list[str]]]:
    """Each command with the lines that it prints; blocks that use a cluster, or those that do not."""
    found: list[tuple[str, list[str]]] = []
    for fence in fences(PAGE.read_text()):
        if fence.language != "console" or ("$ kubectl" in fence.text) is not of_kubectl:
            continue
        for line in fence.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def run(command: str, folder: Path, kubeconfig: str) -> str:
    env = environment(folder, {"KUBECONFIG": kubeconfig})
    env["PATH"] = f"{GROVE.parent}:{env['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(("command", "shown"), commands(of_kubectl=False), ids=lambda value: str(value)[-40:])
def test_a_simulation_tells_the_lines_of_the_page(command: str, shown: list[str]) -> None:
    program, *arguments = shlex.split(command)
    assert program == "grove"
    said = grove(ROOT, *arguments)
    assert (said.code, said.err) == (0, "")
    lines = iter(said.out.splitlines())
    # In this order; other lines may stand between them where the page leaves some out.
    assert [line for line in shown if line != ELISION and line not in lines] == []
    assert len(shown) > 3


def masked(text: str) -> list[str]:
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    return re.sub(r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d \(in [^)]+\)", "TIME", text).splitlines()


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    """The example with delays that a slow machine cannot reach."""
    example = (ROOT / "examples" / "gang-termination.yaml").read_text()
    assert "terminationDelay: 1m" in example
    manifest = tmp_path / "serve.yaml"
    manifest.write_text(re.sub(r"terminationDelay: (1m|30s)", "terminationDelay: 4h", example))
    with grove_up(tmp_path, str(manifest)) as resource_info:
        yield resource_info


def wait(kubectl: Kubectl, what: str, condition: str, *options: str) -> None:
    kubectl("wait", what, f"--for={condition}", "--timeout=120s", *options)


@pytest.mark.kubectl
def test_the_commands_work_on_grove_up(kubectl: Kubectl, tmp_path: Path) -> None:
    wait(kubectl, "pcs/serve", "create")
    wait(kubectl, "pcs/serve", "jsonpath={.status.availableReplicas}=1")
    wait(kubectl, "pcsg/serve-0-engine", "jsonpath={.status.availableReplicas}=2")
    for clique, count in (("engine-0-worker", 3), ("engine-1-worker", 3), ("router", 2)):
        wait(kubectl, f"pclq/serve-0-{clique}", f"jsonpath={{.status.readyReplicas}}={count}")
    for command, shown in commands(of_kubectl=True):
        if "why" in command:
            # The breach is written down a moment after the pods are gone, others come a moment later, and then the
            # scheduler answers.
            lost = "pclq/serve-0-engine-0-worker"
            wait(kubectl, lost, "condition=MinAvailableBreached")
            wait(kubectl, lost, "jsonpath={.status.scheduledReplicas}=0")
            wait(kubectl, lost, "jsonpath={.status.replicas}=3")
            wait(kubectl, "pod", "jsonpath={.status.conditions[0].reason}=Unschedulable",
                 "-l", "grove.io/podclique=serve-0-engine-0-worker")  # fmt: skip
        printed = masked(run(command, tmp_path, str(kubectl.kubeconfig)))
        if shown:
            assert printed == shown, command
