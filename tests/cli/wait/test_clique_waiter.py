"""`grove wait`: when it ends, and what it prints meanwhile."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from grove.api import labels
from grove.api.resources import PODCLIQUES, PODS
from grove.api.values.clique_counts import CliqueCount, clique_counts_of, parse_clique_count
from grove.cli.wait.clique_waiter import CliqueWaiter
from grove.cli.wait.pod_info import gang_selector
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.cli.console import grove
from tests.simulation.startup_stories import clique, ordered, pods_of
from tests.simulation.stories import ONE_POD_NODE


def waiter_in(world: World, gang: str = "job-0") -> CliqueWaiter:
    selector = labels.selector({labels.PODGANG: gang})
    return CliqueWaiter(world.client, world.clock, Random(1), namespace="default", label_selector=selector)


def test_it_reports_each_change_once_and_ends_when_all_have_started() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=4, node_resources=ONE_POD_NODE) as world:
            lines: list[str] = []
            awaited = (CliqueCount(name="job-0-a", count=2), CliqueCount(name="job-0-b", count=1))
            waiting = asyncio.create_task(waiter_in(world).wait(awaited, lines.append))
            await world.clock.sleep(5)
            assert lines == [
                "waiting for podclique/job-0-a (does not exist yet), podclique/job-0-b (does not exist yet)"
            ]
            await world.apply(ordered(clique("a", 2), clique("b", ready_after="30s")))
            await waiting
            assert lines[1:] == [
                "waiting for podclique/job-0-a (0 of 2 ready), podclique/job-0-b (0 of 1 ready)",
                "waiting for podclique/job-0-b (0 of 1 ready)",
            ]
            assert all(pod.is_ready for pod in world.pods())

    run_virtual(story())


def test_it_follows_a_clique_that_is_recreated() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=2, node_resources=ONE_POD_NODE) as world:
            await world.apply(ordered(clique("a", ready_after="60s")))
            await world.wait_until(lambda: bool(pods_of(world, "job-0-a")))
            lines: list[str] = []
            awaited = (CliqueCount(name="job-0-a", count=1),)
            waiting = asyncio.create_task(waiter_in(world).wait(awaited, lines.append))
            await world.clock.sleep(5)
            await world.client.delete(PODCLIQUES, "default", "job-0-a")
            await waiting
            assert lines[0] == lines[-1] == "waiting for podclique/job-0-a (0 of 1 ready)"
            assert [pod.is_ready for pod in pods_of(world, "job-0-a")] == [True]

    run_virtual(story())


def test_a_watch_that_breaks_is_opened_again() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=2, node_resources=ONE_POD_NODE) as world:
            await world.apply(ordered(clique("a", ready_after="600s")))
            awaited = (CliqueCount(name="job-0-a", count=1),)
            waiting = asyncio.create_task(waiter_in(world).wait(awaited, lambda _: None))
            # Longer than the longest watch.
            await world.clock.sleep(590)
            assert not waiting.done()
            await waiting
            assert all(pod.is_ready for pod in world.objects(PODS))

    run_virtual(story())


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:0", "a:-1", "a:x", "a:1.5"])
def test_a_wrong_argument_is_a_usage_error_that_shows_the_form(tmp_path: Path, text: str) -> None:
    result = grove(tmp_path, "wait", f"--podcliques={text}")
    assert result.code == 2
    assert "expected NAME:COUNT with a count above 0, such as chat-0-leader:1" in result.err


def test_names_and_counts_are_read_from_the_arguments_of_a_container() -> None:
    assert parse_clique_count("a-0-b:12") == CliqueCount(name="a-0-b", count=12)
    assert clique_counts_of(("--podcliques=a:1", "--other=b:2", "--podcliques=c:3")) == (
        CliqueCount(name="a", count=1),
        CliqueCount(name="c", count=3),
    )


def test_in_a_pod_it_watches_only_the_cliques_of_its_gang(tmp_path: Path) -> None:
    assert gang_selector({"GROVE_ROOT": str(tmp_path)}) == ""
    (tmp_path / "var/grove/pod-info").mkdir(parents=True)
    (tmp_path / "var/grove/pod-info/podgangname").write_text("job-0")
    assert gang_selector({"GROVE_ROOT": str(tmp_path)}) == "grove.io/podgang=job-0"
