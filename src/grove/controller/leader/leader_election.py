"""Leader election with a Lease, acquired and renewed as client-go does, so that both can share one.

The term of a leader ends `renew_seconds` after it *sent* its last successful renewal. Another candidate takes the lease
after it has observed it unchanged for the whole lease duration, by its own clock. The first is shorter, so terms never
overlap as long as clocks run at about the same speed; absolute times do not matter. One write can still arrive late:
one that the network delays, or one that was being sent when the process was stopped. It does no harm, because every
write names the uid or version of its object.

A leader that lost its lease becomes a candidate again and starts with empty memory. The process keeps running, because
its webhooks serve on standbys too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

import msgspec
import structlog

from grove.api.resources import LEASES
from grove.api.types.lease import Lease, LeaseSpec, micro_time
from grove.api.types.meta import JsonObject
from grove.clock import Clock
from grove.controller.leader.write_fence import Fence
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client

# How long a stop waits for the responses of writes in flight.
LAST_ANSWERS_SECONDS = 5.0
# Spreads the requests of several candidates.
JITTER = 0.2

log = structlog.get_logger()

Work = Callable[[Fence], Coroutine[Any, Any, None]]


class LeaseOptions(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    lease_seconds: int
    renew_seconds: float
    retry_seconds: float


async def lead_alone(work: Work, clock: Clock, stop: asyncio.Event) -> None:
    """Run the work without an election: one term, until `stop`."""
    fence = Fence(clock)
    await _work_until(work(fence), fence, clock, stop.wait())


class Leadership:
    """A candidate for the lease. `run` waits for the lease, works while it holds it, and releases it on `stop`.

    Cancelling `run` does not release the lease.
    """

    def __init__(self, client: Client, clock: Clock, random: Random, options: LeaseOptions, identity: str) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._options = options
        self._identity = identity
        self._observed: LeaseSpec | None = None
        # The monotonic time from which on the lease may be taken.
        self._free_at = float("-inf")
        self.is_leading = False
        # Why the lease can be neither read nor acquired; None: it can.
        self.error: ApiError | None = None

    @property
    def holder(self) -> str:
        """Return the holder of the lease as last observed; empty: no holder."""
        return self._observed.holder_identity if self._observed is not None else ""

    async def run(self, work: Work, stop: asyncio.Event) -> None:
        while not stop.is_set():
            taken = await self._try_to_acquire()
            if taken is None:
                await self._pause(stop)
            else:
                await self._lead(work, *taken, stop)

    async def _lead(self, work: Work, lease: Lease, fence: Fence, stop: asyncio.Event) -> None:
        log.info("leading", lease=self._options.name, identity=self._identity)
        self.is_leading = True
        renewer = _LeaseRenewer(self._client, self._clock, self._options, self._identity, lease, fence)
        renewing = asyncio.create_task(renewer.run())
        try:
            is_lost = await _work_until(
                work(fence), fence, self._clock, stop.wait(), asyncio.shield(renewing), fence.over()
            )
        except Exception:
            await _end(renewing)
            await renewer.release()
            raise
        finally:
            self.is_leading = False
            renewing.cancel()
        await _end(renewing)
        if not is_lost:
            await renewer.release()
            return
        log.error("lease lost: no more writes are sent", lease=self._options.name, reason=renewer.error)
        self._note(None)

    async def _try_to_acquire(self) -> tuple[Lease, Fence] | None:
        try:
            # A stop waits for both, so neither may take long.
            found = await _in_time(self._options.renew_seconds / 2, self._read_lease())
            self._note(found.spec if found is not None else None)
            if self._clock.monotonic() < self._free_at:
                self.error = None
                return None
            sent_at = self._clock.monotonic()
            lease = await _in_time(self._options.renew_seconds / 2, self._acquire(found))
        except ApiError as error:
            if not (error.is_conflict or error.is_already_exists):
                self._report_error(error)
            return None
        self.error = None
        self._observed = lease.spec
        return lease, Fence(self._clock, sent_at + self._options.renew_seconds)

    async def _read_lease(self) -> Lease | None:
        try:
            return await self._client.get(LEASES, self._options.namespace, self._options.name)
        except ApiError as error:
            if not error.is_not_found:
                raise
            return None

    def _note(self, found: LeaseSpec | None) -> None:
        """Record since when the lease is unchanged. The holder of a deleted lease may still write."""
        before, self._observed = self._observed, found
        now = self._clock.monotonic()
        if found is None:
            if before is not None and before.holder_identity not in ("", self._identity):
                self._free_at = now + self._seconds_of(before)
        elif found.holder_identity in ("", self._identity):
            self._free_at = now
        elif found != before:
            self._free_at = now + self._seconds_of(found)
            if before is None or before.holder_identity != found.holder_identity:
                log.info("waiting for the lease", lease=self._options.name, holder=found.holder_identity)

    def _seconds_of(self, spec: LeaseSpec) -> float:
        """Return the lease duration that the holder wrote: its options may differ."""
        return float(spec.lease_duration_seconds if spec.lease_duration_seconds > 0 else self._options.lease_seconds)

    async def _acquire(self, found: Lease | None) -> Lease:
        now = micro_time(self._clock.now())
        spec: JsonObject = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._options.lease_seconds,
            "acquireTime": now,
            "renewTime": now,
        }
        if found is None:
            body = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self._options.name, "namespace": self._options.namespace},
                "spec": {**spec, "leaseTransitions": 0},
            }
            return await self._client.create(LEASES, self._options.namespace, body)
        if found.spec.holder_identity != self._identity:
            spec["leaseTransitions"] = found.spec.lease_transitions + 1
        return await _patch(self._client, found, spec)

    async def _pause(self, stop: asyncio.Event) -> None:
        seconds = self._options.retry_seconds * (1 + JITTER * self._random.random())
        until_free = self._free_at - self._clock.monotonic()
        if 0 < until_free < seconds:
            seconds = until_free
        await _first_of(stop.wait(), self._clock.sleep(seconds))

    def _report_error(self, error: ApiError) -> None:
        """Log each kind of error once: the lease is read every few seconds."""
        before, self.error = self.error, error
        if before is None or before.reason != error.reason:
            log.error(
                "the lease cannot be read or acquired", lease=self._options.name, code=error.code, reason=error.reason,
                message=error.brief,
            )  # fmt: skip


class _LeaseRenewer:
    """A renewer of the lease during one term; `run` returns when another candidate holds it."""

    def __init__(
        self, client: Client, clock: Clock, options: LeaseOptions, identity: str, lease: Lease, fence: Fence
    ) -> None:
        self._client = client
        self._clock = clock
        self._options = options
        self._identity = identity
        self._lease = lease
        self._fence = fence
        self.error = "it could not be renewed in time"

    async def run(self) -> None:
        is_ours = True
        while is_ours:
            await self._clock.sleep(self._options.retry_seconds)
            is_ours = await self._renew()

    async def release(self) -> None:
        """Release the lease, so that the next leader need not wait. Best effort: else the lease expires."""
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(self._clock.now())}
        try:
            await _in_time(LAST_ANSWERS_SECONDS, self._release(spec))
        except ApiError as error:
            log.error("lease not released: other replicas wait until it expires", reason=str(error))
        else:
            log.info("lease released", lease=self._options.name)

    async def _release(self, spec: JsonObject) -> None:
        try:
            await _patch(self._client, self._lease, spec)
        except ApiError as error:
            if not error.is_conflict:
                raise
            # A cancelled renewal may have been applied.
            found = await self._client.get(LEASES, self._options.namespace, self._options.name)
            if found.spec.holder_identity == self._identity:
                await _patch(self._client, found, spec)

    async def _renew(self) -> bool:
        """Renew the lease. Return False if another candidate holds it."""
        sent_at = self._clock.monotonic()
        try:
            # A connection that hangs must leave time for another attempt.
            self._lease = await _in_time(self._options.renew_seconds / 2, self._write())
        except ApiError as error:
            self.error = str(error)
            return (
                not (error.is_conflict or error.is_already_exists or error.is_not_found) or await self._is_still_ours()
            )
        self._fence.extend(sent_at + self._options.renew_seconds)
        return True

    async def _write(self) -> Lease:
        return await _patch(self._client, self._lease, {"renewTime": micro_time(self._clock.now())})

    async def _is_still_ours(self) -> bool:
        """Read a lease that changed unexpectedly: a response was lost, or it was taken or deleted."""
        try:
            found = await _in_time(
                self._options.renew_seconds / 2,
                self._client.get(LEASES, self._options.namespace, self._options.name),
            )
        except ApiError as error:
            self.error = str(error)
            return not error.is_not_found
        if found.spec.holder_identity != self._identity:
            self.error = f"{found.spec.holder_identity or 'no replica'} holds it"
            return False
        self._lease = found
        return True


async def _patch(client: Client, lease: Lease, spec: JsonObject) -> Lease:
    """Patch the lease if its version did not change."""
    metadata = {"uid": lease.metadata.uid, "resourceVersion": lease.metadata.resource_version}
    namespace, name = lease.metadata.namespace, lease.metadata.name
    return await client.patch(LEASES, namespace, name, {"metadata": metadata, "spec": spec})


async def _in_time(seconds: float, answer: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise ConnectionLost(f"no answer for {seconds:g} s") from None


async def _work_until(
    work: Coroutine[Any, Any, None], fence: Fence, clock: Clock, stop: Awaitable[Any], *ends: Awaitable[Any]
) -> bool:
    """Work until the first of these ends. Return False if `stop` did; only then wait for writes in flight.

    Raises the error of the work.
    """
    working = asyncio.ensure_future(work)
    stopping, *ending = [asyncio.ensure_future(end) for end in (stop, *ends)]
    try:
        await asyncio.wait([working, stopping, *ending], return_when=asyncio.FIRST_COMPLETED)
        fence.close()
        is_over = any(end.done() for end in ending)
        if stopping.done() and not is_over:
            await _first_of(fence.calm(), clock.sleep(LAST_ANSWERS_SECONDS), *map(asyncio.shield, ending))
    finally:
        fence.close()
        for task in (working, stopping, *ending):
            task.cancel()
        await asyncio.wait([working, stopping, *ending])
    if not working.cancelled() and (error := working.exception()) is not None:
        raise error
    return is_over


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel the task and wait for it. Raises its error if it had failed."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def _first_of(*ends: Awaitable[Any]) -> None:
    tasks = [asyncio.ensure_future(end) for end in ends]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
