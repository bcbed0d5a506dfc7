"""Delete gangs without a replica label that no replica needs.

An older version of Grove did not write the label. A gang that is still needed is found by its name and gets the label.
The others belong to replicas that were scaled in while no operator ran.
"""

from collections.abc import Iterator

from grove.api.resources import PODGANGS
from grove.planner.actions import WHOLE_SET, Chain, chain, delete_object
from grove.planner.desired_state import build_desired_replica
from grove.planner.snapshot import Snapshot


def plan_orphaned_gangs(snapshot: Snapshot) -> tuple[Chain, ...]:
    if not snapshot.orphaned_gangs:
        return ()
    wanted = frozenset(_wanted_gangs(snapshot))
    return chain(
        "strays",
        WHOLE_SET,
        tuple(
            delete_object(PODGANGS, gang.metadata, "left by an older version, and no replica needs it")
            for gang in snapshot.orphaned_gangs
            if gang.metadata.name not in wanted and not gang.metadata.is_terminating
        ),
    )


def _wanted_gangs(snapshot: Snapshot) -> Iterator[str]:
    for replica in snapshot.replicas:
        if replica.index < snapshot.context.spec.replicas:
            live_scale = {group.metadata.name: group.spec.replicas for group in replica.groups.values()}
            yield from (gang.name for gang in build_desired_replica(snapshot.context, replica.index, live_scale).gangs)
