"""Narrator of a simulation: one line per decision and unit, with the planner's own reasons.

`sim/write_log.py` has every single write. Equal changes to one unit within a second become one line.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from grove.api import labels
from grove.api.reasons import STATE_CONDITIONS, EventReason
from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import Condition, Uid
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.clock import Clock
from grove.cluster.controllers.autoscaling.horizontal_controller import COMPONENT as AUTOSCALER_COMPONENT
from grove.cluster.storage.store import Change, ChangeType
from grove.controller.observability.decision_log import Done, NoDecisionLog
from grove.planner.actions import Action, Create, Delete, DeleteMany, EventRecord, Patch, Severity
from grove.sim.write_log import WriteRecord

SCENARIO = "scenario"
OPERATOR = "operator"
SCHEDULER = "scheduler"
NODES = "nodes"
AUTOSCALER = "scaler"

# More replicas than this in one reconcile become one line of the set.
SHOWN_REPLICAS = 10
# Events of type Normal that get a line.
_REPORTED_NORMAL_EVENTS = (EventReason.MIN_AVAILABLE_RESTORED,)


class NarratedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the output. `at`: seconds since the start."""

    at: float
    who: str
    what: str
    why: str = ""

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"{clock_time(self.at):>10}  {self.who:<9}  {self.what}{why}"


def clock_time(seconds: float) -> str:
    """Format seconds since the start as hours, minutes and seconds: `4:10:01`."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


class _Tally:
    """A line whose count may still grow within the current second."""

    def __init__(self, at: float, who: str, verb: str, noun: str, of: str) -> None:
        self.at, self.who, self.verb, self.noun, self.of = at, who, verb, noun, of
        self.count = 0
        self.whys: dict[str, None] = {}

    def build_line(self) -> NarratedLine:
        noun = self.noun if self.count == 1 else f"{self.noun}s"
        # Reasons that differ between objects are left out.
        why = next(iter(self.whys)) if len(self.whys) == 1 else ""
        return NarratedLine(at=self.at, who=self.who, what=f"{self.verb} {self.count} {noun} of {self.of}", why=why)


class Narrator(NoDecisionLog):
    """A narrator that reads the decision log of an operator and the changes of a store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._lines: list[NarratedLine | _Tally] = []
        # The tallies of the current second.
        self._running: dict[tuple[str, ...], _Tally] = {}
        self._running_second = -1
        self._store_texts: dict[str, None] = {}
        self._set_names: dict[Uid, str] = {}
        self._node_of: dict[str, str] = {}
        self._scale_reasons: dict[str, str] = {}
        self.cliques_seen: dict[str, None] = {}

    @property
    def seconds(self) -> float:
        return self._clock.monotonic() - self._began

    @property
    def lines(self) -> tuple[NarratedLine, ...]:
        """Return the lines in order; in one second, changes of the store come after decisions.

        The operator reports its decisions at the end of a reconcile, when the store has changed already.
        """
        ordered: list[NarratedLine] = []
        seen: list[NarratedLine] = []
        for line in self._lines:
            narrated = line.build_line() if isinstance(line, _Tally) else line
            if seen and (narrated.who == SCENARIO or int(narrated.at) != int(seen[0].at)):
                ordered += seen
                seen = []
            (seen if narrated.what in self._store_texts else ordered).append(narrated)
        return (*ordered, *seen)

    def add_store_line(self, what: str) -> None:
        """Add a line about a change that the store shows."""
        self._store_texts[what] = None
        self.add_line(OPERATOR, what)

    def add_line(self, who: str, what: str, why: str = "") -> None:
        narrated = NarratedLine(at=self.seconds, who=who, what=what, why=why)
        key = (who, what, why)
        if key not in self._current_second():
            # This tally belongs to no line. It only prevents the same line twice in one second.
            self._running[key] = _Tally(narrated.at, who, what, "", "")
            self._lines.append(narrated)

    def count(self, who: str, verb: str, noun: str, of: str, why: str = "", *, number: int = 1) -> None:
        key = (who, verb, noun, of)
        tally = self._current_second().get(key)
        if tally is None:
            tally = self._running[key] = _Tally(self.seconds, who, verb, noun, of)
            self._lines.append(tally)
        tally.count += number
        if why:
            tally.whys[why] = None

    def _current_second(self) -> dict[tuple[str, ...], _Tally]:
        second = int(self.seconds)
        if second != self._running_second:
            self._running, self._running_second = {}, second
        return self._running

    # Decisions of the operator

    def log_decisions(self, key: Uid, done: Sequence[Done], emits: Sequence[EventRecord]) -> None:
        name = self._set_names.get(key, "a set that is gone")
        replicas = {replica for replica, _ in done}
        for replica, action in done:
            if not (isinstance(action, Patch) and action.subresource == "status"):
                is_one = replica >= 0 and len(replicas) <= SHOWN_REPLICAS
                self._narrate_action(f"{name} replica {replica}" if is_one else name, action)
        for emit in emits:
            if emit.severity is Severity.WARNING or emit.reason in _REPORTED_NORMAL_EVENTS:
                self.add_line(OPERATOR, f"{emit.reason} {emit.subject.kind.lower()}/{emit.subject.name}", emit.message)

    def _narrate_action(self, unit: str, action: Action) -> None:
        noun = action.resource.kind if action.resource.kind != "Pod" else "pod"
        match action:
            case Create():
                self.count(OPERATOR, "created", noun, unit)
            case Delete():
                self.count(OPERATOR, "deleted", noun, unit, action.reason)
            case DeleteMany():
                self.count(OPERATOR, "deleted", noun, _unit(action, unit), action.reason, number=len(action.uids))
            case Patch() if labels.RECREATION in action.patch.get("metadata", {}).get("annotations", {}):
                self.add_line(OPERATOR, f"noted on podgang/{action.name}", action.reason)
            case Patch() if "schedulingGates" in action.patch.get("spec", {}):
                self.count(OPERATOR, "opened the gates of", noun, unit, action.reason)
            case Patch() if action.resource is PODCLIQUESETS:
                self.add_line(OPERATOR, f"changed podcliqueset/{action.name}", action.reason)
            case Patch():
                self.count(OPERATOR, "changed", noun, unit, action.reason)

    # Changes of the store

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
            case "events":
                self._event_written(change)
            case "horizontalpodautoscalers":
                self._autoscaler_changed(change)

    def _event_written(self, change: Change) -> None:
        """Add a line for a warning of the autoscaler, and keep the reason of a change of scale for its line."""
        event = change.entry.obj
        if change.before is not None or (event.get("source") or {}).get("component") != AUTOSCALER_COMPONENT:
            return
        name = event["involvedObject"]["name"]
        if event["type"] == "Warning":
            self.add_line(AUTOSCALER, f"{event['reason']} horizontalpodautoscaler/{name}", event["message"])
        else:
            self._scale_reasons[name] = event["message"].partition("reason: ")[2]

    def _autoscaler_changed(self, change: Change) -> None:
        name, spec = change.entry.name, change.entry.obj["spec"]
        old = {} if change.before is None else change.before.obj.get("status") or {}
        new = change.entry.obj.get("status") or {}
        why = self._scale_reasons.pop(name, "") if new.get("lastScaleTime") else ""
        if why or new.get("lastScaleTime") != old.get("lastScaleTime"):
            target = f"{spec['scaleTargetRef']['kind'].lower()}/{spec['scaleTargetRef']['name']}"
            what = f"scaled {target} from {new['currentReplicas']} to {new['desiredReplicas']}"
            self.add_line(AUTOSCALER, what, why)

    def _set_changed(self, change: Change) -> None:
        pcs = msgspec.convert(change.entry.obj, PodCliqueSet)
        self._set_names[pcs.metadata.uid] = pcs.metadata.name
        if change.type is ChangeType.DELETED:
            self.add_store_line(f"podcliqueset/{pcs.metadata.name} is gone")
            return
        before = msgspec.convert(change.before.obj, PodCliqueSet).status.conditions if change.before else ()
        true_types = _true_types(pcs.status.conditions)
        for condition in before:
            if condition.status == "True" and condition.type not in (*true_types, *STATE_CONDITIONS):
                self.add_store_line(f"{condition.type} of podcliqueset/{pcs.metadata.name} is over")

    def _gang_changed(self, change: Change) -> None:
        gang = msgspec.convert(change.entry.obj, PodGang)
        before = msgspec.convert(change.before.obj, PodGang).status.phase if change.before else ""
        phase = "gone" if change.type is ChangeType.DELETED else gang.status.phase
        if phase and phase != before:
            self.add_store_line(f"podgang/{gang.metadata.name} is {phase}")

    def _pod_changed(self, change: Change) -> None:
        if change.before is None or change.type is ChangeType.DELETED:
            return
        old, new = change.before.obj, change.entry.obj
        if new["spec"].get("nodeName") and not old["spec"].get("nodeName"):
            pod = msgspec.convert(new, Pod)
            self._node_of[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod.spec.node_name
            self.count(SCHEDULER, "placed", "pod", _gang_of(pod))

    def observe_write(self, happening: WriteRecord) -> None:
        """Add a line for pods that the node controller deletes from an unreachable node."""
        target = happening.write.target
        if happening.who == NODES and (target.verb, target.resource) == ("delete", "pods"):
            node = self._node_of.get(target.object_name, "a node that is gone")
            self.count(NODES, "gave up", "pod", node, "it has not answered for too long")


def _unit(action: DeleteMany, otherwise: str) -> str:
    """Return the unit of a bulk delete, by its selector."""
    chosen = dict[str, Any](part.split("=", 1) for part in action.selector.split(",") if "=" in part)
    if labels.GROUP in chosen and labels.GROUP_REPLICA_INDEX in chosen:
        return f"{chosen[labels.GROUP]} replica {chosen[labels.GROUP_REPLICA_INDEX]}"
    return otherwise


def _gang_of(pod: Pod) -> str:
    gang = pod.metadata.labels.get(labels.PODGANG)
    return f"podgang/{gang}" if gang else "no gang"


def _true_types(conditions: tuple[Condition, ...]) -> tuple[str, ...]:
    return tuple(condition.type for condition in conditions if condition.status == "True")
