"""Node, as far as the operator looks at one: is it ready?"""

from datetime import datetime

from grove.api.meta import Condition, ObjectMeta, Wire, find_condition, is_condition_true


class NodeStatus(Wire):
    conditions: tuple[Condition, ...] = ()


class Node(Wire):
    metadata: ObjectMeta
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        return is_condition_true(self.status.conditions, "Ready")

    @property
    def ready_since(self) -> datetime | None:
        condition = find_condition(self.status.conditions, "Ready")
        return condition.last_transition_time if condition is not None and self.is_ready else None
