"""A scenario file: nodes, manifests, and what happens when. Typed and strict: a key that nobody knows is an error.

Reading YAML is the caller's, playing it is `runner.py`.
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

# Words for nodes that a file cannot know by name.
LOST = "lost"
ALL = "all"
ABSENT = "absent"
# More than one process can look after.
MOST_NODES = 20_000
# What the operator follows.
WATCHED = ("podcliquesets", "podcliques", "podcliquescalinggroups", "podgangs", "pods", "services", "nodes")

# Manifests of a file that a scenario names.
Load = Callable[[str], tuple[JsonObject, ...]]


class ScenarioError(UserError):
    """The file is wrong: whoever wrote it corrects the path that is named."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class ScenarioStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything in a scenario."""


class NodeGroup(ScenarioStruct):
    """Nodes that are alike."""

    count: int = 1
    resources: dict[str, str] = msgspec.field(default_factory=lambda: dict(NODE_RESOURCES))
    labels: dict[str, str] = {}


class Fate(StrEnum):
    """What becomes of the nodes of pods that are lost."""

    # The pods are deleted, and may come back at once.
    KEEP = "keep"
    # The pods are deleted, and their nodes take no new ones.
    CORDON = "cordon"
    # The nodes stop answering, as after a power cut.
    FAIL = "fail"
    # The nodes are deleted from the cluster.
    REMOVE = "remove"


class Lose(ScenarioStruct):
    """Pods of one clique that run are lost: so many, or all."""

    clique: str
    pods: int | None = None
    nodes: Fate = Fate.KEEP


class Scale(ScenarioStruct):
    target: str
    replicas: int


class Life(StrEnum):
    CRASH = "crash"
    RESTART = "restart"


class ConditionIs(ScenarioStruct):
    """One condition of one object; status `absent`: it has no such condition."""

    of: str
    type: str
    status: str | bool
    reason: str = ""

    @property
    def wanted_status(self) -> str:
        # YAML takes an unquoted True for a truth value; the wire writes it as a word.
        return str(self.status)


class Expect(ScenarioStruct):
    """What must be so at this moment. Cliques may be named by patterns, such as `chat-0-*`."""

    # Ready pods that stay, by clique.
    running: dict[str, int] = {}
    conditions: tuple[ConditionIs, ...] = ()
    # The pods that ran then, before anything happened at that time, are still there, or are all gone.
    since: str | None = None
    kept: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()


Manifests = tuple[str | JsonObject, ...]
NodeNames = str | tuple[str, ...]


class ScenarioStep(ScenarioStruct):
    """One happening. Exactly one of its keys besides `at` is given."""

    at: str
    apply: Manifests | None = None
    delete: str | None = None
    scale: Scale | None = None
    lose: Lose | None = None
    fail: NodeNames | None = None
    recover: NodeNames | None = None
    cordon: NodeNames | None = None
    uncordon: NodeNames | None = None
    drain: NodeNames | None = None
    remove: NodeNames | None = None
    add: NodeGroup | None = None
    operator: Life | None = None
    freeze: str | None = None
    thaw: str | None = None
    faults: FaultPlan | None = None
    expect: Expect | None = None

    @property
    def seconds(self) -> float:
        return parse_duration(self.at).total_seconds()

    @property
    def given(self) -> tuple[str, ...]:
        """The keys that say what happens."""
        return tuple(
            field.name
            for field in msgspec.structs.fields(self)
            if field.name != "at" and getattr(self, field.name) is not None
        )


class Scenario(ScenarioStruct):
    """Everything that happens, in order. Manifests are objects once it was read."""

    nodes: tuple[NodeGroup, ...] = (NodeGroup(count=8),)
    manifests: Manifests = ()
    timeline: tuple[ScenarioStep, ...] = ()
    # When it ends; without it, when nothing changes any more after the last step.
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
    "timeline[].faults": FaultPlan,
    "timeline[].expect": Expect,
    "timeline[].expect.conditions[]": ConditionIs,
}


def read_scenario(content: JsonObject, load: Load) -> Scenario:
    """Raises `ScenarioError`, which names the wrong key by its path, and the nearest one that exists."""
    _check_keys(content, "")
    try:
        scenario = msgspec.convert(content, Scenario)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$")
        raise ScenarioError(f"{path.strip('.`') or 'the file'}: {_lowered(detail)}; correct it") from error
    for error_message in _complaints(scenario):
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


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _complaints(scenario: Scenario) -> Iterator[str]:
    """What is wrong with a file whose keys and types are right; the first is told."""
    for index, group in enumerate(scenario.nodes):
        yield from _node_complaints(f"nodes[{index}]", group)
    if scenario.until is not None:
        yield from _time_complaints("until", scenario.until)
    before = timedelta(0)
    for index, step in enumerate(scenario.timeline):
        path = f"timeline[{index}]"
        yield from _time_complaints(f"{path}.at", step.at)
        at = parse_duration(step.at)
        if at < before:
            yield f"{path}.at: {step.at} is before the step above it; put the steps in order"
        before = at
        yield from _step_complaints(path, step)
    yield from _watch_complaints(scenario)


def _node_complaints(path: str, group: NodeGroup) -> Iterator[str]:
    if not 1 <= group.count <= MOST_NODES:
        yield f"{path}.count: {group.count} is not between 1 and {MOST_NODES}; correct it"
    for name, amount in group.resources.items():
        try:
            parse_milli(amount)
        except ValueError as error:
            yield f"{path}.resources.{name}: {error}"


def _time_complaints(path: str, text: str) -> Iterator[str]:
    try:
        is_past = parse_duration(text) < timedelta(0)
    except DurationError as error:
        yield f"{path}: {error}"
        return
    if is_past:
        yield f"{path}: {text} is before the beginning; write a time since the start, such as 10m"


def _step_complaints(path: str, step: ScenarioStep) -> Iterator[str]:
    if len(step.given) != 1:
        known = [field.name for field in msgspec.structs.fields(ScenarioStep) if field.name != "at"]
        found = " and ".join(step.given) or "nothing"
        yield f"{path}: says {found}; write exactly one of: {', '.join(known)}"
    if step.lose is not None and step.lose.pods is not None and step.lose.pods < 1:
        yield f"{path}.lose.pods: {step.lose.pods} is less than one; write 1 or more, or leave it out for all"
    if step.scale is not None and step.scale.replicas < 0:
        yield f"{path}.scale.replicas: {step.scale.replicas} is less than nothing; write 0 or more"
    if step.add is not None:
        yield from _node_complaints(f"{path}.add", step.add)
    if step.faults is not None:
        yield from _fault_complaints(f"{path}.faults", step.faults)
    if step.expect is not None:
        yield from _expect_complaints(f"{path}.expect", step.expect, parse_duration(step.at))


def _fault_complaints(path: str, faults: FaultPlan) -> Iterator[str]:
    for name, value in msgspec.structs.asdict(faults).items():
        match value:
            case (low, high) if not 0 <= low <= high:
                yield f"{path}.{name}: [{low:g}, {high:g}] are no seconds from and to; write for example [0.1, 0.5]"
            case float() if name == "creates_per_second" and value <= 0:
                yield f"{path}.{name}: {value:g} creates nothing; write more than 0"
            case float() if name != "creates_per_second" and not 0 <= value <= 1:
                yield f"{path}.{name}: {value:g} is no probability; write 0 to 1"


def _expect_complaints(path: str, expect: Expect, at: timedelta) -> Iterator[str]:
    if expect == Expect():
        yield f"{path}: expects nothing; write running, conditions, kept or replaced"
    if (expect.kept or expect.replaced) and expect.since is None:
        yield f"{path}.since: is needed by kept and replaced; write since when, such as 10m"
    if expect.since is not None:
        yield from _time_complaints(f"{path}.since", expect.since)
        if parse_duration(expect.since) > at:
            yield f"{path}.since: {expect.since} comes after the step itself; write an earlier time"


def _watch_complaints(scenario: Scenario) -> Iterator[str]:
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
    """Files are read before anything happens, so that a wrong path is found at once."""
    timeline = [
        step if step.apply is None
        else msgspec.structs.replace(step, apply=_loaded(f"timeline[{index}].apply", step.apply, load))
        for index, step in enumerate(scenario.timeline)
    ]  # fmt: skip
    manifests = _loaded("manifests", scenario.manifests, load)
    return msgspec.structs.replace(scenario, manifests=manifests, timeline=tuple(timeline))


def _loaded(path: str, manifests: Manifests, load: Load) -> tuple[JsonObject, ...]:
    found: list[JsonObject] = []
    for index, manifest in enumerate(manifests):
        if isinstance(manifest, str):
            found += load(manifest)
            continue
        error_message = _manifest_complaint(manifest)
        if error_message:
            raise ScenarioError(f"{path}[{index}]: {error_message}; write a whole object, or the path of a file")
        found.append(manifest)
    return tuple(found)


def _manifest_complaint(manifest: JsonObject) -> str:
    for key in ("apiVersion", "kind"):
        if not isinstance(manifest.get(key), str):
            return f"has no {key}"
    metadata = manifest.get("metadata")
    is_named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
    return "" if is_named else "has no metadata.name"
