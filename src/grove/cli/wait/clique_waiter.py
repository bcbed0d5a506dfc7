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
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.reflector import Reflector, ReflectorCallbacks
from grove.kube.store import Store


class CliqueWaiter:
    """A watch of the PodCliques that a pod starts after. `label_selector` limits it to those of its gang.

    No error of the API server ends it: a server that restarts, a token that has expired, or permissions that are not
    granted yet are reported, and the watch is opened again.
    """

    def __init__(
        self, client: Client, clock: Clock, random: Random, *, namespace: str, label_selector: str = ""
    ) -> None:
        self._namespace = namespace
        self._store: Store[AwaitedClique] = Store()
        self._reflector = Reflector(
            client,
            AWAITED_CLIQUES,
            self._store,
            clock,
            random,
            namespace=namespace,
            label_selector=label_selector,
            callbacks=ReflectorCallbacks(on_watch=self._on_watch, on_error=self._on_error),
        )
        self._changed = asyncio.Event()
        # Why the PodCliques cannot be read; "" if they can.
        self._error = ""
        self._store.subscribe(lambda _old, _new: self._changed.set())

    async def wait(self, dependencies: tuple[CliqueCount, ...], report: Callable[[str], None]) -> None:
        """Return when all dependencies have started at the same time. Report what is missing, once per change."""
        watching = asyncio.create_task(self._reflector.run())
        reported = ""
        try:
            while waiting_for := await self._next_description(dependencies):
                if waiting_for != reported:
                    report(waiting_for)
                    reported = waiting_for
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    def _on_watch(self, is_open: bool) -> None:
        if is_open:
            self._set_error("")

    def _on_error(self, error: ApiError) -> None:
        # A version that the server has forgotten is no trouble: the PodCliques are listed again.
        if not error.is_gone:
            self._set_error(f"{error.brief} ({error.code})" if error.code else error.brief)

    def _set_error(self, error: str) -> None:
        self._error = error
        self._changed.set()

    async def _next_description(self, dependencies: tuple[CliqueCount, ...]) -> str:
        """Return, after the next change, what is waited for; "" if all dependencies have started."""
        await self._changed.wait()
        self._changed.clear()
        if self._error:
            return f"waiting for the API server: {self._error}"
        missing = ", ".join(self._describe_missing(dependencies))
        return missing and f"waiting for {missing}"

    def _describe_missing(self, dependencies: tuple[CliqueCount, ...]) -> Iterator[str]:
        for dependency in dependencies:
            clique = self._store.by_name(self._namespace, dependency.name)
            if clique is None:
                yield f"podclique/{dependency.name} (does not exist yet)"
            elif not clique.has_started(dependency.count):
                yield f"podclique/{dependency.name} ({clique.started_count} of {dependency.count} ready)"
