"""Follow PodCliques by one watch until each has enough ready pods.

The status of a PodClique counts its ready pods, so no pod is watched: a thousand pods that wait for one leader cost the
API server one event each when the leader becomes ready.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from grove.api.resources import AWAITED_CLIQUES
from grove.api.types.podclique import AwaitedClique
from grove.api.values.clique_counts import CliqueCount
from grove.clock import Clock
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store


class CliqueWaiter:
    """A watch of the PodCliques that a pod starts after. `label_selector` limits it to those of its gang."""

    def __init__(
        self, client: Client, clock: Clock, random: Random, *, namespace: str, label_selector: str = ""
    ) -> None:
        self._namespace = namespace
        self._store: Store[AwaitedClique] = Store()
        self._reflector = Reflector(
            client, AWAITED_CLIQUES, self._store, clock, random, namespace=namespace, label_selector=label_selector
        )
        self._changed = asyncio.Event()
        self._store.subscribe(lambda _old, _new: self._changed.set())

    async def wait(self, dependencies: tuple[CliqueCount, ...], report: Callable[[str], None]) -> None:
        """Return when all dependencies have started at the same time. Report what is missing, once per change."""
        watching = asyncio.create_task(self._reflector.run())
        try:
            await self._reflector.listed.wait()
            reported: tuple[str, ...] = ()
            while missing := tuple(self._describe_missing(dependencies)):
                if missing != reported:
                    report(f"waiting for {', '.join(missing)}")
                    reported = missing
                self._changed.clear()
                await self._changed.wait()
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    def _describe_missing(self, dependencies: tuple[CliqueCount, ...]) -> Iterator[str]:
        for dependency in dependencies:
            clique = self._store.by_name(self._namespace, dependency.name)
            if clique is None:
                yield f"podclique/{dependency.name} (does not exist yet)"
            elif not clique.has_started(dependency.count):
                yield f"podclique/{dependency.name} ({clique.started_count} of {dependency.count} ready)"
