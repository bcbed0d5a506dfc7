"""Runner of scenarios on virtual time: it takes the steps and checks the expectations.

The format of a file is in `scenario_file.py`; the lines of the output are in `narrator.py`.
"""

import difflib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from random import Random
from typing import Any, Generic, TypeVar

import msgspec

from grove.api import labels
from grove.api.resources import GROUPS, NODES, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource
from grove.api.types.meta import Condition, JsonObject, ObjectMeta, Uid, WireStruct, find_condition
from grove.api.types.pod import Pod
from grove.api.values.clique_counts import LOCAL_IMAGE
from grove.api.values.durations import parse_duration
from grove.clock import Clock, LoopClock
from grove.cluster.default_topology_binding import create_topology
from grove.controller.controller_options import ControllerOptions
from grove.controller.manager import Controller
from grove.errors import Bug, UserError
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.planner.explain.text import count_noun, verb
from grove.sim.faults import FaultPlan
from grove.sim.scenario.narrator import SCENARIO, NarratedLine, Narrator, clock_time
from grove.sim.scenario.scenario_file import (
    ABSENT,
    ALL,
    LOST,
    ConditionIs,
    Expect,
    LoadChange,
    Lose,
    NodeAction,
    NodeGroup,
    OperatorAction,
    Scale,
    Scenario,
    ScenarioError,
    ScenarioStep,
)
from grove.sim.scenario.simulated_loads import SimulatedLoads, UnitLoad
from grove.sim.simulation import EPOCH, NotSettled, SimulatedOperator, World

E = TypeVar("E")

# The kinds of targets, such as `pcs/chat`.
_TARGETS: dict[str, Resource[Any]] = {
    "pcs": PODCLIQUESETS, "podcliqueset": PODCLIQUESETS, "pcsg": GROUPS, "podcliquescalinggroup": GROUPS,
    "pclq": PODCLIQUES, "podclique": PODCLIQUES, "pg": PODGANGS, "podgang": PODGANGS, "pod": PODS,
}  # fmt: skip
_ALL = tuple(_TARGETS.values())
_SCALABLE = (PODCLIQUESETS, GROUPS, PODCLIQUES)
_LATE_SECONDS = 3600.0
_LISTED = 5


class Played(msgspec.Struct, Generic[E], frozen=True, kw_only=True):
    lines: tuple[NarratedLine, ...]
    # A message for each expectation that did not hold.
    failures: tuple[str, ...]
    ends_at: float
    ending: E


async def play(
    scenario: Scenario, *, seed: int, until: float | None, at_end: Callable[[World], Awaitable[E]]
) -> Played[E]:
    """Run a scenario to its end. `until`, in seconds, takes precedence over the `until` of the file."""
    # The same virtual time as the simulation.
    narrator = Narrator(LoopClock(EPOCH))
    async with World(seed=seed, operator=partial(_narrated_operator, narrator), is_checked=False) as world:
        world.server.store.subscribe(narrator.observe)
        world.timeline.subscribe(narrator.observe_write)
        player = _Player(world, scenario, narrator)
        await player.run(scenario.ends_at if until is None else until)
        return Played(
            lines=narrator.lines,
            failures=tuple(player.failures),
            ends_at=narrator.seconds,
            ending=await at_end(world),
        )


def _narrated_operator(narrator: Narrator, client: Client, clock: Clock, random: Random) -> SimulatedOperator:
    return Controller(client, clock, random, ControllerOptions(init_image=LOCAL_IMAGE), decision_log=narrator)


class _Player:
    """One run of a scenario. It tracks the nodes that steps failed or removed, and which pods ran when."""

    def __init__(self, world: World, scenario: Scenario, narrator: Narrator) -> None:
        self._world = world
        self._scenario = scenario
        self._narrator = narrator
        self._lost: list[str] = []
        self._loads = SimulatedLoads(world)
        self._remembered: dict[float, dict[str, frozenset[Uid]]] = {}
        self.failures: list[str] = []

    async def run(self, until: float | None) -> None:
        for index, group in enumerate(self._scenario.nodes):
            try:
                await self._world.nodes.create(group.count, group.resources, group.labels)
            except ApiError as error:
                raise ScenarioError(f"nodes[{index}]: rejected by the API server: {error.message}") from error
        await create_topology(self._world.client)
        count = sum(group.count for group in self._scenario.nodes)
        self._narrator.add_line(SCENARIO, f"{count_noun(count, 'node')} {verb(count, 'is', 'are')} there")
        await self._apply("manifests", self._scenario.manifests)
        for at in self._moments(until):
            await self._wait_until(at)
            self._remembered[at] = self._running_uids()
            for index, step in enumerate(self._scenario.timeline):
                if step.seconds == at:
                    await self._take(f"timeline[{index}]", step)
        await self._end(until)

    def _moments(self, until: float | None) -> list[float]:
        """Return the times of all steps, and the times whose pods a later expectation refers to."""
        steps = self._scenario.timeline
        moments = {step.seconds for step in steps}
        moments |= {_since(step.expect) for step in steps if step.expect is not None and step.expect.since is not None}
        return sorted(moment for moment in moments if until is None or moment <= until)

    async def _wait_until(self, at: float) -> None:
        """Let time pass until then. Loads that grow or fall over time change meanwhile."""
        while (moment := self._loads.next_change(at)) is not None:
            await self._sleep_until(moment)
            await self._loads.apply_changes(moment)
        await self._sleep_until(at)

    async def _sleep_until(self, at: float) -> None:
        pause = at - self._narrator.seconds
        if pause > 0:
            await self._world.clock.sleep(pause)

    async def _end(self, until: float | None) -> None:
        await self._wait_until(self._loads.ends_at if until is None else until)
        if until is not None:
            return
        try:
            await self._world.settle(limit_seconds=_LATE_SECONDS)
        except NotSettled:
            self._narrator.add_line(SCENARIO, "ends here, though something still changes", "write until to see more")

    async def _take(self, path: str, step: ScenarioStep) -> None:
        (key,) = step.keys
        try:
            await self._do(f"{path}.{key}", step)
        except ApiError as error:
            raise ScenarioError(f"{path}.{key}: rejected by the API server at {step.at}: {error.message}") from error

    async def _do(self, path: str, step: ScenarioStep) -> None:
        world = self._world
        match step:
            case ScenarioStep(apply=manifests) if manifests is not None:
                await self._apply(path, manifests)
            case ScenarioStep(delete=str(target)):
                resource, name = self._find_existing(path, target)
                await world.delete(resource, name)
                self._narrator.add_line(SCENARIO, f"deletes {target}")
            case ScenarioStep(scale=Scale() as scale):
                resource, name = self._find_existing(f"{path}.target", scale.target, _SCALABLE)
                await world.scale(resource, name, scale.replicas)
                self._narrator.add_line(SCENARIO, f"scales {scale.target} to {scale.replicas}")
            case ScenarioStep(load=LoadChange() as change):
                await self._change_load(path, change)
            case ScenarioStep(lose=Lose() as lose):
                await self._lose(path, lose)
            case ScenarioStep(add=NodeGroup() as group):
                names = await world.nodes.create(group.count, group.resources, group.labels)
                self._narrator.add_line(SCENARIO, f"adds {_list_names(names)}")
            case ScenarioStep(operator=OperatorAction() as action):
                await self._operator(action)
            case ScenarioStep(freeze=str(plural)):
                world.freeze_watch(plural)
                self._narrator.add_line(SCENARIO, f"freezes the operator's watch of {plural}")
            case ScenarioStep(thaw=str(plural)):
                world.thaw_watch(plural)
                self._narrator.add_line(SCENARIO, f"thaws the operator's watch of {plural}")
            case ScenarioStep(faults=FaultPlan() as plan):
                world.set_faults(plan)
                self._narrator.add_line(SCENARIO, "changes the faults between the operator and the API server")
            case ScenarioStep(expect=Expect() as expect):
                self._check_expectations(path, expect)
            case _:
                await self._nodes(path, step)

    def _find_existing(
        self, path: str, text: str, allowed: tuple[Resource[Any], ...] = _ALL
    ) -> tuple[Resource[Any], str]:
        resource, name = _parse_target(path, text, allowed)
        there = [obj.metadata.name for obj in self._world.objects(resource)]
        if name not in there:
            raise ScenarioError(f"{path}: no {text} at {clock_time(self._narrator.seconds)}{_near(name, there)}")
        return resource, name

    async def _apply(self, path: str, manifests: Iterable[str | JsonObject]) -> None:
        for manifest in manifests:
            if isinstance(manifest, str):
                raise Bug(f"{path}: {manifest} was not read")
            name = f"{str(manifest['kind']).lower()}/{manifest['metadata'].get('name', '')}"
            try:
                applied = await self._world.apply(manifest)
            except ApiError as error:
                raise ScenarioError(f"{path}: {name} is rejected: {error.message}") from error
            except UserError as error:
                raise ScenarioError(f"{path}: {name}: {error}") from error
            self._narrator.add_line(SCENARIO, f"applies {name}")
            for warning in (warning for one in applied for warning in one.warnings):
                self._narrator.add_line(SCENARIO, f"is warned about {name}", warning)

    # Pods and nodes

    async def _change_load(self, path: str, change: LoadChange) -> None:
        resource, name = self._find_existing(f"{path}.target", change.target, _SCALABLE)
        (metadata,) = (one.metadata for one in self._world.objects(resource) if one.metadata.name == name)
        pcs = name if resource is PODCLIQUESETS else metadata.labels.get(labels.PART_OF, "")
        over = f" over {change.over}" if change.over else ""
        self._narrator.add_line(SCENARIO, f"sets the load of {change.target} to {change.cpu} CPU{over}")
        self._loads.plan(UnitLoad(metadata.namespace, pcs, name), change, self._narrator.seconds)
        await self._loads.apply_changes(self._narrator.seconds)

    async def _lose(self, path: str, lose: Lose) -> None:
        self._check_clique(f"{path}.clique", lose.clique)
        running = [pod for pod in self._world.running_pods() if _clique_of(pod) == lose.clique]
        wanted = len(running) if lose.pods is None else lose.pods
        if len(running) < max(wanted, 1):
            found = f"{lose.clique} has {count_noun(len(running), 'pod')} that run"
            raise ScenarioError(f"{path}: {found}; lose fewer pods, or lose them later")
        lost = running[:wanted]
        nodes = list(dict.fromkeys(pod.spec.node_name for pod in lost))
        what = f"loses {count_noun(len(lost), 'pod')} of {lose.clique}"
        self._narrator.add_line(
            SCENARIO, what if lose.nodes is NodeAction.KEEP else f"{what} and {lose.nodes}s {_list_names(nodes)}"
        )
        if lose.nodes is not NodeAction.KEEP:
            self._lost += nodes
        for node in nodes:
            await self._apply_node_action(lose.nodes, node)
        if lose.nodes in (NodeAction.KEEP, NodeAction.CORDON):
            for pod in lost:
                await self._world.client.delete(PODS, pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid)

    async def _apply_node_action(self, action: NodeAction, node: str) -> None:
        nodes = self._world.nodes
        match action:
            case NodeAction.KEEP:
                return
            case NodeAction.CORDON:
                await nodes.cordon(node)
            case NodeAction.FAIL:
                await nodes.fail(node)
            case NodeAction.REMOVE:
                await nodes.remove(node)

    async def _nodes(self, path: str, step: ScenarioStep) -> None:
        (key,) = step.keys
        nodes = self._world.nodes
        acts = {
            "fail": nodes.fail, "recover": nodes.recover, "cordon": nodes.cordon,
            "uncordon": nodes.uncordon, "drain": nodes.drain, "remove": nodes.remove,
        }  # fmt: skip
        chosen = self._select_nodes(path, getattr(step, key))
        self._narrator.add_line(SCENARIO, f"{key}s {_list_names(chosen)}")
        for name in chosen:
            await acts[key](name)

    def _select_nodes(self, path: str, written: str | tuple[str, ...]) -> list[str]:
        there = [node.metadata.name for node in self._world.objects(NODES)]
        chosen: list[str] = []
        for word in (written,) if isinstance(written, str) else written:
            if word == ALL:
                chosen += there
            elif word == LOST:
                chosen += [name for name in self._lost if name in there]
            elif word in there:
                chosen.append(word)
            else:
                raise ScenarioError(
                    f"{path}: no node {word!r} at {clock_time(self._narrator.seconds)}{_near(word, there)}"
                )
        if not chosen:
            raise ScenarioError(f"{path}: there is no such node; a step before it must lose some")
        return list(dict.fromkeys(chosen))

    async def _operator(self, action: OperatorAction) -> None:
        self._narrator.add_line(
            SCENARIO, f"{action}es the operator" if action is OperatorAction.CRASH else f"{action}s the operator"
        )
        if action is OperatorAction.CRASH:
            await self._world.crash_controller()
        else:
            await self._world.restart_controller()

    # Expectations

    def _check_expectations(self, path: str, expect: Expect) -> None:
        errors = [
            *self._find_running_errors(path, expect),
            *(one for condition in expect.conditions if (one := self._describe_condition_error(path, condition))),
            *self._find_identity_errors(path, expect),
        ]
        for error_message in errors:
            self._narrator.add_line(SCENARIO, "expected otherwise", error_message)
            self.failures.append(f"{clock_time(self._narrator.seconds)} {path}: {error_message}")
        if not errors:
            self._narrator.add_line(SCENARIO, "finds all as expected")

    def _find_running_errors(self, path: str, expect: Expect) -> Iterator[str]:
        ready = [_clique_of(pod) for pod in self._world.running_pods() if pod.is_ready]
        for pattern, wanted in expect.running.items():
            self._check_clique(f"{path}.running", pattern)
            found = sum(fnmatchcase(clique, pattern) for clique in ready)
            if found != wanted:
                yield f"{count_noun(found, 'pod')} of {pattern} {verb(found, 'is', 'are')} ready, not {wanted}"

    def _describe_condition_error(self, path: str, wanted: ConditionIs) -> str:
        resource, name = _parse_target(f"{path}.conditions.of", wanted.of)
        objects = {obj.metadata.name: obj for obj in self._world.objects(resource.viewed_as(_WithConditions))}
        if name not in objects:
            return f"{wanted.of} does not exist"
        condition = find_condition(objects[name].status.conditions, wanted.type)
        status, reason = (condition.status, condition.reason) if condition else (ABSENT, "")
        if status != wanted.wanted_status or (wanted.reason and reason != wanted.reason):
            found = f"{status} ({reason})" if reason else status
            requested = f"{wanted.wanted_status} ({wanted.reason})" if wanted.reason else wanted.wanted_status
            return f"{wanted.type} of {wanted.of} is {found}, not {requested}"
        return ""

    def _find_identity_errors(self, path: str, expect: Expect) -> Iterator[str]:
        if expect.since is None:
            return
        before, now = self._remembered[_since(expect)], self._running_uids()
        there = {uid for uids in self._staying_uids().values() for uid in uids}
        for pattern in expect.kept:
            self._check_clique(f"{path}.kept", pattern)
            for clique in (clique for clique in before if fnmatchcase(clique, pattern)):
                gone = len(before[clique] - now.get(clique, frozenset()))
                if gone:
                    yield f"{gone} of the {count_noun(len(before[clique]), 'pod')} of {clique} were not kept"
        for pattern in expect.replaced:
            self._check_clique(f"{path}.replaced", pattern)
            for clique in (clique for clique in before if fnmatchcase(clique, pattern)):
                kept = len(before[clique] & there)
                if kept:
                    yield f"{kept} of the {count_noun(len(before[clique]), 'pod')} of {clique} were not replaced"

    def _running_uids(self) -> dict[str, frozenset[Uid]]:
        return _by_clique(self._world.running_pods())

    def _staying_uids(self) -> dict[str, frozenset[Uid]]:
        return _by_clique(pod for pod in self._world.pods() if not pod.metadata.is_terminating)

    def _check_clique(self, path: str, pattern: str) -> None:
        seen = list(self._narrator.cliques_seen)
        if not any(fnmatchcase(clique, pattern) for clique in seen):
            raise ScenarioError(
                f"{path}: no clique {pattern!r} until {clock_time(self._narrator.seconds)}{_near(pattern, seen)}"
            )


class _Conditions(WireStruct):
    conditions: tuple[Condition, ...] = ()


class _WithConditions(WireStruct):
    metadata: ObjectMeta
    status: _Conditions = _Conditions()


def _parse_target(path: str, text: str, allowed: tuple[Resource[Any], ...] = _ALL) -> tuple[Resource[Any], str]:
    word, _, name = text.partition("/")
    resource = _TARGETS.get(word)
    if resource is None or resource not in allowed or not name:
        kinds = [word for word, one in _TARGETS.items() if one in allowed and len(word) <= len("pcsg")]
        raise ScenarioError(f"{path}: {text!r} is not KIND/NAME; kinds: {', '.join(kinds)}")
    return resource, name


def _since(expect: Expect) -> float:
    return parse_duration(expect.since or "0").total_seconds()


def _by_clique(pods: Iterable[Pod]) -> dict[str, frozenset[Uid]]:
    found: dict[str, list[Uid]] = {}
    for pod in pods:
        found.setdefault(_clique_of(pod), []).append(pod.metadata.uid)
    return {clique: frozenset(uids) for clique, uids in found.items()}


def _clique_of(pod: Pod) -> str:
    return pod.metadata.labels.get(labels.PODCLIQUE, "")


def _near(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; there are {_list_names(known)}" if known else "; there is none at all"


def _list_names(names: Iterable[str]) -> str:
    found = list(names)
    shown = ", ".join(found[:_LISTED])
    return shown if len(found) <= _LISTED else f"{shown} and {len(found) - _LISTED} more"
