"""Delete the pods and children of a set in bulk, then remove its finalizer. All finalizers are handled here.

The operator waits for nothing: the garbage collector deletes the rest by owner reference.
"""

from typing import Any

from grove.api import labels
from grove.api.resources import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    GROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICES,
    Resource,
)
from grove.api.types.meta import ObjectMeta
from grove.api.types.podcliqueset import PodCliqueSet
from grove.planner.actions import WHOLE_SET, Chain, DeleteMany, Patch, Stage, chain, delete_object
from grove.planner.snapshot import SetContext, Snapshot
from grove.planner.teardown.bulk_delete import delete_matching
from grove.planner.views import ReplicaView


def plan_finalizer(pcs: PodCliqueSet) -> tuple[Chain, ...]:
    """Add Grove's finalizer before anything is created for the set, so that its deletion is always observed."""
    if labels.SET_FINALIZER in pcs.metadata.finalizers:
        return ()
    return chain(
        "set",
        WHOLE_SET,
        (_patch_finalizers(pcs, (*pcs.metadata.finalizers, labels.SET_FINALIZER), "guards its children"),),
    )


def plan_deletion(snapshot: Snapshot) -> tuple[Chain, ...]:
    pcs, context = snapshot.pcs, snapshot.context
    if labels.SET_FINALIZER not in pcs.metadata.finalizers:
        return ()
    kept = tuple(name for name in pcs.metadata.finalizers if name != labels.SET_FINALIZER)
    let_go: Stage = (_patch_finalizers(pcs, kept, "all its children were deleted"),)
    old = tuple(patch for replica in snapshot.replicas for patch in plan_old_finalizers(replica))
    if "orphan" in pcs.metadata.finalizers:
        return chain("set", WHOLE_SET, old, let_go)
    return chain("set", WHOLE_SET, _pods(context, snapshot.replicas), old, _children(snapshot), let_go)


def plan_old_finalizers(replica: ReplicaView) -> Stage:
    """Remove finalizers that older versions of Grove set. No other controller removes them."""
    found: list[tuple[Resource[Any], ObjectMeta, str]] = [
        *((PODCLIQUES, c.clique.metadata, labels.CLIQUE_FINALIZER) for c in replica.cliques.values()),
        *((GROUPS, g.metadata, labels.GROUP_FINALIZER) for g in replica.groups.values()),
    ]
    return tuple(
        Patch(
            resource=resource,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            patch={"metadata": {"finalizers": [name for name in metadata.finalizers if name != finalizer]}},
            reason="a finalizer of an older version would block its deletion",
        )
        for resource, metadata, finalizer in found
        if finalizer in metadata.finalizers
    )


def _pods(context: SetContext, replicas: tuple[ReplicaView, ...]) -> Stage:
    found = tuple(
        pod.metadata
        for replica in replicas
        for clique in replica.cliques.values()
        for pod in (*clique.active, *clique.failed, *clique.succeeded)
    )
    return (_delete_many(PODS, context, found),) if found else ()


def _children(snapshot: Snapshot) -> Stage:
    context, replicas = snapshot.context, snapshot.replicas
    gangs = (*snapshot.orphaned_gangs, *(g for r in replicas for g in r.gangs.values()))
    found: tuple[tuple[Resource[Any], tuple[ObjectMeta, ...]], ...] = (
        # First: an autoscaler must not scale what is being deleted.
        (AUTOSCALERS, tuple(a.metadata for r in replicas for a in r.autoscalers.values())),
        (PODCLIQUES, tuple(c.clique.metadata for r in replicas for c in r.cliques.values())),
        (GROUPS, tuple(g.metadata for r in replicas for g in r.groups.values())),
        (PODGANGS, tuple(g.metadata for g in gangs)),
        (SERVICES, tuple(s.metadata for r in replicas for s in r.services.values())),
        # The next set of this name needs their names immediately.
        (CONTROLLER_REVISIONS, tuple(revision.metadata for revision in snapshot.revisions)),
    )
    why = f"set {context.name} is being deleted"
    return (
        *(_delete_many(resource, context, children) for resource, children in found if children),
        *(delete_object(ROLE_BINDINGS, binding.metadata, why) for binding in snapshot.role_bindings),
        *(delete_object(ROLES, role.metadata, why) for role in snapshot.roles),
    )


def _delete_many(resource: Resource[Any], context: SetContext, found: tuple[ObjectMeta, ...]) -> DeleteMany:
    selector = labels.selector(labels.default_labels(context.name))
    return delete_matching(resource, context.namespace, selector, found, f"set {context.name} is being deleted")


def _patch_finalizers(pcs: PodCliqueSet, finalizers: tuple[str, ...], reason: str) -> Patch:
    return Patch(
        resource=PODCLIQUESETS,
        namespace=pcs.metadata.namespace,
        name=pcs.metadata.name,
        uid=pcs.metadata.uid,
        resource_version=pcs.metadata.resource_version,
        patch={"metadata": {"finalizers": list(finalizers)}},
        reason=reason,
    )
