"""A line that is cut again and again, at any byte: what is written is written once, and nothing followed is missed."""

import asyncio
from random import Random

import msgspec
import pytest

from grove.api.resources import NODES, Object
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.http.https_server import HttpApi
from grove.kube import reflector
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client
from grove.kube.kubeconfig import Access
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from tests.kube.loopback import SetClock, connected, raw_server

NAMES = [f"node-{number:03}" for number in range(240)]


class Scissors:
    """Passes bytes on between a client and its server, and cuts each connection after some of them."""

    def __init__(self, server: str, random: Random) -> None:
        self._port = int(server.rpartition(":")[2])
        self._random = random
        self.is_blunt = False
        self.cut_count = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
        # A handshake takes about two thousand; some connections do not even live that long.
        budget = self._random.randint(500, 6_000)
        ways = [self._pass(reader, inner_writer, budget), self._pass(inner_reader, writer, budget)]
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            inner_writer.transport.abort()
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: int) -> None:
        while data := await reader.read(65536):
            if not self.is_blunt and len(data) >= budget:
                writer.write(data[:budget])
                self.cut_count += 1
                return
            budget -= len(data)
            writer.write(data)


async def create(client: Client, name: str) -> int:
    """How many answers were lost until it was there."""
    lost_count = 0
    while True:
        try:
            await client.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
            return lost_count
        except ConnectionLost:
            lost_count += 1
        except ApiError as error:
            if not error.is_already_exists or not lost_count:
                raise
            return lost_count


async def create_all(client: Client, names: list[str]) -> int:
    return sum([await create(client, name) for name in names])


async def storm(seed: int) -> None:
    clock = SetClock()
    api = HttpApi(ApiServer(LoopClock.starting_now(), Random(1)), token="secret")
    await api.start()
    scissors = Scissors(api.url, Random(seed))
    try:
        async with raw_server(scissors.talk) as url:
            access = Access(
                server=url.replace("http", "https"), source="t", certificate_authority=api.ca, token="secret"
            )
            async with connected(access) as transport, asyncio.TaskGroup() as group:
                client, store = Client(transport, clock), Store[Object]()
                following = group.create_task(Reflector(client, NODES, store, clock, Random(seed)).run())
                # One after the other on each of a few connections, so that these are kept and cut in the middle.
                lost_counts = await asyncio.gather(*(create_all(client, NAMES[flow::6]) for flow in range(6)))
                scissors.is_blunt = True
                while sorted(node.metadata.name for node in store.values()) != NAMES:
                    await clock.sleep(0.01)
                following.cancel()
        direct = msgspec.structs.replace(access, server=api.url)
        async with connected(direct) as transport:
            listing = await Client(transport, clock).list(NODES)
    finally:
        await api.stop()
    assert sorted(node.metadata.name for node in listing.items) == NAMES
    assert sum(lost_counts) > 0
    assert scissors.cut_count > 10


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_or_done_twice_on_a_line_that_is_cut(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "LONGEST_DELAY_SECONDS", 0.05)
    asyncio.run(asyncio.wait_for(storm(seed), 480))
