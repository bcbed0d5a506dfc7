"""`grove logs POD|KIND/NAME`."""

from math import ceil
from typing import TYPE_CHECKING

import click
import msgspec

from grove.cli.common.options import (
    ClusterOptions,
    UsageError,
    check_name,
    cluster_options,
    output_option,
    parse_object_ref,
    parse_seconds,
)
from grove.cli.common.output import Format, print_json_line, print_text
from grove.errors import UserError
from grove.operations.hints import hint
from grove.operations.object_ref import ObjectRef

if TYPE_CHECKING:
    from grove.kube.transport import Request, Transport
    from grove.operations.connection import Connection
    from grove.operations.logs.log_reader import LogSelection
    from grove.operations.logs.log_targets import LogTarget

# The status of the response for a pod that has no node yet.
NO_CONTENT = 204
ALL_LINES = -1


@click.command()
@click.argument(
    "target",
    help="A pod, its stable name such as chat-0-router-1, or an object with pods: pcs/NAME, pclq/NAME, pcsg/NAME.",
    metavar="POD|KIND/NAME",
)
@click.option(
    "--container", "-c", default="", help="The container. Default: all; of one pod its only one.", metavar="NAME"
)
@click.option("--follow", "-f", is_flag=True, help="Keep printing; of an object also the pods that appear later.")
@click.option(
    "--tail",
    type=click.IntRange(min=ALL_LINES),
    help="Print only the last N lines of each container. Default: all of one pod, 10 of an object. -1: all.",
    metavar="N",
)
@click.option("--since", default="", help="Print only lines of this last time, such as 5m.", metavar="DURATION")
@click.option("--previous", "-p", is_flag=True, help="Print the log of the run before the last restart.")
@cluster_options
@output_option
def logs(
    target: str,
    container: str,
    follow: bool,
    tail: int | None,
    since: str,
    previous: bool,
    cluster: ClusterOptions,
    output: Format,
) -> None:
    """Print the logs of a pod, or of all pods of an object."""
    from grove.cli.common.connection import run_connected
    from grove.operations.logs.log_reader import DEFAULT_TAIL, LogSelection

    if previous and follow:
        raise UsageError("--previous: that run has ended, so there is nothing to follow; omit --follow")
    ref = parse_object_ref(target) if "/" in target else ObjectRef("pod", check_name(target))
    is_pod = ref.kind == "pod"
    lines = (None if is_pod else DEFAULT_TAIL) if tail is None else tail
    options = LogSelection(
        container=container,
        tail=None if lines == ALL_LINES else lines,
        since_seconds=_parse_since(since) if since else None,
        is_previous=previous,
    )

    async def show(connection: "Connection") -> None:
        if is_pod:
            await _print_pod(connection, ref, options, output, is_following=follow)
        else:
            await _print_object(connection, ref, options, output, is_following=follow)

    run_connected(cluster, show)


def _parse_since(text: str) -> int:
    seconds = parse_seconds("--since", text)
    if seconds <= 0:
        raise UsageError(f"--since: {text} is not greater than zero; write for example 5m")
    return ceil(seconds)


# --- objects ---------------------------------------------------------------------------------------------------------


async def _print_object(
    connection: "Connection", ref: ObjectRef, options: "LogSelection", output: Format, *, is_following: bool
) -> None:
    from grove.operations.logs.log_targets import find_target

    target = await find_target(connection, ref)
    if is_following:
        await _follow_target(connection, target, options, output, has_prefix=True)
        return
    from grove.api.resources import PODS
    from grove.cli.logs.log_printer import LogPrinter
    from grove.operations.logs.log_reader import list_runs, read_all

    pods = await connection.client.list(PODS, namespace=connection.namespace, label_selector=target.selector)
    runs = list_runs(pods.items, options)
    if not runs:
        why = hint(f"why {ref}", connection.namespace)
        raise UserError(_describe_no_logs(ref, options, len(pods.items), why))
    printer = LogPrinter(output, has_prefix=True)
    for record in await read_all(connection, runs, options):
        printer.print_record(record)


def _describe_no_logs(ref: ObjectRef, options: "LogSelection", pods: int, why: str) -> str:
    if pods and options.is_previous:
        return f"no container of {ref} was restarted; omit --previous to print the current logs"
    if pods and options.container:
        return f"no container {options.container!r} of {ref} has started; check the name, or omit --container"
    return f"no container of {ref} has started; `{why}` explains what it waits for"


async def _follow_target(
    connection: "Connection", target: "LogTarget", options: "LogSelection", output: Format, *, has_prefix: bool
) -> None:
    from grove.cli.logs.log_printer import LogPrinter
    from grove.operations.logs.log_follower import LogFollower
    from grove.operations.random_source import fresh_random

    printer = LogPrinter(output, has_prefix=has_prefix)
    await LogFollower(connection, target, options, printer, fresh_random()).run()


# --- one pod ---------------------------------------------------------------------------------------------------------


async def _print_pod(
    connection: "Connection", ref: ObjectRef, options: "LogSelection", output: Format, *, is_following: bool
) -> None:
    from grove.kube.api_errors import ApiError
    from grove.operations.logs.log_targets import find_by_host
    from grove.operations.resource_args import no_such_object

    try:
        await _print_log_of(connection, ref.name, options, output, is_following=is_following)
    except ApiError as error:
        if not error.is_not_found:
            raise
        found = await find_by_host(connection, ref.name)
        if found is None:
            raise no_such_object(ref, connection.namespace) from error
        target, pods = found
        if is_following:
            await _follow_target(connection, target, options, output, has_prefix=False)
            return
        newest = max(pods, key=lambda pod: (not pod.metadata.is_terminating, str(pod.metadata.creation_timestamp)))
        await _print_log_of(connection, newest.metadata.name, options, output, is_following=False)


async def _print_log_of(
    connection: "Connection", pod: str, options: "LogSelection", output: Format, *, is_following: bool
) -> None:
    """Print the log of a pod. Raises `ApiError`."""
    from grove.api.resources import PODS
    from grove.kube.response_decoding import check
    from grove.kube.transport import Request

    query = options.query() | ({"container": options.container} if options.container else {})
    request = Request(method="GET", path=PODS.path(connection.namespace, pod, "log"), query=query)
    followed = msgspec.structs.replace(request, query=query | {"follow": "true"})
    if is_following and await _follow(connection.transport, followed, output):
        return
    # An empty stream does not show whether the pod has no node.
    response = await connection.transport.send(request)
    check(request, response)
    if response.status == NO_CONTENT:
        why = hint(f"why pod/{pod}", connection.namespace)
        raise UserError(f"pod/{pod} has no node yet; `{why}` explains what it waits for")
    _print_log(response.body.decode(errors="replace"), output)


async def _follow(transport: "Transport", request: "Request", output: Format) -> bool:
    """Print lines until the log ends. Return whether there were any."""
    has_lines = False
    async with transport.stream(request) as lines:
        async for line in lines:
            _print_log(line.decode(errors="replace") + "\n", output)
            has_lines = True
    return has_lines


def _print_log(text: str, output: Format) -> None:
    if output is Format.TEXT:
        print_text(text)
    else:
        for line in text.removesuffix("\n").split("\n") if text else ():
            print_json_line({"line": line})
