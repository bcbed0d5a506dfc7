"""`grove status [NAME]`."""

from typing import TYPE_CHECKING

import click

from grove.cli.common.data_format import DataFormat, data_output_option, print_data
from grove.cli.common.name_completion import complete_names
from grove.cli.common.options import ClusterOptions, UsageError, cluster_options, parse_set_name
from grove.cli.common.output import Format, is_terminal, page_height, print_line, print_rows, width
from grove.operations.hints import hint

if TYPE_CHECKING:
    from grove.cli.status.set_watcher import SetWatcher
    from grove.operations.connection import Connection

FOOTER = "Some lines are folded; --all shows every line."


@click.command()
@click.argument(
    "name",
    nargs=-1,
    help="The set to show as a tree. Default: a table of all sets.",
    metavar="[NAME]",
    shell_complete=complete_names(has_bare_names=True),
)
@click.option("--watch", "-w", is_flag=True, help="Keep running and show changes.")
@click.option("--all-namespaces", "-A", is_flag=True, help="Show the sets of all namespaces.")
@click.option("--all", "show_all", is_flag=True, help="Show every line of a large set, instead of one page.")
@click.option(
    "--selector", "-l", default="", help="Show only sets with these labels, such as team=a.", metavar="LABELS"
)
@cluster_options
@data_output_option(*DataFormat)
def status(
    name: tuple[str, ...],
    watch: bool,
    all_namespaces: bool,
    show_all: bool,
    selector: str,
    cluster: ClusterOptions,
    output: DataFormat,
) -> None:
    """Show PodCliqueSets as a table, or one as a tree.

    The tree shows replicas with their gangs, groups, cliques and pods.
    """
    from grove.cli.common.connection import run_connected

    wanted = _parse_name(name)
    if wanted and all_namespaces:
        raise UsageError(f"--all-namespaces shows all sets; omit {wanted}, or give its namespace with -n")
    if wanted and selector:
        raise UsageError(f"--selector chooses among all sets; omit {wanted}, or omit --selector")
    if watch and output in (DataFormat.YAML, DataFormat.NAME, DataFormat.WIDE):
        raise UsageError(f"--watch prints text or json, not {output}; omit --watch, or choose another format")

    async def show(connection: "Connection") -> None:
        namespace = "" if all_namespaces else connection.namespace
        watcher = _new_watcher(connection, namespace, wanted, selector)
        if watch:
            await _watch(connection, watcher, namespace, wanted, Format(output.value))
        elif wanted:
            await _show_one(connection, watcher, wanted, output, show_all=show_all)
        else:
            await _show_table(connection, watcher, namespace, output)

    run_connected(cluster, show)


def _parse_name(words: tuple[str, ...]) -> str:
    if not words:
        return ""
    text = " ".join(words)
    return parse_set_name(words, hint=f"status shows sets; use `{hint(f'why {text}')}`, or give the name of its set")


async def _show_one(
    connection: "Connection", watcher: "SetWatcher", name: str, output: DataFormat, *, show_all: bool
) -> None:
    from grove.cli.status.tree_view import PageSize, page_rows
    from grove.operations.resource_args import full_name, no_such_set

    trees = await watcher.list_once()
    if not trees:
        raise no_such_set(name, connection.namespace)
    if not print_data(trees[0], output, [full_name("podcliqueset", name)]):
        columns = width() if is_terminal() and output is not DataFormat.WIDE else None
        page = PageSize(width=columns, height=None if show_all else page_height())
        print_rows(page_rows(trees, connection.clock.now(), page, footer=FOOTER))


async def _show_table(connection: "Connection", watcher: "SetWatcher", namespace: str, output: DataFormat) -> None:
    from grove.cli.status.tree_view import table_rows
    from grove.operations.resource_args import full_name

    trees = await watcher.list_once()
    if print_data(trees, output, [full_name("podcliqueset", tree.name) for tree in trees]):
        return
    if trees:
        is_wide = output is DataFormat.WIDE
        columns = width() if is_terminal() and not is_wide else None
        now = connection.clock.now()
        print_rows(table_rows(trees, now, has_namespaces=not namespace, width=columns, is_wide=is_wide))
    else:
        print_line(f"no PodCliqueSets in {f'namespace {namespace}' if namespace else 'any namespace'}")


def _new_watcher(connection: "Connection", namespace: str, name: str, selector: str) -> "SetWatcher":
    from grove.cli.status.set_watcher import SetWatcher
    from grove.operations.random_source import fresh_random

    return SetWatcher(
        connection.client, connection.clock, fresh_random(), namespace=namespace, name=name, selector=selector
    )


async def _watch(connection: "Connection", watcher: "SetWatcher", namespace: str, name: str, output: Format) -> None:
    import asyncio

    from grove.cli.status.set_watcher import show_changes
    from grove.operations.resource_args import no_such_set

    # The first read fails at once where a watch would retry forever: no such set, no such cluster.
    found = await watcher.list_once()
    if name and not found:
        raise no_such_set(name, namespace)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watcher.run())
        tasks.create_task(show_changes(watcher, connection.clock, output, home=connection.namespace))
