"""What people do to sets whose templates change, what they see of it, and a witness of every moment in between.

The stories told with it are in `update_stories.py`.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
import yaml

from grove.api import labels
from grove.api.resources import CONTROLLER_REVISIONS, GROUPS, NODES, PODCLIQUES, PODCLIQUESETS, PODS
from grove.api.template_revision import Revision, read_revision, restore_pod_templates
from grove.api.types.meta import JsonObject, ObjectMeta, Uid, WireStruct, find_condition
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import PodCliqueSet
from grove.cluster.storage.store import Change, ChangeType
from grove.sim.simulation import World
from tests.simulation.restored import unrestored

OLD, NEW, NEWER = "registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.11", "registry.k8s.io/pause:3.12"
# Of a pod that the simulated kubelet cannot start: it says so at once.
BROKEN = {labels.SIM_READY_AFTER: "never"}


class Written(WireStruct):
    """Any object with its spec as it was written."""

    metadata: ObjectMeta
    spec: JsonObject = {}


# --- what users do ---------------------------------------------------------------------------------------------------


def updatable(path: Path, *, replicas: int = 1, delay: str | None = None, ready_after: str = "5s") -> JsonObject:
    """A workload whose pods take a while to become ready."""
    manifest: JsonObject = yaml.safe_load(path.read_text())
    manifest["spec"]["replicas"] = replicas
    for clique in manifest["spec"]["template"]["cliques"]:
        clique["annotations"] = {labels.SIM_READY_AFTER: ready_after}
    if delay is not None:
        manifest["spec"]["template"]["terminationDelay"] = delay
    return manifest


def small(
    *, replicas: int = 1, pods: int = 2, minimum: int = 1, group: int = 0, group_minimum: int = 1, after: str = "5s"
) -> JsonObject:
    """A set `s` of one standalone clique `a` and, if asked for, a group `g` of one clique `b` with one pod."""
    cliques = [_small_clique("a", pods, minimum, after)]
    template: JsonObject = {"cliques": cliques}
    if group:
        cliques.append(_small_clique("b", 1, 1, after))
        template["podCliqueScalingGroups"] = [
            {"name": "g", "cliqueNames": ["b"], "replicas": group, "minAvailable": group_minimum}
        ]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s"},
        "spec": {"replicas": replicas, "template": template},
    }


def _small_clique(name: str, pods: int, minimum: int, after: str) -> JsonObject:
    container = {"name": "main", "image": OLD, "resources": {"requests": {"memory": "80Mi"}}}
    return {
        "name": name,
        "annotations": {labels.SIM_READY_AFTER: after},
        "spec": {
            "roleName": name,
            "replicas": pods,
            "minAvailable": minimum,
            "podSpec": {"containers": [container]},
        },
    }


async def start(world: World, manifest: JsonObject) -> None:
    await world.apply(manifest)
    await world.settle()
    assert unrestored(world) == []


async def change(world: World, edit: Callable[[JsonObject], None], name: str = "") -> None:
    """Change the spec of a set, as an editor would: read, edit, write back what was edited."""
    sets = {pcs.metadata.name: pcs for pcs in world.objects(PODCLIQUESETS.viewed_as(Written))}
    pcs = sets[name] if name else next(iter(sets.values()))
    spec = msgspec.json.decode(msgspec.json.encode(pcs.spec))
    edit(spec)
    changed = {key: value for key, value in spec.items() if value != pcs.spec.get(key)}
    await world.client.patch(PODCLIQUESETS, pcs.metadata.namespace, pcs.metadata.name, {"spec": changed})


async def change_image(world: World, image: str, *cliques: str, name: str = "") -> None:
    """Of these cliques, or of all."""

    def edit(spec: JsonObject) -> None:
        for clique in spec["template"]["cliques"]:
            if not cliques or clique["name"] in cliques:
                clique["spec"]["podSpec"]["containers"][0]["image"] = image

    await change(world, edit, name)


async def change_annotations(world: World, annotations: dict[str, str], *cliques: str) -> None:
    def edit(spec: JsonObject) -> None:
        for clique in spec["template"]["cliques"]:
            if not cliques or clique["name"] in cliques:
                clique["annotations"] = {**clique.get("annotations", {}), **annotations}

    await change(world, edit)


async def choose_strategy(world: World, strategy: str) -> None:
    def edit(spec: JsonObject) -> None:
        spec["updateStrategy"] = {"type": strategy}

    await change(world, edit)


async def undo(world: World) -> None:
    """Back to the revision before the newest, as `grove rollout undo` does."""
    before = revisions(world)[-2].template

    def edit(spec: JsonObject) -> None:
        spec["template"] = restore_pod_templates(spec["template"], before)

    await change(world, edit)


async def cordon_all(world: World) -> None:
    for node in world.objects(NODES):
        await world.nodes.cordon(node.metadata.name)


async def uncordon_all(world: World) -> None:
    for node in world.objects(NODES):
        await world.nodes.uncordon(node.metadata.name)


async def delete_pod(world: World, pod: Pod) -> None:
    await world.client.delete(PODS, pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid)


# --- what users see --------------------------------------------------------------------------------------------------


def images(world: World) -> dict[str, list[str]]:
    """The images of living pods by clique, sorted."""
    found: dict[str, list[str]] = {}
    for pod in world.objects(PODS.viewed_as(Written)):
        if not pod.metadata.is_terminating:
            role = pod.metadata.labels[labels.PODCLIQUE]
            found.setdefault(role, []).append(pod.spec["containers"][0]["image"])
    return {role: sorted(found[role]) for role in sorted(found)}


def images_of(world: World, clique: str) -> list[str]:
    return images(world).get(clique, [])


def all_images(world: World) -> set[str]:
    return {image for found in images(world).values() for image in found}


def revisions(world: World) -> list[Revision]:
    """The stored revisions of all sets, by their number."""
    found = (
        read_revision(stored, stored.metadata.labels.get(labels.PART_OF, ""))
        for stored in world.objects(CONTROLLER_REVISIONS)
    )
    return sorted((revision for revision in found if revision is not None), key=lambda revision: revision.number)


def the_set(world: World) -> PodCliqueSet:
    (pcs,) = world.objects(PODCLIQUESETS)
    return pcs


def is_updating(world: World) -> bool:
    progress = the_set(world).status.rolling_update_progress
    return progress is not None and progress.update_ended_at is None


def is_updated(world: World) -> bool:
    """Reported as done: the newest spec was seen, and the update of it has ended."""
    pcs = the_set(world)
    progress = pcs.status.rolling_update_progress
    is_seen = pcs.status.observed_generation == pcs.metadata.generation
    return is_seen and progress is not None and progress.update_ended_at is not None


def turn(world: World) -> int | None:
    progress = the_set(world).status.rolling_update_progress
    return progress.currently_updating.replica_index if progress and progress.currently_updating else None


def stalled(world: World) -> tuple[str, str] | None:
    """Reason and message of the set's complaint that its update does not go on."""
    condition = find_condition(the_set(world).status.conditions, "UpdateStalled")
    if condition is None:
        return None
    assert condition.status == "True"
    return condition.reason, condition.message


async def expect_updated(world: World, image: str, *, pods: int, quiet_seconds: float = 60.0) -> None:
    """At rest the update is done: everything is as asked for, with this image in every pod."""
    await world.settle(quiet_seconds=quiet_seconds, limit_seconds=4 * 3600)
    assert unrestored(world) == []
    assert all_images(world) == {image}
    assert len(world.running_pods()) == pods
    assert_done(world)


def assert_done(world: World) -> None:
    """All levels say that it is over, and which revision runs."""
    pcs, newest = the_set(world), revisions(world)[-1]
    assert is_updated(world)
    progress = pcs.status.rolling_update_progress
    assert progress is not None
    assert progress.update_started_at is not None
    assert progress.update_ended_at is not None
    assert progress.update_started_at <= progress.update_ended_at
    assert progress.currently_updating is None
    assert pcs.status.current_generation_hash == newest.generation_hash
    assert pcs.status.updated_replicas == pcs.spec.replicas
    assert stalled(world) is None
    counts = pcs.status.update_progress
    assert counts is not None
    assert counts.updated_pod_cliques_count == counts.total_pod_cliques_count
    assert counts.updated_pod_clique_scaling_groups_count == counts.total_pod_clique_scaling_groups_count
    for clique in world.objects(PODCLIQUES):
        rolled = clique.status.rolling_update_progress
        assert rolled is None or rolled.update_ended_at is not None
        assert rolled is None or rolled.ready_pods_selected_to_update is None
        assert clique.status.current_pod_clique_set_generation_hash == newest.generation_hash
        assert clique.status.current_pod_template_hash == clique.metadata.labels[labels.TEMPLATE_HASH]
        assert clique.status.updated_replicas == clique.spec.replicas
    for group in world.objects(GROUPS):
        wave = group.status.rolling_update_progress
        assert wave is None or wave.update_ended_at is not None
        assert wave is None or wave.ready_replica_indices_selected_to_update is None
        assert group.status.current_pod_clique_set_generation_hash == newest.generation_hash
        assert group.status.updated_replicas == group.spec.replicas


class Seen(msgspec.Struct, frozen=True):
    """Something that happened to a pod: it left, or it became ready."""

    what: str
    pod: Pod

    @property
    def clique(self) -> str:
        return self.pod.metadata.labels[labels.PODCLIQUE]

    @property
    def replica(self) -> str:
        return self.pod.metadata.labels[labels.SET_REPLICA_INDEX]

    @property
    def group_replica(self) -> str:
        return self.pod.metadata.labels.get(labels.GROUP_REPLICA_INDEX, "")


class Witness:
    """Sees every write from now on: which pods left or became ready, whose turn it was, how few were ready at once.

    `claims` are the moments at which the set called its update done although a pod with another image lived.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._ready: dict[str, dict[Uid, None]] = {}
        self.seen: list[Seen] = []
        self.turns: list[int] = []
        self.claims: list[str] = []
        for pod in world.pods():
            if pod.is_ready:
                self._ready.setdefault(pod.metadata.labels[labels.PODCLIQUE], {})[pod.metadata.uid] = None
        self.fewest = {clique: len(ready) for clique, ready in self._ready.items()}
        world.server.store.subscribe(self._observe)

    def _observe(self, change: Change) -> None:
        match change.resource_info.plural:
            case "pods":
                self._observe_pod(change, msgspec.convert(change.entry.obj, Pod))
            case "podcliquesets" if change.type != ChangeType.DELETED:
                self._observe_set()

    def _observe_pod(self, change: Change, pod: Pod) -> None:
        clique = pod.metadata.labels.get(labels.PODCLIQUE, "")
        ready = self._ready.setdefault(clique, {})
        was_leaving = change.before is not None and "deletionTimestamp" in change.before.obj["metadata"]
        is_gone = change.type == ChangeType.DELETED
        if (pod.metadata.is_terminating or is_gone) and not was_leaving:
            self.seen.append(Seen("left", pod))
        is_ready = pod.is_ready and not is_gone
        if is_ready and pod.metadata.uid not in ready:
            self.seen.append(Seen("ready", pod))
            ready[pod.metadata.uid] = None
        if not is_ready:
            ready.pop(pod.metadata.uid, None)
        self.fewest[clique] = min(self.fewest.get(clique, 0), len(ready))

    def _observe_set(self) -> None:
        found = turn(self._world)
        if found is not None and self.turns[-1:] != [found]:
            self.turns.append(found)
        pcs = next(iter(self._world.objects(PODCLIQUESETS.viewed_as(Written))))
        wanted = {c["spec"]["podSpec"]["containers"][0]["image"] for c in pcs.spec["template"]["cliques"]}
        if is_updated(self._world) and not all_images(self._world) <= wanted:
            self.claims.append(f"called done with {images(self._world)}")

    def left(self, *cliques: str) -> list[Seen]:
        """Those that left so far, of these cliques or of all."""
        return [one for one in self.seen if one.what == "left" and (not cliques or one.clique in cliques)]

    def order_of(self, unit: Callable[[Seen], str], *, size: int) -> list[str]:
        """The units in the order in which they were replaced; each was ready again before the next one was touched."""
        order = list(dict.fromkeys(unit(one) for one in self.left()))
        ready = dict.fromkeys(order, 0)
        current = 0
        for one in self.seen:
            if unit(one) not in ready:
                continue
            if one.what == "ready":
                ready[unit(one)] += 1
            elif unit(one) != order[current]:
                assert unit(one) == order[current + 1], f"{unit(one)} was touched again"
                assert ready[order[current]] == size, f"{unit(one)} was touched before {order[current]} was back"
                current += 1
        return order
