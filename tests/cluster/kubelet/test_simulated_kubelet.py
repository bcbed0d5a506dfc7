"""The simulated kubelet at work on an embedded cluster."""

from datetime import timedelta

import pytest

from grove.api.resources import PODS
from grove.api.types.meta import is_condition_true
from grove.sim.faults import FaultPlan
from tests.cluster.small_cluster import EPOCH, SmallCluster, run_story

READY_AFTER = "simulation.grove.io/ready-after"
EXIT_AFTER = "simulation.grove.io/exit-after"
EXIT_CODE = "simulation.grove.io/exit-code"
STOPS_AFTER = "simulation.grove.io/stops-after"


def test_a_bound_pod_becomes_ready_with_one_write() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("a")
        await cluster.run_for(1)
        pod = await cluster.pod("a")
        assert pod is not None
        assert pod.status.phase == "Running"
        conditions = ("Initialized", "ContainersReady", "Ready")
        assert [is_condition_true(pod.status.conditions, type_) for type_ in conditions] == [True] * 3
        assert cluster.kubelet_writes.write_counts() == {("patch", "pods/status"): 1}

    run_story(story)


def test_the_scheduled_condition_survives_the_kubelets_write() -> None:
    async def story(cluster: SmallCluster) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "main", "image": "pause"}]},
        }
        pod = await cluster.client.create(PODS, "default", manifest)
        await cluster.run_for(1)
        assert cluster.kubelet_writes.writes == []
        await cluster.client.bind("default", "a", "node-1", uid=pod.metadata.uid)
        await cluster.run_for(1)
        bound = await cluster.pod("a")
        assert bound is not None
        assert bound.is_ready
        assert is_condition_true(bound.status.conditions, "PodScheduled")

    run_story(story)


def test_a_pod_is_ready_when_its_annotation_says_so() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.run_for(0.3)
        await cluster.put_pod("a", annotations={READY_AFTER: "1m30s"})
        await cluster.run_for(89.9)
        assert not await cluster.is_ready("a")
        await cluster.run_for(0.2)
        assert await cluster.is_ready("a")

    run_story(story)


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (7, "Failed")])
def test_a_pod_ends_when_its_annotation_says_so(code: int, phase: str) -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("a", annotations={EXIT_AFTER: "1h", EXIT_CODE: str(code)}, restartPolicy="Never")
        await cluster.run_for(3599)
        assert await cluster.is_ready("a")
        await cluster.run_for(2)
        pod = await cluster.pod("a")
        assert pod is not None
        assert pod.status.phase == phase
        (container,) = pod.status.container_statuses
        assert container.state.terminated is not None
        assert container.state.terminated.exit_code == code
        assert container.state.terminated.started_at == EPOCH
        assert container.state.terminated.finished_at == EPOCH + timedelta(hours=1)

    run_story(story)


def test_an_annotation_put_on_a_running_pod_ends_it() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("a", restartPolicy="Never")
        await cluster.run_for(60)
        annotations = {EXIT_AFTER: "0s", EXIT_CODE: "1"}
        await cluster.client.patch(PODS, "default", "a", {"metadata": {"annotations": annotations}})
        await cluster.run_for(1)
        pod = await cluster.pod("a")
        assert pod is not None
        assert pod.status.phase == "Failed"

    run_story(story)


def test_a_pod_that_always_restarts_counts_its_restarts_and_slows_down() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("a", annotations={EXIT_AFTER: "1s", EXIT_CODE: "1"})
        await cluster.run_for(100)
        pod = await cluster.pod("a")
        assert pod is not None
        # Runs of a second: at 0, 1, 12, 33 and 74, then a wait of 80 seconds.
        assert pod.status.container_statuses[0].restart_count == 4
        assert pod.status.phase == "Running"

    run_story(story)


def test_a_deleted_pod_is_gone_at_once() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("a")
        await cluster.run_for(1)
        leaving = await cluster.client.delete(PODS, "default", "a")
        assert leaving is not None
        await cluster.run_for(0.1)
        assert await cluster.pod("a") is None

    run_story(story)


@pytest.mark.parametrize(("stops_after", "seconds"), [("10s", 10), ("10m", 30)])
def test_a_deleted_pod_goes_when_it_has_stopped_or_its_grace_is_over(stops_after: str, seconds: int) -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("a", annotations={STOPS_AFTER: stops_after})
        await cluster.run_for(1)
        await cluster.client.delete(PODS, "default", "a")
        await cluster.run_for(seconds - 1)
        assert await cluster.pod("a") is not None
        await cluster.run_for(1.1)
        assert await cluster.pod("a") is None

    run_story(story)


def test_a_pod_with_a_finalizer_stays_without_costing_writes() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("a")
        await cluster.client.patch(PODS, "default", "a", {"metadata": {"finalizers": ["example.com/hold"]}})
        await cluster.run_for(1)
        await cluster.client.delete(PODS, "default", "a")
        await cluster.run_for(3600)
        assert cluster.kubelet_writes.write_counts() == {("patch", "pods/status"): 1, ("delete", "pods"): 1}
        await cluster.client.patch(PODS, "default", "a", {"metadata": {"finalizers": None}})
        assert await cluster.pod("a") is None

    run_story(story)


def test_pods_of_a_lost_node_keep_their_status_and_are_stuck_until_it_recovers() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.nodes.fail("node-0")
        await cluster.run_for(1)
        await cluster.put_pod("late")
        await cluster.put_pod("other", node="node-1")
        await cluster.run_for(10)
        pod = await cluster.pod("late")
        assert pod is not None
        assert pod.status.phase == "Pending"
        assert await cluster.is_ready("other")
        await cluster.nodes.recover("node-0")
        await cluster.run_for(1)
        assert await cluster.is_ready("late")

    run_story(story)


def test_a_pod_reborn_under_its_name_gets_its_own_status() -> None:
    async def story(cluster: SmallCluster) -> None:
        for _ in range(3):
            await cluster.put_pod("a")
            await cluster.run_for(0.01)
            await cluster.client.delete(PODS, "default", "a", grace_period_seconds=0)
        await cluster.put_pod("a")
        await cluster.run_for(1)
        assert await cluster.is_ready("a")

    run_story(story)


def test_the_kubelet_gets_through_a_bad_connection() -> None:
    async def story(cluster: SmallCluster) -> None:
        cluster.kubelet_writes.plan = FaultPlan(
            latency=(0.0, 0.1), server_error=0.3, lost_answer=0.3, lost_request=0.2, conflict=0.1
        )
        names = [f"pod-{number}" for number in range(20)]
        for name in names:
            await cluster.put_pod(name)
        await cluster.run_for(60)
        for name in names:
            await cluster.client.delete(PODS, "default", name)
        await cluster.run_for(60)
        assert [await cluster.pod(name) for name in names] == [None] * 20

    run_story(story)


def test_an_hour_of_running_costs_no_writes() -> None:
    async def story(cluster: SmallCluster) -> None:
        for number in range(10):
            await cluster.put_pod(f"pod-{number}")
        await cluster.run_for(10)
        count = len(cluster.kubelet_writes.writes) + len(cluster.lifecycle_writes.writes)
        await cluster.run_for(3600)
        assert len(cluster.kubelet_writes.writes) + len(cluster.lifecycle_writes.writes) == count == 10

    run_story(story)
