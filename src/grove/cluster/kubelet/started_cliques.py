"""The PodCliques that init containers of simulated pods wait for. Watched only once a pod waits."""

import asyncio
from collections.abc import Callable
from random import Random

from grove.api.resources import AWAITED_CLIQUES
from grove.api.types.meta import Uid
from grove.api.types.podclique import AwaitedClique
from grove.api.values.clique_counts import CliqueCount
from grove.clock import Clock
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store


class StartedCliques:
    """A cache of PodCliques that calls `wake` for every pod that waits for a changed one. The caller must run it."""

    def __init__(self, client: Client, clock: Clock, random: Random, wake: Callable[[Uid], None]) -> None:
        self._store: Store[AwaitedClique] = Store()
        self._reflector = Reflector(client, AWAITED_CLIQUES, self._store, clock, random, is_optional=True)
        self._wake = wake
        self._needed = asyncio.Event()
        # The pods that wait, by namespace and name of the PodClique.
        self._waiting: dict[tuple[str, str], dict[Uid, None]] = {}
        self._store.subscribe(self._changed)

    async def run(self) -> None:
        await self._needed.wait()
        await self._reflector.run()

    def have_started(self, pod: Uid, namespace: str, cliques: tuple[CliqueCount, ...]) -> bool:
        """Return whether all have enough started pods. If not, the pod is woken when one of them changes."""
        missing = [one for one in cliques if not self._has_started(namespace, one)]
        for one in missing:
            self._waiting.setdefault((namespace, one.name), {})[pod] = None
        if missing:
            self._needed.set()
        return not missing

    def _has_started(self, namespace: str, awaited: CliqueCount) -> bool:
        clique = self._store.by_name(namespace, awaited.name)
        return clique is not None and clique.has_started(awaited.count)

    def _changed(self, old: AwaitedClique | None, new: AwaitedClique | None) -> None:
        known = new or old
        assert known is not None
        for pod in self._waiting.pop((known.metadata.namespace, known.metadata.name), {}):
            self._wake(pod)
