"""Narrator of a simulation: one line per decision and unit, with the planner's own reasons.

Every single write is in `sim/write_log.py`. What of one kind happens to one unit within a second becomes one line.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from grove.api import labels
from grove.api.reasons import EventReason
from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import Condition, Uid
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.clock import Clock
from grove.cluster.storage.store import Change, ChangeType
from grove.controller.observability.decision_log import Done, NoJournal
from grove.planner.actions import Action, Create, Delete, DeleteMany, EventRecord, Patch, Severity
from grove.sim.write_log import WriteRecord

SCENARIO = "scenario"
OPERATOR = "operator"
SCHEDULER = "scheduler"
NODES = "nodes"

# More replicas than this in one pass are told as one set.
SHOWN_REPLICAS = 10
# What users are told of besides warnings.
_GOOD_NEWS = (EventReason.MIN_AVAILABLE_RESTORED,)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `at`: seconds since the beginning."""

    at: float
    who: str
    what: str
    why: str = ""

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"{clock_time(self.at):>10}  {self.who:<9}  {self.what}{why}"


def clock_time(seconds: float) -> str:
    """`4:10:01`: hours, minutes and seconds since the beginning."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


class _Tally:
    """A line that is still being counted."""

    def __init__(self, at: float, who: str, verb: str, noun: str, of: str) -> None:
        self.at, self.who, self.verb, self.noun, self.of = at, who, verb, noun, of
        self.count = 0
        self.whys: dict[str, None] = {}

    def told(self) -> Told:
        noun = self.noun if self.count == 1 else f"{self.noun}s"
        # What differs from object to object is not the reason of the line.
        why = next(iter(self.whys)) if len(self.whys) == 1 else ""
        return Told(at=self.at, who=self.who, what=f"{self.verb} {self.count} {noun} of {self.of}", why=why)


class Teller(NoJournal):
    """Implements `Journal`, and listens to a store. `lines` is what happened so far."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._lines: list[Told | _Tally] = []
        # What is counted within the second that runs.
        self._running: dict[tuple[str, ...], _Tally] = {}
        self._running_second = -1
        self._sights: dict[str, None] = {}
        self._set_names: dict[Uid, str] = {}
        self._node_of: dict[str, str] = {}
        self.cliques_seen: dict[str, None] = {}

    @property
    def seconds(self) -> float:
        return self._clock.monotonic() - self._began

    @property
    def lines(self) -> tuple[Told, ...]:
        """In order; but what could be seen in the store comes after the decisions of the same second.

        An operator tells what it decided at the end of a pass, when the store shows it already.
        """
        ordered: list[Told] = []
        seen: list[Told] = []
        for line in self._lines:
            told = line.told() if isinstance(line, _Tally) else line
            if seen and (told.who == SCENARIO or int(told.at) != int(seen[0].at)):
                ordered += seen
                seen = []
            (seen if told.what in self._sights else ordered).append(told)
        return (*ordered, *seen)

    def see(self, what: str) -> None:
        """Something that shows in the store."""
        self._sights[what] = None
        self.tell(OPERATOR, what)

    def tell(self, who: str, what: str, why: str = "") -> None:
        told = Told(at=self.seconds, who=who, what=what, why=why)
        key = (who, what, why)
        if key not in self._present():
            # Counted in no line; here it only keeps the same from being said twice in a second.
            self._running[key] = _Tally(told.at, who, what, "", "")
            self._lines.append(told)

    def count(self, who: str, verb: str, noun: str, of: str, why: str = "", *, number: int = 1) -> None:
        key = (who, verb, noun, of)
        tally = self._present().get(key)
        if tally is None:
            tally = self._running[key] = _Tally(self.seconds, who, verb, noun, of)
            self._lines.append(tally)
        tally.count += number
        if why:
            tally.whys[why] = None

    def _present(self) -> dict[tuple[str, ...], _Tally]:
        second = int(self.seconds)
        if second != self._running_second:
            self._running, self._running_second = {}, second
        return self._running

    # What the operator decided

    def decided(self, key: Uid, done: Sequence[Done], emits: Sequence[EventRecord]) -> None:
        name = self._set_names.get(key, "a set that is gone")
        replicas = {replica for replica, _ in done}
        for replica, action in done:
            if not (isinstance(action, Patch) and action.subresource == "status"):
                is_one = replica >= 0 and len(replicas) <= SHOWN_REPLICAS
                self._acted(f"{name} replica {replica}" if is_one else name, action)
        for emit in emits:
            if emit.severity is Severity.WARNING or emit.reason in _GOOD_NEWS:
                self.tell(OPERATOR, f"{emit.reason} {emit.subject.kind.lower()}/{emit.subject.name}", emit.message)

    def _acted(self, unit: str, action: Action) -> None:
        noun = action.resource.kind if action.resource.kind != "Pod" else "pod"
        match action:
            case Create():
                self.count(OPERATOR, "created", noun, unit)
            case Delete():
                self.count(OPERATOR, "deleted", noun, unit, action.reason)
            case DeleteMany():
                self.count(OPERATOR, "deleted", noun, _unit(action, unit), action.reason, number=len(action.uids))
            case Patch() if labels.RECREATION in action.patch.get("metadata", {}).get("annotations", {}):
                self.tell(OPERATOR, f"noted on podgang/{action.name}", action.reason)
            case Patch() if "schedulingGates" in action.patch.get("spec", {}):
                self.count(OPERATOR, "opened the gates of", noun, unit, action.reason)
            case Patch() if action.resource is PODCLIQUESETS:
                self.tell(OPERATOR, f"changed podcliqueset/{action.name}", action.reason)
            case Patch():
                self.count(OPERATOR, "changed", noun, unit, action.reason)

    # What can be seen in the store

    def observe(self, change: Change) -> None:
        match change.resource_info.plural:
            case "podcliquesets":
                self._set_changed(change)
            case "podcliques":
                self.cliques_seen[change.entry.name] = None
            case "podgangs":
                self._gang_changed(change)
            case "pods":
                self._pod_changed(change)

    def _set_changed(self, change: Change) -> None:
        pcs = msgspec.convert(change.entry.obj, PodCliqueSet)
        self._set_names[pcs.metadata.uid] = pcs.metadata.name
        if change.type is ChangeType.DELETED:
            self.see(f"podcliqueset/{pcs.metadata.name} is gone")
            return
        before = msgspec.convert(change.before.obj, PodCliqueSet).status.conditions if change.before else ()
        standing = _true_types(pcs.status.conditions)
        for condition in before:
            if condition.status == "True" and condition.type not in standing:
                self.see(f"{condition.type} of podcliqueset/{pcs.metadata.name} is over")

    def _gang_changed(self, change: Change) -> None:
        gang = msgspec.convert(change.entry.obj, PodGang)
        before = msgspec.convert(change.before.obj, PodGang).status.phase if change.before else ""
        phase = "gone" if change.type is ChangeType.DELETED else gang.status.phase
        if phase and phase != before:
            self.see(f"podgang/{gang.metadata.name} is {phase}")

    def _pod_changed(self, change: Change) -> None:
        if change.before is None or change.type is ChangeType.DELETED:
            return
        old, new = change.before.obj, change.entry.obj
        if new["spec"].get("nodeName") and not old["spec"].get("nodeName"):
            pod = msgspec.convert(new, Pod)
            self._node_of[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod.spec.node_name
            self.count(SCHEDULER, "placed", "pod", _gang_of(pod))

    def wrote(self, happening: WriteRecord) -> None:
        """The node controller deletes the pods of a node that has not answered for a while."""
        target = happening.write.target
        if happening.who == NODES and (target.verb, target.resource) == ("delete", "pods"):
            node = self._node_of.get(target.object_name, "a node that is gone")
            self.count(NODES, "gave up", "pod", node, "it has not answered for too long")


def _unit(action: DeleteMany, otherwise: str) -> str:
    """The unit that a bulk delete is about, read off its selector."""
    chosen = dict[str, Any](part.split("=", 1) for part in action.selector.split(",") if "=" in part)
    if labels.GROUP in chosen and labels.GROUP_REPLICA_INDEX in chosen:
        return f"{chosen[labels.GROUP]} replica {chosen[labels.GROUP_REPLICA_INDEX]}"
    return otherwise


def _gang_of(pod: Pod) -> str:
    gang = pod.metadata.labels.get(labels.PODGANG)
    return f"podgang/{gang}" if gang else "no gang"


def _true_types(conditions: tuple[Condition, ...]) -> tuple[str, ...]:
    return tuple(condition.type for condition in conditions if condition.status == "True")
