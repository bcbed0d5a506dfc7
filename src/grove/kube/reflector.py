"""A reflector as in client-go: it lists and watches one kind, and recovers when either breaks.

It is a state machine whose states are types. The objects go to a `Store` (`store.py`), which notifies its listeners.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar, assert_never

import msgspec

from grove.api.resources import Resource
from grove.api.types.meta import HasMetadata, ObjectMeta, Uid
from grove.clock import Clock
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client
from grove.kube.response_decoding import Added, Bookmark, Deleted, Modified, Unreadable, WatchEvent
from grove.kube.store import Store

T = TypeVar("T", bound=HasMetadata)

SHORTEST_WATCH_SECONDS = 300
LONGEST_WATCH_SECONDS = 600
SILENCE_SECONDS = 30
STABLE_WATCH_SECONDS = 1.0
# A watch that ends this much before its timeout was cut.
EARLY_SECONDS = 5
FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 30.0

# After these codes the watch resumes from its last version; after any other error the reflector lists again.
_RESUMABLE = (0, 429, 500, 502, 503)


class ListAll(msgspec.Struct, frozen=True, kw_only=True):
    """The state without a version to resume from: list everything. `failures`: consecutive failed attempts."""

    failures: int = 0


class WatchFrom(msgspec.Struct, frozen=True, kw_only=True):
    """The state that resumes after this version. `is_cut`: the last watch ended early, so check the server."""

    resource_version: str
    failures: int = 0
    is_cut: bool = False


class BackOff(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    then: ListAll | WatchFrom


State = ListAll | WatchFrom | BackOff


def _ignore(*_: object) -> None:
    pass


class ReflectorCallbacks(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that a reflector calls."""

    # An optional kind is served now, or is not served any more.
    on_served_change: Callable[[], None] = _ignore
    # A watch broke; the next response may come from another server.
    on_watch_lost: Callable[[], None] = _ignore
    # True: a watch was opened. False: it ended before its time.
    on_watch: Callable[[bool], None] = _ignore
    # The server could not be reached, or rejected a list or a watch. The reflector tries again.
    on_error: Callable[[ApiError], None] = _ignore
    # The server lost known objects: its data were restored from a backup.
    on_new_history: Callable[[], None] = _ignore


_NO_CALLBACKS = ReflectorCallbacks()


class Reflector(Generic[T]):
    """A reflector, which keeps a store in sync with the server. A failure changes its state, and never ends it."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        store: Store[T],
        clock: Clock,
        random: Random,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        is_optional: bool = False,
        callbacks: ReflectorCallbacks = _NO_CALLBACKS,
    ) -> None:
        """Create a reflector. An optional kind may not be served; then it has no objects."""
        self._client = client
        self._resource = resource
        self._store = store
        self._clock = clock
        self._random = random
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._is_optional = is_optional
        self._callbacks = callbacks
        self._resource_version = ""
        self.listed = asyncio.Event()
        """Set when the first list was applied."""
        self.answered = asyncio.Event()
        """Set when the server has listed the kind, or reported that it does not serve it."""
        self.is_missing = False
        """The server does not serve this kind. The reflector retries with a backoff."""
        # When the last watch ended; None: one is open.
        self._blind_since: float | None = clock.monotonic()
        self.restarts = 0
        """The number of watches that were rejected, broke or hung; those that ended in order do not count."""
        self.unreadable: dict[Uid, ObjectMeta] = {}
        """Objects that cannot be decoded. The store does not have them, or has an older version."""

    @property
    def stale_seconds(self) -> float:
        """Return for how long the store may be stale: no watch is open, or it does not show the client's own writes."""
        if self.is_missing:
            return 0.0
        blind = 0.0 if self._blind_since is None else self._clock.monotonic() - self._blind_since
        return max(blind, self._store.behind_seconds)

    async def run(self) -> None:
        """List and watch until cancelled."""
        state: State = ListAll()
        while True:
            state = await self.step(state)

    async def step(self, state: State) -> State:
        match state:
            case ListAll():
                return await self._list(state)
            case WatchFrom(is_cut=True):
                return await self._check(state)
            case WatchFrom():
                return await self._watch(state)
            case BackOff():
                await self._clock.sleep(state.seconds)
                return state.then
            case _:
                assert_never(state)

    async def _list(self, state: ListAll) -> State:
        mark = self._store.begin_list()
        try:
            listing = await self._client.list(
                self._resource,
                namespace=self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
            )
        except ApiError as error:
            if error.is_not_found and self._is_optional:
                self._set_missing(is_missing=True)
            self._callbacks.on_error(error)
            return self._back_off(ListAll(failures=state.failures + 1), error)
        self.unreadable = {one.uid: one for one in listing.unreadable}
        if self._store.apply_list(listing, mark):
            self._callbacks.on_new_history()
        self.listed.set()
        self._set_missing(is_missing=False)
        return WatchFrom(resource_version=listing.resource_version, failures=state.failures)

    def _set_missing(self, *, is_missing: bool) -> None:
        is_changed = is_missing != self.is_missing
        if is_missing and is_changed:
            # A kind that is not served has no objects.
            self._store.apply_nothing()
        self.is_missing = is_missing
        self.answered.set()
        if is_changed:
            self._callbacks.on_served_change()

    async def _check(self, state: WatchFrom) -> State:
        """Check the current version of the server before a watch is resumed.

        A server that was restored may be behind the version to resume from: it would accept the watch
        and send nothing until it has caught up.
        """
        newest = max(self._store.newest_version, int(state.resource_version))
        try:
            version = await self._client.current_version(
                self._resource,
                namespace=self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
            )
        except ApiError as error:
            return self._after_watch(error, state.failures, is_stable=False, is_cut=True)
        if version < newest:
            return ListAll(failures=state.failures)
        return msgspec.structs.replace(state, is_cut=False)

    async def _watch(self, state: WatchFrom) -> State:
        self._resource_version = state.resource_version
        started_at = self._clock.monotonic()
        seconds = self._random.randint(SHORTEST_WATCH_SECONDS, LONGEST_WATCH_SECONDS)
        try:
            # One deadline for the whole watch: the server should end it earlier, so reaching it means that it hangs.
            async with asyncio.timeout(seconds + SILENCE_SECONDS):
                await self._follow(seconds)
            error = None
        except ApiError as caught:
            error = caught
        except TimeoutError:
            error = ConnectionLost(f"watch of {self._resource.plural}: silent after its {seconds} s")
        elapsed = self._clock.monotonic() - started_at
        is_stable = elapsed >= STABLE_WATCH_SECONDS
        # A watch that delivered events did not fail, however short it was: else each cut would increase the backoff.
        has_progress = self._resource_version != state.resource_version
        failures = 0 if is_stable or has_progress else state.failures
        # A server that shuts down gracefully also ends its watches gracefully.
        is_cut = error is not None or elapsed < seconds - EARLY_SECONDS
        if is_cut:
            self._callbacks.on_watch(False)
        return self._after_watch(error, failures, is_stable=is_stable, is_cut=is_cut)

    async def _follow(self, seconds: int) -> None:
        watch = self._client.watch(
            self._resource,
            resource_version=self._resource_version,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=seconds,
        )
        async with watch as events:
            self._blind_since = None
            self._callbacks.on_watch(True)
            try:
                async for event in events:
                    self._store.apply(event)
                    self._record_version(event)
            finally:
                self._blind_since = self._clock.monotonic()

    def _record_version(self, event: WatchEvent[T]) -> None:
        """Record the version to resume from."""
        match event:
            case Added() | Modified() | Deleted():
                self._resource_version = event.object.metadata.resource_version
                self.unreadable.pop(event.object.metadata.uid, None)
            case Bookmark():
                self._resource_version = event.resource_version
            case Unreadable():
                self._resource_version = event.metadata.resource_version or self._resource_version
                self.unreadable.pop(event.metadata.uid, None)
                # A broken line has not even a name.
                if event.metadata.uid and not event.is_deleted:
                    self.unreadable[event.metadata.uid] = event.metadata
            case _:
                assert_never(event)

    def _after_watch(self, error: ApiError | None, failures: int, *, is_stable: bool, is_cut: bool) -> State:
        """Return the next state after a watch ended. A watch that ends at once is followed by a backoff."""
        again = WatchFrom(resource_version=self._resource_version, failures=failures + 1, is_cut=is_cut)
        if error is None:
            return msgspec.structs.replace(again, failures=0) if is_stable else self._back_off(again)
        self.restarts += 1
        self._callbacks.on_watch_lost()
        self._callbacks.on_error(error)
        if error.is_gone and failures == 0:
            return ListAll(failures=1)
        if error.code in _RESUMABLE:
            return self._back_off(again, error)
        return self._back_off(ListAll(failures=failures + 1), error)

    def _back_off(self, then: ListAll | WatchFrom, error: ApiError | None = None) -> BackOff:
        """Return a backoff that doubles with every consecutive failure; the jitter spreads many reflectors."""
        longest = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** (then.failures - 1))
        retry_after = error.retry_after if error is not None else None
        return BackOff(seconds=max(longest * (0.5 + self._random.random() / 2), retry_after or 0.0), then=then)
