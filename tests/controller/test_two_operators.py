"""Two whole operators on one world: whoever leads, the sets come out right, and only the leader ever wrote."""

import asyncio
from random import Random

import pytest

from grove.api.resources import PODCLIQUESETS
from grove.controller.app import Controller
from grove.kube.client import Client
from grove.sim.clock import run_virtual
from grove.sim.world import World
from tests.controller.electorate import Candidate, Electorate
from tests.markdown import ROOT

QUICKSTART = ROOT / "examples" / "quickstart.yaml"


async def operate(client: Client, candidate: Candidate) -> None:
    await Controller(client, candidate.clock, Random(candidate.random.random())).run()


@pytest.mark.parametrize("seed", range(5))
def test_sets_come_out_right_while_the_operators_take_turns(seed: int) -> None:
    async def main() -> None:
        async with World(seed=seed, nodes=8, operator=None) as world:
            electorate = Electorate(seed, clock=world.clock, server=world.server)
            candidates = [electorate.candidate(name, job=operate) for name in ("a", "b")]
            chance = Random(f"{seed}/story")
            await world.apply(QUICKSTART)
            for _ in range(12):
                await world.clock.sleep(chance.uniform(0.1, 15))
                await world.scale(PODCLIQUESETS, "chat", chance.randint(1, 4))
                trouble = chance.choice(("line", "awake", "none"))
                victim = chance.choice(candidates)
                event = {"line": victim.line.whole, "awake": victim.clock.awake, "none": asyncio.Event()}[trouble]
                event.clear()
                await world.clock.sleep(chance.uniform(0.1, 30))
                event.set()
            await world.scale(PODCLIQUESETS, "chat", 2)
            # Leases are renewed for ever, so the world is never quiet.
            await world.clock.sleep(300)
            world.check()
            assert electorate.offences == []
            assert (len(world.pods()), len(world.running_pods())) == (20, 20)
            for candidate in candidates:
                candidate.task.cancel()

    run_virtual(main())


def test_after_a_kill_in_the_middle_of_the_work_the_other_one_finishes_it() -> None:
    async def main() -> None:
        async with World(nodes=8, operator=None) as world:
            electorate = Electorate(clock=world.clock, server=world.server)
            first = electorate.candidate("a", job=operate)
            await world.clock.sleep(0)
            second = electorate.candidate("b", job=operate)
            first.wire.crash_after_write(9)
            await world.apply(QUICKSTART)
            await first.wire.crashed.wait()
            first.kill()
            await world.wait_until(lambda: len(world.running_pods()) == 10)
            assert electorate.leaders == ["a", "b"]
            assert electorate.offences == []
            world.check()
            second.task.cancel()

    run_virtual(main())
