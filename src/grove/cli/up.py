"""`grove up [FILE...]`: an embedded cluster and the operator, in the foreground."""

import gc
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from grove.cli.options import Output, UsageError
from grove.cli.output import Format

# More than one process can look after.
MOST_NODES = 20_000
NODE_RESOURCES = "cpu=32,memory=256Gi,nvidia.com/gpu=8,pods=110"


class Kubelet(StrEnum):
    SIMULATED = "simulated"
    PROCESS = "process"
    NONE = "none"


Files = Annotated[list[Path] | None, typer.Argument(help="Manifests to apply at the start.", metavar="[FILE...]")]
NodeCount = Annotated[
    int, typer.Option("--nodes", help="Number of nodes: node-0 ...", min=0, max=MOST_NODES, metavar="N")
]
NodeResources = Annotated[str, typer.Option("--node-resources", help="What every node has.", metavar="K=V,...")]
KubeletOption = Annotated[Kubelet, typer.Option("--kubelet", help="Who runs pods; process: this machine does.")]
Port = Annotated[int, typer.Option("--port", help="0: a free one. Loopback only.", min=0, max=65535, metavar="N")]
NoOperator = Annotated[bool, typer.Option("--no-operator", help="Serve the cluster only.")]
KubeconfigFile = Annotated[
    Path, typer.Option("--kubeconfig", help="Written once the API answers, removed at the end.", metavar="PATH")
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Keep the cluster there (comes later).", metavar="DIR")
]


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for, checked."""

    files: tuple[Path, ...]
    nodes: int
    node_resources: dict[str, str]
    kubelet: Kubelet
    port: int
    has_operator: bool
    kubeconfig: Path
    output: Format


def up(
    files: Files = None,
    nodes: NodeCount = 8,
    node_resources: NodeResources = NODE_RESOURCES,
    kubelet: KubeletOption = Kubelet.SIMULATED,
    port: Port = 0,
    no_operator: NoOperator = False,
    kubeconfig: KubeconfigFile = Path(".grove/kubeconfig"),
    data_dir: DataDir = None,
    output: Output = Format.TEXT,
) -> None:
    """Start a Kubernetes of your own, with nodes and the operator, until Ctrl-C."""
    if kubelet is Kubelet.PROCESS and sys.platform != "linux":
        raise UsageError("--kubelet process: local processes are run on Linux only; use simulated or none")
    if data_dir is not None:
        raise UsageError("--data-dir: keeping the cluster on disk comes later; leave it out, the cluster is in memory")
    wishes = Wishes(
        files=tuple(files or ()),
        nodes=nodes,
        node_resources=parse_resources(node_resources),
        kubelet=kubelet,
        port=port,
        has_operator=not no_operator,
        kubeconfig=kubeconfig,
        output=output,
    )
    # What is loaded now stays: looking for garbage in it would only take time. `serve` switches it on again.
    gc.disable()
    from grove.cli.serving import serve

    serve(wishes)


def parse_resources(text: str) -> dict[str, str]:
    """What `--node-resources` says. Raises `UsageError`."""
    from grove.api.quantities import parse_milli

    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, amount = part.strip().partition("=")
        if not (name and equals and amount):
            raise UsageError(f"--node-resources: {part!r} is not K=V; write for example {NODE_RESOURCES}")
        try:
            milli = parse_milli(amount)
        except ValueError as error:
            raise UsageError(f"--node-resources: {name}: {error}; write for example {NODE_RESOURCES}") from error
        if milli < 0:
            raise UsageError(f"--node-resources: {name}: {amount} is less than nothing; write 0 or more")
        found[name] = amount
    found.setdefault("pods", "110")
    return found
