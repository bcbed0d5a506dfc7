"""Watch sets and their children, and render every change. `tree.py` builds the trees."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from grove.api import labels
from grove.api.resources import AUTOSCALERS, GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import OwnerKey
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.cli.common import output
from grove.cli.common.live_display import call_on_resize, open_live_draw
from grove.cli.common.output import Format, Row
from grove.cli.status.tree import SetNode, SetObjects, build_tree
from grove.cli.status.tree_diff import describe_tree_changes
from grove.cli.status.tree_view import PageSize, page_rows
from grove.clock import Clock
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store

SHORTEST_PAUSE_SECONDS = 0.2
PAUSE_PER_COST = 9.0
DEFAULT_NAMESPACE = "default"
NO_SETS = "no PodCliqueSets yet; `grove apply -f FILE` creates one"


class SetWatcher:
    """A watcher of one set, or without a name of all sets.

    `run` watches until cancelled; `trees` returns the current state of the caches.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        namespace: str = "",
        name: str = "",
        selector: str = "",
    ) -> None:
        """`selector`: the labels of the sets. Their children are found by owner references."""
        self._client = client
        self._clock = clock
        self._random = random
        self._namespace = namespace
        self._sets: Store[PodCliqueSet] = Store()
        self._groups: Store[PodCliqueScalingGroup] = Store()
        self._cliques: Store[PodClique] = Store()
        self._gangs: Store[PodGang] = Store()
        self._pods: Store[Pod] = Store()
        self._autoscalers: Store[HorizontalPodAutoscaler] = Store()
        self.changed = asyncio.Event()
        self.listed = asyncio.Event()
        """Set when everything was listed once."""
        part_of = {labels.PART_OF: name} if name else {}
        children = labels.selector({labels.MANAGED_BY: labels.MANAGED_BY_VALUE, **part_of})
        # Resource, store, label selector, field selector.
        self._kinds: tuple[tuple[Resource[Any], Store[Any], str, str], ...] = (
            (PODCLIQUESETS, self._sets, selector, f"metadata.name={name}" if name else ""),
            (GROUPS, self._groups, children, ""),
            (PODCLIQUES, self._cliques, children, ""),
            (PODGANGS, self._gangs, children, ""),
            (PODS, self._pods, children, ""),
        )

    async def list_once(self) -> list[SetNode]:
        """List once, without watching. Raises `ApiError`."""
        listings = await asyncio.gather(
            *(
                self._client.list(resource, namespace=self._namespace, label_selector=by_label, field_selector=by_field)
                for resource, _, by_label, by_field in self._kinds
            )
        )
        for (_, store, _, _), listing in zip(self._kinds, listings, strict=True):
            store.apply_list(listing, store.begin_list())
        await self._list_autoscalers()
        return self.trees()

    async def _list_autoscalers(self) -> None:
        """List autoscalers of all owners. A user may lack the permission to read them."""
        try:
            listing = await self._client.list(AUTOSCALERS, namespace=self._namespace)
        except ApiError as error:
            if error.code == 403 or error.is_not_found:
                return
            raise
        self._autoscalers.apply_list(listing, self._autoscalers.begin_list())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            reflectors = [self._build_reflector(*kind) for kind in self._kinds]
            for reflector in (*reflectors, self._build_reflector(AUTOSCALERS, self._autoscalers, "", "")):
                tasks.create_task(reflector.run())
            # Autoscalers are not waited for: a user may lack the permission to read them.
            for reflector in reflectors:
                await reflector.listed.wait()
            self.listed.set()

    def _build_reflector(
        self, resource: Resource[Any], store: Store[Any], by_label: str, by_field: str
    ) -> Reflector[Any]:
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
        """Return every set with its children, found by owner references, sorted by namespace and name."""
        sets = sorted(self._sets.values(), key=lambda pcs: (pcs.metadata.namespace, pcs.metadata.name))
        found = [_SetChildren(pcs) for pcs in sets]
        owners: dict[OwnerKey | None, _SetChildren] = {
            PODCLIQUESETS.owner_key(pcs.metadata): children for pcs, children in zip(sets, found, strict=True)
        }
        for group in self._groups.values():
            if (children := owners.get(group.metadata.controller)) is not None:
                children.groups.append(group)
                owners[GROUPS.owner_key(group.metadata)] = children
        for gang in self._gangs.values():
            if (children := owners.get(gang.metadata.controller)) is not None:
                children.gangs.append(gang)
        for clique in self._cliques.values():
            if (children := owners.get(clique.metadata.controller)) is not None:
                children.cliques.append(clique)
                owners[PODCLIQUES.owner_key(clique.metadata)] = children
        for pod in self._pods.values():
            if (children := owners.get(pod.metadata.controller)) is not None:
                children.pods.append(pod)
        for autoscaler in self._autoscalers.values():
            for children in found:
                children.add_autoscaler(autoscaler)
        return [children.objects() for children in found]


class _SetChildren:
    """A set and the children that were found so far."""

    def __init__(self, pcs: PodCliqueSet) -> None:
        self._pcs = pcs
        self.groups: list[PodCliqueScalingGroup] = []
        self.cliques: list[PodClique] = []
        self.gangs: list[PodGang] = []
        self.pods: list[Pod] = []
        self._autoscalers: list[HorizontalPodAutoscaler] = []

    def add_autoscaler(self, autoscaler: HorizontalPodAutoscaler) -> None:
        """Keep an autoscaler that may scale the set or a part of it."""
        if autoscaler.metadata.namespace == self._pcs.metadata.namespace:
            self._autoscalers.append(autoscaler)

    def objects(self) -> SetObjects:
        return SetObjects(
            pcs=self._pcs,
            groups=tuple(self.groups),
            cliques=tuple(self.cliques),
            gangs=tuple(self.gangs),
            pods=tuple(self.pods),
            autoscalers=tuple(self._autoscalers),
        )


class TreeRenderer(Protocol):
    """An output for trees of sets."""

    @property
    def redraw_seconds(self) -> float | None:
        """The time after which to render again even if nothing changed."""

    def render(self, trees: Sequence[SetNode]) -> None: ...


async def show_changes(
    watcher: SetWatcher, clock: Clock, output_format: Format, *, home: str = DEFAULT_NAMESPACE
) -> None:
    """Print sets until cancelled: a live tree on a terminal, else a line per change, or a line of JSON per change."""
    if output_format is Format.JSON:
        await render_changes(watcher, clock, TreeJsonLines())
    elif output.is_terminal():
        with open_live_draw() as draw, call_on_resize(watcher.changed.set):
            await render_changes(watcher, clock, LiveTree(clock, draw, home=home))
    else:
        await render_changes(watcher, clock, TreeChangeLines(clock))


async def render_changes(watcher: SetWatcher, clock: Clock, renderer: TreeRenderer) -> None:
    """Render changes until cancelled, with pauses that leave most of the time to other tasks."""
    await watcher.listed.wait()
    while True:
        began_at = clock.monotonic()
        watcher.changed.clear()
        renderer.render(watcher.trees())
        await pause(clock, clock.monotonic() - began_at)
        await wait_for_change(watcher.changed, renderer.redraw_seconds)


class TreeJsonLines:
    """A renderer that prints all sets as one line of JSON."""

    redraw_seconds = None

    def render(self, trees: Sequence[SetNode]) -> None:
        output.print_json_line(trees)


class LiveTree:
    """A renderer that draws trees on a terminal, every second because ages change."""

    redraw_seconds = 1.0

    def __init__(
        self,
        clock: Clock,
        draw: Callable[[Sequence[Row]], None],
        *,
        home: str = DEFAULT_NAMESPACE,
        share: float = 1.0,
        has_hint: bool = True,
    ) -> None:
        """`home`: the namespace that needs no `-n`. `share`: the part of the terminal's height to use.

        `has_hint`: whether to print the `grove why` hint.
        """
        self._clock = clock
        self._draw = draw
        self._home = home
        self._share = share
        self._has_hint = has_hint

    def render(self, trees: Sequence[SetNode]) -> None:
        if not trees:
            self._draw([(output.Cell(NO_SETS, output.Tone.FAINT),)])
            return
        page = PageSize(width=output.width(), height=max(1, int(output.height() * self._share)))
        self._draw(page_rows(trees, self._clock.now(), page, home=self._home, has_hint=self._has_hint))


class TreeChangeLines:
    """A renderer that prints one line with the time per change."""

    redraw_seconds = None

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before: Sequence[SetNode] = ()

    def render(self, trees: Sequence[SetNode]) -> None:
        for line in describe_tree_changes(self._before, trees):
            output.print_line(f"{self._clock.now():%H:%M:%S} {line}")
        self._before = trees


async def pause(clock: Clock, cost_seconds: float) -> None:
    """Sleep after a rendering that took so long, so that rendering takes at most a tenth of the time."""
    await clock.sleep(max(SHORTEST_PAUSE_SECONDS, PAUSE_PER_COST * cost_seconds))


async def wait_for_change(changed: asyncio.Event, at_most: float | None) -> None:
    """Wait for the event, but at most so many seconds."""
    try:
        async with asyncio.timeout(at_most):
            await changed.wait()
    except TimeoutError:
        return
