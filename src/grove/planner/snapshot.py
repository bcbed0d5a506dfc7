"""The snapshot of one set and its cluster: together with the time, the only input of a plan."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from grove.api.defaulting import default_podcliqueset
from grove.api.resources import PODCLIQUESETS
from grove.api.schema.limits import OBJECTS_PER_SET
from grove.api.startup_order import describe_unknown_image
from grove.api.template_hash import generation_hash, template_hash
from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import OwnerKey, Uid, to_wire
from grove.api.types.podcliqueset import (
    CliqueTemplate,
    GroupConfig,
    PodCliqueSet,
    PodCliqueSetSpec,
    SetTemplate,
    WorkloadType,
)
from grove.api.types.podgang import PodGang
from grove.api.types.rbac import Role, RoleBinding
from grove.api.unsupported_fields import UnsupportedField, find_unsupported_fields
from grove.api.validation.field_errors import FieldError
from grove.api.validation.object_budget import budget_errors
from grove.api.validation.podcliqueset import validate_stored_podcliqueset
from grove.api.validation.validation_options import ValidationOptions
from grove.backends.base import Backend, ClusterFeatures, SetInput
from grove.backends.native_podgroups import NativeFeatures
from grove.backends.registry import Backends
from grove.planner.actions import CreateRejection, EventSubject, subject_of
from grove.planner.status.write_failures import FailedWrite
from grove.planner.topology.node_label_keys import Topology, resolve_topology
from grove.planner.views import ReplicaView

# By the name of the node.
NodeLabels = Mapping[str, Mapping[str, str]]

# The end of a hold that has no end time.
UNTIL_RELEASED = datetime.max.replace(tzinfo=UTC)


class ClusterContext(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the operator and features of the cluster, the same for all sets. They change rarely."""

    backends: Backends = Backends(features=NativeFeatures(reads_gangs=True))
    features: ClusterFeatures = ClusterFeatures()
    # ClusterTopologyBindings by name.
    bindings: Mapping[str, ClusterTopologyBinding] = {}
    is_topology_aware: bool = False
    # A new gang whose topology is not defined gets no pods until it is. False: it is placed without topology.
    waits_for_topology: bool = False
    # Objects that one set may have.
    objects_per_set: int = OBJECTS_PER_SET
    # The image of the init container that waits for other cliques; "": not known.
    init_image: str = ""


DEFAULT_CLUSTER = ClusterContext()


class SetContext(msgspec.Struct, frozen=True, kw_only=True):
    """The spec of a set, prepared once per change. It never depends on the status."""

    subject: EventSubject
    generation: int
    labels: dict[str, str]
    annotations: dict[str, str]
    spec: PodCliqueSetSpec
    standalone: tuple[CliqueTemplate, ...]
    members: dict[str, tuple[CliqueTemplate, ...]]
    template_hashes: dict[str, str]
    generation_hash: str
    # Those of the newest revision. They differ from `template_hashes` for a replica that is not updated yet.
    newest_hashes: dict[str, str]
    newest_generation_hash: str
    # Every stored template by clique and hash, to find the template of an existing clique.
    stored_templates: dict[str, dict[str, CliqueTemplate]]
    # `spec_errors`: from validation. `errors`: also those of its scheduler and of the object budget.
    spec_errors: tuple[FieldError, ...]
    errors: tuple[FieldError, ...]
    is_over_budget: bool
    unsupported_fields: tuple[UnsupportedField, ...]
    cluster: ClusterContext
    # The scheduler of its pods.
    backend: Backend
    topology: Topology
    # What the scheduler needs for a new gang and the cluster lacks; "": nothing.
    scheduler_hold: str = ""

    @property
    def hold(self) -> str:
        """Return why no pod of a new gang may be created; "": pods may be created."""
        return self.scheduler_hold or (self.topology.missing if self.topology.is_waiting else "")

    @property
    def startup_hold(self) -> str:
        """Return why cliques that start after others get no pods; "": they do."""
        return describe_unknown_image(self.spec.template, self.cluster.init_image)

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def namespace(self) -> str:
        return self.subject.namespace

    @property
    def uid(self) -> Uid:
        return self.subject.uid

    @property
    def owner_key(self) -> OwnerKey:
        """Return the controller of everything that belongs to the set directly."""
        return OwnerKey(
            namespace=self.namespace,
            group=PODCLIQUESETS.group,
            kind=PODCLIQUESETS.kind,
            name=self.name,
            uid=self.uid,
        )

    @property
    def is_training(self) -> bool:
        return self.spec.workload_type == WorkloadType.TRAINING

    @property
    def groups(self) -> tuple[GroupConfig, ...]:
        return self.spec.template.pod_clique_scaling_groups


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One set as observed: itself, and every replica that is desired or has objects."""

    pcs: PodCliqueSet
    context: SetContext
    # Ordered by index; holds every index in 0 .. spec.replicas - 1.
    replicas: tuple[ReplicaView, ...]
    # The stored versions of its pod templates, in no order.
    revisions: tuple[ControllerRevision, ...] = ()
    # What its init containers may read.
    roles: tuple[Role, ...] = ()
    role_bindings: tuple[RoleBinding, ...] = ()
    # Rejected creates of the set itself, not of one replica.
    failures: tuple[CreateRejection, ...] = ()
    # Writes for the set that fail, the oldest first.
    failed_writes: tuple[FailedWrite, ...] = ()
    # Every write was tried since the operator started, so a failure that is not listed is over.
    is_tried: bool = True
    # Gangs without a replica label.
    orphaned_gangs: tuple[PodGang, ...] = ()
    # Older sets of this namespace with rejected pods: they retry before this one.
    rejected_ahead_count: int = 0
    # Until then nothing is torn down: most nodes are not ready, so the network is the more likely cause.
    hold_until: datetime | None = None
    # Until then most nodes are not ready. The hold may end before, because its length is limited.
    outage_until: datetime | None = None
    # The labels of nodes, to find the domains of placed pods.
    node_labels: NodeLabels = {}


def build_context(
    observed: PodCliqueSet, cluster: ClusterContext = DEFAULT_CLUSTER, before: SetContext | None = None
) -> SetContext:
    """Prepare a set. Defaults are set here too: the set may have been stored without Grove's admission.

    `before` is the context of the same spec in another cluster context: it is not validated again.
    """
    pcs = msgspec.convert(default_podcliqueset(to_wire(observed)), PodCliqueSet)
    template = pcs.spec.template
    standalone, members = arrange_cliques(template)
    generation = generation_hash(template)
    hashes = {clique.name: template_hash(clique, template.priority_class_name) for clique in template.cliques}
    backend = cluster.backends.get(cluster.backends.name_for(pcs.spec))
    topology = resolve_topology(
        template,
        cluster.bindings,
        is_enabled=cluster.is_topology_aware,
        waits=cluster.waits_for_topology,
    )
    inputs = build_set_input(pcs)
    spec_errors = validate_stored_podcliqueset(pcs, ValidationOptions()) if before is None else before.spec_errors
    over_budget = () if spec_errors else tuple(budget_errors(pcs, cluster.objects_per_set))
    return SetContext(
        subject=subject_of(PODCLIQUESETS, pcs.metadata),
        generation=pcs.metadata.generation,
        labels=pcs.metadata.labels,
        annotations=pcs.metadata.annotations,
        spec=pcs.spec,
        standalone=standalone,
        members=members,
        template_hashes=hashes,
        newest_hashes=hashes,
        generation_hash=generation,
        newest_generation_hash=generation,
        stored_templates={},
        spec_errors=spec_errors,
        errors=(*over_budget, *spec_errors, *backend.errors(pcs)),
        is_over_budget=bool(over_budget),
        unsupported_fields=find_unsupported_fields(pcs),
        cluster=cluster,
        backend=backend,
        topology=topology,
        scheduler_hold=_missing_kind(backend, cluster.features) or backend.hold(inputs, cluster.features),
    )


def build_set_input(pcs: PodCliqueSet) -> SetInput:
    metadata = pcs.metadata
    return SetInput(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        labels=metadata.labels,
        annotations=metadata.annotations,
        spec=pcs.spec,
    )


def _missing_kind(backend: Backend, features: ClusterFeatures) -> str:
    missing = [kind.full_name for kind in backend.object_kinds if kind.full_name in features.missing]
    if not missing:
        return ""
    return f"scheduler {backend.name} needs {missing[0]}, which this cluster does not serve: install {backend.name}"


def arrange_cliques(
    template: SetTemplate,
) -> tuple[tuple[CliqueTemplate, ...], dict[str, tuple[CliqueTemplate, ...]]]:
    """Return the standalone cliques, and the members of each group."""
    by_name = {clique.name: clique for clique in template.cliques}
    grouped = {name for group in template.pod_clique_scaling_groups for name in group.clique_names}
    return (
        tuple(clique for clique in template.cliques if clique.name not in grouped),
        {
            group.name: tuple(by_name[name] for name in group.clique_names if name in by_name)
            for group in template.pod_clique_scaling_groups
        },
    )
