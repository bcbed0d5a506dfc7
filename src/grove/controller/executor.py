"""Carries a plan out: stages in order, actions of a stage together, each with its precondition. It decides nothing.

Every answer enters the cache at once, so that the next plan never rests on a state older than our own actions.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from grove.api import labels
from grove.api.meta import HasMetadata, JsonObject, ObjectMeta, Uid
from grove.api.reasons import Reason
from grove.api.resources import Resource
from grove.clock import Clock
from grove.controller.caches import Caches
from grove.controller.settings import Settings
from grove.controller.unanswered import Unanswered, UnansweredWrites, unguarded
from grove.kube.client import Client
from grove.kube.errors import ApiError, ConnectionLost
from grove.planner.actions import (
    WHOLE_SET,
    Action,
    Chain,
    Create,
    Delete,
    DeleteMany,
    Emit,
    FreshLook,
    Patch,
    Stage,
    StatusWrite,
)

LOOKS_AT_ONCE = 16


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The server will not create this now; the planner decides what to do about it."""

    part: int
    key: str
    code: str
    message: str


class Outcome:
    """What came of a plan, collected while it is carried out."""

    def __init__(self) -> None:
        self.refused: list[Refused] = []
        self.created: list[tuple[int, str]] = []
        self.emits: list[Emit] = []
        # Actions that came through, with the part they were for.
        self.done: list[tuple[int, Action]] = []
        self.errors: list[ApiError] = []
        self.unanswered: list[Unanswered] = []
        # Keys of chains that came through to their end.
        self.finished: list[str] = []
        # Parts of the set with a status that was not written.
        self.untold: frozenset[int] = frozenset()
        # The objects whose status was written.
        self.told: frozenset[Uid] = frozenset()
        self.write_count = 0
        self.is_cut_short = False

    @property
    def retry_after(self) -> float | None:
        return max((error.retry_after for error in self.errors if error.retry_after is not None), default=None)


class _ChainEndedError(Exception):
    """The rest of this chain must wait for a new plan."""


class Executor:
    def __init__(self, client: Client, caches: Caches, clock: Clock, settings: Settings) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock
        self._settings = settings
        self._unanswered = UnansweredWrites(client, caches)

    async def make_sure(self, lane: str) -> None:
        """Call before planning: learn what came of writes that were not answered."""
        await self._unanswered.read(lane)

    def forget(self, lane: str) -> None:
        self._unanswered.forget(lane)

    async def carry_out(self, chains: Sequence[Chain], lane: str) -> Outcome:
        """Run the chains side by side; one that fails holds up no other."""
        outcome = Outcome()
        run = _Run(self._client.in_lane(lane), self._caches, self._clock, self._settings, outcome)
        waiting = deque(self._without_unsure(chains, lane, outcome))
        workers = min(len(waiting), self._settings.chains_at_once)
        if workers == 1:
            await run.work_off(waiting)
        elif workers:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(run.work_off(waiting))
        self._unanswered.add(lane, outcome.unanswered)
        return outcome

    def _without_unsure(self, chains: Sequence[Chain], lane: str, outcome: Outcome) -> Sequence[Chain]:
        unsure = self._unanswered.of(lane)
        if not unsure:
            return chains
        what = f"{unsure[0].resource.plural}/{unsure[0].name}"
        outcome.errors.append(ConnectionLost(f"{what}: nobody answers whether it was written"))
        parts = frozenset(write.part for write in unsure)
        return [chain for chain in chains if chain.part not in parts]

    async def write_statuses(self, statuses: Sequence[StatusWrite], lane: str) -> Outcome:
        outcome = await self.carry_out([_as_chain(status) for status in statuses], lane)
        done = frozenset(outcome.finished)
        outcome.emits += [emit for status in statuses if _key_of(status) in done for emit in status.on_success]
        outcome.told = frozenset(status.uid for status in statuses if _key_of(status) in done)
        outcome.untold = frozenset(status.part for status in statuses if status.uid not in outcome.told)
        return outcome

    async def look_together(self, looks: Sequence[FreshLook]) -> None:
        """Raises the first error: what could not be looked at must not be destroyed."""
        for start in range(0, len(looks), LOOKS_AT_ONCE):
            async with asyncio.TaskGroup() as tasks:
                attempts = [tasks.create_task(self._try_to_look(look)) for look in looks[start : start + LOOKS_AT_ONCE]]
            for attempt in attempts:
                if (error := attempt.result()) is not None:
                    raise error

    async def _try_to_look(self, look: FreshLook) -> ApiError | None:
        try:
            await self.look(look)
        except ApiError as error:
            return error
        return None

    async def look(self, look: FreshLook) -> None:
        """List some objects afresh: a watch can be cut while others live."""
        store = self._caches.store(look.resource)
        mark = store.begin_list()
        listing = await self._client.list(look.resource, namespace=look.namespace, label_selector=look.selector)
        owners = frozenset(look.owner_uids)

        def is_expected(one: HasMetadata) -> bool:
            # One whose label somebody took away is not in the list, and there all the same.
            return one.metadata.controller_uid in owners and labels.is_selected(one.metadata.labels, look.selector)

        store.apply_partial_list(listing, mark, is_expected)


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


class _Run:
    """One plan being carried out."""

    def __init__(self, client: Client, caches: Caches, clock: Clock, settings: Settings, outcome: Outcome) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock
        self._outcome = outcome
        self._deadline = clock.monotonic() + settings.pass_seconds
        self._budget = settings.pass_writes
        self._at_once = settings.chains_at_once

    async def work_off(self, waiting: deque[Chain]) -> None:
        while waiting:
            if self._is_spent():
                return
            await self._run_chain(waiting.popleft())

    def _is_spent(self) -> bool:
        spent = self._outcome.write_count >= self._budget or self._clock.monotonic() >= self._deadline
        self._outcome.is_cut_short = self._outcome.is_cut_short or spent
        return spent

    async def _run_chain(self, chain: Chain) -> None:
        for stage in chain.stages:
            for start in range(0, len(stage), self._at_once):
                if self._is_spent() or not await self._run_together(chain, stage[start : start + self._at_once]):
                    return
        self._outcome.finished.append(chain.key)

    async def _run_together(self, chain: Chain, actions: Stage) -> bool:
        """False: at least one action did not come through, so what builds on it must wait."""
        if len(actions) == 1:
            return await self._attempt(chain, actions[0])
        async with asyncio.TaskGroup() as tasks:
            attempts = [tasks.create_task(self._attempt(chain, action)) for action in actions]
        return all(attempt.result() for attempt in attempts)

    async def _attempt(self, chain: Chain, action: Action) -> bool:
        self._outcome.write_count += 1
        try:
            await self._perform(chain, action)
        except _ChainEndedError:
            return False
        except ApiError as error:
            self._outcome.errors.append(error)
            if error.is_without_answer and (write := unguarded(chain, action)) is not None:
                self._outcome.unanswered.append(write)
            return False
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
                await self._delete(action)
            case DeleteMany():
                await self._client.delete_collection(action.resource, action.namespace, label_selector=action.selector)
                self._caches.store(action.resource).mark_leaving(action.uids, self._clock.now())
            case _:
                assert_never(action)

    async def _create(self, chain: Chain, action: Create) -> None:
        try:
            created = await self._client.create(action.resource, action.namespace, action.body)
        except ApiError as error:
            if error.is_already_exists:
                await self._recognise(chain, action)
            elif error.is_refusal:
                self._refuse(chain, action, Reason.CREATE_REFUSED, error.message)
            else:
                raise
        else:
            self._caches.store(action.resource).observe(created)
        self._outcome.created.append((chain.part, action.failure_key))

    async def _recognise(self, chain: Chain, action: Create) -> None:
        """The name is taken: by ourselves, when an answer was lost; or by a stranger."""
        found = await self._client.get(action.resource, action.namespace, action.name)
        owner = action.body["metadata"]["ownerReferences"][0]
        if found.metadata.controller_uid != owner["uid"]:
            self._refuse(chain, action, Reason.NAME_TAKEN, _whose(action, owner, found.metadata))
        lost = _lost_labels(action, found.metadata)
        if lost:
            found = await self._client.patch(
                action.resource, action.namespace, action.name, _label_patch(found.metadata, lost)
            )
        store = self._caches.store(action.resource)
        store.observe(found)
        if store.get(found.metadata.uid) is None:
            # It exists and our watch does not tell: only time can help.
            raise ApiError(409, "AlreadyExists", f"{action.resource.kind} {action.name} exists and is not seen yet")
        # It may say something else than what we would have made: what builds on it waits for a plan that has seen it.
        self._outcome.created.append((chain.part, action.failure_key))
        self._outcome.is_cut_short = True
        raise _ChainEndedError

    def _refuse(self, chain: Chain, action: Create, code: str, message: str) -> None:
        self._outcome.refused.append(Refused(part=chain.part, key=action.failure_key, code=code, message=message))
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
            # What was read may be what we knew: only the error makes sure that the set is visited again.
            raise
        self._caches.store(action.resource).observe(patched)

    async def _delete(self, action: Delete) -> None:
        store = self._caches.store(action.resource)
        try:
            left = await self._client.delete(action.resource, action.namespace, action.name, uid=action.uid)
        except ApiError as error:
            if not error.is_conflict:
                raise
            await self._read_again(action.resource, action.namespace, action.name, action.uid)
            raise
        if left is None:
            store.forget(action.uid)
        else:
            store.observe(left)

    async def _read_again(self, resource: Resource[Any], namespace: str, name: str, uid: Uid) -> None:
        """What we decided on is not what is there: take a fresh look, so that the next plan rests on it."""
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


def _whose(action: Create, owner: JsonObject, found: ObjectMeta) -> str:
    """Why a name is taken, and what to do about it."""
    kind, name = action.resource.kind, action.name
    if any((other.kind, other.name) == (owner["kind"], owner["name"]) for other in found.owner_references):
        return f"{kind} {name} is left of an earlier {owner['kind']} {owner['name']}; it is waited for until it is gone"
    if found.is_leaving:
        return f"{kind} {name} of somebody else is being deleted; it is waited for until it is gone"
    return f"{kind} {name} exists already and is not this set's; rename the set, or remove that {kind}"


def _lost_labels(action: Create, found: ObjectMeta) -> dict[str, str]:
    """Labels that an older version did not write, or that somebody changed, and by which we find the object."""
    ours: dict[str, str] = action.body["metadata"].get("labels", {})
    return {key: ours[key] for key in labels.FOUND_BY if key in ours and found.labels.get(key) != ours[key]}


def _label_patch(found: ObjectMeta, lost: dict[str, str]) -> JsonObject:
    return {"metadata": {"uid": found.uid, "resourceVersion": found.resource_version, "labels": lost}}
