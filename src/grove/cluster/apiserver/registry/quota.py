"""Resource quotas: rejects creates that would exceed a quota, and keeps the usage in the status of quotas.

The ledger watches the store, so the cost of a check does not depend on the number of pods. Namespaces without quotas
cost nothing.
"""

from collections.abc import Iterable

from grove.api.types.meta import JsonObject
from grove.api.values.quantities import format_resource, parse_milli
from grove.cluster.apiserver.registry.pods.pod_strategy import PodShape, read_pod_spec
from grove.cluster.apiserver.status_errors import forbidden
from grove.cluster.built_in_resources import PODS, RESOURCE_QUOTAS, ResourceInfo
from grove.cluster.storage.store import Change, ChangeType, Entry, Storage

# Thousandths of each resource.
Amounts = dict[str, int]

_ONE = 1000
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
# Kinds that older quotas count under their plain name.
_PLAIN_COUNTS = ("services", "secrets", "configmaps", "resourcequotas")


class QuotaLedger:
    """A ledger of the resources that the objects of each namespace with quotas use."""

    def __init__(self, store: Storage) -> None:
        self._store = store
        self._quotas = store.table(RESOURCE_QUOTAS)
        self._used: dict[str, Amounts] = {}
        # In a restored store all namespaces with quotas must be counted first.
        self._pending = {quota.namespace: None for quota in self._quotas.entries(None)}
        store.subscribe(self._on_change)
        self.settle()

    def check(self, resource_info: ResourceInfo, namespace: str, obj: JsonObject) -> None:
        """Raise 403 if a quota of the namespace does not allow this new object."""
        if not resource_info.namespaced or not self._quotas.count(namespace):
            return
        wanted = _compute_usage(resource_info, obj)
        used = self._used.get(namespace, {})
        for quota in self._quotas.entries(namespace):
            if resource_info is PODS:
                _check_specified(quota, obj)
            _check_limits(resource_info, quota, obj["metadata"]["name"], wanted=wanted, used=used)

    def settle(self) -> None:
        """Write the current usage to the status of the quotas that changed."""
        while self._pending:
            namespace = next(iter(self._pending))
            del self._pending[namespace]
            if not self._quotas.count(namespace):
                self._used.pop(namespace, None)
                continue
            if namespace not in self._used:
                self._used[namespace] = self._count(namespace)
            for quota in list(self._quotas.entries(namespace)):
                self._write_status(quota, self._used[namespace])

    def _on_change(self, change: Change) -> None:
        resource_info, namespace = change.resource_info, change.entry.namespace
        if resource_info is RESOURCE_QUOTAS:
            self._pending[namespace] = None
        used = self._used.get(namespace)
        if used is None:
            return
        before = {} if change.before is None else _compute_usage(resource_info, change.before.obj)
        after = {} if change.type is ChangeType.DELETED else _compute_usage(resource_info, change.entry.obj)
        if before != after:
            _add(used, after, 1)
            _add(used, before, -1)
            self._pending[namespace] = None

    def _count(self, namespace: str) -> Amounts:
        used: Amounts = {}
        for table in self._store.tables():
            if table.resource_info.namespaced:
                for entry in table.entries(namespace):
                    _add(used, _compute_usage(table.resource_info, entry.obj), 1)
        return used

    def _write_status(self, quota: Entry, used: Amounts) -> None:
        hard = _hard_limits(quota)
        status = {"hard": hard, "used": {name: format_resource(name, used.get(name, 0)) for name in hard}}
        if quota.obj.get("status") != status:
            self._store.put(RESOURCE_QUOTAS, quota.namespace, quota.name, {**quota.obj, "status": status})


def _hard_limits(quota: Entry) -> JsonObject:
    hard: JsonObject = (quota.obj.get("spec") or {}).get("hard") or {}
    return hard


def _check_limits(resource_info: ResourceInfo, quota: Entry, name: str, *, wanted: Amounts, used: Amounts) -> None:
    hard = {resource: parse_milli(limit) for resource, limit in _hard_limits(quota).items()}
    exceeded = sorted(
        resource
        for resource, limit in hard.items()
        if wanted.get(resource, 0) > 0 and used.get(resource, 0) + wanted[resource] > limit
    )
    if exceeded:
        raise forbidden(
            resource_info,
            name,
            f"exceeded quota: {quota.name}, requested: {_format_amounts(exceeded, wanted)}, "
            f"used: {_format_amounts(exceeded, used)}, limited: {_format_amounts(exceeded, hard)}",
        )


def _format_amounts(resources: Iterable[str], amounts: Amounts) -> str:
    return ",".join(f"{resource}={format_resource(resource, amounts.get(resource, 0))}" for resource in resources)


def _check_specified(quota: Entry, obj: JsonObject) -> None:
    """Raise 403 unless every container sets the compute resources that the quota limits."""
    missing: dict[str, list[str]] = {}
    for resource in sorted(_hard_limits(quota)):
        part = "limits" if resource.startswith("limits.") else "requests"
        name = resource.removeprefix(f"{part}.")
        if name not in _COMPUTE:
            continue
        for container in read_pod_spec(obj).containers or ():
            resources = container.resources
            given = (resources and (resources.limits if part == "limits" else resources.requests)) or {}
            if name not in given:
                missing.setdefault(container.name or "", []).append(resource)
    if missing:
        message = "; ".join(f"{','.join(resources)} for: {container}" for container, resources in missing.items())
        raise forbidden(PODS, obj["metadata"]["name"], f"failed quota: {quota.name}: must specify {message}")


def _compute_usage(resource_info: ResourceInfo, obj: JsonObject) -> Amounts:
    """Return the amounts that one object uses of the quotas of its namespace."""
    amounts = {f"count/{resource_info.qualified}": _ONE}
    if resource_info.qualified in _PLAIN_COUNTS:
        amounts[resource_info.qualified] = _ONE
    if resource_info is PODS and (obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
        amounts["pods"] = _ONE
        shape = read_pod_spec(obj)
        for resource, amount in _sum_resources(shape, "requests").items():
            amounts[f"requests.{resource}"] = amount
            if resource in _COMPUTE:
                amounts[resource] = amount
        for resource, amount in _sum_resources(shape, "limits").items():
            amounts[f"limits.{resource}"] = amount
    return amounts


def _sum_resources(shape: PodShape, part: str) -> Amounts:
    """Return the requests or limits of a pod: the sum of its containers or its largest init container."""
    together: Amounts = {}
    largest: Amounts = {}
    for container in shape.containers or ():
        for resource, quantity in (getattr(container.resources, part, None) or {}).items():
            together[resource] = together.get(resource, 0) + parse_milli(quantity)
    for container in shape.init_containers or ():
        for resource, quantity in (getattr(container.resources, part, None) or {}).items():
            largest[resource] = max(largest.get(resource, 0), parse_milli(quantity))
    return {name: max(together.get(name, 0), largest.get(name, 0)) for name in {**together, **largest}}


def _add(used: Amounts, amounts: Amounts, sign: int) -> None:
    for resource, amount in amounts.items():
        used[resource] = used.get(resource, 0) + sign * amount
