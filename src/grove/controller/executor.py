"""Executes a plan: stages in order, actions of a stage in parallel, each with its precondition. It decides nothing.

Every response is stored in the cache at once, so that the next plan never uses a state older than the operator's own
writes.
"""

import asyncio
from collections import deque
from collections.abc import Sequence, Set
from datetime import datetime
from typing import Any, assert_never

import msgspec

from grove.api import labels
from grove.api.reasons import Reason
from grove.api.resources import PODCLIQUESETS, Resource
from grove.api.types.meta import HasMetadata, JsonObject, ObjectMeta, Uid
from grove.clock import Clock
from grove.controller.controller_options import ControllerOptions
from grove.controller.failed_writes import FailedWrites
from grove.controller.informers import Caches
from grove.controller.restore_detection import ServerHistory
from grove.controller.uncertain_writes import UncertainWrite, UncertainWrites, find_uncertain_write
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client
from grove.planner.actions import (
    WHOLE_SET,
    Action,
    Chain,
    Create,
    Delete,
    DeleteMany,
    EventRecord,
    LiveRead,
    Patch,
    Stage,
    StatusWrite,
    earliest,
)
from grove.planner.status.write_failures import WriteId, id_of, id_of_live_read, id_of_read

READS_AT_ONCE = 16


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A create that the API server rejected. The planner decides what to do about it."""

    replica_index: int
    key: str
    code: str
    message: str
    # The object, as in `Pod default/a`, and the HTTP status code.
    target: str
    status_code: int


class ExecutionResult:
    """The result of executing a plan."""

    def __init__(self) -> None:
        self.rejected: list[Rejected] = []
        self.created: list[tuple[int, str]] = []
        self.emits: list[EventRecord] = []
        # Actions that succeeded, with their replica index.
        self.done: list[tuple[int, Action]] = []
        self.errors: list[ApiError] = []
        self.uncertain: list[UncertainWrite] = []
        # Keys of chains that were executed completely.
        self.finished: list[str] = []
        # Replicas with a status that was not written.
        self.not_written: frozenset[int] = frozenset()
        # The objects whose status was written.
        self.written: frozenset[Uid] = frozenset()
        self.write_count = 0
        self.is_cut_short = False
        # Writes that were not sent, because they are in backoff.
        self.held_count = 0
        # When to retry the first of the writes that failed or were not sent.
        self.retry_at: datetime | None = None

    def retry(self, at: datetime | None) -> None:
        self.retry_at = earliest(self.retry_at, at)

    @property
    def retry_after(self) -> float | None:
        return max((error.retry_after for error in self.errors if error.retry_after is not None), default=None)


class _ChainEndedError(Exception):
    """Raised to stop this chain: the rest must wait for a new plan."""


class Executor:
    def __init__(
        self,
        client: Client,
        caches: Caches,
        clock: Clock,
        settings: ControllerOptions,
        failed_writes: FailedWrites,
        history: ServerHistory,
    ) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock
        self._settings = settings
        self._failed_writes = failed_writes
        self._history = history
        self._uncertain_writes = UncertainWrites(client, caches)

    async def resolve_uncertain_writes(self, flow: Uid) -> None:
        """Read back writes whose outcome is unknown, and check that the set still exists. Call this before planning.

        Raises `ApiError` if the set cannot be read.
        """
        if not self._history.is_sure(flow):
            await self._read_set(flow)
        await self._uncertain_writes.read(flow)

    async def _read_set(self, flow: Uid) -> None:
        held = self._caches.sets.get(flow)
        try:
            await self._history.resolve_uncertain_writes(flow, self._client, self._caches)
        except ApiError as error:
            if held is not None:
                read = id_of_read(PODCLIQUESETS, held.metadata)
                self._failed_writes.record(flow, read, error, self._clock.now())
            raise
        if held is not None:
            self._failed_writes.clear(flow, id_of_read(PODCLIQUESETS, held.metadata))

    def forget(self, flow: Uid) -> None:
        self._uncertain_writes.forget(flow)
        self._failed_writes.forget(flow)
        self._history.forget(flow)

    async def execute(self, chains: Sequence[Chain], flow: Uid) -> ExecutionResult:
        """Execute the chains concurrently; one that fails does not block the others."""
        result = ExecutionResult()
        past = _FlowHistory(self._failed_writes, self._clock, flow, self._history)
        run = _Run(self._client.with_flow(flow), self._caches, self._clock, self._settings, past, result)
        waiting = deque(self._without_uncertain(chains, flow, result))
        workers = min(len(waiting), self._settings.chains_at_once)
        if workers == 1:
            await run.drain(waiting)
        elif workers:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(run.drain(waiting))
        self._uncertain_writes.add(flow, result.uncertain)
        return result

    def _without_uncertain(self, chains: Sequence[Chain], flow: Uid, result: ExecutionResult) -> Sequence[Chain]:
        unsure = self._uncertain_writes.of(flow)
        if not unsure:
            return chains
        what = f"{unsure[0].resource.plural}/{unsure[0].name}"
        result.errors.append(ConnectionLost(f"{what}: the outcome of the write is unknown: the server did not answer"))
        replica_indices = frozenset(write.replica_index for write in unsure)
        return [chain for chain in chains if chain.replica_index not in replica_indices]

    async def write_statuses(self, statuses: Sequence[StatusWrite], flow: Uid) -> ExecutionResult:
        result = await self.execute([_as_chain(status) for status in statuses], flow)
        done = frozenset(result.finished)
        result.emits += [emit for status in statuses if _key_of(status) in done for emit in status.on_success]
        result.written = frozenset(status.uid for status in statuses if _key_of(status) in done)
        result.not_written = frozenset(status.replica_index for status in statuses if status.uid not in result.written)
        return result

    async def read_live_all(self, live_reads: Sequence[LiveRead], flow: Uid) -> None:
        """Read objects from the API server. Raises the first error: what could not be read must not be deleted."""
        for start in range(0, len(live_reads), READS_AT_ONCE):
            async with asyncio.TaskGroup() as tasks:
                some = live_reads[start : start + READS_AT_ONCE]
                attempts = [tasks.create_task(self._try_live_read(live_read, flow)) for live_read in some]
            for attempt in attempts:
                if (error := attempt.result()) is not None:
                    raise error

    async def _try_live_read(self, live_read: LiveRead, flow: Uid) -> ApiError | None:
        try:
            await self.read_live(live_read)
        except ApiError as error:
            self._failed_writes.record(flow, id_of_live_read(live_read), error, self._clock.now())
            return error
        self._failed_writes.clear(flow, id_of_live_read(live_read))
        return None

    async def read_live(self, live_read: LiveRead) -> None:
        """List some objects again: one watch can be broken while others work."""
        store = self._caches.store(live_read.resource, live_read.namespace)
        mark = store.begin_list()
        listing = await self._client.list(
            live_read.resource, namespace=live_read.namespace, label_selector=live_read.selector
        )
        owners = frozenset(live_read.owners)

        def is_expected(one: HasMetadata) -> bool:
            # An object that lost its label is missing from this filtered list but still exists.
            return one.metadata.controller in owners and labels.is_selected(one.metadata.labels, live_read.selector)

        if store.apply_partial_list(listing, mark, is_expected):
            self._history.end()
            raise ConnectionLost(f"{live_read.resource.plural} are older than before: everything is read again")


def _key_of(status: StatusWrite) -> str:
    return f"status/{status.uid}"


def _as_chain(status: StatusWrite) -> Chain:
    patch = Patch(
        resource=status.resource,
        namespace=status.namespace,
        name=status.name,
        uid=status.uid,
        resource_version=status.resource_version,
        patch={"status": status.patch},
        subresource="status",
        reason="status follows what was observed",
    )
    return Chain(key=_key_of(status), replica_index=WHOLE_SET, stages=((patch,),))


class _FlowHistory:
    """The failed writes of one flow from earlier attempts."""

    def __init__(self, failed_writes: FailedWrites, clock: Clock, flow: Uid, history: ServerHistory) -> None:
        self._failed_writes = failed_writes
        self._clock = clock
        self._flow = flow
        self._history = history

    @property
    def is_sure(self) -> bool:
        """Return whether the state that the plan is based on was not invalidated (see `restore_detection.py`)."""
        return self._history.is_sure(self._flow)

    def held_until(self, write: WriteId) -> datetime | None:
        """Return when the backoff of the write ends; None: it may be sent now."""
        until = self._failed_writes.held_until(self._flow, write)
        return until if until is not None and self._clock.now() < until else None

    def record_failure(self, write: WriteId, error: ApiError) -> datetime:
        """Record the failure; return when to retry the write."""
        return self._failed_writes.record(self._flow, write, error, self._clock.now())

    def record_success(self, write: WriteId) -> None:
        self._failed_writes.clear(self._flow, write)


class _Run:
    """One execution of a plan."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        clock: Clock,
        settings: ControllerOptions,
        past: _FlowHistory,
        result: ExecutionResult,
    ) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock
        self._past = past
        self._result = result
        self._deadline = clock.monotonic() + settings.pass_seconds
        self._budget = settings.pass_writes
        self._at_once = settings.chains_at_once

    async def drain(self, waiting: deque[Chain]) -> None:
        while waiting:
            if self._is_spent():
                return
            await self._run_chain(waiting.popleft())

    def _is_spent(self) -> bool:
        is_late = self._clock.monotonic() >= self._deadline
        spent = is_late or self._result.write_count >= self._budget or not self._past.is_sure
        self._result.is_cut_short = self._result.is_cut_short or spent
        return spent

    async def _run_chain(self, chain: Chain) -> None:
        for stage in chain.stages:
            for start in range(0, len(stage), self._at_once):
                if self._is_spent() or not await self._run_together(chain, stage[start : start + self._at_once]):
                    return
        self._result.finished.append(chain.key)

    async def _run_together(self, chain: Chain, actions: Stage) -> bool:
        """Execute the actions in parallel. Return False if one failed: the next stage must wait."""
        if len(actions) == 1:
            return await self._attempt(chain, actions[0])
        async with asyncio.TaskGroup() as tasks:
            attempts = [tasks.create_task(self._attempt(chain, action)) for action in actions]
        return all(attempt.result() for attempt in attempts)

    async def _attempt(self, chain: Chain, action: Action) -> bool:
        write_id = id_of(action)
        if (until := self._past.held_until(write_id)) is not None:
            self._result.held_count += 1
            self._result.retry(until)
            return False
        self._result.write_count += 1
        try:
            await self._perform(chain, action)
        except _ChainEndedError:
            # Rejected creates are recorded in `rejected_creates.py`.
            self._past.record_success(write_id)
            return False
        except ApiError as error:
            self._result.retry(self._past.record_failure(write_id, error))
            self._result.errors.append(error)
            if error.is_outcome_unknown and (write := find_uncertain_write(chain, action)) is not None:
                self._result.uncertain.append(write)
            return False
        self._past.record_success(write_id)
        self._result.done.append((chain.replica_index, action))
        if action.on_success is not None:
            self._result.emits.append(action.on_success)
        return True

    async def _perform(self, chain: Chain, action: Action) -> None:
        match action:
            case Create():
                await self._create(chain, action)
            case Patch():
                await self._patch(action)
            case Delete():
                await self._delete(action.resource, action.namespace, action.name, action.uid)
            case DeleteMany():
                await self._delete_many(action)
            case _:
                assert_never(action)

    async def _create(self, chain: Chain, action: Create) -> None:
        try:
            created = await self._client.create(action.resource, action.namespace, action.body)
        except ApiError as error:
            if error.is_already_exists:
                await self._adopt_existing(chain, action)
            elif error.is_rejection:
                self._reject(chain, action, Reason.CREATE_REJECTED, error.brief, error.code)
            else:
                raise
        else:
            self._caches.store(action.resource).observe(created)
        self._result.created.append((chain.replica_index, action.failure_key))

    async def _adopt_existing(self, chain: Chain, action: Create) -> None:
        """Handle a name that exists: created by this operator (the response was lost), or a foreign object."""
        found = await self._client.get(action.resource, action.namespace, action.name)
        if found.metadata.controller != action.owner:
            self._reject(chain, action, Reason.NAME_TAKEN, _describe_name_conflict(action, found.metadata), 409)
        lost = _lost_labels(action, found.metadata)
        if lost:
            found = await self._client.patch(
                action.resource, action.namespace, action.name, _label_patch(found.metadata, lost)
            )
        store = self._caches.store(action.resource)
        store.observe(found)
        if store.get(found.metadata.uid) is None:
            # The object exists but the watch has not shown it: retry later.
            raise ApiError(
                409, "AlreadyExists", f"{action.resource.kind} {action.name} exists but is not in the cache yet"
            )
        # It may differ from the body of this create: the rest of the chain waits for a plan that is based on it.
        self._result.created.append((chain.replica_index, action.failure_key))
        self._result.is_cut_short = True
        raise _ChainEndedError

    def _reject(self, chain: Chain, action: Create, code: str, message: str, status_code: int) -> None:
        self._result.rejected.append(
            Rejected(
                replica_index=chain.replica_index,
                key=action.failure_key,
                code=code,
                message=message,
                target=id_of(action).target,
                status_code=status_code,
            )
        )
        raise _ChainEndedError

    async def _patch(self, action: Patch) -> None:
        metadata = {**action.patch.get("metadata", {}), "uid": action.uid}
        if action.resource_version:
            metadata["resourceVersion"] = action.resource_version
        body: JsonObject = {**action.patch, "metadata": metadata}
        try:
            patched = await self._client.patch(
                action.resource, action.namespace, action.name, body, subresource=action.subresource
            )
        except ApiError as error:
            if not (error.is_conflict or error.is_not_found):
                raise
            await self._read_again(action.resource, action.namespace, action.name, action.uid)
            # The object may be unchanged in the cache: only the error requeues the set.
            raise
        self._caches.store(action.resource).observe(patched)

    async def _delete(self, resource: Resource[Any], namespace: str, name: str, uid: Uid) -> None:
        store = self._caches.store(resource)
        try:
            left = await self._client.delete(resource, namespace, name, uid=uid)
        except ApiError as error:
            if not error.is_conflict:
                raise
            await self._read_again(resource, namespace, name, uid)
            raise
        if left is None:
            store.forget(uid)
        else:
            store.observe(left)

    async def _delete_many(self, action: DeleteMany) -> None:
        """Delete the selected objects: in one request if these owners control all of them, else one by one.

        The request deletes exactly what was listed: objects that got the labels later are not deleted.
        """
        listing = await self._client.list_metadata(
            action.resource,
            namespace=action.namespace,
            label_selector=action.selector,
            field_selector=action.field_selector,
        )
        owners = frozenset(action.owners)
        ours = [one.metadata for one in listing.items if one.metadata.controller in owners]
        if len(ours) < len(listing.items) or listing.unreadable:
            await self._delete_each(action.resource, ours)
        elif ours:
            await self._client.delete_collection(
                action.resource,
                action.namespace,
                label_selector=action.selector,
                field_selector=action.field_selector,
                resource_version=listing.resource_version,
            )
        hit = {one.uid for one in ours}
        if action.field_selector and not hit.issuperset(action.uids):
            await self._read_unmatched(action, hit)
        else:
            # An object that the selector does not match any more is gone.
            hit.update(action.uids)
        self._caches.store(action.resource).mark_terminating(sorted(hit), self._clock.now())

    async def _read_unmatched(self, action: DeleteMany, hit: Set[Uid]) -> None:
        """Read objects that the field selector does not match any more: they stay, for example finished pods."""
        listing = await self._client.list(action.resource, namespace=action.namespace, label_selector=action.selector)
        store, found = self._caches.store(action.resource), {one.metadata.uid: one for one in listing.items}
        for uid in (one for one in action.uids if one not in hit):
            if uid in found:
                store.observe(found[uid])
            else:
                store.forget(uid)

    async def _delete_each(self, resource: Resource[Any], found: Sequence[ObjectMeta]) -> None:
        for start in range(0, len(found), self._at_once):
            # At least one chunk, so that every attempt makes progress; the next plan deletes the rest.
            if start and self._is_spent():
                raise _ChainEndedError
            chunk = found[start : start + self._at_once]
            self._result.write_count += len(chunk)
            async with asyncio.TaskGroup() as tasks:
                attempts = [tasks.create_task(self._try_to_delete(resource, one)) for one in chunk]
            for attempt in attempts:
                if (error := attempt.result()) is not None:
                    raise error

    async def _try_to_delete(self, resource: Resource[Any], found: ObjectMeta) -> ApiError | None:
        try:
            await self._delete(resource, found.namespace, found.name, found.uid)
        except ApiError as error:
            return error
        return None

    async def _read_again(self, resource: Resource[Any], namespace: str, name: str, uid: Uid) -> None:
        """Read an object whose precondition failed, so that the next plan uses its current state."""
        store = self._caches.store(resource)
        try:
            found = await self._client.get(resource, namespace, name)
        except ApiError as error:
            if not error.is_not_found:
                raise
            store.forget(uid)
            return
        if found.metadata.uid != uid:
            store.forget(uid)
        store.observe(found)


def _describe_name_conflict(action: Create, found: ObjectMeta) -> str:
    """Explain why the name exists already, and what to do about it."""
    kind, name = action.resource.kind, action.name
    owner = action.body["metadata"]["ownerReferences"][0]
    if any((other.kind, other.name) == (owner["kind"], owner["name"]) for other in found.owner_references):
        return (
            f"{kind} {name} belongs to an earlier {owner['kind']} {owner['name']}; the operator waits until it is gone"
        )
    if found.is_terminating:
        return f"{kind} {name} of another owner is being deleted; the operator waits until it is gone"
    return f"{kind} {name} exists already and belongs to another owner; rename the set, or delete that {kind}"


def _lost_labels(action: Create, found: ObjectMeta) -> dict[str, str]:
    """Return the selector labels that the object lacks: an older version did not write them, or a user changed them."""
    ours: dict[str, str] = action.body["metadata"].get("labels", {})
    return {key: ours[key] for key in labels.FOUND_BY if key in ours and found.labels.get(key) != ours[key]}


def _label_patch(found: ObjectMeta, lost: dict[str, str]) -> JsonObject:
    return {"metadata": {"uid": found.uid, "resourceVersion": found.resource_version, "labels": lost}}
