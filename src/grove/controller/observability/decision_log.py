"""Log lines for executed decisions, with the reason of the planner.

There is one line per verb, kind and replica, not per object; many replicas are grouped in one line. Status writes are
logged only for warnings and for pending gangs. Events, which are for the users of a set, are in `events.py`.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec
import structlog

from grove.api.reasons import EventReason
from grove.api.types.meta import ObjectMeta, Uid
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.values.message_text import sanitize_message, truncate
from grove.api.values.times import wire_time
from grove.controller.informers import Caches
from grove.kube.api_errors import ApiError
from grove.planner.actions import Action, Create, Delete, DeleteMany, EventRecord, Patch, Severity
from grove.planner.status.write_failures import FailedWrite, advise

SHOWN_NAMES = 5
SHOWN_REPLICAS = 10
SHOWN_REASONS = 3
# Transient errors are logged as a warning after this many attempts.
LASTING_ATTEMPTS = 5
REMEMBERED_SETS = 1000

log = structlog.get_logger()

Done = tuple[int, Action]


class DecisionLog(Protocol):
    def log_decisions(self, key: Uid, done: Sequence[Done], emits: Sequence[EventRecord]) -> None:
        """Log what a reconcile did, with the replica (-1: the set itself), and its events."""

    def log_errors(self, key: Uid, errors: Sequence[ApiError], attempts: int) -> None:
        """Log API errors of a reconcile that is retried."""

    def log_lasting_failures(self, key: Uid, failed: Sequence[FailedWrite]) -> None:
        """Log writes that have failed for a minute, or fail with another code now."""

    def log_panic(self, key: Uid) -> None:
        """Log an unexpected exception; call it inside an `except`."""


class NoDecisionLog:
    """Implements `DecisionLog`: logs unexpected exceptions only."""

    def log_decisions(self, key: Uid, done: Sequence[Done], emits: Sequence[EventRecord]) -> None:
        pass

    def log_errors(self, key: Uid, errors: Sequence[ApiError], attempts: int) -> None:
        pass

    def log_lasting_failures(self, key: Uid, failed: Sequence[FailedWrite]) -> None:
        pass

    def log_panic(self, key: Uid) -> None:
        log.exception("reconcile failed", set_uid=key)


class StructuredDecisionLog:
    """Implements `DecisionLog` with structlog."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        # Names of deleted sets: their last lines are logged after the deletion.
        self._gone: OrderedDict[Uid, ObjectMeta] = OrderedDict()
        caches.sets.subscribe(self._set_changed)

    def log_decisions(self, key: Uid, done: Sequence[Done], emits: Sequence[EventRecord]) -> None:
        if not done and not emits:
            return
        who = self._who(key)
        for line in lines_of(done):
            log.info(line.what, **who, **line.fields())
        pending = [emit for emit in emits if emit.reason is EventReason.FAILED_SCHEDULING]
        if pending:
            log.info("pending", **who, **_pending_fields(pending))
        for emit in emits:
            if emit.severity is Severity.WARNING and emit.reason is not EventReason.FAILED_SCHEDULING:
                about = f"{emit.subject.kind}/{emit.subject.name}"
                log.warning("warned", **who, about=about, reason=str(emit.reason), message=emit.message)

    def log_errors(self, key: Uid, errors: Sequence[ApiError], attempts: int) -> None:
        error = next((error for error in errors if not _is_expected(error)), errors[0])
        if attempts == 0 and not _is_expected(error):
            write_line = log.error
        elif attempts == LASTING_ATTEMPTS:
            write_line = log.warning
        else:
            write_line = log.debug
        write_line(
            "API error", **self._who(key), code=error.code, reason=error.reason, message=error.brief,
            count=len(errors), attempts=attempts + 1,
        )  # fmt: skip

    def log_lasting_failures(self, key: Uid, failed: Sequence[FailedWrite]) -> None:
        first = failed[0]
        log.error(
            "a write keeps failing", **self._who(key), verb=first.write.verb, resource=first.write.resource,
            object=first.write.target, code=first.code, message=first.message, since=wire_time(first.first_at),
            attempts=first.count, count=len(failed), advice=advise(first.code, first.message),
        )  # fmt: skip

    def log_panic(self, key: Uid) -> None:
        log.exception("reconcile failed unexpectedly: this is a bug of Grove", **self._who(key))

    def _who(self, key: Uid) -> dict[str, str]:
        pcs = self._caches.sets.get(key)
        metadata = pcs.metadata if pcs is not None else self._gone.get(key)
        binding = self._caches.bindings.get(key)
        if binding is not None:
            return {"topology_binding": binding.metadata.name}
        if metadata is None:
            return {"set_uid": key}
        return {"namespace": metadata.namespace, "set": metadata.name}

    def _set_changed(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        if old is not None and new is None:
            self._gone[old.metadata.uid] = old.metadata
            if len(self._gone) > REMEMBERED_SETS:
                self._gone.popitem(last=False)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A log line such as `create pods`, for one replica or for many."""

    what: str
    replicas: tuple[int, ...]
    names: tuple[str, ...]
    count: int
    reason: str

    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.replicas != (-1,):
            found["replica" if len(self.replicas) == 1 else "replicas"] = _ranges(self.replicas)
        if self.names:
            found["names"] = ", ".join(self.names[:SHOWN_NAMES])
        if self.count > 1:
            found["count"] = self.count
        return {**found, "reason": self.reason}


def _pending_fields(emits: Sequence[EventRecord]) -> dict[str, Any]:
    """Return which gangs the scheduler does not place, and its reasons, each once and all on one line."""
    names = [emit.subject.name for emit in emits]
    reasons = tuple(dict.fromkeys(sanitize_message(emit.message) for emit in emits))
    found: dict[str, Any] = {"names": ", ".join(names[:SHOWN_NAMES])}
    if len(names) > 1:
        found["count"] = len(names)
    return {**found, "reason": truncate("; ".join(reasons[:SHOWN_REASONS]))}


def lines_of(done: Sequence[Done]) -> Iterator[Line]:
    """Yield the lines by action, then by replica; in the order of execution."""
    by_what: dict[str, dict[int, list[Action]]] = {}
    for replica, action in done:
        if isinstance(action, Patch) and action.subresource == "status":
            continue
        by_what.setdefault(_what(action), {}).setdefault(replica, []).append(action)
    for what, by_replica in by_what.items():
        if len(by_replica) > SHOWN_REPLICAS:
            yield _line(what, tuple(sorted(by_replica)), [action for some in by_replica.values() for action in some])
            continue
        for replica, actions in by_replica.items():
            yield _line(what, (replica,), actions)


def _line(what: str, replicas: tuple[int, ...], actions: list[Action]) -> Line:
    names = tuple(action.name for action in actions if not isinstance(action, DeleteMany))
    count = sum(len(action.uids) if isinstance(action, DeleteMany) else 1 for action in actions)
    return Line(what=what, replicas=replicas, names=names, count=count, reason=actions[0].reason)


def _what(action: Action) -> str:
    match action:
        case Create():
            verb = "create"
        case Patch():
            verb = "change"
        case Delete() | DeleteMany():
            verb = "delete"
    return f"{verb} {action.resource.plural}"


def _ranges(replicas: tuple[int, ...]) -> str:
    """Format sorted numbers as ranges: `0-3, 7`."""
    found: list[list[int]] = []
    for replica in replicas:
        if found and replica == found[-1][1] + 1:
            found[-1][1] = replica
        else:
            found.append([replica, replica])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _is_expected(error: ApiError) -> bool:
    """Return whether the error is expected: conflicts, and overload or lost connections, which are logged elsewhere."""
    return error.is_transient or error.is_conflict or error.is_already_exists
