"""`grove operator`: the operator of a cluster, in a process of its own."""

import gc
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from grove.cli.options import Context, Kubeconfig

Config = Annotated[
    Path | None,
    typer.Option("--config", help="An OperatorConfiguration; default: its defaults.", metavar="FILE"),
]
WebhookUrl = Annotated[
    str,
    typer.Option(
        "--webhook-url", help="Serve admission webhooks, reached at https://HOST:PORT of this process.", metavar="URL"
    ),
]


class OperatorWishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for."""

    config: Path | None
    webhook_url: str
    kubeconfig: Path | None
    context: str


def operator(
    config: Config = None, webhook_url: WebhookUrl = "", kubeconfig: Kubeconfig = None, context: Context = ""
) -> None:
    """Run the operator against a cluster, until Ctrl-C or SIGTERM."""
    # What is loaded now stays: looking for garbage in it would only take time. `operate` switches it on again.
    gc.disable()
    from grove.cli.operating import operate

    operate(OperatorWishes(config=config, webhook_url=webhook_url, kubeconfig=kubeconfig, context=context))
