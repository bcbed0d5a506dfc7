"""One-line builders of placement's questions. Defaults are healthy and roomy: a test mentions only what matters."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from grove.api.types.meta import NamespacedName, Uid
from grove.placement.capacity import Cluster
from grove.placement.cycle import schedule
from grove.placement.types import (
    ONE,
    PODS,
    Decisions,
    GangDemand,
    GroupDemand,
    NodeView,
    Pack,
    PackGroup,
    PodDemand,
    SchedulingClass,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
RACK = "topology.kubernetes.io/rack"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NO_LABELS: Mapping[str, str] = {}


def node(name: str, *, rack: str = "", zone: str = "", slots: int = 1, gpu: int = 0, **facts: Any) -> NodeView:
    """A node with room for `slots` pods of one cpu each."""
    named = {HOST: name, RACK: rack, ZONE: zone, **facts.pop("labels", {})}
    labels = {key: value for key, value in named.items() if value}
    allocatable = {"cpu": slots * ONE, PODS: (100 + slots) * ONE, "nvidia.com/gpu": gpu * ONE}
    return NodeView(name=name, labels=labels, allocatable={k: v for k, v in allocatable.items() if v}, **facts)


def nodes(count: int, *, slots: int = 1) -> list[NodeView]:
    return [node(f"n{index}", slots=slots) for index in range(count)]


def shape(cpu: int = 1, *, gpu: int = 0, **asks: Any) -> SchedulingClass:
    amounts = {"cpu": cpu * ONE, "nvidia.com/gpu": gpu * ONE, PODS: ONE}
    return SchedulingClass(requests=tuple(sorted((k, v) for k, v in amounts.items() if v)), **asks)


def pod(name: str, *, age: int = 0, priority: int = 0, labels: Mapping[str, str] = NO_LABELS, **asks: Any) -> PodDemand:
    """`age` in seconds: the greater, the older."""
    return PodDemand(
        uid=Uid(f"uid-{name}"),
        namespace="default",
        name=name,
        shape=asks.pop("shape", None) or shape(**asks),
        created=START - timedelta(seconds=age),
        labels=labels,
        priority=priority,
    )


def pods(prefix: str, count: int, **asks: Any) -> tuple[PodDemand, ...]:
    return tuple(pod(f"{prefix}-{index}", **asks) for index in range(count))


def group(name: str, minimum: int, waiting: int | tuple[PodDemand, ...] = 0, **facts: Any) -> GroupDemand:
    """A pod group; `waiting` pods of one cpu each, or these."""
    pending = waiting if isinstance(waiting, tuple) else pods(name, waiting)
    return GroupDemand(name=name, min_replicas=minimum, pending=pending, **facts)


def gang(name: str, *groups: GroupDemand, age: int = 0, **facts: Any) -> GangDemand:
    facts.setdefault("pack_groups", ())
    return GangDemand(name=gang_name(name), created=START - timedelta(seconds=age), groups=groups, **facts)


def gang_name(name: str) -> NamespacedName:
    return NamespacedName(namespace="default", name=name)


def required(key: str) -> Pack:
    return Pack(required=key)


def preferred(key: str) -> Pack:
    return Pack(preferred=key)


def together(name: str, *group_names: str, pack: Pack) -> PackGroup:
    return PackGroup(name=name, group_names=group_names, pack=pack)


def decide(
    world: Iterable[NodeView] | Cluster, *gangs: GangDemand, ungrouped_pods: Iterable[PodDemand] = ()
) -> tuple[dict[str, str], dict[str, str]]:
    """Where each pod goes, and why each other one waits: by name."""
    return told(schedule(world if isinstance(world, Cluster) else Cluster(world), gangs, ungrouped_pods))


def told(decisions: Decisions) -> tuple[dict[str, str], dict[str, str]]:
    placed = {binding.pod.name: binding.node for binding in decisions.bindings}
    waiting = {pod.name: unplaced.message for unplaced in decisions.unplaced for pod in unplaced.pods}
    return placed, waiting
