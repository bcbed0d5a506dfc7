"""Images that cannot be pulled: what the simulated kubelet reports, and what the operator makes of it."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.cluster.kubelet.simulated.image_pull import BACK_OFF_AFTER
from grove.cluster.kubelet.simulated.pod_state_machine import (
    Idle,
    Step,
    WaitUntil,
    WriteStatus,
    next_step,
    read_behavior,
)
from grove.cluster.node_pod_cache import BoundPod
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.cluster.kubelet.test_pod_state_machine import NOW
from tests.simulation.condition_stories import NAME, serving
from tests.simulation.stories import ONE_POD_NODE, expect_running
from tests.simulation.updating import change_image, stalled

PULL_ERROR = "simulation.grove.io/pull-error"


def pod(*images: str, init: str = "", annotations: Any = None, status: JsonObject | None = None) -> BoundPod:
    containers = [{"name": f"c{index}", "image": image} for index, image in enumerate(images)]
    spec: JsonObject = {"nodeName": "node-0", "containers": containers}
    if init:
        spec["initContainers"] = [{"name": "init", "image": init}]
    metadata = {"name": "a", "uid": "u", "annotations": annotations or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status or {"phase": "Pending"}}, BoundPod)


def step(one: BoundPod, now: datetime = NOW) -> Step:
    return next_step(one, read_behavior(one), now, started_at=None, host_ip="")


def written(one: BoundPod, now: datetime = NOW) -> JsonObject:
    decided = step(one, now)
    assert isinstance(decided, WriteStatus)
    return decided.status


def states(status: JsonObject, key: str = "containerStatuses") -> list[str]:
    """The state of each container: what it waits for, or that it runs or ended."""
    return [one["state"].get("waiting", {}).get("reason") or next(iter(one["state"])) for one in status[key]]


def test_a_missing_image_is_an_error_then_a_back_off_and_then_nothing_is_written() -> None:
    status = written(pod("web:pull-error"))
    assert (status["phase"], states(status)) == ("Pending", ["ErrImagePull"])
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == 'failed to pull image "web:pull-error": not found (simulated)'
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "PodReadyToStartContainers": "True", "Initialized": "True", "ContainersReady": "False", "Ready": "False",
    }  # fmt: skip
    failed = pod("web:pull-error", status=status)
    assert step(failed, NOW + timedelta(seconds=9)) == WaitUntil(until=NOW + BACK_OFF_AFTER)
    later = written(failed, NOW + BACK_OFF_AFTER)
    assert states(later) == ["ImagePullBackOff"]
    message = later["containerStatuses"][0]["state"]["waiting"]["message"]
    assert message.startswith('Back-off pulling image "web:pull-error": ErrImagePull: ')
    waits = pod("web:pull-error", status={**later, "conditions": status["conditions"]})
    assert step(waits, NOW + timedelta(days=1)) == Idle()


@pytest.mark.parametrize(
    ("pattern", "image", "is_missing"),
    [("web:2", "web:2", True), ("web:2", "web:1", False), ("*", "anything", True), ("web:*", "api:1", False)],
)
def test_an_annotation_says_which_images_are_missing(pattern: str, image: str, is_missing: bool) -> None:
    status = written(pod(image, annotations={PULL_ERROR: pattern}))
    assert states(status) == (["ErrImagePull"] if is_missing else ["running"])


def test_other_containers_of_the_pod_run_and_the_pod_is_pending() -> None:
    status = written(pod("good", "web:pull-error"))
    assert (status["phase"], states(status)) == ("Pending", ["running", "ErrImagePull"])


def test_behind_a_missing_image_of_an_init_container_everything_waits() -> None:
    status = written(pod("good", init="setup:pull-error"))
    assert states(status, "initContainerStatuses") == ["ErrImagePull"]
    assert states(status) == ["PodInitializing"]
    assert {one["type"]: one["status"] for one in status["conditions"]}["Initialized"] == "False"
    later = written(pod("good", init="setup:pull-error", status=status), NOW + BACK_OFF_AFTER)
    assert states(later, "initContainerStatuses") == ["ImagePullBackOff"]


def test_a_pod_starts_when_the_annotation_goes() -> None:
    status = written(pod("web:2", annotations={PULL_ERROR: "web:2"}))
    assert written(pod("web:2", status=status))["phase"] == "Running"


def test_an_update_to_a_missing_image_stalls_at_once_and_says_which_image() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=3, node_resources=ONE_POD_NODE) as world:
            await world.apply(serving(2))
            await expect_running(world, 2)
            await change_image(world, "web:pull-error", name=NAME)
            began = world.clock.now()
            await world.wait_until(lambda: stalled(world) is not None)
            assert world.clock.now() - began < timedelta(seconds=10)
            found = stalled(world)
            assert found is not None
            assert found[0] == "PodsNotStarting"
            assert 'ErrImagePull: failed to pull image "web:pull-error"' in found[1]
            await change_image(world, "web:2", name=NAME)
            await world.settle()
            assert (stalled(world), len(world.running_pods())) == (None, 2)

    run_virtual(story())
