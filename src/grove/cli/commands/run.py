"""`grove run FILE`: a job from beginning to end, on a cluster of its own."""

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
    """What a run waits for."""

    FINISHED = "finished"
    AVAILABLE = "available"


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for, checked."""

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
    """Run sets to their end on a cluster of their own: 0 they succeeded, 1 one failed, 124 out of time."""
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
    # What is loaded now stays: looking for garbage in it would only take time. `run_file` switches it on again.
    gc.disable()
    from grove.cli.run.runner import run_file

    return run_file(wishes)
