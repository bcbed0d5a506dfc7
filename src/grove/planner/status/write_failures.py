"""Failed writes: what is reported about them, when, and what to do.

`controller/failed_writes.py` remembers them. Rejected creates also have back-off rules
(`planner/gangs/rejected_gangs.py`, `planner/child_sync.py`).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, assert_never

from grove.api.reasons import Reason
from grove.api.resources import Resource
from grove.api.types.meta import ObjectMeta
from grove.api.values.message_text import MAX_SERVER_MESSAGE, truncate
from grove.api.values.times import wire_time
from grove.planner.actions import Action, Create, Delete, DeleteMany, LiveRead, Patch, Plan, PlanStruct, StatusWrite

# A write that fails this long is reported.
LASTING = timedelta(seconds=60)
# From etcd above 1.5 MiB, from its client in the API server above 2 MiB, from API server and proxies above 3 MiB.
_TOO_LARGE = ("request is too large", "trying to send message larger than max", "Request entity too large")
# Their reasons in the condition of a set.
WRITE_REASONS = (
    Reason.WRITE_REJECTED,
    Reason.WRITE_CONFLICT,
    Reason.TOO_LARGE,
    Reason.THROTTLED,
    Reason.SERVER_ERROR,
    Reason.NO_ANSWER,
)


class WriteId(PlanStruct):
    """The identity of a write. The same write of the next plan has the same id, whatever its content."""

    verb: str
    kind: str
    # With the subresource, as in `podcliques/status`.
    resource: str
    namespace: str
    # Of a delete or list of many: the selector.
    name: str
    # The fields of a patch: one of two patches of an object may fail.
    fields: str = ""

    @property
    def target(self) -> str:
        """`Pod default/a`, `Pods of namespace default labelled x=y`."""
        if self.verb in ("deletecollection", "list"):
            return f"{self.kind}s of namespace {self.namespace} labelled {self.name}"
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class FailedWrite(PlanStruct):
    """A write that failed each time since `first_at`. Code 0: no answer."""

    write: WriteId
    code: int
    message: str
    count: int
    first_at: datetime
    last_at: datetime

    def is_lasting(self, now: datetime) -> bool:
        return now - self.first_at >= LASTING


def id_of(action: Action) -> WriteId:
    match action:
        case Create():
            verb, name, fields = "create", action.name, ""
        case Patch():
            verb, name, fields = "patch", action.name, _fields(action)
        case Delete():
            verb, name, fields = "delete", action.name, ""
        case DeleteMany():
            verb, name, fields = "deletecollection", action.selector, ""
        case _:
            assert_never(action)
    subresource = f"/{action.subresource}" if isinstance(action, Patch) and action.subresource else ""
    return WriteId(
        verb=verb,
        kind=action.resource.kind,
        resource=f"{action.resource.plural}{subresource}",
        namespace=action.namespace,
        name=name,
        fields=fields,
    )


def _fields(patch: Patch) -> str:
    # A status is one write, whatever fields change.
    if patch.subresource:
        return ""
    inside = ((part, fields) for part, fields in patch.patch.items() if isinstance(fields, dict))
    return ",".join(sorted(f"{part}.{field}" for part, fields in inside for field in fields))


def id_of_status(status: StatusWrite) -> WriteId:
    return WriteId(
        verb="patch",
        kind=status.resource.kind,
        resource=f"{status.resource.plural}/status",
        namespace=status.namespace,
        name=status.name,
    )


def id_of_live_read(live_read: LiveRead) -> WriteId:
    """Return the id of a live read. The writes that wait for it fail as long as it does."""
    kind, plural = live_read.resource.kind, live_read.resource.plural
    return WriteId(verb="list", kind=kind, resource=plural, namespace=live_read.namespace, name=live_read.selector)


def id_of_read(resource: Resource[Any], metadata: ObjectMeta) -> WriteId:
    """Return the id of a read that must succeed before the object is written."""
    return WriteId(
        verb="get",
        kind=resource.kind,
        resource=resource.plural,
        namespace=metadata.namespace,
        name=metadata.name,
    )


def wanted_ids(plan: Plan) -> Iterator[WriteId]:
    """Yield the ids of all writes and live reads of a plan."""
    for chain in plan.chains:
        for stage in chain.stages:
            yield from map(id_of, stage)
    yield from map(id_of_status, plan.statuses)
    yield from map(id_of_live_read, plan.live_reads)


def lasting_at(failed: Iterable[FailedWrite], now: datetime) -> datetime | None:
    """Return when the next of them must be reported."""
    return min((at for one in failed if (at := one.first_at + LASTING) > now), default=None)


def reason_of(code: int, message: str) -> Reason:
    """Return the reason of a failure by its HTTP status code; 0: no answer."""
    if _is_too_large(code, message):
        return Reason.TOO_LARGE
    match code:
        case 0 | 408:
            return Reason.NO_ANSWER
        case 409:
            return Reason.WRITE_CONFLICT
        case 429:
            return Reason.THROTTLED
        case _:
            return Reason.SERVER_ERROR if code >= 500 else Reason.WRITE_REJECTED


def describe(
    target: str, verb: str, code: int, message: str, since: datetime, *, advice: str, more_count: int = 0
) -> str:
    """Return what failed, since when, the message of the server, and what to do."""
    answer = f"{code} " if code else ""
    more = f" (and {more_count} more)" if more_count else ""
    words = truncate(message, MAX_SERVER_MESSAGE).rstrip(". ")
    return f"{heading(target, verb)}{wire_time(since)}: {answer}{words}{more}{f'; {advice}' if advice else ''}"


def describe_failed(failed: FailedWrite, *, more_count: int = 0) -> str:
    write = failed.write
    advice = advise(failed.code, failed.message)
    return describe(
        write.target, write.verb, failed.code, failed.message, failed.first_at, advice=advice, more_count=more_count
    )


def heading(target: str, verb: str) -> str:
    return f"cannot {verb.replace('deletecollection', 'delete')} {target} since "


def advise(code: int, message: str) -> str:
    """Return what a user can do about a failed write; empty if that is not known."""
    if _is_too_large(code, message):
        return "make the object smaller: fewer pods in a clique, or a shorter pod template"
    if "failed calling webhook" in message:
        return "repair or remove the admission webhook that the message names"
    if "exceeded quota" in message:
        return "raise the quota, or make the set smaller"
    if "is being terminated" in message:
        return "nothing is created in a namespace that is being deleted"
    match code:
        case 401:
            return "renew the operator's credentials"
        case 403 if " cannot " in message:
            return "give the operator the roles that `grove manifests` prints"
        case 403:
            return "allow the write where the message says, or change the set"
        case 404:
            return "create the namespace, or install the CustomResourceDefinitions that `grove crds` prints"
        case 409:
            return "find the other writer of this object: `kubectl get -o yaml --show-managed-fields` names it"
        case 400 | 422:
            return "change the set so that the API server accepts the objects created from it"
        case 0 | 408 | 429:
            return "check the API server, and the network between it and the operator"
        case _:
            return "check the API server and etcd" if code >= 500 else ""


def _is_too_large(code: int, message: str) -> bool:
    return code == 413 or any(words in message for words in _TOO_LARGE)
