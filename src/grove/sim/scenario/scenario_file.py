"""A scenario file: nodes, manifests, and a timeline of steps. Typed and strict: an unknown key is an error.

The caller reads the YAML; `runner.py` runs the scenario.
"""

import difflib
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import StrEnum
from typing import Any, dataclass_transform

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.values.durations import DurationError, parse_duration
from grove.api.values.quantities import parse_milli
from grove.errors import UserError
from grove.sim.faults import FaultPlan
from grove.sim.simulation import NODE_RESOURCES

# Names for groups of nodes.
LOST = "lost"
ALL = "all"
ABSENT = "absent"
# The most nodes that one process can simulate.
MOST_NODES = 20_000
# Resources that the operator watches.
WATCHED = ("podcliquesets", "podcliques", "podcliquescalinggroups", "podgangs", "pods", "services", "nodes")

# Reads the manifests of a file.
Load = Callable[[str], tuple[JsonObject, ...]]


class ScenarioError(UserError):
    """An error for an invalid scenario file. The message names the path of the key to correct."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class ScenarioStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class of all parts of a scenario."""


class NodeGroup(ScenarioStruct):
    """Equal nodes."""

    count: int = 1
    resources: dict[str, str] = msgspec.field(default_factory=lambda: dict(NODE_RESOURCES))
    labels: dict[str, str] = {}


class NodeAction(StrEnum):
    """The actions on the nodes of lost pods."""

    # Delete the pods; replacements may be placed on the same nodes.
    KEEP = "keep"
    # Delete the pods and cordon their nodes.
    CORDON = "cordon"
    # The nodes stop reporting, as after a power failure.
    FAIL = "fail"
    # Delete the nodes.
    REMOVE = "remove"


class Lose(ScenarioStruct):
    """The loss of running pods of one clique: a number of them, or all."""

    clique: str
    pods: int | None = None
    nodes: NodeAction = NodeAction.KEEP


class Scale(ScenarioStruct):
    target: str
    replicas: int


class LoadChange(ScenarioStruct):
    """The CPU that the ready pods of a clique, group or set use together from now on; reached step by step `over` time.

    So each pod has less to do when an autoscaler adds pods.
    """

    target: str
    cpu: str
    over: str | None = None

    @property
    def milli(self) -> int:
        return parse_milli(self.cpu)

    @property
    def seconds(self) -> float:
        return parse_duration(self.over).total_seconds() if self.over is not None else 0.0


class OperatorAction(StrEnum):
    CRASH = "crash"
    RESTART = "restart"


class ConditionIs(ScenarioStruct):
    """The expected condition of one object; status `absent`: it has no such condition."""

    of: str
    type: str
    status: str | bool
    reason: str = ""

    @property
    def wanted_status(self) -> str:
        # YAML decodes an unquoted True as a boolean; the status of a condition is a string.
        return str(self.status)


class Expect(ScenarioStruct):
    """Expectations at one moment. Cliques may be named by patterns, such as `chat-0-*`."""

    # The number of ready pods that are not terminating, by clique.
    running: dict[str, int] = {}
    conditions: tuple[ConditionIs, ...] = ()
    # All pods that ran at that time, before its steps, still exist (`kept`) or are gone.
    since: str | None = None
    kept: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()


Manifests = tuple[str | JsonObject, ...]
NodeNames = str | tuple[str, ...]


class ScenarioStep(ScenarioStruct):
    """One step. It has exactly one key besides `at`."""

    at: str
    apply: Manifests | None = None
    delete: str | None = None
    scale: Scale | None = None
    load: LoadChange | None = None
    lose: Lose | None = None
    fail: NodeNames | None = None
    recover: NodeNames | None = None
    cordon: NodeNames | None = None
    uncordon: NodeNames | None = None
    drain: NodeNames | None = None
    remove: NodeNames | None = None
    add: NodeGroup | None = None
    operator: OperatorAction | None = None
    freeze: str | None = None
    thaw: str | None = None
    faults: FaultPlan | None = None
    expect: Expect | None = None

    @property
    def seconds(self) -> float:
        return parse_duration(self.at).total_seconds()

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the step besides `at`."""
        return tuple(
            field.name
            for field in msgspec.structs.fields(self)
            if field.name != "at" and getattr(self, field.name) is not None
        )


class Scenario(ScenarioStruct):
    """A scenario with its steps in order. After reading, manifests are objects."""

    nodes: tuple[NodeGroup, ...] = (NodeGroup(count=8),)
    manifests: Manifests = ()
    timeline: tuple[ScenarioStep, ...] = ()
    # The end; without it the scenario ends when nothing changes after the last step.
    until: str | None = None

    @property
    def ends_at(self) -> float | None:
        return parse_duration(self.until).total_seconds() if self.until is not None else None


_KINDS: dict[str, type[msgspec.Struct]] = {
    "": Scenario,
    "nodes[]": NodeGroup,
    "timeline[]": ScenarioStep,
    "timeline[].add": NodeGroup,
    "timeline[].lose": Lose,
    "timeline[].scale": Scale,
    "timeline[].load": LoadChange,
    "timeline[].faults": FaultPlan,
    "timeline[].expect": Expect,
    "timeline[].expect.conditions[]": ConditionIs,
}


def read_scenario(content: JsonObject, load: Load) -> Scenario:
    """Parse a scenario. Raises `ScenarioError`, which names the wrong key by its path, and the nearest valid key."""
    _check_keys(content, "")
    try:
        scenario = msgspec.convert(content, Scenario)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$")
        raise ScenarioError(f"{path.strip('.`') or 'the file'}: {_lower_messages(detail)}; correct it") from error
    for error_message in _find_errors(scenario):
        raise ScenarioError(error_message)
    return _with_manifests(scenario, load)


def _check_keys(content: Any, path: str) -> None:
    if isinstance(content, list):
        for index, inner in enumerate(content):
            _check_keys(inner, f"{path}[{index}]")
    kind = _KINDS.get(re.sub(r"\[\d+\]", "[]", path))
    if not isinstance(content, dict) or kind is None:
        return
    known = [field.name for field in msgspec.structs.fields(kind)]
    for key, inner in content.items():
        at = f"{path}.{key}" if path else key
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
            raise ScenarioError(f"{at}: unknown key; {hint}")
        _check_keys(inner, at)


def _lower_messages(text: str) -> str:
    return text[:1].lower() + text[1:]


def _find_errors(scenario: Scenario) -> Iterator[str]:
    """Yield the errors of a file whose keys and types are right. The user sees the first."""
    for index, group in enumerate(scenario.nodes):
        yield from _find_node_errors(f"nodes[{index}]", group)
    if scenario.until is not None:
        yield from _find_time_errors("until", scenario.until)
    before = timedelta(0)
    for index, step in enumerate(scenario.timeline):
        path = f"timeline[{index}]"
        yield from _find_time_errors(f"{path}.at", step.at)
        at = parse_duration(step.at)
        if at < before:
            yield f"{path}.at: {step.at} is before the step above it; put the steps in order"
        before = at
        yield from _find_step_errors(path, step)
    yield from _find_watch_errors(scenario)


def _find_node_errors(path: str, group: NodeGroup) -> Iterator[str]:
    if not 1 <= group.count <= MOST_NODES:
        yield f"{path}.count: {group.count} is not between 1 and {MOST_NODES}; correct it"
    for name, amount in group.resources.items():
        try:
            parse_milli(amount)
        except ValueError as error:
            yield f"{path}.resources.{name}: {error}"


def _find_time_errors(path: str, text: str) -> Iterator[str]:
    try:
        is_past = parse_duration(text) < timedelta(0)
    except DurationError as error:
        yield f"{path}: {error}"
        return
    if is_past:
        yield f"{path}: {text} is before the beginning; write a time since the start, such as 10m"


def _find_step_errors(path: str, step: ScenarioStep) -> Iterator[str]:
    if len(step.keys) != 1:
        known = [field.name for field in msgspec.structs.fields(ScenarioStep) if field.name != "at"]
        found = " and ".join(step.keys) or "nothing"
        yield f"{path}: has {found}; write exactly one of: {', '.join(known)}"
    if step.lose is not None and step.lose.pods is not None and step.lose.pods < 1:
        yield f"{path}.lose.pods: {step.lose.pods} is less than one; write 1 or more, or leave it out for all"
    if step.scale is not None and step.scale.replicas < 0:
        yield f"{path}.scale.replicas: {step.scale.replicas} is less than nothing; write 0 or more"
    if step.load is not None:
        yield from _find_load_errors(f"{path}.load", step.load)
    if step.add is not None:
        yield from _find_node_errors(f"{path}.add", step.add)
    if step.faults is not None:
        yield from _find_fault_errors(f"{path}.faults", step.faults)
    if step.expect is not None:
        yield from _find_expect_errors(f"{path}.expect", step.expect, parse_duration(step.at))


def _find_load_errors(path: str, load: LoadChange) -> Iterator[str]:
    try:
        if load.milli < 0:
            yield f"{path}.cpu: {load.cpu} is less than nothing; write 0 or more"
    except ValueError as error:
        yield f"{path}.cpu: {error}"
    if load.over is not None:
        yield from _find_time_errors(f"{path}.over", load.over)


def _find_fault_errors(path: str, faults: FaultPlan) -> Iterator[str]:
    for name, value in msgspec.structs.asdict(faults).items():
        match value:
            case (low, high) if not 0 <= low <= high:
                yield f"{path}.{name}: [{low:g}, {high:g}] are no seconds from and to; write for example [0.1, 0.5]"
            case float() if name == "creates_per_second" and value <= 0:
                yield f"{path}.{name}: {value:g} creates nothing; write more than 0"
            case float() if name != "creates_per_second" and not 0 <= value <= 1:
                yield f"{path}.{name}: {value:g} is no probability; write 0 to 1"


def _find_expect_errors(path: str, expect: Expect, at: timedelta) -> Iterator[str]:
    if expect == Expect():
        yield f"{path}: expects nothing; write running, conditions, kept or replaced"
    if (expect.kept or expect.replaced) and expect.since is None:
        yield f"{path}.since: is needed by kept and replaced; write since when, such as 10m"
    if expect.since is not None:
        yield from _find_time_errors(f"{path}.since", expect.since)
        if parse_duration(expect.since) > at:
            yield f"{path}.since: {expect.since} comes after the step itself; write an earlier time"


def _find_watch_errors(scenario: Scenario) -> Iterator[str]:
    frozen: list[str] = []
    for index, step in enumerate(scenario.timeline):
        if step.freeze is not None:
            if step.freeze not in WATCHED:
                near = difflib.get_close_matches(step.freeze, WATCHED, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it watches {', '.join(WATCHED)}"
                yield f"timeline[{index}].freeze: the operator does not watch {step.freeze!r}; {hint}"
            if step.freeze in frozen:
                yield f"timeline[{index}].freeze: {step.freeze} is frozen already; remove this step"
            frozen.append(step.freeze)
        if step.thaw is not None:
            if step.thaw not in frozen:
                yield f"timeline[{index}].thaw: {step.thaw} is not frozen; freeze it first, or remove this step"
            frozen = [plural for plural in frozen if plural != step.thaw]


def _with_manifests(scenario: Scenario, load: Load) -> Scenario:
    """Read the manifest files of all steps before the first step, so that a wrong path is found at once."""
    timeline = [
        step if step.apply is None
        else msgspec.structs.replace(step, apply=_load_document(f"timeline[{index}].apply", step.apply, load))
        for index, step in enumerate(scenario.timeline)
    ]  # fmt: skip
    manifests = _load_document("manifests", scenario.manifests, load)
    return msgspec.structs.replace(scenario, manifests=manifests, timeline=tuple(timeline))


def _load_document(path: str, manifests: Manifests, load: Load) -> tuple[JsonObject, ...]:
    found: list[JsonObject] = []
    for index, manifest in enumerate(manifests):
        if isinstance(manifest, str):
            found += load(manifest)
            continue
        error_message = _describe_manifest_error(manifest)
        if error_message:
            raise ScenarioError(f"{path}[{index}]: {error_message}; write a whole object, or the path of a file")
        found.append(manifest)
    return tuple(found)


def _describe_manifest_error(manifest: JsonObject) -> str:
    for key in ("apiVersion", "kind"):
        if not isinstance(manifest.get(key), str):
            return f"has no {key}"
    metadata = manifest.get("metadata")
    is_named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
    return "" if is_named else "has no metadata.name"
