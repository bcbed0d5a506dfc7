"""One set's views and its surroundings: all that a plan may rest on, besides the time."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from grove.api.defaulting import default_podcliqueset
from grove.api.resources import PODCLIQUESETS
from grove.api.schema.limits import OBJECTS_PER_SET
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
from grove.api.unsupported_fields import UnbuiltField, unbuilt_fields
from grove.api.validation.field_errors import FieldError
from grove.api.validation.object_budget import budget_errors
from grove.api.validation.podcliqueset import validate_stored_podcliqueset
from grove.api.validation.validation_options import ValidationOptions
from grove.backends.base import Backend, ClusterFeatures, SetAsk
from grove.backends.native_podgroups import NativeFeatures
from grove.backends.registry import Backends
from grove.planner.actions import CreateRejection, EventSubject, subject_of
from grove.planner.status.write_failures import FailedWrite
from grove.planner.topology.node_label_keys import Topology, resolve_topology
from grove.planner.views import ReplicaView

# By the name of the node.
NodeLabels = Mapping[str, Mapping[str, str]]

# A hold that ends when somebody says so, not at a time.
UNTIL_TOLD = datetime.max.replace(tzinfo=UTC)


class ClusterContext(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all sets: the settings of the installation, and what the cluster offers. Changes rarely."""

    backends: Backends = Backends(features=NativeFeatures(reads_gangs=True))
    surface: ClusterFeatures = ClusterFeatures()
    # ClusterTopologyBindings by name.
    bindings: Mapping[str, ClusterTopologyBinding] = {}
    is_topology_aware: bool = False
    # A new gang whose topology is not defined has no pods until it is; False: it is placed without.
    waits_for_topology: bool = False
    # Objects that one set may have.
    objects_per_set: int = OBJECTS_PER_SET


NOWHERE = ClusterContext()


class SetContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a set asks for, prepared once per change of its spec; never its status, which changes all the time."""

    subject: EventSubject
    generation: int
    labels: dict[str, str]
    annotations: dict[str, str]
    spec: PodCliqueSetSpec
    standalone: tuple[CliqueTemplate, ...]
    members: dict[str, tuple[CliqueTemplate, ...]]
    template_hashes: dict[str, str]
    generation_hash: str
    # Those of the newest revision; others than `template_hashes` for a replica whose turn has not come.
    newest_hashes: dict[str, str]
    newest_generation_hash: str
    # Every stored template by clique and hash: what a clique was made from.
    stored_templates: dict[str, dict[str, CliqueTemplate]]
    # What the rules have against its spec, and all errors: these, those of its scheduler, and a budget exceeded.
    spec_errors: tuple[FieldError, ...]
    errors: tuple[FieldError, ...]
    is_over_budget: bool
    unbuilt: tuple[UnbuiltField, ...]
    surroundings: ClusterContext
    # Who schedules its pods.
    backend: Backend
    topology: Topology
    # What the scheduler needs before a new gang of the set is offered to it, and is not there; "": nothing.
    scheduler_hold: str = ""

    @property
    def hold(self) -> str:
        """Return why no pod of a new gang may be made; "": one may."""
        return self.scheduler_hold or (self.topology.missing if self.topology.is_waiting else "")

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
    """One set as it was seen: itself, every replica that is wanted or of which something exists, and its rivals."""

    pcs: PodCliqueSet
    context: SetContext
    # Ordered by index; holds every index in 0 .. spec.replicas - 1.
    replicas: tuple[ReplicaView, ...]
    # The stored versions of its pod templates, in no order.
    revisions: tuple[ControllerRevision, ...] = ()
    # What the server refused of the set itself, not of one replica.
    failures: tuple[CreateRejection, ...] = ()
    # Writes for the set that fail, the oldest first.
    failed_writes: tuple[FailedWrite, ...] = ()
    # Everything was tried since the operator began: what is not known to fail does not.
    is_tried: bool = True
    # Gangs that do not say which replica they belong to.
    strays: tuple[PodGang, ...] = ()
    # Older sets of this namespace whose pods are refused: they try again before this one.
    refused_ahead_count: int = 0
    # Until then nothing is torn down: so many nodes are out that the network is more likely at fault than every gang.
    hold_until: datetime | None = None
    # Until then most nodes are out; a hold may end before, because it lasts only so long.
    outage_until: datetime | None = None
    # Where pods that are placed have their home.
    node_labels: NodeLabels = {}


def build_context(
    observed: PodCliqueSet, surroundings: ClusterContext = NOWHERE, before: SetContext | None = None
) -> SetContext:
    """Prepare a set. Defaults are filled in here too: it may have come past a cluster without our admission.

    `before` is the context of the same spec in other surroundings: the rules are not asked again.
    """
    pcs = msgspec.convert(default_podcliqueset(to_wire(observed)), PodCliqueSet)
    template = pcs.spec.template
    standalone, members = arrange_cliques(template)
    generation = generation_hash(template)
    hashes = {clique.name: template_hash(clique, template.priority_class_name) for clique in template.cliques}
    backend = surroundings.backends.named(surroundings.backends.name_for(pcs.spec))
    topology = resolve_topology(
        template,
        surroundings.bindings,
        is_enabled=surroundings.is_topology_aware,
        waits=surroundings.waits_for_topology,
    )
    ask = set_ask(pcs)
    spec_errors = validate_stored_podcliqueset(pcs, ValidationOptions()) if before is None else before.spec_errors
    over_budget = () if spec_errors else tuple(budget_errors(pcs, surroundings.objects_per_set))
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
        unbuilt=unbuilt_fields(pcs),
        surroundings=surroundings,
        backend=backend,
        topology=topology,
        scheduler_hold=_missing_kind(backend, surroundings.surface) or backend.hold(ask, surroundings.surface),
    )


def set_ask(pcs: PodCliqueSet) -> SetAsk:
    metadata = pcs.metadata
    return SetAsk(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        labels=metadata.labels,
        annotations=metadata.annotations,
        spec=pcs.spec,
    )


def _missing_kind(backend: Backend, surface: ClusterFeatures) -> str:
    missing = [kind.full_name for kind in backend.mirrors if kind.full_name in surface.missing]
    if not missing:
        return ""
    return f"scheduler {backend.name} needs {missing[0]}, which this cluster does not serve: install {backend.name}"


def arrange_cliques(
    template: SetTemplate,
) -> tuple[tuple[CliqueTemplate, ...], dict[str, tuple[CliqueTemplate, ...]]]:
    """The standalone cliques, and the members of each group."""
    by_name = {clique.name: clique for clique in template.cliques}
    grouped = {name for group in template.pod_clique_scaling_groups for name in group.clique_names}
    return (
        tuple(clique for clique in template.cliques if clique.name not in grouped),
        {
            group.name: tuple(by_name[name] for name in group.clique_names if name in by_name)
            for group in template.pod_clique_scaling_groups
        },
    )
