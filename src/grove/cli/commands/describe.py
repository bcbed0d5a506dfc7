"""`grove describe KIND/NAME`."""

from typing import TYPE_CHECKING

import click

from grove.cli.common.data_format import DataFormat, data_output_option, print_data
from grove.cli.common.name_completion import complete_names
from grove.cli.common.options import ClusterOptions, cluster_options, parse_object_refs, parse_one_ref
from grove.cli.common.output import print_text
from grove.errors import UserError
from grove.operations.hints import hint
from grove.operations.object_ref import ObjectRef, parse_kind

if TYPE_CHECKING:
    from grove.api.types.meta import JsonObject
    from grove.cli.inspect.object_events import EventEntry
    from grove.operations.connection import Connection


@click.command()
@click.argument(
    "what",
    nargs=-1,
    required=True,
    help="The objects: pcs/chat, pcs chat, or just chat; a kind alone, such as pclq: all of that kind.",
    metavar="KIND/NAME...",
    shell_complete=complete_names(has_bare_names=True),
)
@cluster_options
@data_output_option(DataFormat.TEXT, DataFormat.JSON, DataFormat.YAML)
def describe(what: tuple[str, ...], cluster: ClusterOptions, output: DataFormat) -> None:
    """Show the details, conditions and events of objects."""
    from grove.cli.common.connection import run_connected

    run_connected(cluster, lambda connection: _describe(connection, what, output))


async def _describe(connection: "Connection", words: tuple[str, ...], output: DataFormat) -> None:
    from grove.cli.inspect.details_view import details_text

    now = connection.clock.now()
    refs = await _find_refs(connection, words)
    found = [(ref, *await _read(connection, ref)) for ref in refs]
    data = [{"object": body, "events": events} for _, body, events in found]
    if print_data(data if len(data) > 1 else data[0], output):
        return
    for number, (ref, body, events) in enumerate(found):
        why = hint(f"why {ref}", connection.namespace)
        print_text("\n" * bool(number) + details_text(body, events, now) + f"What it waits for: {why}\n")


async def _find_refs(connection: "Connection", words: tuple[str, ...]) -> list[ObjectRef]:
    from grove.operations.resource_args import RESOURCES, find_kind

    kind = parse_kind(words[0])
    if len(words) == 1 and kind is not None:
        found = await connection.client.list_metadata(RESOURCES[kind], namespace=connection.namespace)
        if not found.items:
            raise UserError(f"no {kind} in namespace {connection.namespace!r}; check the namespace (-n)")
        return [ObjectRef(kind, one.metadata.name) for one in found.items]
    if len(words) > 1:
        return parse_object_refs(words)
    return [await find_kind(connection.client, connection.namespace, parse_one_ref(words))]


async def _read(connection: "Connection", ref: ObjectRef) -> "tuple[JsonObject, list[EventEntry]]":
    """Return the object without its managed fields, and its own events."""
    from grove.cli.inspect.object_events import EventFilter, list_events
    from grove.kube.api_errors import ApiError
    from grove.operations.apply.apply_merge import read_object
    from grove.operations.resource_args import RESOURCES, no_such_object

    client, namespace = connection.client, connection.namespace
    try:
        body = await read_object(connection.transport, RESOURCES[ref.kind], namespace, ref.name)
    except ApiError as error:
        if error.is_not_found and error.reason == "NotFound" and ref.name in error.message:
            raise no_such_object(ref, namespace) from error
        raise
    body["metadata"].pop("managedFields", None)
    own = EventFilter(target=ref, sets=frozenset(), is_exact=True)
    return body, await list_events(client, namespace, own)
