"""`grove events [KIND/NAME]`."""

from typing import TYPE_CHECKING

import click

from grove.cli.common.data_format import DataFormat, data_output_option, print_data
from grove.cli.common.name_completion import complete_names
from grove.cli.common.options import ClusterOptions, UsageError, cluster_options, parse_one_ref
from grove.cli.common.output import print_json_line, print_line, print_rows
from grove.operations.object_ref import ObjectRef

if TYPE_CHECKING:
    from grove.cli.inspect.object_events import EventEntry, EventFilter
    from grove.operations.connection import Connection

_NO_TARGET = ObjectRef("", "")


@click.command()
@click.argument(
    "what",
    nargs=-1,
    help="A set, group, clique, gang or pod, such as pcs/chat. Default: all sets of the namespace.",
    metavar="[KIND/NAME]",
    shell_complete=complete_names(has_bare_names=True),
)
@click.option("--for", "for_", default="", help="The same as KIND/NAME, as in kubectl.", metavar="KIND/NAME")
@click.option("--watch", "-w", is_flag=True, help="Keep running and print new events.")
@click.option("--types", default="", help="Only events of these types: Normal, Warning.", metavar="TYPE,...")
@click.option("--all-namespaces", "-A", is_flag=True, help="Events of all namespaces.")
@cluster_options
@data_output_option(*DataFormat)
def events(
    what: tuple[str, ...],
    for_: str,
    watch: bool,
    types: str,
    all_namespaces: bool,
    cluster: ClusterOptions,
    output: DataFormat,
) -> None:
    """List the events of a set and of all its objects.

    Also those of pods that are deleted by now. The newest comes last.
    """
    from grove.cli.common.connection import run_connected

    words = (*what, *((for_,) if for_ else ()))
    wanted = parse_one_ref(words) if words else _NO_TARGET
    if words and all_namespaces:
        raise UsageError(
            "--all-namespaces lists the events of all sets; omit the object, or give its namespace with -n"
        )
    if watch and output in (DataFormat.YAML, DataFormat.NAME):
        raise UsageError(f"--watch prints text, wide or json, not {output}; omit --watch, or choose another format")
    shown = _parse_types(types)

    async def show(connection: "Connection") -> None:
        from grove.cli.inspect.object_events import build_filter
        from grove.operations.resource_args import find_kind

        namespace = "" if all_namespaces else connection.namespace
        target = await find_kind(connection.client, namespace, wanted) if words else wanted
        chosen = await build_filter(connection.client, namespace, target)
        if watch:
            await _watch(connection, namespace, chosen, shown, output)
        else:
            await _list(connection, namespace, chosen, shown, output)

    run_connected(cluster, show)


def _parse_types(text: str) -> frozenset[str]:
    types = [word.strip() for word in text.split(",") if word.strip()]
    for word in types:
        if word.lower() not in ("normal", "warning"):
            raise UsageError(f"--types: {word!r} is not a type of events; use Normal or Warning")
    return frozenset(word.capitalize() for word in types or ("Normal", "Warning"))


async def _list(
    connection: "Connection", namespace: str, chosen: "EventFilter", types: frozenset[str], output: DataFormat
) -> None:
    from grove.cli.inspect.event_view import event_rows
    from grove.cli.inspect.object_events import list_events

    found = [one for one in await list_events(connection.client, namespace, chosen) if one.type in types]
    if print_data(found, output, [one.object for one in found]):
        return
    if found:
        rows = event_rows(
            found, connection.clock.now(), is_wide=output is DataFormat.WIDE, has_namespaces=not namespace
        )
        print_rows(rows)
    else:
        about = f" of {chosen.target}" if chosen.target.kind else ""
        where = f"namespace {namespace}" if namespace else "any namespace"
        print_line(f"no events{about} in {where}; the API server deletes events after an hour")


async def _watch(
    connection: "Connection", namespace: str, chosen: "EventFilter", types: frozenset[str], output: DataFormat
) -> None:
    """Print the events that exist, then every new or repeated one, until cancelled."""
    from grove.cli.inspect.object_events import OBSERVED_EVENTS, ObservedEvent, to_entry
    from grove.kube.reflector import Reflector
    from grove.kube.store import Store
    from grove.operations.random_source import fresh_random

    # The first read fails at once where a watch would retry forever.
    await _list(connection, namespace, chosen, types, output)
    listing = await connection.client.list(OBSERVED_EVENTS, namespace=namespace)
    store: Store[ObservedEvent] = Store()
    store.apply_list(listing, store.begin_list())

    def show(old: ObservedEvent | None, new: ObservedEvent | None) -> None:
        if new is not None and chosen.matches(new) and new.type in types:
            _print_event(connection, to_entry(new), output)

    store.subscribe(show)
    await Reflector(
        connection.client, OBSERVED_EVENTS, store, connection.clock, fresh_random(), namespace=namespace
    ).run()


def _print_event(connection: "Connection", event: "EventEntry", output: DataFormat) -> None:
    from grove.cli.common.output import plain_lines
    from grove.cli.inspect.event_view import event_row

    if output is DataFormat.JSON:
        print_json_line(event)
    else:
        row = event_row(event, connection.clock.now(), is_wide=output is DataFormat.WIDE)
        print_line("  ".join(cell.text for cell in row) if len(row) > 1 else plain_lines([row])[0])
