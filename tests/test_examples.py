"""Every manifest in `examples/` does what its reader hopes for: it is accepted without a warning, and it all runs."""

from pathlib import Path

import pytest
import yaml

from grove.api import labels
from grove.api.resources import AUTOSCALERS, NODES, PODCLIQUESETS, PODGANGS
from grove.cluster.default_topology_binding import create_topology
from grove.cluster.nodes import BLOCK, RACK
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.admission.asking import created

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_example_becomes_available(path: Path) -> None:
    async def story() -> None:
        async with World(seed=1, nodes=8) as world:
            await create_topology(world.client)
            applied = await world.apply(path)
            assert [one.warnings for one in applied] == [()] * len(applied)
            await world.settle()
            for pcs in world.objects(PODCLIQUESETS):
                status = pcs.status
                healthy = {"Available": "AllReplicasAvailable", "Progressing": "Complete"}
                wrong = [
                    one for one in status.conditions if one.status != "False" and healthy.get(one.type) != one.reason
                ]
                found = (status.phase, status.available_replicas, wrong, status.last_errors)
                assert found == ("Running", pcs.spec.replicas, [], ())
            assert [gang.metadata.name for gang in world.objects(PODGANGS) if gang.status.phase != "Running"] == []
            assert [pod.metadata.name for pod in world.pods() if not pod.is_ready] == []

    run_virtual(story())


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("schedulers/*.yaml")), ids=lambda path: path.name)
def test_the_example_for_a_scheduler_is_accepted_and_says_nothing_else_than_that_one(path: Path) -> None:
    manifest = yaml.safe_load(path.read_text())
    answer = created(manifest)
    assert (answer.is_allowed, answer.errors) == (True, ())
    names = {clique["spec"]["podSpec"].get("schedulerName") for clique in manifest["spec"]["template"]["cliques"]}
    assert [str(name).partition("-")[0] for name in names] in ([path.stem], ["None"])


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


def test_the_autoscaling_example_has_an_autoscaler_for_its_clique_and_its_group() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=8) as world:
            await world.apply(EXAMPLES / "autoscaling.yaml")
            await world.settle()
            found = {one.metadata.name: one.spec for one in world.objects(AUTOSCALERS)}
            assert {name: (spec.min_replicas, spec.max_replicas) for name, spec in found.items()} == {
                "scaled-0-prefill": (1, 4),
                "scaled-0-router": (1, 6),
            }
            behavior = found["scaled-0-prefill"].behavior
            assert behavior is not None
            assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 600

    run_virtual(story())


def test_the_autoscaler_of_a_set_on_the_page_names_what_can_be_scaled() -> None:
    page = (EXAMPLES.parent / "docs" / "how-to" / "autoscale.md").read_text()
    (block,) = (one for one in page.split("```") if "kind: HorizontalPodAutoscaler" in one)
    manifest = yaml.safe_load(block.removeprefix("yaml"))

    async def story() -> None:
        async with World(seed=1, nodes=8) as world:
            example = yaml.safe_load((EXAMPLES / "quickstart.yaml").read_text())
            example["metadata"]["name"] = manifest["spec"]["scaleTargetRef"]["name"]
            await world.apply(example)
            await world.apply(manifest)
            await world.settle()
            (pcs,) = world.objects(PODCLIQUESETS)
            target = manifest["spec"]["scaleTargetRef"]
            assert target == {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": pcs.metadata.name}
            # What the HPA controller does.
            await world.scale(PODCLIQUESETS, target["name"], 2)
            await world.settle()
            assert [one.status.available_replicas for one in world.objects(PODCLIQUESETS)] == [2]

    run_virtual(story())


def test_the_topology_example_has_an_instance_per_rack_of_one_block() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=24) as world:
            await create_topology(world.client)
            await world.apply(EXAMPLES / "topology.yaml")
            await world.settle()
            nodes = {node.metadata.name: node.metadata.labels for node in world.objects(NODES)}
            racks: dict[str, set[str]] = {}
            for pod in world.running_pods():
                instance = pod.metadata.labels.get(labels.GROUP_REPLICA_INDEX, "router")
                racks.setdefault(instance, set()).add(nodes[pod.spec.node_name][RACK])
            assert [len(racks[instance]) for instance in ("0", "1")] == [1, 1]
            assert racks["0"] != racks["1"]
            assert len({nodes[pod.spec.node_name][BLOCK] for pod in world.running_pods()}) == 1
            assert len(world.running_pods()) == 9

    run_virtual(story())
