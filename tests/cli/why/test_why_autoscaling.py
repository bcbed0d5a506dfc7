"""`grove why` and `grove status` about autoscalers: of cliques, of groups, and one that a user wrote for a set."""

from random import Random

from grove.api.resources import AUTOSCALERS
from grove.api.types.meta import JsonObject
from grove.cli.common.output import plain_lines
from grove.cli.status.set_watcher import SetWatcher
from grove.cli.status.tree_view import tree_rows
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.cli.why.test_why_startup import lines_about
from tests.simulation.autoscaling_stories import scaled_set

BY_SET: JsonObject = {
    "apiVersion": AUTOSCALERS.api_version,
    "kind": AUTOSCALERS.kind,
    "metadata": {"name": "mine"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "s"},
        "minReplicas": 1,
        "maxReplicas": 3,
    },
}
AT_MAXIMUM: JsonObject = {
    "currentReplicas": 4,
    "desiredReplicas": 4,
    "conditions": [
        {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale"},
        {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"},
        {"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas"},
    ],
}


def test_the_autoscalers_of_a_set_and_its_parts_are_shown() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=4) as world:
            await world.apply(scaled_set())
            await world.apply(BY_SET)
            await world.settle()
            status = {"status": AT_MAXIMUM}
            await world.client.patch(AUTOSCALERS, "default", "s-0-g", status, subresource="status")
            about_group = await lines_about(world, "pcsg/s-0-g")
            at_maximum = "4 replicas, 2 to 4 allowed; queue unknown/1500m; at maxReplicas"
            assert about_group[-1].endswith(f"The autoscaler of podcliquescalinggroup/s-0-g: {at_maximum}.")
            assert len([line for line in about_group if "autoscaler" in line]) == 1
            about_set = [line for line in await lines_about(world, "pcs/s") if "The autoscaler of" in line]
            assert [line.partition("The autoscaler of ")[2].partition(":")[0] for line in about_set] == [
                "podcliqueset/s",
                "podclique/s-0-a",
                "podcliquescalinggroup/s-0-g",
            ]
            watcher = SetWatcher(world.client, world.clock, Random(1), namespace="default")
            (tree,) = await watcher.list_once()
            remarks = [line for line in plain_lines(tree_rows(tree, world.clock.now())) if "autoscaler:" in line]
            assert len(remarks) == 3
            assert [at_maximum in line for line in remarks] == [False, False, True]
            assert tree.autoscaler is not None
            assert (tree.autoscaler.name, tree.autoscaler.max_replicas) == ("mine", 3)

    run_virtual(story())
