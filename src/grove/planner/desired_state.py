"""The desired state of one set replica: its groups, cliques and gangs with their names."""

from collections.abc import Iterator, Mapping

import msgspec

from grove.api import names
from grove.api.schema.limits import LARGEST_COUNT
from grove.api.types.podcliqueset import CliqueTemplate, GroupConfig
from grove.planner.snapshot import SetContext


class CliqueBlueprint(msgspec.Struct, frozen=True, kw_only=True):
    """One PodClique that should exist, and the gang it belongs to."""

    name: str
    template: CliqueTemplate
    gang: str
    # Only for cliques of a scaled gang.
    base_gang: str = ""
    # Only for members of a group.
    group: str = ""
    group_replica_index: int = -1


class GangBlueprint(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cliques: tuple[CliqueBlueprint, ...]
    base_gang: str = ""
    group: str = ""
    group_replica_index: int = -1

    @property
    def is_base(self) -> bool:
        return not self.base_gang


class GroupBlueprint(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    config: GroupConfig
    replicas: int


class ReplicaBlueprint(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    name: str
    groups: tuple[GroupBlueprint, ...]
    base: GangBlueprint
    scaled: tuple[GangBlueprint, ...]
    # Of groups that are scaled to zero: what the base gang had of them, and must not have any more.
    parked: tuple[CliqueBlueprint, ...] = ()

    @property
    def gangs(self) -> tuple[GangBlueprint, ...]:
        """The base gang first: the others wait for it."""
        return (self.base, *self.scaled)

    @property
    def cliques(self) -> Iterator[CliqueBlueprint]:
        return (clique for gang in self.gangs for clique in gang.cliques)


def draw_replica(context: SetContext, index: int, live_scale: Mapping[str, int]) -> ReplicaBlueprint:
    """Draw one replica; `live_scale` holds the replicas of groups that exist, which win over the template's.

    spec/gang-scheduling.md, "Structure": the base gang holds the standalone cliques and group replicas below
    `minAvailable`; every further group replica is a scaled gang of its own.
    """
    base = names.replica_name(context.name, index)
    groups = tuple(_draw_group(context, index, config, live_scale) for config in context.groups)
    cliques = [
        CliqueBlueprint(name=names.standalone_clique(context.name, index, clique.name), template=clique, gang=base)
        for clique in context.standalone
    ]
    scaled: list[GangBlueprint] = []
    parked: list[CliqueBlueprint] = []
    for group in groups:
        if not group.replicas:
            for j in range(group.config.min_available):
                parked += _members(context, group, j, gang=base, base_gang="")
        for j in range(group.replicas):
            if j < group.config.min_available:
                cliques += _members(context, group, j, gang=base, base_gang="")
            else:
                scaled.append(_draw_scaled_gang(context, group, j, base))
    return ReplicaBlueprint(
        index=index,
        name=base,
        groups=groups,
        base=GangBlueprint(name=base, cliques=tuple(cliques)),
        scaled=tuple(scaled),
        parked=tuple(parked),
    )


def _draw_group(context: SetContext, index: int, config: GroupConfig, live_scale: Mapping[str, int]) -> GroupBlueprint:
    name = names.group(context.name, index, config.name)
    asked = live_scale.get(name, config.replicas)
    if asked <= 0 and not context.is_training:
        return GroupBlueprint(name=name, config=config, replicas=0)
    # Admission rejects a group below its minimum, which would have half a base gang, or beyond all measure; an edit
    # past it gets the nearest that is possible.
    replicas = min(max(asked, config.min_available), LARGEST_COUNT)
    return GroupBlueprint(name=name, config=config, replicas=replicas)


def _draw_scaled_gang(context: SetContext, group: GroupBlueprint, j: int, base: str) -> GangBlueprint:
    gang = names.scaled_gang(group.name, j - group.config.min_available)
    return GangBlueprint(
        name=gang,
        cliques=tuple(_members(context, group, j, gang=gang, base_gang=base)),
        base_gang=base,
        group=group.name,
        group_replica_index=j,
    )


def _members(context: SetContext, group: GroupBlueprint, j: int, *, gang: str, base_gang: str) -> list[CliqueBlueprint]:
    return [
        CliqueBlueprint(
            name=names.member_clique(group.name, j, clique.name),
            template=clique,
            gang=gang,
            base_gang=base_gang,
            group=group.name,
            group_replica_index=j,
        )
        for clique in context.members[group.config.name]
    ]
