"""Wait until a set has reached a state. Watches tell what changed; nothing polls."""

import asyncio
from collections.abc import Callable
from typing import Any, Literal, assert_never

import msgspec

from grove.api import labels
from grove.api.reasons import ConditionType, Reason
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, Resource
from grove.api.types.meta import Condition, ConditionStatus, find_condition
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet, SetPhase, WorkloadType
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.operations.connection import Connection
from grove.operations.object_ref import ObjectRef
from grove.operations.random_source import fresh_random
from grove.sdk.errors import GroveError, SetDeleted, SetFailed, WaitTimeout

StateName = Literal["available", "updated", "ready", "complete", "deleted"]
WaitCondition = StateName | Callable[[PodCliqueSet], bool]


class WaitProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a set while it is waited for. As text it is one line.

    Example:
        client.wait("chat", on_progress=print)
    """

    namespace: str
    name: str
    phase: str
    replicas: int
    available_replicas: int
    updated_replicas: int
    pods: int
    # Of a training set also pods that have succeeded.
    ready_pods: int
    # What the set reports about its progress.
    message: str = ""

    def __str__(self) -> str:
        counts = (
            f"{self.ready_pods}/{self.pods} pods ready, {self.available_replicas}/{self.replicas} replicas available"
        )
        return f"{self.name}: {counts}{f'; {self.message}' if self.message else ''}"


class ObservedSet(msgspec.Struct, frozen=True, kw_only=True):
    """A set and its children, as the watches show them."""

    pcs: PodCliqueSet
    groups: tuple[PodCliqueScalingGroup, ...] = ()
    cliques: tuple[PodClique, ...] = ()


class SetWaiter:
    """A waiter for one set, which exists when the waiting begins. Another set of its name does not count."""

    def __init__(self, connection: Connection, pcs: PodCliqueSet, condition: WaitCondition) -> None:
        self._connection = connection
        self._pcs = pcs
        # The last state in which the set existed.
        self._last = ObservedSet(pcs=pcs)
        self._condition = condition
        self._changed = asyncio.Event()
        self._sets: Store[PodCliqueSet] = Store()
        self._groups: Store[PodCliqueScalingGroup] = Store()
        self._cliques: Store[PodClique] = Store()
        self._reported: WaitProgress | None = None

    async def wait(
        self, timeout: float | None, on_progress: Callable[[WaitProgress], None] | None = None
    ) -> PodCliqueSet:
        """Return the set once the condition is true. Raises `WaitTimeout`, `SetFailed` or `SetDeleted`."""
        if self._condition == "complete" and self._pcs.spec.workload_type != WorkloadType.TRAINING:
            raise GroveError(
                f"pcs/{self._pcs.metadata.name} is no training set, so it never completes; wait for another condition"
            )
        try:
            async with asyncio.timeout(timeout):
                return await self._watch(on_progress)
        except TimeoutError as error:
            raise await self._describe_timeout(timeout) from error

    async def _watch(self, on_progress: Callable[[WaitProgress], None] | None) -> PodCliqueSet:
        metadata = self._pcs.metadata
        selector = labels.selector(labels.default_labels(metadata.name))
        async with asyncio.TaskGroup() as tasks:
            reflectors = [
                self._reflector(PODCLIQUESETS, self._sets, field_selector=f"metadata.name={metadata.name}"),
                self._reflector(GROUPS, self._groups, label_selector=selector),
                self._reflector(PODCLIQUES, self._cliques, label_selector=selector),
            ]
            watching = [tasks.create_task(reflector.run()) for reflector in reflectors]
            for reflector in reflectors:
                await reflector.listed.wait()
            found = await self._wait_for_condition(on_progress)
            for task in watching:
                task.cancel()
        return found

    def _reflector(
        self, resource: Resource[Any], store: Store[Any], *, label_selector: str = "", field_selector: str = ""
    ) -> Reflector[Any]:
        store.subscribe(lambda *_: self._changed.set())
        return Reflector(
            self._connection.client,
            resource,
            store,
            self._connection.clock,
            fresh_random(),
            namespace=self._pcs.metadata.namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    async def _wait_for_condition(self, on_progress: Callable[[WaitProgress], None] | None) -> PodCliqueSet:
        while True:
            self._changed.clear()
            current = self._find_current()
            if current is not None:
                self._last = current
                self._report(on_progress)
            if self._is_reached(current):
                return self._last.pcs
            await self._changed.wait()

    def _find_current(self) -> ObservedSet | None:
        owner = PODCLIQUESETS.owner_key(self._pcs.metadata)
        pcs = next((one for one in self._sets.values() if one.metadata.uid == owner.uid), None)
        if pcs is None:
            return None
        groups = tuple(one for one in self._groups.values() if one.metadata.controller == owner)
        owners = (owner, *(GROUPS.owner_key(group.metadata) for group in groups))
        cliques = tuple(one for one in self._cliques.values() if one.metadata.controller in owners)
        return ObservedSet(pcs=pcs, groups=groups, cliques=cliques)

    def _report(self, on_progress: Callable[[WaitProgress], None] | None) -> None:
        progress = build_progress(self._last)
        if on_progress is not None and progress != self._reported:
            on_progress(progress)
        self._reported = progress

    def _is_reached(self, current: ObservedSet | None) -> bool:
        if self._condition == "deleted":
            return current is None
        name = self._pcs.metadata.name
        if current is None or current.pcs.metadata.is_terminating:
            raise SetDeleted(f"pcs/{name} was deleted; submit it again to wait for it")
        if (failure := find_failure(current.pcs, self._condition)) is not None:
            raise SetFailed(f"pcs/{name} failed: {failure.message}", failure.reason)
        if callable(self._condition):
            return self._condition(current.pcs)
        return has_state(current, self._condition)

    async def _describe_timeout(self, timeout: float | None) -> WaitTimeout:
        """Return the error with an explanation, unless the user may not read what that needs."""
        from grove.operations.why.runner import explain

        metadata, now = self._pcs.metadata, self._connection.clock.now()
        progress = self._reported or build_progress(self._last)
        try:
            target = ObjectRef("podcliqueset", metadata.name)
            why = await explain(self._connection.client, now, metadata.namespace, target)
        except (ApiError, UserError):
            why = ()
        cause = f"; {why[0].text}" if why else ""
        wanted = "the condition" if callable(self._condition) else f"{self._condition!r}"
        return WaitTimeout(f"waited {timeout:g} s for {wanted} of {progress}{cause}", progress, why)


def build_progress(observed: ObservedSet) -> WaitProgress:
    """Return the progress of a set, with the pods of its cliques."""
    pcs, status = observed.pcs, observed.pcs.status
    progressing = find_condition(status.conditions, ConditionType.PROGRESSING)
    return WaitProgress(
        namespace=pcs.metadata.namespace,
        name=pcs.metadata.name,
        phase=status.phase or SetPhase.PENDING.value,
        replicas=pcs.spec.replicas,
        available_replicas=status.available_replicas,
        updated_replicas=status.updated_replicas,
        pods=sum(clique.spec.replicas for clique in observed.cliques),
        ready_pods=sum(map(_count_ready, observed.cliques)),
        message=progressing.message if progressing is not None and _is_current(pcs, progressing) else "",
    )


def _count_ready(clique: PodClique) -> int:
    return clique.status.ready_replicas + len(clique.status.succeeded_indices)


def has_state(observed: ObservedSet, state: StateName) -> bool:
    """Return whether the status of the newest generation shows this state. An older status does not count."""
    pcs, status = observed.pcs, observed.pcs.status
    if status.observed_generation != pcs.metadata.generation:
        return False
    match state:
        case "available":
            return status.phase == SetPhase.SUCCEEDED or status.available_replicas >= pcs.spec.replicas
        case "updated":
            return _is_updated(observed)
        case "ready":
            missing = [one for one in observed.cliques if _count_ready(one) < one.spec.replicas]
            return _is_updated(observed) and not missing
        case "complete":
            return status.phase == SetPhase.SUCCEEDED
        case "deleted":
            return False
        case _:
            assert_never(state)


def _is_updated(observed: ObservedSet) -> bool:
    """Return whether nothing is left to do. Groups and cliques are scaled without a new generation of the set."""
    pcs = observed.pcs
    groups = [one.status.observed_generation == one.metadata.generation for one in observed.groups]
    cliques = [one.status.observed_generation == one.metadata.generation for one in observed.cliques]
    is_seen = all((*groups, *cliques))
    if not is_seen or any(one.status.available_replicas < one.spec.replicas for one in observed.groups):
        return False
    if pcs.spec.workload_type == WorkloadType.TRAINING:
        return pcs.status.updated_replicas >= pcs.spec.replicas
    found = find_condition(pcs.status.conditions, ConditionType.PROGRESSING)
    return found is not None and _is_current(pcs, found) and found.reason == Reason.COMPLETE


def find_failure(pcs: PodCliqueSet, condition: WaitCondition) -> Condition | None:
    """Return the condition that says that waiting does not help: only a user can change it."""
    failed = find_condition(pcs.status.conditions, ConditionType.FAILED)
    if failed is not None and failed.status == ConditionStatus.TRUE:
        return failed
    stopped = find_condition(pcs.status.conditions, ConditionType.PROGRESSING)
    if stopped is None or stopped.status != ConditionStatus.FALSE or not _is_current(pcs, stopped):
        return None
    # A stalled update does not keep a set from being available.
    return stopped if stopped.reason == Reason.INVALID_SPEC or condition == "updated" else None


def _is_current(pcs: PodCliqueSet, condition: Condition) -> bool:
    return condition.observed_generation == pcs.metadata.generation
