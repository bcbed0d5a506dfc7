"""Every manifest in `examples/` does what its reader hopes for: it is accepted without a warning, and it all runs."""

from pathlib import Path

import pytest

from grove.api import labels
from grove.api.resources import PODCLIQUESETS, PODGANGS
from grove.sim.clock import run_virtual
from grove.sim.world import World

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_example_becomes_available(path: Path) -> None:
    async def story() -> None:
        async with World(seed=1, nodes=8) as world:
            applied = await world.apply(path)
            assert [one.warnings for one in applied] == [()] * len(applied)
            await world.settle()
            for pcs in world.objects(PODCLIQUESETS):
                status = pcs.status
                found = (status.phase, status.available_replicas, status.conditions, status.last_errors)
                assert found == ("Running", pcs.spec.replicas, (), ())
            assert [gang.metadata.name for gang in world.objects(PODGANGS) if gang.status.phase != "Running"] == []
            assert [pod.metadata.name for pod in world.pods() if not pod.is_ready] == []

    run_virtual(story())


@pytest.mark.parametrize(
    ("nodes", "ready"),
    [
        pytest.param(2, {"inference-0": 0, "inference-0-prefill-0": 0}, id="4 GPU pods: below the base gang's minima"),
        pytest.param(3, {"inference-0": 8, "inference-0-prefill-0": 0}, id="6 GPU pods: the minima, and one extra"),
        pytest.param(4, {"inference-0": 9, "inference-0-prefill-0": 0}, id="8 GPU pods: no room for an instance of 3"),
        pytest.param(5, {"inference-0": 9, "inference-0-prefill-0": 3}, id="10 GPU pods: all of it"),
    ],
)
def test_the_inference_example_grows_by_whole_instances(nodes: int, ready: dict[str, int]) -> None:
    async def ready_by_gang() -> dict[str, int]:
        async with World(seed=1, nodes=nodes) as world:
            await world.apply(EXAMPLES / "inference.yaml")
            await world.settle()
            counts = {gang.metadata.name: 0 for gang in world.objects(PODGANGS)}
            for pod in world.pods():
                counts[pod.metadata.labels[labels.PODGANG]] += pod.is_ready
            return counts

    assert run_virtual(ready_by_gang()) == ready
