"""Questions to a scheduler's backend in one line each, and its answers as a server would keep them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from grove.api import labels
from grove.api.resources import Resource
from grove.api.types.meta import JsonObject, ObjectMeta, Uid
from grove.api.types.podcliqueset import CliqueTemplate, GroupConfig, PodCliqueSet, PodCliqueSetSpec, SetTemplate
from grove.api.types.podgang import (
    GangPackConstraint,
    GangTopologyConstraint,
    PodGang,
    PodGangSpec,
    PodGroup,
    TopologyGroupConfig,
)
from grove.api.types.scheduler_object import SchedulerObject
from grove.backends.base import Backend, CliqueInput, GangInput, PodInput, SchedulerObjectPlan, SetInput
from grove.cluster.patches.merge_patch import apply_merge_patch
from tests.dsl import role

GANG = "p-0"
POD_SPEC: JsonObject = {
    "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}]
}


def packed(required: str | None = None, preferred: str | None = None) -> GangTopologyConstraint:
    return GangTopologyConstraint(pack_constraint=GangPackConstraint(required=required, preferred=preferred))


def podgroup(name: str, minimum: int = 1, packed_in: GangTopologyConstraint | None = None) -> PodGroup:
    return PodGroup(name=name, min_replicas=minimum, topology_constraint=packed_in)


def around(name: str, *members: str, packed_in: GangTopologyConstraint | None = None) -> TopologyGroupConfig:
    return TopologyGroupConfig(name=name, pod_group_names=members, topology_constraint=packed_in)


def a_set(
    *cliques: CliqueTemplate,
    groups: tuple[GroupConfig, ...] = (),
    template: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> PodCliqueSet:
    return PodCliqueSet(
        metadata=ObjectMeta(name="p", namespace="default", uid=Uid("uid-of-p"), **metadata),
        spec=PodCliqueSetSpec(
            replicas=1,
            template=SetTemplate(cliques=cliques or (role("a"),), pod_clique_scaling_groups=groups, **(template or {})),
        ),
    )


def set_ask(pcs: PodCliqueSet) -> SetInput:
    metadata = pcs.metadata
    return SetInput(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        labels=metadata.labels,
        annotations=metadata.annotations,
        spec=pcs.spec,
    )


def gang_ask(
    *podgroups: PodGroup,
    pcs: PodCliqueSet,
    spec: Mapping[str, Any] | None = None,
    gang_labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    placed: int = 0,
    priorities: tuple[str, ...] = (),
    **fields: Any,
) -> GangInput:
    """A gang of which every clique has `placed` pods on nodes."""
    groups = podgroups or (podgroup("p-0-a"),)
    classes = priorities or ("",) * len(groups)
    return GangInput(
        pcs=set_ask(pcs),
        gang=PodGang(
            metadata=ObjectMeta(
                name=GANG,
                namespace="default",
                uid=Uid("uid-of-gang"),
                labels=gang_labels or {labels.MANAGED_BY: labels.MANAGED_BY_VALUE},
                annotations=annotations or {},
            ),
            spec=PodGangSpec(podgroups=groups, **(spec or {})),
        ),
        cliques=tuple(
            CliqueInput(
                name=group.name,
                uid=Uid(f"uid-of-{group.name}"),
                incarnation="1",
                replicas=group.min_replicas,
                minimum=group.min_replicas,
                priority_class_name=priority,
                placed_count=placed,
                pod_spec=POD_SPEC,
            )
            for group, priority in zip(groups, classes, strict=True)
        ),
        **fields,
    )


def pod_ask(clique: str = "p-0-a", index: int = 0) -> PodInput:
    gang = PodGang(metadata=ObjectMeta(name=GANG, namespace="default"))
    return PodInput(gang=gang, clique_name=clique, clique_uid=Uid("u"), incarnation="1", index=index, minimum=1)


def body_of(plan: SchedulerObjectPlan) -> JsonObject:
    """The one object that is to be created, and nothing else is to be done."""
    assert plan.patch == ()
    assert plan.delete == ()
    (new,) = plan.create
    return new.body


def stored(body: JsonObject, status: JsonObject | None = None, **spec: Any) -> SchedulerObject:
    """As it stands on the server; `spec` is what others wrote into it."""
    whole = {**body, "spec": {**body["spec"], **spec}, "status": status or {}}
    return msgspec.convert(whole, SchedulerObject)


def answer(backend: Backend, ask: GangInput, *found: SchedulerObject) -> SchedulerObjectPlan:
    """What is to be done about a gang of which these were found."""
    (kind,) = backend.object_kinds
    return backend.plan_objects(ask, tuple((kind, mirror) for mirror in found))


def patched(plan: SchedulerObjectPlan) -> SchedulerObject:
    """The mirror after the one patch of a plan."""
    assert plan.create == ()
    (patch,) = plan.patch
    before = msgspec.to_builtins(patch.existing)
    after = apply_merge_patch(before, patch.patch)
    return msgspec.convert(after, SchedulerObject)


def queues(resource: Resource[SchedulerObject], **states: str) -> dict[str, dict[str, SchedulerObject]]:
    """Queues that a cluster has, each with its state."""
    return {
        resource.full_name: {
            name: SchedulerObject(metadata=ObjectMeta(name=name), status={"state": state} if state else {})
            for name, state in states.items()
        }
    }
