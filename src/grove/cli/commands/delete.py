"""`grove delete pcs/NAME`, `grove delete -f FILE`."""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from grove.cli.common.data_format import DataFormat, data_output_option
from grove.cli.common.name_completion import complete_names
from grove.cli.common.options import (
    FILE,
    BoolFlag,
    ChoiceOf,
    ClusterOptions,
    UsageError,
    cluster_options,
    parse_object_refs,
    yes_option,
)
from grove.cli.common.output import print_error, print_json, print_line
from grove.operations.hints import hint, name_with_namespace
from grove.operations.object_ref import ObjectRef

if TYPE_CHECKING:
    from grove.api.resources import Resource
    from grove.operations.apply.manifest_reader import ManifestDocument
    from grove.operations.connection import Connection

POLL_SECONDS = 0.2
# A running operator removes its finalizer within moments. A new leader takes over half a minute after a crash.
HINT_AFTER_SECONDS = 30.0


class _Deletion(msgspec.Struct, frozen=True, kw_only=True):
    resource: "Resource[Any]"
    namespace: str
    target: ObjectRef


@click.command()
@click.argument(
    "targets",
    nargs=-1,
    help="The objects to delete: pcs/chat, or pcs chat.",
    metavar="[KIND/NAME...]",
    shell_complete=complete_names(has_bare_names=False),
)
@click.option(
    "--filename",
    "-f",
    type=FILE,
    multiple=True,
    help="Delete the objects of a manifest or of a directory; `-` is standard input. May be repeated.",
    metavar="FILE",
)
@click.option("--recursive", "-R", is_flag=True, help="Include the subdirectories of a directory.")
@click.option(
    "--wait",
    type=ChoiceOf(BoolFlag),
    default=BoolFlag.YES.value,
    show_default=True,
    help="Wait until the objects are gone.",
)
@yes_option
@cluster_options
@data_output_option(DataFormat.TEXT, DataFormat.JSON, DataFormat.NAME)
def delete(
    targets: tuple[str, ...],
    filename: tuple[Path, ...],
    recursive: bool,
    wait: BoolFlag,
    yes: bool,
    cluster: ClusterOptions,
    output: DataFormat,
) -> None:
    """Delete PodCliqueSets and everything that they own."""
    from grove.cli.common.connection import run_writing

    if bool(targets) == bool(filename):
        raise UsageError("name the objects to delete, such as pcs/chat, or their manifests with -f FILE")
    refs = parse_object_refs(targets)
    documents = _read(filename, recursive, cluster) if filename else []
    what = [str(ref) for ref in refs] + [f"{one.kind.lower()}/{one.name}" for one in documents]

    async def delete_all(connection: "Connection") -> None:
        deletions = await _find_deletions(connection, refs, documents)
        await _delete(connection, deletions, wait is BoolFlag.YES, output)

    run_writing(cluster, delete_all, action=f"delete {', '.join(what)}", is_confirmed=yes)


def _read(filename: tuple[Path, ...], recursive: bool, cluster: ClusterOptions) -> "list[ManifestDocument]":
    from grove.operations.apply.manifest_reader import check_namespaces, read_manifests

    documents = read_manifests(filename, is_recursive=recursive)
    check_namespaces(documents, cluster.namespace)
    return documents


async def _find_deletions(
    connection: "Connection", refs: list[ObjectRef], documents: "list[ManifestDocument]"
) -> list[_Deletion]:
    from grove.operations.resource_args import RESOURCES

    deletions = [_Deletion(resource=RESOURCES[ref.kind], namespace=connection.namespace, target=ref) for ref in refs]
    for document in documents:
        from grove.operations.apply.apply_merge import find_resource

        resource = await find_resource(connection.transport, document)
        namespace = (document.namespace or connection.namespace) if resource.namespaced else ""
        target = ObjectRef(document.kind.lower(), document.name)
        deletions.append(_Deletion(resource=resource, namespace=namespace, target=target))
    return deletions


async def _delete(connection: "Connection", deletions: list[_Deletion], is_waiting: bool, output: DataFormat) -> None:
    for deletion in deletions:
        await _delete_one(connection, deletion, is_waiting)
        if is_waiting and deletion.target.kind == "podcliqueset":
            await _report_remains(connection, deletion)
        if output is DataFormat.TEXT:
            print_line(f"{name_with_namespace(str(deletion.target), deletion.namespace)} deleted")
        elif output is DataFormat.NAME:
            group = deletion.resource.group
            print_line(f"{deletion.target.kind}{f'.{group}' if group else ''}/{deletion.target.name}")
    if output is DataFormat.JSON:
        print_json([_to_json(deletion, connection.namespace) for deletion in deletions])


async def _report_remains(connection: "Connection", deletion: _Deletion) -> None:
    """Print which objects of a deleted set still exist, and why: their finalizers keep them."""
    from grove.operations.why.remains import explain_deleted_set

    target, namespace = deletion.target, deletion.namespace
    for one in await explain_deleted_set(connection.client, namespace, target.name):
        if one.kind == "cause":
            print_error(f"Warning: {one.text} `{hint(f'why {target}', namespace)}` explains what to do.")


def _to_json(deletion: _Deletion, namespace: str) -> dict[str, str]:
    elsewhere = {"namespace": deletion.namespace} if deletion.namespace not in ("", namespace) else {}
    return {"kind": deletion.target.kind, "name": deletion.target.name, **elsewhere, "action": "deleted"}


async def _delete_one(connection: "Connection", deletion: _Deletion, is_waiting: bool) -> None:
    from grove.kube.api_errors import ApiError
    from grove.operations.resource_args import no_such_object

    resource, namespace, target = deletion.resource, deletion.namespace, deletion.target
    try:
        uid = (await connection.client.get(resource, namespace, target.name)).metadata.uid
    except ApiError as error:
        if error.is_not_found and error.reason == "NotFound" and target.name in error.message:
            raise no_such_object(target, namespace) from error
        raise
    current = await connection.client.delete(resource, namespace, target.name, uid=uid)
    hint_at = connection.clock.monotonic() + HINT_AFTER_SECONDS
    while is_waiting and current is not None and current.metadata.uid == uid:
        if connection.clock.monotonic() >= hint_at:
            hint_at = inf
            why = hint(f"why {target}", namespace)
            print_error(
                f"{name_with_namespace(str(target), namespace)} still exists; `{why}` explains what it waits for"
            )
        await connection.clock.sleep(POLL_SECONDS)
        try:
            current = await connection.client.get(resource, namespace, target.name)
        except ApiError as error:
            if not error.is_not_found:
                raise
            current = None
