"""The stories of the wire, in a simulated world."""

from collections.abc import Awaitable, Callable

import pytest

from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.scene import Scene
from tests.simulation.restored import unrestored
from tests.simulation.wire_stories import STORIES_WITHOUT_NODES, WIRE_STORIES

TOLD = [(story, 4) for story in WIRE_STORIES] + [(story, 0) for story in STORIES_WITHOUT_NODES]


@pytest.mark.parametrize(("story", "nodes"), TOLD, ids=lambda value: getattr(value, "__name__", str(value)))
def test_the_wire_is_as_told(story: Callable[[Scene], Awaitable[None]], nodes: int) -> None:
    async def tell() -> None:
        async with World(seed=1, nodes=nodes) as world:
            await story(world)
            world.check()
            assert unrestored(world) == []

    run_virtual(tell())
