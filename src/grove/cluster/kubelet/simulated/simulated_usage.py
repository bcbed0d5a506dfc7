"""The usage of simulated pods: what annotations say, read at every request, so that a changed annotation is new load.

`simulation.grove.io/cpu-usage` and `memory-usage` on a pod are the usage of that pod. An annotation
`load.simulation.grove.io/NAME` on a set is the CPU that all ready pods of the set, group or clique of this name use
together: when the autoscaler adds pods, each has less to do.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from grove.api import labels
from grove.api.types.meta import JsonObject
from grove.api.values.quantities import QuantityError, parse_milli
from grove.cluster.apiserver.codec.lenient_json import items, part
from grove.cluster.apiserver.metrics.pod_usage import ContainerUsage, PodUsage, is_running
from grove.cluster.apiserver.registry.pdb import is_ready
from grove.cluster.built_in_resources import BY_QUALIFIED, PODS
from grove.cluster.storage.store import Storage

_SETS = BY_QUALIFIED["podcliquesets.grove.io"]
# As often as the metrics server of a real cluster measures.
_WINDOW = timedelta(seconds=15)
# The narrowest unit first.
_UNITS = (labels.PODCLIQUE, labels.GROUP, labels.PART_OF)


class SimulatedUsage:
    """A `UsageSource` that measures nothing: it reads annotations."""

    hint = (
        f"simulated pods use what the annotation {labels.SIM_CPU_USAGE} on the pod says,"
        f" or {labels.SIM_LOAD_PREFIX}NAME on its set"
    )

    def measure(self, store: Storage, pods: Sequence[JsonObject], now: datetime) -> dict[str, PodUsage]:
        shares = _LoadShares(store)
        found = {}
        for pod in pods:
            if is_running(pod) and (usage := _read_usage(pod, shares)) is not None:
                found[pod["metadata"]["uid"]] = PodUsage(at=now, window=_WINDOW, containers=usage)
        return found


class _LoadShares:
    """The share of one pod in the load of its unit, computed once per unit."""

    def __init__(self, store: Storage) -> None:
        self._store = store
        self._shares: dict[tuple[str, str, str], int | None] = {}

    def share_of(self, pod: JsonObject) -> int | None:
        metadata = pod["metadata"]
        own = metadata.get("labels") or {}
        pcs = own.get(labels.PART_OF)
        if not pcs or not is_ready(pod):
            return None
        for label in _UNITS:
            if label in own:
                share = self._share(metadata["namespace"], pcs, label, own[label])
                if share is not None:
                    return share
        return None

    def _share(self, namespace: str, pcs: str, label: str, name: str) -> int | None:
        key = (namespace, label, name)
        if key not in self._shares:
            entry = self._store.table(_SETS).find(namespace, pcs)
            load = _read_milli(entry.obj, f"{labels.SIM_LOAD_PREFIX}{name}") if entry is not None else None
            self._shares[key] = None if load is None else load // max(self._ready_count(namespace, label, name), 1)
        return self._shares[key]

    def _ready_count(self, namespace: str, label: str, name: str) -> int:
        candidates = self._store.table(PODS).find_candidates([(label, name)])
        return sum(
            entry.namespace == namespace and is_running(entry.obj) and is_ready(entry.obj) for entry in candidates
        )


def _read_usage(pod: JsonObject, shares: _LoadShares) -> tuple[ContainerUsage, ...] | None:
    """Return the usage of the containers; all of it is that of the first one."""
    cpu = _read_milli(pod, labels.SIM_CPU_USAGE)
    if cpu is None:
        cpu = shares.share_of(pod)
    memory = _read_milli(pod, labels.SIM_MEMORY_USAGE)
    if cpu is None and memory is None:
        return None
    names = [str(each.get("name", "")) for each in items(part(pod.get("spec")).get("containers"))]
    return tuple(
        ContainerUsage(
            name=name,
            cpu_milli=None if cpu is None else cpu if index == 0 else 0,
            memory_bytes=None if memory is None else memory // 1000 if index == 0 else 0,
        )
        for index, name in enumerate(names)
    )


def _read_milli(obj: JsonObject, annotation: str) -> int | None:
    """Return the quantity of an annotation; None if it is absent or not a quantity."""
    text = (obj["metadata"].get("annotations") or {}).get(annotation)
    try:
        return None if text is None else max(parse_milli(text), 0)
    except QuantityError:
        return None
