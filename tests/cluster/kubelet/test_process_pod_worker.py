"""The life of a pod whose containers are processes: starts, ends, restarts, order, and leaving."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from grove.kube.transport import STRATEGIC_PATCH
from tests.cluster.kubelet.process_cluster import ANY_PODS, ProcessCluster, is_alive, leap, run_processes

# Writes its number (of two dollar signs Kubernetes leaves one), so that a test knows whom to look for.
STAY = ("sh", "-c", "echo $$$$; exec sleep 1000")
STUBBORN = ("sh", "-c", "trap '' TERM; echo $$$$; while :; do sleep 1; done")


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (7, "Failed", "Error")])
def test_the_exit_code_of_a_process_is_that_of_its_container(code: int, phase: str, reason: str) -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "sh", "-c", f"exit {code}")
        pod = await cluster.ended("a")
        ended = pod.state["terminated"]
        assert (pod.phase, ended["exitCode"], ended["reason"]) == (phase, code, reason)
        assert ended["startedAt"] <= ended["finishedAt"]
        assert ended["containerID"] == pod.container["containerID"]
        assert ended["containerID"].startswith("process://")
        assert not pod.is_true("Ready")

    run_processes(story)


def test_a_process_that_a_signal_ended_says_which() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "sh", "-c", "kill -KILL $$$$")
        ended = (await cluster.ended("a")).state["terminated"]
        assert (ended["exitCode"], ended["signal"], ended["reason"]) == (137, 9, "Error")

    run_processes(story)


def test_a_running_pod_without_probes_is_ready_and_says_where_it_is() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", *STAY)
        pod = await cluster.ready("a")
        assert pod.phase == "Running"
        assert (pod.container["ready"], pod.container["started"], pod.container["restartCount"]) == (True, True, 0)
        assert pod.status["podIP"].startswith("127.")
        assert pod.status["hostIP"] == "127.0.0.1"
        conditions = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
        assert [pod.is_true(condition) for condition in conditions] == [True] * 4

    run_processes(story)


def test_a_pod_has_ended_when_its_last_container_has_and_one_failure_makes_it_failed() -> None:
    async def story(cluster: ProcessCluster) -> None:
        other = {"name": "other", "image": "none", "command": ["sh", "-c", "exit 3"]}
        main = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", "while ! test -e $HOME/go; do sleep 0.01; done"],
        }
        await cluster.put("a", containers=[other, main])
        half = await cluster.until("a", lambda pod: pod.exit_code == 3 and pod.phase != "Pending")
        assert half.phase == "Running"
        assert not half.is_true("ContainersReady")
        await cluster.put("b", "true", containers=[{**other, "command": ["true"]}, {**main, "command": ["true"]}])
        assert (await cluster.ended("b")).phase == "Succeeded"
        await cluster.delete("a")
        await cluster.gone("a")

    run_processes(story)


# --- restarts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "code"), [("Always", 0), ("Always", 1), ("OnFailure", 1)])
def test_a_container_is_restarted_at_once_and_then_later_and_later(policy: str, code: int) -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "sh", "-c", f"echo run; exit {code}", restartPolicy=policy)
        first = await cluster.until("a", lambda pod: pod.waits_for == "CrashLoopBackOff")
        assert (first.container["restartCount"], first.phase) == (1, "Running")
        assert first.container["lastState"]["terminated"]["exitCode"] == code
        assert "back-off 10s" in first.state["waiting"]["message"]
        second = await cluster.until("a", lambda pod: "back-off 20s" in str(pod.state))
        assert second.container["restartCount"] == 2
        third = await cluster.until("a", lambda pod: "back-off 40s" in str(pod.state))
        assert third.container["restartCount"] == 3

    run_processes(story, speed=100)


@pytest.mark.parametrize(("policy", "code", "phase"), [("OnFailure", 0, "Succeeded"), ("Never", 1, "Failed")])
def test_a_container_that_is_done_is_not_restarted(policy: str, code: int, phase: str) -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "sh", "-c", f"exit {code}", restartPolicy=policy)
        pod = await cluster.ended("a")
        assert (pod.phase, pod.container["restartCount"]) == (phase, 0)

    run_processes(story)


def test_a_pod_succeeds_when_the_second_run_does(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = f"test -e {tmp_path}/mark || {{ touch {tmp_path}/mark; exit 1; }}"
        await cluster.put("a", "sh", "-c", script, restartPolicy="OnFailure")
        pod = await cluster.ended("a")
        assert (pod.phase, pod.container["restartCount"]) == ("Succeeded", 1)
        assert pod.container["lastState"]["terminated"]["exitCode"] == 1

    run_processes(story)


# --- what cannot be run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            ("no-such-program",),
            "the command 'no-such-program' is not on this machine, and images are not pulled here (none)",
        ),
        (("/no/such/program",), "the command '/no/such/program' is not on this machine"),
        ((), "container main has no command: images are not pulled here, so the entrypoint of none is unknown"),
    ],
)
def test_a_command_that_is_not_on_this_machine_is_named(command: tuple[str, ...], words: str) -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", *command, main={"args": ["serve"]})
        pod = await cluster.until("a", lambda pod: pod.waits_for == "ErrImageNotSupported")
        assert pod.phase == "Pending"
        assert words in pod.state["waiting"]["message"]
        await cluster.delete("a")
        await cluster.gone("a")

    run_processes(story)


def test_a_command_that_appears_later_is_started_then(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        program = tmp_path / "program"
        await cluster.put("a", str(program))
        await cluster.until("a", lambda pod: pod.waits_for == "ErrImageNotSupported")
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o700)
        assert (await cluster.ended("a")).phase == "Succeeded"

    run_processes(story, speed=50)


def test_a_file_that_is_no_program_is_an_end_with_its_reason(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        program = tmp_path / "program"
        program.write_bytes(b"\x7fELF and no more")
        program.chmod(0o700)
        await cluster.put("a", str(program))
        ended = (await cluster.ended("a")).state["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
        assert "could not be started" in ended["message"]

    run_processes(story)


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"readinessProbe": {"grpc": {"port": 1}}}, "container main: readinessProbe.grpc is not supported"),
        ({"livenessProbe": {"periodSeconds": 3}}, "container main: livenessProbe has no action"),
        ({"livenessProbe": {"httpGet": {"port": "web"}}}, "container main: no port is named 'web'"),
        ({"env": [{"name": "A", "value": {"a": 1}}]}, "the pod cannot be read: Expected `str | null`, got `object`"),
        ({"workingDir": "/no/such/folder"}, "workingDir /no/such/folder is neither in a volume nor a directory"),
    ],
)  # fmt: skip
def test_a_pod_that_cannot_be_run_here_says_why(container: JsonObject, words: str) -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "true", main=container)
        pod = await cluster.until("a", lambda pod: pod.waits_for.startswith("CreateContainer") and pod.state["waiting"])
        assert pod.phase == "Pending"
        assert words in pod.state["waiting"]["message"]
        await cluster.delete("a")
        await cluster.gone("a")

    run_processes(story)


# --- init containers and sidecars ------------------------------------------------------------------------------------


def init(name: str, script: str, **more: Any) -> JsonObject:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    return {"name": name, "image": "none", "command": ["sh", "-c", script], "volumeMounts": mounts, **more}


SHARED = [{"name": "shared", "emptyDir": {}}]


def test_init_containers_run_one_after_the_other_before_the_others() -> None:
    async def story(cluster: ProcessCluster) -> None:
        inits = [init("one", "echo one >> /shared/order"), init("two", "echo two >> /shared/order")]
        main = init("main", "cat /shared/order")
        await cluster.put("a", initContainers=inits, containers=[main], volumes=SHARED)
        pod = await cluster.ended("a")
        assert (pod.phase, await cluster.log("a")) == ("Succeeded", "one\ntwo\n")
        states = [each["state"]["terminated"]["reason"] for each in pod.status["initContainerStatuses"]]
        assert states == ["Completed", "Completed"]
        assert [each["ready"] for each in pod.status["initContainerStatuses"]] == [True, True]

    run_processes(story)


def test_while_an_init_container_runs_the_pod_is_pending() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "true", initContainers=[init("one", "sleep 1000")], volumes=SHARED)
        pod = await cluster.until("a", lambda pod: "'running'" in str(pod.status.get("initContainerStatuses")))
        assert (pod.phase, pod.waits_for) == ("Pending", "PodInitializing")
        assert not pod.is_true("Initialized")
        await cluster.delete("a", grace=0)
        await cluster.gone("a")

    run_processes(story)


def test_an_init_container_that_fails_for_good_fails_the_pod() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "true", initContainers=[init("one", "exit 4")], volumes=SHARED)
        pod = await cluster.ended("a")
        assert pod.phase == "Failed"
        assert pod.status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
        assert pod.waits_for == "PodInitializing"

    run_processes(story)


def test_an_init_container_is_tried_again_unless_the_pod_never_restarts() -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = "test -e /shared/mark || { touch /shared/mark; exit 1; }"
        await cluster.put(
            "a", "true", initContainers=[init("one", script)], volumes=SHARED, restartPolicy="OnFailure"
        )  # fmt: skip
        pod = await cluster.ended("a")
        assert (pod.phase, pod.status["initContainerStatuses"][0]["restartCount"]) == ("Succeeded", 1)

    run_processes(story)


def test_a_sidecar_runs_beside_the_others_and_ends_after_them() -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = "trap 'echo end >> /shared/order; exit 0' TERM; echo up >> /shared/order; while :; do sleep 0.01; done"
        probe = {"exec": {"command": ["test", "-e", "/shared/order"]}, "periodSeconds": 1}
        probe |= {"timeoutSeconds": 60, "failureThreshold": 60}
        sidecar = init("side", script, restartPolicy="Always", startupProbe=probe)
        main = init("main", "cat /shared/order; echo main >> /shared/order")
        pod = await cluster.put("a", initContainers=[sidecar], containers=[main], volumes=SHARED)
        pod = await cluster.ended("a")
        assert (pod.phase, await cluster.log("a")) == ("Succeeded", "up\n")
        (side,) = pod.status["initContainerStatuses"]
        assert side["state"]["terminated"]["exitCode"] == 0

    run_processes(story)


def test_a_sidecar_that_ends_is_started_again() -> None:
    async def story(cluster: ProcessCluster) -> None:
        side = init("side", "echo run >> /shared/runs; exit 0", restartPolicy="Always")
        main = init("main", "until test $(wc -l < /shared/runs) -ge 2; do sleep 0.01; done")
        await cluster.put("a", initContainers=[side], containers=[main], volumes=SHARED)
        pod = await cluster.ended("a")
        assert (pod.phase, pod.status["initContainerStatuses"][0]["restartCount"] >= 1) == ("Succeeded", True)

    run_processes(story, speed=50)


# --- leaving ---------------------------------------------------------------------------------------------------------


def test_a_deleted_pod_is_asked_to_end_and_then_removed() -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = "trap 'exit 5' TERM; echo $$$$; while :; do sleep 0.01; done"
        await cluster.put("a", "sh", "-c", script)
        (pid,) = await cluster.lines("a")
        await cluster.delete("a")
        assert (await cluster.ended("a")).exit_code == 5
        await cluster.gone("a")
        assert not is_alive(int(pid))

    run_processes(story)


def test_a_process_that_will_not_end_is_killed_when_its_grace_is_over() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", *STUBBORN, terminationGracePeriodSeconds=30)
        (pid,) = await cluster.lines("a")
        asked_at = cluster.clock.monotonic()
        await cluster.delete("a")
        pod = await cluster.until("a", lambda pod: pod.exit_code is not None)
        assert (pod.exit_code, pod.state["terminated"]["signal"]) == (137, 9)
        assert cluster.clock.monotonic() - asked_at >= 30
        await cluster.gone("a")
        assert not is_alive(int(pid))

    run_processes(story, speed=50)


def test_a_pod_that_leaves_can_be_hurried() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", *STUBBORN, terminationGracePeriodSeconds=100_000)
        (pid,) = await cluster.lines("a")
        await cluster.delete("a")
        await cluster.delete("a", grace=1)
        await cluster.gone("a")
        assert not is_alive(int(pid))

    run_processes(story)


def test_a_pod_deleted_without_grace_is_gone_at_once_and_its_processes_follow() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "sh", "-c", "trap '' TERM; echo $$$$; sleep 1000 & echo $!; wait")
        pids = await cluster.lines("a", 2)
        await cluster.delete("a", grace=0)
        assert await cluster.pod("a") is None
        async with asyncio.timeout(60):
            while any(is_alive(int(pid)) for pid in pids):
                await cluster.clock.sleep(0.01)

    run_processes(story)


def test_a_pod_is_prepared_for_its_end_by_its_hook(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = f"trap 'cat {tmp_path}/hook > {tmp_path}/end; exit 0' TERM; echo up; while :; do sleep 0.01; done"
        hook = {"preStop": {"exec": {"command": ["sh", "-c", f"echo $GREETING > {tmp_path}/hook"]}}}
        env = [{"name": "GREETING", "value": "first"}]
        await cluster.put("a", "sh", "-c", script, main={"lifecycle": hook, "env": env})
        await cluster.lines("a")
        await cluster.delete("a")
        await cluster.gone("a")
        assert (tmp_path / "end").read_text() == "first\n"

    run_processes(story)


def test_a_hook_takes_its_time_from_the_grace() -> None:
    async def story(cluster: ProcessCluster) -> None:
        hook = {"preStop": {"exec": {"command": ["sleep", "100000"]}}}
        await cluster.put("a", *STAY, main={"lifecycle": hook}, terminationGracePeriodSeconds=10)
        await cluster.lines("a")
        await cluster.delete("a")
        pod = await cluster.until("a", lambda pod: pod.exit_code is not None)
        assert pod.exit_code == 137
        await cluster.gone("a")

    run_processes(story, speed=50)


def test_a_pod_held_by_a_finalizer_stays_when_its_processes_are_gone() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", *STAY, metadata={"finalizers": ["example.com/hold"]})
        (pid,) = await cluster.lines("a")
        await cluster.delete("a")
        pod = await cluster.until("a", lambda pod: pod.metadata.deletion_grace_period_seconds == 0)
        assert (pod.exit_code, is_alive(int(pid))) == (143, False)
        await cluster.client.patch(ANY_PODS, "default", "a", {"metadata": {"finalizers": None}})
        assert await cluster.pod("a") is None

    run_processes(story)


def test_a_pod_that_is_active_for_too_long_fails() -> None:
    async def story(cluster: ProcessCluster) -> None:
        # Long enough that it surely runs before.
        await cluster.put("a", *STAY, activeDeadlineSeconds=250)
        await cluster.ready("a")
        leap(250)
        pod = await cluster.ended("a")
        assert (pod.phase, pod.status["reason"], pod.exit_code) == ("Failed", "DeadlineExceeded", 143)

    run_processes(story)


def test_the_deadline_of_a_running_pod_can_be_brought_forward() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", *STAY, activeDeadlineSeconds=1_000_000)
        await cluster.ready("a")
        await cluster.client.patch(ANY_PODS, "default", "a", {"spec": {"activeDeadlineSeconds": 1}})
        assert (await cluster.ended("a")).status["reason"] == "DeadlineExceeded"

    run_processes(story)


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_nobody_works_on_behalf_of_a_node_that_does_not_answer() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "sh", "-c", "echo up; while ! test -e $HOME/go; do sleep 0.01; done; exit 6")
        await cluster.lines("a")
        await cluster.ready("a")
        await cluster.nodes.fail("node-0")
        await cluster.until("a", lambda pod: not pod.is_true("Ready"))
        await cluster.put("late", "true")
        await cluster.put("elsewhere", "true", nodeName="node-1")
        assert (await cluster.ended("elsewhere")).phase == "Succeeded"
        late = await cluster.pod("late")
        assert late is not None
        assert late.phase == "Pending"
        await cluster.nodes.recover("node-0")
        assert (await cluster.ended("late")).phase == "Succeeded"
        assert (await cluster.ready("a")).phase == "Running"

    run_processes(story)


def test_a_pod_waits_for_the_gates_of_its_readiness() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", *STAY, readinessGates=[{"conditionType": "example.com/open"}])
        pod = await cluster.until("a", lambda pod: pod.is_true("ContainersReady"))
        assert not pod.is_true("Ready")
        gate = {"type": "example.com/open", "status": "True"}
        await cluster.client.patch(
            ANY_PODS, "default", "a", {"status": {"conditions": [gate]}},
            content_type=STRATEGIC_PATCH, subresource="status",
        )  # fmt: skip
        await cluster.ready("a")

    run_processes(story)
