"""`grove run FILE`: a job from beginning to end, on a cluster of its own."""

import gc
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from grove.cli.options import Output, UsageError, parse_timeout
from grove.cli.output import Format
from grove.cli.up import MOST_NODES, NODE_RESOURCES, NodeResources, parse_resources


class Kubelet(StrEnum):
    PROCESS = "process"
    SIMULATED = "simulated"


class Until(StrEnum):
    """What a run waits for."""

    FINISHED = "finished"
    AVAILABLE = "available"


File = Annotated[Path, typer.Argument(help="Manifests with the sets to run; `-` is standard input.", metavar="FILE")]
Timeout = Annotated[str, typer.Option("--timeout", help="Give up after, such as 10m: exit code 124.", metavar="D")]
NodeCount = Annotated[int, typer.Option("--nodes", help="Number of nodes.", min=0, max=MOST_NODES, metavar="N")]
KubeletOption = Annotated[Kubelet, typer.Option("--kubelet", help="Local processes, or only the pretence of them.")]
UntilOption = Annotated[Until, typer.Option("--until", help="When it is done: sets ended, or are available.")]


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for, checked."""

    file: Path
    timeout_seconds: float | None
    nodes: int
    node_resources: dict[str, str]
    kubelet: Kubelet
    until: Until
    output: Format


def run(
    file: File,
    timeout: Timeout = "",
    nodes: NodeCount = 8,
    node_resources: NodeResources = NODE_RESOURCES,
    kubelet: KubeletOption = Kubelet.PROCESS,
    until: UntilOption = Until.FINISHED,
    output: Output = Format.TEXT,
) -> int:
    """Run sets to their end on a cluster of their own: 0 they succeeded, 1 one failed, 124 out of time."""
    if kubelet is Kubelet.PROCESS and sys.platform != "linux":
        raise UsageError("--kubelet process: local processes are run on Linux only; use --kubelet simulated")
    wishes = Wishes(
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
    from grove.cli.running import run_file

    return run_file(wishes)
