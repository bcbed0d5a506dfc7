"""One simulated pod's life, step by step: what its kubelet writes next, or until when it waits."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from grove.cluster.kubelet.simulated.pod_state_machine import (
    Behavior,
    Idle,
    Remove,
    Step,
    WaitUntil,
    WriteStatus,
    back_off,
    next_step,
    read_behavior,
    reject_pod,
)
from grove.cluster.node_pod_cache import BoundPod

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
READY_AFTER = "simulation.grove.io/ready-after"
EXIT_AFTER = "simulation.grove.io/exit-after"
EXIT_CODE = "simulation.grove.io/exit-code"
STOPS_AFTER = "simulation.grove.io/stops-after"


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def wire(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(policy: str = "Always", *, status: Any = None, annotations: Any = None, **metadata: Any) -> BoundPod:
    """A pod just bound to node-0, with one container."""
    return msgspec.convert(
        {
            "metadata": {"name": "a", "uid": "u", "annotations": annotations or {}, **metadata},
            "spec": {
                "nodeName": "node-0",
                "restartPolicy": policy,
                "containers": [{"name": "main", "image": "pause"}],
            },
            "status": status or {"phase": "Pending"},
        },
        BoundPod,
    )


def running(started: datetime = NOW, *, ready: bool = True, restarts: int = 0) -> dict[str, Any]:
    return {
        "phase": "Running",
        "conditions": [
            {"type": type_, "status": str(ready), "reason": "" if ready else "ContainersNotReady"}
            for type_ in ("ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": "main",
                "ready": ready,
                "restartCount": restarts,
                "state": {"running": {"startedAt": wire(started)}},
            }
        ],
    }


def step(bound: BoundPod, now: datetime = NOW, *, started_at: datetime | None = None) -> Step:
    return next_step(bound, read_behavior(bound), now, started_at=started_at, host_ip="192.168.0.1")


def condition(type_: str, status: str, when: datetime = NOW, **more: Any) -> dict[str, Any]:
    return {"type": type_, "status": status, "lastTransitionTime": wire(when)} | more


def container(state: dict[str, Any], *, ready: bool, restarts: int = 0, last: Any = None) -> dict[str, Any]:
    return {
        "name": "main",
        "image": "pause",
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }


def ended(code: int, started: datetime, finished: datetime) -> dict[str, Any]:
    reason = "Completed" if code == 0 else "Error"
    return {
        "terminated": {"exitCode": code, "reason": reason, "startedAt": wire(started), "finishedAt": wire(finished)}
    }


def test_a_bound_pod_is_running_and_ready_with_a_single_write() -> None:
    assert step(pod()) == WriteStatus(
        status={
            "phase": "Running",
            "startTime": wire(NOW),
            "podIP": "10.109.106.62",
            "podIPs": [{"ip": "10.109.106.62"}],
            "conditions": [
                condition("PodReadyToStartContainers", "True"),
                condition("Initialized", "True"),
                condition("ContainersReady", "True"),
                condition("Ready", "True"),
            ],
            "containerStatuses": [container({"running": {"startedAt": wire(NOW)}}, ready=True)],
            "hostIP": "192.168.0.1",
            "hostIPs": [{"ip": "192.168.0.1"}],
        }
    )


def test_a_running_ready_pod_is_left_alone() -> None:
    assert step(pod(status=running()), at(1000)) == Idle()


def test_a_pod_that_needs_time_is_running_first_and_not_ready() -> None:
    first = step(pod(annotations={READY_AFTER: "5s"}))
    assert isinstance(first, WriteStatus)
    assert first.status["phase"] == "Running"
    assert first.status["conditions"][2:] == [
        condition("ContainersReady", "False", reason="ContainersNotReady"),
        condition("Ready", "False", reason="ContainersNotReady"),
    ]
    assert first.status["containerStatuses"] == [container({"running": {"startedAt": wire(NOW)}}, ready=False)]


READY_NOW = WriteStatus(
    status={
        "conditions": [
            condition("ContainersReady", "True", at(5), reason=None, message=None),
            condition("Ready", "True", at(5), reason=None, message=None),
        ],
        "containerStatuses": [container({"running": {"startedAt": wire(NOW)}}, ready=True)],
    }
)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(at(0), WaitUntil(until=at(5)), id="just started"),
        pytest.param(at(4.999), WaitUntil(until=at(5)), id="just before"),
        pytest.param(at(5), READY_NOW, id="at the instant"),
    ],
)
def test_a_pod_turns_ready_when_its_time_has_come(now: datetime, expected: Step) -> None:
    assert step(pod(status=running(ready=False), annotations={READY_AFTER: "5s"}), now) == expected


def test_the_exact_start_counts_where_it_is_known() -> None:
    bound = pod(status=running(ready=False), annotations={READY_AFTER: "5s"})
    assert step(bound, at(5), started_at=at(0.7)) == WaitUntil(until=at(5.7))


def test_a_pod_whose_node_came_back_is_ready_again() -> None:
    status = running()
    status["conditions"][1] = {"type": "Ready", "status": "False", "reason": "NodeNotReady", "message": "gone"}
    written = step(pod(status=status), at(60))
    assert isinstance(written, WriteStatus)
    assert written.status["conditions"] == [condition("Ready", "True", at(60), reason=None, message=None)]


@pytest.mark.parametrize(
    ("policy", "code", "phase", "reason"),
    [
        ("Never", 0, "Succeeded", "PodCompleted"),
        ("Never", 3, "Failed", "PodFailed"),
        ("OnFailure", 0, "Succeeded", "PodCompleted"),
    ],
)
def test_a_pod_that_exits_and_is_not_restarted_ends(policy: str, code: int, phase: str, reason: str) -> None:
    bound = pod(policy, status=running(), annotations={EXIT_AFTER: "10s", EXIT_CODE: str(code)})
    assert step(bound, at(9.999)) == WaitUntil(until=at(10))
    assert step(bound, at(10)) == WriteStatus(
        status={
            "phase": phase,
            "conditions": [
                condition("ContainersReady", "False", at(10), reason=reason),
                condition("Ready", "False", at(10), reason=reason),
            ],
            "containerStatuses": [container(ended(code, NOW, at(10)), ready=False)],
        }
    )


@pytest.mark.parametrize(("policy", "code"), [("Always", 0), ("Always", 1), ("OnFailure", 1)])
def test_a_pod_that_is_restarted_runs_on_and_counts_its_restart(policy: str, code: int) -> None:
    bound = pod(policy, status=running(), annotations={EXIT_AFTER: "10s", EXIT_CODE: str(code)})
    again = container({"running": {"startedAt": wire(at(10))}}, ready=True, restarts=1, last=ended(code, NOW, at(10)))
    assert step(bound, at(10)) == WriteStatus(status={"conditions": [], "containerStatuses": [again]})


def test_a_container_that_keeps_ending_waits_longer_before_each_start() -> None:
    bound = pod(status=running(restarts=1), annotations={EXIT_AFTER: "1s", EXIT_CODE: "1"})
    stopped = step(bound, at(1))
    assert isinstance(stopped, WriteStatus)
    assert stopped.status["conditions"] == [
        condition("ContainersReady", "False", at(1), reason="ContainersNotReady"),
        condition("Ready", "False", at(1), reason="ContainersNotReady"),
    ]
    waiting = pod(status={"phase": "Running"} | stopped.status, annotations=bound.metadata.annotations)
    assert waiting.status.container_statuses[0].state.waiting is not None
    assert step(waiting, at(10.9)) == WaitUntil(until=at(11))
    started = step(waiting, at(11))
    assert isinstance(started, WriteStatus)
    assert started.status["containerStatuses"] == [
        container({"running": {"startedAt": wire(at(11))}}, ready=True, restarts=2, last=ended(1, NOW, at(1)))
    ]


@pytest.mark.parametrize(
    ("restarts", "seconds"), [(0, 0), (1, 10), (2, 20), (5, 160), (6, 300), (7, 300), (10_000, 300)]
)
def test_the_wait_between_restarts_doubles_up_to_five_minutes(restarts: int, seconds: int) -> None:
    assert back_off(restarts) == timedelta(seconds=seconds)


@pytest.mark.parametrize(("seconds", "waits"), [(599, True), (600, False)])
def test_a_long_run_clears_the_wait(seconds: int, waits: bool) -> None:
    bound = pod(status=running(restarts=5), annotations={EXIT_AFTER: f"{seconds}s"})
    written = step(bound, at(seconds))
    assert isinstance(written, WriteStatus)
    assert ("waiting" in written.status["containerStatuses"][0]["state"]) == waits


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_stays_as_it_is(phase: str) -> None:
    assert step(pod(status={"phase": phase}, annotations={EXIT_AFTER: "1s"}), at(100)) == Idle()


def leaving(grace: int, **more: Any) -> BoundPod:
    return pod(
        status=running(), deletionTimestamp=wire(at(grace)), deletionGracePeriodSeconds=grace, **more
    )  # fmt: skip


def test_a_leaving_pod_is_removed_at_once_by_default() -> None:
    assert step(leaving(30)) == Remove()


@pytest.mark.parametrize(
    ("stops_after", "now", "expected"),
    [
        ("10s", at(9), WaitUntil(until=at(10))),
        ("10s", at(10), Remove()),
        ("1h", at(29), WaitUntil(until=at(30))),
        ("1h", at(30), Remove()),
    ],
)
def test_a_pod_that_stops_slowly_goes_when_it_has_stopped_or_its_grace_is_over(
    stops_after: str, now: datetime, expected: Step
) -> None:
    assert step(leaving(30, annotations={STOPS_AFTER: stops_after}), now) == expected


def test_a_pod_held_by_a_finalizer_is_not_deleted_again_and_again() -> None:
    assert step(leaving(0, finalizers=["example.com/hold"])) == Idle()


def test_a_pod_whose_removal_the_server_did_not_finish_is_removed() -> None:
    assert step(leaving(0)) == Remove()


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({READY_AFTER: "soon"}, 'annotation simulation.grove.io/ready-after: "soon" is not a duration'),
        ({EXIT_CODE: "one"}, "annotation simulation.grove.io/exit-code: 'one' is not a whole number"),
    ],
)
def test_a_pod_with_an_annotation_that_makes_no_sense_says_so_and_does_not_start(
    annotations: dict[str, str], message: str
) -> None:
    bound = pod(annotations=annotations)
    with pytest.raises(ValueError, match=message):
        read_behavior(bound)
    refused = reject_pod(bound, message, NOW)
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
    assert refused == WriteStatus(
        status={
            "phase": "Pending",
            "startTime": wire(NOW),
            "containerStatuses": [container(waiting, ready=False)],
        }
    )
    assert reject_pod(pod(annotations=annotations, status=refused.status), message, at(1)) == Idle()
    assert reject_pod(leaving(30, annotations=annotations), message, at(1)) == Remove()


def test_behaviour_is_read_from_annotations() -> None:
    annotations = {READY_AFTER: "1m", EXIT_AFTER: "2h", EXIT_CODE: "7", STOPS_AFTER: "3s"}
    assert read_behavior(pod(annotations=annotations)) == Behavior(
        ready_after=timedelta(minutes=1),
        exit_after=timedelta(hours=2),
        exit_code=7,
        stops_after=timedelta(seconds=3),
    )
