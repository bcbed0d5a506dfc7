"""The interface between the planner and a scheduler backend.

A backend builds the fields and objects that its scheduler needs for pods and gangs, and reads what the scheduler
reports. It is pure: the planner executes its results. One file per scheduler; `registry.py` has all of them.
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
    """The base of all types of this interface."""


class SchedulerCapabilities(Value):
    """Capabilities of a scheduler. The set reports the missing ones that it needs."""

    # All or nothing.
    gang: bool
    # Several pod groups in one gang, each with a minimum of its own.
    several_groups: bool
    # A gang may start with fewer pods than its full count.
    minimum_below_count: bool
    required_topology: bool
    preferred_topology: bool
    # It tries pods in any order, so pods above the minimum wait until the minimum is placed.
    mixes_surplus: bool = False
    # It may read the annotations of a gang, so changes of the annotations of a set are copied at once.
    reads_annotations: bool = False


class SetInput(Value):
    """The parts of a set that a backend may use."""

    uid: Uid
    namespace: str
    name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    spec: PodCliqueSetSpec


class CliqueInput(Value):
    """One clique of a gang and its state."""

    name: str
    uid: Uid
    # The incarnation. Cliques that are placed together for the first time have the same one.
    incarnation: str
    replicas: int
    # The minimum of its pod group.
    minimum: int
    priority_class_name: str = ""
    # Pods on nodes, and pods that succeeded.
    placed_count: int = 0
    # A pod of the minimum (by its index) waits for a node.
    has_waiting_member: bool = False
    # The scheduler reported a pod of the minimum as unschedulable.
    is_unschedulable: bool = False
    # It requests, or has, pods above its minimum (by their index).
    has_surplus: bool = False
    # A pod on a node is in another group than new pods of its index would be: that group can never be complete.
    has_outsiders: bool = False
    # When the newest pod on a node that names this group was created.
    newest_placed_at: datetime | None = None
    # The group replica that it is a member of (`<set>-<i>-<group>-<j>`), or "".
    group_replica: str = ""
    pod_spec: JsonObject = {}
    # A pod of it was created without the label for the uid of its PodClique.
    has_unlabelled: bool = False


class GangInput(Value):
    """A stored PodGang of which every clique exists."""

    pcs: SetInput
    gang: PodGang
    cliques: tuple[CliqueInput, ...]
    # The scheduler's own topology that the ClusterTopologyBinding refers to; "": the one named like the binding.
    topology_reference: str = ""
    # False: its binding, or a level of it, does not exist.
    is_topology_known: bool = True

    @property
    def is_started(self) -> bool:
        """Return whether a pod of it has, or had, a node."""
        return any(clique.placed_count for clique in self.cliques)


class PodInput(Value):
    """One new pod: its index, its clique and its gang."""

    gang: PodGang
    clique_name: str
    clique_uid: Uid
    incarnation: str
    index: int
    minimum: int
    priority_class_name: str = ""


class NewSchedulerObject(Value):
    """An object to create. `body` has no owner and no namespace: the planner adds those of the PodGang."""

    resource: Resource[SchedulerObject]
    name: str
    body: JsonObject


class SchedulerObjectPatch(Value):
    resource: Resource[SchedulerObject]
    existing: SchedulerObject
    patch: JsonObject
    reason: str


class SchedulerObjectDelete(Value):
    resource: Resource[SchedulerObject]
    existing: SchedulerObject
    reason: str


class SchedulerMessage(Value):
    """A message of the scheduler about a clique, or the whole gang, that it did not place."""

    message: str
    reason: str = ""
    clique: str = ""
    # The gang waits for its queue: the scheduler has not looked for nodes.
    is_queued: bool = False


class SchedulerObjectPlan(Value):
    """The writes of the scheduler objects of one gang, and what these objects report."""

    create: tuple[NewSchedulerObject, ...] = ()
    patch: tuple[SchedulerObjectPatch, ...] = ()
    delete: tuple[SchedulerObjectDelete, ...] = ()
    # Why the gates of the gang must stay; "": they may be removed.
    waits: str = ""
    messages: tuple[SchedulerMessage, ...] = ()
    # Why the scheduler does not place the gang all or nothing.
    gangless: tuple[str, ...] = ()
    # What else the set requests and this scheduler does not support.
    unmet: tuple[str, ...] = ()


NO_SCHEDULER_OBJECTS = SchedulerObjectPlan()


class ClusterFeatures(Value):
    """Features of the cluster that backends use, by the full names of kinds (`podgroups.scheduling.run.ai`)."""

    # Kinds that a configured backend needs and that are not served.
    missing: frozenset[str] = frozenset()
    # Queues, by the full name of their kind, then by name.
    queues: Mapping[str, Mapping[str, SchedulerObject]] = {}


class Backend(Protocol):
    """One scheduler. Stateless."""

    @property
    def name(self) -> str:
        """Return the `schedulerName` of its pods."""

    @property
    def capabilities(self) -> SchedulerCapabilities: ...

    @property
    def object_kinds(self) -> tuple[Resource[SchedulerObject], ...]:
        """Return the kinds of its scheduler objects, which a PodGang owns."""

    @property
    def queues(self) -> tuple[Resource[SchedulerObject], ...]:
        """Return the kinds of its queues."""

    @property
    def gang_annotations(self) -> Mapping[str, str]:
        """Return annotations that every PodGang of this scheduler needs."""

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        """Return the errors of a set that uses this scheduler, without looking at the cluster."""

    def hold(self, pcs: SetInput, features: ClusterFeatures) -> str:
        """Return what the set needs and the cluster does not have; "": nothing is missing.

        While something is missing, no pod is created and the set reports it.
        """

    def prepare_pod(self, pod: JsonObject, inputs: PodInput) -> None:
        """Add the fields that the scheduler needs to the manifest of a new pod."""

    def group_of(self, inputs: PodInput) -> str:
        """Return the group in an immutable field of a pod, or ""."""

    def plan_objects(
        self, inputs: GangInput, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]]
    ) -> SchedulerObjectPlan:
        """Compare the desired scheduler objects of a gang with the existing ones."""
