"""Connect to the cluster that the flags select, and turn API errors into user errors."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grove.cli.common.options import checked_name
from grove.clock import Clock, LoopClock
from grove.errors import UserError
from grove.kube.api_errors import ApiError, ConnectionLost, NoCredentials
from grove.kube.client import Client
from grove.kube.kubeconfig import Access, find_access
from grove.kube.light_transport import LightTransport
from grove.kube.transport import Transport

R = TypeVar("R")


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    client: Client
    transport: Transport
    clock: Clock
    # From `-n`, or from the context.
    namespace: str


def run(main: Coroutine[Any, Any, R]) -> R:
    return asyncio.run(main)


@asynccontextmanager
async def connect(kubeconfig: Path | None, context: str, namespace: str) -> AsyncIterator[Connection]:
    if namespace:
        checked_name(namespace)
    access = find_access(os.environ, kubeconfig=kubeconfig, context=context)
    clock = LoopClock.starting_now()
    async with LightTransport(access, clock) as transport:
        try:
            yield Connection(
                client=Client(transport, clock),
                transport=transport,
                clock=clock,
                namespace=namespace or access.namespace,
            )
        except ApiError as error:
            raise _in_words(error, access) from error


def _in_words(error: ApiError, access: Access) -> UserError:
    where = f"{access.server} (from {access.source})"
    if isinstance(error, NoCredentials):
        return UserError(f"{access.source}: {error.message}")
    if isinstance(error, ConnectionLost):
        if untrusted := re.search(r"certificate verify failed: (.*?) \(_ssl", error.message):
            hint = "take the certificate-authority of this very cluster"
            return UserError(f"cannot trust the certificate of {where}: {untrusted[1]}; {hint}")
        return UserError(f"cannot reach {where}: {error.message}; is the cluster running? `grove up` starts one")
    if error.code == 401:
        return UserError(f"{where} does not accept these credentials; renew them (`grove up` writes new ones)")
    if error.code == 404 and "could not find the requested resource" in error.message:
        hint = "install them: grove crds | kubectl apply --server-side -f -"
        return UserError(f"{where} does not know Grove's kinds; {hint}")
    return UserError(f"{error.message} ({error.code} from {access.server})")
