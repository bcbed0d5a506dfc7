"""`grove run FILE`: run sets to completion on a private cluster."""

import gc
from enum import StrEnum
from pathlib import Path

import click
import msgspec

from grove.cli.commands.up import (
    NODE_RESOURCES,
    NODES,
    check_platform,
    node_resources_option,
    nodes_option,
    parse_resources,
)
from grove.cli.common.options import FILE, ChoiceOf, output_option, parse_timeout
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
@click.option(
    "--timeout",
    default="",
    help="Give up after this duration, such as 10m, with exit code 124. Default: no limit.",
    metavar="DURATION",
)
@nodes_option
@node_resources_option
@click.option(
    "--kubelet",
    type=ChoiceOf(RunKubelet),
    default=RunKubelet.PROCESS.value,
    show_default=True,
    help="How pods run: as local processes, or simulated.",
)
@click.option(
    "--until",
    type=ChoiceOf(Until),
    default=Until.FINISHED.value,
    show_default=True,
    help="When the run ends: when all sets finished, or when all are available.",
)
@output_option
def run(
    file: Path,
    timeout: str,
    nodes: int | None,
    node_resources: str | None,
    kubelet: RunKubelet,
    until: Until,
    output: Format,
) -> int:
    """Run PodCliqueSets to completion on a private cluster.

    Exit codes: 0 all sets succeeded, 1 a set failed or cannot start, 124 timeout, 130 Ctrl-C, 143 SIGTERM.
    """
    if kubelet is RunKubelet.PROCESS:
        check_platform()
    options = RunOptions(
        file=file,
        timeout_seconds=parse_timeout(timeout),
        nodes=NODES if nodes is None else nodes,
        node_resources=parse_resources(NODE_RESOURCES if node_resources is None else node_resources),
        kubelet=kubelet,
        until=until,
        output=output,
    )
    # Modules that are loaded now stay loaded, so a collection would only cost time. `run_file` enables the collector.
    gc.disable()
    from grove.cli.run.runner import run_file

    return run_file(options)
