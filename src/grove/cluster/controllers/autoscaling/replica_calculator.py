"""Replica calculator: how many replicas one metric asks for, as a pure function of pods and samples.

The rule is the documented one of Kubernetes: `desired = ceil(current * usage / target)`, within a tolerance of 10 %.
Pods without a sample, and pods that are not ready yet, dampen a change and never reverse it. All amounts are in
thousandths. `scaling_rules.py` limits how fast the result is followed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

# A pod that started less than this ago counts for the CPU only after it was ready for a whole sample.
CPU_INITIALIZATION_PERIOD = timedelta(minutes=5)
# A pod whose last change of readiness came within this time of its start was never ready.
INITIAL_READINESS_DELAY = timedelta(seconds=30)
_NO_PODS = "no pods returned by selector while calculating replica count"
_NO_SAMPLES = "did not receive metrics for targeted pods (pods might be unready)"


class MetricError(Exception):
    """A metric gives no replica count. The message gives the reason."""


class Tolerances(msgspec.Struct, frozen=True, kw_only=True):
    """How far usage may be from the target without a change of scale, as fractions."""

    scale_down: float = 0.1
    scale_up: float = 0.1

    def contain(self, ratio: float) -> bool:
        return 1.0 - self.scale_down <= ratio <= 1.0 + self.scale_up


class ScaledPod(msgspec.Struct, frozen=True, kw_only=True):
    """What the autoscaler reads of a pod. `is_ready`: the status of its Ready condition, None without one."""

    name: str
    phase: str = "Running"
    is_terminating: bool = False
    is_ready: bool | None = True
    ready_changed_at: datetime | None = None
    started_at: datetime | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A measured value of one pod, averaged over `window` until `at`."""

    value: int
    at: datetime
    window: timedelta = timedelta(0)


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas that one metric asks for, and the usage to show in the status."""

    replicas: int
    usage: int
    utilization: int | None = None


class _Sorted(msgspec.Struct, frozen=True):
    """Usable samples by pod, and the pods without one."""

    values: dict[str, int]
    ready_count: int
    unready: tuple[str, ...]
    missing: tuple[str, ...]


def propose_by_utilization(
    current: int,
    target_percent: int,
    pods: Sequence[ScaledPod],
    samples: Mapping[str, Sample],
    requests: Mapping[str, int],
    tolerances: Tolerances,
    now: datetime,
    *,
    is_cpu: bool,
) -> Proposal:
    """Return the replicas for a target in percent of the requests. Raises `MetricError`."""
    found = _sort_pods(pods, samples, now, is_cpu=is_cpu)
    utilization = _utilization(found.values, requests)
    # A missing pod is assumed to use all it requested, so that the others are not removed because of it.
    assumed = {name: requests[name] * max(100, target_percent) // 100 for name in found.missing}
    replicas = _propose(
        current, found, lambda values: _utilization(values, requests) / target_percent, assumed, tolerances
    )
    return Proposal(replicas=replicas, usage=_average(found.values), utilization=utilization)


def propose_by_average(
    current: int,
    target: int,
    pods: Sequence[ScaledPod],
    samples: Mapping[str, Sample],
    tolerances: Tolerances,
    now: datetime,
    *,
    is_cpu: bool,
) -> Proposal:
    """Return the replicas for a target value per pod. Raises `MetricError`."""
    found = _sort_pods(pods, samples, now, is_cpu=is_cpu)
    assumed = dict.fromkeys(found.missing, target)
    replicas = _propose(current, found, lambda values: _average(values) / target, assumed, tolerances)
    return Proposal(replicas=replicas, usage=_average(found.values))


def propose_by_value(
    current: int, target: int, usage: int, pods: Sequence[ScaledPod], tolerances: Tolerances
) -> Proposal:
    """Return the replicas for a target value of one series, which the ready pods share. Raises `MetricError`."""
    ratio = usage / target
    if current == 0:
        return Proposal(replicas=math.ceil(ratio), usage=usage)
    if tolerances.contain(ratio):
        return Proposal(replicas=current, usage=usage)
    if not pods:
        raise MetricError(f"unable to calculate ready pods: {_NO_PODS}")
    ready_count = sum(pod.phase == "Running" and pod.is_ready is True for pod in pods)
    return Proposal(replicas=math.ceil(ratio * ready_count), usage=usage)


def propose_by_value_per_replica(status_replicas: int, target: int, usage: int, tolerances: Tolerances) -> Proposal:
    """Return the replicas for a target value per replica of one series. Pods do not matter."""
    if status_replicas == 0:
        return Proposal(replicas=math.ceil(usage / target), usage=usage)
    is_on_target = tolerances.contain(usage / (target * status_replicas))
    replicas = status_replicas if is_on_target else math.ceil(usage / target)
    return Proposal(replicas=replicas, usage=math.ceil(usage / status_replicas))


def _sort_pods(pods: Sequence[ScaledPod], samples: Mapping[str, Sample], now: datetime, *, is_cpu: bool) -> _Sorted:
    if not pods:
        raise MetricError(_NO_PODS)
    values: dict[str, int] = {}
    unready: list[str] = []
    missing: list[str] = []
    for pod in pods:
        sample = samples.get(pod.name)
        if pod.is_terminating or pod.phase == "Failed":
            continue
        if pod.phase == "Pending":
            unready.append(pod.name)
        elif sample is None:
            missing.append(pod.name)
        elif is_cpu and _is_warming_up(pod, sample, now):
            unready.append(pod.name)
        else:
            values[pod.name] = sample.value
    if not values:
        raise MetricError(_NO_SAMPLES)
    return _Sorted(values, len(values), tuple(unready), tuple(missing))


def _is_warming_up(pod: ScaledPod, sample: Sample, now: datetime) -> bool:
    """Return whether the CPU of the pod says nothing yet about its load."""
    if pod.is_ready is None or pod.started_at is None or pod.ready_changed_at is None:
        return True
    if pod.started_at + CPU_INITIALIZATION_PERIOD > now:
        return not pod.is_ready or sample.at < pod.ready_changed_at + sample.window
    return not pod.is_ready and pod.started_at + INITIAL_READINESS_DELAY > pod.ready_changed_at


def _propose(
    current: int,
    found: _Sorted,
    ratio_of: Callable[[dict[str, int]], float],
    assumed: Mapping[str, int],
    tolerances: Tolerances,
) -> int:
    ratio = ratio_of(found.values)
    is_growing = ratio > 1.0
    unready = found.unready if is_growing else ()
    if not unready and not found.missing:
        return current if tolerances.contain(ratio) else math.ceil(ratio * found.ready_count)
    values = {**found.values, **_assume(ratio, found.missing, assumed), **dict.fromkeys(unready, 0)}
    cautious = ratio_of(values)
    if tolerances.contain(cautious) or (ratio < 1.0 < cautious) or (ratio > 1.0 > cautious):
        return current
    replicas = math.ceil(cautious * len(values))
    is_reversed = (cautious < 1.0 and replicas > current) or (cautious > 1.0 and replicas < current)
    return current if is_reversed else replicas


def _assume(ratio: float, missing: tuple[str, ...], assumed: Mapping[str, int]) -> dict[str, int]:
    """Return the values of pods without a sample: the whole target on scale-in, nothing on scale-out."""
    if ratio < 1.0:
        return {name: assumed[name] for name in missing}
    return dict.fromkeys(missing, 0) if ratio > 1.0 else {}


def _utilization(values: Mapping[str, int], requests: Mapping[str, int]) -> int:
    requested = sum(requests[name] for name in values)
    if requested == 0:
        raise MetricError("no metrics returned matched known pods")
    return sum(values.values()) * 100 // requested


def _average(values: Mapping[str, int]) -> int:
    return sum(values.values()) // len(values)
