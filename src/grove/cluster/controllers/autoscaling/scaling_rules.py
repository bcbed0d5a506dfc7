"""Scaling rules: how fast an autoscaler follows its recommendations, as a pure function of their history.

Stabilization windows first (300 s before a scale-in, none before a scale-out), then policies and bounds. An autoscaler
without `behavior` has the fixed rate of Kubernetes: at most to the double, or to 4.
"""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

DOWNSCALE_WINDOW_SECONDS = 300
# The longest window and the longest period that the API accepts.
LONGEST_WINDOW = timedelta(hours=1)


class SelectPolicy(StrEnum):
    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


class ScalingPolicy(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    value: int
    period_seconds: int


class ScalingRules(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rules of one direction. The API server has set their defaults."""

    stabilization_window_seconds: int | None = None
    select_policy: SelectPolicy = SelectPolicy.MAX
    policies: tuple[ScalingPolicy, ...] = ()
    tolerance: str | int | float | None = None


class ScalingBehavior(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    scale_up: ScalingRules = ScalingRules()
    scale_down: ScalingRules = ScalingRules()


class Recommendation(msgspec.Struct, frozen=True):
    at: datetime
    replicas: int


class ScaleChange(msgspec.Struct, frozen=True):
    """A change of scale that the autoscaler made: positive if replicas were added."""

    at: datetime
    change: int


class ScalingHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The recent past of one autoscaler. Like that of Kubernetes it is in memory only."""

    recommendations: tuple[Recommendation, ...] = ()
    changes: tuple[ScaleChange, ...] = ()

    def with_recommendation(self, at: datetime, replicas: int) -> "ScalingHistory":
        recent = self.recommendations[_first_recent(self.recommendations, at) :]
        return msgspec.structs.replace(self, recommendations=(*recent, Recommendation(at, replicas)))

    def with_change(self, at: datetime, change: int) -> "ScalingHistory":
        recent = self.changes[_first_recent(self.changes, at) :]
        return msgspec.structs.replace(self, changes=(*recent, ScaleChange(at, change)))


def _first_recent(records: Sequence[Recommendation | ScaleChange], now: datetime) -> int:
    """Return the index of the first record that a window can still reach. Records are in order of time."""
    cutoff = now - LONGEST_WINDOW
    return next((index for index, one in enumerate(records) if one.at >= cutoff), len(records))


class AllowedScale(msgspec.Struct, frozen=True):
    """A replica count, with the reason and message of the condition that reports it."""

    replicas: int
    reason: str
    message: str


class LimitedScale(msgspec.Struct, frozen=True, kw_only=True):
    """The replica count after stabilization, and after the limits."""

    stabilized: AllowedScale
    limited: AllowedScale

    @property
    def is_limited(self) -> bool:
        return self.limited.replicas != self.stabilized.replicas


_READY = ("ReadyForNewScale", "recommended size matches current size")
_DOWN_STABILIZED = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_UP_STABILIZED = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_IN_RANGE = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_UP_LIMIT = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_DOWN_LIMIT = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")


def limit_scale(
    behavior: ScalingBehavior | None,
    history: ScalingHistory,
    current: int,
    desired: int,
    minimum: int,
    maximum: int,
    now: datetime,
) -> LimitedScale:
    """Return the replica count that the rules allow now. `history` is without the new recommendation `desired`."""
    if behavior is None:
        replicas = _stabilize_by_default(history, desired, now)
        reason = _READY if replicas == desired else _DOWN_STABILIZED
        limited = _limit_by_default(current, replicas, minimum, maximum)
    else:
        replicas = _stabilize(behavior, history, current, desired, now)
        reason = _READY if replicas == desired else _UP_STABILIZED if desired >= current else _DOWN_STABILIZED
        limited = _limit(behavior, history, current, replicas, minimum, maximum, now)
    return LimitedScale(stabilized=AllowedScale(replicas, *reason), limited=limited)


# Without behavior


def _stabilize_by_default(history: ScalingHistory, desired: int, now: datetime) -> int:
    cutoff = now - timedelta(seconds=DOWNSCALE_WINDOW_SECONDS)
    highest = desired
    # The newest first: most records of a long history are older.
    for one in reversed(history.recommendations):
        if one.at < cutoff:
            break
        highest = max(highest, one.replicas)
    return highest


def _limit_by_default(current: int, desired: int, minimum: int, maximum: int) -> AllowedScale:
    rate = max(2 * current, 4)
    highest, reason = (rate, _UP_LIMIT) if maximum > rate else (maximum, _TOO_MANY)
    if desired < minimum:
        return AllowedScale(minimum, *_TOO_FEW)
    if desired > highest:
        return AllowedScale(highest, *reason)
    return AllowedScale(desired, *_IN_RANGE)


# With behavior


def _stabilize(behavior: ScalingBehavior, history: ScalingHistory, current: int, desired: int, now: datetime) -> int:
    """Return the current count, moved into the range of all recommendations of the two windows."""
    up_window = behavior.scale_up.stabilization_window_seconds or 0
    down_window = behavior.scale_down.stabilization_window_seconds
    if down_window is None:
        down_window = DOWNSCALE_WINDOW_SECONDS
    lowest = min([desired, *_recent(history, up_window, now)])
    highest = max([desired, *_recent(history, down_window, now)])
    return min(max(current, lowest), highest)


def _recent(history: ScalingHistory, seconds: int, now: datetime) -> list[int]:
    return [one.replicas for one in history.recommendations if one.at > now - timedelta(seconds=seconds)]


def _limit(
    behavior: ScalingBehavior,
    history: ScalingHistory,
    current: int,
    desired: int,
    minimum: int,
    maximum: int,
    now: datetime,
) -> AllowedScale:
    if desired > current:
        rate = max(_up_limit(behavior.scale_up, history, current, now), current)
        highest = min(rate, maximum)
        if desired > highest:
            return AllowedScale(highest, *(_UP_LIMIT if rate < maximum else _TOO_MANY))
    if desired < current:
        rate = min(_down_limit(behavior.scale_down, history, current, now), current)
        lowest = max(rate, minimum)
        if desired < lowest:
            return AllowedScale(lowest, *(_DOWN_LIMIT if rate > minimum else _TOO_FEW))
    return AllowedScale(desired, *_IN_RANGE)


def _up_limit(rules: ScalingRules, history: ScalingHistory, current: int, now: datetime) -> int:
    def propose(policy: ScalingPolicy, before: int) -> int:
        # Rounded up: a small percentage of few replicas must still add one.
        return before + policy.value if policy.type == "Pods" else math.ceil(before * (1 + policy.value / 100))

    return _select(rules, history, current, now, propose, min if rules.select_policy is SelectPolicy.MIN else max)


def _down_limit(rules: ScalingRules, history: ScalingHistory, current: int, now: datetime) -> int:
    def propose(policy: ScalingPolicy, before: int) -> int:
        return before - policy.value if policy.type == "Pods" else int(before * (1 - policy.value / 100))

    # The smallest change of a scale-in leaves the most replicas.
    return _select(rules, history, current, now, propose, max if rules.select_policy is SelectPolicy.MIN else min)


def _select(
    rules: ScalingRules,
    history: ScalingHistory,
    current: int,
    now: datetime,
    propose: Callable[[ScalingPolicy, int], int],
    choose: Callable[[Sequence[int]], int],
) -> int:
    if rules.select_policy is SelectPolicy.DISABLED or not rules.policies:
        return current
    return choose([propose(policy, current - _change_in(history, policy, now)) for policy in rules.policies])


def _change_in(history: ScalingHistory, policy: ScalingPolicy, now: datetime) -> int:
    """Return by how much the autoscaler changed the scale in the period of the policy."""
    cutoff = now - timedelta(seconds=policy.period_seconds)
    return sum(one.change for one in history.changes if one.at > cutoff)
