"""Facts about the cluster that the snapshot of a set does not have. `grove why` reads them."""

from collections.abc import Mapping
from enum import StrEnum

from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import Uid
from grove.planner.actions import PlanStruct


class NodeTrouble(StrEnum):
    """The reasons why pods on a node cannot be relied on; the value completes `node NAME ...`."""

    GONE = "no longer exists"
    NOT_READY = "does not answer"


class Misfit(PlanStruct):
    """The reason why pods have no node.

    `cause` completes `N pods wait for nodes: ...`; `advice` is what to do about it.
    """

    cause: str
    advice: str
    # Not even on empty nodes.
    is_final: bool = False
    # The clique of the same gang that has this cause; "": the pods themselves have it.
    clique: str = ""


class QuotaUse(PlanStruct):
    """The limits of a ResourceQuota and what is in use, in thousandths, by the names of the quota."""

    hard: Mapping[str, int] = {}
    used: Mapping[str, int] = {}

    def has_room(self, requested: Mapping[str, int]) -> bool:
        return all(self.used.get(name, 0) + requested.get(name, 0) <= limit for name, limit in self.hard.items())


class ClusterFacts(PlanStruct):
    lost_nodes: Mapping[str, NodeTrouble] = {}
    # By pod without a node.
    misfits: Mapping[Uid, Misfit] = {}
    # The last line that a container wrote before it ended, by pod and container.
    log_lines: Mapping[tuple[Uid, str], str] = {}
    # The quotas of the namespace by name, if one rejected pods; None: not read.
    quotas: Mapping[str, QuotaUse] | None = None
    # The autoscalers of its namespace, of all owners.
    autoscalers: tuple[HorizontalPodAutoscaler, ...] = ()
    # Evidence that no operator runs, or "".
    operator_absence: str = ""


NO_FACTS = ClusterFacts()
