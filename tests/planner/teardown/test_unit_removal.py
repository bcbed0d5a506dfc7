"""Units that go: marked first, the gang last, and a begun removal finishes."""

import pytest

from grove.api import labels
from grove.api.reasons import FindingReason
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES
from grove.planner.actions import Patch, Plan
from grove.planner.plan import plan
from grove.planner.teardown.unit_removal import is_marked
from tests.dsl import (
    NOW,
    World,
    actions,
    appendix_a,
    at,
    clique,
    gang,
    pcs,
    pod,
    replica,
    run_to_rest,
    service,
    snapshot,
    told,
)

KINDS = (PODCLIQUES, GROUPS, PODGANGS, SERVICES, PODS)


def everything(world: World) -> list[str]:
    return [f"{resource.plural}/{name}" for resource in KINDS for name in world.names(resource)]


def settled(replicas: int = 1) -> World:
    world = World(appendix_a(replicas=replicas))
    run_to_rest(world)
    return world


def next_plan(world: World) -> Plan:
    return plan(world.snapshot(), world.now)


def test_a_set_replica_is_marked_then_its_pods_go_then_its_objects_and_its_gang_last() -> None:
    world = settled(replicas=2)
    world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 1}})
    first = next_plan(world)
    why = "the set was scaled in"
    ours = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=p"
    base = f"{ours},grove.io/incarnation=1,grove.io/podcliqueset-replica-index=1"
    scaled = f"{ours},grove.io/incarnation=1-1,grove.io/podcliqueset-replica-index=1"
    assert told(first) == [
        f"p-1 0: patch podgangs/p-1 (recorded before anything is deleted: {why})",
        f"p-1 1: delete all pods {base} ({why})",
        f"p-1 1: delete all pods {scaled} ({why})",
        f"p-1 2: delete podcliques/p-1-a ({why})",
        f"p-1 2: delete podcliques/p-1-g-0-b ({why})",
        f"p-1 2: delete podcliques/p-1-g-0-c ({why})",
        f"p-1 2: delete podcliques/p-1-g-1-b ({why})",
        f"p-1 2: delete podcliques/p-1-g-1-c ({why})",
        f"p-1 3: delete podcliquescalinggroups/p-1-g ({why})",
        f"p-1 3: delete services/p-1 ({why})",
        f"p-1 3: delete podgangs/p-1-g-0 ({why})",
    ]
    assert [(finding.about, finding.reason, finding.message) for finding in first.findings] == [
        ("podgang/p-1", FindingReason.BEING_REMOVED, "replica 1 is deleted: the set was scaled in")
    ]
    world.carry_out(first)
    assert told(next_plan(world)) == ["p-1 0: delete podgangs/p-1 (the set was scaled in)"]
    run_to_rest(world)
    assert [line for line in everything(world) if "/p-1" in line] == []


def test_the_highest_replica_goes_first_and_the_others_are_not_touched() -> None:
    world = settled(replicas=3)
    kept = [line for line in everything(world) if "/p-0" in line]
    world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 1}})
    assert {action.name for action in actions(next_plan(world)) if isinstance(action, Patch)} == {"p-1", "p-2"}
    run_to_rest(world)
    assert everything(world) == kept


def test_a_group_replica_is_marked_then_its_pods_go_then_its_cliques_and_its_gang_last() -> None:
    world = settled()
    kept = [line for line in everything(world) if "p-0-g-1" not in line and line != "podgangs/p-0-g-0"]
    world.edit(GROUPS, "p-0-g", {"spec": {"replicas": 1}})
    first = next_plan(world)
    why = "the group was scaled in"
    selector = (
        "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=p,grove.io/incarnation=1-1,"
        "grove.io/podcliquescalinggroup=p-0-g,grove.io/podcliquescalinggroup-replica-index=1"
    )
    assert told(first) == [
        f"p-0-g-0 0: patch podgangs/p-0-g-0 (recorded before anything is deleted: {why})",
        f"p-0-g-0 1: delete all pods {selector} ({why})",
        f"p-0-g-0 2: delete podcliques/p-0-g-1-b ({why})",
        f"p-0-g-0 2: delete podcliques/p-0-g-1-c ({why})",
    ]
    assert [(finding.about, finding.reason, finding.message) for finding in first.findings] == [
        ("podgang/p-0-g-0", FindingReason.BEING_REMOVED, "p-0-g replica 1 is deleted: the group was scaled in")
    ]
    world.carry_out(first)
    assert told(next_plan(world)) == [f"p-0-g-0 0: delete podgangs/p-0-g-0 ({why})"]
    run_to_rest(world)
    assert everything(world) == kept


def test_the_mark_names_the_incarnation_that_goes() -> None:
    world = settled()
    world.edit(GROUPS, "p-0-g", {"spec": {"replicas": 1}})
    mark = actions(next_plan(world))[0]
    assert isinstance(mark, Patch)
    assert mark.patch == {"metadata": {"annotations": {"grove.io/teardown": "1-1"}}}


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_removal_that_was_begun_finishes_though_the_unit_is_wanted_again(steps: int) -> None:
    """The plan is cut off after each of its stages, as by a crash."""
    world = settled()
    old = {pod.metadata.uid for pod in world.all(PODS) if "p-0-g-1" in pod.metadata.name}
    world.edit(GROUPS, "p-0-g", {"spec": {"replicas": 1}})
    removal = next_plan(world)
    (chain,) = removal.chains
    world.carry_out(
        Plan(chains=(type(chain)(key=chain.key, replica_index=chain.replica_index, stages=chain.stages[:steps]),))
    )
    world.edit(GROUPS, "p-0-g", {"spec": {"replicas": 2}})
    decided = next_plan(world)
    assert [(finding.reason, finding.message) for finding in decided.findings] == [
        (
            FindingReason.TEARDOWN_UNFINISHED,
            "p-0-g replica 1 is deleted: its deletion had begun and is finished first",
        )
    ]
    assert not any(line.partition(": ")[2].startswith("create") for line in told(decided))
    run_to_rest(world)
    back = [pod for pod in world.all(PODS) if "p-0-g-1" in pod.metadata.name]
    assert len(back) == 2
    assert all(pod.is_ready and pod.metadata.uid not in old for pod in back)
    # A life of its own: generation 1 of the set, 3 of the group.
    assert {pod.metadata.labels[labels.INCARNATION] for pod in back} == {"1-3"}


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_set_replica_whose_removal_was_begun_comes_back_only_after_it_is_gone(steps: int) -> None:
    world = settled(replicas=2)
    old = {pod.metadata.uid for pod in world.all(PODS) if pod.metadata.name.startswith("p-1-")}
    world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 1}})
    (chain,) = next_plan(world).chains
    world.carry_out(
        Plan(chains=(type(chain)(key=chain.key, replica_index=chain.replica_index, stages=chain.stages[:steps]),))
    )
    world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 2}})
    decided = next_plan(world)
    assert [(finding.reason, finding.message) for finding in decided.findings] == [
        (FindingReason.TEARDOWN_UNFINISHED, "replica 1 is deleted: its deletion had begun and is finished first")
    ]
    run_to_rest(world)
    back = [pod for pod in world.all(PODS) if pod.metadata.name.startswith("p-1-")]
    assert len(back) == 6
    assert all(pod.is_ready and pod.metadata.uid not in old for pod in back)


def test_a_bulk_delete_can_only_hit_the_incarnation_it_was_decided_on() -> None:
    old = clique(pod(0), labels={labels.INCARNATION: "1"})
    new = clique(pod(0, clique="p-0-b", life="2"), name="p-0-b", labels={labels.INCARNATION: "2"})
    unlabelled = clique(pod(0, clique="p-0-c"), name="p-0-c", labels={})
    seen = replica(new, old, unlabelled, gangs=(gang(marked=True),))
    lines = [line for line in told(plan(snapshot(pcs(replicas=0), seen), NOW)) if "delete all" in line]
    ours = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=p"
    index = "grove.io/podcliqueset-replica-index=0"
    assert [line.split(" ")[5] for line in lines] == [
        f"{ours},{index}",
        f"{ours},grove.io/incarnation=1,{index}",
        f"{ours},grove.io/incarnation=2,{index}",
    ]


def test_what_is_leaving_already_is_not_deleted_again() -> None:
    view = clique(pod(0, terminating=True), terminating=True)
    seen = replica(view, gangs=(gang(view, marked=True),))
    decided = plan(snapshot(pcs(replicas=0), seen), NOW)
    assert decided.chains == ()
    assert [finding.message for finding in decided.findings] == ["replica 0 is deleted: the set was scaled in"]


def test_the_gang_stays_until_its_last_clique_and_service_are_gone() -> None:
    for rest in (
        replica(clique(terminating=True), gangs=(gang(marked=True),)),
        replica(gangs=(gang(marked=True), gang(name="p-0-g-0", deletion_timestamp=NOW))),
    ):
        assert plan(snapshot(pcs(replicas=0), rest), NOW).chains == ()
    with_service = replica(gangs=(gang(marked=True),), services=(service(),))
    assert told(plan(snapshot(pcs(replicas=0), with_service), NOW)) == [
        "p-0 0: delete services/p-0 (the set was scaled in)"
    ]
    bare = replica(gangs=(gang(marked=True),))
    assert told(plan(snapshot(pcs(replicas=0), bare), NOW)) == ["p-0 0: delete podgangs/p-0 (the set was scaled in)"]


def test_a_replica_of_which_nothing_is_left_needs_nothing() -> None:
    assert plan(snapshot(pcs(replicas=0), replica()), NOW).chains == ()


def test_what_goes_makes_room_before_what_comes() -> None:
    world = settled(replicas=2)
    world.lose(PODS, next(name for name in world.names(PODS) if name.startswith("p-0-a-0")))
    world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 1}})
    assert [chain.key for chain in next_plan(world).chains] == ["p-1", "p-0"]


def test_only_a_gang_with_the_annotation_is_marked() -> None:
    assert is_marked(gang(marked=True))
    assert not is_marked(gang())
    assert not is_marked(None)


def test_a_running_removal_needs_no_wake_up() -> None:
    world = settled(replicas=2)
    world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 1}})
    world.now = at(100)
    assert next_plan(world).requeue_at is None
