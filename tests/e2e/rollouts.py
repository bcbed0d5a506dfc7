"""Template changes as people make them, and an eye on every pod while they are carried out.

The stories are in `test_updates_on_clusters.py`. A version is a label of the clique's template, so pods show it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import yaml

from grove.api import labels
from grove.api.resources import PODCLIQUESETS, PODS
from grove.api.types.meta import Condition, JsonObject, Uid, find_condition
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import PodCliqueSet
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from tests.e2e.harness import Stage
from tests.simulation.stories import find_set

VERSION = "version"


def at_version(
    path: Path,
    version: int,
    *cliques: str,
    replicas: int = 1,
    strategy: str = "",
    annotations: dict[str, str] | None = None,
) -> JsonObject:
    """The set with these cliques, or all of them, at a version; the others stay at the first."""
    manifest: JsonObject = yaml.safe_load(path.read_text())
    manifest["spec"]["replicas"] = replicas
    if strategy:
        manifest["spec"]["updateStrategy"] = {"type": strategy}
    for clique in manifest["spec"]["template"]["cliques"]:
        is_meant = not cliques or clique["name"] in cliques
        clique["labels"] = {VERSION: str(version if is_meant else 1)}
        clique["annotations"] = (annotations or {}) if is_meant else {}
    return manifest


def version_of(pod: Pod) -> int:
    return int(pod.metadata.labels[VERSION])


def clique_of(pod: Pod) -> str:
    return pod.metadata.labels[labels.PODCLIQUE]


def replica_of(pod: Pod) -> int:
    return int(pod.metadata.labels[labels.SET_REPLICA_INDEX])


def living(pods: Iterable[Pod], *cliques: str) -> dict[Uid, Pod]:
    """Pods that stay, of these cliques or of all, by uid."""
    return {
        pod.metadata.uid: pod
        for pod in pods
        if not pod.metadata.is_terminating and (not cliques or clique_of(pod) in cliques)
    }


# What the set says


def has_ended(stage: Stage, name: str) -> bool:
    """The set says that its last change is carried out. Then no pod of an earlier one lives, whoever looks."""
    pcs = find_set(stage, name)
    progress = pcs.status.rolling_update_progress
    is_said = (
        pcs.status.observed_generation == pcs.metadata.generation
        and progress is not None
        and progress.update_ended_at is not None
    )
    wanted = {clique.name: int(clique.labels[VERSION]) for clique in pcs.spec.template.cliques}
    pods = living(stage.pods()).values()
    older = [pod.metadata.name for pod in pods if version_of(pod) != wanted[_role(pod, wanted)]]
    # Pods were looked at after the set.
    assert not (is_said and older), f"done, it says, and there are {older}"
    return is_said


def _role(pod: Pod, roles: Iterable[str]) -> str:
    (role,) = (role for role in roles if clique_of(pod).endswith(f"-{role}"))
    return role


def is_updating(stage: Stage, name: str, replica_index: int) -> bool:
    progress = find_set(stage, name).status.rolling_update_progress
    current = None if progress is None else progress.currently_updating
    return current is not None and current.replica_index == replica_index


def stalled(stage: Stage, name: str) -> Condition | None:
    return find_condition(find_set(stage, name).status.conditions, "UpdateStalled")


# What is seen meanwhile


class Eye:
    """Every pod of a namespace as a watch tells, each change held against rules."""

    def __init__(self, stage: Stage, rules: tuple["Rule", ...]) -> None:
        self.pods: dict[Uid, Pod] = {}
        # Everybody who was ever there.
        self.seen: set[Uid] = set()
        self.broken: list[str] = []
        # Every stall that a set told of.
        self.stalls: list[str] = []
        # And everything that it said could not be carried out.
        self.troubles: list[str] = []
        self.is_open = False
        self._rules = rules
        pods: Store[Pod] = Store()
        pods.subscribe(self._changed)
        sets: Store[PodCliqueSet] = Store()
        sets.subscribe(self._told)
        client, clock, namespace = stage.client, stage.cluster.clock, stage.namespace
        self.reflectors: tuple[Reflector[Any], ...] = (
            Reflector(client, PODS, pods, clock, Random(1), namespace=namespace),
            Reflector(client, PODCLIQUESETS, sets, clock, Random(2), namespace=namespace),
        )

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self.pods.pop(old.metadata.uid, None)
        if new is not None:
            self.pods[new.metadata.uid] = new
            self.seen.add(new.metadata.uid)
        if self.is_open:
            self.broken += filter(None, (rule(self) for rule in self._rules))

    def _told(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        if self.is_open and new is not None:
            self.stalls += _said(new, "UpdateStalled")
            self.troubles += _said(new, "ReconcileFailed")

    def ready(self, *cliques: str) -> int:
        return sum(pod.is_ready for pod in living(self.pods.values(), *cliques).values())


def _said(pcs: PodCliqueSet, kind: str) -> list[str]:
    condition = find_condition(pcs.status.conditions, kind)
    return [] if condition is None else [f"{condition.reason}: {condition.message}"]


Rule = Callable[[Eye], str | None]


@asynccontextmanager
async def watching(stage: Stage, *rules: Rule) -> AsyncIterator[Eye]:
    """Not even for a moment in this block is one of the rules broken."""
    eye = Eye(stage, rules)
    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(reflector.run()) for reflector in eye.reflectors]
        for reflector in eye.reflectors:
            await reflector.listed.wait()
        eye.is_open = True
        yield eye
        for task in following:
            task.cancel()
    # Only who heard of everything may say so.
    assert [reflector.restarts for reflector in eye.reflectors] == [0, 0]
    assert eye.broken == []


def at_least_ready(count: int, *cliques: str) -> Rule:
    def check(eye: Eye) -> str | None:
        found = eye.ready(*cliques)
        return None if found >= count else f"{found} pods of {cliques} are ready, not {count}"

    return check


def untouched(pods: Iterable[Pod]) -> Rule:
    """These stay, as they are."""
    uids = {pod.metadata.uid for pod in pods}

    def check(eye: Eye) -> str | None:
        hurt = uids - {uid for uid, pod in living(eye.pods.values()).items() if pod.is_ready}
        return f"{len(hurt)} pods were touched that nobody changed" if hurt else None

    return check


def at_most_one_down(parts: Mapping[str, tuple[tuple[str, ...], int]]) -> Rule:
    """Of these parts, each of some cliques with so many pods, at most one has not all of its pods ready."""

    def check(eye: Eye) -> str | None:
        down = [name for name, (cliques, count) in parts.items() if eye.ready(*cliques) < count]
        return f"{down} are down at once" if len(down) > 1 else None

    return check


def one_replica_serves(pods_each: int) -> Rule:
    """At any moment some replica of the set has all of its pods ready."""

    def check(eye: Eye) -> str | None:
        ready = Counter(replica_of(pod) for pod in living(eye.pods.values()).values() if pod.is_ready)
        return None if pods_each in ready.values() else f"no replica serves: {dict(ready)}"

    return check


def in_order(first: int, then: int, version: int, pods_each: int) -> Rule:
    """Replica `first` runs the version, all of it ready, before anything of replica `then` is touched."""

    def check(eye: Eye) -> str | None:
        by_replica: dict[int, list[Pod]] = {}
        for pod in living(eye.pods.values()).values():
            by_replica.setdefault(replica_of(pod), []).append(pod)
        is_begun = sum(pod.is_ready and version_of(pod) != version for pod in by_replica.get(then, ())) < pods_each
        done = [pod for pod in by_replica.get(first, ()) if pod.is_ready and version_of(pod) == version]
        if is_begun and len(done) < pods_each:
            return f"replica {then} was begun while {len(done)} of {pods_each} pods of replica {first} were done"
        return None

    return check
