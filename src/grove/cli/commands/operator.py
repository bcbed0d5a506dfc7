"""`grove operator`: run the operator as its own process."""

import gc
from pathlib import Path

import click
import msgspec

from grove.cli.common.options import FILE, context_option, kubeconfig_option


class OperatorWishes(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    config: Path | None
    webhook_url: str
    kubeconfig: Path | None
    context: str


@click.command()
@click.option("--config", type=FILE, help="An OperatorConfiguration; default: its defaults.", metavar="FILE")
@click.option(
    "--webhook-url",
    default="",
    help="Serve admission webhooks, reached at https://HOST:PORT of this process.",
    metavar="URL",
)
@kubeconfig_option
@context_option
def operator(config: Path | None, webhook_url: str, kubeconfig: Path | None, context: str) -> None:
    """Run the operator against a cluster.

    It runs until Ctrl-C or SIGTERM.
    """
    # Modules that are loaded now stay loaded, so a collection would only cost time. `operate` enables the collector.
    gc.disable()
    from grove.cli.operator.runner import operate

    operate(OperatorWishes(config=config, webhook_url=webhook_url, kubeconfig=kubeconfig, context=context))
