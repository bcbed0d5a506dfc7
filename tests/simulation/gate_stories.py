"""Gates as a user sees them, where room is not what matters: told in simulated worlds and over HTTP alike."""

import yaml

from grove.api import labels
from grove.api.labels import GATE
from grove.api.resources import PODS
from grove.api.types.meta import JsonObject
from grove.api.types.pod import Pod
from tests.scene import Scene
from tests.simulation.stories import WORKLOAD1

OTHERS_GATE = "example.com/quota"


def gates(pod: Pod) -> list[str]:
    return [gate.name for gate in pod.spec.scheduling_gates]


async def another_controllers_gate_is_never_removed(scene: Scene) -> None:
    manifest: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
    pod_spec = manifest["spec"]["template"]["cliques"][0]["spec"]["podSpec"]
    pod_spec["schedulingGates"] = [{"name": OTHERS_GATE}]
    await scene.apply(manifest)
    await scene.wait_until(lambda: len(scene.pods()) == 10 and not any(GATE in gates(pod) for pod in scene.pods()))
    held = [pod for pod in scene.pods() if gates(pod)]
    assert [gates(pod) for pod in held] == [[OTHERS_GATE]] * 2
    for pod in held:
        assert pod.spec.node_name == ""
        patch: JsonObject = {"spec": {"schedulingGates": []}}
        await scene.client.patch(PODS, pod.metadata.namespace, pod.metadata.name, patch)
    await scene.settle()
    assert len(scene.running_pods()) == 10


async def a_replacement_of_a_placed_gang_is_ungated_at_once(scene: Scene) -> None:
    await scene.apply(WORKLOAD1)
    await scene.settle()
    victim = scene.running_pods()[0].metadata
    await scene.client.delete(PODS, victim.namespace, victim.name)
    await scene.settle()
    assert len(scene.running_pods()) == 10
    place = (victim.labels[labels.PODCLIQUE], victim.labels[labels.POD_INDEX])
    (heir,) = (
        pod.metadata
        for pod in scene.running_pods()
        if (pod.metadata.labels[labels.PODCLIQUE], pod.metadata.labels[labels.POD_INDEX]) == place
    )
    assert heir.name != victim.name


GATE_STORIES = (another_controllers_gate_is_never_removed, a_replacement_of_a_placed_gang_is_ungated_at_once)
