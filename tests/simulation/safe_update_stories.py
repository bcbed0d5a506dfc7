"""Stories of updates that must not take more than one available set replica, and of those that must end all the same.

One pod per node. Told in calm by `test_updates.py`; those of `SAFE_UPDATES` also with a crash at every write by
`test_crash_everywhere.py`.
"""

from functools import partial

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODS
from grove.api.types.meta import JsonObject, find_condition
from grove.cluster.storage.store import Change
from grove.sim.simulation import World
from tests.simulation.restored import unrestored
from tests.simulation.stories import Story, quota
from tests.simulation.termination_stories import breach_of, give_back, lose_pods, pods_of
from tests.simulation.updating import (
    NEW,
    OLD,
    Witness,
    all_images,
    assert_done,
    change,
    change_image,
    cordon_all,
    delete_pod,
    expect_updated,
    images_of,
    is_updated,
    is_updating,
    small,
    stalled,
    start,
    the_set,
    turn,
    uncordon_all,
    undo,
)

HOST = "kubernetes.io/hostname"


class Serving:
    """The fewest set replicas with all minima ready at any moment, and how many are so now."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.now = self.fewest = self._count()
        world.server.store.subscribe(self._observe)

    def _observe(self, change_: Change) -> None:
        if change_.resource_info.plural in ("pods", "podcliques"):
            self.now = self._count()
            self.fewest = min(self.fewest, self.now)

    def _count(self) -> int:
        ready: dict[str, int] = {}
        for pod in self._world.pods():
            name = pod.metadata.labels[labels.PODCLIQUE]
            ready[name] = ready.get(name, 0) + pod.is_ready
        broken: dict[str, bool] = {}
        for clique in self._world.objects(PODCLIQUES):
            index = clique.metadata.labels[labels.SET_REPLICA_INDEX]
            is_short = ready.get(clique.metadata.name, 0) < clique.min_available
            broken[index] = broken.get(index, False) or is_short
        return sum(not is_broken for is_broken in broken.values())


def two_cliques(*, replicas: int = 2, delay: str | None = None) -> JsonObject:
    """Standalone cliques `a` and `b` of one pod each."""
    manifest = small(replicas=replicas, pods=1, group=1)
    del manifest["spec"]["template"]["podCliqueScalingGroups"]
    if delay is not None:
        manifest["spec"]["template"]["terminationDelay"] = delay
    return manifest


async def break_pods(world: World, clique: str) -> str:
    """The only pod of a clique ends again and again from now on; its name."""
    (pod,) = (pod for pod in world.pods() if pod.metadata.labels[labels.PODCLIQUE] == clique)
    ends = {"metadata": {"annotations": {labels.SIM_EXIT_AFTER: "1s", labels.SIM_EXIT_CODE: "1"}}}
    await world.client.patch(PODS, "default", pod.metadata.name, ends)
    await world.wait_until(lambda: breach_of(world, clique)[0] == "True")
    return pod.metadata.name


# --- never more than one available replica ----------------------------------------------------------------------------


async def replicas_that_load_are_updated_first_and_awaited(world: World) -> None:
    await world.scale(PODCLIQUESETS, "s", 3)
    await world.clock.sleep(60)
    serving, witness = Serving(world), Witness(world)
    await change_image(world, NEW)
    await world.wait_until(lambda: turn(world) == 0)
    assert witness.turns == [2, 1, 0]
    assert (serving.fewest, serving.now) == (1, 3)
    await expect_updated(world, NEW, pods=3, quiet_seconds=330)
    # Two are left while the last one loads.
    assert serving.fewest == 1
    assert witness.claims == []


async def a_partly_scheduled_replica_in_breach_is_updated_first_and_left_after_a_minute_without_room(
    world: World,
) -> None:
    await lose_pods(world, "s-1-b")
    await world.settle()
    assert breach_of(world, "s-1-b")[0] == "True"
    before, witness = pods_of(world), Witness(world)
    first = {uid for uid, clique in before.items() if clique.startswith("s-0-")}
    await change_image(world, NEW)
    await world.wait_until(lambda: len(witness.left()) >= 2)
    await world.clock.sleep(50)
    assert turn(world) == 1
    assert pods_of(world).keys() >= first
    await world.wait_until(lambda: turn(world) != 1)
    assert images_of(world, "s-1-a") == images_of(world, "s-1-b") == [NEW]
    await uncordon_all(world)
    await expect_updated(world, NEW, pods=4)
    assert witness.turns == [1, 0]


async def a_replica_under_a_quota_is_left_after_a_minute_of_rejections(world: World) -> None:
    await world.apply(quota(2))
    for pod in world.pods():
        if pod.metadata.labels[labels.SET_REPLICA_INDEX] == "1":
            await delete_pod(world, pod)
    await world.clock.sleep(5)
    serving, witness = Serving(world), Witness(world)
    assert serving.now == 1
    await change_image(world, NEW)
    await world.clock.sleep(40)
    assert turn(world) == 1
    assert witness.left("s-0-a") == []
    await world.wait_until(lambda: turn(world) == 0)
    await world.apply(quota(4))
    await expect_updated(world, NEW, pods=4, quiet_seconds=400)


async def pods_that_find_room_within_a_minute_are_awaited(world: World) -> None:
    nodes = await lose_pods(world, "s-1-a", 2)
    await world.settle()
    serving, witness = Serving(world), Witness(world)
    await change_image(world, NEW)
    await world.wait_until(lambda: images_of(world, "s-1-a") == [NEW, NEW])
    await world.clock.sleep(1)
    assert turn(world) == 1
    await give_back(world, nodes)
    await world.wait_until(lambda: turn(world) == 0)
    assert serving.now == 2
    await expect_updated(world, NEW, pods=4)
    assert serving.fewest == 1
    assert witness.turns == [1, 0]


async def a_replica_that_is_torn_down_in_its_turn_and_finds_no_room_is_awaited(world: World) -> None:
    before, serving = pods_of(world), Serving(world)
    first = {uid for uid, clique in before.items() if clique.startswith("s-0-")}

    def edit(spec: JsonObject) -> None:
        clique = spec["template"]["cliques"][0]
        clique["annotations"] = {labels.SIM_READY_AFTER: "60s"}
        clique["spec"]["podSpec"]["containers"][0]["image"] = NEW

    await change(world, edit)
    await world.wait_until(lambda: NEW in images_of(world, "s-1-a"))
    # Not changed by the update, so it is guarded: for longer than the delay it has no room, and all of it goes.
    nodes = await lose_pods(world, "s-1-b")
    await cordon_all(world)
    await world.clock.sleep(600)
    assert turn(world) == 1
    assert pods_of(world).keys() & before.keys() == first
    assert (stalled(world) or ("", ""))[0] == "NoCapacity"
    assert serving.fewest == 1
    await give_back(world, nodes)
    await uncordon_all(world)
    await world.settle(quiet_seconds=120)
    assert serving.fewest == 1
    assert images_of(world, "s-0-a") == images_of(world, "s-1-a") == [NEW]
    assert images_of(world, "s-0-b") == images_of(world, "s-1-b") == [OLD]
    assert unrestored(world) == []
    assert_done(world)


async def an_undo_while_the_turn_hangs_needs_no_second_turn(world: World) -> None:
    serving, witness = Serving(world), Witness(world)
    await cordon_all(world)
    await change_image(world, NEW)
    await world.clock.sleep(600)
    assert turn(world) == 1
    reason, message = stalled(world) or ("", "")
    assert reason == "NoCapacity"
    assert message.endswith("add capacity, or undo the change")
    await undo(world)
    await world.clock.sleep(600)
    assert turn(world) == 1
    assert images_of(world, "s-1-a") == [OLD]
    assert serving.now == 1
    await uncordon_all(world)
    await expect_updated(world, OLD, pods=2)
    assert [one.clique for one in witness.left()] == ["s-1-a", "s-1-a"]
    assert witness.turns == [1]


# --- it ends all the same ---------------------------------------------------------------------------------------------


async def a_partial_update_goes_on_beside_a_clique_that_was_broken_before(world: World) -> None:
    broken = await break_pods(world, "s-1-a")
    witness = Witness(world)
    await change_image(world, NEW, "b")
    await world.wait_until(lambda: is_updated(world))
    assert witness.turns == [1, 0]
    assert witness.left("s-0-a", "s-1-a") == []
    assert images_of(world, "s-0-b") == images_of(world, "s-1-b") == [NEW]
    assert breach_of(world, "s-1-a")[0] == "True"
    stays = {"metadata": {"annotations": {labels.SIM_EXIT_AFTER: None, labels.SIM_EXIT_CODE: None}}}
    await world.client.patch(PODS, "default", broken, stays)
    await world.settle(quiet_seconds=400)


async def members_of_scaled_group_replicas_without_room_are_not_awaited(world: World) -> None:
    await world.scale(GROUPS, "s-0-g", 3)
    await world.scale(GROUPS, "s-1-g", 3)
    await world.settle()
    assert len(world.running_pods()) == 4
    serving, witness = Serving(world), Witness(world)
    await change_image(world, NEW)
    await world.settle()
    assert is_updated(world)
    assert all_images(world) == {NEW}
    assert witness.turns == [1, 0]
    assert serving.fewest == 0  # Cliques of scaled replicas count there, and have no room.
    await world.scale(GROUPS, "s-0-g", 1)
    await world.scale(GROUPS, "s-1-g", 1)
    await expect_updated(world, NEW, pods=4)


async def members_of_scaled_group_replicas_without_room_do_not_stop_an_update_for_good(world: World) -> None:
    """As above; while the operator is down, they may take the room of a pod that the update has just deleted."""
    await world.scale(GROUPS, "s-0-g", 3)
    await world.scale(GROUPS, "s-1-g", 3)
    await world.settle()
    await change_image(world, NEW)
    await world.wait_until(lambda: is_updated(world) or stalled(world) is not None)
    await world.scale(GROUPS, "s-0-g", 1)
    await world.scale(GROUPS, "s-1-g", 1)
    await expect_updated(world, NEW, pods=4)


async def a_broken_replica_above_the_minimum_of_its_group_does_not_put_its_set_replica_first(world: World) -> None:
    await break_pods(world, "s-0-g-1-b")
    witness = Witness(world)
    await change_image(world, NEW)
    await expect_updated(world, NEW, pods=9)
    assert witness.turns == [2, 1, 0]


async def only_what_has_its_minimum_ready_is_listed_as_updated(world: World) -> None:
    await lose_pods(world, "s-0-a", 1)
    await world.settle()
    await change_image(world, NEW)
    await world.wait_until(lambda: images_of(world, "s-0-a") == [NEW])
    progress = the_set(world).status.rolling_update_progress
    assert progress is not None
    assert progress.updated_pod_cliques == ()
    await world.clock.sleep(30)
    progress, counts = the_set(world).status.rolling_update_progress, the_set(world).status.update_progress
    assert progress is not None
    assert counts is not None
    assert is_updating(world)
    assert progress.updated_pod_cliques == ()
    assert counts.updated_pod_cliques_count == 0
    await uncordon_all(world)
    await expect_updated(world, NEW, pods=3)


# --- clocks and gates -------------------------------------------------------------------------------------------------


async def scaling_a_breached_group_out_does_not_move_its_clock(world: World) -> None:
    before = pods_of(world)
    await lose_pods(world, "s-0-g-0-b")
    await world.clock.sleep(10)
    since = _breached_since(world)
    assert since is not None
    await world.scale(GROUPS, "s-0-g", 3)
    await world.clock.sleep(30)
    assert _breached_since(world) == since
    await world.clock.sleep(15)
    assert len(pods_of(world).keys() & before.keys()) == 1
    await world.clock.sleep(10)
    assert not pods_of(world).keys() & before.keys()
    await uncordon_all(world)
    await world.settle()


def _breached_since(world: World) -> object:
    (group,) = world.objects(GROUPS)
    breach = find_condition(group.status.conditions, "MinAvailableBreached")
    return breach.last_transition_time if breach is not None and breach.status == "True" else None


async def a_serving_scaled_replica_heals_while_the_base_gang_is_broken(world: World) -> None:
    nodes = await lose_pods(world, "s-0-a")
    await world.settle()
    (serving,) = (pod for pod in world.running_pods() if pod.metadata.labels[labels.PODCLIQUE] == "s-0-g-1-b")
    await delete_pod(world, serving)
    await world.settle()
    back = [pod for pod in world.running_pods() if pod.metadata.labels[labels.PODCLIQUE] == "s-0-g-1-b"]
    assert len(back) == 1
    assert back[0].metadata.uid != serving.metadata.uid
    assert pods_of(world, "s-0-a")
    assert not [pod for pod in world.running_pods() if pod.metadata.labels[labels.PODCLIQUE] == "s-0-a"]
    await give_back(world, nodes)
    await world.settle()
    assert unrestored(world) == []


async def a_ready_scaled_replica_is_not_taken_while_the_base_gang_is_not_scheduled(world: World) -> None:
    (younger,) = (pod for pod in world.pods() if pod.metadata.labels[labels.PODCLIQUE] == "s-0-g-0-b")
    await delete_pod(world, younger)
    await world.settle()
    nodes = await lose_pods(world, "s-0-a")
    await world.settle()
    witness = Witness(world)
    await change_image(world, NEW, "b")
    await world.clock.sleep(300)
    # The scaled replica is the oldest, and would not come back: its pods would wait for the base gang.
    assert [one.clique for one in witness.left()] == ["s-0-g-0-b"]
    assert images_of(world, "s-0-g-1-b") == [OLD]
    assert witness.fewest["s-0-g-1-b"] == 1
    assert stalled(world) is not None
    await give_back(world, nodes)
    await world.settle()
    assert images_of(world, "s-0-g-1-b") == [NEW]
    assert unrestored(world) == []
    assert_done(world)


async def start_slowly(world: World) -> None:
    await world.apply(small(pods=1, after="300s"))
    await world.settle(quiet_seconds=330)
    assert unrestored(world) == []


def rooted(manifest: JsonObject) -> JsonObject:
    """Pods of clique `a` run on one node only, so that nothing else can make up for it."""
    manifest["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["nodeSelector"] = {HOST: "node-0"}
    return manifest


def guarded(manifest: JsonObject, delay: str) -> JsonObject:
    manifest["spec"]["template"]["terminationDelay"] = delay
    return manifest


SAFE_UPDATES = tuple(
    Story(
        tell.__name__,
        nodes,
        tell,
        has_one_end=has_one_end,
        begin=start_slowly if manifest is None else partial(start, manifest=manifest),
    )
    for nodes, manifest, tell, has_one_end in (
        (3, None, replicas_that_load_are_updated_first_and_awaited, True),
        (
            4,
            two_cliques(),
            a_partly_scheduled_replica_in_breach_is_updated_first_and_left_after_a_minute_without_room,
            False,
        ),
        (4, small(replicas=2, minimum=2), a_replica_under_a_quota_is_left_after_a_minute_of_rejections, False),
        (4, small(replicas=2, minimum=2), pods_that_find_room_within_a_minute_are_awaited, True),
        (
            4,
            two_cliques(delay="10s"),
            a_replica_that_is_torn_down_in_its_turn_and_finds_no_room_is_awaited,
            True,
        ),
        (2, small(replicas=2, pods=1), an_undo_while_the_turn_hangs_needs_no_second_turn, True),
        (4, two_cliques(), a_partial_update_goes_on_beside_a_clique_that_was_broken_before, False),
        (
            9,
            small(replicas=3, pods=1, group=2),
            a_broken_replica_above_the_minimum_of_its_group_does_not_put_its_set_replica_first,
            True,
        ),
        (
            4,
            small(replicas=2, pods=1, group=1),
            members_of_scaled_group_replicas_without_room_do_not_stop_an_update_for_good,
            False,
        ),
        (3, small(replicas=3, pods=1), only_what_has_its_minimum_ready_is_listed_as_updated, True),
        (2, guarded(small(pods=1, group=1), "60s"), scaling_a_breached_group_out_does_not_move_its_clock, True),
        (4, rooted(small(pods=1, group=2)), a_serving_scaled_replica_heals_while_the_base_gang_is_broken, True),
        (
            4,
            rooted(small(pods=1, group=2)),
            a_ready_scaled_replica_is_not_taken_while_the_base_gang_is_not_scheduled,
            True,
        ),
    )
)

# Not with crashes: while the operator is down, the pods that wait take the room of the one that was taken.
CALM_SAFE_UPDATES = (
    Story(
        members_of_scaled_group_replicas_without_room_are_not_awaited.__name__,
        4,
        members_of_scaled_group_replicas_without_room_are_not_awaited,
        begin=partial(start, manifest=small(replicas=2, pods=1, group=1)),
    ),
)
