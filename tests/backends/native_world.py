"""A world in which kube-scheduler's stand-in schedules, and the rules that native gangs are held to at every write."""

from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import msgspec

from grove.api import labels
from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS, PODCLIQUES, PODGANGS, Resource
from grove.api.types.meta import JsonObject, Uid
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podgang import PodGang
from grove.api.types.scheduler_object import SchedulerObject
from grove.backends.native_podgroups import NativeFeatures
from grove.clock import Clock
from grove.cluster.storage.store import Change, ChangeType
from grove.controller.controller_options import ControllerOptions
from grove.controller.manager import Controller
from grove.kube.client import Client
from grove.kube.transport import Request, Response
from grove.planner.views import pod_index
from grove.sim.invariants.staleness import owner_uid
from grove.sim.simulation import SimulatedOperator, World
from tests.backends.native_scheduler import NativeScheduler, Protection, parent_of
from tests.backends.scheduler_world import definitions

COMPOSITES = NativeFeatures(groups=True, composites=True, topology=True)
GROUPS_ONLY = NativeFeatures(groups=True, topology=True)
SWITCHED_OFF = NativeFeatures(why="default-scheduler places pods one by one, without gangs: the gates are off")


class NativeWorld(World):
    """`features` is what the operator finds out about the server; `switch` lets it find out something else."""

    def __init__(
        self, features: NativeFeatures = COMPOSITES, *, settings: ControllerOptions | None = None, **fields: Any
    ) -> None:
        super().__init__(operator=self._operator, **fields)
        self.features = features
        self._settings = settings or ControllerOptions()
        self._controller: _Controller | None = None

    def switch(self, features: NativeFeatures) -> None:
        """The API server comes back with other feature gates."""
        self.features = features
        if self._controller is not None:
            self._controller.look_again()

    @property
    def groups(self) -> dict[str, SchedulerObject]:
        return {one.metadata.name: one for one in self.objects(NATIVE_PODGROUPS)}

    @property
    def roots(self) -> dict[str, SchedulerObject]:
        return {one.metadata.name: one for one in self.objects(NATIVE_COMPOSITES)}

    def _start_components(self) -> None:
        for definition in definitions("native.yaml"):
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            response = self.server.handle(Request(method="POST", path=path, body=msgspec.json.encode(definition)))
            assert response.status < 300, response.body
        self.scheduler = NativeScheduler(self._cluster_client("scheduler"), self.clock, self._random("scheduler"))
        self.rules = NativeRules(self)
        self.server.store.subscribe(self.rules.observe)
        self.server.observers.append(_check_spec_is_kept)
        super()._start_components()
        protection = Protection(self._cluster_client("scheduler"), self.clock, self._random("protection"))
        self._start_task("protection", protection.run())

    def _start_task(self, name: str, run: Coroutine[Any, Any, None]) -> Any:
        if name == "scheduler":
            # The one that reads PodGangs does not live here.
            run.close()
            run = self.scheduler.run()
        return super()._start_task(name, run)

    def _operator(self, client: Client, clock: Clock, random: Random) -> SimulatedOperator:
        self._controller = _Controller(self, client, clock, random, self._settings)
        return self._controller


class _Controller(Controller):
    """Told what the server offers, instead of asking: the embedded server keeps every field."""

    def __init__(
        self, world: NativeWorld, client: Client, clock: Clock, random: Random, settings: ControllerOptions
    ) -> None:
        super().__init__(client, clock, random, settings)
        self._world = world

    async def _features(self) -> NativeFeatures:
        return self._world.features

    def look_again(self) -> None:
        self._reconnected.set()


def _check_spec_is_kept(request: Request, response: Response) -> None:
    """Of a PodGroup only the minimum may change, of a CompositePodGroup nothing: a real server says 422."""
    if request.method not in ("PATCH", "PUT") or "podgroups" not in request.path or request.path.endswith("/status"):
        return
    spec = msgspec.json.decode(request.body or b"{}").get("spec")
    if spec is None:
        return
    assert "compositepodgroups" not in request.path, f"{request.path} cannot be changed: {spec}"
    changed = {field: set(value) for field, value in spec.items()}
    assert changed == {"schedulingPolicy": {"gang"}}, f"{request.path} cannot be changed: {spec}"


class NativeRules:
    """What must hold after every write. `is_whole_gangs`: false where gangs were switched off meanwhile."""

    def __init__(self, world: NativeWorld) -> None:
        self._world = world
        self.is_whole_gangs = True
        self.broken: list[str] = []
        # Cliques, by uid, whose first placement is over.
        self._placed: set[Uid] = set()
        # What the store holds, by name; everything is in one namespace.
        self._pods: dict[str, Pod] = {}
        self._cliques: dict[str, PodClique] = {}
        self._gangs: dict[str, PodGang] = {}
        self._groups: dict[str, SchedulerObject] = {}
        self._roots: dict[str, SchedulerObject] = {}
        self._tables: dict[str, tuple[dict[str, Any], type[msgspec.Struct]]] = {
            "pods": (self._pods, Pod),
            "podcliques.grove.io": (self._cliques, PodClique),
            "podgangs.scheduler.grove.io": (self._gangs, PodGang),
            NATIVE_PODGROUPS.full_name: (self._groups, SchedulerObject),
            NATIVE_COMPOSITES.full_name: (self._roots, SchedulerObject),
        }

    def check(self) -> None:
        assert self.broken == []

    def observe(self, change: Change) -> None:
        if change.resource_info.qualified not in self._tables:
            return
        table, kind = self._tables[change.resource_info.qualified]
        before = table.pop(change.entry.name, None)
        if change.type is not ChangeType.DELETED:
            after = table[change.entry.name] = msgspec.convert(change.entry.obj, kind)
            was_gated = isinstance(before, Pod) and before.is_gated
            if isinstance(after, Pod) and was_gated and not after.is_gated:
                self.broken += self._ungated(after)
        if not self._world.scheduler.is_binding and self.is_whole_gangs:
            self.broken += self._partial()

    def _ungated(self, pod: Pod) -> Iterator[str]:
        """Nothing is ungated before its groups exist."""
        group = self._groups.get(pod.group_name)
        if group is None:
            if self._world.features.groups:
                yield f"{pod.metadata.name} is ungated and its group {pod.group_name or '(none)'} does not exist"
            return
        parent = parent_of(group)
        if parent and owner_uid(pod) not in self._placed and parent not in self._roots:
            yield f"{pod.metadata.name} is ungated and the root {parent} does not exist"

    def _partial(self) -> Iterator[str]:
        """At its first placement a gang is placed whole or not at all; so is a part of it that was made anew."""
        pods: dict[str, list[Pod]] = {}
        for pod in self._pods.values():
            pods.setdefault(pod.metadata.labels.get(labels.PODCLIQUE, ""), []).append(pod)
        for gang in self._gangs.values():
            for unit in self._units(gang):
                missing = [clique for clique in unit if _placed_count(clique, pods) < clique.min_available]
                if not missing:
                    self._placed.update(clique.metadata.uid for clique in unit)
                elif any(_placed_count(clique, pods) for clique in unit):
                    name = missing[0].metadata.name
                    yield f"{self._world.clock.now()}: gang {gang.metadata.name} is placed in part: {name} is not"

    def _units(self, gang: PodGang) -> list[list[PodClique]]:
        mine = [self._cliques[group.name] for group in gang.spec.podgroups if group.name in self._cliques]
        new = [clique for clique in mine if clique.metadata.uid not in self._placed]
        if len(new) == len(mine):
            return [new] if new else []
        lives: dict[str, list[PodClique]] = {}
        for clique in new:
            lives.setdefault(clique.metadata.labels.get(labels.INCARNATION, ""), []).append(clique)
        return list(lives.values())

    # At rest

    def check_rest(self) -> None:
        """What was placed is relaxed, nothing stands around that nobody needs, and every root has its leaves."""
        groups, roots = self._world.groups, self._world.roots
        owners = {PODGANGS.owner_key(gang.metadata) for gang in self._world.objects(PODGANGS)}
        pods = [pod for pod in self._world.pods() if not pod.metadata.is_terminating]
        named = {pod.group_name for pod in pods}
        # Those that are leaving stay as long as a running pod names them.
        staying = {name: one for name, one in groups.items() if not one.metadata.is_terminating}
        for name, group in {**staying, **roots}.items():
            assert group.metadata.controller in owners, f"{name} belongs to nobody"
        for name in named - {""}:
            assert name in groups, f"pods name {name}, which does not exist"
        for name, group in staying.items():
            assert not parent_of(group) or parent_of(group) in roots, f"{name} has lost its root"
        parents = {parent_of(one) for one in (*groups.values(), *roots.values())}
        for name, root in roots.items():
            assert name in parents, f"root {name} has no leaves"
            waits = any(not pod.is_scheduled and pod_index(pod) >= 0 for pod in pods if self._is_below(pod, name))
            is_basic = "basic" in root.spec["schedulingPolicy"]
            assert is_basic or waits, f"root {name} was placed and still asks for all"

    def _is_below(self, pod: Pod, root: str) -> bool:
        group: SchedulerObject | None = self._world.groups.get(pod.group_name)
        while group is not None and parent_of(group):
            if parent_of(group) == root:
                return True
            group = self._world.roots.get(parent_of(group))
        return False


def _placed_count(clique: PodClique, pods: dict[str, list[Pod]]) -> int:
    owner = PODCLIQUES.owner_key(clique.metadata)
    mine = (pod for pod in pods.get(clique.metadata.name, ()) if pod.metadata.controller == owner)
    return sum((bool(pod.spec.node_name) and pod.is_active) or pod.is_succeeded for pod in mine)


def names_of(world: NativeWorld, resource: Resource[Any]) -> list[str]:
    return sorted(one.metadata.name for one in world.objects(resource))


def policy_of(mirror: SchedulerObject) -> JsonObject:
    found: JsonObject = mirror.spec["schedulingPolicy"]
    return found
