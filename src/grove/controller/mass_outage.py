"""Detection of mass outages: so many nodes are not ready that the network is the likely cause.

During a mass outage no gang is terminated: a short network failure must not delete every gang of a cluster. A node that
has just become ready still counts as out: its pods need a moment to report, and the next node may fail. Dead nodes stay
as objects, so a hold ends after a while in any case. This module counts nodes; the planner decides what is held.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from grove.api.types.meta import Uid
from grove.api.types.node import Node
from grove.controller.controller_options import MassOutageOptions
from grove.kube.store import Store
from grove.planner.snapshot import UNTIL_RELEASED

FEWEST = 3
SETTLING = timedelta(minutes=1)
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Outage:
    """A counter of nodes that are not ready. It calls `changed` when an outage begins or ends."""

    def __init__(self, nodes: Store[Node], settings: MassOutageOptions, *, changed: Callable[[], None]) -> None:
        self._nodes = nodes
        self._settings = settings
        self._changed = changed
        # When each ready node counts as recovered, and since when each other is out.
        self._back_at: dict[Uid, datetime] = {}
        self._out_since: dict[Uid, datetime] = {}
        # When the share of nodes that are out exceeded the threshold.
        self._began_at = LONG_AGO
        self.until: datetime | None = None
        """Until when teardowns are held; None, or an instant that is past: they are not."""
        self.outage_until: datetime | None = None
        """Until when most nodes are out, which may be longer than teardowns are held."""
        nodes.subscribe(self._node_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        # Ignore heartbeats, which every node sends every few minutes.
        if old is not None and new is not None and _readiness_of(old) == _readiness_of(new):
            return
        if old is not None:
            self._back_at.pop(old.metadata.uid, None)
            self._out_since.pop(old.metadata.uid, None)
        if new is not None and new.is_ready:
            self._back_at[new.metadata.uid] = _back_at(new, was_out=old is not None and not old.is_ready)
        elif new is not None:
            self._out_since[new.metadata.uid] = new.unready_since or LONG_AGO
        if not self._settings.is_enabled:
            return
        before = (self.until, self.outage_until)
        # During the first list, the share is computed from some of the nodes only: do not keep its start time.
        self._update_outage(is_known=old is not None)
        if before != (self.until, self.outage_until):
            self._changed()

    def _update_outage(self, *, is_known: bool) -> None:
        ended_at, few = self.outage_until or LONG_AGO, self._count_few(len(self._nodes))
        if len(self._out_since) > few:
            passed_at = self._passed_at(few)
            # A new hold begins only after the share was below the threshold for a while.
            if not is_known or passed_at >= ended_at:
                self._began_at = passed_at
            self.outage_until = UNTIL_RELEASED
        else:
            # The outage ends when enough nodes have recovered.
            number = len(self._nodes) - few
            self.outage_until = sorted(self._back_at.values())[number - 1] if number else None
        self.until = self.outage_until
        if self.outage_until is not None and self._began_at != LONG_AGO:
            self.until = min(self.outage_until, self._began_at + self._settings.max_hold)

    def _passed_at(self, few: int) -> datetime:
        """Return when the share exceeded the threshold. A node that was created after that did not count then."""
        since = sorted(self._out_since.values())
        latest = since[few]
        born = (node.metadata.creation_timestamp or LONG_AGO for node in self._nodes.values())
        return since[min(few, self._count_few(sum(at <= latest for at in born)))]

    def _count_few(self, total: int) -> int:
        """Return how many of so many nodes may be out without a mass outage."""
        share = total * self._settings.threshold // 100
        return min(total, max(share, FEWEST - 1))


def _readiness_of(node: Node) -> tuple[datetime | None, datetime | None]:
    return node.ready_since, node.unready_since


def _back_at(node: Node, *, was_out: bool) -> datetime:
    """Return when a ready node counts as recovered. A new node was not out, unless it was observed so."""
    since, born = node.ready_since, node.metadata.creation_timestamp
    is_new = born is not None and since is not None and since - born <= SETTLING
    if since is None or (is_new and not was_out):
        return LONG_AGO
    return since + SETTLING
