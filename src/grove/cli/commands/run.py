"""`grove run FILE`: run sets to completion on a private cluster."""

import gc
import sys
from enum import StrEnum
from pathlib import Path

import click
import msgspec

from grove.cli.commands.up import MOST_NODES, NODE_RESOURCES, NODES, parse_resources
from grove.cli.common.options import FILE, ChoiceOf, UsageError, output_option, parse_timeout
from grove.cli.common.output import Format


class RunKubelet(StrEnum):
    PROCESS = "process"
    SIMULATED = "simulated"


class Until(StrEnum):
    """The state that a run waits for."""

    FINISHED = "finished"
    AVAILABLE = "available"


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The validated options of the command line."""

    file: Path
    timeout_seconds: float | None
    nodes: int
    node_resources: dict[str, str]
    kubelet: RunKubelet
    until: Until
    output: Format


@click.command()
@click.argument("file", type=FILE, help="Manifests with the sets to run; `-` is standard input.")
@click.option("--timeout", default="", help="Give up after, such as 10m: exit code 124.", metavar="D")
@click.option(
    "--nodes",
    type=click.IntRange(0, MOST_NODES),
    default=NODES,
    show_default=True,
    help="Number of nodes.",
    metavar="N",
)
@click.option(
    "--node-resources",
    default=NODE_RESOURCES,
    show_default=True,
    help="What every node has.",
    metavar="K=V,...",
)
@click.option(
    "--kubelet",
    type=ChoiceOf(RunKubelet),
    default=RunKubelet.PROCESS.value,
    show_default=True,
    help="Local processes, or only the pretence of them.",
)
@click.option(
    "--until",
    type=ChoiceOf(Until),
    default=Until.FINISHED.value,
    show_default=True,
    help="When it is done: sets ended, or are available.",
)
@output_option
def run(
    file: Path,
    timeout: str,
    nodes: int,
    node_resources: str,
    kubelet: RunKubelet,
    until: Until,
    output: Format,
) -> int:
    """Run PodCliqueSets to completion on a private cluster.

    Exit codes: 0 all sets succeeded, 1 a set failed, 124 timeout, 130 Ctrl-C, 143 SIGTERM.
    """
    if kubelet is RunKubelet.PROCESS and sys.platform != "linux":
        raise UsageError("--kubelet process: local processes are run on Linux only; use --kubelet simulated")
    wishes = RunOptions(
        file=file,
        timeout_seconds=parse_timeout(timeout),
        nodes=nodes,
        node_resources=parse_resources(node_resources),
        kubelet=kubelet,
        until=until,
        output=output,
    )
    # Modules that are loaded now stay loaded, so a collection would only cost time. `run_file` enables the collector.
    gc.disable()
    from grove.cli.run.runner import run_file

    return run_file(wishes)
