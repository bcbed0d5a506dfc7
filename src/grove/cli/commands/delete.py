"""`grove delete pcs/NAME`."""

from enum import StrEnum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grove.cli.common.options import (
    ChoiceOf,
    ObjectRef,
    context_option,
    kubeconfig_option,
    namespace_option,
    output_option,
    parse_target,
)
from grove.cli.common.output import Format, say, say_error, say_json
from grove.errors import UserError

if TYPE_CHECKING:
    from grove.cli.common.connection import Connection

LOOK_SECONDS = 0.2
# A running operator removes its finalizer within moments. A new leader takes over half a minute after a crash.
PATIENCE_SECONDS = 30.0


class WaitFlag(StrEnum):
    YES = "true"
    NO = "false"


@click.command()
@click.argument("targets", nargs=-1, required=True, help="What to delete, such as pcs/chat.", metavar="KIND/NAME...")
@click.option(
    "--wait",
    type=ChoiceOf(WaitFlag),
    default=WaitFlag.YES.value,
    show_default=True,
    help="Wait until everything is gone.",
)
@namespace_option
@kubeconfig_option
@context_option
@output_option
def delete(
    targets: tuple[str, ...],
    wait: WaitFlag,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    output: Format,
) -> None:
    """Delete PodCliqueSets and everything that they own."""
    from grove.cli.common.connection import run

    parsed = [parse_target(target) for target in targets]
    run(_delete(parsed, wait is WaitFlag.YES, namespace, kubeconfig, context, output))


async def _delete(
    targets: list[ObjectRef], is_waiting: bool, namespace: str, kubeconfig: Path | None, context: str, output: Format
) -> None:
    from grove.cli.common.connection import connect

    async with connect(kubeconfig, context, namespace) as connection:
        for target in targets:
            await _delete_one(connection, target, is_waiting)
            if output is Format.TEXT:
                say(f"{target} deleted")
    if output is Format.JSON:
        say_json([{"kind": target.kind, "name": target.name, "action": "deleted"} for target in targets])


async def _delete_one(connection: "Connection", target: ObjectRef, is_waiting: bool) -> None:
    from grove.cli.common.resource_args import RESOURCES
    from grove.kube.api_errors import ApiError

    resource = RESOURCES[target.kind]
    namespace = connection.namespace
    try:
        uid = (await connection.client.get(resource, namespace, target.name)).metadata.uid
    except ApiError as error:
        if error.is_not_found and error.reason == "NotFound" and target.name in error.message:
            raise UserError(f"no {target} in namespace {namespace!r}; check the name, and -n") from error
        raise
    left = await connection.client.delete(resource, namespace, target.name, uid=uid)
    patient_until = connection.clock.monotonic() + PATIENCE_SECONDS
    while is_waiting and left is not None and left.metadata.uid == uid:
        if connection.clock.monotonic() >= patient_until:
            patient_until = inf
            say_error(f"{target} is still there; `grove why {target}` says what it waits for")
        await connection.clock.sleep(LOOK_SECONDS)
        try:
            left = await connection.client.get(resource, namespace, target.name)
        except ApiError as error:
            if not error.is_not_found:
                raise
            left = None
