"""A sandbox is loaded from a world, changed, and compared with what becomes of that world under the same change."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.resources import PODCLIQUESETS, PODS, Resource
from grove.api.types.meta import JsonObject, NamespacedName
from grove.cli.plan.runner import ClusterState, PlanResult, predict_change, read_cluster
from grove.cluster.built_in_resources import PODS as SERVED_PODS
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.transport import STRATEGIC_PATCH, Request
from grove.operations.apply.apply_merge import Verb, apply_document
from grove.operations.apply.manifest_reader import ManifestDocument
from grove.sim.rehearsal.pod_recorder import PodRecorder
from grove.sim.rehearsal.prediction import PredictedOutcome, Prediction, ReplacementStep, UnitKind, predict
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.hostile_tenant import PARTS, Attack, Claim, forge_all

Edit = Callable[[JsonObject], None]
Prepare = Callable[[World], Awaitable[object]]

PLACE = NamespacedName(namespace="default", name="p")
NODE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
FORBIDDEN = ApiError(403, "Forbidden", "you may not look")


# --- what a user writes, and changes ---------------------------------------------------------------------------------


def clique(name: str, replicas: int, *, needs: int = 1, **pod: Any) -> JsonObject:
    container = {"name": "main", "image": "image:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "roleName": name,
        "replicas": replicas,
        "minAvailable": needs,
        "podSpec": {"containers": [container], **pod},
    }
    return {"name": name, "annotations": {labels.SIM_READY_AFTER: "3s"}, "spec": spec}


def workload(replicas: int = 2) -> JsonObject:
    """Per replica: three pods of `a` and two replicas of group `g`, each with one `b` and two `c`: nine pods."""
    template = {
        "cliques": [clique("a", 3, needs=2), clique("b", 1), clique("c", 2)],
        "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["b", "c"], "replicas": 2, "minAvailable": 1}],
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "p"},
        "spec": {"replicas": replicas, "template": template},
    }


def new_image(*names: str) -> Edit:
    def edit(body: JsonObject) -> None:
        for one in body["spec"]["template"]["cliques"]:
            if one["name"] in names:
                one["spec"]["podSpec"]["containers"][0]["image"] = "image:2"

    return edit


def to_replicas(count: int) -> Edit:
    return lambda body: body["spec"].update(replicas=count)


def on_delete(body: JsonObject) -> None:
    body["spec"]["updateStrategy"] = {"type": "OnDelete"}


def all_of(*edits: Edit) -> Edit:
    def edit(body: JsonObject) -> None:
        for one in edits:
            one(body)

    return edit


def same(body: JsonObject) -> None:
    """No change."""


def document(body: JsonObject) -> ManifestDocument:
    return ManifestDocument(place="p.yaml", body=body)


# --- how it is told --------------------------------------------------------------------------------------------------


async def seen_in(world: World, body: JsonObject) -> ClusterState:
    return await read_cluster(world.user, [document(body)], "default", world.clock.now())


async def stand(world: World, body: JsonObject | None, prepare: Prepare | None) -> None:
    if body is not None:
        await apply_document(world.user, document(body), "default")
        await world.settle()
    if prepare is not None:
        await prepare(world)


def told(
    edit: Edit, *, replicas: int = 2, nodes: int = 8, prepare: Prepare | None = None, is_new: bool = False
) -> PlanResult:
    """What a plan says of the workload with this change."""

    async def story() -> ClusterState:
        body = workload(replicas)
        async with World(nodes=nodes, node_resources=NODE) as world:
            await stand(world, None if is_new else body, prepare)
            edit(changed := copy.deepcopy(body))
            return await seen_in(world, changed)

    return predict_change(run_virtual(story()))


def predicted(edit: Edit, **around: Any) -> Prediction:
    (planned,) = told(edit, **around).sets
    return planned.prediction


def told_and_true(edit: Edit, *, replicas: int, nodes: int, prepare: Prepare | None) -> tuple[Prediction, Prediction]:
    """What the plan says, and what then happens in the world itself."""

    async def story() -> tuple[ClusterState, Prediction]:
        body = workload(replicas)
        async with World(nodes=nodes, node_resources=NODE) as world:
            await stand(world, body, prepare)
            edit(changed := copy.deepcopy(body))
            seen = await seen_in(world, changed)
            recorder = PodRecorder(world.clock, world.server.store, [PLACE])
            await apply_document(world.user, document(changed), "default")
            await world.settle(quiet_seconds=300)
            return seen, predict(recorder.end()[0], is_settled=True)

    seen, true = run_virtual(story())
    (planned,) = predict_change(seen).sets
    return without_reasons(planned.prediction), true


def without_reasons(prediction: Prediction) -> Prediction:
    """A world does not tell its recorder why."""

    def bare(step: ReplacementStep) -> ReplacementStep:
        return msgspec.structs.replace(step, why="")

    order = tuple(
        msgspec.structs.replace(
            turn,
            parts=tuple(
                msgspec.structs.replace(part, steps=tuple(bare(step) for step in part.steps)) for part in turn.parts
            ),
        )
        for turn in prediction.order
    )
    return msgspec.structs.replace(prediction, order=order)


def down(prediction: Prediction) -> dict[str, tuple[int, int]]:
    return {f"{one.kind}/{one.name}": (one.at_most, one.of) for one in prediction.down}


async def cordon_all(world: World) -> None:
    for index in range(8):
        await world.nodes.cordon(f"node-{index}")


async def lose_a_node(world: World) -> None:
    await world.nodes.cordon("node-0")


async def halfway(world: World) -> None:
    """Another change has begun, and its first pods have just been replaced."""
    body = workload()
    new_image("a", "c")(body)
    await apply_document(world.user, document(body), "default")
    await world.clock.sleep(4)


CHANGES: dict[str, tuple[Edit, int, int, Prepare | None]] = {
    "nothing": (same, 2, 8, None),
    "one clique": (new_image("a"), 2, 8, None),
    "one member of a group": (new_image("c"), 2, 8, None),
    "everything": (new_image("a", "b", "c"), 2, 8, None),
    "a replica more": (to_replicas(3), 2, 8, None),
    "more than there is room for": (to_replicas(6), 2, 8, None),
    "a replica less": (to_replicas(1), 2, 8, None),
    "less, and a clique": (all_of(to_replicas(1), new_image("a")), 2, 8, None),
    "more, and a group": (all_of(to_replicas(3), new_image("b")), 2, 8, None),
    "nothing is deleted": (all_of(on_delete, new_image("a", "b")), 2, 8, None),
    "no room for anything new": (new_image("a", "b"), 2, 8, cordon_all),
    "replicas that wait for room": (new_image("a", "b"), 4, 8, None),
    "replicas that wait, one less": (to_replicas(3), 4, 8, None),
    "another change halfway": (new_image("a", "b"), 2, 8, halfway),
    "back from halfway": (same, 2, 8, halfway),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_told_is_what_happens(name: str) -> None:
    edit, replicas, nodes, prepare = CHANGES[name]
    said, true = told_and_true(edit, replicas=replicas, nodes=nodes, prepare=prepare)
    assert said == true


@pytest.mark.parametrize("namespace", ["default", "evil"])
@pytest.mark.parametrize("resource", PARTS, ids=lambda resource: resource.plural)
def test_what_only_carries_the_labels_of_a_set_makes_no_difference(resource: Resource[Any], namespace: str) -> None:
    async def forged(world: World) -> None:
        await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "evil"}})
        claim = Claim.LABELS_ONLY if namespace == "default" else Claim.CONTROLLER
        attack = Attack(resource=resource, claim=claim, is_held=True)
        await forge_all(world.client, attack, victim="default", namespace=namespace)

    assert predicted(new_image("a"), prepare=forged) == undisturbed()


@cache
def undisturbed() -> Prediction:
    return predicted(new_image("a"))


# --- what it says ----------------------------------------------------------------------------------------------------


def test_pods_of_a_clique_go_one_at_a_time_oldest_first_and_replicas_from_the_highest_index() -> None:
    said = undisturbed()
    assert [turn.set_replica for turn in said.order] == [1, 0]
    assert said.replicas_at_once == 1
    (part,) = said.order[0].parts
    assert (part.kind, part.name, part.at_once) == ("podclique", "p-1-a", 1)
    assert [name.rpartition("-")[0] for step in part.steps for name in step.pods] == ["p-1-a-0", "p-1-a-1", "p-1-a-2"]
    assert [step.why for step in part.steps] == ["it runs an older template and is next"] * 3
    assert down(said) == {"pods/p": (1, 18), "podclique/p-0-a": (1, 3), "podclique/p-1-a": (1, 3)}
    assert (said.pods.replaced, said.pods.kept) == (6, 12)


def test_group_replicas_go_as_a_whole_and_the_set_stays_available() -> None:
    said = predicted(new_image("b"), replicas=1)
    (part,) = said.order[0].parts
    assert (part.kind, part.name, part.at_once) == ("podcliquescalinggroup", "p-0-g", 1)
    assert [(step.group_replica, len(step.pods), step.cliques) for step in part.steps] == [
        (0, 3, ("p-0-g-0-b", "p-0-g-0-c")),
        (1, 3, ("p-0-g-1-b", "p-0-g-1-c")),
    ]
    assert down(said)["podcliquescalinggroup/p-0-g"] == (1, 2)
    assert "podcliqueset/p" not in down(said)
    assert [(kept.name, kept.pods) for kept in said.kept] == [("p-0-a", 3)]


def test_a_set_replica_below_its_minimum_counts_as_down() -> None:
    def all_needed(body: JsonObject) -> None:
        body["spec"]["template"]["podCliqueScalingGroups"][0]["minAvailable"] = 2

    async def story() -> ClusterState:
        all_needed(body := workload(1))
        async with World(nodes=8, node_resources=NODE) as world:
            await stand(world, body, None)
            new_image("b")(body)
            return await seen_in(world, body)

    (planned,) = predict_change(run_virtual(story())).sets
    assert down(planned.prediction)["podcliqueset/p"] == (1, 1)


def test_pods_that_are_ready_at_once_are_still_taken_one_after_the_other() -> None:
    body = workload(1)
    for one in body["spec"]["template"]["cliques"]:
        one["annotations"][labels.SIM_READY_AFTER] = "0s"

    async def story() -> ClusterState:
        async with World(nodes=8, node_resources=NODE) as world:
            await stand(world, body, None)
            new_image("a")(changed := copy.deepcopy(body))
            return await seen_in(world, changed)

    (planned,) = predict_change(run_virtual(story())).sets
    (part,) = planned.prediction.order[0].parts
    assert (part.at_once, [len(step.pods) for step in part.steps]) == (1, [1, 1, 1])


def test_what_goes_for_good_is_removed_and_not_down() -> None:
    said = predicted(to_replicas(1))
    (block,) = said.removed
    assert (block.unit, block.set_replica, block.pods, len(block.names)) == (UnitKind.SET_REPLICA, 1, 9, 9)
    assert (said.order, said.down, said.created) == ((), (), ())
    assert said.objects.scaled[0].after == 1
    assert "podgang/p-1" in said.objects.removed


def test_a_new_set_is_created_and_fits_or_does_not() -> None:
    fits = told(same, replicas=1, is_new=True)
    assert fits.sets[0].action is Verb.CREATED
    assert (fits.sets[0].prediction.outcome, fits.sets[0].prediction.created[0].ready) == (PredictedOutcome.DONE, 9)
    tight = predicted(same, replicas=1, is_new=True, nodes=1)
    assert tight.outcome is PredictedOutcome.STALLED
    assert tight.pods.created == 9
    assert any("0/1 nodes are available" in one.waits_for for one in tight.waiting)


def test_a_change_without_effect_is_nothing() -> None:
    said = told(same).sets[0]
    assert (said.action, said.prediction.outcome) == (Verb.UNCHANGED, PredictedOutcome.NOTHING)


def test_on_delete_deletes_nothing_and_counts_what_is_outdated() -> None:
    said = predicted(all_of(on_delete, new_image("a")))
    assert (said.outcome, said.pods.kept, said.outdated_pods) == (PredictedOutcome.NOTHING, 18, 6)


def test_an_update_that_cannot_go_on_says_why() -> None:
    said = predicted(new_image("a"), prepare=cordon_all)
    assert (said.outcome, said.stalled_reason, said.pods.replaced) == (PredictedOutcome.STALLED, "NoCapacity", 1)
    assert "8 are cordoned" in said.stalled


def test_a_refused_manifest_is_refused_in_the_servers_words() -> None:
    def rename(body: JsonObject) -> None:
        body["spec"]["template"]["cliques"][0]["name"] = "other"

    with pytest.raises(UserError, match="PodCliqueSet p was rejected"):
        told(rename)


def test_warnings_of_admission_are_told() -> None:
    def more(body: JsonObject) -> None:
        body["spec"]["template"]["cliques"][0]["spec"]["replicas"] = 5

    planned = told(more).sets[0]
    assert planned.prediction.outcome is PredictedOutcome.NOTHING
    assert "has no effect on existing children" in planned.warnings[0]


# --- what is observed ------------------------------------------------------------------------------------------------


def test_looking_and_planning_write_nothing_to_the_cluster() -> None:
    async def story() -> None:
        async with World(nodes=8, node_resources=NODE) as world:
            await stand(world, workload(), None)
            revision = world.server.store.revision
            count = world.user.write_count
            new_image("a")(body := workload())
            await seen_in(world, body)
            assert (world.server.store.revision, world.user.write_count) == (revision, count)

    run_virtual(story())


async def _say_status(world: World, index: int, status: JsonObject) -> str:
    """Write the status of a pod of p-0-a, as its kubelet would."""
    pod = next(pod for pod in world.pods() if pod.metadata.name.startswith(f"p-0-a-{index}-"))
    path = PODS.path("default", pod.metadata.name, "status")
    body = msgspec.json.encode({"status": status})
    await world.user.send(Request(method="PATCH", path=path, body=body, content_type=STRATEGIC_PATCH))
    return pod.metadata.name


_UNREADY = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}]


async def crash_loop(world: World) -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    container = {"name": "main", "ready": False, "restartCount": 7, "state": waiting}
    await _say_status(world, 1, {"conditions": _UNREADY, "containerStatuses": [container]})


async def never_ready(world: World) -> None:
    """It runs, and has not been ready since long ago; its kubelet here would say otherwise."""
    await world.clock.sleep(3600)
    nobody = next(task for task in asyncio.all_tasks() if task.get_name() == "kubelet")
    nobody.cancel()
    await _say_status(world, 1, {"conditions": _UNREADY})


@pytest.mark.parametrize("prepare", [crash_loop, never_ready])
def test_a_pod_that_is_not_ready_stays_as_it_is_until_it_is_deleted(prepare: Prepare) -> None:
    foreseen = told(same, prepare=prepare)
    assert foreseen.sets[0].prediction.outcome is PredictedOutcome.NOTHING
    assert "1 pod that is not ready now is assumed to stay not ready" in foreseen.notes


def test_a_pod_that_is_not_ready_goes_first_and_is_not_waited_for() -> None:
    said = predicted(new_image("a"), prepare=crash_loop)
    replica = next(turn for turn in said.order if turn.set_replica == 0)
    (part,) = replica.parts
    assert [(step.unready_pods, *(name.rpartition("-")[0] for name in step.pods)) for step in part.steps] == [
        (1, "p-0-a-1"), (0, "p-0-a-0"), (0, "p-0-a-2"),
    ]  # fmt: skip
    assert (part.at_once, down(said)["podclique/p-0-a"]) == (2, (1, 2))


def test_a_pod_that_is_starting_becomes_ready() -> None:
    async def just_created(world: World) -> None:
        pod = next(pod for pod in world.pods() if pod.metadata.name.startswith("p-0-a-0-"))
        await world.client.delete(PODS, "default", pod.metadata.name)
        await world.clock.sleep(1)

    foreseen = told(same, prepare=just_created)
    assert foreseen.sets[0].prediction.outcome is PredictedOutcome.NOTHING
    assert not any("not ready now" in note for note in foreseen.notes)


def test_a_cluster_in_motion_is_told_as_such() -> None:
    async def no_operator(world: World) -> None:
        await world.crash_controller()
        pod = next(pod for pod in world.pods() if pod.metadata.name.startswith("p-0-a-0-"))
        await world.client.delete(PODS, "default", pod.metadata.name)
        await world.clock.sleep(60)

    foreseen = told(same, prepare=no_operator)
    assert "pcs/p is already changing: 1 pod is created before anything is applied" in foreseen.notes
    assert any("is already in progress" in note for note in told(same, prepare=halfway).notes)


def test_a_pod_that_the_scheduler_of_the_cluster_does_not_place_waits_on() -> None:
    """For a reason that only it knows, such as a volume in another zone."""

    async def unplaced(world: World) -> None:
        for pod in world.pods():
            if pod.metadata.labels[labels.SET_REPLICA_INDEX] == "1":
                entry = world.server.store.table(SERVED_PODS).find("default", pod.metadata.name)
                assert entry is not None
                spec = {key: value for key, value in entry.obj["spec"].items() if key != "nodeName"}
                condition = {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "no volume",
                }
                status = {"phase": "Pending", "conditions": [condition]}
                world.server.store.put(
                    SERVED_PODS, "default", entry.name, {**entry.obj, "spec": spec, "status": status}
                )

    foreseen = told(same, prepare=unplaced)
    assert any(note.startswith("9 pods wait for a node although one seems to be free") for note in foreseen.notes)
    assert foreseen.sets[0].prediction.outcome is PredictedOutcome.NOTHING
    said = predicted(new_image("a"), prepare=unplaced)
    # Nothing of it is scheduled, so it comes first; the new pods are placed by nobody's other reason.
    assert said.order[0].set_replica == 1


def test_without_a_look_at_nodes_everything_fits() -> None:
    async def hidden(world: World) -> None:
        world.user.refuse(lambda request: request.path == "/api/v1/nodes", FORBIDDEN)

    # More than twice what the eight nodes have room for.
    foreseen = told(to_replicas(8), prepare=hidden)
    assert foreseen.sets[0].prediction.outcome is PredictedOutcome.DONE
    assert foreseen.sets[0].prediction.pods.created == 6 * 9
    assert "nodes cannot be read: free capacity is unknown, and every pod is assumed to fit" in foreseen.notes


async def crowded(world: World) -> None:
    """Somebody else fills the cluster, and more of them wait."""
    container = {"name": "main", "image": "other:1", "resources": {"requests": {"cpu": "1"}}}
    for number in range(20):
        pod = {"metadata": {"name": f"other-{number}"}, "spec": {"containers": [container]}}
        await world.client.create(PODS, "elsewhere", pod)
    await world.settle()


async def with_neighbours(world: World) -> None:
    await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    await crowded(world)


def test_pods_of_others_take_room_and_those_that_wait_are_mentioned() -> None:
    foreseen = told(to_replicas(3), prepare=with_neighbours)
    assert foreseen.sets[0].prediction.outcome is PredictedOutcome.STALLED
    assert any(note.startswith("6 pods of others wait for a node, and may use capacity") for note in foreseen.notes)


def test_another_set_takes_room_and_is_left_alone() -> None:
    async def beside(world: World) -> None:
        other = workload(1)
        other["metadata"]["name"] = "q"
        await stand(world, other, None)

    assert predicted(to_replicas(3)).outcome is PredictedOutcome.DONE
    beside_it = predicted(to_replicas(3), prepare=beside)
    assert (beside_it.outcome, beside_it.pods.kept) == (PredictedOutcome.STALLED, 18)


def test_pods_of_others_that_may_not_be_read_take_no_room() -> None:
    async def private(world: World) -> None:
        await with_neighbours(world)
        world.user.refuse(lambda request: request.path == "/api/v1/pods", FORBIDDEN)

    foreseen = told(to_replicas(3), prepare=private)
    assert foreseen.sets[0].prediction.outcome is PredictedOutcome.DONE
    assert "pods of other namespaces cannot be read: the capacity that they use is not counted" in foreseen.notes


def test_a_quota_of_the_namespace_is_respected() -> None:
    async def limited(world: World) -> None:
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "20"}}}
        await world.apply({"apiVersion": "v1", "kind": "ResourceQuota", **quota})

    planned = told(to_replicas(3), prepare=limited).sets[0]
    assert planned.prediction.outcome is PredictedOutcome.STALLED
    assert planned.prediction.missing_pods > 0
    assert any("quota few rejects pods" in sentence.text for sentence in planned.sentences)
    assert not any(sentence.until for sentence in planned.sentences)


def test_a_set_whose_owner_was_not_read_is_not_taken_for_garbage() -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Deployment", "name": "above", "uid": "above"}

    def owned(obj: JsonObject) -> JsonObject:
        is_set = obj["kind"] == PODCLIQUESETS.kind
        return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}} if is_set else obj

    async def story() -> ClusterState:
        async with World(nodes=8, node_resources=NODE) as world:
            await stand(world, workload(), None)
            new_image("a")(body := workload())
            return await seen_in(world, body)

    seen = run_virtual(story())
    observed = msgspec.structs.replace(seen.observed, objects=tuple(owned(obj) for obj in seen.observed.objects))
    (planned,) = predict_change(msgspec.structs.replace(seen, observed=observed)).sets
    assert planned.prediction.pods.replaced == 6


def test_a_namespace_that_is_not_there_is_said_before_anything_is_played() -> None:
    async def story() -> ClusterState:
        async with World(nodes=1) as world:
            return await read_cluster(world.user, [document(workload())], "nowhere", world.clock.now())

    with pytest.raises(UserError, match="no namespace 'nowhere'; create it first, or check -n"):
        run_virtual(story())


def test_a_namespace_of_the_same_file_need_not_be_there() -> None:
    namespace: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fresh"}}

    async def story() -> ClusterState:
        async with World(nodes=8) as world:
            return await read_cluster(
                world.user, [document(namespace), document(workload(1))], "fresh", world.clock.now()
            )

    (planned,) = predict_change(run_virtual(story())).sets
    assert (planned.prediction.namespace, planned.prediction.outcome) == ("fresh", PredictedOutcome.DONE)
