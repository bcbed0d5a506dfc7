"""Node, as far as the operator looks at one: is it ready?"""

from grove.api.meta import Condition, ObjectMeta, Wire, is_condition_true


class NodeStatus(Wire):
    conditions: tuple[Condition, ...] = ()


class Node(Wire):
    metadata: ObjectMeta
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        return is_condition_true(self.status.conditions, "Ready")
