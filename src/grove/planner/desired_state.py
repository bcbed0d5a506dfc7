"""The desired state of one set replica: its groups, cliques, gangs and autoscalers with their names."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from grove.api import names
from grove.api.resources import GROUPS, PODCLIQUES, Resource
from grove.api.schema.limits import LARGEST_COUNT
from grove.api.types.podclique import AutoScalingConfig
from grove.api.types.podcliqueset import CliqueTemplate, GroupConfig
from grove.planner.snapshot import SetContext
from grove.planner.startup.dependencies import StartupOrder


class DesiredClique(msgspec.Struct, frozen=True, kw_only=True):
    """One PodClique that should exist, and the gang it belongs to."""

    name: str
    template: CliqueTemplate
    gang: str
    # Only for cliques of a scaled gang.
    base_gang: str = ""
    # Only for members of a group.
    group: str = ""
    group_replica_index: int = -1
    # The PodCliques whose minimum must be ready before its pods start.
    starts_after: tuple[str, ...] = ()


class DesiredGang(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cliques: tuple[DesiredClique, ...]
    base_gang: str = ""
    group: str = ""
    group_replica_index: int = -1

    @property
    def is_base(self) -> bool:
        return not self.base_gang


class DesiredGroup(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    config: GroupConfig
    replicas: int


class DesiredAutoscaler(msgspec.Struct, frozen=True, kw_only=True):
    """One HorizontalPodAutoscaler that should exist. It has the name of what it scales."""

    name: str
    # The kind of what it scales: a standalone clique or a group.
    target: Resource[Any]
    config: AutoScalingConfig


class DesiredReplica(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    name: str
    groups: tuple[DesiredGroup, ...]
    base: DesiredGang
    scaled: tuple[DesiredGang, ...]
    # Cliques of the base gang whose group is scaled to zero: they must not exist.
    parked: tuple[DesiredClique, ...] = ()
    autoscalers: tuple[DesiredAutoscaler, ...] = ()

    @property
    def gangs(self) -> tuple[DesiredGang, ...]:
        """Return all gangs; the base gang first, because the others wait for it."""
        return (self.base, *self.scaled)

    @property
    def cliques(self) -> Iterator[DesiredClique]:
        return (clique for gang in self.gangs for clique in gang.cliques)


def build_desired_replica(context: SetContext, index: int, live_scale: Mapping[str, int]) -> DesiredReplica:
    """Build one replica. `live_scale`: the replicas of existing groups, which win over the template's.

    spec/gang-scheduling.md, "Structure": the base gang holds the standalone cliques and group replicas below
    `minAvailable`; every further group replica is a scaled gang of its own.
    """
    base = names.replica_name(context.name, index)
    groups = tuple(_build_group(context, index, config, live_scale) for config in context.groups)
    order = StartupOrder(context, index)
    cliques = [
        DesiredClique(
            name=names.standalone_clique(context.name, index, clique.name),
            template=clique,
            gang=base,
            starts_after=order.in_base_gang(clique.name),
        )
        for clique in context.standalone
    ]
    scaled: list[DesiredGang] = []
    parked: list[DesiredClique] = []
    for group in groups:
        if not group.replicas:
            for j in range(group.config.min_available):
                parked += _members(order, group, j, gang=base, base_gang="")
        for j in range(group.replicas):
            if j < group.config.min_available:
                cliques += _members(order, group, j, gang=base, base_gang="")
            else:
                scaled.append(_build_scaled_gang(order, group, j, base))
    return DesiredReplica(
        index=index,
        name=base,
        groups=groups,
        base=DesiredGang(name=base, cliques=tuple(cliques)),
        scaled=tuple(scaled),
        parked=tuple(parked),
        autoscalers=tuple(_build_autoscalers(context, index)),
    )


def _build_autoscalers(context: SetContext, index: int) -> Iterator[DesiredAutoscaler]:
    for clique in context.standalone:
        if (config := clique.spec.auto_scaling_config) is not None:
            name = names.standalone_clique(context.name, index, clique.name)
            yield DesiredAutoscaler(name=name, target=PODCLIQUES, config=config)
    for group in context.groups:
        if group.scale_config is not None:
            name = names.group(context.name, index, group.name)
            yield DesiredAutoscaler(name=name, target=GROUPS, config=group.scale_config)


def _build_group(context: SetContext, index: int, config: GroupConfig, live_scale: Mapping[str, int]) -> DesiredGroup:
    name = names.group(context.name, index, config.name)
    requested = live_scale.get(name, config.replicas)
    if requested <= 0 and not context.is_training:
        return DesiredGroup(name=name, config=config, replicas=0)
    # Admission rejects a group below its minimum or above the limit. A set stored without admission gets the nearest
    # valid count.
    replicas = min(max(requested, config.min_available), LARGEST_COUNT)
    return DesiredGroup(name=name, config=config, replicas=replicas)


def _build_scaled_gang(order: StartupOrder, group: DesiredGroup, j: int, base: str) -> DesiredGang:
    gang = names.scaled_gang(group.name, j - group.config.min_available)
    return DesiredGang(
        name=gang,
        cliques=tuple(_members(order, group, j, gang=gang, base_gang=base)),
        base_gang=base,
        group=group.name,
        group_replica_index=j,
    )


def _members(order: StartupOrder, group: DesiredGroup, j: int, *, gang: str, base_gang: str) -> list[DesiredClique]:
    return [
        DesiredClique(
            name=names.member_clique(group.name, j, clique.name),
            template=clique,
            gang=gang,
            base_gang=base_gang,
            group=group.name,
            group_replica_index=j,
            starts_after=order.in_scaled_gang(clique.name, group.config, j)
            if base_gang
            else order.in_base_gang(clique.name),
        )
        for clique in order.context.members[group.config.name]
    ]
