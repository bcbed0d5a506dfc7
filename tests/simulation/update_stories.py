"""Stories of rolling updates: what is replaced, in which order, how many are down at once, and what stays.

One pod per node, and a pod takes five seconds to become ready, so that every step can be seen. Told in calm by
`test_updates.py`; those of `CRASHING` also with a crash at every write of the update by `test_crash_everywhere.py`.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODS, Resource
from grove.api.types.meta import JsonObject, find_condition
from grove.cluster.kubelet.simulated.pod_state_machine import SIM_STOPS_AFTER
from grove.sim.simulation import World
from tests.simulation.restored import unrestored
from tests.simulation.stories import WORKLOAD1, Story, expect_running, quota
from tests.simulation.termination_stories import breach_of, clique_of, lose_pods, pods_of
from tests.simulation.updating import (
    BROKEN,
    NEW,
    NEWER,
    OLD,
    Witness,
    all_images,
    assert_done,
    change,
    change_annotations,
    change_image,
    choose_strategy,
    cordon_all,
    delete_pod,
    expect_updated,
    images,
    images_of,
    is_updated,
    is_updating,
    revisions,
    small,
    stalled,
    start,
    the_set,
    turn,
    uncordon_all,
    undo,
    updatable,
)

# --- workload1 -------------------------------------------------------------------------------------------------------


async def a_changed_clique_loses_one_pod_at_a_time_and_nothing_else_is_touched(world: World) -> None:
    before, witness = pods_of(world), Witness(world)
    await change_image(world, NEW, "pc-a")
    await world.settle()
    assert [one.clique for one in witness.left()] == ["workload1-0-pc-a"] * 2
    assert witness.fewest["workload1-0-pc-a"] == 1
    assert len(pods_of(world).keys() & before.keys()) == 8
    assert images_of(world, "workload1-0-pc-a") == [NEW, NEW]
    assert unrestored(world) == []
    assert_done(world)


async def a_changed_member_takes_its_group_replica_along_one_after_the_other(world: World) -> None:
    before, witness = pods_of(world), Witness(world)
    await change_image(world, NEW, "pc-b")
    await world.settle()
    assert witness.order_of(lambda one: one.group_replica, size=4) == ["0", "1"]
    assert len(witness.left()) == 8
    assert witness.left("workload1-0-pc-a") == []
    kept = pods_of(world).keys() & before.keys()
    assert sorted(before[uid] for uid in kept) == ["workload1-0-pc-a"] * 2
    assert images_of(world, "workload1-0-sg-x-1-pc-b") == [NEW]
    assert images_of(world, "workload1-0-sg-x-1-pc-c") == [OLD] * 3
    assert unrestored(world) == []
    assert_done(world)


async def replica_one_is_through_before_replica_zero_begins(world: World) -> None:
    before, witness = pods_of(world), Witness(world)
    await change_image(world, NEW)
    await expect_updated(world, NEW, pods=20)
    assert witness.order_of(lambda one: one.replica, size=10) == ["1", "0"]
    assert witness.turns == [1, 0]
    assert witness.claims == []
    assert len(witness.left()) == 20
    assert not pods_of(world).keys() & before.keys()
    assert witness.fewest["workload1-0-pc-a"] == witness.fewest["workload1-1-pc-a"] == 1


# --- no capacity -----------------------------------------------------------------------------------------------------


async def without_room_exactly_one_pod_is_given_up_until_there_is_room(world: World) -> None:
    witness = Witness(world)
    await cordon_all(world)
    await change_image(world, NEW, "pc-a")
    await world.clock.sleep(900)
    await world.settle()
    assert [one.clique for one in witness.left()] == ["workload1-0-pc-a"]
    assert images_of(world, "workload1-0-pc-a") == [OLD, NEW]
    assert [pod.metadata.labels[labels.PODCLIQUE] for pod in world.pods() if not pod.spec.node_name] == [
        "workload1-0-pc-a"
    ]
    assert is_updating(world)
    reason, message = stalled(world) or ("", "")
    assert reason == "NoCapacity"
    assert "workload1-0-pc-a-" in message
    await uncordon_all(world)
    await world.settle()
    assert len(witness.left()) == 2
    assert images_of(world, "workload1-0-pc-a") == [NEW, NEW]
    assert unrestored(world) == []
    assert_done(world)


# --- scaling during an update ----------------------------------------------------------------------------------------


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """A unit is scaled before, during or after an update, without waiting in between."""

    resource: Resource[Any]
    name: str
    manifest: JsonObject
    to: int
    when: str
    pods: int

    @property
    def title(self) -> str:
        return f"{self.resource.kind} to {self.to} {self.when} an update"

    async def begin(self, world: World) -> None:
        await start(world, self.manifest)

    async def tell(self, world: World) -> None:
        witness = Witness(world)
        if self.when == "before":
            await world.scale(self.resource, self.name, self.to)
        await change_image(world, NEW)
        if self.when == "during":
            await world.wait_until(lambda: NEW in all_images(world))
            await world.scale(self.resource, self.name, self.to)
        if self.when == "after":
            await world.wait_until(lambda: is_updated(world))
            await world.scale(self.resource, self.name, self.to)
        await expect_updated(world, NEW, pods=self.pods)
        assert witness.claims == []


def _scalings() -> Iterable[Scaling]:
    for when in ("before", "during", "after"):
        for before, to in ((2, 3), (3, 2)):
            yield Scaling(
                resource=GROUPS, name="s-0-g", manifest=small(pods=1, group=before), to=to, when=when, pods=1 + to
            )
        for before, to in ((2, 4), (3, 2)):
            yield Scaling(
                resource=PODCLIQUES, name="s-0-a", manifest=small(pods=before), to=to, when=when, pods=to
            )  # fmt: skip
        for before, to in ((2, 1), (2, 3)):
            yield Scaling(
                resource=PODCLIQUESETS, name="s", manifest=small(replicas=before), to=to, when=when, pods=2 * to
            )  # fmt: skip


async def a_set_scaled_to_one_while_its_second_replica_is_updated(world: World) -> None:
    await world.apply(updatable(WORKLOAD1, replicas=2))
    await expect_running(world, 20)
    witness = Witness(world)
    await change_image(world, NEW)
    await world.wait_until(lambda: turn(world) == 1 and NEW in images_of(world, "workload1-1-pc-a"))
    await world.scale(PODCLIQUESETS, "workload1", 1)
    await expect_updated(world, NEW, pods=10)
    assert witness.claims == []
    assert witness.fewest["workload1-0-pc-a"] == 1


async def a_set_scaled_to_three_right_after_the_change(world: World) -> None:
    await world.apply(updatable(WORKLOAD1, replicas=2))
    await expect_running(world, 20)
    witness = Witness(world)
    await change_image(world, NEW)
    await world.scale(PODCLIQUESETS, "workload1", 3)
    await expect_updated(world, NEW, pods=30)
    # What is born with the newest template is not replaced again.
    assert {one.replica for one in witness.left()} == {"0", "1"}
    assert len(witness.left()) == 20
    assert witness.claims == []


# --- further changes -------------------------------------------------------------------------------------------------


async def a_second_change_in_the_middle_goes_on_towards_the_newest(world: World) -> None:
    witness = Witness(world)
    await change_image(world, NEW)
    await world.wait_until(lambda: NEW in images_of(world, "s-0-a"))
    await change_image(world, NEWER)
    await expect_updated(world, NEWER, pods=5)
    assert witness.claims == []
    assert witness.fewest["s-0-a"] == 2


async def a_third_change_while_the_second_replica_is_updated(world: World) -> None:
    await world.apply(small(replicas=2, pods=2, minimum=2))
    await world.settle()
    witness = Witness(world)
    await change_image(world, NEW)
    await world.wait_until(lambda: turn(world) == 0)
    await change_image(world, NEWER)
    await world.wait_until(lambda: turn(world) == 1 or NEWER in images_of(world, "s-0-a"))
    await change_image(world, "third")
    await expect_updated(world, "third", pods=4)
    assert witness.claims == []
    assert min(witness.fewest["s-0-a"], witness.fewest["s-1-a"]) == 1


async def a_second_change_of_the_other_clique_only(world: World) -> None:
    await world.apply(small(pods=3, minimum=2, group=2))
    await world.settle()
    witness = Witness(world)
    await change_image(world, NEW, "a")
    await world.wait_until(lambda: NEW in images_of(world, "s-0-a"))
    await change_image(world, NEW, "b")
    await expect_updated(world, NEW, pods=5)
    # What was new already is not replaced because of something else.
    assert len(witness.left("s-0-a")) == 3
    assert len(witness.left()) == 5


async def a_change_back_keeps_the_pods_that_still_run_the_old_template(world: World) -> None:
    await world.apply(small(replicas=2, pods=4, minimum=2))
    await world.settle()
    before, witness = pods_of(world), Witness(world)
    await change_image(world, NEW)
    await world.wait_until(lambda: len(witness.left()) == 2)
    kept = pods_of(world).keys() & before.keys()
    await change_image(world, OLD)
    await expect_updated(world, OLD, pods=8)
    assert pods_of(world).keys() & before.keys() == kept
    assert len(kept) == 6
    # The old revision is the newest again: it got a higher number, not a twin.
    assert [revision.number for revision in revisions(world)] == [2, 3]


async def a_change_and_back_at_once_touches_nothing(world: World) -> None:
    await world.apply(small(pods=3, group=2))
    await world.settle()
    before = pods_of(world)
    await world.crash_controller()
    await change_image(world, NEW)
    await change_image(world, OLD)
    await world.restart_controller()
    await world.settle()
    assert pods_of(world) == before
    assert len(revisions(world)) == 1
    assert unrestored(world) == []


# --- minima ----------------------------------------------------------------------------------------------------------


async def a_single_pod_that_is_the_minimum_is_deleted_first_and_awaited(world: World) -> None:
    await world.apply(small(replicas=2, pods=1, minimum=1, group=1))
    await world.settle()
    witness = Witness(world)
    await change_image(world, NEW)
    await expect_updated(world, NEW, pods=4)
    assert len(witness.left()) == 4
    assert witness.turns == [1, 0]
    assert witness.order_of(lambda one: one.replica, size=2) == ["1", "0"]


async def a_pod_that_restarted_once_is_ready_and_waits_for_its_turn(world: World) -> None:
    await world.apply(small(pods=3, minimum=2))
    await world.settle()
    ends = {"metadata": {"annotations": {labels.SIM_EXIT_AFTER: "1s", labels.SIM_EXIT_CODE: "1"}}}
    for pod in world.pods():
        await world.client.patch(PODS, "default", pod.metadata.name, ends)
        await world.wait_until(lambda name=pod.metadata.name: _restarts(world, name) == 1)  # type: ignore[misc]
        stays = {"metadata": {"annotations": {labels.SIM_EXIT_AFTER: None, labels.SIM_EXIT_CODE: None}}}
        await world.client.patch(PODS, "default", pod.metadata.name, stays)
    await world.settle()
    assert [_restarts(world, pod.metadata.name) for pod in world.pods()] == [1, 1, 1]
    witness = Witness(world)
    await change_image(world, NEW)
    await expect_updated(world, NEW, pods=3)
    assert witness.fewest["s-0-a"] == 2


def _restarts(world: World, name: str) -> int:
    pod = next(pod for pod in world.pods() if pod.metadata.name == name)
    return pod.status.container_statuses[0].restart_count


async def a_group_above_its_minimum_still_loses_one_replica_at_a_time(world: World) -> None:
    await start(world, small(pods=1, group=3, group_minimum=1))
    witness = Witness(world)
    await change_image(world, NEW, "b")
    await world.settle()
    assert witness.order_of(lambda one: one.group_replica, size=1) == ["0", "1", "2"]
    assert witness.left("s-0-a") == []
    assert unrestored(world) == []
    assert_done(world)


async def without_room_exactly_one_group_replica_is_given_up(world: World) -> None:
    await start(world, small(pods=1, group=3, group_minimum=1))
    witness = Witness(world)
    await cordon_all(world)
    await change_image(world, NEW, "b")
    await world.clock.sleep(900)
    assert [one.clique for one in witness.left()] == ["s-0-g-0-b"]
    assert (stalled(world) or ("", ""))[0] == "NoCapacity"
    await uncordon_all(world)
    await world.settle()
    assert len(witness.left()) == 3
    assert unrestored(world) == []
    assert_done(world)


async def the_last_replicas_of_a_group_are_kept_until_its_minimum_is_back(world: World) -> None:
    await start(world, small(pods=1, group=2, group_minimum=2))
    nodes = await lose_pods(world, "s-0-g-0-b")
    await world.settle()
    await change_image(world, NEW, "b")
    await world.clock.sleep(900)
    assert images_of(world, "s-0-g-0-b") == [NEW]
    assert images_of(world, "s-0-g-1-b") == [OLD]
    assert "1 of at least 2 replicas of s-0-g are available" in (stalled(world) or ("", ""))[1]
    for node in nodes:
        await world.nodes.uncordon(node)
    await world.settle()
    assert images_of(world, "s-0-g-1-b") == [NEW]
    assert unrestored(world) == []
    assert_done(world)


# --- pods that take their time to leave ------------------------------------------------------------------------------


async def an_update_is_not_over_before_the_last_old_pod_has_left(world: World) -> None:
    manifest = small(pods=2, minimum=1, after="1s")
    manifest["spec"]["template"]["cliques"][0]["annotations"][SIM_STOPS_AFTER] = "25s"
    await start(world, manifest)
    await change_image(world, NEW)
    await world.wait_until(lambda: images(world) == {"s-0-a": [NEW, NEW]})
    await world.clock.sleep(5)
    assert len(world.pods()) > 2
    assert not is_updated(world)
    await world.wait_until(lambda: is_updated(world))
    assert len(world.pods()) == 2
    await expect_updated(world, NEW, pods=2)


async def a_pod_that_hangs_on_a_dead_node_is_not_waited_for(world: World) -> None:
    await start(world, small(pods=3, minimum=1))
    lost = world.pods()[0]
    await world.nodes.fail(lost.spec.node_name)
    await world.clock.sleep(60)
    await change_image(world, NEW)
    await world.clock.sleep(120)
    left = [pod.metadata.uid for pod in world.pods() if pod.metadata.is_terminating]
    assert left == [lost.metadata.uid]
    assert images(world) == {"s-0-a": [NEW] * 3}
    assert is_updated(world)


# --- gang termination meanwhile --------------------------------------------------------------------------------------


async def a_slow_step_is_not_a_breach_of_what_is_updated(world: World) -> None:
    await world.apply(updatable(WORKLOAD1, delay="10s"))
    await expect_running(world, 10)
    witness = Witness(world)
    await change_annotations(world, {labels.SIM_READY_AFTER: "120s"})
    await world.clock.sleep(60)
    assert breach_of(world, "workload1-0-pc-a") == ("Unknown", "UpdateInProgress")
    (group,) = world.objects(GROUPS)
    breach = find_condition(group.status.conditions, "MinAvailableBreached")
    assert breach is not None
    assert (breach.status, breach.reason) == ("Unknown", "UpdateInProgress")
    await expect_running(world, 10)
    assert len(witness.left()) == 10
    assert witness.fewest["workload1-0-pc-a"] == 1
    assert unrestored(world) == []
    assert_done(world)


async def another_replica_is_guarded_and_comes_back_as_it_was(world: World) -> None:
    await world.apply(updatable(WORKLOAD1, replicas=2, delay="10s"))
    await expect_running(world, 20)
    before, witness = pods_of(world), Witness(world)

    def edit(spec: JsonObject) -> None:
        for clique in spec["template"]["cliques"]:
            clique["annotations"] = {labels.SIM_READY_AFTER: "300s"}
            clique["spec"]["podSpec"]["containers"][0]["image"] = NEW

    await change(world, edit)
    await world.clock.sleep(5)
    # There is no spare node, so its pods find no room for longer than the delay.
    await lose_pods(world, "workload1-0-pc-a", 2)
    await world.clock.sleep(60)
    assert turn(world) == 1
    first = {uid for uid, clique in before.items() if clique.startswith("workload1-0-")}
    assert len(first) == 10
    assert not pods_of(world).keys() & first
    mine = [image for clique, found in images(world).items() if clique.startswith("workload1-0-") for image in found]
    assert mine == [OLD] * 10
    await uncordon_all(world)
    await expect_updated(world, NEW, pods=20, quiet_seconds=330)
    assert witness.turns == [1, 0]


async def an_unchanged_unit_of_the_replica_in_turn_is_guarded(world: World) -> None:
    await world.apply(updatable(WORKLOAD1, delay="10s"))
    await expect_running(world, 10)
    before = pods_of(world)

    def edit(spec: JsonObject) -> None:
        clique = spec["template"]["cliques"][0]
        clique["annotations"] = {labels.SIM_READY_AFTER: "300s"}
        clique["spec"]["podSpec"]["containers"][0]["image"] = NEW

    await change(world, edit)
    await world.wait_until(lambda: NEW in all_images(world))
    await lose_pods(world, "workload1-0-sg-x-0-pc-b")
    await world.clock.sleep(60)
    # The group was broken for longer than the delay: all went, and what comes back in its turn is the newest.
    assert not pods_of(world).keys() & before.keys()
    assert images_of(world, "workload1-0-pc-a") == [NEW, NEW]
    await uncordon_all(world)
    await world.settle(quiet_seconds=330)
    assert images_of(world, "workload1-0-sg-x-0-pc-b") == [OLD]
    assert unrestored(world) == []
    assert_done(world)


# --- nobody waits for the hopeless -----------------------------------------------------------------------------------


async def a_pod_without_room_is_replaced_and_not_waited_for(world: World) -> None:
    await world.apply(small(pods=3, minimum=1))
    await world.settle()
    assert len(world.running_pods()) == 2
    witness = Witness(world)
    await change_image(world, NEW)
    await world.settle()
    assert images(world) == {"s-0-a": [NEW] * 3}
    assert len(world.running_pods()) == 2
    assert is_updated(world)
    assert stalled(world) is None
    assert witness.fewest["s-0-a"] == 1
    assert len(witness.left()) == 3


async def an_unscheduled_replica_is_updated_first_and_not_waited_for(world: World) -> None:
    await world.apply(small(replicas=3, pods=2, minimum=2))
    await world.settle()
    await lose_pods(world, "s-0-a", 2)
    await world.settle()
    assert len(world.running_pods()) == 4
    witness = Witness(world)
    await change_image(world, NEW)
    await world.settle()
    assert witness.turns == [0, 2, 1]
    assert all_images(world) == {NEW}
    assert len(world.running_pods()) == 4
    assert is_updated(world)
    assert witness.fewest["s-1-a"] == witness.fewest["s-2-a"] == 1
    await uncordon_all(world)
    await expect_updated(world, NEW, pods=6)


async def a_breached_replica_comes_before_a_healthy_one_and_keeps_its_last_pods(world: World) -> None:
    await world.apply(small(replicas=3, pods=2, minimum=2))
    await world.settle()
    await lose_pods(world, "s-1-a", 2)
    await lose_pods(world, "s-0-a", 1)
    await world.settle()
    witness = Witness(world)
    await change_image(world, NEW)
    await world.clock.sleep(300)
    assert witness.turns == [1, 0]
    assert images_of(world, "s-0-a") == [OLD, NEW]
    assert images_of(world, "s-2-a") == [OLD, OLD]
    assert (stalled(world) or ("", ""))[0] == "MinimumNotMet"
    await uncordon_all(world)
    await expect_updated(world, NEW, pods=6)
    assert witness.turns == [1, 0, 2]


# --- templates that do not work --------------------------------------------------------------------------------------


async def break_the_update(world: World) -> Witness:
    """A template that cannot start: one pod of one replica is given up, and that is all, and the set says why."""
    await world.apply(small(replicas=3, pods=2, minimum=1))
    await world.settle()
    witness = Witness(world)
    await change_annotations(world, BROKEN)
    await world.clock.sleep(20)
    reason, message = stalled(world) or ("", "")
    assert reason == "PodsNotStarting"
    assert "s-2-a-" in message
    await world.clock.sleep(900)
    assert [one.clique for one in witness.left()] == ["s-2-a"]
    assert len(world.running_pods()) == 5
    assert is_updating(world)
    return witness


async def a_broken_template_stops_at_the_first_replica_and_a_fixed_one_goes_through(world: World) -> None:
    witness = await break_the_update(world)

    def edit(spec: JsonObject) -> None:
        for clique in spec["template"]["cliques"]:
            clique["annotations"] = {labels.SIM_READY_AFTER: "5s"}
            clique["spec"]["podSpec"]["containers"][0]["image"] = NEW

    await change(world, edit)
    await expect_updated(world, NEW, pods=6)
    assert witness.turns == [2, 1, 0]
    assert witness.fewest == {"s-0-a": 1, "s-1-a": 1, "s-2-a": 1}


async def a_broken_template_is_undone(world: World) -> None:
    witness = await break_the_update(world)
    kept = pods_of(world).keys() & {pod.metadata.uid for pod in world.running_pods()}
    await undo(world)
    await expect_updated(world, OLD, pods=6)
    assert pods_of(world).keys() >= kept
    assert len(witness.left()) == 2
    assert stalled(world) is None


async def pods_that_never_become_ready_are_news_after_a_minute(world: World) -> None:
    await world.apply(small(pods=2, minimum=1))
    await world.settle()
    await change_annotations(world, {labels.SIM_READY_AFTER: "8760h"})
    await world.clock.sleep(50)
    assert stalled(world) is None
    await world.clock.sleep(30)
    reason, message = stalled(world) or ("", "")
    assert reason == "PodsNotReady"
    assert "s-0-a-" in message
    await change_annotations(world, {labels.SIM_READY_AFTER: "5s"})
    await expect_updated(world, OLD, pods=2)


async def refused_pods_are_news_at_once(world: World) -> None:
    await world.apply(small(pods=3, minimum=1))
    await world.settle()
    witness = Witness(world)
    await world.apply(quota(2))
    await change_image(world, NEW)
    await world.clock.sleep(20)
    reason, message = stalled(world) or ("", "")
    assert reason == "PodsRejected"
    assert "exceeded quota" in message
    assert len(witness.left()) == 1
    await world.apply(quota(3))
    await world.clock.sleep(400)
    await expect_updated(world, NEW, pods=3)


# --- strategies ------------------------------------------------------------------------------------------------------


async def on_delete_nothing_goes_and_what_is_made_anew_is_the_newest(world: World) -> None:
    manifest = small(pods=3, minimum=1, group=2)
    manifest["spec"]["updateStrategy"] = {"type": "OnDelete"}
    await world.apply(manifest)
    await world.settle()
    witness = Witness(world)
    await change_image(world, NEW)
    await world.clock.sleep(900)
    assert witness.left() == []
    pcs = the_set(world)
    progress = pcs.status.rolling_update_progress
    assert progress is not None
    assert progress.update_started_at == progress.update_ended_at is not None
    assert pcs.status.current_generation_hash == revisions(world)[-1].generation_hash
    assert pcs.status.updated_replicas == 0
    assert clique_of(world, "s-0-a").status.updated_replicas == 0
    # A lost pod, one more pod, one more group replica, one more set replica.
    await delete_pod(world, next(p for p in world.pods() if p.metadata.labels[labels.PODCLIQUE] == "s-0-a"))
    await world.settle()
    assert images_of(world, "s-0-a") == [OLD, OLD, NEW]
    assert clique_of(world, "s-0-a").status.updated_replicas == 1
    await world.scale(PODCLIQUES, "s-0-a", 4)
    await world.scale(GROUPS, "s-0-g", 3)
    await world.scale(PODCLIQUESETS, "s", 2)
    await world.settle()
    assert images_of(world, "s-0-a") == [OLD, OLD, NEW, NEW]
    assert [images_of(world, f"s-0-g-{j}-b") for j in range(3)] == [[OLD], [OLD], [NEW]]
    assert images_of(world, "s-1-a") == [NEW] * 3
    # Outdated pods go first.
    await world.scale(PODCLIQUES, "s-0-a", 2)
    await world.settle()
    assert images_of(world, "s-0-a") == [NEW, NEW]
    for pod in world.pods():
        if pod.metadata.labels[labels.PODCLIQUE] in ("s-0-g-0-b", "s-0-g-1-b"):
            await delete_pod(world, pod)
    await expect_updated(world, NEW, pods=10)


async def a_strategy_switched_to_on_delete_stops_and_back_goes_on(world: World) -> None:
    await world.apply(small(replicas=2, pods=3, minimum=1, group=2))
    await world.settle()
    witness = Witness(world)
    await change_image(world, NEW)
    await world.wait_until(lambda: len(witness.left("s-1-a")) == 2)
    await choose_strategy(world, "OnDelete")
    await world.clock.sleep(10)
    gone = len(witness.left())
    await world.clock.sleep(900)
    assert len(witness.left()) == gone < 10
    assert turn(world) is None
    assert not is_updating(world)
    assert unrestored(world) == []
    await choose_strategy(world, "RollingRecreate")
    await expect_updated(world, NEW, pods=10)
    # Nothing was replaced twice.
    assert len(witness.left()) == 10


async def a_strategy_switched_to_rolling_replaces_what_on_delete_left(world: World) -> None:
    manifest = small(replicas=2, pods=2, minimum=1, group=2)
    manifest["spec"]["updateStrategy"] = {"type": "OnDelete"}
    await world.apply(manifest)
    await world.settle()
    await change_image(world, NEW)
    await world.settle()
    await delete_pod(world, next(p for p in world.pods() if p.metadata.labels[labels.PODCLIQUE] == "s-1-a"))
    await world.settle()
    assert images_of(world, "s-1-a") == [OLD, NEW]
    witness = Witness(world)
    await choose_strategy(world, "RollingRecreate")
    await expect_updated(world, NEW, pods=8)
    assert len(witness.left()) == 7
    assert witness.turns == [1, 0]
    assert witness.claims == []


# --- what is no change -----------------------------------------------------------------------------------------------


async def another_order_of_keys_cliques_and_named_lists_is_no_change(world: World) -> None:
    manifest = small(pods=2, group=2)
    for clique in manifest["spec"]["template"]["cliques"]:
        container = clique["spec"]["podSpec"]["containers"][0]
        container["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
        container["ports"] = [{"name": "x", "containerPort": 1}, {"name": "y", "containerPort": 2}]
    await world.apply(manifest)
    await world.settle()
    before, hash_ = pods_of(world), the_set(world).status.current_generation_hash

    def edit(spec: JsonObject) -> None:
        spec["template"] = _reversed(spec["template"])
        spec["template"]["cliques"].reverse()
        for clique in spec["template"]["cliques"]:
            for key in ("env", "ports"):
                clique["spec"]["podSpec"]["containers"][0][key].reverse()

    await change(world, edit)
    await world.settle()
    assert pods_of(world) == before
    assert len(revisions(world)) == 1
    assert the_set(world).status.rolling_update_progress is None
    assert the_set(world).status.current_generation_hash == hash_
    assert unrestored(world) == []


def _reversed(value: Any) -> Any:
    """The same mapping, its keys in the other order."""
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


async def another_count_or_minimum_of_the_template_is_no_change(world: World) -> None:
    await world.apply(small(pods=2, group=2))
    await world.settle()
    before = pods_of(world)

    def edit(spec: JsonObject) -> None:
        spec["template"]["cliques"][0]["spec"]["replicas"] = 3
        spec["template"]["terminationDelay"] = "1h"

    await change(world, edit)
    await world.settle()
    assert pods_of(world) == before
    assert len(revisions(world)) == 1
    assert the_set(world).status.rolling_update_progress is None


UPDATE_STORIES = tuple(
    Story(tell.__name__, nodes, tell)
    for nodes, tell in (
        (20, a_set_scaled_to_one_while_its_second_replica_is_updated),
        (30, a_set_scaled_to_three_right_after_the_change),
        (12, a_third_change_while_the_second_replica_is_updated),
        (12, a_second_change_of_the_other_clique_only),
        (12, a_change_back_keeps_the_pods_that_still_run_the_old_template),
        (12, a_change_and_back_at_once_touches_nothing),
        (4, a_single_pod_that_is_the_minimum_is_deleted_first_and_awaited),
        (3, a_pod_that_restarted_once_is_ready_and_waits_for_its_turn),
        (4, a_group_above_its_minimum_still_loses_one_replica_at_a_time),
        (4, without_room_exactly_one_group_replica_is_given_up),
        (3, the_last_replicas_of_a_group_are_kept_until_its_minimum_is_back),
        (4, an_update_is_not_over_before_the_last_old_pod_has_left),
        (4, a_pod_that_hangs_on_a_dead_node_is_not_waited_for),
        (10, a_slow_step_is_not_a_breach_of_what_is_updated),
        (20, another_replica_is_guarded_and_comes_back_as_it_was),
        (10, an_unchanged_unit_of_the_replica_in_turn_is_guarded),
        (2, a_pod_without_room_is_replaced_and_not_waited_for),
        (6, an_unscheduled_replica_is_updated_first_and_not_waited_for),
        (6, a_breached_replica_comes_before_a_healthy_one_and_keeps_its_last_pods),
        (6, a_broken_template_stops_at_the_first_replica_and_a_fixed_one_goes_through),
        (6, a_broken_template_is_undone),
        (2, pods_that_never_become_ready_are_news_after_a_minute),
        (3, refused_pods_are_news_at_once),
        (14, on_delete_nothing_goes_and_what_is_made_anew_is_the_newest),
        (10, a_strategy_switched_to_on_delete_stops_and_back_goes_on),
        (8, a_strategy_switched_to_rolling_replaces_what_on_delete_left),
        (4, another_order_of_keys_cliques_and_named_lists_is_no_change),
        (4, another_count_or_minimum_of_the_template_is_no_change),
    )
)

# "Workload1", "no capacity", "scaling during an update" and "a second change".
CRASHING = (
    *(
        Story(tell.__name__, nodes, tell, begin=partial(start, manifest=manifest))
        for nodes, manifest, tell in (
            (10, updatable(WORKLOAD1), a_changed_clique_loses_one_pod_at_a_time_and_nothing_else_is_touched),
            (10, updatable(WORKLOAD1), a_changed_member_takes_its_group_replica_along_one_after_the_other),
            (20, updatable(WORKLOAD1, replicas=2), replica_one_is_through_before_replica_zero_begins),
            (10, updatable(WORKLOAD1), without_room_exactly_one_pod_is_given_up_until_there_is_room),
            (5, small(pods=3, minimum=2, group=2), a_second_change_in_the_middle_goes_on_towards_the_newest),
        )
    ),
    # Which of two wishes of one moment is seen first decides what is made old and replaced, or made new at once.
    *(
        Story(scaling.title, 6, scaling.tell, has_one_end=scaling.when != "before", begin=scaling.begin)
        for scaling in _scalings()
    ),
)
