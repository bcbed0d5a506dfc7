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
from grove.controller.uncertain_writes import Unanswered, UnansweredWrites, unguarded
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
from grove.planner.status.write_failures import WriteId, id_of, id_of_look, id_of_read

LOOKS_AT_ONCE = 16


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A create that the API server rejected. The planner decides what to do about it."""

    part: int
    key: str
    code: str
    message: str
    # The object, as in `Pod default/a`, and the HTTP status code.
    target: str
    status_code: int


class ExecutionResult:
    """The result of executing a plan."""

    def __init__(self) -> None:
        self.refused: list[Rejected] = []
        self.created: list[tuple[int, str]] = []
        self.emits: list[EventRecord] = []
        # Actions that succeeded, with their replica index.
        self.done: list[tuple[int, Action]] = []
        self.errors: list[ApiError] = []
        self.unanswered: list[Unanswered] = []
        # Keys of chains that were executed completely.
        self.finished: list[str] = []
        # Replicas with a status that was not written.
        self.untold: frozenset[int] = frozenset()
        # The objects whose status was written.
        self.told: frozenset[Uid] = frozenset()
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
        self._unanswered = UnansweredWrites(client, caches)

    async def resolve_uncertain_writes(self, flow: Uid) -> None:
        """Read back writes whose outcome is unknown, and check that the set still exists. Call this before planning.

        Raises `ApiError` if the set cannot be read.
        """
        if not self._history.is_sure(flow):
            await self._read_set(flow)
        await self._unanswered.read(flow)

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
        self._unanswered.forget(flow)
        self._failed_writes.forget(flow)
        self._history.forget(flow)

    async def carry_out(self, chains: Sequence[Chain], flow: Uid) -> ExecutionResult:
        """Execute the chains concurrently; one that fails does not block the others."""
        outcome = ExecutionResult()
        past = _Past(self._failed_writes, self._clock, flow, self._history)
        run = _Run(self._client.in_lane(flow), self._caches, self._clock, self._settings, past, outcome)
        waiting = deque(self._without_unsure(chains, flow, outcome))
        workers = min(len(waiting), self._settings.chains_at_once)
        if workers == 1:
            await run.drain(waiting)
        elif workers:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(run.drain(waiting))
        self._unanswered.add(flow, outcome.unanswered)
        return outcome

    def _without_unsure(self, chains: Sequence[Chain], flow: Uid, outcome: ExecutionResult) -> Sequence[Chain]:
        unsure = self._unanswered.of(flow)
        if not unsure:
            return chains
        what = f"{unsure[0].resource.plural}/{unsure[0].name}"
        outcome.errors.append(ConnectionLost(f"{what}: nobody answers whether it was written"))
        parts = frozenset(write.part for write in unsure)
        return [chain for chain in chains if chain.part not in parts]

    async def write_statuses(self, statuses: Sequence[StatusWrite], flow: Uid) -> ExecutionResult:
        outcome = await self.carry_out([_as_chain(status) for status in statuses], flow)
        done = frozenset(outcome.finished)
        outcome.emits += [emit for status in statuses if _key_of(status) in done for emit in status.on_success]
        outcome.told = frozenset(status.uid for status in statuses if _key_of(status) in done)
        outcome.untold = frozenset(status.part for status in statuses if status.uid not in outcome.told)
        return outcome

    async def read_live_all(self, looks: Sequence[LiveRead], flow: Uid) -> None:
        """Read objects from the API server. Raises the first error: what could not be read must not be deleted."""
        for start in range(0, len(looks), LOOKS_AT_ONCE):
            async with asyncio.TaskGroup() as tasks:
                some = looks[start : start + LOOKS_AT_ONCE]
                attempts = [tasks.create_task(self._try_to_look(look, flow)) for look in some]
            for attempt in attempts:
                if (error := attempt.result()) is not None:
                    raise error

    async def _try_to_look(self, look: LiveRead, flow: Uid) -> ApiError | None:
        try:
            await self.look(look)
        except ApiError as error:
            self._failed_writes.record(flow, id_of_look(look), error, self._clock.now())
            return error
        self._failed_writes.clear(flow, id_of_look(look))
        return None

    async def look(self, look: LiveRead) -> None:
        """List some objects again: one watch can be broken while others work."""
        store = self._caches.store(look.resource)
        mark = store.begin_list()
        listing = await self._client.list(look.resource, namespace=look.namespace, label_selector=look.selector)
        owners = frozenset(look.owners)

        def is_expected(one: HasMetadata) -> bool:
            # An object that lost its label is missing from this filtered list but still exists.
            return one.metadata.controller in owners and labels.is_selected(one.metadata.labels, look.selector)

        if store.apply_partial_list(listing, mark, is_expected):
            self._history.end()
            raise ConnectionLost(f"{look.resource.plural} are older than before: everything is read again")


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
    return Chain(key=_key_of(status), part=WHOLE_SET, stages=((patch,),))


class _Past:
    """The failed writes of one flow from earlier attempts."""

    def __init__(self, failed_writes: FailedWrites, clock: Clock, flow: Uid, history: ServerHistory) -> None:
        self._failed_writes = failed_writes
        self._clock = clock
        self._lane = flow
        self._history = history

    @property
    def is_sure(self) -> bool:
        """Return whether the state that the plan is based on was not invalidated (see `restore_detection.py`)."""
        return self._history.is_sure(self._lane)

    def held_until(self, write: WriteId) -> datetime | None:
        """Return when the backoff of the write ends; None: it may be sent now."""
        until = self._failed_writes.held_until(self._lane, write)
        return until if until is not None and self._clock.now() < until else None

    def failed(self, write: WriteId, error: ApiError) -> datetime:
        """Record the failure; return when to retry the write."""
        return self._failed_writes.record(self._lane, write, error, self._clock.now())

    def succeeded(self, write: WriteId) -> None:
        self._failed_writes.clear(self._lane, write)


class _Run:
    """One execution of a plan."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        clock: Clock,
        settings: ControllerOptions,
        past: _Past,
        outcome: ExecutionResult,
    ) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock
        self._past = past
        self._outcome = outcome
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
        spent = is_late or self._outcome.write_count >= self._budget or not self._past.is_sure
        self._outcome.is_cut_short = self._outcome.is_cut_short or spent
        return spent

    async def _run_chain(self, chain: Chain) -> None:
        for stage in chain.stages:
            for start in range(0, len(stage), self._at_once):
                if self._is_spent() or not await self._run_together(chain, stage[start : start + self._at_once]):
                    return
        self._outcome.finished.append(chain.key)

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
            self._outcome.held_count += 1
            self._outcome.retry(until)
            return False
        self._outcome.write_count += 1
        try:
            await self._perform(chain, action)
        except _ChainEndedError:
            # Rejected creates are recorded in `rejected_creates.py`.
            self._past.succeeded(write_id)
            return False
        except ApiError as error:
            self._outcome.retry(self._past.failed(write_id, error))
            self._outcome.errors.append(error)
            if error.is_without_answer and (write := unguarded(chain, action)) is not None:
                self._outcome.unanswered.append(write)
            return False
        self._past.succeeded(write_id)
        self._outcome.done.append((chain.part, action))
        if action.on_success is not None:
            self._outcome.emits.append(action.on_success)
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
                await self._recognise(chain, action)
            elif error.is_refusal:
                self._refuse(chain, action, Reason.CREATE_REJECTED, error.brief, error.code)
            else:
                raise
        else:
            self._caches.store(action.resource).observe(created)
        self._outcome.created.append((chain.part, action.failure_key))

    async def _recognise(self, chain: Chain, action: Create) -> None:
        """Handle a name that exists: created by this operator (the response was lost), or a foreign object."""
        found = await self._client.get(action.resource, action.namespace, action.name)
        if found.metadata.controller != action.owner:
            self._refuse(chain, action, Reason.NAME_TAKEN, _whose(action, found.metadata), 409)
        lost = _lost_labels(action, found.metadata)
        if lost:
            found = await self._client.patch(
                action.resource, action.namespace, action.name, _label_patch(found.metadata, lost)
            )
        store = self._caches.store(action.resource)
        store.observe(found)
        if store.get(found.metadata.uid) is None:
            # The object exists but the watch has not shown it: retry later.
            raise ApiError(409, "AlreadyExists", f"{action.resource.kind} {action.name} exists and is not seen yet")
        # It may differ from the body of this create: the rest of the chain waits for a plan that is based on it.
        self._outcome.created.append((chain.part, action.failure_key))
        self._outcome.is_cut_short = True
        raise _ChainEndedError

    def _refuse(self, chain: Chain, action: Create, code: str, message: str, status_code: int) -> None:
        self._outcome.refused.append(
            Rejected(
                part=chain.part,
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
        self._caches.store(action.resource).mark_leaving(sorted(hit), self._clock.now())

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
            self._outcome.write_count += len(chunk)
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


def _whose(action: Create, found: ObjectMeta) -> str:
    """Explain why the name exists already, and what to do about it."""
    kind, name = action.resource.kind, action.name
    owner = action.body["metadata"]["ownerReferences"][0]
    if any((other.kind, other.name) == (owner["kind"], owner["name"]) for other in found.owner_references):
        return f"{kind} {name} is left of an earlier {owner['kind']} {owner['name']}; it is waited for until it is gone"
    if found.is_terminating:
        return f"{kind} {name} of somebody else is being deleted; it is waited for until it is gone"
    return f"{kind} {name} exists already and is not this set's; rename the set, or remove that {kind}"


def _lost_labels(action: Create, found: ObjectMeta) -> dict[str, str]:
    """Return the selector labels that the object lacks: an older version did not write them, or a user changed them."""
    ours: dict[str, str] = action.body["metadata"].get("labels", {})
    return {key: ours[key] for key in labels.FOUND_BY if key in ours and found.labels.get(key) != ours[key]}


def _label_patch(found: ObjectMeta, lost: dict[str, str]) -> JsonObject:
    return {"metadata": {"uid": found.uid, "resourceVersion": found.resource_version, "labels": lost}}
