"""Writes that were sent and not answered: they may or may not have been carried out.

Most say themselves which state they are meant for (a uid, a version) and may simply be sent again. The others are
read before the next plan: no plan may rest on a state older than our own writes.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from grove.api.resources import Resource
from grove.api.types.meta import ObjectMeta, OwnerKey, Uid
from grove.controller.informers import Caches
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.planner.actions import Action, Chain, Create, Delete, DeleteMany, Patch

READS_AT_ONCE = 16


class Unanswered(msgspec.Struct, frozen=True, kw_only=True):
    part: int
    resource: Resource[Any]
    namespace: str
    name: str
    # Whose object it is; a foreign one under the same name does not matter.
    owner: OwnerKey | None = None
    uid: Uid | None = None

    def is_about(self, found: ObjectMeta) -> bool:
        return found.uid == self.uid or (self.owner is not None and found.controller == self.owner)


def unguarded(chain: Chain, action: Action) -> Unanswered | None:
    """What must be read if this write is not answered; None if sending it again can do no harm."""
    owner: OwnerKey | None = None
    uid: Uid | None = None
    match action:
        case Create():
            owner = action.owner
        case Patch():
            uid = action.uid
            # What a status says decides about the next one: `observedGeneration` of a set waits for its children.
            if action.resource_version and action.subresource != "status":
                return None
        case Delete() | DeleteMany():
            return None
        case _:
            assert_never(action)
    return Unanswered(
        part=chain.part,
        resource=action.resource,
        namespace=action.namespace,
        name=action.name,
        owner=owner,
        uid=uid,
    )


class UnansweredWrites:
    """By lane. What cannot be read either is kept, and the chains of its part wait."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._by_lane: dict[str, list[Unanswered]] = {}

    def add(self, flow: str, writes: Sequence[Unanswered]) -> None:
        if writes:
            self._by_lane.setdefault(flow, []).extend(writes)

    def forget(self, flow: str) -> None:
        self._by_lane.pop(flow, None)

    def of(self, flow: str) -> Sequence[Unanswered]:
        return self._by_lane.get(flow, ())

    async def read(self, flow: str) -> None:
        writes = self._by_lane.pop(flow, [])
        for start in range(0, len(writes), READS_AT_ONCE):
            async with asyncio.TaskGroup() as tasks:
                for write in writes[start : start + READS_AT_ONCE]:
                    tasks.create_task(self._read_one(flow, write))

    async def _read_one(self, flow: str, write: Unanswered) -> None:
        try:
            found = await self._client.get(write.resource, write.namespace, write.name)
        except ApiError as error:
            if not error.is_not_found:
                self.add(flow, [write])
            return
        if write.is_about(found.metadata):
            self._caches.store(write.resource).observe(found)
