"""Updates of a whole set: whose turn it is, and stories from a change of the template to rest."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.reasons import EventReason
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import Condition, Uid, find_condition
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import (
    CurrentlyUpdating,
    PodCliqueSet,
    PodCliqueSetStatus,
    ReplicaUpdateProgress,
    SetRollingUpdateProgress,
    SetUpdateProgress,
)
from grove.planner.actions import Plan, StatusPriority
from grove.planner.plan import plan
from grove.planner.plan_cache import PlanCache
from grove.planner.replica import plan_replica
from grove.planner.rollout.replica_order import (
    Candidate,
    RollFacts,
    current_replica_index,
    roll_set,
    set_update_progress,
)
from grove.planner.rollout.replica_update import UpdatePriority, UpdateRole, update_priority
from grove.planner.snapshot import Snapshot, build_context
from grove.planner.views import ReplicaView, template_hash_of
from tests.dsl import (
    NOW,
    World,
    appendix_a,
    at,
    clique,
    gated,
    pcs,
    pod,
    replica,
    role,
    run_a_while,
    run_to_rest,
    scaling,
    starting,
    told,
    visit,
)

param = pytest.param
_DEEP = pytest.mark.deep(reason="the quick tier scales the same at two other moments of the same update")
LATER = at(600)

# Whose turn


def current_replica(index: int) -> CurrentlyUpdating:
    return CurrentlyUpdating(replica_index=index, update_started_at=NOW)


def progress(
    current: int | None = None, *, started: datetime = NOW, ended: datetime | None = None
) -> SetRollingUpdateProgress:
    chosen = None if current is None else current_replica(current)
    return SetRollingUpdateProgress(update_started_at=started, update_ended_at=ended, currently_updating=chosen)


def asked(stored: SetRollingUpdateProgress | None, *, told_hash: str | None = "new", replicas: int = 3) -> PodCliqueSet:
    status = PodCliqueSetStatus(current_generation_hash=told_hash, rolling_update_progress=stored)
    return pcs(replicas=replicas, status=status)


def facts(*outdated: tuple[int, UpdatePriority], is_current_done: bool = False) -> RollFacts:
    found = tuple(
        Candidate(index=index, update_priority=standing_, is_available=standing_ is AVAILABLE)
        for index, standing_ in outdated
    )
    return RollFacts(outdated=found, is_current_done=is_current_done)


AVAILABLE, BROKEN, NOTHING = UpdatePriority.AVAILABLE, UpdatePriority.UNAVAILABLE, UpdatePriority.NOTHING_SCHEDULED


@pytest.mark.parametrize(
    ("outdated", "first"),
    [
        param([(0, AVAILABLE), (1, AVAILABLE), (2, AVAILABLE)], 2, id="healthy ones from the highest index down"),
        param([(0, AVAILABLE), (1, BROKEN), (2, AVAILABLE)], 1, id="a breached one before healthy ones"),
        param([(0, NOTHING), (1, BROKEN), (2, AVAILABLE)], 0, id="one with nothing scheduled before all"),
        param([(0, BROKEN), (1, BROKEN)], 1, id="of two breached ones the higher"),
    ],
)
def test_the_order_of_turns(outdated: list[tuple[int, UpdatePriority]], first: int) -> None:
    found = roll_set(asked(None), "new", facts(*outdated), is_on_delete=False, now=LATER)
    was_available = dict(outdated)[first] is AVAILABLE
    opened = CurrentlyUpdating(replica_index=first, update_started_at=LATER, was_available=was_available)
    assert found == SetRollingUpdateProgress(update_started_at=LATER, currently_updating=opened)


def test_a_time_is_told_in_whole_seconds_never_early() -> None:
    found = roll_set(asked(None), "new", facts((0, AVAILABLE)), is_on_delete=False, now=at(0.25))
    assert found is not None
    assert found.update_started_at == at(1)


@pytest.mark.parametrize(
    ("seen", "found", "after"),
    [
        param(asked(None), facts(), None, id="nothing is old"),
        param(asked(None, told_hash=None), facts(), None, id="a new set"),
        param(asked(progress(1)), facts((0, AVAILABLE), (1, AVAILABLE)), progress(1), id="a turn goes on"),
        param(
            asked(progress(1)),
            facts((0, AVAILABLE), (1, AVAILABLE), (2, NOTHING)),
            progress(1),
            id="also when another would come first now",
        ),
        param(
            asked(progress(1)),
            facts((0, AVAILABLE), is_current_done=True),
            msgspec.structs.replace(
                progress(),
                currently_updating=CurrentlyUpdating(replica_index=0, update_started_at=LATER, was_available=True),
            ),
            id="the next one",
        ),
        param(asked(progress(0)), facts(is_current_done=True), progress(ended=LATER), id="the last one is done"),
        param(
            asked(progress(2), replicas=2),
            facts((0, AVAILABLE)),
            msgspec.structs.replace(
                progress(),
                currently_updating=CurrentlyUpdating(replica_index=0, update_started_at=LATER, was_available=True),
            ),
            id="the replica in turn was scaled in",
        ),
        param(asked(progress(0), replicas=0), facts(), progress(ended=LATER), id="scaled to nothing"),
        param(
            asked(progress(1), told_hash="old"),
            facts((0, AVAILABLE), (1, AVAILABLE)),
            progress(1, started=LATER),
            id="a second change keeps the turn and starts the clock anew",
        ),
        param(
            asked(progress(ended=NOW), told_hash="old"),
            facts(),
            progress(started=LATER, ended=LATER),
            id="a change that nothing has to follow is done at once",
        ),
        param(asked(progress(ended=NOW)), facts(), progress(ended=NOW), id="what ended stays told"),
    ],
)
def test_the_progress_of_a_set(seen: PodCliqueSet, found: RollFacts, after: SetRollingUpdateProgress | None) -> None:
    assert roll_set(seen, "new", found, is_on_delete=False, now=LATER) == after


@pytest.mark.parametrize(
    ("seen", "after"),
    [
        param(asked(None, told_hash=None), None, id="a new set"),
        param(
            asked(None, told_hash="old"), progress(started=LATER, ended=LATER), id="a change starts and ends at once"
        ),
        param(asked(progress(ended=NOW)), progress(ended=NOW), id="once"),
        param(asked(progress(1)), progress(ended=LATER), id="a switch of the strategy ends what was under way"),
    ],
)
def test_on_delete_has_no_turns(seen: PodCliqueSet, after: SetRollingUpdateProgress | None) -> None:
    outdated = facts((0, AVAILABLE), (1, AVAILABLE))
    assert roll_set(seen, "new", outdated, is_on_delete=True, now=LATER) == after


@pytest.mark.parametrize(
    ("stored", "index"),
    [
        param(None, None, id="no update"),
        param(progress(), None, id="nobody yet"),
        param(progress(1), 1, id="one"),
        param(progress(1, ended=NOW), None, id="ended"),
        param(progress(3), None, id="scaled in"),
    ],
)
def test_the_turn_is_what_is_stored(stored: SetRollingUpdateProgress | None, index: int | None) -> None:
    assert current_replica_index(asked(stored)) == index


def test_the_counts_that_tools_read_are_derived_from_the_same_facts() -> None:
    found = RollFacts(updated_clique_count=2, clique_count=6, updated_group_count=1, group_count=3)
    assert set_update_progress(progress(1), found) == SetUpdateProgress(
        update_started_at=NOW,
        updated_pod_cliques_count=2,
        total_pod_cliques_count=6,
        updated_pod_clique_scaling_groups_count=1,
        total_pod_clique_scaling_groups_count=3,
        currently_updating=(ReplicaUpdateProgress(replica_index=1, update_started_at=NOW),),
    )
    assert set_update_progress(None, found) is None


@pytest.mark.parametrize(
    ("seen", "is_available", "found"),
    [
        param(replica(), False, NOTHING, id="nothing there"),
        param(replica(clique(gated(0))), False, NOTHING, id="nothing on a node"),
        param(replica(clique(gated(0)), clique(pod(0), name="p-0-b")), False, BROKEN, id="something on a node"),
        param(replica(clique(starting(0))), False, BROKEN, id="not available yet"),
        param(replica(clique(pod(0))), True, AVAILABLE, id="available"),
    ],
)
def test_how_a_replica_stands(seen: ReplicaView, is_available: bool, found: UpdatePriority) -> None:
    assert update_priority(seen, is_available=is_available) == found


# Stories


def images(world: World) -> Counter[str]:
    return Counter(image_of(world, one) for one in world.all(PODS))


def image_of(world: World, one: Pod) -> str:
    image = world.json(PODS, one.metadata.name)["spec"]["containers"][0]["image"]
    return str(image)


def settled(observed: PodCliqueSet) -> World:
    world = World(observed)
    run_to_rest(world)
    world.now = LATER
    return world


def uids(world: World, *roles: str) -> dict[str, Uid]:
    """Pods of these cliques of the template."""
    return {
        one.metadata.name: one.metadata.uid
        for one in world.all(PODS)
        if one.metadata.labels[labels.PODCLIQUE].rpartition("-")[2] in roles
    }


def is_whole(world: World, *, image: str = "v2") -> None:
    assert world.pcs is not None
    assert world.pcs.status.available_replicas == world.pcs.status.updated_replicas == world.pcs.spec.replicas
    assert all(one.is_ready for one in world.all(PODS))
    found = world.pcs.status.rolling_update_progress
    assert found is not None
    assert (found.update_ended_at is not None, found.currently_updating) == (True, None)
    assert set(images(world)) <= {image, "pause"}
    assert find_condition(world.pcs.status.conditions, "UpdateStalled") is None
    assert plan(world.snapshot(), world.now).is_empty


class Down:
    """Counts what is not ready, while nobody but the update takes anything."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        self.replicas: list[int] = []

    def __call__(self, world: World, _: Plan) -> None:
        units: Counter[str] = Counter()
        for view in (view for seen in world.snapshot().replicas for view in seen.cliques.values()):
            units[view.name] = view.replicas - view.ready_count
        for name, count in units.items():
            self.most[name] = max(self.most[name], count)
        touched = {int(name.split("-")[1]) for name, count in units.items() if count}
        self.replicas += sorted(touched.difference(self.replicas[-1:]))
        assert len(touched) <= 1, "two replicas at once"


def test_a_changed_clique_rolls_pod_by_pod_and_nothing_else_is_touched() -> None:
    world = settled(pcs(role("a", 3, needs=2), role("b"), role("c"), groups=(scaling("g", "b", "c", replicas=2),)))
    others = uids(world, "b", "c")
    world.change("a", "v2")
    down = Down()
    run_to_rest(world, check=down)
    is_whole(world)
    assert uids(world, "b", "c") == others
    assert down.most == Counter({"p-0-a": 1})
    assert images(world) == {"v2": 3, "pause": 4}


def test_a_changed_member_rolls_whole_group_replicas_and_nothing_else_is_touched() -> None:
    world = settled(appendix_a())
    before = {role_: uids(world, role_) for role_ in "abc"}
    world.change("b", "v2")
    down = Down()
    run_to_rest(world, check=down)
    is_whole(world)
    assert uids(world, "a") == before["a"]
    assert set(uids(world, "b", "c").values()).isdisjoint([*before["b"].values(), *before["c"].values()])
    assert images(world) == {"v2": 2, "pause": 4}


def test_one_replica_completes_before_the_next_begins() -> None:
    world = settled(appendix_a(replicas=3))
    for name in "abc":
        world.change(name, "v2")
    down = Down()
    run_to_rest(world, check=down, limit=200)
    is_whole(world)
    assert images(world) == {"v2": 18}
    assert down.replicas == [2, 1, 0]
    assert turns(world) == [f"replica {index} is updated next" for index in (2, 1, 0)]


def test_a_minimum_of_all_pods_still_updates() -> None:
    world = settled(pcs(role("a", 2, needs=2), role("b"), groups=(scaling("g", "b", replicas=2, needs=2),)))
    world.change("a", "v2")
    world.change("b", "v2")
    down = Down()
    run_to_rest(world, check=down)
    is_whole(world)
    assert images(world) == {"v2": 4}
    assert down.most["p-0-a"] == 1


def test_without_room_exactly_one_pod_is_down_until_there_is_room_again() -> None:
    world = settled(pcs(role("a", 3, needs=1)))
    world.capacity = 0
    world.change("a", "v2")
    run_to_rest(world)
    assert [(image_of(world, one), one.is_ready) for one in world.all(PODS)] == [
        ("v2", False),
        ("pause", True),
        ("pause", True),
    ]
    stalled = condition(world)
    assert stalled is not None
    assert (stalled.reason, stalled.last_transition_time) == ("NoCapacity", LATER + (at(60) - NOW))
    world.capacity = None
    run_to_rest(world)
    is_whole(world)


def condition(world: World) -> Condition | None:
    assert world.pcs is not None
    return find_condition(world.pcs.status.conditions, "UpdateStalled")


def test_an_image_that_never_gets_ready_stops_at_the_first_replica_and_undo_goes_through() -> None:
    world = settled(pcs(role("a", 2, needs=1), replicas=3))
    world.broken_images = frozenset({"broken"})
    world.change("a", "broken")
    run_to_rest(world)
    assert images(world) == {"broken": 1, "pause": 5}
    stalled = condition(world)
    assert stalled is not None
    assert stalled.reason == "PodsNotReady"
    world.change("a", "pause")
    run_to_rest(world)
    is_whole(world)
    assert images(world) == {"pause": 6}


def test_nobody_waits_for_the_hopeless_in_a_clique() -> None:
    world = World(pcs(role("a", 3, needs=1)))
    world.capacity = 2
    run_to_rest(world)
    world.change("a", "v2")
    run_to_rest(world)
    assert images(world) == {"v2": 3}
    assert sum(one.is_ready for one in world.all(PODS)) == 2
    assert ended(world)


def ended(world: World) -> bool:
    assert world.pcs is not None
    found = world.pcs.status.rolling_update_progress
    return found is not None and found.update_ended_at is not None


def test_nobody_waits_for_the_hopeless_in_a_group() -> None:
    world = World(pcs(role("b"), role("c"), groups=(scaling("g", "b", "c", replicas=3, needs=1),)))
    world.capacity = 4
    run_to_rest(world)
    world.change("b", "v2")
    run_to_rest(world)
    assert images(world) == {"v2": 3, "pause": 3}
    assert ended(world)


def test_an_unscheduled_replica_is_updated_first_and_is_not_waited_for() -> None:
    world = settled(pcs(role("a", 2), replicas=3))
    world.capacity = 4
    for one in world.all(PODS):
        if one.metadata.labels[labels.SET_REPLICA_INDEX] == "0":
            world.lose(PODS, one.metadata.name)
    run_to_rest(world)
    world.change("a", "v2")
    run_a_while(world, 59)
    assert len(turns(world)) == 1
    assert images(world) == {"v2": 2, "pause": 4}
    run_a_while(world, 2)
    assert len(turns(world)) == 2
    world.capacity = None
    run_to_rest(world, limit=100)
    assert turns(world) == [f"replica {index} is updated next" for index in (0, 2, 1)]
    is_whole(world)


def turns(world: World) -> list[str]:
    return [one.message for one in world.events if one.reason == EventReason.UPDATE_TURN]


@pytest.mark.parametrize("room", [2, 3])
def test_a_second_change_in_the_middle_ends_with_everything_newest(room: int) -> None:
    world = World(pcs(role("a", 3, needs=1)))
    world.capacity = room
    run_to_rest(world)
    world.change("a", "v2")
    until(world, lambda: sum(one.is_ready and image_of(world, one) == "v2" for one in world.all(PODS)) == 1)
    world.change("a", "v3")
    run_to_rest(world)
    assert images(world) == {"v3": 3}
    assert ended(world)


@pytest.mark.parametrize("room", [4, 6])
def test_a_second_change_of_a_group_in_the_middle_ends_with_everything_newest(room: int) -> None:
    world = World(pcs(role("b"), role("c"), groups=(scaling("g", "b", "c", replicas=3, needs=1),)))
    world.capacity = room
    run_to_rest(world)
    world.change("b", "v2")
    until(world, lambda: sum(one.is_ready and image_of(world, one) == "v2" for one in world.all(PODS)) == 1)
    world.change("b", "v3")
    run_to_rest(world)
    assert images(world) == {"v3": 3, "pause": 3}
    assert ended(world)


@pytest.mark.parametrize(
    ("observed", "changed", "ready"),
    [
        param(pcs(role("a", 4, needs=1)), "a", 3, id="a clique"),
        param(pcs(role("b"), role("c"), groups=(scaling("g", "b", "c", replicas=3),)), "b", 4, id="a group"),
    ],
)
def test_after_a_second_change_nothing_is_taken_before_the_last_one_is_made_up_for(
    observed: PodCliqueSet, changed: str, ready: int
) -> None:
    world = settled(observed)
    world.broken_images = frozenset({"v2", "v3"})
    for image in ("v2", "v3"):
        world.change(changed, image)
        run_to_rest(world)
        # What is left of the broken one: its other member, if there is one.
        assert sum(one.is_ready and not is_of_broken_unit(world, one) for one in world.all(PODS)) == ready
    world.change(changed, "v4")
    run_to_rest(world)
    is_whole(world, image="v4")


def is_of_broken_unit(world: World, one: Pod) -> bool:
    unit = one.metadata.labels.get(labels.GROUP_REPLICA_INDEX)
    if unit is None:
        return False
    members = [other for other in world.all(PODS) if other.metadata.labels.get(labels.GROUP_REPLICA_INDEX) == unit]
    return not all(other.is_ready for other in members)


def test_a_replica_is_not_done_before_it_exists() -> None:
    asked_for = build_context(pcs(role("a", 2), role("b"), groups=(scaling("g", "b"),)))
    in_turn = UpdateRole(is_current=True)
    assert not plan_replica(asked_for, ReplicaView(index=0), NOW, role=in_turn).update.is_current_done


def until(world: World, happened: Callable[[], bool]) -> None:
    for _ in range(60):
        if happened():
            return
        visit(world)
        world.live()
    raise AssertionError("it never happened")


def test_a_change_back_leaves_alone_what_still_runs_the_old_template() -> None:
    world = settled(pcs(role("a", 3, needs=1)))
    before = uids(world, "a")
    world.change("a", "v2")
    until(world, lambda: images(world)["v2"] == 1)
    world.change("a", "pause")
    run_to_rest(world)
    is_whole(world)
    assert images(world) == {"pause": 3}
    assert len(before.items() & uids(world, "a").items()) == 2


def taken_without_an_answer(world: World) -> int:
    """How many ready pods go while nothing new becomes ready."""
    before = sum(one.is_ready for one in world.all(PODS))
    for _ in range(8):
        visit(world)
    return before - sum(one.is_ready for one in world.all(PODS))


def test_after_a_change_back_still_only_one_ready_pod_is_taken_at_a_time() -> None:
    world = settled(pcs(role("a", 5, needs=1)))
    world.change("a", "v2")
    until(world, lambda: sum(one.is_ready and image_of(world, one) == "v2" for one in world.all(PODS)) == 2)
    world.change("a", "pause")
    assert taken_without_an_answer(world) == 1


@pytest.mark.parametrize(
    ("observed", "is_old", "unit"),
    [
        param(pcs(role("a", 6, needs=1)), lambda found: int(found[labels.POD_INDEX]) >= 3, 1, id="a clique"),
        param(
            pcs(role("b"), role("c"), groups=(scaling("g", "b", "c", replicas=5),)),
            lambda found: int(found[labels.GROUP_REPLICA_INDEX]) >= 2,
            2,
            id="a group",
        ),
    ],
)
def test_what_is_new_already_makes_up_for_nothing_that_is_taken(
    observed: PodCliqueSet, is_old: Callable[[dict[str, str]], bool], unit: int
) -> None:
    """Some were replaced under OnDelete; then the strategy is switched."""
    world = settled(msgspec.structs.replace(observed, spec=on_delete(observed).spec))
    for name in ("a", "b", "c"):
        world.change(name, "v2")
    run_to_rest(world)
    for one in world.all(PODS):
        if not is_old(one.metadata.labels):
            world.delete(PODS, one.metadata.name)
    run_to_rest(world)
    switch(world, "RollingRecreate")
    assert taken_without_an_answer(world) == unit
    run_to_rest(world)
    is_whole(world)


def on_delete(observed: PodCliqueSet) -> PodCliqueSet:
    return pcs(
        *observed.spec.template.cliques,
        groups=observed.spec.template.pod_clique_scaling_groups,
        replicas=observed.spec.replicas,
        spec={"update_strategy": {"type": "OnDelete"}},
    )


def switch(world: World, kind: str) -> None:
    world.edit(PODCLIQUESETS, "p", {"spec": {"updateStrategy": {"type": kind}}})


def test_on_delete_deletes_nothing_and_everything_made_anew_is_new() -> None:
    world = settled(on_delete(appendix_a(replicas=2)))
    before = uids(world, "a", "b", "c")
    world.change("a", "v2")
    world.change("b", "v2")
    plans = run_to_rest(world)
    assert uids(world, "a", "b", "c") == before
    assert not [line for decided in plans for line in told(decided) if "delete" in line]
    assert ended(world)
    for name in [one.metadata.name for one in world.all(PODS)][:2]:
        world.delete(PODS, name)
    world.scale(GROUPS, "p-1-g", 3)
    world.scale(PODCLIQUES, "p-0-a", 4)
    run_to_rest(world)
    # Two of a's pods were made anew, two added, and one of b; c has no other template.
    assert images(world) == {"v2": 2 + 2 + 1, "pause": 2 + 4 + 4 + 1}
    assert world.pcs is not None
    assert world.pcs.status.updated_replicas == 0


def test_on_delete_two_changes_within_a_second_are_two_changes() -> None:
    world = settled(on_delete(appendix_a()))
    for image in ("v2", "v3"):
        for name in "abc":
            world.change(name, image)
        run_to_rest(world)
    assert world.pcs is not None
    newest = world.pcs.status.current_generation_hash
    (alone,) = [one.status.update_progress for one in world.all(PODCLIQUES) if labels.GROUP not in one.metadata.labels]
    (grouped,) = [one.status.update_progress for one in world.all(GROUPS)]
    assert alone is not None
    assert grouped is not None
    assert (alone.pod_clique_set_generation_hash, grouped.pod_clique_set_generation_hash) == (newest, newest)
    world.now = at(3600)
    assert plan(world.snapshot(), world.now).is_empty


def test_on_delete_counts_what_runs_the_newest() -> None:
    world = settled(on_delete(pcs(role("a", 2), replicas=2)))
    world.change("a", "v2")
    run_to_rest(world)
    for one in world.all(PODS):
        if one.metadata.labels[labels.SET_REPLICA_INDEX] == "1":
            world.delete(PODS, one.metadata.name)
    run_to_rest(world)
    assert world.pcs is not None
    assert world.pcs.status.updated_replicas == 1
    assert [one.status.updated_replicas for one in world.all(PODCLIQUES)] == [0, 2]


def test_a_switch_to_on_delete_in_the_middle_stops_and_a_switch_back_goes_on() -> None:
    world = settled(appendix_a(replicas=2))
    for name in "abc":
        world.change(name, "v2")
    until(world, lambda: images(world)["v2"] >= 3)
    switch(world, "OnDelete")
    visit(world)
    run_to_rest(world)
    stopped = images(world)
    assert stopped["pause"] > 0
    assert ended(world)
    switch(world, "RollingRecreate")
    run_to_rest(world, check=Down(), limit=200)
    is_whole(world)
    assert images(world) == {"v2": 12}


@pytest.mark.parametrize("moment", [0, 6, param(3, marks=_DEEP), param(9, marks=_DEEP)])
@pytest.mark.parametrize(
    ("resource", "name", "counts", "pods"),
    [
        param(PODCLIQUESETS, "p", (1,), 6, id="set in"),
        param(PODCLIQUESETS, "p", (3,), 18, id="set out"),
        param(PODCLIQUESETS, "p", (0, 2), 12, id="set to nothing and back"),
        param(GROUPS, "p-1-g", (3,), 14, id="group out"),
        param(GROUPS, "p-1-g", (1,), 10, id="group in"),
        param(GROUPS, "p-1-g", (1, 3), 14, id="group in and out"),
        param(PODCLIQUES, "p-1-a", (4,), 14, id="clique out"),
        param(PODCLIQUES, "p-1-a", (1,), 11, id="clique in"),
        param(PODCLIQUES, "p-0-a", (3, 1), 11, id="clique of the other replica out and in"),
    ],
)
def test_whatever_is_scaled_during_an_update_it_ends_with_exactly_the_right_pods(
    resource: Resource[Any], name: str, counts: tuple[int, ...], pods: int, moment: int
) -> None:
    observed = pcs(
        role("a", 2, needs=1), role("b"), role("c"), groups=(scaling("g", "b", "c", replicas=2),), replicas=2
    )
    world = settled(observed)
    for one in "abc":
        world.change(one, "v2")
    for _ in range(moment):
        visit(world)
        world.live()
    for count in counts:
        world.scale(resource, name, count)
        visit(world)
    run_to_rest(world, limit=200)
    is_whole(world)
    assert images(world) == {"v2": pods}


def test_a_replica_whose_turn_has_not_come_is_made_from_what_it_runs() -> None:
    world = settled(appendix_a(replicas=2))
    world.capacity = 12
    world.broken_images = frozenset({"v2"})
    world.change("a", "v2")
    run_to_rest(world)
    world.capacity = None
    world.scale(PODCLIQUES, "p-0-a", 3)
    world.scale(GROUPS, "p-0-g", 3)
    lost = next(one for one in world.names(PODCLIQUES) if one == "p-0-g-0-b")
    world.lose(PODCLIQUES, lost)
    run_to_rest(world)
    of_replica_0 = Counter(
        image_of(world, one) for one in world.all(PODS) if one.metadata.labels[labels.SET_REPLICA_INDEX] == "0"
    )
    assert of_replica_0 == {"pause": 3 + 6}
    assert (
        world.json(PODGANGS, "p-0")["metadata"]["labels"][labels.GENERATION_HASH]
        != (world.json(PODGANGS, "p-1")["metadata"]["labels"][labels.GENERATION_HASH])
    )


def test_a_terminated_replica_comes_back_with_the_revision_that_it_ran() -> None:
    world = settled(pcs(role("a", 2), replicas=2, template={"termination_delay": "10s"}))
    world.broken_images = frozenset({"v2"})
    world.change("a", "v2")
    run_to_rest(world)
    victim = next(one for one in world.all(PODS) if one.metadata.labels[labels.SET_REPLICA_INDEX] == "0")
    world.broken_images = frozenset({"v2", "pause"})
    world.make_ready(victim.metadata.name, is_ready=False)
    run_a_while(world, 15)
    world.broken_images = frozenset({"v2"})
    run_to_rest(world)
    again = [one for one in world.all(PODS) if one.metadata.labels[labels.SET_REPLICA_INDEX] == "0"]
    assert victim.metadata.uid not in {one.metadata.uid for one in again}
    assert [image_of(world, one) for one in again] == ["pause", "pause"]


def test_a_breach_of_a_clique_while_it_is_updated_is_unknown_and_ends_nothing() -> None:
    world = settled(pcs(role("a", 2), role("b"), template={"termination_delay": "10s"}))
    others = uids(world, "b")
    world.broken_images = frozenset({"v2"})
    world.change("a", "v2")
    run_a_while(world, 100)
    breach = find_condition(world.all(PODCLIQUES)[0].status.conditions, "MinAvailableBreached")
    assert breach is not None
    assert (breach.status, breach.reason) == ("Unknown", "UpdateInProgress")
    assert uids(world, "b") == others


def test_the_turn_of_a_replica_that_was_scaled_in_and_out_between_two_writes_is_not_had_twice() -> None:
    world = settled(pcs(role("a", 3, needs=1), replicas=3))
    world.change("a", "v2")
    until(world, lambda: images(world)["v2"] == 1)
    world.scale(PODCLIQUESETS, "p", 2)
    decided = plan(world.snapshot(), world.now)
    # The operator dies after it stored whose turn is next, and before it began the removal.
    world.carry_out(Plan(statuses=tuple(one for one in decided.statuses if one.priority is StatusPriority.DURABLE)))
    world.scale(PODCLIQUESETS, "p", 3)
    # Only what the interrupted turn left behind in replica 2 and the one in turn may be incomplete.
    run_to_rest(world, check=takes_only_in_turn, limit=200)
    is_whole(world)


def takes_only_in_turn(world: World, decided: Plan) -> None:
    assert world.pcs is not None
    turn_ = current_replica_index(world.pcs)
    lines = [line for line in told(decided) if "older template" in line]
    assert [line for line in lines if not line.startswith(f"p-{turn_}/update")] == []


def test_a_pod_is_deleted_once_when_scale_in_and_update_want_it_gone() -> None:
    world = settled(pcs(role("a", 3, needs=1)))
    world.broken_images = frozenset({"pause"})
    for one in world.all(PODS)[1:]:
        world.make_ready(one.metadata.name, is_ready=False)
    world.change("a", "v2")
    visit_facts(world)
    world.scale(PODCLIQUES, "p-0-a", 2)
    lines = [line for line in told(plan(world.snapshot(), world.now)) if " delete pods/" in line]
    assert len(lines) == 1
    run_to_rest(world)
    is_whole(world)


def visit_facts(world: World) -> None:
    """Up to the moment before the first pod is deleted."""
    for _ in range(10):
        decided = plan(world.snapshot(), world.now)
        if any(" delete pods/" in line for line in told(decided)):
            return
        world.carry_out(decided)
    raise AssertionError("no pod is ever deleted")


# What a step costs


def test_a_turn_that_moves_on_costs_two_plans_of_replicas() -> None:
    world = CachedWorld(pcs(role("a", 1), replicas=12))
    cache = PlanCache()
    run_to_rest(world, cache=cache)
    world.change("a", "v2")
    costs: list[int] = []
    for _ in range(200):
        before, turn_before = cache.planned_count, world.current_replica
        decided = plan(world.snapshot(), world.now, cache)
        if turn_before != world.last_turn and world.last_turn is not None:
            costs.append(cache.planned_count - before)
        world.last_turn = turn_before
        world.carry_out(decided)
        if not world.live() and decided.is_empty:
            break
    is_whole(world)
    assert len(costs) == 12
    assert max(costs[1:]) <= 3


class CachedWorld(World):
    """Keeps views as an observer does: what did not change is the same object."""

    def __init__(self, observed: PodCliqueSet) -> None:
        super().__init__(observed)
        self.last_turn: int | None = None
        self._kept: dict[int, ReplicaView] = {}
        self._kept_revisions: tuple[ControllerRevision, ...] = ()

    @property
    def current_replica(self) -> int | None:
        assert self.pcs is not None
        return current_replica_index(self.pcs)

    def snapshot(self) -> Snapshot:
        found = super().snapshot()
        views = tuple(self._kept[view.index] if self._kept.get(view.index) == view else view for view in found.replicas)
        self._kept = {view.index: view for view in views}
        if self._kept_revisions != found.revisions:
            self._kept_revisions = found.revisions
        return msgspec.structs.replace(found, replicas=views, revisions=self._kept_revisions)


def test_every_pod_of_a_replica_is_of_its_cliques_template_at_the_end() -> None:
    world = settled(appendix_a(replicas=2))
    world.change("a", "v2", labels={"team": "x"}, annotations={"note": "y"})
    run_to_rest(world, limit=200)
    cliques = {one.metadata.name: one for one in world.all(PODCLIQUES)}
    for one in world.all(PODS):
        assert template_hash_of(one.metadata) == template_hash_of(
            cliques[one.metadata.labels[labels.PODCLIQUE]].metadata
        )
    changed = [one for one in world.all(PODS) if one.metadata.labels[labels.PODCLIQUE].endswith("-a")]
    assert [(one.metadata.labels["team"], one.metadata.annotations["note"]) for one in changed] == [("x", "y")] * 4
