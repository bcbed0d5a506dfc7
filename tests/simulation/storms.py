"""Random interleavings: everything that happens in a storm is drawn from one seed, and every rule is checked after
every step; then the faults stop and everything must come to rest as it was asked for (`restored.py`).

`python -m tests.simulation.storms --seed 7` replays one, `--seeds 20000 --start 0` runs many and stops at the first
that fails. A hostile tenant is there in every third storm, with `--hostile` in each.
"""

import argparse
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any, TypeVar

import msgspec

from grove.api import labels, names
from grove.api.resources import (
    GROUPS,
    NODES,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    Resource,
)
from grove.api.types.meta import HasMetadata, JsonObject, ObjectMeta, WireStruct
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliqueset import PodCliqueSet
from grove.clock import Clock
from grove.controller.manager import Controller
from grove.errors import Bug
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.planner.plan import plan
from grove.sim.faults import CALM, FaultPlan
from grove.sim.simulation import SimulatedOperator, World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.hostility import HostileTenant, OwnershipJournal, OwnView
from tests.simulation.restored import unrestored, untrue_counts

T = TypeVar("T", bound=HasMetadata)

FOREIGN_GATE = "example.com/hold"
POD_MEMORY = 80
IMAGES = ("i", "j", "k")
# So often a clique or a group is scaled to zero instead.
ZERO_SHARE = 0.25
# A time to become ready that no kubelet can read: it does not start the pod, and says so.
CANNOT_START = "never"
WATCHED = (
    "pods", "podcliques", "podcliquescalinggroups", "podgangs", "services", "podcliquesets", "controllerrevisions"
)  # fmt: skip
# Longer than every back-off: whatever was put off is tried again before the world counts as quiet.
QUIET_SECONDS = 330.0


class StormFailed(AssertionError):
    """A storm broke a rule or did not calm down; the message tells how to see it again."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was drawn before anything happened."""

    nodes: int
    pods_per_node: int
    sets: tuple[JsonObject, ...]
    faults: FaultPlan
    cluster_faults: FaultPlan
    step_count: int

    @property
    def node_resources(self) -> dict[str, str]:
        return {"cpu": "32", "memory": f"{self.pods_per_node * POD_MEMORY + 40}Mi", "pods": "110"}


# --- what is drawn ---------------------------------------------------------------------------------------------------


def draw_options(random: Random) -> Options:
    return Options(
        nodes=random.randint(1, 6),
        pods_per_node=random.choice((1, 2, 4, 8)),
        sets=tuple(draw_set(random, name) for name in ("a", "b", "c")[: random.choice((1, 1, 1, 1, 1, 2, 2, 3))]),
        faults=draw_faults(random),
        cluster_faults=CALM if random.random() < 0.6 else draw_faults(random),
        step_count=random.randint(8, 25),
    )


def draw_faults(random: Random) -> FaultPlan:
    if random.random() < 0.15:
        return CALM
    return FaultPlan(
        latency=(0.0, random.choice((0.0, 0.01, 0.1, 1.0))),
        watch_latency=(0.0, random.choice((0.0, 0.05, 0.5, 4.0))),
        server_error=random.choice((0.0, 0.0, 0.02, 0.1)),
        conflict=random.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
        lost_request=random.choice((0.0, 0.0, 0.02, 0.1)),
        lost_answer=random.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
        cut_watch=random.choice((0.0, 0.0, 0.02, 0.2)),
        gone=random.choice((0.0, 0.0, 0.05, 0.3)),
    )


def draw_set(random: Random, name: str) -> JsonObject:
    """One or two standalone cliques, or a group and perhaps a clique beside it."""
    cliques = [draw_clique(random, "x")]
    groups: list[JsonObject] = []
    shape = random.choice(("one", "one", "two", "group", "group", "both", "both"))
    if shape in ("two", "both"):
        cliques.append(draw_clique(random, "y"))
    if shape in ("group", "both"):
        minimum = random.choice((1, 1, 2))
        grouped = [cliques[0]["name"]] if random.random() < 0.6 else [clique["name"] for clique in cliques]
        groups.append(
            {
                "name": "g",
                "cliqueNames": grouped,
                "replicas": minimum + random.choice((0, 0, 1)),
                "minAvailable": minimum,
            }
        )
    template: JsonObject = {"cliques": cliques, **({"podCliqueScalingGroups": groups} if groups else {})}
    if random.random() < 0.5:
        template["terminationDelay"] = random.choice(("1s", "5s", "30s", "5m"))
        if groups and random.random() < 0.5:
            groups[0]["terminationDelay"] = random.choice(("1s", "20s", "10m"))
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {"replicas": random.choice((1, 1, 1, 1, 2)), "template": template},
    }


def draw_clique(random: Random, name: str) -> JsonObject:
    minimum = random.choice((1, 1, 2))
    pod_spec: JsonObject = {
        "containers": [{"name": "main", "image": "i", "resources": {"requests": {"memory": f"{POD_MEMORY}Mi"}}}],
        "restartPolicy": random.choice(("Always", "OnFailure", "Never", "Never")),
    }
    if random.random() < 0.08:
        pod_spec["schedulingGates"] = [{"name": FOREIGN_GATE}]
    annotations = {}
    if random.random() < 0.3:
        annotations[labels.SIM_READY_AFTER] = f"{random.choice((1, 5, 40))}s"
    if random.random() < 0.05:
        annotations[labels.SIM_EXIT_AFTER] = f"{random.choice((5, 30, 300))}s"
        annotations[labels.SIM_EXIT_CODE] = random.choice(("0", "1"))
    return {
        "name": name,
        "annotations": annotations,
        "spec": {
            "roleName": name,
            "replicas": minimum + random.choice((0, 0, 1)),
            "minAvailable": minimum,
            "podSpec": pod_spec,
        },
    }


def with_training(options: Options, random: Random) -> Options:
    """In every sixth storm a set that runs to its end is there too."""
    if random.random() >= 1 / 6:
        return options
    return msgspec.structs.replace(options, sets=(*options.sets, draw_training(random, "t")))


def draw_training(random: Random, name: str) -> JsonObject:
    manifest = draw_set(random, name)
    spec, template = manifest["spec"], manifest["spec"]["template"]
    limits = {"maxRestarts": random.choice((0, 1, 2, 5, 20)), "maxRuntime": random.choice((None, None, "100s", "600s"))}
    spec["workloadType"] = "Training"
    spec["trainingSpec"] = {key: value for key, value in limits.items() if value is not None}
    if random.random() < 0.6:
        template.pop("terminationDelay", None)
        for group in template.get("podCliqueScalingGroups", ()):
            group.pop("terminationDelay", None)
    for clique in template["cliques"]:
        clique["spec"]["podSpec"]["restartPolicy"] = "Never"
        clique["annotations"][labels.SIM_EXIT_AFTER] = f"{random.choice((5, 30, 100, 200))}s"
        clique["annotations"][labels.SIM_EXIT_CODE] = random.choice(("0", "0", "0", "0", "1"))
    return manifest


# --- the storm -------------------------------------------------------------------------------------------------------


class Storm:
    """One storm. Every step draws from `random` and says in words what it did."""

    def __init__(self, seed: int, *, hostile: bool = False) -> None:
        self.seed = seed
        self._command = f"python -m tests.simulation.storms --seed {seed}" + (" --hostile" if hostile else "")
        self.random = Random(f"storm/{seed}")
        self.options = with_training(draw_options(self.random), Random(f"storm/training/{seed}"))
        self.steps: list[str] = []
        self.controllers: list[Controller] = []
        self._strangers: list[tuple[Resource[Any], str]] = []
        self._frozen: list[str] = []
        # Sets that once had a template that cannot start.
        self._troubled: dict[str, None] = {}
        self._is_down = False
        self._has_quota = False
        self._zeros = Random(f"storm/zero/{seed}")
        # Chance of its own: a storm without a hostile tenant goes as it did before there were any.
        self._tenant = HostileTenant(Random(f"storm/hostile/{seed}"), always=hostile)

    def run(self) -> str:
        """The whole storm; returns its timeline. Raises `StormFailed`."""
        return run_virtual(self._run())

    async def _run(self) -> str:
        options = self.options
        world = World(
            seed=self.seed,
            nodes=options.nodes,
            node_resources=options.node_resources,
            faults=options.faults,
            cluster_faults=options.cluster_faults,
            operator=self._operator,
        )
        with self._explained(world):
            async with world:
                self.world = world
                self._view = OwnView(world, self._tenant)
                world.invariants.is_nothing_rejected = True
                await self._tenant.move_in(world)
                for manifest in options.sets:
                    await world.apply(manifest)
                for _ in range(options.step_count):
                    if (told := await self._tenant.act(self._view)) is not None:
                        self.steps.append(f"{world.clock.monotonic():10.3f} {told}")
                    await self._step()
                    world.check_safety()
                    self._check_controllers()
                await self._calm_down()
                await self._repair()
                await world.settle(quiet_seconds=QUIET_SECONDS, limit_seconds=4 * 3600)
                world.check()
                self._check_controllers()
                self._demand()
                await self._rest()
        return world.timeline.text()

    def _operator(self, client: Client, clock: Clock, random: Random) -> SimulatedOperator:
        decision_log = OwnershipJournal()
        self.controllers.append(decision_log.follow(Controller(client, clock, random, decision_log=decision_log)))
        return self.controllers[-1]

    def _check_controllers(self) -> None:
        if any(controller.loop.bug_count for controller in self.controllers):
            raise Bug("a visit failed with an unexpected error (logged above)")

    def _demand(self) -> None:
        wrong = [*unrestored(self._view), *self._tenant.missed(self.world)]
        if wrong:
            raise Bug("not as asked for, although nothing is broken any more:\n  " + "\n  ".join(wrong))

    async def _rest(self) -> None:
        """An hour, in every fourth storm: settling has shown some minutes of rest already, and an hour costs a lot."""
        # A training set may come to its end in that hour.
        if self.seed % 4 or any(pcs.spec.workload_type == "Training" for pcs in self._living_sets()):
            return
        revision = self.world.server.store.revision
        await self.world.clock.sleep(3600)
        if self.world.server.store.revision != revision:
            raise Bug("an hour of rest was not silent")

    @contextmanager
    def _explained(self, world: World) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise StormFailed(self._report(world, error)) from error

    def _report(self, world: World, error: Exception) -> str:
        return "\n".join(
            (
                f"storm {self.seed}: {error!r}" if not isinstance(error, Bug) else f"storm {self.seed}: {error}",
                f"options: {_in_words(self.options)}",
                "steps:",
                *(f"  {step}" for step in self.steps),
                "findings:",
                *(f"  {line}" for line in self._findings()),
                "last writes:",
                world.timeline.text(last=40),
                f"replay: {self._command}",
            )
        )

    def _findings(self) -> Iterator[str]:
        """What the operator would do now, and what it says it waits for."""
        if not self.controllers:
            return
        controller = self.controllers[-1]
        now = self.world.clock.now()
        for pcs in controller.caches.sets.values():
            snapshot = controller.observer.snapshot(pcs.metadata.uid)
            decided = plan(snapshot, now) if snapshot else None
            if decided is None:
                continue
            yield f"{pcs.metadata.name}: wakes at {decided.requeue_at}, looks {len(decided.live_reads)}"
            for finding in decided.findings:
                yield f"{pcs.metadata.name}: {finding.about}: {finding.reason}: {finding.message} ({finding.until})"
            for chain in decided.chains:
                for stage in chain.stages:
                    for action in stage:
                        what = getattr(action, "name", getattr(action, "selector", ""))
                        yield (
                            f"{pcs.metadata.name}: would {type(action).__name__} {action.resource.plural} {what}: "
                            f"{action.reason}"
                        )
            for status in decided.statuses:
                yield f"{pcs.metadata.name}: would write status {status.resource.plural} {status.name} {status.patch}"

    # --- steps -------------------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        """One step that was possible, then a moment."""
        told = None
        while told is None:
            step = self.random.choices(_STEPS, _WEIGHTS)[0]
            told = await step(self)
        pause = self.random.choice((0.0, 0.0, 0.01, 0.2, 2.0, 10.0)) * self.random.random()
        self.steps.append(f"{self.world.clock.monotonic():10.3f} {told}; then {pause:.3f} s")
        if pause:
            await self.world.clock.sleep(pause)

    async def _wait(self) -> str | None:
        seconds = self.random.choice((1.0, 30.0, 100.0, 400.0)) * self.random.random()
        await self.world.clock.sleep(seconds)
        return f"waited {seconds:.3f} s"

    async def _scale_set(self) -> str | None:
        pcs = self._pick(self._living_sets())
        if pcs is None:
            return None
        return await self._scale(PODCLIQUESETS, pcs, self.random.choice((0, 1, 1, 1, 2, 2, 3)))

    async def _scale_group(self) -> str | None:
        group = self._pick(self._objects(GROUPS))
        if group is None:
            return None
        minimum = group.spec.min_available
        count = self.random.choice((minimum, minimum, minimum + 1, minimum + 2))
        return await self._scale(GROUPS, group, self._or_zero(count))

    async def _bounce(self) -> str | None:
        """Scale in and out again at once: what was begun is finished before it is wanted again."""
        found: list[tuple[Resource[Any], Any]] = [
            *((PODCLIQUESETS, pcs) for pcs in self._living_sets() if pcs.spec.replicas),
            *((GROUPS, g) for g in self._objects(GROUPS) if g.spec.replicas >= g.spec.min_available),
            *((PODCLIQUES, c) for c in self._objects(PODCLIQUES) if labels.GROUP not in c.metadata.labels),
        ]
        if not found:
            return None
        resource, obj = self.random.choice(found)
        before = obj.spec.replicas
        minimum = 0 if resource is PODCLIQUESETS else obj.spec.min_available or 1
        told = await self._scale(resource, obj, before - 1 if before > minimum else 0)
        pause = self.random.choice((0.0, 0.001, 0.05, 1.0, 4.0)) * self.random.random()
        await self.world.clock.sleep(pause)
        with suppress(ApiError):
            await self._scale(resource, obj, before)
        return f"{told}, and after {pause:.3f} s to {before} again"

    async def _scale_clique(self) -> str | None:
        clique: PodClique | None = self._pick(self._objects(PODCLIQUES))
        if clique is None:
            return None
        minimum = clique.min_available
        count = self.random.choice((minimum, minimum, minimum + 1, minimum + 3))
        # A member of a group is not scaled to zero alone.
        return await self._scale(
            PODCLIQUES, clique, count if labels.GROUP in clique.metadata.labels else self._or_zero(count)
        )

    def _or_zero(self, count: int) -> int:
        return 0 if self._zeros.random() < ZERO_SHARE else count

    async def _scale(self, resource: Resource[Any], obj: HasMetadata, replicas: int) -> str:
        name = obj.metadata.name
        try:
            await self.world.scale(resource, name, replicas)
        except ApiError as error:
            if error.is_rejection and self._is_training(obj):
                return f"scaled {resource.plural} {name}, which was refused"
            # The operator may have removed it a moment ago; a user would be told so, too.
            if not error.is_not_found:
                raise
            return f"scaled {resource.plural} {name}, which was gone already"
        return f"scaled {resource.plural} {name} to {replicas}"

    async def _delete_pod(self) -> str | None:
        pod = self._pick(self._objects(PODS))
        if pod is None:
            return None
        grace = self.random.choice((None, None, 0, 5))
        await self.world.client.delete(PODS, "default", pod.metadata.name, grace_period_seconds=grace)
        return f"deleted pod {pod.metadata.name} with grace {grace}"

    async def _fail_pod(self) -> str | None:
        """A pod that runs ends by itself: at once or soon, well or badly."""
        pod = self._pick(self._view.running_pods())
        if pod is None:
            return None
        after, code = self.random.choice((1, 10, 100)), self.random.choice(("0", "1"))
        patch = {"metadata": {"annotations": {labels.SIM_EXIT_AFTER: f"{after}s", labels.SIM_EXIT_CODE: code}}}
        await self.world.client.patch(PODS, "default", pod.metadata.name, patch)
        return f"let pod {pod.metadata.name} exit {code} {after} s after its start"

    async def _change_template(self) -> str | None:
        """Another image, or one of the earlier ones again; now and then a template that cannot start."""
        pcs = self._pick(self._living_sets())
        return None if pcs is None else await self._change(pcs)

    async def _change_twice(self) -> str | None:
        """The second change comes in the middle of the first, or takes it back."""
        pcs = self._pick(self._living_sets())
        if pcs is None:
            return None
        first = await self._change(pcs)
        pause = self.random.choice((0.0, 0.01, 1.0, 10.0)) * self.random.random()
        await self.world.clock.sleep(pause)
        return f"{first}; after {pause:.3f} s: {await self._change(pcs)}"

    async def _change(self, pcs: PodCliqueSet) -> str:
        name = pcs.metadata.name
        cliques = _written_cliques(self.world, name)
        if cliques is None:
            return f"changed set {name}, which was gone already"
        clique = self.random.choice(cliques)
        image = self.random.choice(IMAGES)
        clique["spec"]["podSpec"]["containers"][0]["image"] = image
        annotations = {key: value for key, value in clique.get("annotations", {}).items() if value != CANNOT_START}
        if self.random.random() < 0.1:
            annotations[labels.SIM_READY_AFTER] = CANNOT_START
            self._troubled[name] = None
        clique["annotations"] = annotations
        await self._write_cliques(name, cliques)
        return f"changed clique {clique['name']} of set {name}: image {image}, {annotations}"

    async def _write_cliques(self, name: str, cliques: list[JsonObject]) -> None:
        with suppress(ApiError):
            await self.world.client.patch(PODCLIQUESETS, "default", name, {"spec": {"template": {"cliques": cliques}}})

    async def _switch_strategy(self) -> str | None:
        pcs = self._pick(self._living_sets())
        if pcs is None:
            return None
        strategy = self.random.choice(("RollingRecreate", "RollingRecreate", "OnDelete"))
        patch = {"spec": {"updateStrategy": {"type": strategy}}}
        await self.world.client.patch(PODCLIQUESETS, "default", pcs.metadata.name, patch)
        return f"switched set {pcs.metadata.name} to {strategy}"

    async def _delete_child(self) -> str | None:
        """Somebody deletes what is not theirs: it comes back. But not the record that a teardown was begun."""
        resource: Resource[Any] = self.random.choice((PODCLIQUES, GROUPS, PODGANGS, SERVICES))
        ours = (one for one in self._objects(resource) if one.metadata.controller)
        if resource is PODCLIQUES:
            # Nor what remembers which pods of a training attempt are to be waited for.
            waits = {pod.metadata.controller for pod in self._objects(PODS) if pod.metadata.is_terminating}
            ours = (
                one for one in ours if not self._is_training(one) or PODCLIQUES.owner_key(one.metadata) not in waits
            )
        child = self._pick(tuple(one for one in ours if labels.TEARDOWN not in one.metadata.annotations))
        if child is None:
            return None
        await self.world.delete(resource, child.metadata.name)
        return f"deleted {resource.plural} {child.metadata.name}"

    async def _open_foreign_gate(self) -> str | None:
        pod = self._pick(tuple(_behind_foreign_gate(self.world)))
        if pod is None:
            return None
        await _remove_foreign_gate(self.world, pod)
        return f"removed the foreign gate of {pod.metadata.name}"

    async def _break_node(self) -> str | None:
        node = self._pick(self._objects(NODES))
        if node is None:
            return None
        nodes = self.world.nodes
        act: Callable[[str], Awaitable[None]] = self.random.choice(
            (nodes.fail, nodes.fail, nodes.cordon, nodes.drain, nodes.remove)
        )
        await act(node.metadata.name)
        return f"{act.__name__} {node.metadata.name}"

    async def _mend_node(self) -> str | None:
        node = self._pick(self._objects(NODES))
        if node is None:
            return None
        act = self.random.choice((self.world.nodes.recover, self.world.nodes.uncordon))
        await act(node.metadata.name)
        return f"{act.__name__} {node.metadata.name}"

    async def _add_node(self) -> str | None:
        return f"added {', '.join(await self.world.add_nodes(self.random.randint(1, 2)))}"

    async def _delete_set(self) -> str | None:
        pcs = self._pick(self._living_sets())
        if pcs is None:
            return None
        await self.world.delete(PODCLIQUESETS, pcs.metadata.name)
        return f"deleted set {pcs.metadata.name}"

    async def _create_set(self) -> str | None:
        """Again under its old name, as it was or in another shape; refused while the old one is still leaving."""
        taken = {pcs.metadata.name for pcs in self._objects(PODCLIQUESETS)}
        manifest = self._pick(tuple(one for one in self.options.sets if one["metadata"]["name"] not in taken))
        if manifest is None:
            return None
        name = manifest["metadata"]["name"]
        is_new = self.random.random() < 0.5
        await self.world.apply(draw_set(self.random, name) if is_new else manifest)
        return f"created set {name} again" + (", in a new shape" if is_new else "")

    async def _freeze_watch(self) -> str | None:
        plural = self.random.choice(WATCHED)
        if self._is_down or self._frozen:
            return None
        self.world.freeze_watch(plural)
        self._frozen.append(plural)
        return f"froze the operator's watch of {plural}"

    async def _thaw_watch(self) -> str | None:
        if not self._frozen:
            return None
        return f"thawed the watch of {self._thaw()}"

    def _thaw(self) -> str:
        plural = self._frozen.pop()
        self.world.thaw_watch(plural)
        return plural

    async def _crash_soon(self) -> str | None:
        operator = self.world.operator
        if self._is_down or operator.crashed.is_set():
            return None
        number = operator.write_count + self.random.choice((1, 1, 2, 3, 5, 8, 13))
        if self.random.random() < 0.5:
            operator.crash_before_write(number)
            return f"the operator will crash before its write {number}"
        operator.crash_after_write(number)
        return f"the operator will crash after its write {number}"

    async def _crash_now(self) -> str | None:
        if self._is_down:
            return None
        self.world.operator.crash()
        return "the operator crashed"

    async def _stop_operator(self) -> str | None:
        if self._is_down:
            return None
        await self.world.crash_controller()
        self._is_down = True
        return "the operator was stopped"

    async def _start_operator(self) -> str | None:
        if not self._is_down:
            return None
        await self.world.restart_controller()
        self._is_down = False
        return "the operator was started"

    async def _set_quota(self) -> str | None:
        pods = len(self._objects(PODS)) + self.random.randint(-2, 4)
        body = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few-pods"},
            "spec": {"hard": {"pods": str(max(pods, 0))}},
        }
        self.world.invariants.is_nothing_rejected = False
        await self.world.apply(body)
        self._has_quota = True
        return f"set the quota to {max(pods, 0)} pods"

    async def _remove_quota(self) -> str | None:
        if not self._has_quota:
            return None
        await self.world.delete(RESOURCE_QUOTAS, "few-pods")
        self._has_quota = False
        return "removed the quota"

    async def _take_name(self) -> str | None:
        """A stranger's object under a name that a set needs now or when it grows."""
        pcs = self._pick(self._living_sets())
        if pcs is None:
            return None
        resource, name = self.random.choice(self._needed_names(pcs))
        self.world.invariants.is_nothing_rejected = False
        try:
            await self.world.apply(_stranger(resource, name))
        except ApiError:
            return None
        self._strangers.append((resource, name))
        return f"a stranger took the name {name} of a {resource.kind}"

    def _needed_names(self, pcs: PodCliqueSet) -> list[tuple[Resource[Any], str]]:
        replica = self.random.randint(0, 2)
        found: list[tuple[Resource[Any], str]] = [
            (SERVICES, names.replica_name(pcs.metadata.name, replica)),
            (PODGANGS, names.replica_name(pcs.metadata.name, replica)),
        ]
        for clique in pcs.spec.template.cliques:
            found.append((PODCLIQUES, names.standalone_clique(pcs.metadata.name, replica, clique.name)))
        for group in pcs.spec.template.pod_clique_scaling_groups:
            name = names.group(pcs.metadata.name, replica, group.name)
            found += [(GROUPS, name), (PODGANGS, names.scaled_gang(name, 0))]
        here = {pod.metadata.name for pod in self._objects(PODS)}
        found += [
            (PODS, reference.name)
            for gang in self._objects(PODGANGS)
            for group in gang.spec.podgroups
            for reference in group.pod_references
            if reference.name not in here
        ]
        kinds: tuple[Resource[Any], ...] = (SERVICES, PODGANGS, PODCLIQUES, GROUPS)
        taken = {(kind.plural, one.metadata.name) for kind in kinds for one in self._objects(kind)}
        free = [(resource, name) for resource, name in found if (resource.plural, name) not in taken]
        return free or [(SERVICES, "nobody-needs-this")]

    async def _give_name_back(self) -> str | None:
        if not self._strangers:
            return None
        return f"the stranger {await self._remove_stranger()} went"

    async def _remove_stranger(self) -> str:
        resource, name = self._strangers.pop(self.random.randrange(len(self._strangers)))
        try:
            await self.world.client.delete(resource, "default", name, grace_period_seconds=0)
        except ApiError as error:
            if not error.is_not_found:
                raise
        return name

    def _is_training(self, obj: HasMetadata) -> bool:
        """It is a training set, or belongs to one: those keep the size and the pods that they were created with."""
        name = obj.metadata.labels.get(labels.PART_OF, obj.metadata.name)
        sets = (one for one in self._objects(PODCLIQUESETS) if one.metadata.name == name)
        return any(one.spec.workload_type == "Training" for one in sets)

    def _objects(self, resource: Resource[T]) -> tuple[T, ...]:
        """What is there and not the hostile tenant's."""
        return self._view.objects(resource)

    def _living_sets(self) -> tuple[PodCliqueSet, ...]:
        return tuple(pcs for pcs in self._objects(PODCLIQUESETS) if not pcs.metadata.is_terminating)

    def _pick(self, choices: tuple[Any, ...]) -> Any:
        return self.random.choice(choices) if choices else None

    # --- calm --------------------------------------------------------------------------------------------------------

    async def _calm_down(self) -> None:
        """Faults stop, and the operator sees again. Whatever is still broken, statuses must tell the truth."""
        self.steps.append(f"{self.world.clock.monotonic():10.3f} faults stop")
        self.world.calm()
        await self._tenant.move_out(self.world)
        await self._repair_operator()
        await self.world.clock.sleep(100)
        revision = self.world.server.store.revision
        await self.world.clock.sleep(10)
        if self.world.server.store.revision == revision:
            wrong = untrue_counts(self._view)
            if wrong:
                raise Bug("statuses are not true:\n  " + "\n  ".join(wrong))

    async def _repair(self) -> None:
        """Everything that was broken is whole again, in a drawn order."""
        self.steps.append(f"{self.world.clock.monotonic():10.3f} everything is repaired")
        repairs = [
            self._repair_nodes,
            self._repair_pods,
            self._repair_templates,
            self._repair_obstacles,
            self._delete_hopeless_sets,
        ]
        self.random.shuffle(repairs)
        for repair in repairs:
            await repair()
            await self.world.clock.sleep(self.random.choice((0.0, 1.0, 60.0)) * self.random.random())
        await self._open_foreign_gates()

    async def _repair_operator(self) -> None:
        while self._frozen:
            self._thaw()
        if self._is_down:
            await self._start_operator()

    async def _repair_nodes(self) -> None:
        for node in self._objects(NODES):
            await self.world.nodes.recover(node.metadata.name)
            await self.world.nodes.uncordon(node.metadata.name)
        # Large enough for whatever was asked for.
        await self.world.nodes.create(1, {"cpu": "1000", "memory": "100Gi", "pods": "1000"})

    async def _repair_pods(self) -> None:
        """Pods that were told to end stop doing so when their kubelet starts them again."""
        healthy = {"metadata": {"annotations": {labels.SIM_EXIT_AFTER: None, labels.SIM_EXIT_CODE: None}}}
        for pod in self._objects(PODS):
            if labels.SIM_EXIT_AFTER in pod.metadata.annotations:
                with suppress(ApiError):
                    await self.world.client.patch(PODS, "default", pod.metadata.name, healthy)

    async def _repair_templates(self) -> None:
        """Templates that cannot start are corrected; what updates on delete is left as it is or rolled, as drawn."""
        for pcs in self._living_sets():
            name = pcs.metadata.name
            cliques = _written_cliques(self.world, name) or []
            for clique in cliques:
                if clique.get("annotations", {}).get(labels.SIM_READY_AFTER) == CANNOT_START:
                    del clique["annotations"][labels.SIM_READY_AFTER]
            await self._write_cliques(name, cliques)
            # On delete a pod that cannot start would stay.
            if name in self._troubled or self.random.random() < 0.7:
                await self._roll(name)

    async def _roll(self, name: str) -> None:
        with suppress(ApiError):
            await self.world.client.patch(PODCLIQUESETS, "default", name, {"spec": {"updateStrategy": None}})

    async def _repair_obstacles(self) -> None:
        await self._remove_quota()
        while self._strangers:
            await self._remove_stranger()

    async def _delete_hopeless_sets(self) -> None:
        """Sets whose pods end again and again by themselves are never at rest."""
        for pcs in self._living_sets():
            cliques = pcs.spec.template.cliques
            is_over = pcs.status.phase in ("Succeeded", "Failed")
            # One that runs to its end rests then; but pods that fail one by one are replaced for ever.
            is_finite = pcs.spec.workload_type == "Training" and (
                is_over or all(clique.annotations.get(labels.SIM_EXIT_CODE, "0") == "0" for clique in cliques)
            )
            if not is_finite and any(labels.SIM_EXIT_AFTER in clique.annotations for clique in cliques):
                await self.world.delete(PODCLIQUESETS, pcs.metadata.name)

    async def _open_foreign_gates(self) -> None:
        """As their owner would, one wave after the other: what is behind our gate too comes later."""
        for _ in range(20):
            await self.world.settle(quiet_seconds=QUIET_SECONDS, limit_seconds=4 * 3600)
            waiting = tuple(_behind_foreign_gate(self.world))
            if not waiting:
                return
            for pod in waiting:
                await _remove_foreign_gate(self.world, pod)


Step = Callable[[Storm], Awaitable[str | None]]

_WEIGHTED: tuple[tuple[int, Step], ...] = (
    (12, Storm._wait),
    (7, Storm._scale_set),
    (7, Storm._scale_group),
    (7, Storm._scale_clique),
    (5, Storm._bounce),
    (6, Storm._change_template),
    (3, Storm._change_twice),
    (2, Storm._switch_strategy),
    (6, Storm._delete_pod),
    (4, Storm._fail_pod),
    (3, Storm._delete_child),
    (2, Storm._open_foreign_gate),
    (4, Storm._break_node),
    (3, Storm._mend_node),
    (2, Storm._add_node),
    (2, Storm._delete_set),
    (4, Storm._create_set),
    (3, Storm._freeze_watch),
    (3, Storm._thaw_watch),
    (4, Storm._crash_soon),
    (2, Storm._crash_now),
    (1, Storm._stop_operator),
    (4, Storm._start_operator),
    (3, Storm._set_quota),
    (2, Storm._remove_quota),
    (2, Storm._take_name),
    (2, Storm._give_name_back),
)
_STEPS = tuple(step for _, step in _WEIGHTED)
_WEIGHTS = tuple(weight for weight, _ in _WEIGHTED)


class _Written(WireStruct):
    """A set as it was written."""

    metadata: ObjectMeta
    spec: JsonObject = {}


def _written_cliques(world: World, name: str) -> list[JsonObject] | None:
    """A copy of the set's cliques, to edit."""
    for pcs in world.objects(PODCLIQUESETS.viewed_as(_Written)):
        if pcs.metadata.name == name and not pcs.metadata.is_terminating:
            cliques: list[JsonObject] = pcs.spec["template"]["cliques"]
            return cliques
    return None


def _behind_foreign_gate(world: World) -> Iterator[Pod]:
    for pod in world.pods(namespace="default"):
        if not pod.metadata.is_terminating and any(gate.name == FOREIGN_GATE for gate in pod.spec.scheduling_gates):
            yield pod


async def _remove_foreign_gate(world: World, pod: Pod) -> None:
    kept = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != FOREIGN_GATE]
    patch = {
        "metadata": {"resourceVersion": pod.metadata.resource_version},
        "spec": {"schedulingGates": kept},
    }
    try:
        await world.client.patch(PODS, "default", pod.metadata.name, patch)
    except ApiError as error:
        # Changed or gone between reading and writing: a later round sees it.
        if not (error.is_conflict or error.is_not_found):
            raise


def _stranger(resource: Resource[Any], name: str) -> JsonObject:
    containers = [{"name": "main", "image": "i"}]
    specs: dict[str, JsonObject] = {
        "pods": {"containers": containers},
        "services": {"clusterIP": "None"},
        "podgangs": {"podgroups": []},
        "podcliques": {"roleName": "r", "replicas": 1, "minAvailable": 1, "podSpec": {"containers": containers}},
        "podcliquescalinggroups": {"replicas": 1, "minAvailable": 1, "cliqueNames": ["x"]},
    }
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": specs[resource.plural],
    }


def _in_words(options: Options) -> str:
    return msgspec.json.format(msgspec.json.encode(options), indent=0).decode()


# --- from the command line -------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.storms", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay one storm and print its steps and its timeline")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--keep-going", action="store_true", help="tell all that fail, in one line each")
    parser.add_argument("--hostile", action="store_true", help="put a hostile tenant into every storm")
    options = parser.parse_args()
    if options.seed is not None:
        return _replay(Storm(options.seed, hostile=options.hostile))
    seeds = range(options.start, options.start + options.seeds)
    return _run_many(seeds, hostile=options.hostile, keep_going=options.keep_going)


def _replay(storm: Storm) -> int:
    try:
        text = storm.run()
    except StormFailed as failed:
        print(storm.world.timeline.text())
        print(failed)
        return 1
    print(text)
    print("\n".join(storm.steps))
    return 0


def _run_many(seeds: range, *, hostile: bool, keep_going: bool) -> int:
    failed_count = 0
    for done, seed in enumerate(seeds, 1):
        try:
            Storm(seed, hostile=hostile).run()
        except StormFailed as failed:
            failed_count += 1
            print(str(failed) if not keep_going else "\n".join(str(failed).splitlines()[:4]), flush=True)
            if not keep_going:
                return 1
        if done % 100 == 0:
            print(f"{done} of {len(seeds)} storms, {failed_count} failed", file=sys.stderr, flush=True)
    return 1 if failed_count else 0


if __name__ == "__main__":
    sys.exit(main())
