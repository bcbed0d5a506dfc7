"""Explain an object: read its set as the operator does, plan as the operator would, and explain the plan.

Works with any cluster, with or without an operator, and writes nothing.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec

from grove.api import labels
from grove.api.reasons import ConditionType, Reason
from grove.api.resources import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    GROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    SERVICES,
    TOPOLOGY_BINDINGS,
    Resource,
)
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import HasMetadata, Uid, find_condition, is_condition_true
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.values.clique_counts import LOCAL_IMAGE
from grove.backends.registry import SCHEDULERS, Backends
from grove.controller.feature_discovery import read_features
from grove.controller.informers import NODE_VIEW, Caches
from grove.controller.rejected_creates import RejectedCreates
from grove.controller.snapshot_builder import Observer
from grove.errors import Bug, UserError
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.operations.hints import kubectl_hint
from grove.operations.object_ref import ObjectRef
from grove.operations.resource_args import RESOURCES, no_such_object, no_such_set
from grove.operations.why.cluster_facts import read_cluster_facts
from grove.operations.why.remains import explain_deleted_set
from grove.operations.why.status_failure import find_status_failure
from grove.planner.actions import Create
from grove.planner.explain.finalizers import explain_held_objects
from grove.planner.explain.text import Explanation
from grove.planner.explain.why import Explainer, recompute_rejections
from grove.planner.plan import plan
from grove.planner.snapshot import UNTIL_RELEASED, ClusterContext, Snapshot
from grove.planner.topology.node_label_keys import is_reported_waiting

# A running operator observes a change within this time.
OBSERVED_WITHIN = timedelta(seconds=3)
_PAUSE_SECONDS = 0.5


async def explain(client: Client, now: datetime, namespace: str, target: ObjectRef) -> tuple[Explanation, ...]:
    """Return the explanations of an object, most important first. Raises `UserError` if it does not exist."""
    found = await _find_object(client, namespace, target)
    if found is None:
        return await _explain_missing(client, namespace, target)
    current = await _find_set(client, found, target)
    if current is None:
        return _explain_remains(found, target)
    pcs, now = await _wait_for_operator(client, current, now)
    pcs = await _with_status_failure(client, pcs)
    caches, failures = Caches(), RejectedCreates()
    cluster_context = ClusterContext(
        backends=Backends(enabled=SCHEDULERS, features=await read_features(client)),
        is_topology_aware=_is_topology_enabled(pcs),
        waits_for_topology=is_reported_waiting(pcs.status.conditions),
        init_image=_reported_init_image(pcs),
    )
    observer = Observer(caches, failures, lambda _: None, cluster=cluster_context)
    await _read(client, pcs, caches)
    observer.update_features(
        cluster_context.backends, await _read_scheduler(client, pcs, cluster_context.backends, caches)
    )
    uid = pcs.metadata.uid
    snapshot = _with_revision(
        _with_recorded_hold(_with_recorded_rejections(_take_snapshot(observer, uid), observer, failures, uid, now)), now
    )
    facts = await read_cluster_facts(client, caches, now)
    explainer = Explainer(snapshot, plan(snapshot, now), now, facts, caches.pods.values())
    return (*explainer.explain_failing_writes(str(target)), *_explain_target(explainer, target))


def _explain_target(explainer: Explainer, target: ObjectRef) -> tuple[Explanation, ...]:
    match target.kind:
        case "podcliqueset":
            return explainer.explain_set()
        case "podcliquescalinggroup":
            return explainer.explain_group(target.name)
        case "podgang":
            return explainer.explain_gang(target.name)
        case "podclique":
            return explainer.explain_clique(target.name)
        case _:
            return explainer.explain_pod(target.name)


async def _find_object(client: Client, namespace: str, target: ObjectRef) -> HasMetadata | None:
    """Return the object, or None if it does not exist."""
    try:
        found: HasMetadata = await client.get(RESOURCES[target.kind], namespace, target.name)
    except ApiError as error:
        if not error.is_not_found or "could not find" in error.message:
            raise
        return None
    return found


async def _explain_missing(client: Client, namespace: str, target: ObjectRef) -> tuple[Explanation, ...]:
    """Explain what is left of a set that is deleted. Raises `UserError` if nothing is, and for other kinds."""
    is_set = target.kind == "podcliqueset"
    if is_set and (remains := await explain_deleted_set(client, namespace, target.name)):
        return remains
    raise no_such_set(target.name, namespace) if is_set else no_such_object(target, namespace)


async def _find_set(client: Client, found: HasMetadata, target: ObjectRef) -> PodCliqueSet | None:
    """Return the set of an object, or None if it is deleted. Every object of a set has its name in a label."""
    if isinstance(found, PodCliqueSet):
        return found
    name = found.metadata.labels.get(labels.PART_OF, "")
    is_ours = found.metadata.labels.get(labels.MANAGED_BY) == labels.MANAGED_BY_VALUE
    if not (is_ours and name):
        describe = kubectl_hint(f"describe {target}", found.metadata.namespace)
        raise UserError(f"{target} does not belong to a PodCliqueSet; try `{describe}`")
    try:
        return await client.get(PODCLIQUESETS, found.metadata.namespace, name)
    except ApiError as error:
        if error.is_not_found:
            return None
        raise


async def _with_status_failure(client: Client, pcs: PodCliqueSet) -> PodCliqueSet:
    """Add the condition that the operator would have written if it could write the status of the set."""
    found = await find_status_failure(client, pcs)
    if found is None:
        return pcs
    status = msgspec.structs.replace(pcs.status, conditions=(*pcs.status.conditions, found))
    return msgspec.structs.replace(pcs, status=status)


def _reported_init_image(pcs: PodCliqueSet) -> str:
    """Return "" if the operator reported that it has no init image, else any image: only its absence matters."""
    return "" if is_condition_true(pcs.status.conditions, ConditionType.STARTUP_ORDER_UNAVAILABLE) else LOCAL_IMAGE


def _explain_remains(found: HasMetadata, target: ObjectRef) -> tuple[Explanation, ...]:
    """Explain an object whose set is deleted."""
    if held := explain_held_objects([(str(target), found.metadata)]):
        return held
    name = found.metadata.labels[labels.PART_OF]
    raise UserError(f"pcs/{name}, the set of {target}, is deleted; {target} will be deleted soon")


async def _wait_for_operator(client: Client, pcs: PodCliqueSet, now: datetime) -> tuple[PodCliqueSet, datetime]:
    """Give the operator a moment to observe the latest change, so that `why` explains its result."""
    waited = timedelta()
    created = pcs.metadata.creation_timestamp or now
    if pcs.metadata.is_terminating or (pcs.status.observed_generation is None and now - created > OBSERVED_WITHIN):
        return pcs, now
    while pcs.status.observed_generation != pcs.metadata.generation and waited < OBSERVED_WITHIN:
        await client.clock.sleep(_PAUSE_SECONDS)
        waited += timedelta(seconds=_PAUSE_SECONDS)
        pcs = await client.get(PODCLIQUESETS, pcs.metadata.namespace, pcs.metadata.name)
    return pcs, now + waited


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
    await _read_autoscalers(client, pcs, caches)


async def _read_autoscalers(client: Client, pcs: PodCliqueSet, caches: Caches) -> None:
    """Read the autoscalers of all owners: users write those of sets. A user may lack the permission to read them."""
    try:
        listing = await client.list(AUTOSCALERS, namespace=pcs.metadata.namespace)
    except ApiError as error:
        if error.code == 403 or error.is_not_found:
            return
        raise
    caches.autoscalers.apply_list(listing, caches.autoscalers.begin_list())


def _is_topology_enabled(pcs: PodCliqueSet) -> bool:
    """Return whether the operator applies topology constraints. If it does not, a condition of the set reports that."""
    condition = find_condition(pcs.status.conditions, ConditionType.TOPOLOGY_LEVELS_UNAVAILABLE)
    return condition is None or condition.reason != Reason.TOPOLOGY_AWARE_SCHEDULING_DISABLED


async def _read_scheduler(client: Client, pcs: PodCliqueSet, backends: Backends, caches: Caches) -> frozenset[str]:
    """Read the objects of the set's scheduler and of the topology. Returns the kinds that are not served."""
    backend = backends.get(backends.name_for(pcs.spec))
    missing: list[str] = []
    kinds: tuple[Resource[Any], ...] = (*backend.object_kinds, *backend.queues, TOPOLOGY_BINDINGS, NODE_VIEW)
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


def _with_recorded_rejections(
    snapshot: Snapshot, observer: Observer, failures: RejectedCreates, set_uid: Uid, now: datetime
) -> Snapshot:
    """Add the create rejections that the operator recorded in conditions; its memory is not accessible."""
    for replica in snapshot.replicas:
        for clique in replica.cliques.values():
            for failure in recompute_rejections(clique, now):
                failures.record(
                    set_uid, replica.index, key=failure.key, code=failure.code,
                    message=failure.message, now=failure.last_at,
                )  # fmt: skip
        observer.mark(set_uid, replica.index)
    return _take_snapshot(observer, set_uid)


def _with_recorded_hold(snapshot: Snapshot) -> Snapshot:
    """Set the teardown hold from the condition, because it depends on the operator's configuration."""
    is_held = is_condition_true(snapshot.pcs.status.conditions, ConditionType.TEARDOWN_HELD)
    return msgspec.structs.replace(snapshot, hold_until=UNTIL_RELEASED if is_held else None)


def _with_revision(snapshot: Snapshot, now: datetime) -> Snapshot:
    """Add the revision that the operator would store first, if none is stored. Later decisions depend on it."""
    creates = [a for c in plan(snapshot, now).chains for stage in c.stages for a in stage if isinstance(a, Create)]
    bodies = [create.body for create in creates if create.resource is CONTROLLER_REVISIONS]
    if snapshot.revisions or not bodies:
        return snapshot
    return msgspec.structs.replace(snapshot, revisions=(msgspec.convert(bodies[0], ControllerRevision),))


def _take_snapshot(observer: Observer, set_uid: Uid) -> Snapshot:
    snapshot = observer.snapshot(set_uid)
    if snapshot is None:
        raise Bug(f"set {set_uid} was just read and is not in the cache")
    return snapshot
