"""Gather what every capability needs to plan one set replica."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from grove.api import names
from grove.planner.desired_state import DesiredGroup, DesiredReplica, build_desired_replica
from grove.planner.object_budget import is_scaled_out, limit_scale
from grove.planner.rollout.replica_update import UpdateRole
from grove.planner.snapshot import NodeLabels, SetContext
from grove.planner.status.availability import GroupReplica
from grove.planner.status.group_replicas import group_replicas
from grove.planner.teardown.recreation import Recreations
from grove.planner.views import CliqueView, ReplicaView


class ReplicaEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the set and its cluster that affect one replica."""

    # Gangs whose pods are rejected, and that retry before those of this replica.
    gangs_ahead_count: int = 0
    # A mass outage holds all teardowns until then.
    hold_until: datetime | None = None
    # Most nodes are not ready until then. The hold may end before, because its length is limited.
    outage_until: datetime | None = None
    node_labels: NodeLabels = {}
    # The set needs more objects than its budget allows.
    is_over_budget: bool = False

    def is_held(self, now: datetime) -> bool:
        """Return whether a mass outage holds teardowns at this time."""
        return self.hold_until is not None and now < self.hold_until


DEFAULT_ENVIRONMENT = ReplicaEnvironment()


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One set replica: what was observed, what should exist, and what is being recreated."""

    context: SetContext
    replica: ReplicaView
    desired: DesiredReplica
    recreations: Recreations
    # The replicas of each scaling group, by the name of the group.
    groups: Mapping[str, tuple[GroupReplica, ...]]
    role: UpdateRole
    environment: ReplicaEnvironment
    now: datetime
    # The set is over its object budget and this replica is scaled out: its existing objects stay, none is created.
    is_build_held: bool

    def group_cliques(self, group: DesiredGroup) -> list[list[CliqueView | None]]:
        """Return the cliques of each replica of a group; None for one that does not exist."""
        return [
            [
                self.replica.cliques.get(names.member_clique(group.name, j, member.name))
                for member in self.context.members[group.config.name]
            ]
            for j in range(group.replicas)
        ]


def gather_facts(
    context: SetContext, replica: ReplicaView, now: datetime, role: UpdateRole, environment: ReplicaEnvironment
) -> ReplicaFacts:
    """Return the facts about a replica that is wanted. The live scale of its groups wins over the template's."""
    live_scale = {group.metadata.name: group.spec.replicas for group in replica.groups.values()}
    is_build_held = environment.is_over_budget and is_scaled_out(context, replica)
    if is_build_held:
        live_scale = limit_scale(replica, live_scale)
    desired = build_desired_replica(context, replica.index, live_scale)
    recreations = Recreations(replica, desired)
    return ReplicaFacts(
        context=context,
        replica=replica,
        desired=desired,
        recreations=recreations,
        groups={group.name: group_replicas(replica, desired, group, recreations) for group in desired.groups},
        role=role,
        environment=environment,
        now=now,
        is_build_held=is_build_held,
    )
