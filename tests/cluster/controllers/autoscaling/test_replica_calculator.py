"""The documented algorithm of the horizontal autoscaler: counts by hand, at, below and above every limit."""

from datetime import UTC, datetime, timedelta

import pytest

from grove.cluster.controllers.autoscaling.replica_calculator import (
    MetricError,
    Sample,
    ScaledPod,
    Tolerances,
    propose_by_average,
    propose_by_utilization,
    propose_by_value,
    propose_by_value_per_replica,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)
DEFAULT = Tolerances()


def pod(name: str, **fields: object) -> ScaledPod:
    healthy: dict[str, object] = {"started_at": LONG_AGO, "ready_changed_at": LONG_AGO}
    return ScaledPod(name=name, **(healthy | fields))  # type: ignore[arg-type]


def pods(count: int) -> list[ScaledPod]:
    return [pod(f"p{index}") for index in range(count)]


def samples(*values: int | None) -> dict[str, Sample]:
    return {
        f"p{index}": Sample(value=value, at=NOW, window=timedelta(seconds=15))
        for index, value in enumerate(values)
        if value is not None
    }


def by_utilization(
    target: int, *values: int | None, of: list[ScaledPod] | None = None, tolerances: Tolerances = DEFAULT
) -> int:
    """The count for pods that request a whole CPU each."""
    found = of or pods(len(values))
    requests = {each.name: 1000 for each in found}
    return propose_by_utilization(
        len(found), target, found, samples(*values), requests, tolerances, NOW, is_cpu=True
    ).replicas


@pytest.mark.parametrize(
    ("target", "values", "wanted"),
    [
        pytest.param(50, (1000, 1000), 4, id="twice the target: twice the pods"),
        pytest.param(50, (500, 500), 2, id="on target"),
        pytest.param(50, (550, 550), 2, id="10 percent above is tolerated"),
        pytest.param(50, (560, 560), 3, id="12 percent above is not"),
        pytest.param(50, (450, 450), 2, id="10 percent below is tolerated"),
        pytest.param(50, (440, 440, 440, 440, 440, 440, 440, 440, 440), 8, id="12 percent below is not"),
        pytest.param(50, (250, 250, 250, 250), 2, id="half the target: half the pods"),
        pytest.param(50, (0, 0, 0), 0, id="no load at all: the bounds decide"),
        pytest.param(30, (300, 500, 700), 5, id="uneven load is averaged: 50 percent of 30"),
    ],
)
def test_replicas_follow_the_ratio_of_usage_and_target(target: int, values: tuple[int, ...], wanted: int) -> None:
    assert by_utilization(target, *values) == wanted


def test_a_tolerance_of_its_own_replaces_the_default() -> None:
    narrow = Tolerances(scale_up=0.02, scale_down=0.02)
    assert by_utilization(50, 530, 530, tolerances=narrow) == 3
    assert by_utilization(50, 470, 470, 470, 470, 470, 470, 470, 470, 470, 470, 470, 470, 470, tolerances=narrow) == 13


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        pytest.param((1000, 1000, None), 4, id="scale-out: the missing pod counts as idle"),
        pytest.param((600, 600, None), 3, id="scale-out that the missing pod would turn around: none"),
        pytest.param((100, 100, None), 3, id="scale-in: the missing pod counts as using all it requested"),
        pytest.param((100, 100, 100, 100, None), 3, id="scale-in, dampened"),
    ],
)
def test_a_pod_without_a_sample_dampens_the_change(values: tuple[int | None, ...], wanted: int) -> None:
    assert by_utilization(50, *values) == wanted


@pytest.mark.parametrize(
    ("unready", "why"),
    [
        (pod("p2", phase="Pending", is_ready=None), "pending"),
        (pod("p2", is_ready=False, started_at=NOW - timedelta(minutes=4)), "not ready yet"),
        (pod("p2", started_at=NOW - timedelta(minutes=4), ready_changed_at=NOW - timedelta(seconds=10)), "just ready"),
        (pod("p2", is_ready=None), "no condition"),
        (pod("p2", is_ready=False, ready_changed_at=LONG_AGO + timedelta(seconds=29)), "never ready"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_pod_that_is_not_ready_yet_counts_as_idle_on_scale_out_only(unready: ScaledPod, why: str) -> None:
    three = [pod("p0"), pod("p1"), unready]
    # 2 busy pods at 90 percent and an idle one are 60 percent of 50: 3.6 pods.
    assert by_utilization(50, 900, 900, 900, of=three) == 4
    # Scale-in looks at the ready pods only.
    assert by_utilization(50, 250, 250, 250, of=three) == 1


@pytest.mark.parametrize(
    "ready",
    [
        pod("p2", started_at=NOW - timedelta(minutes=4), ready_changed_at=NOW - timedelta(seconds=15)),
        pod("p2", is_ready=False, ready_changed_at=LONG_AGO + timedelta(seconds=30)),
    ],
    ids=["ready for a whole sample", "was ready before"],
)
def test_a_pod_that_was_ready_for_a_whole_sample_counts(ready: ScaledPod) -> None:
    assert by_utilization(50, 1000, 1000, 1000, of=[pod("p0"), pod("p1"), ready]) == 6


@pytest.mark.parametrize("gone", [pod("p2", is_terminating=True), pod("p2", phase="Failed")])
def test_a_pod_that_is_going_does_not_count(gone: ScaledPod) -> None:
    assert by_utilization(50, 1000, 1000, 1000, of=[pod("p0"), pod("p1"), gone]) == 4


def test_memory_of_a_starting_pod_counts_at_once() -> None:
    starting = [pod("p0"), pod("p1", is_ready=False, started_at=NOW)]
    wanted = propose_by_average(2, 500, starting, samples(1000, 1000), DEFAULT, NOW, is_cpu=False)
    assert (wanted.replicas, wanted.usage) == (4, 1000)


def test_a_target_above_the_request_is_what_a_missing_pod_uses() -> None:
    # 93 percent of 200; if it used only what it requested, one pod would be enough.
    assert by_utilization(200, 400, 400, None) == 2


@pytest.mark.parametrize(
    ("values", "wanted"), [((10, 10), 2), ((30, 30), 6), ((30, 30, None), 6), ((2, 2, None), 2), ((11, 11), 2)]
)
def test_an_average_value_needs_no_requests(values: tuple[int | None, ...], wanted: int) -> None:
    found = propose_by_average(len(values), 10, pods(len(values)), samples(*values), DEFAULT, NOW, is_cpu=False)
    assert found.replicas == wanted


@pytest.mark.parametrize(("usage", "wanted"), [(100, 3), (109, 3), (120, 4), (200, 6), (50, 2), (0, 0)])
def test_a_value_is_shared_by_the_ready_pods(usage: int, wanted: int) -> None:
    assert propose_by_value(3, 100, usage, pods(3), DEFAULT).replicas == wanted


def test_a_value_ignores_pods_that_are_not_ready() -> None:
    assert propose_by_value(3, 100, 200, [pod("p0"), pod("p1", is_ready=False)], DEFAULT).replicas == 2


@pytest.mark.parametrize(
    ("replicas", "usage", "wanted", "shown"),
    [(3, 30, 3, 10), (3, 33, 3, 11), (3, 34, 4, 12), (3, 100, 10, 34), (4, 10, 1, 3), (0, 25, 3, 25)],
)
def test_a_value_per_replica_needs_no_pods(replicas: int, usage: int, wanted: int, shown: int) -> None:
    found = propose_by_value_per_replica(replicas, 10, usage, DEFAULT)
    assert (found.replicas, found.usage) == (wanted, shown)


@pytest.mark.parametrize("current", [0, 3])
def test_from_zero_only_the_value_counts(current: int) -> None:
    assert propose_by_value(current, 100, 250, [] if current == 0 else pods(1), DEFAULT).replicas == 3


def test_a_metric_without_pods_or_samples_says_so() -> None:
    with pytest.raises(MetricError, match="no pods returned by selector"):
        propose_by_average(1, 10, [], {}, DEFAULT, NOW, is_cpu=True)
    with pytest.raises(MetricError, match="did not receive metrics"):
        propose_by_average(1, 10, pods(2), {}, DEFAULT, NOW, is_cpu=True)
    with pytest.raises(MetricError, match="no pods returned by selector"):
        propose_by_value(1, 100, 500, [], DEFAULT)
