"""Wait for the next change of a table, for the streams of watches and logs."""

import asyncio

from grove.cluster.storage.store import Table


class ChangeWaiter:
    """The waiting side of one stream. Only one task may wait at a time."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._future: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait for the next change of the table, or for `wake`."""
        self._future = asyncio.get_running_loop().create_future()
        self._table.wake_on_change(self, self.wake)
        try:
            await self._future
        finally:
            self._future = None

    def wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def close(self) -> None:
        """Wake the waiting task and ignore further changes."""
        self._table.stop_waking(self)
        self.wake()
