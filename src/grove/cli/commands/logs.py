"""`grove logs POD`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from grove.cli.common.options import bare_name, context_option, kubeconfig_option, namespace_option, output_option
from grove.cli.common.output import Format, say_json_line, say_part
from grove.errors import UserError

if TYPE_CHECKING:
    from grove.kube.transport import Request, Transport

# The status of the response for a pod that has no node yet.
NOTHING_YET = 204


@click.command()
@click.argument("pod", help="The pod.")
@click.option("--container", "-c", default="", help="Default: the only one.", metavar="NAME")
@click.option("--follow", "-f", is_flag=True, help="Go on until the pod ends.")
@click.option("--tail", type=click.IntRange(min=0), help="Only the last lines.", metavar="N")
@namespace_option
@kubeconfig_option
@context_option
@output_option
def logs(
    pod: str,
    container: str,
    follow: bool,
    tail: int | None,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    output: Format,
) -> None:
    """Print the log of a pod."""
    from grove.cli.common.connection import run

    name = bare_name(pod, "pod", otherwise="logs are those of pods; `grove status` lists them")
    run(_logs(name, container, follow, tail, namespace, kubeconfig, context, output))


async def _logs(
    pod: str,
    container: str,
    follow: bool,
    tail: int | None,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    output: Format,
) -> None:
    from grove.api.resources import PODS
    from grove.cli.common.connection import connect
    from grove.kube.api_errors import ApiError
    from grove.kube.response_decoding import check
    from grove.kube.transport import Request

    query = {"container": container, "follow": "true" if follow else "", "tailLines": "" if tail is None else str(tail)}
    async with connect(kubeconfig, context, namespace) as connection:
        path = PODS.path(connection.namespace, pod, "log")
        request = Request(method="GET", path=path, query={key: value for key, value in query.items() if value})
        try:
            if follow and await _follow(connection.transport, request, output):
                return
            # An empty stream does not show whether the pod has no node.
            once = msgspec.structs.replace(request, query={k: v for k, v in request.query.items() if k != "follow"})
            response = await connection.transport.send(once)
            check(once, response)
            if response.status == NOTHING_YET:
                raise UserError(f"pod {pod!r} has no node yet; `grove why pod/{pod}` says what it waits for")
            _say_log(response.body.decode(errors="replace"), output)
        except ApiError as error:
            if not error.is_not_found:
                raise
            raise UserError(f"no pod {pod!r} in namespace {connection.namespace!r}; check the name, and -n") from error


async def _follow(transport: "Transport", request: "Request", output: Format) -> bool:
    """Print lines until the log ends. Return whether there were any."""
    is_said = False
    async with transport.stream(request) as lines:
        async for line in lines:
            _say_log(line.decode(errors="replace") + "\n", output)
            is_said = True
    return is_said


def _say_log(text: str, output: Format) -> None:
    if output is Format.TEXT:
        say_part(text)
    else:
        for line in text.removesuffix("\n").split("\n") if text else ():
            say_json_line({"line": line})
