"""What the API server wrote down about requests: who asked for what, when, and how it was answered."""

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import count
from time import monotonic, sleep

import msgspec

from grove.api.types.meta import WireStruct
from tests.kube.controlplane.plane import Plane

FLUSH_SECONDS = 180.0
WRITES = ("create", "update", "patch", "delete", "deletecollection")
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_marks = count()


class _User(WireStruct):
    username: str = ""
    extra: dict[str, tuple[str, ...]] = {}


class _Target(WireStruct):
    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Answer(WireStruct):
    code: int = 0


class Asked(WireStruct):
    """One request. `target` is None for paths that are no resources."""

    received_at: datetime = msgspec.field(name="requestReceivedTimestamp")
    done_at: datetime = msgspec.field(name="stageTimestamp")
    verb: str = ""
    user: _User = _User()
    target: _Target | None = msgspec.field(name="objectRef", default=None)
    answer: _Answer = msgspec.field(name="responseStatus", default=_Answer())

    @property
    def credential(self) -> str:
        """Which token: tells two processes of one account apart."""
        return next(iter(self.user.extra.get(_CREDENTIAL, ())), "")

    @property
    def resource(self) -> str:
        """As rules of access name it."""
        target = self.target or _Target()
        return f"{target.resource}/{target.subresource}" if target.subresource else target.resource

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES


_DECODER = msgspec.json.Decoder(Asked)


def read_audit(plane: Plane, user: str) -> list[Asked]:
    """All requests of this user that have been answered so far, watches included, in the order of their ends."""
    mark = f"mark-{next(_marks)}"
    plane.user("admin").attempt("get", "namespace", mark)
    deadline = monotonic() + FLUSH_SECONDS
    # The log is written in batches, and in order: once our own question is in it, everything before is.
    while mark.encode() not in (text := plane.audit_log.read_bytes()):
        assert monotonic() < deadline, "the audit log does not arrive"
        sleep(0.2)
    lines = text[: text.rindex(b"\n")].splitlines()
    return [asked for asked in map(_DECODER.decode, lines) if asked.user.username == user]


def shown(requests: Iterable[Asked], by: Callable[[Asked], bool]) -> list[str]:
    """Those that are meant, as lines for a person."""
    return [
        f"{one.verb} {one.resource} {one.target.namespace}/{one.target.name} -> {one.answer.code}"
        for one in requests
        if one.target is not None and by(one)
    ]
