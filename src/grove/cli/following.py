"""Sets and all their parts, kept up to date by watches, for pictures that move. What they look like is `tree.py`."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from random import Random
from typing import Any

from grove.api import labels
from grove.api.meta import Uid
from grove.api.pod import Pod
from grove.api.podclique import PodClique
from grove.api.podcliqueset import PodCliqueSet
from grove.api.podgang import PodGang
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource
from grove.api.scalinggroup import PodCliqueScalingGroup
from grove.cli import output
from grove.cli.changes import changes
from grove.cli.output import Format, Row
from grove.cli.tree import SetNode, SetObjects, build_tree, without_pods
from grove.cli.tree_view import table_rows, tree_rows
from grove.clock import Clock
from grove.kube.cache import Store
from grove.kube.client import Client
from grove.kube.watch import Reflector

SHORTEST_PAUSE_SECONDS = 0.2
# Drawing may take a tenth of the time, however large the sets are.
PAUSE_PER_COST = 9.0


class Followed:
    """`run` until cancelled; `trees` is what is known now. Without a name: every set, and those that come."""

    def __init__(self, client: Client, clock: Clock, random: Random, *, namespace: str = "", name: str = "") -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._namespace = namespace
        self._sets: Store[PodCliqueSet] = Store()
        self._groups: Store[PodCliqueScalingGroup] = Store()
        self._cliques: Store[PodClique] = Store()
        self._gangs: Store[PodGang] = Store()
        self._pods: Store[Pod] = Store()
        self.changed = asyncio.Event()
        self.seen = asyncio.Event()
        """Set when everything was listed once."""
        chosen = {labels.PART_OF: name} if name else {}
        parts = labels.selector({labels.MANAGED_BY: labels.MANAGED_BY_VALUE, **chosen})
        # The resource, where its objects are kept, and which of them: by label, by field.
        self._kinds: tuple[tuple[Resource[Any], Store[Any], str, str], ...] = (
            (PODCLIQUESETS, self._sets, "", f"metadata.name={name}" if name else ""),
            (GROUPS, self._groups, parts, ""),
            (PODCLIQUES, self._cliques, parts, ""),
            (PODGANGS, self._gangs, parts, ""),
            (PODS, self._pods, parts, ""),
        )

    async def look_once(self) -> list[SetNode]:
        """Without watching. Raises `ApiError`."""
        listings = await asyncio.gather(
            *(
                self._client.list(resource, namespace=self._namespace, label_selector=by_label, field_selector=by_field)
                for resource, _, by_label, by_field in self._kinds
            )
        )
        for (_, store, _, _), listing in zip(self._kinds, listings, strict=True):
            store.apply_list(listing, store.begin_list())
        return self.trees()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            reflectors = [self._reflector(*kind) for kind in self._kinds]
            for reflector in reflectors:
                tasks.create_task(reflector.run())
            for reflector in reflectors:
                await reflector.listed.wait()
            self.seen.set()

    def _reflector(self, resource: Resource[Any], store: Store[Any], by_label: str, by_field: str) -> Reflector[Any]:
        store.subscribe(lambda *_: self.changed.set())
        return Reflector(
            self._client,
            resource,
            store,
            self._clock,
            self._random,
            namespace=self._namespace,
            label_selector=by_label,
            field_selector=by_field,
        )

    def trees(self) -> list[SetNode]:
        return [build_tree(objects) for objects in self.objects()]

    def objects(self) -> list[SetObjects]:
        parts: dict[Uid, Parts] = {}
        for pcs in sorted(self._sets.values(), key=lambda pcs: (pcs.metadata.namespace, pcs.metadata.name)):
            parts[pcs.metadata.uid] = Parts(pcs)
        owners: dict[Uid, Parts] = dict(parts)
        for group in self._groups.values():
            if (mine := owners.get(group.metadata.controller_uid or Uid(""))) is not None:
                mine.groups.append(group)
                owners[group.metadata.uid] = mine
        for gang in self._gangs.values():
            if (mine := owners.get(gang.metadata.controller_uid or Uid(""))) is not None:
                mine.gangs.append(gang)
        for clique in self._cliques.values():
            if (mine := owners.get(clique.metadata.controller_uid or Uid(""))) is not None:
                mine.cliques.append(clique)
                owners[clique.metadata.uid] = mine
        for pod in self._pods.values():
            if (mine := owners.get(pod.metadata.controller_uid or Uid(""))) is not None:
                mine.pods.append(pod)
        return [mine.objects() for mine in parts.values()]


class Parts:
    """One set and what was found of it so far."""

    def __init__(self, pcs: PodCliqueSet) -> None:
        self._pcs = pcs
        self.groups: list[PodCliqueScalingGroup] = []
        self.cliques: list[PodClique] = []
        self.gangs: list[PodGang] = []
        self.pods: list[Pod] = []

    def objects(self) -> SetObjects:
        return SetObjects(
            pcs=self._pcs,
            groups=tuple(self.groups),
            cliques=tuple(self.cliques),
            gangs=tuple(self.gangs),
            pods=tuple(self.pods),
        )


async def show_for_ever(followed: Followed, clock: Clock, output_format: Format, *, is_one: bool = False) -> None:
    """Until cancelled: a picture on a terminal, a line per change elsewhere, one line of JSON per look for programs."""
    await followed.seen.wait()
    if output_format is Format.JSON:
        await _print_looks(followed, clock)
    elif output.is_terminal():
        await _draw_looks(followed, clock, is_one=is_one)
    else:
        await _print_changes(followed, clock)


async def _print_looks(followed: Followed, clock: Clock) -> None:
    while True:
        followed.changed.clear()
        output.say_json_line(followed.trees())
        await _next(followed, clock, 0.0)


async def _draw_looks(followed: Followed, clock: Clock, *, is_one: bool) -> None:
    with output.screen() as draw:
        while True:
            began_at = clock.monotonic()
            followed.changed.clear()
            draw(picture(followed.trees(), clock.now(), output.height(), is_one=is_one))
            cost = clock.monotonic() - began_at
            await _next(followed, clock, cost, at_most=1.0)


def picture(trees: Sequence[SetNode], now: datetime, height: int, *, is_one: bool) -> list[Row]:
    """As much detail as there is room for: with pods, without them, or one line per set."""
    if not trees:
        return [(output.Cell("no PodCliqueSets yet", output.Tone.FAINT),)]
    rows = [row for tree in trees for row in tree_rows(tree, now)]
    if len(rows) > height:
        rows = [row for tree in trees for row in tree_rows(without_pods(tree), now)]
    if len(rows) > height and not is_one:
        rows = table_rows(trees, now, has_namespaces=True)
    return rows


async def _print_changes(followed: Followed, clock: Clock) -> None:
    before: list[SetNode] = []
    while True:
        began_at = clock.monotonic()
        followed.changed.clear()
        after = followed.trees()
        for line in changes(before, after):
            output.say(f"{clock.now():%H:%M:%S} {line}")
        before = after
        await _next(followed, clock, clock.monotonic() - began_at)


async def _next(followed: Followed, clock: Clock, cost: float, *, at_most: float | None = None) -> None:
    """Wait until there is something new to show; ages on a picture go on, so it is drawn again every `at_most` s."""
    await clock.sleep(max(SHORTEST_PAUSE_SECONDS, PAUSE_PER_COST * cost))
    try:
        async with asyncio.timeout(at_most):
            await followed.changed.wait()
    except TimeoutError:
        return
