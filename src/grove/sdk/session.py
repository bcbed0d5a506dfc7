"""The connection of a client: found like that of the command line, and opened at the first use."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from grove.clock import LoopClock
from grove.errors import UserError
from grove.kube.client import Client
from grove.kube.kubeconfig import Access, find_access
from grove.operations.connection import Connection
from grove.sdk.errors import ConnectionFailed

if TYPE_CHECKING:
    from grove.kube.http_transport import HttpTransport


class Session:
    """A session with one cluster, which several clients may share."""

    def __init__(
        self, *, kubeconfig: Path | None = None, context: str = "", connection: Connection | None = None
    ) -> None:
        """`connection`: one that is open already, such as that of an embedded cluster. Its owner closes it."""
        self._kubeconfig = kubeconfig
        self._context = context
        self._connection = connection
        self._transport: HttpTransport | None = None
        self._opening = asyncio.Lock()

    async def connect(self) -> Connection:
        """Return the connection, with the namespace of the context. Raises `ConnectionFailed`."""
        async with self._opening:
            if self._connection is None:
                self._connection = await self._open()
            return self._connection

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()
            self._transport = self._connection = None

    async def _open(self) -> Connection:
        # Its import takes longer than that of the rest, and an embedded cluster does not need it.
        from grove.kube.http_transport import HttpTransport

        # It asks a local cluster whether it answers.
        access = await asyncio.to_thread(self._find_access)
        clock = LoopClock.starting_now()
        self._transport = HttpTransport(access, clock)
        client = Client(self._transport, clock)
        return Connection(client=client, transport=self._transport, clock=clock, namespace=access.namespace)

    def _find_access(self) -> Access:
        try:
            access = find_access(os.environ, kubeconfig=self._kubeconfig, context=self._context)
        except UserError as error:
            raise ConnectionFailed(str(error)) from error
        if access.gone_local:
            raise ConnectionFailed(
                f"the local cluster {access.gone_local} is gone, and this would use {access}; start it again with "
                "`grove up`, or name a cluster with kubeconfig= or context="
            )
        return access
