"""Log of every write that reached the API server: when, and by whom.

The connections of the components (`faults.py`) record the writes; the same seed gives the same text.
`sim/scenario/narrator.py` describes decisions in fewer lines.
"""

from collections.abc import Callable

import msgspec

from grove.sim.faults import RecordedWrite


class WriteRecord(msgspec.Struct, frozen=True, kw_only=True):
    who: str
    write: RecordedWrite

    def __str__(self) -> str:
        status = f" -> {self.write.status}" if self.write.status >= 400 else ""
        return f"{self.write.at:12.3f}  {self.who:<10} {_describe(self.write)}{status}"


class Timeline:
    """The writes of one simulation, in order."""

    def __init__(self) -> None:
        self.happenings: list[WriteRecord] = []
        self._listeners: list[Callable[[WriteRecord], None]] = []

    def subscribe(self, listener: Callable[[WriteRecord], None]) -> None:
        """Call `listener` after every write."""
        self._listeners.append(listener)

    def record(self, who: str, write: RecordedWrite) -> None:
        happening = WriteRecord(who=who, write=write)
        self.happenings.append(happening)
        for listener in self._listeners:
            listener(happening)

    def writes_by(self, who: str) -> tuple[RecordedWrite, ...]:
        return tuple(happening.write for happening in self.happenings if happening.who == who)

    def text(self, last: int | None = None) -> str:
        """Return one line per write; with `last`, only the last ones."""
        shown = self.happenings if last is None else self.happenings[-last:]
        return "".join(f"{happening}\n" for happening in shown)


class _BodyMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    generate_name: str = ""


class _BodyTarget(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    metadata: _BodyMeta = _BodyMeta()
    target: _BodyTarget = _BodyTarget()


def _describe(write: RecordedWrite) -> str:
    target = write.target
    if target.resource == "pods/binding":
        return f"bind pods {target.object_name} to {_body(write).target.name}"
    if target.verb == "create":
        metadata = _body(write).metadata
        named = msgspec.structs.replace(target, name=metadata.name or f"{metadata.generate_name}...")
        return f"create {target.resource} {named.object_name}"
    selector = write.request.query.get("labelSelector", "")
    return f"{target.verb} {target.resource} {target.object_name}" + (f" where {selector}" if selector else "")


def _body(write: RecordedWrite) -> _Body:
    return msgspec.json.decode(write.request.body, type=_Body)
