"""Two gangs and room for one of them, again and again: what is drawn, and an eye on every pod meanwhile.

What "partial" means. Pods are bound one by one even when one decision placed them all, so an eye on the watch sees
every gang grow. A gang is *begun* from its first pod on a node until every clique has its minimum on nodes; then it is
*whole*. No gang is ever partial:

* while two gangs contend for room that both cannot have, not one moment shows pods of both on nodes. Had the scheduler
  placed a part of either, the other would find its room taken, or take it, and both would be seen;
* what was begun becomes whole before it loses a pod;
* when everybody has been told, one gang is whole and the other has nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random

import msgspec

from grove.api import labels
from grove.api.resources import PODCLIQUESETS, PODS
from grove.api.types.meta import JsonObject, Uid, find_condition
from grove.api.types.pod import Pod
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from tests.e2e.harness import POLL_SECONDS
from tests.e2e.native import NativeStage

ROUND = "e2e.grove.io/round"
MOST_CLIQUES = 3
MOST_PODS = 3


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """A clique: how many pods it has, and how many it needs."""

    replicas: int
    minimum: int


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """A set of one gang."""

    name: str
    round_index: int
    sizes: tuple[Size, ...]

    @property
    def minimum(self) -> int:
        return sum(size.minimum for size in self.sizes)

    @property
    def minima(self) -> Mapping[str, int]:
        return {f"{self.name}-0-c{index}": size.minimum for index, size in enumerate(self.sizes)}

    def manifest(self) -> JsonObject:
        return {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": self.name},
            "spec": {"replicas": 1, "template": {"cliques": [self._clique(index) for index in range(len(self.sizes))]}},
        }

    def _clique(self, index: int) -> JsonObject:
        size = self.sizes[index]
        container = {"name": "main", "image": "none", "resources": {"requests": {"memory": "80Mi"}}}
        pod_spec = {"containers": [container], "nodeSelector": {ROUND: str(self.round_index)}}
        spec = {"roleName": f"role-{index}", "replicas": size.replicas, "minAvailable": size.minimum}
        return {"name": f"c{index}", "spec": {**spec, "podSpec": pod_spec}}


class Round(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    contenders: tuple[Contender, Contender]
    # Enough for either of them, not for both.
    nodes: int
    # Both wait already when the nodes come, one by one; else the nodes are there first.
    comes_late: bool


def draw_rounds(chance: Random, indices: Iterable[int]) -> list[Round]:
    return [_draw_round(chance, index) for index in indices]


def _draw_round(chance: Random, index: int) -> Round:
    first, second = (
        Contender(name=f"round-{index}-{side}", round_index=index, sizes=_draw_sizes(chance)) for side in ("a", "b")
    )
    least, most = max(first.minimum, second.minimum), first.minimum + second.minimum - 1
    nodes, comes_late = chance.randint(least, most), chance.random() < 0.5
    return Round(index=index, contenders=(first, second), nodes=nodes, comes_late=comes_late)


def _draw_sizes(chance: Random) -> tuple[Size, ...]:
    """A gang that one pod makes whole could never be partial, so its minima are two at least."""
    while True:
        counts = [chance.randint(1, MOST_PODS) for _ in range(chance.randint(1, MOST_CLIQUES))]
        sizes = tuple(Size(replicas=count, minimum=chance.randint(1, count)) for count in counts)
        if sum(size.minimum for size in sizes) > 1:
            return sizes


class Referee:
    """Every pod of a namespace as a watch tells; after each change the gangs of its round are judged."""

    def __init__(self, stage: NativeStage, rounds: Iterable[Round]) -> None:
        self.broken: list[str] = []
        # Rounds in which somebody was told to make room: then both may be seen for a moment.
        self.conceded: set[int] = set()
        self._round_of = {contender.name: one for one in rounds for contender in one.contenders}
        self._pods: dict[str, dict[Uid, Pod]] = {name: {} for name in self._round_of}
        self._begun: dict[str, int] = {}
        self._stage = stage
        store: Store[Pod] = Store()
        store.subscribe(self._changed)
        self.reflector = Reflector(
            stage.client, PODS, store, stage.cluster.clock, Random(1), namespace=stage.namespace
        )  # fmt: skip

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that the watch tells. `Stage.wait_until` would list every kind ten times a second."""
        clock = self._stage.cluster.clock
        deadline = clock.monotonic() + self._stage.patience
        while not holds():
            for operator in self._stage.cluster.operators:
                operator.check_alive()
            assert clock.monotonic() < deadline, f"not so in time\n{await self._stage.report()}"
            await clock.sleep(POLL_SECONDS)

    def held(self, contender: Contender) -> Mapping[str, int]:
        """By clique: how many pods that stay are on nodes."""
        counts = dict.fromkeys(contender.minima, 0)
        for pod in self._pods[contender.name].values():
            if pod.spec.node_name and not pod.metadata.is_terminating:
                counts[pod.metadata.labels[labels.PODCLIQUE]] += 1
        return counts

    def is_whole(self, contender: Contender) -> bool:
        held = self.held(contender)
        return all(held[clique] >= minimum for clique, minimum in contender.minima.items())

    def is_told(self, contender: Contender) -> bool:
        """All its pods are there, none has a node, and the scheduler said so of those that it was shown."""
        pods = self._pods[contender.name].values()
        verdicts = [_verdict(pod) for pod in pods if not pod.is_gated]
        return (
            len(pods) == sum(size.replicas for size in contender.sizes)
            and len(verdicts) >= contender.minimum
            and all(verdict == "Unschedulable" for verdict in verdicts)
        )

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        name = pod.metadata.labels[labels.PART_OF]
        if new is None:
            self._pods[name].pop(pod.metadata.uid, None)
        else:
            self._pods[name][pod.metadata.uid] = new
        self._judge(self._round_of[name])

    def _judge(self, one: Round) -> None:
        if one.index in self.conceded:
            return
        held = {contender.name: sum(self.held(contender).values()) for contender in one.contenders}
        if all(held.values()):
            self.broken.append(f"round {one.index}: both hold nodes, {held} of {one.nodes}")
        for contender in one.contenders:
            self._judge_growth(contender, held[contender.name])

    def _judge_growth(self, contender: Contender, count: int) -> None:
        before = self._begun.get(contender.name, 0)
        if count < before and not self.is_whole(contender):
            self.broken.append(f"{contender.name} had {before} pods on nodes, has {count}, and never was whole")
        if self.is_whole(contender):
            self._begun.pop(contender.name, None)
        else:
            self._begun[contender.name] = count


def _verdict(pod: Pod) -> str:
    condition = find_condition(pod.status.conditions, "PodScheduled")
    return "" if condition is None else condition.reason


@asynccontextmanager
async def judged(stage: NativeStage, rounds: Iterable[Round]) -> AsyncIterator[Referee]:
    referee = Referee(stage, rounds)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(referee.reflector.run())
        await referee.reflector.listed.wait()
        yield referee
        following.cancel()
    # Only who heard of everything may judge.
    assert referee.reflector.restarts == 0


async def contend(stage: NativeStage, rounds: Sequence[Round], referee: Referee) -> None:
    """Bring nodes and gangs together, in every round in its order."""
    late = [one for one in rounds if one.comes_late]
    for one in rounds:
        if one not in late:
            await stage.add_nodes(one.nodes, {ROUND: str(one.index)})
    for contender in (contender for one in rounds for contender in one.contenders):
        await stage.client.create(PODCLIQUESETS, stage.namespace, contender.manifest())
    await referee.wait_until(lambda: all(referee.is_told(contender) for one in late for contender in one.contenders))
    for one in late:
        await stage.add_nodes(one.nodes, {ROUND: str(one.index)})
