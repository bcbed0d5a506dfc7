"""Build the manifests of groups, cliques and gangs. `pod_builder.py` builds those of pods."""

from collections.abc import Sequence
from typing import Any

from grove.api import labels, names
from grove.api.merge_patch import merge_patch, patch_towards
from grove.api.resources import GROUPS, PODCLIQUES, PODGANGS, Resource
from grove.api.types.meta import JsonObject, to_wire
from grove.api.types.podclique import PodClique, PodCliqueSpec
from grove.api.types.podcliqueset import CliqueTemplate
from grove.planner.actions import EventSubject
from grove.planner.desired_state import DesiredClique, DesiredGang, DesiredGroup
from grove.planner.snapshot import SetContext
from grove.planner.training.distributed_env import add_distributed_env


def build_owner(owner: EventSubject) -> JsonObject:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def build_object(resource: Resource[Any], metadata: JsonObject, owner: EventSubject, spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"namespace": owner.namespace, **metadata, "ownerReferences": [build_owner(owner)]},
        "spec": spec,
    }


def build_group(context: SetContext, replica_index: int, group: DesiredGroup) -> JsonObject:
    annotations = dict(group.config.annotations)
    mnnvl = context.annotations.get(labels.MNNVL_GROUP)
    if mnnvl is not None:
        annotations.setdefault(labels.MNNVL_GROUP, mnnvl)
    metadata = {
        "name": group.name,
        "labels": {
            **labels.default_labels(context.name),
            labels.NAME: group.name,
            labels.COMPONENT: labels.COMPONENT_GROUP,
            labels.SET_REPLICA_INDEX: str(replica_index),
        },
        "annotations": annotations,
    }
    spec = {
        "replicas": group.replicas,
        "minAvailable": group.config.min_available,
        "cliqueNames": list(group.config.clique_names),
    }
    return build_object(GROUPS, metadata, context.subject, spec)


def build_clique(
    context: SetContext,
    replica_index: int,
    clique: DesiredClique,
    *,
    owner: EventSubject,
    incarnation: str,
    gang_incarnation: str = "",
    replicas: int | None = None,
) -> JsonObject:
    """Build a PodClique with the newest template; `owner` is the set, or the group that it is a member of.

    `gang_incarnation`: that of the cliques it is placed with, if it differs from its own. `replicas`: the count that
    was set at run time, if it differs from the template's.
    """
    template = clique.template
    metadata_labels = {
        **template.labels,
        **labels.default_labels(context.name),
        **_identity_labels(context, replica_index, clique),
        labels.NAME: clique.name,
        labels.COMPONENT: labels.COMPONENT_MEMBER_CLIQUE if clique.group else labels.COMPONENT_STANDALONE_CLIQUE,
        labels.TEMPLATE_HASH: context.template_hashes[template.name],
        labels.INCARNATION: incarnation,
    }
    annotations = {k: v for k, v in template.annotations.items() if k != labels.TOPOLOGY_NAME}
    if gang_incarnation:
        annotations[labels.GANG_INCARNATION] = gang_incarnation
    spec = to_wire(template.spec)
    spec["podSpec"] = _clique_pod_spec(context, replica_index, clique)
    if template.spec.min_available is None:
        spec["minAvailable"] = template.spec.replicas
    if replicas is not None:
        spec["replicas"] = replicas
    spec["startsAfter"] = list(clique.starts_after)
    metadata = {"name": clique.name, "labels": metadata_labels, "annotations": annotations}
    return build_object(PODCLIQUES, metadata, owner, spec)


def _identity_labels(context: SetContext, replica_index: int, clique: DesiredClique) -> dict[str, str]:
    """Return the labels that identify a clique and its pods. They never change."""
    found = {
        labels.PART_OF: context.name,
        labels.SET_REPLICA_INDEX: str(replica_index),
        labels.PODGANG: clique.gang,
    }
    if clique.group:
        found |= {labels.GROUP: clique.group, labels.GROUP_REPLICA_INDEX: str(clique.group_replica_index)}
    if clique.base_gang:
        found[labels.BASE_PODGANG] = clique.base_gang
    return found


def find_lost_labels(
    context: SetContext, replica_index: int, clique: DesiredClique, current: PodClique
) -> dict[str, str]:
    """Return the identity labels of a clique that a user removed or changed. New pods get their labels from it.

    The labels of its incarnation and template are not among them: they describe this object only.
    """
    ours = _identity_labels(context, replica_index, clique)
    return {key: value for key, value in ours.items() if current.metadata.labels.get(key) != value}


def clique_template_patch(
    context: SetContext, replica_index: int, clique: DesiredClique, current: PodClique, *, owner: EventSubject
) -> JsonObject:
    """Return the patch that gives an existing PodClique the current template. Its replica count stays."""
    wanted = build_clique(context, replica_index, clique, owner=owner, incarnation="")
    # Keys of the previous template are removed; keys that others wrote stay.
    before = context.stored_templates.get(clique.template.name, {}).get(
        current.metadata.labels.get(labels.TEMPLATE_HASH, "")
    )
    patch: JsonObject = {}
    metadata = {
        field: _keys_patch(known, wanted["metadata"][field], mine)
        for field, known, mine in (
            ("labels", current.metadata.labels, before.labels if before else {}),
            ("annotations", current.metadata.annotations, before.annotations if before else {}),
        )
    }
    # The incarnation does not come from the template.
    metadata["labels"].pop(labels.INCARNATION, None)
    metadata = {field: changed for field, changed in metadata.items() if changed}
    pod_spec = merge_patch(current.spec.pod_spec, wanted["spec"]["podSpec"])
    if metadata:
        patch["metadata"] = metadata
    if pod_spec:
        patch["spec"] = {"podSpec": pod_spec}
    return patch


def autoscaling_patch(current: PodCliqueSpec, wanted: PodCliqueSpec) -> JsonObject | None:
    """Return the patch that gives an existing PodClique the autoscaling configuration of the set; None: it has it."""
    if current.auto_scaling_config == wanted.auto_scaling_config:
        return None
    return merge_patch(
        {"autoScalingConfig": to_wire(current.auto_scaling_config) if current.auto_scaling_config else None},
        {"autoScalingConfig": to_wire(wanted.auto_scaling_config) if wanted.auto_scaling_config else None},
    )


def _keys_patch(known: dict[str, str], wanted: dict[str, str], mine: dict[str, str]) -> JsonObject:
    gone = {key: None for key in mine if key in known and key not in wanted}
    return {**gone, **(patch_towards(known, wanted) or {})}


def _clique_pod_spec(context: SetContext, replica_index: int, clique: DesiredClique) -> JsonObject:
    pod_spec = dict(clique.template.spec.pod_spec)
    if context.spec.template.priority_class_name:
        pod_spec["priorityClassName"] = context.spec.template.priority_class_name
    add_distributed_env(pod_spec, context, replica_index, clique)
    if clique.group:
        prepend_env(pod_spec, _group_env(_siblings(context, clique)))
    return pod_spec


def _siblings(context: SetContext, clique: DesiredClique) -> Sequence[CliqueTemplate]:
    return next(
        (members for members in context.members.values() if any(m.name == clique.template.name for m in members)), ()
    )


def _group_env(members: Sequence[CliqueTemplate]) -> list[JsonObject]:
    return [
        _label_env("GROVE_PCSG_NAME", labels.GROUP),
        {"name": "GROVE_PCSG_TEMPLATE_NUM_PODS", "value": str(sum(member.spec.replicas for member in members))},
        _label_env("GROVE_PCSG_INDEX", labels.GROUP_REPLICA_INDEX),
    ]


def _label_env(name: str, label: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}


def build_pod_env(context_name: str, namespace: str, replica_index: str, clique_name: str) -> list[JsonObject]:
    """Return the variables that every pod gets, in their order on the wire."""
    return [
        {"name": "GROVE_PCS_NAME", "value": context_name},
        {"name": "GROVE_PCS_INDEX", "value": replica_index},
        {"name": "GROVE_PCLQ_NAME", "value": clique_name},
        {
            "name": "GROVE_HEADLESS_SERVICE",
            "value": names.service_address(context_name, int(replica_index), namespace),
        },
        _label_env("GROVE_PCLQ_POD_INDEX", labels.POD_INDEX),
    ]


def prepend_env(pod_spec: JsonObject, variables: list[JsonObject]) -> None:
    """Put Grove's variables before the user's in every container. They replace variables of the same name."""
    ours = {variable["name"] for variable in variables}
    for kind in ("containers", "initContainers"):
        if pod_spec.get(kind):
            pod_spec[kind] = [
                {**c, "env": [*variables, *(e for e in c.get("env") or () if e.get("name") not in ours)]}
                for c in pod_spec[kind]
            ]


def build_gang_metadata(context: SetContext, replica_index: int, gang: DesiredGang, incarnation: str) -> JsonObject:
    """Build the metadata of a gang: the set's labels and annotations, which schedulers read, and Grove's own."""
    gang_labels = {
        **gang_labels_of_set(context),
        **labels.default_labels(context.name),
        labels.COMPONENT: labels.COMPONENT_GANG,
        labels.SET_REPLICA_INDEX: str(replica_index),
        labels.SCHEDULER_NAME: context.backend.name,
        labels.INCARNATION: incarnation,
    }
    if gang.is_base:
        gang_labels[labels.GENERATION_HASH] = context.generation_hash
    if gang.group:
        gang_labels[labels.GROUP] = gang.group
        gang_labels[labels.GROUP_REPLICA_INDEX] = str(gang.group_replica_index)
        gang_labels[labels.BASE_PODGANG] = gang.base_gang
    annotations = {**gang_annotations_of_set(context), **context.backend.gang_annotations}
    if context.topology.name:
        annotations[labels.TOPOLOGY_NAME] = context.topology.name
    return {"name": gang.name, "labels": gang_labels, "annotations": annotations}


def build_gang(
    context: SetContext, replica_index: int, gang: DesiredGang, *, spec: JsonObject, incarnation: str
) -> JsonObject:
    metadata = build_gang_metadata(context, replica_index, gang, incarnation)
    return build_object(PODGANGS, metadata, context.subject, spec)


def gang_labels_of_set(context: SetContext) -> dict[str, str]:
    """Return the set's labels that its gangs copy: all but Grove's own."""
    return _without_ours(context.labels, {*labels.default_labels(context.name), labels.COMPONENT})


def gang_annotations_of_set(context: SetContext) -> dict[str, str]:
    # This annotation of kubectl is as large as the set, and no scheduler reads it.
    ours = {*context.backend.gang_annotations, "kubectl.kubernetes.io/last-applied-configuration"}
    return _without_ours(context.annotations, ours)


def _without_ours(mapping: dict[str, str], ours: set[str]) -> dict[str, str]:
    return {key: value for key, value in mapping.items() if not key.startswith(_NEVER_COPIED) and key not in ours}


# Keys of Grove, and the load of simulated pods, which changes again and again.
_NEVER_COPIED = ("grove.io/", labels.SIM_LOAD_PREFIX, labels.SIM_METRIC_PREFIX)
