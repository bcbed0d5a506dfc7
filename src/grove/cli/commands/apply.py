"""`grove apply -f FILE`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grove.cli.common.options import FILE, context_option, kubeconfig_option, namespace_option, output_option
from grove.cli.common.output import Format, say, say_error, say_json_line
from grove.errors import UserError

if TYPE_CHECKING:
    from grove.cli.common.apply_merge import ApplyResult
    from grove.cli.common.manifest_reader import ManifestDocument
    from grove.kube.transport import Transport

files_option = click.option(
    "--filename",
    "-f",
    type=FILE,
    multiple=True,
    required=True,
    help="A manifest; `-` is standard input.",
    metavar="FILE",
)


@click.command()
@files_option
@namespace_option
@kubeconfig_option
@context_option
@output_option
def apply(filename: tuple[Path, ...], namespace: str, kubeconfig: Path | None, context: str, output: Format) -> None:
    """Create or update the objects of manifests."""
    from grove.cli.common.connection import run
    from grove.cli.common.manifest_reader import read_documents

    documents = [document for path in filename for document in read_documents(path)]
    run(_apply(documents, namespace, kubeconfig, context, output))


async def _apply(
    documents: "list[ManifestDocument]", namespace: str, kubeconfig: Path | None, context: str, output: Format
) -> None:
    from grove.cli.common.connection import connect

    async with connect(kubeconfig, context, namespace) as connection:
        await apply_all(connection.transport, documents, connection.namespace, output)


async def apply_all(
    transport: "Transport", documents: "list[ManifestDocument]", namespace: str, output: Format
) -> None:
    """Apply all documents and print each result. Raise one `UserError` at the end with all rejections."""
    from grove.cli.common.apply_merge import ApplyRejected, apply_document

    refused: list[str] = []
    for document in documents:
        try:
            one = await apply_document(transport, document, namespace)
        except ApplyRejected as error:
            refused.append(str(error))
            continue
        _tell(one, output)
    if refused:
        raise UserError("\n".join(refused))


def _tell(applied: "ApplyResult", output: Format) -> None:
    if output is Format.JSON:
        say_json_line(applied)
        return
    for warning in applied.warnings:
        say_error(f"Warning: {warning}")
    say(str(applied))
