"""HorizontalPodAutoscaler (autoscaling/v2), with the fields that the operator writes and that users are shown."""

from datetime import datetime

from grove.api.types.meta import Condition, JsonObject, ObjectMeta, WireStruct


class ScaleTargetRef(WireStruct):
    """The object that an autoscaler scales."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class AutoscalerSpec(WireStruct):
    scale_target_ref: ScaleTargetRef = ScaleTargetRef()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[JsonObject, ...] | None = None
    behavior: JsonObject | None = None


class AutoscalerStatus(WireStruct):
    last_scale_time: datetime | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    current_metrics: tuple[JsonObject, ...] | None = None
    conditions: tuple[Condition, ...] | None = None


class HorizontalPodAutoscaler(WireStruct):
    metadata: ObjectMeta
    spec: AutoscalerSpec = AutoscalerSpec()
    status: AutoscalerStatus = AutoscalerStatus()
