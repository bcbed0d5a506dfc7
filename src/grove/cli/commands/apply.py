"""`grove apply -f FILE`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grove.cli.common.data_format import DataFormat, data_output_option
from grove.cli.common.options import FILE, ClusterOptions, cluster_options, yes_option
from grove.cli.common.output import Format, print_error, print_json_line, print_line

if TYPE_CHECKING:
    from grove.kube.transport import Transport
    from grove.operations.apply.apply_merge import ApplyResult
    from grove.operations.apply.manifest_reader import ManifestDocument


def manifest_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-f FILE`, more files as arguments (`-f *.yaml`), and `--recursive`."""
    filename = click.option(
        "--filename",
        "-f",
        type=FILE,
        multiple=True,
        required=True,
        help="A manifest, or a directory with manifests; `-` is standard input. May be repeated.",
        metavar="FILE",
    )
    more = click.argument(
        "more", type=FILE, nargs=-1, help="More files, such as those of -f *.yaml.", metavar="[FILE...]"
    )
    recursive = click.option("--recursive", "-R", is_flag=True, help="Include the subdirectories of a directory.")
    return more(filename(recursive(command)))


def read_manifest_options(
    filename: tuple[Path, ...], more: tuple[Path, ...], *, recursive: bool, cluster: ClusterOptions
) -> "list[ManifestDocument]":
    """Return the objects that `manifest_options` name. Raises `UserError`."""
    from grove.operations.apply.manifest_reader import check_namespaces, read_manifests

    documents = read_manifests((*filename, *more), is_recursive=recursive)
    check_namespaces(documents, cluster.namespace)
    return documents


@click.command()
@manifest_options
@yes_option
@cluster_options
@data_output_option(DataFormat.TEXT, DataFormat.JSON, DataFormat.NAME)
def apply(
    filename: tuple[Path, ...],
    more: tuple[Path, ...],
    recursive: bool,
    yes: bool,
    cluster: ClusterOptions,
    output: DataFormat,
) -> None:
    """Create or update the objects of manifests."""
    from grove.cli.common.connection import run_writing

    documents = read_manifest_options(filename, more, recursive=recursive, cluster=cluster)
    run_writing(
        cluster,
        lambda connection: apply_and_print(connection.transport, documents, connection.namespace, output),
        action=f"apply {_describe(documents)}",
        is_confirmed=yes,
    )


def _describe(documents: "list[ManifestDocument]") -> str:
    first = f"{documents[0].kind.lower()}/{documents[0].name}"
    return first if len(documents) == 1 else f"{len(documents)} objects, the first of them {first},"


async def apply_and_print(
    transport: "Transport", documents: "list[ManifestDocument]", namespace: str, output: Format | DataFormat
) -> None:
    """Apply all documents and print each result at once. Raise one `UserError` at the end with all rejections."""
    from grove.operations.apply.apply_merge import apply_documents

    async for result in apply_documents(transport, documents, namespace):
        _print_result(result, output)


def _print_result(result: "ApplyResult", output: Format | DataFormat) -> None:
    if output.value == Format.JSON:
        print_json_line(result)
        return
    for warning in result.warnings:
        print_error(f"Warning: {warning}")
    print_line(result.full_name if output is DataFormat.NAME else str(result))
