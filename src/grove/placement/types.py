"""Input and output types of placement: nodes, pods and gangs in; bindings and reasons out.

Amounts are integers in thousandths of a unit, so cpu `100m` is 100 and memory `1Ki` is 1,024,000.
The scheduler decodes them from API objects; `capacity.py` tracks what is free.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import dataclass_transform

import msgspec

from grove.api.types.meta import NamespacedName, Uid

# A pod uses one `pods` of its node, counted like any other resource.
PODS = "pods"
ONE = 1000


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Model(msgspec.Struct, frozen=True, kw_only=True):
    """The base class of all types of this package."""


class SelectorOperator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class NodeRequirement(Model):
    """One `matchExpressions` entry. `operator` is a plain string: an unknown operator matches no node."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeTerm(Model):
    """A node selector term: all `expressions` (labels) and `fields` (`metadata.name`) match; empty matches nothing."""

    expressions: tuple[NodeRequirement, ...] = ()
    fields: tuple[NodeRequirement, ...] = ()


class WeightedNodeTerm(Model):
    weight: int
    term: NodeTerm


class Toleration(Model):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Taint(Model):
    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class PodTerm(Model, cache_hash=True):
    """Pods of `namespaces` (None: of all) that meet every requirement, counted per value of a node label."""

    topology_key: str
    requirements: tuple[NodeRequirement, ...] = ()
    namespaces: tuple[str, ...] | None = ()
    # A term without a label selector matches no pod; one with an empty selector matches all.
    has_selector: bool = True


class WeightedPodTerm(Model):
    weight: int
    term: PodTerm


class SchedulingClass(Model, cache_hash=True):
    """The scheduling requirements of a pod. Pods of one shape are interchangeable, so results are cached by shape."""

    requests: tuple[tuple[str, int], ...] = ((PODS, ONE),)
    node_selector: tuple[tuple[str, str], ...] = ()
    # None: no required node affinity; empty: one that no node can meet.
    node_terms: tuple[NodeTerm, ...] | None = None
    preferred_nodes: tuple[WeightedNodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_pods: tuple[WeightedPodTerm, ...] = ()


class PodDemand(Model):
    """One pod as placement sees it."""

    uid: Uid
    namespace: str
    name: str
    shape: SchedulingClass
    created: datetime
    labels: Mapping[str, str] = {}
    priority: int = 0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class NodeView(Model):
    name: str
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    is_cordoned: bool = False
    is_ready: bool = True
    allocatable: Mapping[str, int] = {}


class Pack(Model):
    """Node label keys: `required` must, `preferred` should have one value for all pods of the scope."""

    required: str = ""
    preferred: str = ""


class GroupDemand(Model):
    """One pod group of a gang, its pods by state: scheduled, pending or gated."""

    name: str
    min_replicas: int
    # Pods that count as scheduled, including those that succeeded.
    scheduled_count: int = 0
    # Nodes of the running ones: they fix a required domain. Only filled if the gang has pack constraints.
    nodes: tuple[str, ...] = ()
    pending: tuple[PodDemand, ...] = ()
    # Their only scheduling gate is the gate of Grove.
    behind_our_gate: tuple[PodDemand, ...] = ()
    behind_other_gates_count: int = 0
    pack: Pack | None = None

    @property
    def needed_count(self) -> int:
        return max(0, self.min_replicas - self.scheduled_count)


class PackGroup(Model):
    """Pod groups of a gang that are packed together (`topologyConstraintGroupConfigs`)."""

    name: str
    group_names: tuple[str, ...]
    pack: Pack | None = None


class GangDemand(Model):
    name: NamespacedName
    created: datetime
    priority: int = 0
    groups: tuple[GroupDemand, ...] = ()
    pack: Pack | None = None
    pack_groups: tuple[PackGroup, ...] = ()
    # A scaled gang names its base gang; its pods stay gated until that one is scheduled.
    base: str = ""
    base_is_scheduled: bool = False

    @property
    def is_scaled(self) -> bool:
        return bool(self.base)

    @property
    def needed_count(self) -> int:
        return sum(group.needed_count for group in self.groups)


class Binding(Model):
    pod: PodDemand
    node: str


class WaitReason(StrEnum):
    """The reasons why pods are not placed."""

    GANG_DOES_NOT_FIT = "GangDoesNotFit"
    GANG_IS_INCOMPLETE = "GangIsIncomplete"
    DOES_NOT_FIT = "DoesNotFit"
    NOT_IN_ITS_GANG = "NotInItsGang"


class Unplaced(Model):
    """Pods that wait for the same reason. `message` is one sentence; `gang` is None for pods without one."""

    pods: tuple[PodDemand, ...]
    reason: WaitReason
    message: str
    gang: NamespacedName | None = None


class Decisions(Model):
    bindings: tuple[Binding, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
