"""Connect to the cluster that the flags select, and turn API errors into user errors."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

from grove.cli.common.options import ClusterOptions, check_name
from grove.cli.common.output import confirm, print_error
from grove.clock import LoopClock
from grove.errors import UserError
from grove.kube.api_errors import ApiError, ConnectionLost, NoCredentials
from grove.kube.client import Client
from grove.kube.kubeconfig import Access, find_access
from grove.kube.light_transport import LightTransport
from grove.kube.local_cluster import OWN_KUBECONFIG, forget_end
from grove.kube.transport import Request, Response, Transport
from grove.operations.connection import Connection
from grove.operations.hints import HintScope, hint_flags, kubectl_hint, set_hint_scope

R = TypeVar("R")


def run_connected(options: ClusterOptions, main: Callable[[Connection], Awaitable[R]]) -> R:
    """Connect to the cluster, run `main` with the connection, and return its result. Raises `UserError`."""
    access = _find_access(options)
    if access.gone_local:
        print_error(f"grove: the local cluster {access.gone_local} is gone, so this is {access}")
    return _run(options, access, main)


def run_waiting(options: ClusterOptions, main: Callable[[Connection], Awaitable[R]]) -> R:
    """Do the same for a command that waits for long and retries by itself: its transport stays light."""
    return _run(options, _find_access(options), main, stays_light=True)


def run_writing(
    options: ClusterOptions, main: Callable[[Connection], Awaitable[R]], *, action: str, is_confirmed: bool
) -> R:
    """Run `main` like `run_connected`, for a command that writes.

    The first write prints the cluster. If the command would have used a local cluster that is gone, the user must
    confirm the other one; `action` is what the command does, such as `delete pcs/chat`.
    """
    access = _find_access(options)
    if access.gone_local:
        if not is_confirmed:
            _confirm(access, action)
        forget_end(os.environ, OWN_KUBECONFIG)
    return _run(options, access, main)


def run_quietly(options: ClusterOptions, main: Callable[[Connection], Awaitable[R]], *, seconds: float) -> R | None:
    """Run `main` for shell completion: print nothing; return None after a failure or after so many seconds."""

    async def limited(connection: Connection) -> R:
        async with asyncio.timeout(seconds):
            return await main(connection)

    try:
        return _run(options, _find_access(options), limited)
    except (UserError, OSError):
        return None


def _find_access(options: ClusterOptions) -> Access:
    if options.namespace:
        check_name(options.namespace)
    access = find_access(os.environ, kubeconfig=options.kubeconfig, context=options.context)
    kubeconfig = "" if options.kubeconfig is None else str(options.kubeconfig)
    set_hint_scope(HintScope(namespace=access.namespace, kubeconfig=kubeconfig, context=options.context))
    return access


def _confirm(access: Access, action: str) -> None:
    """Ask whether to write to a cluster that the user did not name. Raises `UserError` unless the answer is yes."""
    gone = f"the local cluster {access.gone_local} is gone"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError(
            f"{gone}, and this would {action} in {access}; "
            "start it again with `grove up`, name a cluster with --kubeconfig or --context, or confirm with --yes"
        )
    if not confirm(f"{gone[0].upper()}{gone[1:]}.\n{action[0].upper()}{action[1:]} in {access}? [y/N] "):
        raise UserError("not confirmed, so nothing was changed")


def _run(
    options: ClusterOptions, access: Access, main: Callable[[Connection], Awaitable[R]], *, stays_light: bool = False
) -> R:
    async def run() -> R:
        async with _connect(options, access, stays_light=stays_light) as connection:
            return await main(connection)

    return asyncio.run(run())


@asynccontextmanager
async def _connect(options: ClusterOptions, access: Access, *, stays_light: bool) -> AsyncIterator[Connection]:
    clock = LoopClock.starting_now()
    async with LightTransport(access, clock, stays_light=stays_light) as light:
        transport = AnnouncingTransport(light, access)
        try:
            yield Connection(
                client=Client(transport, clock),
                transport=transport,
                clock=clock,
                namespace=options.namespace or access.namespace,
            )
        except ApiError as error:
            raise _to_user_error(error, access) from error


class AnnouncingTransport:
    """A transport that prints which cluster it is when the first write succeeded. A dry run is no write."""

    def __init__(self, inner: Transport, access: Access) -> None:
        self._inner = inner
        self._access = access
        self._is_announced = False

    async def send(self, request: Request) -> Response:
        response = await self._inner.send(request)
        has_written = request.is_write and "dryRun" not in request.query and response.status < 300
        if has_written and not self._is_announced:
            self._is_announced = True
            print_error(f"Cluster: {self._access}")
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)


def _to_user_error(error: ApiError, access: Access) -> UserError:
    where = f"{access.server} (from {access.source})"
    if isinstance(error, NoCredentials):
        return UserError(f"{access.source}: {error.message}")
    if isinstance(error, ConnectionLost):
        if untrusted := re.search(r"certificate verify failed: (.*?) \(_ssl", error.message):
            remedy = "set certificate-authority in the kubeconfig to the CA of this cluster"
            return UserError(f"cannot trust the certificate of {where}: {untrusted[1]}; {remedy}")
        return UserError(f"cannot reach {where}: {error.message}; {_describe_unreachable(access)}")
    if error.code == 401:
        remedy = "`grove up` writes new ones" if access.is_local else "for example, log in to the cluster again"
        return UserError(f"{where} rejected the credentials; renew them ({remedy})")
    if error.code == 404 and "could not find the requested resource" in error.message:
        remedy = f"install them: grove crds | {kubectl_hint('apply --server-side -f -')}"
        return UserError(f"{where} does not have the CustomResourceDefinitions of Grove; {remedy}")
    return UserError(f"{error.message} ({error.code} from {access.server})")


def _describe_unreachable(access: Access) -> str:
    if access.is_local:
        return "is the cluster running? `grove up` starts one"
    other = "" if hint_flags() else ", or choose another cluster with --kubeconfig or --context"
    return f"check that it runs and that this machine can reach it{other}"
