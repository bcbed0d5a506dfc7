"""A store of one kind in chosen namespaces: a store for each, read as one.

Each namespace has its own list and watch, and versions of two watches cannot be compared. So each has its own `Store`,
and this one only combines them.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TypeVar

from grove.api.types.meta import HasMetadata, OwnerKey, Uid
from grove.kube.store import Listener, Store

T = TypeVar("T", bound=HasMetadata)


class NamespacedStore(Store[T]):
    """Several stores as one. Lists and watches go to `part`; reads and own writes may come here."""

    def __init__(self, namespaces: tuple[str, ...], monotonic: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(monotonic)
        self._parts: dict[str, Store[T]] = {namespace: Store(monotonic) for namespace in namespaces}

    def part(self, namespace: str) -> Store[T]:
        """Return the store of one of the namespaces."""
        return self._parts[namespace]

    def get(self, uid: Uid) -> T | None:
        return next((found for part in self._parts.values() if (found := part.get(uid)) is not None), None)

    def by_name(self, namespace: str, name: str) -> T | None:
        part = self._parts.get(namespace)
        return None if part is None else part.by_name(namespace, name)

    def owned_by(self, owner: OwnerKey) -> tuple[T, ...]:
        part = self._parts.get(owner.namespace)
        return () if part is None else part.owned_by(owner)

    def values(self) -> Iterable[T]:
        return _chain(tuple(self._parts.values()))

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts.values())

    @property
    def tombstone_count(self) -> int:
        return sum(part.tombstone_count for part in self._parts.values())

    @property
    def newest_version(self) -> int:
        return max(part.newest_version for part in self._parts.values())

    @property
    def behind_seconds(self) -> float:
        return max(part.behind_seconds for part in self._parts.values())

    def subscribe(self, listener: Listener[T]) -> None:
        for part in self._parts.values():
            part.subscribe(listener)

    def observe(self, obj: T) -> None:
        """Store the response to an own write. Objects of other namespaces are not stored."""
        part = self._parts.get(obj.metadata.namespace)
        if part is not None:
            part.observe(obj)

    def forget(self, uid: Uid) -> None:
        for part in self._parts.values():
            part.forget(uid)

    def mark_terminating(self, uids: Iterable[Uid], at: datetime) -> None:
        wanted = tuple(uids)
        for part in self._parts.values():
            part.mark_terminating(wanted, at)


def _chain(parts: tuple[Store[T], ...]) -> Iterator[T]:
    for part in parts:
        yield from part.values()
