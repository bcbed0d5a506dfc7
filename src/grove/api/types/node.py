"""Node, with the fields that show whether it is ready."""

from datetime import datetime

from grove.api.types.meta import Condition, ObjectMeta, WireStruct, find_condition, is_condition_true


class NodeStatus(WireStruct):
    conditions: tuple[Condition, ...] = ()


class Node(WireStruct):
    metadata: ObjectMeta
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        return is_condition_true(self.status.conditions, "Ready")

    @property
    def ready_since(self) -> datetime | None:
        return self._changed_at if self.is_ready else None

    @property
    def unready_since(self) -> datetime | None:
        """Return since when the node is not ready, or None if it is ready.

        A node that never reported is not ready since its creation.
        """
        return None if self.is_ready else self._changed_at or self.metadata.creation_timestamp

    @property
    def _changed_at(self) -> datetime | None:
        condition = find_condition(self.status.conditions, "Ready")
        return condition.last_transition_time if condition is not None else None
