"""Scheduling status: writes why pods are unschedulable, as the PodScheduled condition of each pod and as events.

There is one event per gang or ungrouped pod. A reason is written one second after it came up, only if it still holds
and only if its text changed: pods that are scheduled at once cost no write.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random

import msgspec

from grove.api.reasons import EventReason, Reason
from grove.api.resources import EVENTS, PODGANGS
from grove.api.types.meta import ConditionStatus, JsonObject, NamespacedName, ObjectMeta, Uid
from grove.api.types.podgang import PodGang
from grove.api.values.times import ceil_second
from grove.clock import Clock
from grove.cluster.controllers.workqueue import DelayingQueue
from grove.cluster.scheduler.types import SCHEDULABLE_PODS, SchedulablePod
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.store import Store
from grove.kube.transport import STRATEGIC_PATCH
from grove.placement.types import Unplaced

WRITE_DELAY = timedelta(seconds=1)
RETRY = timedelta(seconds=5)
WRITERS = 16
COMPONENT = "grove-scheduler"

# The uid of a pod, or the name of a gang.
Key = Uid | NamespacedName


class UnschedulableReason(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    # Pods of a gang share the event of their gang; an ungrouped pod has its own.
    is_lone_pod: bool = False


class SchedulingStatusWriter:
    """A writer of conditions and events of unschedulable pods."""

    def __init__(
        self, client: Client, clock: Clock, random: Random, pods: Store[SchedulablePod], gangs: Store[PodGang]
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._pods = pods
        self._gangs = gangs
        self._queue: DelayingQueue[Key] = DelayingQueue(clock)
        self._reasons: dict[Key, UnschedulableReason] = {}
        self._due: dict[Key, datetime] = {}
        self._written_events: dict[Key, str] = {}

    def update(self, unplaced: Iterable[Unplaced]) -> None:
        """Set the current reasons of all pods that wait. Pods that are not listed no longer wait."""
        reasons = _reasons(unplaced)
        before = self._reasons
        self._reasons = reasons
        for key, reason in reasons.items():
            if before.get(key) != reason:
                self._queue.add(key)
        self._written_events = {key: message for key, message in self._written_events.items() if key in reasons}

    async def run(self) -> None:
        await self._queue.run(self._reconcile, workers=WRITERS)

    async def _reconcile(self, key: Key) -> datetime | None:
        reason = self._reasons.get(key)
        if reason is None:
            self._due.pop(key, None)
            return None
        now = self._clock.now()
        due = self._due.setdefault(key, now + WRITE_DELAY)
        if due > now:
            return due
        del self._due[key]
        try:
            await self._write(key, reason)
        except ApiError as error:
            return None if error.is_not_found or error.is_rejection else self._clock.now() + RETRY
        return None

    async def _write(self, key: Key, reason: UnschedulableReason) -> None:
        if isinstance(key, NamespacedName):
            gang = self._gangs.by_name(key.namespace, key.name)
            if gang is not None:
                await self._write_event(key, reason, PODGANGS.api_version, PODGANGS.kind, gang.metadata)
            return
        pod = self._pods.get(key)
        if pod is None:
            return
        await self._write_condition(pod, reason)
        if reason.is_lone_pod:
            await self._write_event(key, reason, SCHEDULABLE_PODS.api_version, SCHEDULABLE_PODS.kind, pod.metadata)

    async def _write_condition(self, pod: SchedulablePod, reason: UnschedulableReason) -> None:
        current = pod.scheduled_condition
        if current and (current.status, current.reason, current.message) == (
            ConditionStatus.FALSE, Reason.UNSCHEDULABLE, reason.message,
        ):  # fmt: skip
            return
        condition: JsonObject = {
            "type": "PodScheduled",
            "status": ConditionStatus.FALSE,
            "reason": Reason.UNSCHEDULABLE,
            "message": reason.message,
        }
        if current is None or current.status != ConditionStatus.FALSE:
            condition["lastTransitionTime"] = ceil_second(self._clock.now())
        metadata = pod.metadata
        patch = {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}}
        patched = await self._client.patch(
            SCHEDULABLE_PODS,
            metadata.namespace,
            metadata.name,
            patch,
            content_type=STRATEGIC_PATCH,
            subresource="status",
        )
        self._pods.observe(patched)

    async def _write_event(
        self, key: Key, reason: UnschedulableReason, api_version: str, kind: str, about: ObjectMeta
    ) -> None:
        if self._written_events.get(key) == reason.message:
            return
        now = ceil_second(self._clock.now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name}.{self._random.getrandbits(64):016x}", "namespace": about.namespace},
            "involvedObject": {
                "apiVersion": api_version,
                "kind": kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "type": "Warning",
            "reason": EventReason.FAILED_SCHEDULING,
            "message": reason.message,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._client.create(EVENTS, about.namespace, event)
        self._written_events[key] = reason.message


def _reasons(unplaced: Iterable[Unplaced]) -> dict[Key, UnschedulableReason]:
    reasons: dict[Key, UnschedulableReason] = {}
    for waiting in unplaced:
        reason = UnschedulableReason(message=waiting.message, is_lone_pod=waiting.gang is None)
        for pod in waiting.pods:
            reasons[pod.uid] = reason
        if waiting.gang is not None:
            other = reasons.get(waiting.gang)
            reasons[waiting.gang] = (
                reason if other is None else UnschedulableReason(message=f"{other.message}; {reason.message}")
            )
    return reasons
