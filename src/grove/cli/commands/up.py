"""`grove up [FILE...]`: run an embedded cluster and the operator in the foreground."""

import gc
import sys
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

import click
import msgspec

from grove.cli.common.options import FILE, ChoiceOf, UsageError, output_option
from grove.cli.common.output import Format

# One process cannot manage more.
MAX_NODES = 20_000
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
    # How long a simulated pod takes to become ready.
    ready_after: timedelta
    port: int
    metrics_port: int
    has_operator: bool
    kubeconfig: Path
    # None: in memory.
    data_dir: Path | None
    output: Format


nodes_option = click.option(
    "--nodes",
    type=click.IntRange(0, MAX_NODES),
    show_default=str(NODES),
    help="Number of nodes, named node-0, node-1, ...",
    metavar="N",
)
node_resources_option = click.option(
    "--node-resources", show_default=NODE_RESOURCES, help="Resources of every node.", metavar="K=V,..."
)


@click.command()
@click.argument("files", type=FILE, nargs=-1, help="Manifests to apply at the start.", metavar="[FILE...]")
@nodes_option
@node_resources_option
@click.option(
    "--kubelet",
    type=ChoiceOf(UpKubelet),
    default=UpKubelet.SIMULATED.value,
    show_default=True,
    help="How pods run: simulated, as local processes, or not at all (you write their status).",
)
@click.option(
    "--ready-after",
    default="0s",
    show_default=True,
    help="How long simulated pods take to become ready, for example 10s.",
    metavar="D",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port of the API server, on loopback only. 0: a free port.",
    metavar="N",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port of the operator's /metrics, on loopback only. 0: a free port.",
    metavar="N",
)
@click.option("--no-operator", is_flag=True, help="Start the cluster without the operator.")
@click.option(
    "--kubeconfig",
    type=FILE,
    default=".grove/kubeconfig",
    show_default=True,
    help="Where to write the kubeconfig. It is removed at the end.",
    metavar="PATH",
)
@click.option(
    "--data-dir",
    type=FILE,
    help="Persist the cluster in DIR and resume from it, even after a crash. Default: in memory.",
    metavar="DIR",
)
@output_option
def up(
    files: tuple[Path, ...],
    nodes: int | None,
    node_resources: str | None,
    kubelet: UpKubelet,
    ready_after: str,
    port: int,
    metrics_port: int,
    no_operator: bool,
    kubeconfig: Path,
    data_dir: Path | None,
    output: Format,
) -> None:
    """Run a local Kubernetes cluster with the operator.

    It runs in the foreground until Ctrl-C. Use it with kubectl and all grove commands.
    """
    if kubelet is UpKubelet.PROCESS:
        check_platform()
    options = UpOptions(
        files=files,
        nodes=nodes,
        node_resources=None if node_resources is None else parse_resources(node_resources),
        kubelet=kubelet,
        ready_after=parse_ready_after(ready_after, kubelet),
        port=port,
        metrics_port=metrics_port,
        has_operator=not no_operator,
        kubeconfig=kubeconfig,
        data_dir=data_dir,
        output=output,
    )
    # Modules that are loaded now stay loaded, so a collection would only cost time. `serve` enables the collector.
    gc.disable()
    from grove.cli.up.runner import serve

    serve(options)


def check_platform() -> None:
    """Raise `UsageError` if pods cannot run as local processes here."""
    if sys.platform != "linux":
        raise UsageError("--kubelet process: local processes are supported on Linux only; use --kubelet simulated")


def parse_ready_after(text: str, kubelet: UpKubelet) -> timedelta:
    """Parse `--ready-after`. Raises `UsageError`."""
    from grove.api.values.durations import parse_duration

    try:
        delay = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--ready-after: {error}; write for example 10s") from error
    if delay and kubelet is not UpKubelet.SIMULATED:
        raise UsageError(
            f"--ready-after: only simulated pods become ready after a delay; omit it, or --kubelet {kubelet.value}"
        )
    return delay


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
            raise UsageError(f"--node-resources: {name}: {amount} is negative; write 0 or more")
        found[name] = amount
    found.setdefault("pods", "110")
    return found
