"""`grove plan -f FILE`: predict the effect of a change."""

from pathlib import Path

import click

from grove.cli.commands.apply import manifest_options, read_manifest_options
from grove.cli.common.options import ClusterOptions, cluster_options, output_option
from grove.cli.common.output import Format, line_width, print_json, print_rows


@click.command()
@manifest_options
@cluster_options
@output_option
def plan(
    filename: tuple[Path, ...], more: tuple[Path, ...], recursive: bool, cluster: ClusterOptions, output: Format
) -> None:
    """Predict what applying manifests would do.

    Prints which pods are replaced, in which order, and what is down meanwhile. Changes nothing.
    """
    from grove.cli.common.connection import run_connected
    from grove.cli.plan.runner import predict_change, read_cluster
    from grove.cli.plan.view import plan_rows

    documents = read_manifest_options(filename, more, recursive=recursive, cluster=cluster)
    # The cluster is read in real time; the change runs on a virtual clock.
    state = run_connected(
        cluster,
        lambda connection: read_cluster(connection.transport, documents, connection.namespace, connection.clock.now()),
    )
    result = predict_change(state)
    if output is Format.JSON:
        print_json(result)
    else:
        print_rows(plan_rows(result, line_width()))
