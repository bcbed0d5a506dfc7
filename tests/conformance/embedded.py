"""The embedded API as the conformance tests see it: over HTTP and TLS, like the real one."""

import asyncio
from random import Random

from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.controllers.disruption_controller import DisruptionController
from grove.cluster.controllers.garbage_collector import GarbageCollector
from grove.cluster.controllers.namespace_defaults import NamespaceDefaults
from grove.cluster.http.https_server import HttpApi
from grove.kube.kubeconfig import Access

_TOKEN = "a token of the tests"


class Embedded:
    """The embedded API over HTTP and TLS, with what cleans up and furnishes; no scheduler, no kubelet."""

    def __init__(self) -> None:
        self._server = ApiServer(LoopClock.starting_now(), Random(7))
        self._http = HttpApi(self._server, token=_TOKEN)
        self._parts: list[asyncio.Task[None]] = []

    async def start(self) -> Access:
        await self._http.start()
        furnished = NamespaceDefaults(self._server, root_ca=self._http.ca)
        controllers = (GarbageCollector(self._server), furnished, DisruptionController(self._server))
        self._parts = [asyncio.create_task(part.run()) for part in controllers]
        return Access(
            server=self._http.url, source="tests", certificate_authority=self._http.ca, token=self._http.token
        )

    def forget(self) -> None:
        """All history, as a server that was restarted on a compacted store."""
        self._server.store.compact()

    async def stop(self) -> None:
        await self._http.stop()
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)
