"""Read what explains a set besides its own objects: nodes, pods of other sets, logs, and the lease of the operator.

A user who may read a set may lack permission for the rest. What cannot be read is left out of the explanation.
"""

import asyncio
from collections.abc import Awaitable, Hashable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from grove.api import labels
from grove.api.reasons import ConditionType
from grove.api.resources import LEASES, RESOURCE_QUOTAS
from grove.api.types.lease import Lease
from grove.api.types.meta import ObjectMeta, Uid, WireStruct, find_condition
from grove.api.types.operatorconfiguration import LeaderElection
from grove.api.types.pod import Pod
from grove.api.values.quantities import parse_milli
from grove.cluster.scheduler.scheduling_queue import QueuedPod, SchedulingQueue, State, scheduling_state
from grove.cluster.scheduler.types import (
    SCHEDULABLE_NODES,
    SCHEDULABLE_PODS,
    SchedulableNode,
    SchedulablePod,
    node_view,
    scheduling_class_of,
)
from grove.controller.informers import Caches
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.placement.diagnosis import Diagnosis, MisfitKind, PlacedPod, diagnose
from grove.placement.gang import above_minimum, is_complete, minimum_scope
from grove.placement.topology_packing import Scope
from grove.placement.types import GangDemand, PodDemand
from grove.planner.explain.cluster_facts import ClusterFacts, Misfit, NodeTrouble, QuotaUse
from grove.planner.explain.containers import find_recent_crash, find_trouble
from grove.planner.explain.pods import is_unplaced
from grove.planner.explain.rejections import is_about_quota

T = TypeVar("T")
# Pods of one clique fail alike, so a few logs are enough.
MAX_LOGS = 3
LONGEST_LINE = 200
EPOCH = datetime.fromtimestamp(0, UTC)
# Gangs of one set differ little, and gangs of one shape are diagnosed once.
MAX_DIAGNOSES = 20


async def read_cluster_facts(client: Client, caches: Caches, now: datetime) -> ClusterFacts:
    pods = tuple(caches.pods.values())
    nodes, lines, absence, quotas = await asyncio.gather(
        _readable(client.list(SCHEDULABLE_NODES)),
        _read_log_lines(client, pods),
        _read_operator_absence(client, now),
        _read_quotas(client, caches),
    )
    return ClusterFacts(
        autoscalers=tuple(caches.autoscalers.values()),
        lost_nodes=_lost_nodes(pods, nodes.items) if nodes else {},
        misfits=await _read_misfits(client, caches, nodes.items) if nodes else {},
        log_lines=lines,
        quotas=quotas,
        operator_absence=absence,
    )


async def _readable(reading: Awaitable[T]) -> T | None:
    """Return the result, or None if the user may not read it or the server does not have the kind."""
    try:
        return await reading
    except ApiError as error:
        if error.code == 403 or error.is_not_found:
            return None
        raise


# Quotas


class _QuotaStatus(WireStruct):
    hard: dict[str, str | int] = {}
    used: dict[str, str | int] = {}


class _Quota(WireStruct):
    metadata: ObjectMeta
    spec: _QuotaStatus = _QuotaStatus()
    status: _QuotaStatus = _QuotaStatus()


async def _read_quotas(client: Client, caches: Caches) -> dict[str, QuotaUse] | None:
    """Read the quotas of the namespace if one rejected pods of the set. The operator notices a change only later."""
    conditions = [
        (clique.metadata.namespace, found.message)
        for clique in caches.cliques.values()
        if (found := find_condition(clique.status.conditions, ConditionType.PODS_REJECTED))
    ]
    namespaces = [namespace for namespace, message in conditions if is_about_quota(message)]
    if not namespaces:
        return None
    listing = await _readable(client.list(RESOURCE_QUOTAS.viewed_as(_Quota), namespace=namespaces[0]))
    if listing is None:
        return None
    return {one.metadata.name: QuotaUse(hard=_milli(one.spec.hard), used=_milli(one.status.used))
            for one in listing.items}  # fmt: skip


def _milli(amounts: dict[str, str | int]) -> dict[str, int]:
    return {name: parse_milli(amount) for name, amount in amounts.items()}


# Nodes


def _lost_nodes(pods: Iterable[Pod], nodes: Iterable[SchedulableNode]) -> dict[str, NodeTrouble]:
    """Return the nodes of pods that are not ready or do not exist."""
    ready = {node.metadata.name: node_view(node).is_ready for node in nodes}
    used = sorted({pod.spec.node_name for pod in pods if pod.spec.node_name})
    return {
        name: NodeTrouble.NOT_READY if name in ready else NodeTrouble.GONE
        for name in used
        if not ready.get(name, False)
    }


# Pods without a node


async def _read_misfits(client: Client, caches: Caches, nodes: Iterable[SchedulableNode]) -> dict[Uid, Misfit]:
    """Diagnose the pods of the set that have no node. Only then the pods of all namespaces are listed."""
    if not any(is_unplaced(pod) and pod.is_active for pod in caches.pods.values()):
        return {}
    listing = await _readable(client.list(SCHEDULABLE_PODS))
    if listing is None:
        return {}
    views = [node_view(node) for node in nodes]
    running = [pod for pod in listing.items if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed")]
    placed = [
        PlacedPod(pod=_demand(pod), node=pod.spec.node_name, is_terminating=pod.metadata.is_terminating)
        for pod in running
    ]
    own = [pod for pod in listing.items if pod.metadata.uid in {one.metadata.uid for one in caches.pods.values()}]
    known: dict[Hashable, Diagnosis | None] = {}
    found: dict[Uid, Misfit] = {}
    for scope, waiting in _scopes(_gangs(caches, own)):
        key = _shape_of(scope)
        if key not in known and len(known) < MAX_DIAGNOSES:
            known[key] = diagnose(views, placed, scope)
        if diagnosis := known.get(key):
            cliques = [pod.labels.get(labels.PODCLIQUE, "") for pod in waiting if pod.shape == diagnosis.shape]
            found.update({pod.uid: _misfit(diagnosis, pod, cliques) for pod in waiting})
    return found


def _shape_of(scope: Scope) -> Hashable:
    """Return a key that is equal for scopes that are placed alike."""
    return (
        tuple(pod.shape for pod in scope.pods),
        (scope.required, scope.preferred),
        scope.all_nodes if scope.pack else (),
        tuple(_shape_of(child) for child in scope.children),
    )


def _gangs(caches: Caches, pods: Iterable[SchedulablePod]) -> list[GangDemand]:
    queue = SchedulingQueue()
    for gang in caches.gangs.values():
        queue.set_gang(gang, None)
    for pod in pods:
        state = scheduling_state(pod, pod.spec.node_name)
        if state is not None:
            node = pod.spec.node_name if state is State.SCHEDULED else ""
            queue.set_pod(QueuedPod(demand=_demand(pod), state=state, node=node))
    return list(queue.gangs())


def _scopes(gangs: Iterable[GangDemand]) -> Iterator[tuple[Scope, tuple[PodDemand, ...]]]:
    """Yield what is placed together, and the pods that wait for it: a minimum, or one pod above it."""
    for gang in gangs:
        if not is_complete(gang):
            continue
        if gang.needed_count:
            yield minimum_scope(gang), tuple(pod for group in gang.groups for pod in group.pending)
            continue
        for group in gang.groups:
            surplus = above_minimum(group)
            if surplus:
                yield Scope(name=group.name, pods=surplus[:1]), surplus


def _demand(pod: SchedulablePod) -> PodDemand:
    metadata = pod.metadata
    return PodDemand(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        shape=scheduling_class_of(pod),
        # Only the scheduler orders pods by age.
        created=metadata.creation_timestamp or EPOCH,
        labels=metadata.labels,
    )


def _misfit(diagnosis: Diagnosis, pod: PodDemand, cliques: list[str]) -> Misfit:
    """Return the reason for one pod. `cliques`: the cliques of the pods that the diagnosis is about."""
    is_own = diagnosis.shape is None or pod.shape == diagnosis.shape
    return Misfit(
        cause=diagnosis.cause,
        advice=diagnosis.advice,
        is_final=diagnosis.kind is MisfitKind.NEVER_FITS,
        clique="" if is_own or not cliques else cliques[0],
    )


# Logs


async def _read_log_lines(client: Client, pods: Iterable[Pod]) -> dict[tuple[Uid, str], str]:
    """Read the last line of containers that crashed."""
    crashed = [
        (pod, trouble.container)
        for pod in pods
        if (trouble := find_trouble(pod) or find_recent_crash(pod)) and trouble.is_crash
    ]
    chosen = crashed[:MAX_LOGS]
    lines = await asyncio.gather(*(_read_last_line(client, pod, container) for pod, container in chosen))
    return {
        (pod.metadata.uid, container): line for (pod, container), line in zip(chosen, lines, strict=True) if line
    }  # fmt: skip


async def _read_last_line(client: Client, pod: Pod, container: str) -> str:
    has_restarted = any(one.name == container and one.restart_count for one in pod.status.container_statuses)
    metadata = pod.metadata
    for previous in (True, False) if has_restarted else (False,):
        try:
            text = await client.read_log(
                metadata.namespace, metadata.name, container=container, tail=1, is_previous=previous
            )
        except ApiError:
            # The kubelet deleted the log, or the user may not read it. The explanation does not depend on it.
            continue
        if line := text.strip():
            return line[-LONGEST_LINE:]
    return ""


# The operator


async def _read_operator_absence(client: Client, now: datetime) -> str:
    """Return the evidence of the lease that no operator runs, or ""."""
    name = LeaderElection().resource_name
    leases = await _readable(client.list(LEASES, field_selector=f"metadata.name={name}"))
    found = [_describe_absence(lease, now) for lease in leases.items] if leases else []
    return found[0] if found and all(found) else ""


def _describe_absence(lease: Lease, now: datetime) -> str:
    spec, where = lease.spec, f"lease {lease.metadata.namespace}/{lease.metadata.name}"
    if not spec.holder_identity:
        return f"{where} has no holder"
    silence = int((now - spec.renew_time).total_seconds()) if spec.renew_time else 0
    if silence > 2 * spec.lease_duration_seconds:
        return f"{spec.holder_identity} renewed {where} {silence} s ago"
    return ""
