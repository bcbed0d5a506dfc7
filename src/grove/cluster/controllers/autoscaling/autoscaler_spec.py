"""The spec of a HorizontalPodAutoscaler, decoded for the controller. The API server has set its defaults."""

from typing import dataclass_transform

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.values.quantities import parse_milli
from grove.cluster.controllers.autoscaling.replica_calculator import Tolerances
from grove.cluster.controllers.autoscaling.scaling_rules import ScalingBehavior

_DEFAULT_TOLERANCE = 0.1


@dataclass_transform(frozen_default=True, kw_only_default=True)
class SpecStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base class of all parts of the spec. Unknown fields are ignored."""


class ObjectReference(SpecStruct):
    kind: str = ""
    name: str = ""
    api_version: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


class MetricTarget(SpecStruct):
    type: str = ""
    value: str | int | float | None = None
    average_value: str | int | float | None = None
    average_utilization: int | None = None

    @property
    def value_milli(self) -> int | None:
        return None if self.value is None else parse_milli(self.value)

    @property
    def average_milli(self) -> int | None:
        return None if self.average_value is None else parse_milli(self.average_value)


class MetricName(SpecStruct):
    name: str = ""
    selector: JsonObject | None = None


class ResourceMetric(SpecStruct):
    """The source of a metric of type Resource or, with a container, ContainerResource."""

    name: str = ""
    container: str = ""
    target: MetricTarget = MetricTarget()


class SeriesMetric(SpecStruct):
    """The source of a metric of type Pods, Object or External."""

    metric: MetricName = MetricName()
    target: MetricTarget = MetricTarget()
    described_object: ObjectReference = ObjectReference()


class MetricSource(SpecStruct):
    type: str = ""
    resource: ResourceMetric | None = None
    container_resource: ResourceMetric | None = None
    pods: SeriesMetric | None = None
    object: SeriesMetric | None = None
    external: SeriesMetric | None = None


class HorizontalAutoscalerSpec(SpecStruct):
    scale_target_ref: ObjectReference = ObjectReference()
    min_replicas: int = 1
    max_replicas: int = 1
    metrics: tuple[MetricSource, ...] = ()
    behavior: ScalingBehavior | None = None

    @property
    def tolerances(self) -> Tolerances:
        behavior = self.behavior or ScalingBehavior()
        up, down = (
            _DEFAULT_TOLERANCE if rules.tolerance is None else parse_milli(rules.tolerance) / 1000
            for rules in (behavior.scale_up, behavior.scale_down)
        )
        return Tolerances(scale_up=up, scale_down=down)

    @property
    def can_scale_from_zero(self) -> bool:
        """Return whether a metric has values while there are no pods."""
        return any(metric.type in ("Object", "External") for metric in self.metrics)


def read_spec(autoscaler: JsonObject) -> HorizontalAutoscalerSpec:
    """Decode the spec. Raises `msgspec.ValidationError`."""
    return msgspec.convert(autoscaler.get("spec") or {}, HorizontalAutoscalerSpec)
