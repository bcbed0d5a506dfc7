"""A crash in a copy of the process is the crash that `crash_before_write` and `crash_after_write` make."""

import pytest

from grove.sim.faults import FaultyTransport
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.crashes import Crashes, tell_with_crashes
from tests.simulation.stories import expect_running

_CONTAINERS = [{"name": "main", "image": "i"}]
SMALL = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {"name": "small"},
    "spec": {
        "replicas": 1,
        "template": {
            "cliques": [{"name": "a", "spec": {"roleName": "a", "replicas": 3, "podSpec": {"containers": _CONTAINERS}}}]
        },
    },
}


async def tell(crashes: Crashes | None = None, crash: tuple[str, int] | None = None) -> tuple[str, ...]:
    """The operator's writes in all its lives, and when each was made."""
    async with World(seed=1, nodes=1) as world:
        if crashes is not None:
            crashes.begin(world)
        if crash is not None:
            getattr(FaultyTransport, crash[0])(world.operator, crash[1])
        await world.apply(SMALL)
        await expect_running(world, 3)
        return tuple(f"{write.at} {write.request}" for write in world.writes_by("operator"))


def test_crashes_in_copies_are_the_crashes_before_and_after_each_write() -> None:
    found = tell_with_crashes(tell)
    assert found.calm == run_virtual(tell())
    writes = len(found.calm)
    assert writes < len(found.crashed) < 1.5 * writes
    for number in range(1, writes + 1, 3):
        for kind in ("crash_before_write", "crash_after_write"):
            assert run_virtual(tell(crash=(kind, number))) in found.crashed.values(), f"{kind}({number})"


def test_only_the_chosen_crash_points_are_visited() -> None:
    everywhere = tell_with_crashes(tell).crashed
    chosen = tell_with_crashes(tell, every=5, first=2).crashed
    assert chosen == dict(list(everywhere.items())[2::5])


def test_a_story_that_fails_after_a_crash_is_a_failure_that_names_the_crash() -> None:
    async def fail_after_a_crash(crashes: Crashes) -> None:
        async with World(seed=1, nodes=1) as world:
            crashes.begin(world)
            first_life = world.operator
            await world.apply(SMALL)
            await world.settle()
            assert world.operator is first_life, "the operator lives again"

    with pytest.raises(AssertionError, match=r"(?s)a crash at crash point 0, after write 0:.*the operator lives again"):
        tell_with_crashes(fail_after_a_crash, every=1000)


def test_a_story_in_which_the_operator_writes_nothing_is_a_failure() -> None:
    async def nothing(crashes: Crashes) -> None:
        async with World(seed=1) as world:
            crashes.begin(world)
            await world.settle()

    with pytest.raises(AssertionError, match="wrote nothing"):
        tell_with_crashes(nothing)
