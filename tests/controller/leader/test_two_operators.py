"""Two whole operators on one world: whoever leads, the sets come out right, and only the leader ever wrote."""

import asyncio
from random import Random

import pytest

from grove.api.resources import PODCLIQUESETS
from grove.controller.manager import Controller, run_through_restores
from grove.kube.client import Client
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.controller.leader.electorate import Candidate, Electorate
from tests.markdown import ROOT
from tests.simulation.stories import named

QUICKSTART = ROOT / "examples" / "quickstart.yaml"
_DEEP = pytest.mark.deep(reason="the quick tier has the same story with other seeds")


async def operate(client: Client, candidate: Candidate) -> None:
    await run_through_restores(lambda: Controller(client, candidate.clock, Random(candidate.random.random())))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=_DEEP) for seed in (2, 3, 4))])
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


@pytest.mark.parametrize("bump", [pytest.param(0, id="plain"), pytest.param(1_000_000, id="bumped")])
@pytest.mark.parametrize("has_new_leader", [False, True])
def test_when_the_server_is_put_back_whoever_leads_goes_on_with_what_it_says(bump: int, has_new_leader: bool) -> None:
    async def main() -> None:
        async with World(nodes=20, operator=None, is_checked=False) as world:
            electorate = Electorate(clock=world.clock, server=world.server)
            first = electorate.candidate("a", job=operate)
            await world.apply(QUICKSTART)
            await world.clock.sleep(60)
            second = electorate.candidate("b", job=operate)
            await world.clock.sleep(60)
            backup = world.server.store.back_up()
            if has_new_leader:
                # The backup says that the first one leads.
                first.line.whole.clear()
                await world.clock.sleep(60)
                first.line.whole.set()
            await world.apply(named("later"))
            await world.clock.sleep(60)
            assert len(world.running_pods()) == 20
            world.server.store.restore_backup(backup, bump=bump)
            restored_at = world.clock.monotonic()
            await world.clock.sleep(300)
            wires = (first.wire, second.wire)
            writes = [write for wire in wires for write in wire.writes if write.at >= restored_at]
            about = [
                write.target for write in writes if "later" in write.target.name or b'"later' in write.request.body
            ]
            assert [target for target in about if target.resource != "events"] == []
            assert [write.target for write in writes if write.target.resource == "pods"] == []
            assert [pcs.metadata.name for pcs in world.objects(PODCLIQUESETS)] == ["chat"]
            assert len(world.running_pods()) == 10
            for candidate in (first, second):
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
