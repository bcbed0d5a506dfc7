"""Disruption controller: computes the status of PodDisruptionBudgets.

It counts the pods, the expected pods and the healthy pods of each budget, and from these the allowed disruptions. It
watches the store and writes statuses through the API, like any controller. The number of expected pods is the sum of
the scales of the pods' owners. `evict.py` reads the result.
"""

from datetime import datetime, timedelta

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.apiserver.auth.user_info import DISRUPTION_CONTROLLER
from grove.cluster.apiserver.registry.metadata import format_time
from grove.cluster.apiserver.registry.pdb import covers_pod, is_ready, with_disruption_allowed, with_sync_failed
from grove.cluster.apiserver.verbs.scale_conversion import build_scale
from grove.cluster.built_in_resources import BUDGETS, PODS, ResourceInfo
from grove.cluster.controllers.workqueue import DelayingQueue
from grove.cluster.storage.store import Change, ChangeType, Entry
from grove.kube.transport import Request

# A burst of changes becomes one write. Clients must not see it in the same instant.
_DELAY_SECONDS = 0.02
_WORKERS = 4
# An evicted pod that is still there after this time counts as healthy again.
_EVICTION_TIMEOUT = timedelta(minutes=2)
# Owners may appear, or get a scale, without an event of a pod or budget.
_RETRY = timedelta(seconds=10)
_RETRY_WRITE = timedelta(seconds=1)
_IGNORED = (404, 409)

_Key = tuple[str, str]


class _UncountableError(Exception):
    """The number of expected pods cannot be computed. The message gives the reason."""


class _Expected(msgspec.Struct, frozen=True):
    pods: int
    healthy: int


class DisruptionController:
    """A controller that keeps the status of every PodDisruptionBudget up to date."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._pods = server.store.table(PODS)
        self._table = server.store.table(BUDGETS)
        # By namespace and name: most pods of most clusters are in none.
        self._budgets: dict[str, dict[str, JsonObject]] = {}
        self._queue: DelayingQueue[_Key] = DelayingQueue(server.clock)
        for entry in self._table.entries(None):
            self._follow_budget(Change(BUDGETS, ChangeType.ADDED, entry, None))
        server.store.subscribe(self._follow)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._queue.run(self._reconcile, workers=_WORKERS)

    def _follow(self, change: Change) -> None:
        if change.resource_info is BUDGETS:
            self._follow_budget(change)
        elif change.resource_info is PODS and self._budgets:
            self._follow_pod(change)

    def _follow_budget(self, change: Change) -> None:
        namespace, name = change.entry.namespace, change.entry.name
        if change.type is ChangeType.DELETED:
            self._budgets.get(namespace, {}).pop(name, None)
            return
        self._budgets.setdefault(namespace, {})[name] = change.entry.obj
        self._queue.add((namespace, name))

    def _follow_pod(self, change: Change) -> None:
        versions = [each.obj for each in (change.entry, change.before) if each is not None]
        for name, budget in self._budgets.get(change.entry.namespace, {}).items():
            if any(covers_pod(budget, pod) for pod in versions):
                self._queue.add((change.entry.namespace, name))

    async def _reconcile(self, key: _Key) -> datetime | None:
        """Write the status if it changed. Return the time at which it may change without a watch event, or None."""
        await self._server.clock.sleep(_DELAY_SECONDS)
        entry = self._table.find(*key)
        if entry is None:
            return None
        now = self._server.clock.now()
        before = entry.obj.get("status") or {}
        pods = [pod.obj for pod in self._pods.entries(entry.namespace) if covers_pod(entry.obj, pod.obj)]
        try:
            expected = self._compute_expected(entry.obj["spec"], pods)
        except _UncountableError as error:
            status, deadlines = with_sync_failed(before, str(error), format_time(now)), [now + _RETRY]
        else:
            disrupted = _pending_evictions(before.get("disruptedPods") or {}, pods, now)
            status = _compute_status(entry.obj, pods, expected, disrupted, now)
            deadlines = [min(_time(since), now) + _EVICTION_TIMEOUT for since in disrupted.values()]
        if status != before and not await self._write(entry, status):
            return now + _RETRY_WRITE
        return min(deadlines, default=None)

    async def _write(self, entry: Entry, status: JsonObject) -> bool:
        """Write the status. Return false if the write must be retried."""
        body = msgspec.json.encode({**entry.obj, "status": status})
        path = f"{BUDGETS.path(entry.namespace, entry.name)}/status"
        response = await self._server.handle_with_webhooks(
            Request(method="PUT", path=path, body=body), DISRUPTION_CONTROLLER
        )
        return response.status < 400 or response.status in _IGNORED

    # Expected pods

    def _compute_expected(self, spec: JsonObject, pods: list[JsonObject]) -> _Expected:
        """Return the expected and the desired healthy pods. Raises `_UncountableError`."""
        unavailable, available = spec.get("maxUnavailable"), spec.get("minAvailable")
        if unavailable is not None:
            total = self._scale(pods)
            return _Expected(total, max(total - _resolve_amount(unavailable, total), 0))
        if isinstance(available, str):
            total = self._scale(pods)
            return _Expected(total, _resolve_amount(available, total))
        if available is not None:
            return _Expected(len(pods), available)
        return _Expected(0, 0)

    def _scale(self, pods: list[JsonObject]) -> int:
        """Return the sum of the scales of the pods' controllers. Pods without a controller do not count."""
        scales: dict[str, int] = {}
        for pod in pods:
            metadata = pod["metadata"]
            for owner in metadata.get("ownerReferences", ()):
                if owner.get("controller") and owner["uid"] not in scales:
                    scales[owner["uid"]] = self._scale_of_owner(owner, metadata)
        return sum(scales.values())

    def _scale_of_owner(self, owner: JsonObject, metadata: JsonObject) -> int:
        resource_info = self._find_resource(owner)
        if not resource_info.has_scale:
            raise _UncountableError(f"{resource_info.qualified} does not implement the scale subresource")
        entry = self._server.store.table(resource_info).find(metadata["namespace"], owner["name"])
        if entry is None:
            raise _UncountableError(f'found no controllers for pod "{metadata["name"]}"')
        replicas = build_scale(resource_info, entry.obj)["spec"].get("replicas", 0)
        return replicas if isinstance(replicas, int) else 0

    def _find_resource(self, owner: JsonObject) -> ResourceInfo:
        for resource_info in self._server.kinds.resources:
            if (resource_info.kind, resource_info.api_version) == (owner["kind"], owner["apiVersion"]):
                return resource_info
        raise _UncountableError(f'no matches for kind "{owner["kind"]}" in version "{owner["apiVersion"]}"')


def _resolve_amount(amount: int | str, total: int) -> int:
    """Return the amount as a number. A percentage is rounded up."""
    return amount if isinstance(amount, int) else -(-int(amount[:-1].lstrip("0") or "0") * total // 100)


def _pending_evictions(disrupted: dict[str, str], pods: list[JsonObject], now: datetime) -> dict[str, str]:
    """Return the evicted pods that are not terminating yet and whose deletion has not timed out."""
    staying = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    begin = now - _EVICTION_TIMEOUT
    return {name: since for name, since in disrupted.items() if name in staying and _time(since) > begin}


def _time(text: str) -> datetime:
    return msgspec.convert(text, datetime)


def _compute_status(
    budget: JsonObject, pods: list[JsonObject], expected: _Expected, disrupted: dict[str, str], now: datetime
) -> JsonObject:
    healthy = sum(
        is_ready(pod) and "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] not in disrupted
        for pod in pods
    )
    # If no pods are expected, none may be evicted: pods can exist before their owner counts them.
    allowed = max(healthy - expected.healthy, 0) if expected.pods > 0 else 0
    status: JsonObject = {
        "observedGeneration": budget["metadata"]["generation"],
        **({"disruptedPods": disrupted} if disrupted else {}),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": expected.healthy,
        "expectedPods": expected.pods,
    }
    if conditions := (budget.get("status") or {}).get("conditions"):
        status["conditions"] = conditions
    return with_disruption_allowed(status, format_time(now))
