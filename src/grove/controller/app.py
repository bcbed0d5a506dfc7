"""Assembles the loop and runs it: caches, queue, workers, events. Everything is given; nothing is global."""

import asyncio
from random import Random

from grove.clock import Clock
from grove.controller.caches import Caches
from grove.controller.events import EventRecorder
from grove.controller.executor import Executor
from grove.controller.failures import FailureBook
from grove.controller.journal import Journal, LogJournal, NoJournal
from grove.controller.loop import Loop
from grove.controller.meter import Meter, NoMeter
from grove.controller.observe import Observer
from grove.controller.queue import KeyQueue
from grove.controller.settings import Settings
from grove.kube.client import Client


class Controller:
    """The operator: `run` until cancelled."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        settings: Settings | None = None,
        *,
        meter: Meter | None = None,
        journal: Journal | None = None,
        is_logging: bool = False,
    ) -> None:
        self._clock = clock
        self._settings = settings or Settings()
        self.caches = Caches()
        self.failures = FailureBook()
        self.queue = KeyQueue(clock)
        self.observer = Observer(
            self.caches,
            self.failures,
            self.queue.add,
            holds_in_outage=self._settings.holds_teardowns_in_outage,
        )
        self.recorder = EventRecorder(client, clock)
        self._reflectors = self.caches.reflectors(client, clock, random)
        self.loop = Loop(
            clock=clock,
            queue=self.queue,
            observer=self.observer,
            executor=Executor(client, self.caches, clock, self._settings),
            failures=self.failures,
            recorder=self.recorder,
            settings=self._settings,
            meter=meter or NoMeter(),
            journal=journal or (LogJournal(self.caches) if is_logging else NoJournal()),
        )

    @property
    def is_synced(self) -> bool:
        """Every kind was listed once, so that sets are planned for."""
        return not self.unlisted()

    def unlisted(self) -> list[str]:
        """Resources that were never listed so far."""
        return [plural for plural, reflector in self._reflectors.items() if not reflector.listed.is_set()]

    def watch_restarts(self) -> dict[str, int]:
        """By resource."""
        return {plural: reflector.restarts for plural, reflector in self._reflectors.items()}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors.values():
                tasks.create_task(reflector.run())
            tasks.create_task(self.recorder.run())
            # What is not seen yet is not missing: nothing is planned before every kind was listed once.
            for reflector in self._reflectors.values():
                await reflector.listed.wait()
            for _ in range(self._settings.workers):
                tasks.create_task(self.loop.work())
