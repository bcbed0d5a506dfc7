"""`grove logs POD`."""

from pathlib import Path
from typing import Annotated

import typer

from grove.cli.options import Context, Kubeconfig, Namespace
from grove.cli.output import say, say_part

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

    run(_logs(pod.removeprefix("pod/"), container, follow, tail, namespace, kubeconfig, context))


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
    from grove.kube.transport import Request

    query = {"container": container, "follow": "true" if follow else "", "tailLines": "" if tail is None else str(tail)}
    async with connect(kubeconfig, context, namespace) as connection:
        path = PODS.path(connection.namespace, pod, "log")
        request = Request(method="GET", path=path, query={key: value for key, value in query.items() if value})
        if follow:
            async with connection.transport.stream(request) as lines:
                async for line in lines:
                    say(line.decode(errors="replace"))
        else:
            response = await connection.transport.send(request)
            check(request, response)
            say_part(response.body.decode(errors="replace"))
