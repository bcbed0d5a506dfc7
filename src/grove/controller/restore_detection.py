"""Is this still the server that we know? Its data may be restored from a backup, and then nothing known of it holds.

Lists show a new history for certain (`kube/store.py`). But a server that is restored goes away first, and every watch
with it: when the last one was cut, nothing is sure until the lists are here again. A set that is visited meanwhile is
read first, so that nothing is made or deleted for a set that is gone.
"""

import asyncio

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import Uid
from grove.controller.informers import Caches
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client


class NewHistoryError(Exception):
    """The server lost what was known of it. Its caller starts another controller, with empty memory."""


class ServerHistory:
    """Remembers which keys are sure: of sets, those that were read since no watch was open."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        self._open: set[str] = set()
        # How often the last watch was cut.
        self._cut_count = 0
        self._sure: dict[Uid, int] = {}

    @property
    def is_over(self) -> bool:
        """A new history began: nothing may be written any more."""
        return self._ended.is_set()

    def end(self) -> None:
        self._ended.set()

    def note_watch(self, resource: str, is_open: bool) -> None:
        """A watch was opened, or cut. After the last one, another server may answer next."""
        if is_open:
            self._open.add(resource)
        elif resource in self._open:
            self._open.remove(resource)
            self._cut_count += not self._open

    def is_sure(self, key: Uid) -> bool:
        return not self.is_over and self._sure.get(key, 0) == self._cut_count

    async def watch_over(self) -> None:
        """Until a new history begins; then raises `NewHistoryError`."""
        await self._ended.wait()
        raise NewHistoryError("the API server shows an older state than before")

    async def resolve_uncertain_writes(self, key: Uid, client: Client, caches: Caches) -> None:
        """Read the set of this key, unless it is sure. Raises `ApiError` if that fails."""
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
            raise ConnectionLost(f"PodCliqueSet {namespace}/{name} is older than before: everything is read again")
        caches.sets.observe(found)
        self._sure[key] = cut_count

    def forget(self, key: Uid) -> None:
        self._sure.pop(key, None)
