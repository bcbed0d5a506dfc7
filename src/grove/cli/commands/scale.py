"""`grove scale KIND/NAME --replicas N`."""

from typing import TYPE_CHECKING

import click

from grove.cli.common.data_format import DataFormat, data_output_option, print_data
from grove.cli.common.name_completion import complete_names
from grove.cli.common.options import ClusterOptions, UsageError, cluster_options, parse_object_names, yes_option
from grove.cli.common.output import print_error, print_line
from grove.operations.hints import name_with_namespace
from grove.operations.object_ref import ObjectRef

if TYPE_CHECKING:
    from grove.operations.connection import Connection
    from grove.operations.scale_subresource import ScaleResult

SCALED_KINDS = ("podcliqueset", "podcliquescalinggroup", "podclique")


@click.command()
@click.argument(
    "targets",
    nargs=-1,
    required=True,
    help="The sets, groups or cliques: chat, pcsg/chat-0-decode, or pclq chat-0-router.",
    metavar="KIND/NAME...",
    shell_complete=complete_names(has_bare_names=True),
)
@click.option("--replicas", type=click.IntRange(min=0), required=True, help="The new number of replicas.", metavar="N")
@click.option(
    "--current-replicas",
    type=click.IntRange(min=0),
    help="Scale only if the object has this number of replicas now.",
    metavar="N",
)
@yes_option
@cluster_options
@data_output_option(DataFormat.TEXT, DataFormat.JSON, DataFormat.YAML, DataFormat.NAME)
def scale(
    targets: tuple[str, ...],
    replicas: int,
    current_replicas: int | None,
    yes: bool,
    cluster: ClusterOptions,
    output: DataFormat,
) -> None:
    """Set the number of replicas of a set, group or clique."""
    from grove.cli.common.connection import run_writing

    refs = parse_object_names(targets)
    for ref in refs:
        if ref.kind not in ("", *SCALED_KINDS):
            raise UsageError(f"{ref}: only sets, groups and cliques have replicas; use pcs, pcsg or pclq")
    what = ", ".join(str(ref) if ref.kind else ref.name for ref in refs)
    run_writing(
        cluster,
        lambda connection: _scale(connection, refs, replicas, current_replicas, output),
        action=f"scale {what} to {replicas}",
        is_confirmed=yes,
    )


async def _scale(
    connection: "Connection", refs: list[ObjectRef], replicas: int, expected: int | None, output: DataFormat
) -> None:
    from grove.operations.resource_args import find_only_kind, full_name
    from grove.operations.scale_subresource import set_replicas

    results = []
    for wanted in refs:
        ref = await find_only_kind(connection.client, connection.namespace, wanted, SCALED_KINDS)
        results.append(await set_replicas(connection, ref, replicas, expected))
        if output is DataFormat.TEXT:
            _print_result(results[-1])
    print_data(results, output, [full_name(one.kind, one.name) for one in results])


def _print_result(result: "ScaleResult") -> None:
    for warning in result.warnings:
        print_error(f"Warning: {warning}")
    what = name_with_namespace(f"{result.kind}/{result.name}", result.namespace)
    if result.before == result.replicas:
        print_line(f"{what} already has {result.replicas} replicas")
    else:
        print_line(f"{what} scaled from {result.before} to {result.replicas}")
