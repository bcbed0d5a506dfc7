"""The usage of pods: what a kubelet measures, as the metrics API and the autoscaler read it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import part
from grove.cluster.storage.store import Storage


class ContainerUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one container. A resource that is not measured is None."""

    name: str
    cpu_milli: int | None = None
    memory_bytes: int | None = None

    def amount(self, resource: str) -> int | None:
        """Return the usage in thousandths; None: not measured."""
        match resource:
            case "cpu":
                return self.cpu_milli
            case "memory":
                return None if self.memory_bytes is None else self.memory_bytes * 1000
            case _:
                return None


class PodUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of the containers of one pod, averaged over `window` until `at`."""

    at: datetime
    window: timedelta
    containers: tuple[ContainerUsage, ...]

    def amount(self, resource: str, container: str = "") -> int | None:
        """Return the usage of the pod, or of one container, in thousandths; None: not measured."""
        chosen = [each.amount(resource) for each in self.containers if container in ("", each.name)]
        found = [amount for amount in chosen if amount is not None]
        return sum(found) if found and len(found) == len(chosen) else None


class UsageSource(Protocol):
    """The measurements of a kubelet."""

    def measure(self, store: Storage, pods: Sequence[JsonObject], now: datetime) -> dict[str, PodUsage]:
        """Return the usage of these pods by uid. Pods without a measurement are left out."""
        ...

    @property
    def hint(self) -> str:
        """Return what a user can do if pods have no measurements; may be empty."""
        ...


def is_running(pod: JsonObject) -> bool:
    return bool(part(pod.get("status")).get("phase") == "Running")
