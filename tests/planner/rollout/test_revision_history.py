"""The stored revisions of a set: what it asks for, what each replica runs, and the upkeep of the store."""

from typing import Any

import msgspec
import pytest

from grove.api import labels, names
from grove.api.resources import CONTROLLER_REVISIONS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import CurrentlyUpdating, PodCliqueSet, PodCliqueSetStatus
from grove.planner.actions import Action, Create, Patch, Plan
from grove.planner.child_sync import Retries
from grove.planner.plan import plan
from grove.planner.rollout.revision_history import KEPT_REVISIONS, Targets, plan_revisions
from grove.planner.snapshot import Snapshot, build_context
from grove.planner.views import ReplicaView
from tests.dsl import (
    NOW,
    World,
    actions,
    appendix_a,
    at,
    clique,
    failure,
    gang,
    in_words,
    pcs,
    pod,
    replica,
    revision,
    role,
    run_to_rest,
    touched,
    visit,
)


def image(name: str) -> JsonObject:
    return {"containers": [{"name": "main", "image": name}]}


def asking(name: str, **fields: Any) -> PodCliqueSet:
    """A set of one clique of one pod of this image."""
    return pcs(role("a", pod=image(name)), **fields)


def hash_of(name: str) -> str:
    return build_context(asking(name)).generation_hash


def stored(*images: str) -> tuple[ControllerRevision, ...]:
    return tuple(revision(asking(name), number) for number, name in enumerate(images, 1))


def seen(observed: PodCliqueSet, revisions: tuple[ControllerRevision, ...], *replicas: ReplicaView) -> Snapshot:
    return Snapshot(pcs=observed, context=build_context(observed), replicas=replicas, revisions=revisions)


def planned(snapshot: Snapshot) -> list[Action]:
    chains = plan_revisions(snapshot, Targets(snapshot.context, snapshot.revisions), Retries(snapshot.failures, NOW))
    return actions(Plan(chains=chains))


# What is stored


def test_nothing_is_made_before_its_template_is_stored() -> None:
    world = World(asking("v1", annotations={"kubernetes.io/change-cause": "first"}))
    first = plan(world.snapshot(), world.now)
    (create,) = actions(first)
    assert isinstance(create, Create)
    assert (create.resource, create.name) == (CONTROLLER_REVISIONS, f"p-{hash_of('v1')}")
    assert create.body["revision"] == 1
    assert create.body["metadata"]["annotations"] == {"kubernetes.io/change-cause": "first"}
    assert create.body["metadata"]["labels"] == {
        **labels.default_labels("p"),
        labels.COMPONENT: "pcs-revision",
        labels.GENERATION_HASH: hash_of("v1"),
    }


def test_a_new_template_gets_the_next_number() -> None:
    (create,) = planned(seen(asking("v3"), stored("v1", "v2")))
    assert isinstance(create, Create)
    assert (create.name, create.body["revision"]) == (f"p-{hash_of('v3')}", 3)


def test_a_template_of_before_is_given_the_highest_number_again() -> None:
    (patch,) = planned(seen(asking("v1"), stored("v1", "v2", "v3")))
    assert isinstance(patch, Patch)
    assert (patch.name, patch.patch) == (f"p-{hash_of('v1')}", {"revision": 4})


@pytest.mark.parametrize("order", [("v2", "v3"), ("v3", "v2")], ids=" before ".join)
def test_of_two_templates_that_got_one_number_the_one_asked_for_gets_the_next(order: tuple[str, str]) -> None:
    twins = tuple(revision(asking(name), 2) for name in order)
    (patch,) = planned(seen(asking("v3"), (*stored("v1"), *twins)))
    assert isinstance(patch, Patch)
    assert (patch.name, patch.patch) == (f"p-{hash_of('v3')}", {"revision": 3})


def test_the_same_template_in_other_words_is_no_change() -> None:
    other = {"containers": [{"image": "v1", "name": "main", "env": None}], "nodeSelector": None}
    assert planned(seen(pcs(role("a", pod=other)), stored("v1"))) == []


def test_a_refused_revision_is_tried_again_later_and_what_was_asked_for_before_stays() -> None:
    refused = failure(f"controllerrevisions/p-{hash_of('v2')}", last=at(-4))
    snapshot = msgspec.structs.replace(seen(asking("v2"), stored("v1")), failures=(refused,))
    assert planned(snapshot) == []
    targets = Targets(snapshot.context, snapshot.revisions)
    assert targets.newest is not None
    assert targets.newest.generation_hash == hash_of("v1")


def test_while_what_is_asked_for_is_not_stored_nobody_has_a_turn() -> None:
    targets = Targets(build_context(asking("v2")), stored("v1"))
    current_replica = CurrentlyUpdating(replica_index=0, update_started_at=NOW)
    assert not targets.build_role(replica(), current_replica, 0).is_current
    assert Targets(build_context(asking("v1")), stored("v1")).build_role(replica(), current_replica, 0).is_current


def test_a_revision_that_cannot_be_read_decides_nothing() -> None:
    (good,) = stored("v1")
    damaged = msgspec.structs.replace(good, data={"template": 7}, revision=9)
    targets = Targets(build_context(asking("v1")), (good, damaged))
    assert [one.number for one in targets.revisions] == [1]


# What each replica runs


def labelled(name: str, index: int = 0) -> ReplicaView:
    return replica(index=index, gangs=[gang(name=f"p-{index}", labels={labels.GENERATION_HASH: hash_of(name)})])


def of(snapshot_revisions: tuple[ControllerRevision, ...], view: ReplicaView, current_replica: int | None) -> str:
    targets = Targets(build_context(asking("v2")), snapshot_revisions)
    return targets.of(view, current_replica).generation_hash


def made_from(name: str, index: int = 0) -> ReplicaView:
    """A replica of which only a clique exists."""
    found = {labels.TEMPLATE_HASH: build_context(asking(name)).template_hashes["a"]}
    return replica(
        clique(pod(0), name=f"p-{index}-a", labels={**found, labels.SET_REPLICA_INDEX: str(index)}), index=index
    )


@pytest.mark.parametrize(
    ("view", "current_replica", "runs"),
    [
        pytest.param(replica(), None, "v2", id="a new replica gets the newest"),
        pytest.param(labelled("v1"), None, "v1", id="what its gang says"),
        pytest.param(labelled("v1"), 1, "v1", id="the turn of another"),
        pytest.param(labelled("v1"), 0, "v2", id="its own turn"),
        pytest.param(labelled("v2"), None, "v2", id="it is there already"),
        pytest.param(made_from("v1"), None, "v1", id="without a gang, what its cliques say"),
        pytest.param(made_from("v9"), None, "v2", id="what nobody knows any more"),
        pytest.param(labelled("v9"), None, "v2", id="a label that nobody knows"),
    ],
)
def test_what_a_replica_is_made_from(view: ReplicaView, current_replica: int | None, runs: str) -> None:
    assert of(stored("v1", "v2"), view, current_replica) == hash_of(runs)


def test_on_delete_everything_is_made_from_the_newest() -> None:
    observed = asking("v2", spec={"update_strategy": {"type": "OnDelete"}})
    targets = Targets(build_context(observed), stored("v1", "v2"))
    assert targets.of(labelled("v1"), None).generation_hash == hash_of("v2")


def test_only_templates_come_from_a_revision_counts_are_those_of_now() -> None:
    now_asked = pcs(role("a", 4, needs=3, pod=image("v2")), replicas=2)
    found = Targets(build_context(now_asked), stored("v1", "v2")).of(labelled("v1"), None)
    (made,) = found.spec.template.cliques
    assert (made.spec.replicas, made.spec.min_available, made.spec.pod_spec["containers"][0]["image"]) == (4, 3, "v1")
    assert found.newest_generation_hash == hash_of("v2")


# What is given up


def test_the_ten_latest_that_nobody_runs_are_kept() -> None:
    revisions = stored(*(f"v{number}" for number in range(1, KEPT_REVISIONS + 4)))
    newest = f"v{KEPT_REVISIONS + 3}"
    found = planned(seen(asking(newest), revisions, labelled(newest)))
    assert [in_words(action) for action in found] == [
        f"delete controllerrevisions/p-{hash_of(name)} (an old revision that nothing runs)" for name in ("v1", "v2")
    ]


def test_a_revision_that_a_replica_runs_is_never_given_up() -> None:
    revisions = stored(*(f"v{number}" for number in range(1, KEPT_REVISIONS + 4)))
    newest = f"v{KEPT_REVISIONS + 3}"
    observed = pcs(role("a", pod=image(newest)), replicas=2)
    found = planned(seen(observed, revisions, labelled("v1", 0), labelled(newest, 1)))
    assert [in_words(action) for action in found] == [
        f"delete controllerrevisions/p-{hash_of('v2')} (an old revision that nothing runs)"
    ]


def test_many_changes_leave_a_bounded_history() -> None:
    world = World(asking("v0"))
    for number in range(KEPT_REVISIONS + 5):
        world.change("a", f"v{number}")
        run_to_rest(world)
    numbers = sorted(one.revision for one in world.all(CONTROLLER_REVISIONS))
    assert numbers == list(range(5, KEPT_REVISIONS + 6))


# Lost, strange and older


def test_a_deleted_revision_of_old_templates_is_not_missed() -> None:
    world = World(asking("v1"))
    run_to_rest(world)
    world.change("a", "v2")
    run_to_rest(world)
    world.lose(CONTROLLER_REVISIONS, f"p-{hash_of('v1')}")
    assert plan(world.snapshot(), world.now).is_empty


def test_no_pod_is_lost_with_the_newest_revision() -> None:
    world = World(pcs(role("a", 2, pod=image("v1")), replicas=2))
    run_to_rest(world)
    world.change("a", "v2")
    run_to_rest(world)
    before = [(one.metadata.name, one.metadata.uid) for one in world.all(PODS)]
    world.lose(CONTROLLER_REVISIONS, f"p-{hash_of('v2')}")
    done = [touched(visit(world)) for _ in range(4)]
    assert done == [[f"p-{hash_of('v2')}"], [], [], []]
    run_to_rest(world)
    assert [(one.metadata.name, one.metadata.uid) for one in world.all(PODS)] == before


@pytest.mark.parametrize("label", [labels.GENERATION_HASH, labels.TEMPLATE_HASH])
def test_a_label_that_somebody_spoils_restarts_nothing(label: str) -> None:
    world = World(pcs(role("a", 2, pod=image("v1"))))
    run_to_rest(world)
    before = [one.metadata.uid for one in world.all(PODS)]
    resource, name = (PODGANGS, "p-0") if label == labels.GENERATION_HASH else (PODCLIQUES, "p-0-a")
    world.edit(resource, name, {"metadata": {"labels": {label: "spoilt"}}})
    run_to_rest(world)
    assert [one.metadata.uid for one in world.all(PODS)] == before
    assert world.json(resource, name)["metadata"]["labels"][label] != "spoilt"


def older(world: World, *, hash_: str = "gohash", generation_hash: str = "gogen") -> World:
    """As another program left it: hashes of its own, no revisions, no labels on gangs."""
    for name in world.names(CONTROLLER_REVISIONS):
        world.lose(CONTROLLER_REVISIONS, name)
    for resource, key, value in (
        (PODGANGS, labels.GENERATION_HASH, None),
        (PODCLIQUES, labels.TEMPLATE_HASH, hash_),
        (PODS, labels.TEMPLATE_HASH, hash_),
    ):
        for name in world.names(resource):
            world.edit(resource, name, {"metadata": {"labels": {key: value}}})
    world.edit(PODCLIQUESETS, "p", {"status": {"currentGenerationHash": generation_hash}})
    return world


def test_what_another_program_made_is_taken_over_with_its_hashes_and_nothing_restarts() -> None:
    world = World(appendix_a(replicas=2))
    run_to_rest(world)
    before = [one.metadata.uid for one in world.all(PODS)]
    run_to_rest(older(world))
    assert [one.metadata.uid for one in world.all(PODS)] == before
    assert world.names(CONTROLLER_REVISIONS) == ["p-gogen"]
    assert world.pcs is not None
    assert world.pcs.status.rolling_update_progress is None
    world.change("a", "v2")
    run_to_rest(world, limit=200)
    images = [world.json(PODS, one)["spec"]["containers"][0]["image"] for one in world.names(PODS)]
    assert images.count("v2") == 4
    assert {one.metadata.labels[labels.TEMPLATE_HASH] for one in world.all(PODS)} == {
        "gohash",
        build_context(world.pcs).template_hashes["a"],
    }


def test_an_update_that_another_program_began_goes_on() -> None:
    """Its clique objects have the new hash already, some of its pods do not."""
    world = World(pcs(role("a", 3, needs=1)))
    run_to_rest(world)
    older(world, hash_="newhash")
    left = world.all(PODS)[:2]
    for one in left:
        world.edit(PODS, one.metadata.name, {"metadata": {"labels": {labels.TEMPLATE_HASH: "oldhash"}}})
    run_to_rest(world)
    now_there = {one.metadata.uid for one in world.all(PODS)}
    assert now_there.isdisjoint(one.metadata.uid for one in left)
    assert {one.metadata.labels[labels.TEMPLATE_HASH] for one in world.all(PODS)} == {"newhash"}


@pytest.mark.parametrize("told_hash", ["UPPER", "with-dash", "x" * 33, "ümlaut", ""])
def test_a_hash_that_cannot_be_a_name_is_not_taken_over(told_hash: str) -> None:
    status = PodCliqueSetStatus(current_generation_hash=told_hash)
    (create,) = planned(seen(asking("v1", status=status), ()))
    assert isinstance(create, Create)
    assert create.name == names.revision("p", hash_of("v1"))
