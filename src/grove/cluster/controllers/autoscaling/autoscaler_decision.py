"""The decision of one sync of an autoscaler, as a pure function: the new scale and the conditions that explain it."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.controllers.autoscaling.autoscaler_spec import HorizontalAutoscalerSpec
from grove.cluster.controllers.autoscaling.metric_evaluation import Evaluation, MetricFailure
from grove.cluster.controllers.autoscaling.scaling_rules import LimitedScale, ScalingHistory, limit_scale

ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
SCALED_TO_ZERO = "ScaledToZero"


class AutoscalerCondition(msgspec.Struct, frozen=True):
    """A condition without its time."""

    type: str
    is_true: bool
    reason: str
    message: str


class ScaleDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The scale to set (the current one: none to set), why, and what the status says."""

    replicas: int
    why: str = ""
    conditions: tuple[AutoscalerCondition, ...] = ()
    # None: unchanged.
    metric_statuses: tuple[JsonObject, ...] | None = None
    failure: MetricFailure | None = None
    history: ScalingHistory
    # Metrics were needed and did not give a count: `desiredReplicas` of the status stays.
    is_undecided: bool = False


def decide(
    spec: HorizontalAutoscalerSpec,
    current: int,
    evaluate: Callable[[], Evaluation],
    history: ScalingHistory,
    now: datetime,
    *,
    was_scaled_to_zero: bool = False,
) -> ScaleDecision:
    """Decide on the scale. `evaluate` is called only if the metrics matter."""
    if not history.recommendations:
        history = history.with_recommendation(now, current)
    got_scale = AutoscalerCondition(
        ABLE_TO_SCALE, True, "SucceededGetScale", "the HPA controller was able to get the target's current scale"
    )
    if current == 0 and not (was_scaled_to_zero and (spec.min_replicas or spec.can_scale_from_zero)):
        disabled = AutoscalerCondition(
            SCALING_ACTIVE,
            False,
            "ScalingDisabled",
            "scaling is disabled since the replica count of the target is zero",
        )
        return ScaleDecision(replicas=0, conditions=(got_scale, disabled), metric_statuses=(), history=history)
    if current > spec.max_replicas:
        why = "Current number of replicas above Spec.MaxReplicas"
        return ScaleDecision(
            replicas=spec.max_replicas, why=why, conditions=(got_scale,), metric_statuses=(), history=history
        )
    if 0 < current < spec.min_replicas:
        why = "Current number of replicas below Spec.MinReplicas"
        return ScaleDecision(
            replicas=spec.min_replicas, why=why, conditions=(got_scale,), metric_statuses=(), history=history
        )
    return _decide_by_metrics(spec, current, evaluate(), got_scale, history, now)


def _decide_by_metrics(
    spec: HorizontalAutoscalerSpec,
    current: int,
    evaluation: Evaluation,
    got_scale: AutoscalerCondition,
    history: ScalingHistory,
    now: datetime,
) -> ScaleDecision:
    failure = evaluation.failure
    if evaluation.replicas is None:
        return ScaleDecision(
            replicas=current,
            conditions=(got_scale, *([_inactive(failure)] if failure else [])),
            metric_statuses=evaluation.statuses,
            failure=failure,
            history=history,
            is_undecided=True,
        )
    desired = evaluation.replicas
    scale = limit_scale(spec.behavior, history, current, desired, spec.min_replicas, spec.max_replicas, now)
    replicas = max(scale.limited.replicas, spec.min_replicas) if current == 0 else scale.limited.replicas
    return ScaleDecision(
        replicas=replicas,
        why=_explain(evaluation, current),
        conditions=_conditions(scale, evaluation.metric),
        metric_statuses=evaluation.statuses,
        failure=failure,
        history=history.with_recommendation(now, desired),
    )


def _explain(evaluation: Evaluation, current: int) -> str:
    desired = evaluation.replicas or 0
    if desired > current:
        return f"{evaluation.metric} above target"
    return "All metrics below target" if desired < current else ""


def _conditions(scale: LimitedScale, metric: str) -> tuple[AutoscalerCondition, ...]:
    stabilized, limited = scale.stabilized, scale.limited
    message = f"the HPA was able to successfully calculate a replica count from {metric}"
    return (
        AutoscalerCondition(ABLE_TO_SCALE, True, stabilized.reason, stabilized.message),
        AutoscalerCondition(SCALING_ACTIVE, True, "ValidMetricFound", message),
        AutoscalerCondition(SCALING_LIMITED, scale.is_limited, limited.reason, limited.message),
    )


def _inactive(failure: MetricFailure) -> AutoscalerCondition:
    message = f"the HPA was unable to compute the replica count: {failure.error_message}"
    return AutoscalerCondition(SCALING_ACTIVE, False, failure.reason, message)
