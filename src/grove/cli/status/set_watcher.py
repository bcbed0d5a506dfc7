"""Watch sets and their children, and render every change. `tree.py` builds the trees."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from random import Random
from typing import Any, Protocol

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource
from grove.api.types.meta import OwnerKey
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.cli.common import output
from grove.cli.common.output import Format, Row
from grove.cli.status.tree import SetNode, SetObjects, build_tree, without_pods
from grove.cli.status.tree_diff import changes
from grove.cli.status.tree_view import table_rows, tree_rows
from grove.clock import Clock
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store

SHORTEST_PAUSE_SECONDS = 0.2
# Rendering takes at most a tenth of the time, even for large sets.
PAUSE_PER_COST = 9.0


class Followed:
    """A watcher of one set, or without a name of all sets.

    `run` watches until cancelled; `trees` returns the current state of the caches.
    """

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
        # Resource, store, label selector, field selector.
        self._kinds: tuple[tuple[Resource[Any], Store[Any], str, str], ...] = (
            (PODCLIQUESETS, self._sets, "", f"metadata.name={name}" if name else ""),
            (GROUPS, self._groups, parts, ""),
            (PODCLIQUES, self._cliques, parts, ""),
            (PODGANGS, self._gangs, parts, ""),
            (PODS, self._pods, parts, ""),
        )

    async def look_once(self) -> list[SetNode]:
        """List once, without watching. Raises `ApiError`."""
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
        sets = sorted(self._sets.values(), key=lambda pcs: (pcs.metadata.namespace, pcs.metadata.name))
        parts = [Parts(pcs) for pcs in sets]
        owners: dict[OwnerKey | None, Parts] = {
            PODCLIQUESETS.owner_key(pcs.metadata): mine for pcs, mine in zip(sets, parts, strict=True)
        }
        for group in self._groups.values():
            if (mine := owners.get(group.metadata.controller)) is not None:
                mine.groups.append(group)
                owners[GROUPS.owner_key(group.metadata)] = mine
        for gang in self._gangs.values():
            if (mine := owners.get(gang.metadata.controller)) is not None:
                mine.gangs.append(gang)
        for clique in self._cliques.values():
            if (mine := owners.get(clique.metadata.controller)) is not None:
                mine.cliques.append(clique)
                owners[PODCLIQUES.owner_key(clique.metadata)] = mine
        for pod in self._pods.values():
            if (mine := owners.get(pod.metadata.controller)) is not None:
                mine.pods.append(pod)
        return [mine.objects() for mine in parts]


class Parts:
    """A set and its children that were found so far."""

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


class Look(Protocol):
    """A renderer of trees."""

    @property
    def redraw_seconds(self) -> float | None:
        """The time after which to render again even if nothing changed."""

    def tell(self, trees: Sequence[SetNode]) -> None: ...


async def show_for_ever(followed: Followed, clock: Clock, output_format: Format, *, is_one: bool = False) -> None:
    """Print sets until cancelled: a live tree on a terminal, else a line per change, or a line of JSON per change."""
    if output_format is Format.JSON:
        await keep_looking(followed, clock, Records())
    elif output.is_terminal():
        with output.screen() as draw:
            await keep_looking(followed, clock, LiveTree(clock, draw, is_one=is_one))
    else:
        await keep_looking(followed, clock, Changes(clock))


async def keep_looking(followed: Followed, clock: Clock, look: Look) -> None:
    """Render changes until cancelled, with pauses that leave most of the time to other tasks."""
    await followed.seen.wait()
    while True:
        began_at = clock.monotonic()
        followed.changed.clear()
        look.tell(followed.trees())
        await _next(followed, clock, clock.monotonic() - began_at, at_most=look.redraw_seconds)


class Records:
    """A renderer that prints all sets as one line of JSON."""

    redraw_seconds = None

    def tell(self, trees: Sequence[SetNode]) -> None:
        output.say_json_line(trees)


class LiveTree:
    """A renderer that draws trees on a terminal, every second because ages change."""

    redraw_seconds = 1.0

    def __init__(
        self,
        clock: Clock,
        draw: Callable[[Sequence[Row]], None],
        *,
        is_one: bool = False,
        share: float = 1.0,
        has_hint: bool = True,
    ) -> None:
        """`share`: the part of the terminal's height to use. `has_hint`: whether to print the `grove why` hint."""
        self._clock = clock
        self._draw = draw
        self._is_one = is_one
        self._share = share
        self._has_hint = has_hint

    def tell(self, trees: Sequence[SetNode]) -> None:
        height = max(1, int(output.height() * self._share))
        self._draw(picture(trees, self._clock.now(), height, is_one=self._is_one, has_hint=self._has_hint))


def picture(trees: Sequence[SetNode], now: datetime, height: int, *, is_one: bool, has_hint: bool = True) -> list[Row]:
    """Return as much detail as fits the height: with pods, without pods, or one line per set."""
    if not trees:
        return [(output.Cell("no PodCliqueSets yet", output.Tone.FAINT),)]
    rows = [row for tree in trees for row in tree_rows(tree, now, has_hint=has_hint)]
    if len(rows) > height:
        rows = [row for tree in trees for row in tree_rows(without_pods(tree), now, has_hint=has_hint)]
    if len(rows) > height and not is_one:
        rows = table_rows(trees, now, has_namespaces=True)
    return rows


class Changes:
    """A renderer that prints one line with the time per change."""

    redraw_seconds = None

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before: Sequence[SetNode] = ()

    def tell(self, trees: Sequence[SetNode]) -> None:
        for line in changes(self._before, trees):
            output.say(f"{self._clock.now():%H:%M:%S} {line}")
        self._before = trees


async def _next(followed: Followed, clock: Clock, cost: float, *, at_most: float | None) -> None:
    """Sleep for a pause that depends on the cost, then wait for a change, but at most `at_most` seconds."""
    await clock.sleep(max(SHORTEST_PAUSE_SECONDS, PAUSE_PER_COST * cost))
    try:
        async with asyncio.timeout(at_most):
            await followed.changed.wait()
    except TimeoutError:
        return
