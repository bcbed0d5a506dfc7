"""A whole world: told, watched, broken, and the same again from the same seed."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.api.resources import PODCLIQUESETS, PODS
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.sim.faults import FaultPlan
from grove.sim.simulation import NotSettled, World
from grove.sim.virtual_clock import run_virtual

Story = Callable[[World], Awaitable[None]]


def small_set(name: str = "small", replicas: int = 1, pods: int = 2) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    clique = {
        "name": "worker",
        "spec": {"roleName": "worker", "replicas": pods, "podSpec": {"containers": [container]}},
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": {"cliques": [clique]}},
    }


def lone_pod(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "pause"}]},
    }


def run(story: Story, **options: Any) -> None:
    async def main() -> None:
        async with World(**options) as world:
            await story(world)

    run_virtual(main())


def test_a_pod_without_a_set_is_placed_and_runs() -> None:
    async def story(world: World) -> None:
        await world.apply(lone_pod("alone"))
        await world.settle()
        assert [pod.metadata.name for pod in world.running_pods()] == ["alone"]

    run(story, nodes=1, operator=None)


def test_a_set_becomes_running_pods_and_then_there_is_silence() -> None:
    async def story(world: World) -> None:
        await world.apply(small_set(replicas=2, pods=3))
        await world.settle()
        assert len(world.running_pods()) == 6
        written = len(world.timeline.happenings)
        await world.clock.sleep(3600)
        assert len(world.timeline.happenings) == written

    run(story, nodes=3)


def test_a_set_scales_through_its_scale_subresource() -> None:
    async def story(world: World) -> None:
        await world.apply(small_set(replicas=1))
        await world.settle()
        await world.scale(PODCLIQUESETS, "small", 3)
        await world.settle()
        assert len(world.running_pods()) == 6

    run(story, nodes=3)


def test_a_deleted_set_takes_everything_with_it() -> None:
    async def story(world: World) -> None:
        await world.apply(small_set())
        await world.settle()
        await world.delete(PODCLIQUESETS, "small")
        await world.settle()
        assert world.objects(PODCLIQUESETS) == ()
        assert world.pods() == ()

    run(story, nodes=3)


def test_a_crashed_operator_stays_down_until_it_is_restarted() -> None:
    async def story(world: World) -> None:
        await world.crash_controller()
        await world.apply(small_set())
        await world.settle()
        assert world.pods() == ()
        await world.restart_controller()
        await world.settle()
        assert len(world.running_pods()) == 2

    run(story, nodes=3)


@pytest.mark.parametrize("number", [1, 2, 3, 5])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_operator_that_crashes_at_a_write_comes_back_and_finishes(number: int, moment: str) -> None:
    async def story(world: World) -> None:
        if moment == "before":
            world.operator.crash_before_write(number)
        else:
            world.operator.crash_after_write(number)
        first_life = world.operator
        await world.apply(small_set())
        await world.settle()
        assert first_life.crashed.is_set()
        assert world.operator is not first_life
        assert len(world.running_pods()) == len(world.pods()) == 2

    run(story, nodes=3)


def test_an_invalid_set_is_refused_and_nothing_is_created() -> None:
    async def story(world: World) -> None:
        broken = small_set()
        broken["spec"]["template"]["cliques"] = []
        with pytest.raises(ApiError, match="422 Invalid"):
            await world.apply(broken)
        await world.settle()
        assert world.objects(PODCLIQUESETS) == ()

    run(story, nodes=1)


def sharing_set() -> dict[str, Any]:
    manifest = small_set()
    manifest["spec"]["template"]["cliques"][0]["resourceSharing"] = [{"name": "x", "scope": "AllReplicas"}]
    return manifest


def test_a_field_that_is_not_carried_out_yet_is_warned_about() -> None:
    async def story(world: World) -> None:
        (applied,) = await world.apply(sharing_set())
        assert [warning.partition(":")[0] for warning in applied.warnings] == [
            "spec.template.cliques[0].resourceSharing"
        ]

    run(story, operator=None)


def test_a_file_of_manifests_is_applied_in_order_and_once_more_without_harm(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for _ in range(2):
            applied = await world.apply(path)
            assert [one.object["metadata"]["name"] for one in applied] == ["a", "b"]
        assert [pcs.metadata.name for pcs in world.objects(PODCLIQUESETS)] == ["a", "b"]

    path = tmp_path / "sets.yaml"
    path.write_text(yaml.safe_dump_all([small_set("a"), small_set("b")]))
    run(story, operator=None)


def test_an_unknown_kind_is_refused_with_advice() -> None:
    async def story(world: World) -> None:
        with pytest.raises(UserError, match="v9 Dream: not a kind of this cluster"):
            await world.apply({"apiVersion": "v9", "kind": "Dream", "metadata": {"name": "a"}})

    run(story, operator=None)


def test_a_lost_node_is_left_by_its_pods_and_the_set_heals_elsewhere() -> None:
    async def story(world: World) -> None:
        await world.apply(small_set())
        await world.settle()
        (node, *_) = {pod.spec.node_name: None for pod in world.running_pods()}
        await world.nodes.fail(node)
        await world.settle(quiet_seconds=400)
        staying = [pod for pod in world.running_pods() if pod.spec.node_name != node]
        assert len(staying) == 2

    run(story, nodes=3)


def test_a_world_that_keeps_changing_says_what_changed_last() -> None:
    async def story(world: World) -> None:
        restless = {"simulation.grove.io/exit-after": "11m"}
        await world.apply(lone_pod("restless", **restless))
        with pytest.raises(NotSettled, match=r"(?s)seed 0: still changing.*patch pods/status default/restless"):
            await world.settle(quiet_seconds=1000, limit_seconds=10_000)

    run(story, nodes=1, operator=None)


def test_waiting_for_something_ends_at_the_change_that_makes_it_true() -> None:
    async def story(world: World) -> None:
        await world.apply(lone_pod("slow", **{"simulation.grove.io/ready-after": "100s"}))
        began = world.clock.monotonic()
        await world.wait_until(lambda: any(pod.is_ready for pod in world.pods()))
        assert world.clock.monotonic() - began == pytest.approx(100, abs=1)

    run(story, nodes=1, operator=None)


def test_writes_are_known_by_their_writer() -> None:
    async def story(world: World) -> None:
        await world.apply(lone_pod("alone"))
        await world.settle()
        await world.delete(PODS, "alone")
        await world.settle()
        users = [(write.target.verb, write.target.resource) for write in world.writes_by("user")]
        assert users == [("create", "nodes"), ("create", "pods"), ("delete", "pods")]
        kubelets = [(write.target.verb, write.target.resource) for write in world.writes_by("kubelet")]
        assert kubelets == [("patch", "pods/status"), ("delete", "pods")]

    run(story, nodes=1, operator=None)


def test_a_failing_inhabitant_ends_the_world() -> None:
    class Broken:
        async def run(self) -> None:
            raise ValueError("the operator has a bug")

    async def story(world: World) -> None:
        await world.clock.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        run(story, operator=lambda _client, _clock, _random: Broken())
    assert caught.group_contains(ValueError, match="the operator has a bug")


def test_a_failing_story_fails_with_its_own_error() -> None:
    async def story(world: World) -> None:
        raise KeyError(world.seed)

    with pytest.raises(KeyError):
        run(story)


STORMY = FaultPlan(
    latency=(0.0, 0.2), watch_latency=(0.0, 0.5), server_error=0.05, conflict=0.05,
    lost_request=0.02, lost_answer=0.05, cut_watch=0.02, gone=0.1,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_a_set_runs_after_a_storm(seed: int) -> None:
    async def story(world: World) -> None:
        await world.apply(small_set(replicas=2))
        await world.clock.sleep(60)
        world.calm()
        await world.settle()
        assert len(world.running_pods()) == len(world.pods()) == 4

    run(story, nodes=3, seed=seed, faults=STORMY, cluster_faults=STORMY)


def stormy_timeline() -> str:
    """The text that must not depend on anything but the seed."""

    async def main() -> str:
        async with World(seed=11, nodes=3, faults=STORMY, cluster_faults=STORMY) as world:
            await world.apply(small_set(replicas=3))
            await world.clock.sleep(20)
            await world.nodes.fail("node-0")
            await world.clock.sleep(20)
            await world.restart_controller()
            await world.scale(PODCLIQUESETS, "small", 1)
            await world.clock.sleep(400)
            return world.timeline.text()

    return run_virtual(main())


def test_the_same_seed_gives_the_same_timeline_under_any_hash_seed() -> None:
    command = [sys.executable, "-c", "from tests.sim.test_simulation import stormy_timeline; print(stormy_timeline())"]
    texts = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert "create pods default/small-0-worker-0-" in texts[0]
    assert texts[0] == texts[1]
