"""Are so many nodes not ready that the network is a likelier culprit than every gang on them?

While that is so nothing is torn down: a blip must not end every gang of a cluster. What is held is decided by the
planner; here the nodes are counted.
"""

from collections.abc import Callable

from grove.api.node import Node
from grove.kube.cache import Store

SHARE = 0.55
FEWEST = 3


class Outage:
    """Counts nodes as they change; `changed` is called when the answer does."""

    def __init__(self, nodes: Store[Node], *, is_enabled: bool, changed: Callable[[], None]) -> None:
        self._nodes = nodes
        self._is_enabled = is_enabled
        self._changed = changed
        self._unready_count = 0
        self.is_on = False
        nodes.subscribe(self._node_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._unready_count += (new is not None and not new.is_ready) - (old is not None and not old.is_ready)
        is_on = self._is_enabled and self._unready_count >= FEWEST and self._unready_count > SHARE * len(self._nodes)
        if is_on != self.is_on:
            self.is_on = is_on
            self._changed()
