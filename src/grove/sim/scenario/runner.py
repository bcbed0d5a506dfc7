"""Plays a scenario in a world on virtual time: what happens, what is expected, and what came of it.

What a file may say is `scenario_file.py`; the lines of the account are `narrator.py`.
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
from grove.api.values.durations import parse_duration
from grove.clock import Clock, LoopClock
from grove.cluster.default_topology_binding import create_topology
from grove.controller.manager import Controller
from grove.errors import Bug, UserError
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.planner.explain.text import counted, verb
from grove.sim.faults import FaultPlan
from grove.sim.scenario.narrator import SCENARIO, Teller, Told, clock_time
from grove.sim.scenario.scenario_file import (
    ABSENT,
    ALL,
    LOST,
    ConditionIs,
    Expect,
    Fate,
    Life,
    Lose,
    NodeGroup,
    Scale,
    Scenario,
    ScenarioError,
    ScenarioStep,
)
from grove.sim.simulation import EPOCH, NotSettled, SimulatedOperator, World

E = TypeVar("E")

# How targets are written: `pcs/chat`.
_TARGETS: dict[str, Resource[Any]] = {
    "pcs": PODCLIQUESETS, "podcliqueset": PODCLIQUESETS, "pcsg": GROUPS, "podcliquescalinggroup": GROUPS,
    "pclq": PODCLIQUES, "podclique": PODCLIQUES, "pg": PODGANGS, "podgang": PODGANGS, "pod": PODS,
}  # fmt: skip
_ALL = tuple(_TARGETS.values())
_SCALABLE = (PODCLIQUESETS, GROUPS, PODCLIQUES)
_LATE_SECONDS = 3600.0
_LISTED = 5


class Played(msgspec.Struct, Generic[E], frozen=True, kw_only=True):
    lines: tuple[Told, ...]
    # Expectations that did not hold, each in words.
    failures: tuple[str, ...]
    ends_at: float
    ending: E


async def play(
    scenario: Scenario, *, seed: int, until: float | None, at_end: Callable[[World], Awaitable[E]]
) -> Played[E]:
    """From the first moment to the last. `until`, in seconds, counts more than what the file says."""
    # On the world's own time, which begins with it.
    teller = Teller(LoopClock(EPOCH))
    async with World(seed=seed, operator=partial(_told_operator, teller), is_checked=False) as world:
        world.server.store.subscribe(teller.observe)
        world.timeline.subscribe(teller.wrote)
        player = _Player(world, scenario, teller)
        await player.run(scenario.ends_at if until is None else until)
        return Played(
            lines=teller.lines,
            failures=tuple(player.failures),
            ends_at=teller.seconds,
            ending=await at_end(world),
        )


def _told_operator(teller: Teller, client: Client, clock: Clock, random: Random) -> SimulatedOperator:
    return Controller(client, clock, random, journal=teller)


class _Player:
    """One run. What it remembers are the nodes that steps took away, and which pods ran when."""

    def __init__(self, world: World, scenario: Scenario, teller: Teller) -> None:
        self._world = world
        self._scenario = scenario
        self._teller = teller
        self._lost: list[str] = []
        self._remembered: dict[float, dict[str, frozenset[Uid]]] = {}
        self.failures: list[str] = []

    async def run(self, until: float | None) -> None:
        for index, group in enumerate(self._scenario.nodes):
            try:
                await self._world.nodes.create(group.count, group.resources, group.labels)
            except ApiError as error:
                raise ScenarioError(f"nodes[{index}]: the cluster says no: {error.message}") from error
        await create_topology(self._world.client)
        count = sum(group.count for group in self._scenario.nodes)
        self._teller.tell(SCENARIO, f"{counted(count, 'node')} {verb(count, 'is', 'are')} there")
        await self._apply("manifests", self._scenario.manifests)
        for at in self._moments(until):
            await self._wait_until(at)
            self._remembered[at] = self._running_uids()
            for index, step in enumerate(self._scenario.timeline):
                if step.seconds == at:
                    await self._take(f"timeline[{index}]", step)
        await self._end(until)

    def _moments(self, until: float | None) -> list[float]:
        """When something happens, and when pods are remembered for what is expected later."""
        steps = self._scenario.timeline
        moments = {step.seconds for step in steps}
        moments |= {_since(step.expect) for step in steps if step.expect is not None and step.expect.since is not None}
        return sorted(moment for moment in moments if until is None or moment <= until)

    async def _wait_until(self, at: float) -> None:
        pause = at - self._teller.seconds
        if pause > 0:
            await self._world.clock.sleep(pause)

    async def _end(self, until: float | None) -> None:
        if until is not None:
            await self._wait_until(until)
            return
        try:
            await self._world.settle(limit_seconds=_LATE_SECONDS)
        except NotSettled:
            self._teller.tell(SCENARIO, "ends here, though something still changes", "write until to see more")

    async def _take(self, path: str, step: ScenarioStep) -> None:
        (key,) = step.given
        try:
            await self._do(f"{path}.{key}", step)
        except ApiError as error:
            raise ScenarioError(f"{path}.{key}: the cluster says no at {step.at}: {error.message}") from error

    async def _do(self, path: str, step: ScenarioStep) -> None:
        world = self._world
        match step:
            case ScenarioStep(apply=manifests) if manifests is not None:
                await self._apply(path, manifests)
            case ScenarioStep(delete=str(target)):
                resource, name = self._existing(path, target)
                await world.delete(resource, name)
                self._teller.tell(SCENARIO, f"deletes {target}")
            case ScenarioStep(scale=Scale() as scale):
                resource, name = self._existing(f"{path}.target", scale.target, _SCALABLE)
                await world.scale(resource, name, scale.replicas)
                self._teller.tell(SCENARIO, f"scales {scale.target} to {scale.replicas}")
            case ScenarioStep(lose=Lose() as lose):
                await self._lose(path, lose)
            case ScenarioStep(add=NodeGroup() as group):
                names = await world.nodes.create(group.count, group.resources, group.labels)
                self._teller.tell(SCENARIO, f"adds {_listed(names)}")
            case ScenarioStep(operator=Life() as life):
                await self._operator(life)
            case ScenarioStep(freeze=str(plural)):
                world.freeze_watch(plural)
                self._teller.tell(SCENARIO, f"freezes the operator's watch of {plural}")
            case ScenarioStep(thaw=str(plural)):
                world.thaw_watch(plural)
                self._teller.tell(SCENARIO, f"thaws the operator's watch of {plural}")
            case ScenarioStep(faults=FaultPlan() as plan):
                world.set_faults(plan)
                self._teller.tell(SCENARIO, "changes the weather between the operator and its server")
            case ScenarioStep(expect=Expect() as expect):
                self._judge(path, expect)
            case _:
                await self._nodes(path, step)

    def _existing(self, path: str, text: str, allowed: tuple[Resource[Any], ...] = _ALL) -> tuple[Resource[Any], str]:
        resource, name = _target(path, text, allowed)
        there = [obj.metadata.name for obj in self._world.objects(resource)]
        if name not in there:
            raise ScenarioError(f"{path}: no {text} at {clock_time(self._teller.seconds)}{_near(name, there)}")
        return resource, name

    async def _apply(self, path: str, manifests: Iterable[str | JsonObject]) -> None:
        for manifest in manifests:
            if isinstance(manifest, str):
                raise Bug(f"{path}: {manifest} was not read")
            name = f"{str(manifest['kind']).lower()}/{manifest['metadata'].get('name', '')}"
            try:
                applied = await self._world.apply(manifest)
            except ApiError as error:
                raise ScenarioError(f"{path}: {name} is refused: {error.message}") from error
            except UserError as error:
                raise ScenarioError(f"{path}: {name}: {error}") from error
            self._teller.tell(SCENARIO, f"applies {name}")
            for warning in (warning for one in applied for warning in one.warnings):
                self._teller.tell(SCENARIO, f"is warned about {name}", warning)

    # Pods and nodes

    async def _lose(self, path: str, lose: Lose) -> None:
        self._check_clique(f"{path}.clique", lose.clique)
        running = [pod for pod in self._world.running_pods() if _clique_of(pod) == lose.clique]
        wanted = len(running) if lose.pods is None else lose.pods
        if len(running) < max(wanted, 1):
            raise ScenarioError(
                f"{path}: {lose.clique} has {counted(len(running), 'pod')} that run; lose fewer, or later"
            )
        lost = running[:wanted]
        nodes = list(dict.fromkeys(pod.spec.node_name for pod in lost))
        what = f"loses {counted(len(lost), 'pod')} of {lose.clique}"
        self._teller.tell(SCENARIO, what if lose.nodes is Fate.KEEP else f"{what} and {lose.nodes}s {_listed(nodes)}")
        if lose.nodes is not Fate.KEEP:
            self._lost += nodes
        for node in nodes:
            await self._befall(lose.nodes, node)
        if lose.nodes in (Fate.KEEP, Fate.CORDON):
            for pod in lost:
                await self._world.client.delete(PODS, pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid)

    async def _befall(self, fate: Fate, node: str) -> None:
        nodes = self._world.nodes
        match fate:
            case Fate.KEEP:
                return
            case Fate.CORDON:
                await nodes.cordon(node)
            case Fate.FAIL:
                await nodes.fail(node)
            case Fate.REMOVE:
                await nodes.remove(node)

    async def _nodes(self, path: str, step: ScenarioStep) -> None:
        (key,) = step.given
        nodes = self._world.nodes
        acts = {
            "fail": nodes.fail, "recover": nodes.recover, "cordon": nodes.cordon,
            "uncordon": nodes.uncordon, "drain": nodes.drain, "remove": nodes.remove,
        }  # fmt: skip
        chosen = self._chosen(path, getattr(step, key))
        self._teller.tell(SCENARIO, f"{key}s {_listed(chosen)}")
        for name in chosen:
            await acts[key](name)

    def _chosen(self, path: str, written: str | tuple[str, ...]) -> list[str]:
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
                    f"{path}: no node {word!r} at {clock_time(self._teller.seconds)}{_near(word, there)}"
                )
        if not chosen:
            raise ScenarioError(f"{path}: there is no such node; a step before it must lose some")
        return list(dict.fromkeys(chosen))

    async def _operator(self, life: Life) -> None:
        self._teller.tell(SCENARIO, f"{life}es the operator" if life is Life.CRASH else f"{life}s the operator")
        if life is Life.CRASH:
            await self._world.crash_controller()
        else:
            await self._world.restart_controller()

    # Expectations

    def _judge(self, path: str, expect: Expect) -> None:
        complaints = [
            *self._running_complaints(path, expect),
            *(one for condition in expect.conditions if (one := self._condition_complaint(path, condition))),
            *self._identity_complaints(path, expect),
        ]
        for error_message in complaints:
            self._teller.tell(SCENARIO, "expected otherwise", error_message)
            self.failures.append(f"{clock_time(self._teller.seconds)} {path}: {error_message}")
        if not complaints:
            self._teller.tell(SCENARIO, "finds all as expected")

    def _running_complaints(self, path: str, expect: Expect) -> Iterator[str]:
        ready = [_clique_of(pod) for pod in self._world.running_pods() if pod.is_ready]
        for pattern, wanted in expect.running.items():
            self._check_clique(f"{path}.running", pattern)
            found = sum(fnmatchcase(clique, pattern) for clique in ready)
            if found != wanted:
                yield f"{counted(found, 'pod')} of {pattern} {verb(found, 'is', 'are')} ready, not {wanted}"

    def _condition_complaint(self, path: str, wanted: ConditionIs) -> str:
        resource, name = _target(f"{path}.conditions.of", wanted.of)
        objects = {obj.metadata.name: obj for obj in self._world.objects(resource.viewed_as(_WithConditions))}
        if name not in objects:
            return f"{wanted.of} does not exist"
        condition = find_condition(objects[name].status.conditions, wanted.type)
        status, reason = (condition.status, condition.reason) if condition else (ABSENT, "")
        if status != wanted.wanted_status or (wanted.reason and reason != wanted.reason):
            found = f"{status} ({reason})" if reason else status
            asked = f"{wanted.wanted_status} ({wanted.reason})" if wanted.reason else wanted.wanted_status
            return f"{wanted.type} of {wanted.of} is {found}, not {asked}"
        return ""

    def _identity_complaints(self, path: str, expect: Expect) -> Iterator[str]:
        if expect.since is None:
            return
        before, now = self._remembered[_since(expect)], self._running_uids()
        there = {uid for uids in self._living_uids().values() for uid in uids}
        for pattern in expect.kept:
            self._check_clique(f"{path}.kept", pattern)
            for clique in (clique for clique in before if fnmatchcase(clique, pattern)):
                gone = len(before[clique] - now.get(clique, frozenset()))
                if gone:
                    yield f"{gone} of the {counted(len(before[clique]), 'pod')} of {clique} were not kept"
        for pattern in expect.replaced:
            self._check_clique(f"{path}.replaced", pattern)
            for clique in (clique for clique in before if fnmatchcase(clique, pattern)):
                kept = len(before[clique] & there)
                if kept:
                    yield f"{kept} of the {counted(len(before[clique]), 'pod')} of {clique} were not replaced"

    def _running_uids(self) -> dict[str, frozenset[Uid]]:
        return _by_clique(self._world.running_pods())

    def _living_uids(self) -> dict[str, frozenset[Uid]]:
        return _by_clique(pod for pod in self._world.pods() if not pod.metadata.is_terminating)

    def _check_clique(self, path: str, pattern: str) -> None:
        seen = list(self._teller.cliques_seen)
        if not any(fnmatchcase(clique, pattern) for clique in seen):
            raise ScenarioError(
                f"{path}: no clique {pattern!r} until {clock_time(self._teller.seconds)}{_near(pattern, seen)}"
            )


class _Conditions(WireStruct):
    conditions: tuple[Condition, ...] = ()


class _WithConditions(WireStruct):
    metadata: ObjectMeta
    status: _Conditions = _Conditions()


def _target(path: str, text: str, allowed: tuple[Resource[Any], ...] = _ALL) -> tuple[Resource[Any], str]:
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
    return f"; there are {_listed(known)}" if known else "; there is none at all"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    shown = ", ".join(found[:_LISTED])
    return shown if len(found) <= _LISTED else f"{shown} and {len(found) - _LISTED} more"
