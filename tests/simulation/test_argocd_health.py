"""The health script of docs/how-to/argocd.md, run by a Lua interpreter on the sets of simulated stories."""

from collections.abc import Awaitable, Callable

import pytest
import yaml

# Argo CD runs Lua 5.1.
from lupa import lua51

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import JsonObject
from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.markdown import ROOT, fences
from tests.simulation.condition_stories import NAME, STALLED, conditions_now, serving
from tests.simulation.stories import ONE_POD_NODE, expect_running
from tests.simulation.training_stories import clique, expect_failure, expect_success, running, training
from tests.simulation.updating import BROKEN, change_annotations, is_updating


def script() -> str:
    page = (ROOT / "docs" / "how-to" / "argocd.md").read_text()
    (found,) = [one for one in map(yaml.safe_load, _yaml_blocks(page)) if one.get("kind") == "ConfigMap"]
    text: str = found["data"]["resource.customizations.health.grove.io_PodCliqueSet"]
    return text


def _yaml_blocks(page: str) -> list[str]:
    return [fence.text for fence in fences(page) if fence.language == "yaml"]


def health(pcs: JsonObject) -> tuple[str, str]:
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(pcs, recursive=True)
    answer = lua.execute(script())
    return answer.status, answer.message


def health_in(world: World, name: str = NAME) -> tuple[str, str]:
    entry = world.server.store.table(BY_QUALIFIED["podcliquesets.grove.io"]).find("default", name)
    assert entry is not None
    return health(entry.obj)


def tell(story: Callable[[World], Awaitable[None]], nodes: int = 3) -> None:
    async def run() -> None:
        async with World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE) as world:
            await story(world)

    run_virtual(run())


def test_a_set_that_starts_scales_updates_and_stalls() -> None:
    async def story(world: World) -> None:
        await world.apply(serving(2))
        assert health_in(world)[0] == "Progressing"
        await expect_running(world, 2)
        assert health_in(world) == ("Healthy", "AllReplicasAvailable: 2 of 2 replicas are available")
        await world.scale(PODCLIQUESETS, NAME, 4)
        # The old success is not that of the new spec.
        assert health_in(world) == ("Progressing", "the operator has not acted on the newest spec yet")
        await expect_running(world, 3)
        assert health_in(world) == ("Progressing", "ReplicasUnavailable: 3 of 4 replicas are available")
        await world.scale(PODCLIQUESETS, NAME, 2)
        await expect_running(world, 2)
        assert health_in(world)[0] == "Healthy"
        await change_annotations(world, BROKEN)
        await world.wait_until(lambda: is_updating(world))
        assert health_in(world)[0] == "Progressing"
        await world.wait_until(lambda: conditions_now(world) == STALLED)
        level, message = health_in(world)
        assert level == "Degraded"
        assert message.startswith("UpdateStalled: replica 1: ")

    tell(story)


def test_a_set_whose_stored_spec_is_invalid_is_degraded() -> None:
    async def story(world: World) -> None:
        await world.apply(serving(1))
        await expect_running(world, 1)
        pcs = world.server.store.table(BY_QUALIFIED["podcliquesets.grove.io"]).find("default", NAME)
        assert pcs is not None
        reported = {"type": "ReconcileFailed", "status": "True", "reason": "InvalidSpec", "message": "two cliques"}
        status = {**pcs.obj["status"], "conditions": [*pcs.obj["status"]["conditions"], reported]}
        assert health({**pcs.obj, "status": status}) == ("Degraded", "InvalidSpec: two cliques")

    tell(story)


def test_a_job_that_runs_and_succeeds() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("worker", 2, exits_after="30s")))
        await world.wait_until(lambda: len(running(world)) == 2)
        await world.clock.sleep(5)
        assert health_in(world, "job") == ("Progressing", "the job is Running")
        await expect_success(world)
        assert health_in(world, "job") == ("Healthy", "AllReplicasSucceeded: every replica succeeded")

    tell(story)


def test_a_job_that_fails() -> None:
    async def story(world: World) -> None:
        await world.apply(training(clique("worker", 2, exits_after="30s", code=1)))
        await expect_failure(world, "MaxRestartsExceeded")
        assert health_in(world, "job")[0] == "Degraded"

    tell(story)


AVAILABLE = {"type": "Available", "status": "True", "reason": "R", "message": "m"}


@pytest.mark.parametrize(
    "status", [None, {}, {"observedGeneration": 1}, {"observedGeneration": 1, "conditions": [AVAILABLE]}]
)
def test_a_status_that_is_not_complete_is_progressing(status: JsonObject | None) -> None:
    pcs: JsonObject = {"metadata": {"name": "x", "generation": 1}, "spec": {"replicas": 1}}
    assert health(pcs if status is None else {**pcs, "status": status})[0] == "Progressing"
