"""Explain an object: read its set as the operator does, plan as the operator would, and explain the plan.

Works with any cluster, with or without an operator, and writes nothing.
"""

import asyncio
from datetime import datetime
from typing import Any

import msgspec

from grove.api import labels
from grove.api.reasons import ConditionType, Reason
from grove.api.resources import (
    CONTROLLER_REVISIONS,
    GROUPS,
    NODES,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    SERVICES,
    TOPOLOGY_BINDINGS,
    Resource,
)
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import Condition, ObjectMeta, Uid, WireStruct, find_condition, is_condition_true
from grove.api.types.podcliqueset import PodCliqueSet
from grove.backends.registry import SCHEDULERS, Backends
from grove.cli.common.options import ObjectRef
from grove.cli.common.resource_args import RESOURCES
from grove.controller.feature_discovery import seen_features
from grove.controller.informers import NODE_VIEW, Caches
from grove.controller.rejected_creates import RejectedCreates
from grove.controller.snapshot_builder import Observer
from grove.errors import Bug, UserError
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.planner.actions import Create
from grove.planner.explain.text import Explanation
from grove.planner.explain.why import Explainer, told_failures
from grove.planner.plan import plan
from grove.planner.snapshot import UNTIL_TOLD, ClusterContext, Snapshot
from grove.planner.topology.node_label_keys import is_told_to_wait


class _NodeStatus(WireStruct):
    conditions: tuple[Condition, ...] = ()


class _Node(WireStruct):
    metadata: ObjectMeta
    status: _NodeStatus = _NodeStatus()


async def explain(client: Client, now: datetime, namespace: str, target: ObjectRef) -> tuple[Explanation, ...]:
    pcs = await _set_of(client, namespace, target)
    caches, failures = Caches(), RejectedCreates()
    surroundings = ClusterContext(
        backends=Backends(enabled=SCHEDULERS, features=await seen_features(client)),
        is_topology_aware=_is_topology_told(pcs),
        waits_for_topology=is_told_to_wait(pcs.status.conditions),
    )
    observer = Observer(caches, failures, lambda _: None, surroundings=surroundings)
    await _read(client, pcs, caches)
    observer.put_offers(surroundings.backends, await _read_scheduler(client, pcs, surroundings.backends, caches))
    uid = pcs.metadata.uid
    snapshot = _with_revision(
        _with_told_outage(_with_told_failures(_seen(observer, uid), observer, failures, uid, now)), now
    )
    lost = await _lost_nodes(client, caches)
    explainer = Explainer(snapshot, plan(snapshot, now), now, lost, caches.pods.values())
    return (*explainer.failing(str(target)), *_explained(explainer, target))


def _explained(explainer: Explainer, target: ObjectRef) -> tuple[Explanation, ...]:
    match target.kind:
        case "podcliqueset":
            return explainer.of_set()
        case "podcliquescalinggroup":
            return explainer.of_group(target.name)
        case "podgang":
            return explainer.of_gang(target.name)
        case "podclique":
            return explainer.of_clique(target.name)
        case _:
            return explainer.of_pod(target.name)


async def _set_of(client: Client, namespace: str, target: ObjectRef) -> PodCliqueSet:
    """Return the set of an object. Every object of a set has its name in a label."""
    try:
        found = await client.get(RESOURCES[target.kind], namespace, target.name)
    except ApiError as error:
        if not error.is_not_found or "could not find" in error.message:
            raise
        raise UserError(f"no {target} in namespace {namespace!r}; check the name, and -n") from error
    if isinstance(found, PodCliqueSet):
        return found
    name = found.metadata.labels.get(labels.PART_OF, "")
    is_ours = found.metadata.labels.get(labels.MANAGED_BY) == labels.MANAGED_BY_VALUE
    if not (is_ours and name):
        raise UserError(f"{target} does not belong to a PodCliqueSet; `kubectl describe {target}` may tell more")
    try:
        return await client.get(PODCLIQUESETS, namespace, name)
    except ApiError as error:
        if error.is_not_found:
            raise UserError(f"the set {name!r} of {target} is gone; {target} follows soon") from error
        raise


async def _read(client: Client, pcs: PodCliqueSet, caches: Caches) -> None:
    selector = labels.selector(labels.default_labels(pcs.metadata.name))
    kinds: tuple[Resource[Any], ...] = (GROUPS, PODCLIQUES, PODGANGS, PODS, SERVICES, CONTROLLER_REVISIONS)
    listings = await asyncio.gather(
        *(client.list(kind, namespace=pcs.metadata.namespace, label_selector=selector) for kind in kinds)
    )
    caches.sets.observe(pcs)
    for kind, listing in zip(kinds, listings, strict=True):
        store = caches.store(kind)
        store.apply_list(listing, store.begin_list())


def _is_topology_told(pcs: PodCliqueSet) -> bool:
    """Return whether the operator applies topology constraints. If it does not, a condition of the set reports that."""
    told = find_condition(pcs.status.conditions, ConditionType.TOPOLOGY_LEVELS_UNAVAILABLE)
    return told is None or told.reason != Reason.TOPOLOGY_AWARE_SCHEDULING_DISABLED


async def _read_scheduler(client: Client, pcs: PodCliqueSet, backends: Backends, caches: Caches) -> frozenset[str]:
    """Read the objects of the set's scheduler and of the topology. Returns the kinds that are not served."""
    backend = backends.named(backends.name_for(pcs.spec))
    missing: list[str] = []
    kinds: tuple[Resource[Any], ...] = (*backend.mirrors, *backend.queues, TOPOLOGY_BINDINGS, NODE_VIEW)
    for kind in kinds:
        namespace = pcs.metadata.namespace if kind.namespaced else ""
        store = caches.store(kind)
        mark = store.begin_list()
        try:
            store.apply_list(await client.list(kind, namespace=namespace), mark)
        except ApiError as error:
            if error.is_not_found:
                missing.append(kind.full_name)
            # A user who may read pods may lack permission for these.
            elif error.code != 403:
                raise
    return frozenset(missing)


def _with_told_failures(
    snapshot: Snapshot, observer: Observer, failures: RejectedCreates, set_uid: Uid, now: datetime
) -> Snapshot:
    """Add the create rejections that the operator recorded in conditions; its memory is not accessible."""
    for replica in snapshot.replicas:
        for clique in replica.cliques.values():
            for failure in told_failures(clique, now):
                failures.record(
                    set_uid, replica.index, key=failure.key, code=failure.code,
                    message=failure.message, now=failure.last_at,
                )  # fmt: skip
        observer.mark(set_uid, replica.index)
    return _seen(observer, set_uid)


def _with_told_outage(snapshot: Snapshot) -> Snapshot:
    """Set the teardown hold from the condition, because it depends on the operator's configuration."""
    is_held = is_condition_true(snapshot.pcs.status.conditions, ConditionType.TEARDOWN_HELD)
    return msgspec.structs.replace(snapshot, hold_until=UNTIL_TOLD if is_held else None)


def _with_revision(snapshot: Snapshot, now: datetime) -> Snapshot:
    """Add the revision that the operator would store, if it has not yet, so that the rest can be explained."""
    creates = [a for c in plan(snapshot, now).chains for stage in c.stages for a in stage if isinstance(a, Create)]
    drawn = [create.body for create in creates if create.resource is CONTROLLER_REVISIONS]
    if snapshot.revisions or not drawn:
        return snapshot
    return msgspec.structs.replace(snapshot, revisions=(msgspec.convert(drawn[0], ControllerRevision),))


def _seen(observer: Observer, set_uid: Uid) -> Snapshot:
    snapshot = observer.snapshot(set_uid)
    if snapshot is None:
        raise Bug(f"set {set_uid} was just read and is not in the cache")
    return snapshot


async def _lost_nodes(client: Client, caches: Caches) -> frozenset[str]:
    """Return the nodes of pods that are not ready or do not exist."""
    used = {pod.spec.node_name for pod in caches.pods.values() if pod.spec.node_name}
    if not used:
        return frozenset()
    try:
        nodes = await client.list(NODES.viewed_as(_Node))
    except ApiError as error:
        # A user who may read pods may lack permission for nodes.
        if error.code == 403:
            return frozenset()
        raise
    ready = {node.metadata.name for node in nodes.items if is_condition_true(node.status.conditions, "Ready")}
    return frozenset(used - ready)
