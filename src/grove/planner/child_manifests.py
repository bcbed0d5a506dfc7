"""The children of a set as wire objects: groups, cliques, gangs, services. Pods are built in `pod_builder.py`."""

from collections.abc import Sequence
from typing import Any

from grove.api import labels, names
from grove.api.merge_patch import merge_patch, patch_towards
from grove.api.resources import GROUPS, PODCLIQUES, PODGANGS, SERVICES, Resource
from grove.api.types.meta import JsonObject, to_wire
from grove.api.types.podclique import PodClique
from grove.api.types.podcliqueset import CliqueTemplate
from grove.planner.actions import EventSubject
from grove.planner.desired_state import CliqueBlueprint, GangBlueprint, GroupBlueprint
from grove.planner.snapshot import SetContext


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


def build_group(context: SetContext, replica_index: int, group: GroupBlueprint) -> JsonObject:
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
    clique: CliqueBlueprint,
    *,
    owner: EventSubject,
    incarnation: str,
    gang_life: str = "",
    replicas: int | None = None,
) -> JsonObject:
    """A PodClique with the newest template; `owner` is the set, or the group it is a member of.

    `gang_life`: that of the cliques it waits with, if it is not its own. `replicas`: the count that was set at run
    time, if it is not the template's.
    """
    template = clique.template
    metadata_labels = {
        **template.labels,
        **labels.default_labels(context.name),
        **_place_labels(context, replica_index, clique),
        labels.NAME: clique.name,
        labels.COMPONENT: labels.COMPONENT_MEMBER_CLIQUE if clique.group else labels.COMPONENT_STANDALONE_CLIQUE,
        labels.TEMPLATE_HASH: context.template_hashes[template.name],
        labels.INCARNATION: incarnation,
    }
    annotations = {k: v for k, v in template.annotations.items() if k != labels.TOPOLOGY_NAME}
    if gang_life:
        annotations[labels.GANG_LIFE] = gang_life
    spec = to_wire(template.spec)
    spec["podSpec"] = _clique_pod_spec(context, clique)
    if template.spec.min_available is None:
        spec["minAvailable"] = template.spec.replicas
    if replicas is not None:
        spec["replicas"] = replicas
    # Start-up order is not carried out yet; names of cliques mean nothing on a PodClique.
    spec["startsAfter"] = []
    metadata = {"name": clique.name, "labels": metadata_labels, "annotations": annotations}
    return build_object(PODCLIQUES, metadata, owner, spec)


def _place_labels(context: SetContext, replica_index: int, clique: CliqueBlueprint) -> dict[str, str]:
    """Whose a clique is and where it stands: by these it and its pods are found, and the same for all its life."""
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


def lost_labels(context: SetContext, replica_index: int, clique: CliqueBlueprint, current: PodClique) -> dict[str, str]:
    """Labels that say whose a clique is, and that somebody took away or changed: its pods are made of them too.

    Not those of its life and of its template, which are facts about this very object.
    """
    ours = _place_labels(context, replica_index, clique)
    return {key: value for key, value in ours.items() if current.metadata.labels.get(key) != value}


def clique_template_patch(
    context: SetContext, replica_index: int, clique: CliqueBlueprint, current: PodClique, *, owner: EventSubject
) -> JsonObject:
    """What makes an existing PodClique the one that the template asks for now; its count stays."""
    wanted = build_clique(context, replica_index, clique, owner=owner, incarnation="")
    # What the template before put there goes; what others wrote stays.
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
    # The life it belongs to is not a matter of its template.
    metadata["labels"].pop(labels.INCARNATION, None)
    metadata = {field: changed for field, changed in metadata.items() if changed}
    pod_spec = merge_patch(current.spec.pod_spec, wanted["spec"]["podSpec"])
    if metadata:
        patch["metadata"] = metadata
    if pod_spec:
        patch["spec"] = {"podSpec": pod_spec}
    return patch


def _keys_patch(known: dict[str, str], wanted: dict[str, str], mine: dict[str, str]) -> JsonObject:
    gone = {key: None for key in mine if key in known and key not in wanted}
    return {**gone, **(patch_towards(known, wanted) or {})}


def _clique_pod_spec(context: SetContext, clique: CliqueBlueprint) -> JsonObject:
    pod_spec = dict(clique.template.spec.pod_spec)
    if context.spec.template.priority_class_name:
        pod_spec["priorityClassName"] = context.spec.template.priority_class_name
    if clique.group:
        prepend_env(pod_spec, _group_env(_siblings(context, clique)))
    return pod_spec


def _siblings(context: SetContext, clique: CliqueBlueprint) -> Sequence[CliqueTemplate]:
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
    """The variables every pod gets, in the order of the wire."""
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
    """Put our variables before the user's in every container; one of the same name gives way to ours."""
    ours = {variable["name"] for variable in variables}
    for kind in ("containers", "initContainers"):
        if pod_spec.get(kind):
            pod_spec[kind] = [
                {**c, "env": [*variables, *(e for e in c.get("env") or () if e.get("name") not in ours)]}
                for c in pod_spec[kind]
            ]


def build_gang_metadata(context: SetContext, replica_index: int, gang: GangBlueprint, incarnation: str) -> JsonObject:
    """A gang shows the set's own labels and annotations to schedulers, and ours on top."""
    gang_labels = {
        **shown_labels(context),
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
    annotations = {**shown_annotations(context), **context.backend.gang_annotations}
    if context.topology.name:
        annotations[labels.TOPOLOGY_NAME] = context.topology.name
    return {"name": gang.name, "labels": gang_labels, "annotations": annotations}


def build_gang(
    context: SetContext, replica_index: int, gang: GangBlueprint, *, spec: JsonObject, incarnation: str
) -> JsonObject:
    metadata = build_gang_metadata(context, replica_index, gang, incarnation)
    return build_object(PODGANGS, metadata, context.subject, spec)


def shown_labels(context: SetContext) -> dict[str, str]:
    """What a gang shows of its set's labels: everything that is not ours to say."""
    return _without_ours(context.labels, {*labels.default_labels(context.name), labels.COMPONENT})


def shown_annotations(context: SetContext) -> dict[str, str]:
    # kubectl's bookkeeping is as large as the set itself and tells a scheduler nothing.
    ours = {*context.backend.gang_annotations, "kubectl.kubernetes.io/last-applied-configuration"}
    return _without_ours(context.annotations, ours)


def _without_ours(mapping: dict[str, str], ours: set[str]) -> dict[str, str]:
    return {key: value for key, value in mapping.items() if not key.startswith("grove.io/") and key not in ours}


def build_service_spec(context: SetContext, replica_index: int) -> JsonObject:
    """The part of a headless Service that is ours to keep as it is."""
    config = context.spec.template.headless_service_config
    return {
        "publishNotReadyAddresses": config.publish_not_ready_addresses if config else True,
        "selector": {**labels.default_labels(context.name), labels.SET_REPLICA_INDEX: str(replica_index)},
    }


def build_service(context: SetContext, replica_index: int) -> JsonObject:
    name = names.replica_name(context.name, replica_index)
    metadata = {
        "name": name,
        "labels": {
            **labels.default_labels(context.name),
            labels.NAME: name,
            labels.COMPONENT: labels.COMPONENT_SERVICE,
            labels.SET_REPLICA_INDEX: str(replica_index),
        },
    }
    spec = {"clusterIP": "None", **build_service_spec(context, replica_index)}
    return build_object(SERVICES, metadata, context.subject, spec)
