"""Build PodGangs: podgroups, minima, pod references and topology."""

from collections.abc import Iterable, Mapping

import msgspec

from grove.api import labels
from grove.api.reasons import EventReason
from grove.api.resources import PODGANGS
from grove.api.types.meta import JsonObject, NamespacedName, to_wire
from grove.api.types.podgang import PodGang, PodGangSpec, PodGroup
from grove.planner.actions import Create, EventRecord, Patch
from grove.planner.child_manifests import build_gang, gang_annotations_of_set, gang_labels_of_set
from grove.planner.desired_state import DesiredGang
from grove.planner.pods.pod_sync import CliquePods
from grove.planner.snapshot import SetContext
from grove.planner.topology.topology_scopes import TopologyParts, stored_parts, topology_parts
from grove.planner.views import CliqueView


def referenced_names(gang: PodGang | None, clique_name: str) -> tuple[str, ...]:
    """Return the names of the pods of a clique that its gang references."""
    for group in gang.spec.podgroups if gang else ():
        if group.name == clique_name:
            return tuple(reference.name for reference in group.pod_references)
    return ()


def incarnation_of(gang: PodGang) -> str:
    return gang.metadata.labels.get(labels.INCARNATION, "")


def was_placed(gang: PodGang | None, cliques: Iterable[CliqueView]) -> bool:
    """Return whether the gang was scheduled in the incarnation of these cliques, by its status."""
    if gang is None or gang.status.placed_incarnation != incarnation_of(gang):
        return False
    return all(clique.incarnation == incarnation_of(gang) for clique in cliques)


def read_last_names(gang: PodGang | None) -> dict[str, tuple[str, ...]]:
    """Return by clique the last names of indices that the gang does not reference any more."""
    text = gang.metadata.annotations.get(labels.LAST_POD_NAMES, "") if gang else ""
    try:
        found = msgspec.json.decode(text, type=dict[str, tuple[str, ...]]) if text else {}
    except msgspec.DecodeError:
        # A user edited the annotation: its content is lost.
        return {}
    return {clique: tuple(f"{clique}-{ending}" for ending in endings) for clique, endings in found.items()}


def write_last_names(pods: Mapping[str, CliquePods]) -> str | None:
    """Return the annotation that records the last pod names, without the prefix of their clique; None without names."""
    found = {
        clique: [name.removeprefix(f"{clique}-") for name in one.last_names]
        for clique, one in pods.items()
        if one.last_names
    }
    return msgspec.json.encode(found).decode() if found else None


def read_zero_count(gang: PodGang, clique_name: str) -> int:
    """Return how often the clique was scaled to zero since its gang exists, after a pod of it had a node."""
    return _read_zero_counts(gang).get(clique_name, 0)


def _read_zero_counts(gang: PodGang | None) -> dict[str, int]:
    text = gang.metadata.annotations.get(labels.ZERO_COUNTS, "") if gang else ""
    try:
        return msgspec.json.decode(text, type=dict[str, int]) if text else {}
    except msgspec.DecodeError:
        # A user edited the annotation: its content is lost.
        return {}


def write_zero_counts(gang: PodGang | None, cliques: Iterable[CliqueView]) -> str | None:
    """Return the annotation that counts scales to zero; it grows in the write that drops the podgroup of a clique.

    Where pods name a group of their scheduler, each start needs a new group: terminating pods still count as placed.
    """
    counts = _read_zero_counts(gang)
    known = {group.name for group in gang.spec.podgroups} if gang else set()
    for clique in cliques:
        had_node = clique.placed_count > 0 or any(pod.is_scheduled for pod in (*clique.terminating, *clique.failed))
        if clique.is_at_zero and clique.name in known and had_node:
            counts[clique.name] = counts.get(clique.name, 0) + 1
    return msgspec.json.encode(counts).decode() if counts else None


def build_gang_spec(
    context: SetContext, gang: DesiredGang, cliques: dict[str, CliqueView], pods: dict[str, CliquePods]
) -> PodGangSpec:
    """Build the spec of a gang: one podgroup per clique that is not at zero."""
    gang = msgspec.structs.replace(gang, cliques=tuple(c for c in gang.cliques if not cliques[c.name].is_at_zero))
    topology = topology_parts(context.topology, gang)
    return PodGangSpec(
        podgroups=tuple(
            PodGroup(
                name=clique.name,
                pod_references=tuple(
                    NamespacedName(namespace=context.namespace, name=name) for name in pods[clique.name].names
                ),
                min_replicas=_minimum(cliques[clique.name]),
                topology_constraint=topology.cliques.get(clique.name),
            )
            for clique in gang.cliques
        ),
        topology_constraint=topology.constraint,
        topology_constraint_group_configs=topology.group_configs,
        priority_class_name=context.spec.template.priority_class_name or None,
    )


def _minimum(clique: CliqueView) -> int:
    """Return the minimum without pods that succeeded and are gone: a scheduler must not wait for them."""
    return max(0, clique.min_available - clique.done_and_gone_count)


def _with_topology(spec: PodGangSpec, parts: TopologyParts) -> PodGangSpec:
    return msgspec.structs.replace(
        spec,
        podgroups=tuple(
            msgspec.structs.replace(group, topology_constraint=parts.cliques.get(group.name))
            for group in spec.podgroups
        ),
        topology_constraint=parts.constraint,
        topology_constraint_group_configs=parts.group_configs,
    )


class GangContent(msgspec.Struct, frozen=True, kw_only=True):
    """The desired content of a PodGang, as far as it depends on the observed cliques and pods."""

    spec: PodGangSpec
    incarnation: str
    # All of the gang was recreated: an existing PodGang takes the new incarnation over.
    is_new_incarnation: bool = False
    # From now on the replica is built from the revision of its context.
    takes_revision: bool = False
    # Annotations; None: there is nothing to remember.
    last_names: str | None = None
    zero_counts: str | None = None


def plan_gang_object(
    context: SetContext, replica_index: int, gang: DesiredGang, current: PodGang | None, content: GangContent
) -> Create | Patch | None:
    """Create the PodGang, or patch what the operator owns of it. Return None when it is up to date."""
    spec, incarnation = content.spec, content.incarnation
    if current is None:
        return Create(
            resource=PODGANGS,
            namespace=context.namespace,
            name=gang.name,
            body=build_gang(context, replica_index, gang, spec=to_wire(spec), incarnation=incarnation),
            failure_key=f"podgangs/{gang.name}",
            reason=f"gang {gang.name} names its pods before they are created",
            on_success=EventRecord(
                subject=context.subject,
                reason=EventReason.GANG_SYNCED,
                message="created PodGang",
                names=(gang.name,),
            ),
        )
    if context.topology.missing:
        # The desired constraints are not known. Keep the stored ones, so that new pods join their domain.
        spec = _with_topology(spec, stored_parts(current.spec))
    own = {labels.INCARNATION: incarnation} if content.is_new_incarnation else {}
    has_no_revision = labels.GENERATION_HASH not in current.metadata.labels
    # A gang of an older version gets the label of its revision as soon as there is another revision.
    is_other = context.generation_hash != context.newest_generation_hash
    if gang.is_base and (content.takes_revision or (has_no_revision and is_other)):
        own[labels.GENERATION_HASH] = context.generation_hash
    kept = {labels.LAST_POD_NAMES: content.last_names, labels.ZERO_COUNTS: content.zero_counts}
    changed = {**_metadata_patch(context, current, own, kept), **_spec_patch(current.spec, spec)}
    touched = _find_changes(gang_annotations_of_set(context), current.metadata.annotations)
    # A changed annotation alone does not rewrite all gangs of a set, unless the scheduler reads annotations.
    if not (changed or (touched and context.backend.capabilities.reads_annotations)):
        return None
    patch = _with_annotations(changed, touched)
    return Patch(
        resource=PODGANGS,
        namespace=context.namespace,
        name=gang.name,
        uid=current.metadata.uid,
        resource_version=current.metadata.resource_version,
        patch=patch,
        reason=f"gang {gang.name} is updated to match its cliques",
    )


def _metadata_patch(
    context: SetContext, current: PodGang, own: dict[str, str], kept: Mapping[str, str | None]
) -> JsonObject:
    """Return the labels and annotations that the gang lacks. Those of others stay."""
    pairs: dict[str, tuple[Mapping[str, str | None], dict[str, str]]] = {
        "labels": ({**gang_labels_of_set(context), **own}, current.metadata.labels),
        "annotations": (
            {
                **context.backend.gang_annotations,
                **_topology_name(context),
                **kept,
            },
            current.metadata.annotations,
        ),
    }
    shown = {field: values for field, (wanted, known) in pairs.items() if (values := _find_changes(wanted, known))}
    return {"metadata": shown} if shown else {}


def _with_annotations(patch: JsonObject, annotations: Mapping[str, str | None]) -> JsonObject:
    if not annotations:
        return patch
    metadata = patch.get("metadata", {})
    return {**patch, "metadata": {**metadata, "annotations": {**annotations, **metadata.get("annotations", {})}}}


def _find_changes(wanted: Mapping[str, str | None], known: Mapping[str, str]) -> dict[str, str | None]:
    return {key: value for key, value in wanted.items() if known.get(key) != value}


def _topology_name(context: SetContext) -> dict[str, str | None]:
    """Return the annotation with the name of its topology; None removes it."""
    return {} if context.topology.missing else {labels.TOPOLOGY_NAME: context.topology.name or None}


def _spec_patch(current: PodGangSpec, wanted: PodGangSpec) -> JsonObject:
    """Patch only the fields of the operator: fields that a scheduler wrote stay."""
    patch: JsonObject = {}
    if current.podgroups != wanted.podgroups:
        patch["podgroups"] = [to_wire(group) for group in wanted.podgroups]
    if (current.priority_class_name or None) != wanted.priority_class_name:
        patch["priorityClassName"] = wanted.priority_class_name
    if current.topology_constraint != wanted.topology_constraint:
        # Nulls stay: a merge patch removes a field only by name.
        patch["topologyConstraint"] = msgspec.to_builtins(wanted.topology_constraint)
    if current.topology_constraint_group_configs != wanted.topology_constraint_group_configs:
        patch["topologyConstraintGroupConfigs"] = [
            to_wire(config) for config in wanted.topology_constraint_group_configs
        ]
    return {"spec": patch} if patch else {}
