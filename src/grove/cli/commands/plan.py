"""`grove plan -f FILE`: predict the effect of a change."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grove.cli.commands.apply import files_option
from grove.cli.common.options import context_option, kubeconfig_option, namespace_option, output_option
from grove.cli.common.output import Format, say_json, say_rows

if TYPE_CHECKING:
    from grove.cli.common.manifest_reader import ManifestDocument
    from grove.cli.plan.runner import Seen


@click.command()
@files_option
@namespace_option
@kubeconfig_option
@context_option
@output_option
def plan(filename: tuple[Path, ...], namespace: str, kubeconfig: Path | None, context: str, output: Format) -> None:
    """Predict what applying manifests would do.

    Prints which pods are replaced, in which order, and what is down meanwhile. Changes nothing.
    """
    from grove.cli.common.connection import run
    from grove.cli.common.manifest_reader import read_documents
    from grove.cli.plan.runner import predict_change
    from grove.cli.plan.view import plan_rows

    documents = [document for path in filename for document in read_documents(path)]
    # The cluster is read in real time; the change runs on a virtual clock.
    foreseen = predict_change(run(_look(documents, namespace, kubeconfig, context)))
    if output is Format.JSON:
        say_json(foreseen)
    else:
        say_rows(plan_rows(foreseen))


async def _look(documents: "list[ManifestDocument]", namespace: str, kubeconfig: Path | None, context: str) -> "Seen":
    from grove.cli.common.connection import connect
    from grove.cli.plan.runner import look

    async with connect(kubeconfig, context, namespace) as connection:
        return await look(connection.transport, documents, connection.namespace, connection.clock.now())
