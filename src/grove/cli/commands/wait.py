"""`grove wait --podcliques=NAME:COUNT ...`."""

from typing import TYPE_CHECKING

import click

from grove.cli.common.options import ClusterOptions, UsageError, cluster_options

if TYPE_CHECKING:
    from grove.api.values.clique_counts import CliqueCount
    from grove.operations.connection import Connection


@click.command()
@click.option(
    "--podcliques",
    "-p",
    multiple=True,
    required=True,
    metavar="NAME:COUNT",
    help="A PodClique, and how many of its pods must be ready. Can be repeated.",
)
@cluster_options
def wait(podcliques: tuple[str, ...], cluster: ClusterOptions) -> None:
    """Wait until PodCliques have enough ready pods.

    The init container of a pod with a start-up order runs this command. It exits with 0 when all PodCliques have
    started at the same time.
    """
    from grove.cli.common.connection import run_waiting

    dependencies = _parse(podcliques)
    run_waiting(cluster, lambda connection: _wait(connection, dependencies))


def _parse(podcliques: tuple[str, ...]) -> "tuple[CliqueCount, ...]":
    from grove.api.values.clique_counts import parse_clique_count

    try:
        return tuple(parse_clique_count(text) for text in podcliques)
    except ValueError as error:
        raise UsageError(f"--podcliques {error}") from error


async def _wait(connection: "Connection", dependencies: "tuple[CliqueCount, ...]") -> None:
    import asyncio
    import signal
    import sys

    from grove.cli.common.output import print_line
    from grove.cli.wait.clique_waiter import CliqueWaiter
    from grove.cli.wait.pod_info import gang_selector
    from grove.operations.random_source import fresh_random

    # As the first process of a container it would ignore the signal.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, sys.exit, 1)
    waiter = CliqueWaiter(
        connection.client,
        connection.clock,
        fresh_random(),
        namespace=connection.namespace,
        label_selector=gang_selector(),
    )
    await waiter.wait(dependencies, print_line)
    print_line(f"started: {', '.join(f'podclique/{each.name}' for each in dependencies)}")
