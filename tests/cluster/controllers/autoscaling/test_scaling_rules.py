"""How fast an autoscaler follows: windows, policies and bounds, by the documented rules."""

from datetime import UTC, datetime, timedelta

import pytest

from grove.cluster.controllers.autoscaling.scaling_rules import (
    ScalingBehavior,
    ScalingHistory,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    limit_scale,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
# The defaults that the API server writes into a behavior.
UP = ScalingRules(
    stabilization_window_seconds=0, policies=(ScalingPolicy("Pods", 4, 15), ScalingPolicy("Percent", 100, 15))
)
DOWN = ScalingRules(policies=(ScalingPolicy("Percent", 100, 15),))


def ago(seconds: int) -> datetime:
    return NOW - timedelta(seconds=seconds)


def past(recommended: dict[int, int] | None = None, changed: dict[int, int] | None = None) -> ScalingHistory:
    """A history: what was recommended, and how the scale was changed, how many seconds ago."""
    history = ScalingHistory()
    for seconds, replicas in (recommended or {}).items():
        history = history.with_recommendation(ago(seconds), replicas)
    for seconds, change in (changed or {}).items():
        history = history.with_change(ago(seconds), change)
    return history


def allowed(
    current: int,
    desired: int,
    history: ScalingHistory | None = None,
    behavior: ScalingBehavior | None = None,
    *,
    least: int = 1,
    most: int = 100,
) -> tuple[int, str, str]:
    """The count, and the reasons of AbleToScale and ScalingLimited."""
    found = limit_scale(behavior, history or ScalingHistory(), current, desired, least, most, NOW)
    return found.limited.replicas, found.stabilized.reason, found.limited.reason


def up(*policies: ScalingPolicy, select: SelectPolicy = SelectPolicy.MAX, window: int = 0) -> ScalingBehavior:
    rules = ScalingRules(stabilization_window_seconds=window, policies=policies, select_policy=select)
    return ScalingBehavior(scale_up=rules, scale_down=DOWN)


def down(*policies: ScalingPolicy, select: SelectPolicy = SelectPolicy.MAX, window: int = 0) -> ScalingBehavior:
    rules = ScalingRules(stabilization_window_seconds=window, policies=policies, select_policy=select)
    return ScalingBehavior(scale_up=UP, scale_down=rules)


READY, IN_RANGE = "ReadyForNewScale", "DesiredWithinRange"


@pytest.mark.parametrize(
    ("current", "desired", "wanted"),
    [
        (1, 4, (4, READY, IN_RANGE)),
        (1, 5, (4, READY, "ScaleUpLimit")),
        (3, 6, (6, READY, IN_RANGE)),
        (3, 7, (6, READY, "ScaleUpLimit")),
        (60, 101, (100, READY, "TooManyReplicas")),
        (5, 0, (1, READY, "TooFewReplicas")),
        (5, 5, (5, READY, IN_RANGE)),
    ],
)
def test_without_behavior_the_count_at_most_doubles(current: int, desired: int, wanted: tuple[int, str, str]) -> None:
    assert allowed(current, desired) == wanted


def test_without_behavior_a_scale_in_waits_for_300_seconds_of_low_recommendations() -> None:
    assert allowed(10, 2, past({300: 10})) == (10, "ScaleDownStabilized", IN_RANGE)
    assert allowed(10, 2, past({301: 10})) == (2, READY, IN_RANGE)
    assert allowed(10, 2, past({301: 10, 200: 5, 100: 3})) == (5, "ScaleDownStabilized", IN_RANGE)


@pytest.mark.parametrize("behavior", [ScalingBehavior(scale_up=UP, scale_down=DOWN), None])
def test_the_defaults_of_a_behavior_are_the_rules_without_one(behavior: ScalingBehavior | None) -> None:
    for current in range(1, 8):
        for desired in range(1, 20):
            # Four pods more are allowed by policy, four pods in all without one.
            most = max(2 * current, current + 4 if behavior else 4)
            wanted = min(desired, most)
            assert allowed(current, desired, behavior=behavior)[0] == wanted, (current, desired)


def test_a_window_before_a_scale_out_takes_the_lowest_recommendation() -> None:
    behavior = up(ScalingPolicy("Percent", 1000, 15), window=60)
    assert allowed(2, 8, past({59: 3}), behavior) == (3, "ScaleUpStabilized", IN_RANGE)
    assert allowed(2, 8, past({60: 3}), behavior) == (8, READY, IN_RANGE)


def test_a_recommendation_below_the_current_count_stops_a_scale_out_but_is_no_scale_in() -> None:
    behavior = up(ScalingPolicy("Percent", 1000, 15), window=60)
    assert allowed(4, 8, past({30: 2}), behavior) == (4, "ScaleUpStabilized", IN_RANGE)


@pytest.mark.parametrize(
    ("behavior", "history", "wanted"),
    [
        pytest.param(up(ScalingPolicy("Pods", 2, 60)), past(), 12, id="2 pods"),
        pytest.param(up(ScalingPolicy("Percent", 50, 60)), past(), 15, id="50 percent"),
        pytest.param(up(ScalingPolicy("Percent", 1, 60)), past(), 11, id="a percent of ten is one pod"),
        pytest.param(up(ScalingPolicy("Pods", 2, 60), ScalingPolicy("Percent", 50, 60)), past(), 15, id="the most"),
        pytest.param(
            up(ScalingPolicy("Pods", 2, 60), ScalingPolicy("Percent", 50, 60), select=SelectPolicy.MIN),
            past(), 12, id="the least",
        ),
        pytest.param(up(ScalingPolicy("Pods", 2, 60), select=SelectPolicy.DISABLED), past(), 10, id="disabled"),
        pytest.param(up(ScalingPolicy("Pods", 5, 60)), past(changed={59: 3}), 12, id="3 of 5 are spent"),
        pytest.param(up(ScalingPolicy("Pods", 5, 60)), past(changed={60: 3}), 15, id="a period later they are not"),
        pytest.param(up(ScalingPolicy("Pods", 5, 60)), past(changed={59: 9}), 10, id="never below the current count"),
        pytest.param(up(ScalingPolicy("Pods", 5, 60)), past(changed={59: -3}), 18, id="a scale-in gives them back"),
    ],
)  # fmt: skip
def test_policies_limit_a_scale_out(behavior: ScalingBehavior, history: ScalingHistory, wanted: int) -> None:
    assert allowed(10, 90, history, behavior) == (wanted, READY, "ScaleUpLimit")


@pytest.mark.parametrize(
    ("behavior", "history", "wanted"),
    [
        pytest.param(down(ScalingPolicy("Pods", 2, 60)), past(), 8, id="2 pods"),
        pytest.param(down(ScalingPolicy("Percent", 25, 60)), past(), 7, id="25 percent, rounded to the larger change"),
        pytest.param(down(ScalingPolicy("Pods", 2, 60), ScalingPolicy("Percent", 50, 60)), past(), 5, id="the most"),
        pytest.param(
            down(ScalingPolicy("Pods", 2, 60), ScalingPolicy("Percent", 50, 60), select=SelectPolicy.MIN),
            past(), 8, id="the least",
        ),
        pytest.param(down(ScalingPolicy("Pods", 2, 60), select=SelectPolicy.DISABLED), past(), 10, id="disabled"),
        pytest.param(down(ScalingPolicy("Pods", 5, 60)), past(changed={59: -3}), 8, id="3 of 5 are spent"),
        pytest.param(down(ScalingPolicy("Pods", 5, 60)), past(changed={59: -9}), 10, id="never above the count"),
    ],
)  # fmt: skip
def test_policies_limit_a_scale_in(behavior: ScalingBehavior, history: ScalingHistory, wanted: int) -> None:
    assert allowed(10, 2, history, behavior) == (wanted, READY, "ScaleDownLimit")


def test_the_bounds_are_named_where_they_are_tighter_than_the_policies() -> None:
    assert allowed(10, 90, behavior=up(ScalingPolicy("Pods", 50, 60)), most=12) == (12, READY, "TooManyReplicas")
    assert allowed(10, 1, behavior=down(ScalingPolicy("Pods", 50, 60)), least=3) == (3, READY, "TooFewReplicas")


def test_a_window_of_its_own_replaces_300_seconds_before_a_scale_in() -> None:
    behavior = down(ScalingPolicy("Percent", 100, 15), window=10)
    assert allowed(10, 2, past({9: 10}), behavior) == (10, "ScaleDownStabilized", IN_RANGE)
    assert allowed(10, 2, past({10: 10}), behavior) == (2, READY, IN_RANGE)


def test_a_history_forgets_what_no_window_can_reach() -> None:
    history = past({3601: 5, 10: 3}, {3601: 2, 10: 1}).with_recommendation(NOW, 4).with_change(NOW, 1)
    assert [one.replicas for one in history.recommendations] == [3, 4]
    assert [one.change for one in history.changes] == [1, 1]
