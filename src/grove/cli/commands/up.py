"""`grove up [FILE...]`: run an embedded cluster and the operator in the foreground."""

import gc
import sys
from enum import StrEnum
from pathlib import Path

import click
import msgspec

from grove.cli.common.options import FILE, ChoiceOf, UsageError, output_option
from grove.cli.common.output import Format

# The limit of what one process can manage.
MOST_NODES = 20_000
NODES = 8
NODE_RESOURCES = "cpu=32,memory=256Gi,nvidia.com/gpu=8,pods=110"


class UpKubelet(StrEnum):
    SIMULATED = "simulated"
    PROCESS = "process"
    NONE = "none"


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The validated options of the command line."""

    files: tuple[Path, ...]
    # None: not set. A new cluster gets the default, a persisted one keeps what it has.
    nodes: int | None
    node_resources: dict[str, str] | None
    kubelet: UpKubelet
    port: int
    has_operator: bool
    kubeconfig: Path
    # None: in memory.
    data_dir: Path | None
    output: Format


@click.command()
@click.argument("files", type=FILE, nargs=-1, help="Manifests to apply at the start.", metavar="[FILE...]")
@click.option(
    "--nodes",
    type=click.IntRange(0, MOST_NODES),
    show_default=str(NODES),
    help="Number of nodes: node-0 ...",
    metavar="N",
)
@click.option("--node-resources", show_default=NODE_RESOURCES, help="What every node has.", metavar="K=V,...")
@click.option(
    "--kubelet",
    type=ChoiceOf(UpKubelet),
    default=UpKubelet.SIMULATED.value,
    show_default=True,
    help="Who runs pods; process: this machine does.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="0: a free one. Loopback only.",
    metavar="N",
)
@click.option("--no-operator", is_flag=True, help="Serve the cluster only.")
@click.option(
    "--kubeconfig",
    type=FILE,
    default=".grove/kubeconfig",
    show_default=True,
    help="Written once the API answers, removed at the end.",
    metavar="PATH",
)
@click.option(
    "--data-dir", type=FILE, help="Keep the cluster there: it goes on from where it ended, however.", metavar="DIR"
)
@output_option
def up(
    files: tuple[Path, ...],
    nodes: int | None,
    node_resources: str | None,
    kubelet: UpKubelet,
    port: int,
    no_operator: bool,
    kubeconfig: Path,
    data_dir: Path | None,
    output: Format,
) -> None:
    """Run a local Kubernetes cluster with the operator.

    It runs in the foreground until Ctrl-C. Use it with kubectl and all grove commands.
    """
    if kubelet is UpKubelet.PROCESS and sys.platform != "linux":
        raise UsageError("--kubelet process: local processes are run on Linux only; use simulated or none")
    wishes = UpOptions(
        files=files,
        nodes=nodes,
        node_resources=None if node_resources is None else parse_resources(node_resources),
        kubelet=kubelet,
        port=port,
        has_operator=not no_operator,
        kubeconfig=kubeconfig,
        data_dir=data_dir,
        output=output,
    )
    # Modules that are loaded now stay loaded, so a collection would only cost time. `serve` enables the collector.
    gc.disable()
    from grove.cli.up.runner import serve

    serve(wishes)


def parse_resources(text: str) -> dict[str, str]:
    """Parse `--node-resources`. Raises `UsageError`."""
    from grove.api.values.quantities import parse_milli

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
