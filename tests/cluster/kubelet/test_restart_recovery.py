"""Containers of an earlier kubelet: their processes are gone, as after a reboot of the node."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.api.types.pod import ContainerStatus
from grove.cluster.kubelet.process.pod_status import Terminated
from grove.cluster.kubelet.process.restart_recovery import PreviousRun, is_over, previous_run
from grove.kube.transport import STRATEGIC_PATCH, Request
from tests.cluster.kubelet.process_cluster import ANY_PODS, AnyPod, ProcessCluster, run_processes

NOW = datetime(2030, 1, 1, tzinfo=UTC)
THEN = "2029-12-31T23:00:00Z"
RUNNING = {"running": {"startedAt": THEN}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": THEN, "finishedAt": THEN}}
FAILED = {"terminated": {"exitCode": 3, "reason": "Error", "startedAt": THEN, "finishedAt": THEN}}
WAITING = {"waiting": {"reason": "ContainerCreating"}}
CRASHING = {"waiting": {"reason": "CrashLoopBackOff"}}


def _previous(state: JsonObject, last: JsonObject | None = None, restarts: int = 0) -> PreviousRun | None:
    status = {"name": "main", "restartCount": restarts, "state": state, "lastState": last or {}}
    return previous_run(msgspec.convert(status, ContainerStatus), NOW)


def test_a_container_that_ran_was_lost_now() -> None:
    found = _previous(RUNNING, restarts=2)
    assert found == PreviousRun(
        restart_count=2,
        was_interrupted=True,
        ended=Terminated(
            exit_code=137,
            reason="ContainerStatusUnknown",
            message="The container was running when the cluster stopped, and its process is gone",
            started_at=datetime.fromisoformat(THEN),
            finished_at=NOW,
            container_id="",
        ),
    )


@pytest.mark.parametrize(
    ("state", "last", "exit_code"), [(DONE, {}, 0), (FAILED, {}, 3), (CRASHING, FAILED, 3), (WAITING, {}, None)]
)
def test_a_container_that_had_ended_stays_as_it_was(state: JsonObject, last: JsonObject, exit_code: int | None) -> None:
    found = _previous(state, last)
    assert (found and (found.ended.exit_code, found.was_interrupted)) == (
        None if exit_code is None else (exit_code, False)
    )


@pytest.mark.parametrize(
    ("policy", "inits", "mains", "verdict"),
    [
        ("Never", (), (RUNNING,), True),
        ("Never", (), (DONE, RUNNING), True),
        ("Never", (), (DONE, DONE), True),
        ("Never", (), (WAITING,), False),
        ("Never", (RUNNING,), (WAITING,), True),
        ("Never", (DONE,), (WAITING,), False),
        ("OnFailure", (), (RUNNING,), False),
        ("OnFailure", (), (DONE, RUNNING), False),
        ("OnFailure", (), (DONE, FAILED), False),
        ("OnFailure", (DONE,), (DONE, DONE), True),
        ("Always", (DONE,), (DONE,), False),
        ("Always", (), (RUNNING,), False),
    ],
)
def test_a_pod_is_over_when_its_restart_policy_runs_nothing_of_it_again(
    policy: str, inits: tuple[JsonObject, ...], mains: tuple[JsonObject, ...], verdict: bool
) -> None:
    assert is_over(policy, tuple(map(_previous, inits)), tuple(map(_previous, mains))) is verdict


# --- on this machine -------------------------------------------------------------------------------------------------


async def _put_after_reboot(cluster: ProcessCluster, name: str, *command: str, **more: Any) -> AnyPod:
    """A pod whose kubelet sees it for the first time when an earlier one has written its status."""
    statuses = more.pop("statuses")
    await cluster.put(name, *command, nodeName="", **more)
    status = {"phase": "Running", "startTime": THEN, **statuses}
    await cluster.client.patch(
        ANY_PODS, "default", name, {"status": status}, content_type=STRATEGIC_PATCH, subresource="status"
    )
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-0"}}
    path = ANY_PODS.path("default", name, "binding")
    answer = await cluster.transport.send(Request(method="POST", path=path, body=msgspec.json.encode(binding)))
    assert answer.status == 201, answer.body
    pod = await cluster.pod(name)
    assert pod is not None
    return pod


def _main(state: JsonObject, restarts: int = 0) -> JsonObject:
    status = {"name": "main", "image": "none", "restartCount": restarts, "state": state}
    return {"containerStatuses": [status]}


def test_a_lost_container_is_started_again_and_counted() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await _put_after_reboot(
            cluster, "again", "sh", "-c", "echo here; sleep 1000", restartPolicy="Always", statuses=_main(RUNNING, 4)
        )
        pod = await cluster.ready("again")
        assert pod.container["restartCount"] == 5
        assert pod.container["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
        assert pod.status["startTime"] == THEN
        assert await cluster.lines("again") == ["here"]

    run_processes(story)


def test_a_lost_container_that_is_never_restarted_fails_its_pod() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await _put_after_reboot(cluster, "lost", "touch", "never", restartPolicy="Never", statuses=_main(RUNNING))
        pod = await cluster.ended("lost")
        assert (pod.phase, pod.exit_code, pod.container["restartCount"]) == ("Failed", 137, 0)
        await cluster.delete("lost")
        await cluster.gone("lost")

    run_processes(story)


def test_a_pod_whose_work_was_done_has_succeeded() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await _put_after_reboot(cluster, "done", "false", restartPolicy="OnFailure", statuses=_main(DONE))
        pod = await cluster.ended("done")
        assert (pod.phase, pod.exit_code) == ("Succeeded", 0)

    run_processes(story)


def test_init_containers_do_their_work_again() -> None:
    async def story(cluster: ProcessCluster) -> None:
        volume = {"name": "shared", "emptyDir": {}}
        mount = {"name": "shared", "mountPath": "/shared"}
        first = {"name": "first", "image": "none", "command": ["touch", "/shared/made"], "volumeMounts": [mount]}
        status = {"name": "first", "image": "none", "restartCount": 0, "ready": True, "state": DONE}
        await _put_after_reboot(
            cluster, "pair", "sh", "-c", "ls /shared; sleep 1000",
            restartPolicy="OnFailure", volumes=[volume], initContainers=[first], main={"volumeMounts": [mount]},
            statuses={**_main(RUNNING), "initContainerStatuses": [status]},
        )  # fmt: skip
        pod = await cluster.ready("pair")
        assert await cluster.lines("pair") == ["made"]
        assert pod.status["initContainerStatuses"][0]["restartCount"] == 1

    run_processes(story)
