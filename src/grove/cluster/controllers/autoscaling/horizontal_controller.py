"""The controller of HorizontalPodAutoscalers: reads the scale of each target, decides, and writes scale and status.

It syncs an autoscaler 15 s after its creation and then every 15 s, as Kubernetes does, because metrics have no watch.
Without autoscalers it does nothing. The decision is in `autoscaler_decision.py`.
"""

from datetime import datetime, timedelta

import msgspec
import structlog

from grove.api.types.meta import JsonObject
from grove.api.values.quantities import QuantityError
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.apiserver.auth.user_info import AUTOSCALER
from grove.cluster.apiserver.codec.lenient_json import items, part
from grove.cluster.apiserver.codec.selectors import LabelRequirement, Selection, parse_labels
from grove.cluster.apiserver.conditions import with_condition
from grove.cluster.apiserver.registry.metadata import format_time
from grove.cluster.apiserver.verbs.scale_conversion import build_scale
from grove.cluster.built_in_resources import AUTOSCALERS, EVENTS, PODS, ResourceInfo
from grove.cluster.controllers.autoscaling.autoscaler_decision import (
    ABLE_TO_SCALE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    AutoscalerCondition,
    ScaleDecision,
    decide,
)
from grove.cluster.controllers.autoscaling.autoscaler_spec import HorizontalAutoscalerSpec, ObjectReference, read_spec
from grove.cluster.controllers.autoscaling.metric_evaluation import (
    Evaluation,
    MetricFailure,
    MetricReader,
    ScaleState,
)
from grove.cluster.controllers.autoscaling.scaling_rules import ScalingHistory
from grove.cluster.controllers.workqueue import DelayingQueue
from grove.cluster.storage.store import Change, ChangeType, Entry
from grove.kube.transport import Request, Response

log = structlog.get_logger()

SYNC_PERIOD = timedelta(seconds=15)
COMPONENT = "horizontal-pod-autoscaler"
_WORKERS = 4
_CONFLICT_RETRIES = 4

_Key = tuple[str, str]


class _NoScaleError(Exception):
    """The scale of the target cannot be read. The message gives the reason."""


class _Target(msgspec.Struct, frozen=True):
    resource_info: ResourceInfo
    scale: JsonObject

    @property
    def replicas(self) -> int:
        return int(self.scale["spec"].get("replicas", 0))


class HorizontalController:
    """A controller that syncs every HorizontalPodAutoscaler of a server."""

    def __init__(self, server: ApiServer, *, sync_period: timedelta = SYNC_PERIOD) -> None:
        self._server = server
        self._sync_period = sync_period
        self._table = server.store.table(AUTOSCALERS)
        self._pods = server.store.table(PODS)
        self._metrics = MetricReader(server.store, server.kinds, server.usage)
        self._queue: DelayingQueue[_Key] = DelayingQueue(server.clock)
        self._histories: dict[_Key, ScalingHistory] = {}
        # The pod selectors of all targets, to find pods that two autoscalers would scale.
        self._selectors: dict[_Key, tuple[LabelRequirement, ...]] = {}
        for entry in self._table.entries(None):
            self._queue.add((entry.namespace, entry.name))
        server.store.subscribe(self._follow)

    async def run(self) -> None:
        """Sync until cancelled."""
        await self._queue.run(self._reconcile, workers=_WORKERS)

    def _follow(self, change: Change) -> None:
        if change.resource_info is not AUTOSCALERS:
            return
        key = (change.entry.namespace, change.entry.name)
        if change.type is ChangeType.DELETED:
            self._histories.pop(key, None)
            self._selectors.pop(key, None)
        elif change.before is None or _generation(change.before) != _generation(change.entry):
            self._queue.add(key)

    async def _reconcile(self, key: _Key) -> datetime | None:
        entry = self._table.find(*key)
        if entry is None:
            return None
        first_sync = msgspec.convert(entry.obj["metadata"]["creationTimestamp"], datetime) + self._sync_period
        if "status" not in entry.obj and self._server.clock.now() < first_sync:
            return first_sync
        try:
            await self._sync(key, entry)
        except (msgspec.ValidationError, QuantityError) as error:
            log.warning("autoscaler cannot be read", namespace=key[0], name=key[1], error=str(error))
        return self._server.clock.now() + self._sync_period

    async def _sync(self, key: _Key, entry: Entry) -> None:
        spec, now = read_spec(entry.obj), self._server.clock.now()
        try:
            target = self._find_target(spec.scale_target_ref, entry.namespace)
        except _NoScaleError as error:
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            conditions = (AutoscalerCondition(ABLE_TO_SCALE, False, "FailedGetScale", message),)
            await self._report(entry, conditions, {}, warning=MetricFailure("FailedGetScale", str(error)))
            return
        decision = decide(
            spec,
            target.replicas,
            lambda: self._evaluate(key, spec, target, now),
            self._histories.get(key, ScalingHistory()),
            now,
            was_scaled_to_zero=_is_true(entry, SCALED_TO_ZERO),
        )
        self._histories[key] = decision.history
        await self._carry_out(key, entry, spec, target, decision)

    # Reads

    def _find_target(self, reference: ObjectReference, namespace: str) -> _Target:
        for resource_info in self._server.kinds.resources:
            if (resource_info.kind, resource_info.group) != (reference.kind, reference.group):
                continue
            if not resource_info.has_scale:
                raise _NoScaleError(f"{resource_info.qualified} does not implement the scale subresource")
            entry = self._server.store.table(resource_info).find(namespace, reference.name)
            if entry is None:
                raise _NoScaleError(f'{resource_info.qualified} "{reference.name}" not found')
            return _Target(resource_info, build_scale(resource_info, entry.obj))
        raise _NoScaleError(f'no matches for kind "{reference.kind}" in group "{reference.group}"')

    def _evaluate(self, key: _Key, spec: HorizontalAutoscalerSpec, target: _Target, now: datetime) -> Evaluation:
        text = target.scale["status"].get("selector", "")
        if not text:
            return _fail("InvalidSelector", "the HPA target's scale is missing a selector")
        try:
            self._selectors[key] = parse_labels(text)
        except ValueError as error:
            return _fail("InvalidSelector", f"couldn't convert selector into a corresponding selector object: {error}")
        pods = self._list_pods(key)
        if others := self._find_rivals(key, pods):
            return _fail(
                "AmbiguousSelector",
                f"pods by selector {text} are controlled by more than one HPA (e.g. {', '.join(sorted(others))})",
            )
        state = ScaleState(
            namespace=key[0],
            spec_replicas=target.replicas,
            status_replicas=target.scale["status"]["replicas"],
            pods=pods,
        )
        return self._metrics.evaluate(spec, state, now)

    def _list_pods(self, key: _Key) -> tuple[JsonObject, ...]:
        selection = Selection(self._selectors[key])
        exact = selection.exact_labels
        entries = self._pods.find_candidates(exact) if exact else self._pods.entries(key[0])
        return tuple(entry.obj for entry in entries if entry.namespace == key[0] and selection.matches(entry.obj))

    def _find_rivals(self, key: _Key, pods: tuple[JsonObject, ...]) -> list[str]:
        """Return the names of all autoscalers of these pods, if there is another one."""
        found = [
            name
            for (namespace, name), requirements in self._selectors.items()
            if namespace == key[0] and name != key[1] and any(Selection(requirements).matches(pod) for pod in pods)
        ]
        return [key[1], *found] if found else []

    # Writes

    async def _carry_out(
        self, key: _Key, entry: Entry, spec: HorizontalAutoscalerSpec, target: _Target, decision: ScaleDecision
    ) -> None:
        current, now = target.replicas, self._server.clock.now()
        change: JsonObject = {"currentReplicas": current, "desiredReplicas": decision.replicas}
        if decision.is_undecided:
            del change["desiredReplicas"]
        if decision.metric_statuses is not None:
            change["currentMetrics"] = list(decision.metric_statuses)
        if decision.replicas == current:
            await self._report(entry, decision.conditions, change, warning=decision.failure)
            return
        error_message = await self._write_scale(entry.namespace, spec.scale_target_ref, decision.replicas)
        if error_message:
            message = f"the HPA controller was unable to update the target scale: {error_message}"
            failed = AutoscalerCondition(ABLE_TO_SCALE, False, "FailedUpdateScale", message)
            warning = MetricFailure(
                "FailedRescale", f"New size: {decision.replicas}; reason: {decision.why}; error: {error_message}"
            )
            del change["desiredReplicas"]
            await self._report(entry, (*decision.conditions, failed), change, warning=warning)
            return
        self._histories[key] = decision.history.with_change(now, decision.replicas - current)
        await self._write_event(
            entry, "Normal", "SuccessfulRescale", f"New size: {decision.replicas}; reason: {decision.why}"
        )
        message = f"the HPA controller was able to update the target scale to {decision.replicas}"
        rescaled = AutoscalerCondition(ABLE_TO_SCALE, True, "SucceededRescale", message)
        change["lastScaleTime"] = format_time(now)
        conditions = (*decision.conditions, rescaled, _scaled_to_zero(spec, decision.replicas))
        await self._report(entry, conditions, change, warning=decision.failure)

    async def _write_scale(self, namespace: str, reference: ObjectReference, replicas: int) -> str:
        """Write the scale of the target. Return an error message; empty: it is written."""
        error_message = ""
        for _ in range(_CONFLICT_RETRIES):
            try:
                target = self._find_target(reference, namespace)
            except _NoScaleError as error:
                return str(error)
            body = msgspec.json.encode({**target.scale, "spec": {"replicas": replicas}})
            path = f"{target.resource_info.path(namespace, reference.name)}/scale"
            response = await self._send("PUT", path, body)
            if response.status < 400:
                return ""
            error_message = str(part(msgspec.json.decode(response.body)).get("message", ""))
            if response.status != 409:
                break
        return error_message

    async def _report(
        self,
        entry: Entry,
        conditions: tuple[AutoscalerCondition, ...],
        change: JsonObject,
        *,
        warning: MetricFailure | None,
    ) -> None:
        """Write the status if it changed. A warning is an event when the conditions change, not at every sync."""
        now = format_time(self._server.clock.now())
        before = part(entry.obj.get("status"))
        status = {"observedGeneration": _generation(entry), "currentReplicas": 0, "desiredReplicas": 0} | before
        status |= {**change, "observedGeneration": _generation(entry)}
        if not status.get("currentMetrics"):
            status.pop("currentMetrics", None)
        # The last of each type: a condition that is set twice in one sync must not count as a transition.
        for condition in {condition.type: condition for condition in conditions}.values():
            status = with_condition(status, _to_wire(condition, now))
        if status == before:
            return
        if warning is not None and _reasons(status) != _reasons(before):
            await self._write_event(entry, "Warning", warning.reason, warning.error_message)
        path = f"{AUTOSCALERS.path(entry.namespace, entry.name)}/status"
        body = {"metadata": {"uid": entry.obj["metadata"]["uid"]}, "status": status}
        # A merge patch, not an update: a new spec that somebody wrote meanwhile is no conflict.
        cleared = {field: None for field in before if field not in status}
        body["status"] = {**status, **cleared}
        await self._send("PATCH", path, msgspec.json.encode(body))

    async def _write_event(self, entry: Entry, type_: str, reason: str, message: str) -> None:
        now, metadata = format_time(self._server.clock.now()), entry.obj["metadata"]
        event = {
            "metadata": {"name": f"{entry.name}.{self._server.store.revision:x}"},
            "involvedObject": {
                "apiVersion": AUTOSCALERS.api_version, "kind": AUTOSCALERS.kind, "namespace": entry.namespace,
                "name": entry.name, "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            },
            "type": type_, "reason": reason, "message": message, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": COMPONENT}, "reportingComponent": COMPONENT, "reportingInstance": "",
        }  # fmt: skip
        path = EVENTS.path(entry.namespace, "").rstrip("/")
        await self._send("POST", path, msgspec.json.encode(event))

    async def _send(self, method: str, path: str, body: bytes) -> Response:
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = Request(method=method, path=path, body=body, content_type=content_type)
        return await self._server.handle_with_webhooks(request, AUTOSCALER)


def _fail(reason: str, message: str) -> Evaluation:
    return Evaluation(replicas=None, failure=MetricFailure(reason, message))


def _generation(entry: Entry) -> int:
    return int(entry.obj["metadata"].get("generation", 1))


def _is_true(entry: Entry, type_: str) -> bool:
    conditions = items(part(entry.obj.get("status")).get("conditions"))
    return any(each.get("type") == type_ and each.get("status") == "True" for each in conditions)


def _scaled_to_zero(spec: HorizontalAutoscalerSpec, replicas: int) -> AutoscalerCondition:
    if replicas == 0 and spec.can_scale_from_zero:
        return AutoscalerCondition(
            SCALED_TO_ZERO, True, "ScaledToZero", "the HPA controller scaled the workload to zero"
        )
    message = "the HPA controller did not scale the workload to zero"
    return AutoscalerCondition(SCALED_TO_ZERO, False, "NotScaledToZero", message)


def _to_wire(condition: AutoscalerCondition, now: str) -> JsonObject:
    return {
        "type": condition.type,
        "status": "True" if condition.is_true else "False",
        "lastTransitionTime": now,
        "reason": condition.reason,
        "message": condition.message,
    }


def _reasons(status: JsonObject) -> list[tuple[str, str]]:
    """Return type and reason of the conditions AbleToScale and ScalingActive."""
    return [
        (each["type"], each["reason"])
        for each in items(status.get("conditions"))
        if each.get("type") in (ABLE_TO_SCALE, SCALING_ACTIVE)
    ]
