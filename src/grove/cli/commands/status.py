"""`grove status [NAME]`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grove.cli.common.options import (
    UsageError,
    bare_name,
    context_option,
    kubeconfig_option,
    namespace_option,
    output_option,
)
from grove.cli.common.output import Format, say, say_json, say_rows
from grove.errors import UserError

if TYPE_CHECKING:
    from grove.cli.common.connection import Connection
    from grove.cli.status.set_watcher import Followed
    from grove.cli.status.tree import SetNode


@click.command()
@click.argument("name", default="", help="One set; without it, a table of all.")
@click.option("--watch", "-w", is_flag=True, help="Go on showing what changes.")
@click.option("--all-namespaces", "-A", is_flag=True, help="Sets of all namespaces.")
@namespace_option
@kubeconfig_option
@context_option
@output_option
def status(
    name: str,
    watch: bool,
    all_namespaces: bool,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    output: Format,
) -> None:
    """Show PodCliqueSets as a table, or one as a tree.

    The tree shows replicas with their gangs, groups, cliques and pods.
    """
    from grove.cli.common.connection import run

    if name and all_namespaces:
        raise UsageError(f"--all-namespaces shows all sets; leave out {name}, or say with -n where it is")
    otherwise = f"status shows sets; ask `grove why {name}`, or give the name of its set"
    wanted = bare_name(name, "podcliqueset", otherwise=otherwise) if name else ""
    run(_status(wanted, watch, all_namespaces, namespace, kubeconfig, context, output))


async def _status(
    name: str,
    watch: bool,
    all_namespaces: bool,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    output: Format,
) -> None:
    from grove.cli.common.connection import connect

    async with connect(kubeconfig, context, namespace) as connection:
        where = "" if all_namespaces else connection.namespace
        if watch:
            await _watch(connection, where, name, output)
        elif name:
            await _show_one(connection, where, name, output)
        else:
            await _show_table(connection, where, output)


async def _show_one(connection: "Connection", namespace: str, name: str, output: Format) -> None:
    from grove.cli.status.tree_view import tree_rows

    trees = await _trees(connection, namespace, name)
    if not trees:
        raise UserError(f"no PodCliqueSet {name!r} in namespace {namespace!r}; `grove status -A` lists all")
    if output is Format.JSON:
        say_json(trees[0])
    else:
        say_rows(tree_rows(trees[0], connection.clock.now()))


async def _show_table(connection: "Connection", namespace: str, output: Format) -> None:
    from grove.cli.status.tree_view import table_rows

    trees = await _trees(connection, namespace, "")
    if output is Format.JSON:
        say_json(trees)
    elif trees:
        say_rows(table_rows(trees, connection.clock.now(), has_namespaces=not namespace))
    else:
        say(f"no PodCliqueSets in {f'namespace {namespace}' if namespace else 'any namespace'}")


async def _trees(connection: "Connection", namespace: str, name: str) -> "list[SetNode]":
    return await _followed(connection, namespace, name).look_once()


def _followed(connection: "Connection", namespace: str, name: str) -> "Followed":
    from grove.cli.common.random_source import fresh_random
    from grove.cli.status.set_watcher import Followed

    return Followed(connection.client, connection.clock, fresh_random(), namespace=namespace, name=name)


async def _watch(connection: "Connection", namespace: str, name: str, output: Format) -> None:
    import asyncio

    from grove.cli.status.set_watcher import show_for_ever

    followed = _followed(connection, namespace, name)
    # The first read fails at once where a watch would retry forever: no such set, no such cluster.
    found = await followed.look_once()
    if name and not found:
        raise UserError(f"no PodCliqueSet {name!r} in namespace {namespace!r}; `grove status -A` lists all")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(followed.run())
        tasks.create_task(show_for_ever(followed, connection.clock, output, is_one=bool(name)))
