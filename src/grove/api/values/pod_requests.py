"""Compute the resource requests of a pod from containers, init containers and overhead, in thousandths.

A limit without a request counts as a request, as in the API server's defaults.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from grove.api.types.meta import JsonObject
from grove.api.values.quantities import parse_milli

Quantity = str | int | float
Amounts = tuple[tuple[str, Quantity], ...]


def pod_requests(pod_spec: JsonObject) -> dict[str, int]:
    """Return the requests of a pod without amounts of zero. Amounts that cannot be parsed count as zero."""
    containers = tuple(map(_container_requests, _objects(pod_spec.get("containers"))))
    inits = tuple(
        (one.get("restartPolicy") == "Always", _container_requests(one))
        for one in _objects(pod_spec.get("initContainers"))
    )
    total = add_amounts(peak_requests(containers, inits), _pairs(pod_spec.get("overhead")))
    return {name: amount for name, amount in total.items() if amount > 0}


def peak_requests(containers: Iterable[Amounts], inits: Iterable[tuple[bool, Amounts]]) -> dict[str, int]:
    """Return the most that a pod needs at one time.

    This is the sum of its containers and sidecars, or an init container with the sidecars before it.
    """
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for is_sidecar, amounts in inits:
        step = add_amounts(sidecars, amounts)
        peak = _maximum(peak, step)
        sidecars = step if is_sidecar else sidecars
    running = sidecars
    for amounts in containers:
        running = add_amounts(running, amounts)
    return _maximum(peak, running)


def add_amounts(total: Mapping[str, int], amounts: Amounts) -> dict[str, int]:
    return dict(total) | {name: total.get(name, 0) + read_milli(amount) for name, amount in amounts}


def read_milli(quantity: Quantity) -> int:
    """Return the amount in thousandths, or 0 if it cannot be parsed: the API server rejects such amounts."""
    try:
        return parse_milli(quantity)
    except ValueError:
        return 0


def _maximum(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return dict(left) | {name: max(amount, left.get(name, 0)) for name, amount in right.items()}


def _container_requests(container: JsonObject) -> Amounts:
    resources = container.get("resources")
    if not isinstance(resources, dict):
        return ()
    return tuple((dict(_pairs(resources.get("limits"))) | dict(_pairs(resources.get("requests")))).items())


def _pairs(amounts: Any) -> Amounts:
    if not isinstance(amounts, dict):
        return ()
    return tuple((name, amount) for name, amount in amounts.items() if isinstance(amount, str | int | float))


def _objects(items: Any) -> list[JsonObject]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
