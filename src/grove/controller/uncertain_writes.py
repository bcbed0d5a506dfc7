"""Writes without a response: the API server may or may not have executed them.

Most name the state that they apply to (a uid, a version) and can be sent again. The others are read before the next
plan: no plan may use a state older than the operator's own writes.
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


class UncertainWrite(msgspec.Struct, frozen=True, kw_only=True):
    replica_index: int
    resource: Resource[Any]
    namespace: str
    name: str
    # The owner of the object; a foreign object of the same name is ignored.
    owner: OwnerKey | None = None
    uid: Uid | None = None

    def is_about(self, found: ObjectMeta) -> bool:
        return found.uid == self.uid or (self.owner is not None and found.controller == self.owner)


def find_uncertain_write(chain: Chain, action: Action) -> UncertainWrite | None:
    """Return what to read if this write gets no response; None if it can be sent again safely."""
    owner: OwnerKey | None = None
    uid: Uid | None = None
    match action:
        case Create():
            owner = action.owner
        case Patch():
            uid = action.uid
            # The next status depends on this one: `observedGeneration` of a set waits for its children.
            if action.resource_version and action.subresource != "status":
                return None
        case Delete() | DeleteMany():
            return None
        case _:
            assert_never(action)
    return UncertainWrite(
        replica_index=chain.replica_index,
        resource=action.resource,
        namespace=action.namespace,
        name=action.name,
        owner=owner,
        uid=uid,
    )


class UncertainWrites:
    """Uncertain writes by flow. A write that cannot be read stays, and the chains of its replica wait."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._by_flow: dict[str, list[UncertainWrite]] = {}

    def add(self, flow: str, writes: Sequence[UncertainWrite]) -> None:
        if writes:
            self._by_flow.setdefault(flow, []).extend(writes)

    def forget(self, flow: str) -> None:
        self._by_flow.pop(flow, None)

    def of(self, flow: str) -> Sequence[UncertainWrite]:
        return self._by_flow.get(flow, ())

    async def read(self, flow: str) -> None:
        writes = self._by_flow.pop(flow, [])
        for start in range(0, len(writes), READS_AT_ONCE):
            async with asyncio.TaskGroup() as tasks:
                for write in writes[start : start + READS_AT_ONCE]:
                    tasks.create_task(self._read_one(flow, write))

    async def _read_one(self, flow: str, write: UncertainWrite) -> None:
        try:
            found = await self._client.get(write.resource, write.namespace, write.name)
        except ApiError as error:
            if not error.is_not_found:
                self.add(flow, [write])
            return
        if write.is_about(found.metadata):
            self._caches.store(write.resource).observe(found)
