"""`grove logs POD`."""

from pathlib import Path
from typing import Annotated

import typer

from grove.cli.options import Context, Kubeconfig, Namespace, UsageError, checked_name, parse_target
from grove.cli.output import say, say_part
from grove.errors import UserError

# How a server answers for a pod that nobody runs.
NOTHING_YET = 204

Pod = Annotated[str, typer.Argument(help="The pod.", metavar="POD")]
Container = Annotated[str, typer.Option("--container", "-c", help="Default: the only one.", metavar="NAME")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the pod ends.")]
Tail = Annotated[int | None, typer.Option("--tail", help="Only the last lines.", min=0, metavar="N")]


def logs(
    pod: Pod,
    container: Container = "",
    follow: Follow = False,
    tail: Tail = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Print what a pod wrote."""
    from grove.cli.connection import run

    run(_logs(_bare(pod), container, follow, tail, namespace, kubeconfig, context))


def _bare(pod: str) -> str:
    """`pod/NAME` is what `grove status` prints, so it is understood as well."""
    if "/" not in pod:
        return checked_name(pod)
    target = parse_target(pod)
    if target.kind != "pod":
        raise UsageError(f"{pod!r}: logs are those of pods; `grove status` lists them")
    return target.name


async def _logs(
    pod: str,
    container: str,
    follow: bool,
    tail: int | None,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
) -> None:
    from grove.api.resources import PODS
    from grove.cli.connection import connect
    from grove.kube.answers import check
    from grove.kube.errors import ApiError
    from grove.kube.transport import Request

    query = {"container": container, "follow": "true" if follow else "", "tailLines": "" if tail is None else str(tail)}
    async with connect(kubeconfig, context, namespace) as connection:
        path = PODS.path(connection.namespace, pod, "log")
        request = Request(method="GET", path=path, query={key: value for key, value in query.items() if value})
        try:
            if follow:
                async with connection.transport.stream(request) as lines:
                    async for line in lines:
                        say(line.decode(errors="replace"))
            else:
                response = await connection.transport.send(request)
                check(request, response)
                if response.status == NOTHING_YET:
                    raise UserError(f"pod {pod!r} has no node yet; `grove why pod/{pod}` says what it waits for")
                say_part(response.body.decode(errors="replace"))
        except ApiError as error:
            if not error.is_not_found:
                raise
            raise UserError(f"no pod {pod!r} in namespace {connection.namespace!r}; check the name, and -n") from error
