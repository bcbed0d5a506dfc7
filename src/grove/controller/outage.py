"""Are so many nodes out that the network is a likelier culprit than every gang on them?

While that is so nothing is torn down: a blip must not end every gang of a cluster. A node that has just come back still
counts as out: its pods need a moment to report, and the next node may be about to follow. What is held is decided by
the planner; here the nodes are counted.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from grove.api.meta import Uid
from grove.api.node import Node
from grove.kube.cache import Store
from grove.planner.snapshot import UNTIL_TOLD

SHARE = 0.55
FEWEST = 3
SETTLING = timedelta(minutes=1)
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Outage:
    """Counts nodes as they change; `changed` is called when the answer does."""

    def __init__(self, nodes: Store[Node], *, is_enabled: bool, changed: Callable[[], None]) -> None:
        self._nodes = nodes
        self._is_enabled = is_enabled
        self._changed = changed
        # When each ready node counts as back.
        self._back_at: dict[Uid, datetime] = {}
        self.until: datetime | None = None
        """Until when teardowns are held; None, or an instant that is past: they are not."""
        nodes.subscribe(self._node_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        # Heartbeats come every few minutes from every node, and say nothing new.
        if old is not None and new is not None and (old.is_ready, old.ready_since) == (new.is_ready, new.ready_since):
            return
        if old is not None:
            self._back_at.pop(old.metadata.uid, None)
        if new is not None and new.is_ready:
            self._back_at[new.metadata.uid] = _back_at(new, was_out=old is not None and not old.is_ready)
        until = self._judge() if self._is_enabled else None
        if until != self.until:
            self.until = until
            self._changed()

    def _judge(self) -> datetime | None:
        unready_count = len(self._nodes) - len(self._back_at)
        if not self._is_few(unready_count):
            return UNTIL_TOLD
        # One after the other is back for good, until those that are left are few.
        few = next(count for count in range(len(self._nodes), -1, -1) if self._is_few(count))
        number = len(self._nodes) - few
        return sorted(self._back_at.values())[number - 1] if number else None

    def _is_few(self, count: int) -> bool:
        return count < FEWEST or count <= SHARE * len(self._nodes)


def _back_at(node: Node, *, was_out: bool) -> datetime:
    """A node that turned ready when it was made was not out, unless we saw it."""
    since, born = node.ready_since, node.metadata.creation_timestamp
    is_new = born is not None and since is not None and since - born <= SETTLING
    if since is None or (is_new and not was_out):
        return LONG_AGO
    return since + SETTLING
