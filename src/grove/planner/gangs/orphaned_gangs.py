"""Gangs that do not say which replica they belong to: an older version wrote no label for that.

One that a replica asks for is recognised by its name when that replica is built, and labelled. Here go those that
nobody asks for: their replica was scaled in while no operator was there to see it.
"""

from collections.abc import Iterator

from grove.api.resources import PODGANGS
from grove.planner.actions import WHOLE_SET, Chain, chain, delete_object
from grove.planner.desired_state import draw_replica
from grove.planner.snapshot import Snapshot


def plan_strays(snapshot: Snapshot) -> tuple[Chain, ...]:
    if not snapshot.strays:
        return ()
    wanted = frozenset(_wanted_gangs(snapshot))
    return chain(
        "strays",
        WHOLE_SET,
        tuple(
            delete_object(PODGANGS, gang.metadata, "left by an older version, and no replica asks for it")
            for gang in snapshot.strays
            if gang.metadata.name not in wanted and not gang.metadata.is_terminating
        ),
    )


def _wanted_gangs(snapshot: Snapshot) -> Iterator[str]:
    for replica in snapshot.replicas:
        if replica.index < snapshot.context.spec.replicas:
            live_scale = {group.metadata.name: group.spec.replicas for group in replica.groups.values()}
            yield from (gang.name for gang in draw_replica(snapshot.context, replica.index, live_scale).gangs)
