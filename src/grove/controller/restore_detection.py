"""Detection of an API server that was restored from a backup: everything cached before is then invalid.

Lists show a new history reliably (`kube/store.py`). But a server that is restored stops first, and every watch breaks.
When the last watch broke, no cached state is confirmed until the lists have succeeded. A set that is reconciled
meanwhile is read first, so that nothing is created or deleted for a set that does not exist.
"""

import asyncio

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import Uid
from grove.controller.informers import Caches
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client


class NewHistoryError(Exception):
    """The API server was restored from a backup. The caller starts a new controller with empty memory."""


class ServerHistory:
    """A record of the confirmed keys: sets that were read since the last watch broke."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        self._open: set[str] = set()
        # How often the last open watch broke.
        self._cut_count = 0
        self._sure: dict[Uid, int] = {}

    @property
    def is_over(self) -> bool:
        """Return whether a new history began: nothing may be written any more."""
        return self._ended.is_set()

    def end(self) -> None:
        self._ended.set()

    def note_watch(self, resource: str, is_open: bool) -> None:
        """Record that a watch was opened or broke. After the last one, the server may be another one."""
        if is_open:
            self._open.add(resource)
        elif resource in self._open:
            self._open.remove(resource)
            self._cut_count += not self._open

    def is_sure(self, key: Uid) -> bool:
        return not self.is_over and self._sure.get(key, 0) == self._cut_count

    async def watch_over(self) -> None:
        """Wait until a new history begins, then raise `NewHistoryError`."""
        await self._ended.wait()
        raise NewHistoryError("the API server shows an older state than before")

    async def resolve_uncertain_writes(self, key: Uid, client: Client, caches: Caches) -> None:
        """Read the set of this key, unless it is confirmed. Raises `ApiError` if that fails."""
        if self.is_sure(key):
            return
        cut_count, held = self._cut_count, caches.sets.get(key)
        if held is None:
            self._sure[key] = cut_count
            return
        namespace, name = held.metadata.namespace, held.metadata.name
        try:
            found = await client.get(PODCLIQUESETS, namespace, name)
        except ApiError as error:
            if not error.is_not_found:
                raise
            caches.sets.forget(key)
            return
        if found.metadata.uid != key:
            caches.sets.forget(key)
        elif int(found.metadata.resource_version) < int(held.metadata.resource_version):
            self.end()
            raise ConnectionLost(
                f"PodCliqueSet {namespace}/{name}: the API server returned an older version than before; "
                "the operator lists all objects again"
            )
        caches.sets.observe(found)
        self._sure[key] = cut_count

    def forget(self, key: Uid) -> None:
        self._sure.pop(key, None)
