"""`grove operator`: run the operator as its own process."""

import gc
from pathlib import Path

import click
import msgspec

from grove.cli.commands.installation.manifest_options import parse_namespaces
from grove.cli.common.options import FILE, context_option, kubeconfig_option


class OperatorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    config: Path | None
    webhook_url: str
    watch_namespaces: tuple[str, ...]
    kubeconfig: Path | None
    context: str


@click.command()
@click.option(
    "--config", type=FILE, help="The OperatorConfiguration. Default: the default of every field.", metavar="FILE"
)
@click.option(
    "--webhook-url",
    default="",
    help="Serve the admission webhooks at https://HOST:PORT, where the API server reaches this process.",
    metavar="URL",
)
@click.option(
    "--watch-namespaces",
    default="",
    help="Manage sets in these namespaces only. Default: all.",
    metavar="NAME,...",
)
@kubeconfig_option
@context_option
def operator(
    config: Path | None, webhook_url: str, watch_namespaces: str, kubeconfig: Path | None, context: str
) -> None:
    """Run the operator against a cluster.

    It runs until Ctrl-C or SIGTERM.
    """
    # Modules that are loaded now stay loaded, so a collection would only cost time. `run_operator` enables it.
    gc.disable()
    from grove.cli.operator.runner import run_operator

    run_operator(
        OperatorOptions(
            config=config,
            webhook_url=webhook_url,
            watch_namespaces=parse_namespaces(watch_namespaces),
            kubeconfig=kubeconfig,
            context=context,
        )
    )
