"""The seam between a gang and whoever schedules it: what the planner tells a backend, and what it gets back.

A backend decides how a pod and a PodGang look to its scheduler, and reads what that scheduler answers. It is pure: the
planner carries out what it asks for. One file per scheduler; `registry.py` knows them all.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, dataclass_transform

import msgspec

from grove.api.resources import Resource
from grove.api.types.meta import JsonObject, Uid
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetSpec
from grove.api.types.podgang import PodGang
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.field_errors import FieldError


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything that crosses this seam."""


class SchedulerCapabilities(Value):
    """What a scheduler can do; what it cannot is said to whoever asks for it."""

    # All or nothing.
    gang: bool
    # Several pod groups in one gang, each with a minimum of its own.
    several_groups: bool
    # A gang may start with fewer pods than it asks for in the end.
    minimum_below_count: bool
    required_topology: bool
    preferred_topology: bool
    # It tries pods in any order: those above the minimum are held back until the minimum is placed.
    mixes_extras: bool = False
    # It may read the annotations of a gang: those of the set that change are told at once.
    reads_annotations: bool = False


class SetAsk(Value):
    """A set, as far as a scheduler may care."""

    uid: Uid
    namespace: str
    name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    spec: PodCliqueSetSpec


class CliqueAsk(Value):
    """One clique of a gang, and how far it is."""

    name: str
    uid: Uid
    # Cliques that are placed together for the first time share one.
    life: str
    replicas: int
    # As its pod group says: what must be placed together.
    minimum: int
    priority_class_name: str = ""
    # Pods on nodes, and those that ended well.
    placed_count: int = 0
    # A pod of the minimum (by its index) waits for a node.
    has_waiting_member: bool = False
    # The scheduler said of a pod of the minimum that there is no room for it.
    is_told_full: bool = False
    # It asks for, or has, pods above its minimum (by their index).
    has_extras: bool = False
    # A pod on a node names another group than pods of its place do now: those can never be complete.
    has_outsiders: bool = False
    # When the newest pod on a node that names this group was made.
    newest_placed_at: datetime | None = None
    # The group replica that it is a member of (`<set>-<i>-<group>-<j>`), or "".
    group_replica: str = ""
    pod_spec: JsonObject = {}
    # A pod of it was made before pods carried the uid of their PodClique as a label.
    has_unlabelled: bool = False


class GangAsk(Value):
    """A stored PodGang of which every clique exists."""

    pcs: SetAsk
    gang: PodGang
    cliques: tuple[CliqueAsk, ...]
    # The scheduler's own topology that the ClusterTopologyBinding refers to; "": the one named like the binding.
    topology_reference: str = ""
    # False: its binding, or a level of it, is gone.
    is_topology_known: bool = True

    @property
    def is_started(self) -> bool:
        """Some pod of it has, or had, a node."""
        return any(clique.placed_count for clique in self.cliques)


class PodAsk(Value):
    """One new pod: which of its clique, and which gang it belongs to."""

    gang: PodGang
    clique_name: str
    clique_uid: Uid
    life: str
    index: int
    minimum: int
    priority_class_name: str = ""


class NewMirror(Value):
    """An object to create. `body` has no owner and no namespace: the planner adds those of the PodGang."""

    resource: Resource[SchedulerObject]
    name: str
    body: JsonObject


class MirrorPatch(Value):
    resource: Resource[SchedulerObject]
    mirror: SchedulerObject
    patch: JsonObject
    reason: str


class MirrorDelete(Value):
    resource: Resource[SchedulerObject]
    mirror: SchedulerObject
    reason: str


class SchedulerMessage(Value):
    """What the scheduler says of a clique (or, without one, of the whole gang) that it did not place."""

    message: str
    reason: str = ""
    clique: str = ""
    # The gang waits for its queue: the scheduler has not looked for nodes.
    is_queued: bool = False


class MirrorPlan(Value):
    """What to do about the mirror of one gang, and what it tells."""

    create: tuple[NewMirror, ...] = ()
    patch: tuple[MirrorPatch, ...] = ()
    delete: tuple[MirrorDelete, ...] = ()
    # Why no gate of the gang may go yet; "": all that its pods need is there.
    waits: str = ""
    said: tuple[SchedulerMessage, ...] = ()
    # Why the scheduler does not place the gang all or nothing, in words.
    gangless: tuple[str, ...] = ()
    # What else the set asks for and this scheduler does not do, in words.
    unmet: tuple[str, ...] = ()


NO_MIRROR = MirrorPlan()


class ClusterFeatures(Value):
    """What the cluster offers to backends, by the full names of kinds (`podgroups.scheduling.run.ai`)."""

    # Kinds that a configured backend needs and that are not served.
    missing: frozenset[str] = frozenset()
    # Queues, by the full name of their kind, then by name.
    queues: Mapping[str, Mapping[str, SchedulerObject]] = {}


class Backend(Protocol):
    """One scheduler. Without state: the same question gets the same answer."""

    @property
    def name(self) -> str:
        """The `schedulerName` of its pods."""

    @property
    def can(self) -> SchedulerCapabilities: ...

    @property
    def mirrors(self) -> tuple[Resource[SchedulerObject], ...]:
        """The kinds that mirror a PodGang: watched, and owned by it."""

    @property
    def queues(self) -> tuple[Resource[SchedulerObject], ...]:
        """The kinds that a set of this backend refers to: watched."""

    @property
    def gang_annotations(self) -> Mapping[str, str]:
        """What a PodGang itself must say to this scheduler, besides what the set says."""

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        """What is wrong with a set that chose this scheduler, judged by the set alone."""

    def hold(self, pcs: SetAsk, surface: ClusterFeatures) -> str:
        """What must be there before a gang of this set is offered to the scheduler, and is not; "": nothing.

        While it lasts no pod is made, and the set says so; it heals by itself when the missing appears.
        """

    def prepare_pod(self, pod: JsonObject, ask: PodAsk) -> None:
        """Add to a new pod's manifest what its scheduler wants to see there."""

    def group_of(self, ask: PodAsk) -> str:
        """The scheduler's group that a pod names for good, or "" where pods name none that could be outlived."""

    def mirror(self, ask: GangAsk, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]]) -> MirrorPlan:
        """Compare the mirror as it should be with what was found of it."""
