"""`grove top`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grove.cli.common.options import ClusterOptions, context_option, kubeconfig_option, output_option
from grove.cli.common.output import Format, is_terminal, page_height, print_json, print_rows, width

if TYPE_CHECKING:
    from grove.operations.connection import Connection


@click.command()
@click.option(
    "--rack-label",
    default="topology.kubernetes.io/rack",
    show_default=True,
    help="The node label that groups nodes; empty: no groups.",
    metavar="KEY",
)
@click.option("--all", "show_all", is_flag=True, help="Show every node of a large cluster, instead of one page.")
@kubeconfig_option
@context_option
@output_option
def top(rack_label: str, show_all: bool, kubeconfig: Path | None, context: str, output: Format) -> None:
    """Show free resources of nodes and racks, and who holds them.

    Counts what pods request, in all namespaces. Free is what a new pod can get: nothing on a node that is cordoned or
    not ready.
    """
    from grove.cli.common.connection import run_connected

    cluster = ClusterOptions(namespace="", kubeconfig=kubeconfig, context=context)
    run_connected(cluster, lambda connection: _show(connection, rack_label, output, show_all=show_all))


async def _show(connection: "Connection", rack_label: str, output: Format, *, show_all: bool) -> None:
    import asyncio

    from grove.api.resources import NODES, PODS
    from grove.cli.top.usage import TopNode, TopPod, compute_usage, usage_json
    from grove.cli.top.view import top_tables

    nodes, pods = await asyncio.gather(
        connection.client.list(NODES.viewed_as(TopNode)), connection.client.list(PODS.viewed_as(TopPod))
    )
    usage = compute_usage(nodes.items, pods.items, rack_label)
    if output is Format.JSON:
        print_json(usage_json(usage))
        return
    columns = width() if is_terminal() else None
    for table in top_tables(usage, columns, None if show_all else page_height()):
        print_rows(table)
