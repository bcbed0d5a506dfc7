"""What becomes of a gang after it was placed, and that Kubernetes' own groups follow it at every rest."""

from pathlib import Path

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, PRIORITY_CLASSES
from grove.api.types.meta import JsonObject, Uid
from grove.kube.api_errors import ApiError
from grove.planner.teardown.recreation import read_record
from tests.e2e.native import NAMESPACES, NativeStage
from tests.e2e.native_mirrors import grouped_pods
from tests.e2e.native_stories import NativeStory, partial_gangs, rest, two_cliques
from tests.e2e.rollouts import at_version, has_ended, living, version_of
from tests.simulation.stories import WORKLOAD1, WORKLOAD2, running_by_role
from tests.simulation.termination_stories import with_delay


def group_names(stage: NativeStage) -> set[str]:
    return {pod.group for pod in grouped_pods(stage)}


def uids_of(stage: NativeStage) -> set[Uid]:
    return set(living(stage.pods()))


async def cliques_groups_and_replicas_scale(stage: NativeStage) -> None:
    await stage.apply(WORKLOAD2)
    await rest(stage, 10)
    # Of the clique, of its group, of the set: out, and in again.
    for resource, name, most, least, grown in (
        (PODCLIQUES, "workload2-0-pc-a", 5, 2, 13),
        (GROUPS, "workload2-0-sg-x", 4, 2, 18),
        (PODCLIQUESETS, "workload2", 2, 1, 20),
    ):
        before = uids_of(stage)
        await stage.scale(resource, name, most)
        await rest(stage, grown)
        assert before <= uids_of(stage)
        await stage.scale(resource, name, least)
        await rest(stage, 10)
        assert before == uids_of(stage)


async def a_clique_scaled_to_its_minimum_keeps_its_members(stage: NativeStage) -> None:
    await stage.apply(WORKLOAD2)
    await rest(stage, 10)
    await stage.scale(PODCLIQUES, "workload2-0-pc-a", 1)
    await rest(stage, 9)
    (left,) = (pod for pod in grouped_pods(stage) if pod.clique == "workload2-0-pc-a")
    assert left.index == 0


async def a_replica_that_is_torn_down_comes_back_whole_in_groups_of_new_names(stage: NativeStage) -> None:
    await stage.apply(with_delay(WORKLOAD1, "3s"))
    await rest(stage, 10)
    before, names = uids_of(stage), group_names(stage)
    victim = next(pod for pod in stage.running_pods() if pod.metadata.labels[labels.PODCLIQUE] == "workload1-0-pc-a")
    await stage.nodes.cordon(victim.spec.node_name)
    await stage.client.delete(PODS, stage.namespace, victim.metadata.name, uid=victim.metadata.uid)
    await stage.wait_until(lambda: not before & uids_of(stage))
    # Nine nodes for ten pods: what comes back waits as a whole.
    await stage.wait_until(lambda: len(stage.pods()) == 10)
    await rest(stage, 0)
    assert not names & group_names(stage)
    await stage.nodes.uncordon(victim.spec.node_name)
    await rest(stage, 10)
    assert sum(read_record(gang).count for gang in stage.objects(PODGANGS)) == 1


async def a_group_replica_that_is_torn_down_comes_back_whole_beside_its_gang(stage: NativeStage) -> None:
    first = ("workload2-0-sg-x-0-pc-b", "workload2-0-sg-x-0-pc-c")
    await stage.apply(with_delay(WORKLOAD2, "3s"))
    await rest(stage, 10)
    before = living(stage.pods(), *first)
    others = uids_of(stage) - set(before)
    lost = [pod for pod in before.values() if pod.metadata.labels[labels.PODCLIQUE] == first[1]]
    for pod in lost:
        await stage.nodes.cordon(pod.spec.node_name)
        await stage.client.delete(PODS, stage.namespace, pod.metadata.name, uid=pod.metadata.uid)
    await stage.wait_until(lambda: not set(before) & uids_of(stage))
    # One node is free, and it needs two.
    await stage.wait_until(lambda: len(living(stage.pods(), *first)) == 4)
    await stage.settle()
    assert uids_of(stage) >= others
    assert [pod for pod in living(stage.pods(), *first).values() if pod.spec.node_name] == []
    for pod in lost:
        await stage.nodes.uncordon(pod.spec.node_name)
    await rest(stage, 10)
    assert uids_of(stage) >= others


async def an_update_rolls_as_without_gangs(stage: NativeStage) -> None:
    await _update(stage, WORKLOAD1, "workload1")


async def an_update_of_a_set_with_extras_rolls_too(stage: NativeStage) -> None:
    await _update(stage, WORKLOAD2, "workload2")


async def _update(stage: NativeStage, workload: Path, name: str) -> None:
    await stage.apply(at_version(workload, 1))
    await rest(stage, 10)
    for version, cliques in ((2, ("pc-a",)), (3, ("pc-c",)), (4, ())):
        await stage.apply(at_version(workload, version, *cliques))
        await stage.wait_until(lambda: has_ended(stage, name))
        await rest(stage, 10)
    assert {version_of(pod) for pod in stage.running_pods()} == {4}


async def pods_that_are_lost_come_back_again_and_again(stage: NativeStage) -> None:
    """Every pod once, so that every index is replaced; groups stay as they are."""
    await stage.apply(WORKLOAD2)
    await rest(stage, 10)
    names = group_names(stage)
    for pod in stage.running_pods():
        await stage.client.delete(PODS, stage.namespace, pod.metadata.name, uid=pod.metadata.uid)
        await stage.wait_until(lambda uid=pod.metadata.uid: uid not in uids_of(stage))  # type: ignore[misc]
    await rest(stage, 10)
    assert group_names(stage) == names


async def an_operator_that_is_killed_again_and_again_leaves_the_groups_right(stage: NativeStage) -> None:
    (operator,) = stage.cluster.operators
    await stage.apply(WORKLOAD2)
    for count in (1, 4, 10):
        await stage.wait_until(lambda least=count: len(stage.pods()) >= least)  # type: ignore[misc]
        operator.kill()
        operator.start()
        operator.await_ready()
    await rest(stage, 10)


async def a_namespace_goes_with_all_that_is_in_it(stage: NativeStage) -> None:
    await stage.apply(WORKLOAD2)
    await rest(stage, 10)
    await stage.client.delete(NAMESPACES, "", stage.namespace)
    deadline = stage.cluster.clock.monotonic() + stage.patience
    while await _is_there(stage):
        assert stage.cluster.clock.monotonic() < deadline, "the namespace does not go"
        await stage.cluster.clock.sleep(0.2)


async def a_more_important_gang_takes_the_room_of_a_whole_one(stage: NativeStage) -> None:
    """All of it goes at once. What comes back pod by pod is no gang, so it is made anew, and waits as a whole."""
    for name, value in (("low", 1), ("high", 2)):
        await stage.client.create(
            PRIORITY_CLASSES, "", {"metadata": {"name": f"{stage.namespace}-{name}"}, "value": value}
        )
    await stage.apply(_important("low", two_cliques(first=2, second=3), stage))
    await rest(stage, 5)
    before = uids_of(stage)
    await stage.apply(_important("high", two_cliques(first=1, second=2), stage))
    await stage.wait_until(lambda: not before & uids_of(stage))
    await stage.wait_until(lambda: running_by_role(stage) == {"high-0-one": 1, "high-0-two": 2})
    await stage.wait_until(lambda: not partial_gangs(stage) and len(stage.pods()) == 8)
    await rest(stage, 3)


def _important(name: str, manifest: JsonObject, stage: NativeStage) -> JsonObject:
    manifest["metadata"]["name"] = name
    manifest["spec"]["template"] |= {"priorityClassName": f"{stage.namespace}-{name}", "terminationDelay": "3s"}
    return manifest


async def _is_there(stage: NativeStage) -> bool:
    try:
        await stage.client.get(NAMESPACES, "", stage.namespace)
    except ApiError as error:
        if not error.is_not_found:
            raise
        return False
    return True


LIFE_STORIES = (
    NativeStory(cliques_groups_and_replicas_scale, 20),
    NativeStory(a_clique_scaled_to_its_minimum_keeps_its_members, 10),
    NativeStory(a_replica_that_is_torn_down_comes_back_whole_in_groups_of_new_names, 10),
    NativeStory(a_group_replica_that_is_torn_down_comes_back_whole_beside_its_gang, 10),
    NativeStory(an_update_rolls_as_without_gangs, 10),
    NativeStory(an_update_of_a_set_with_extras_rolls_too, 10),
    NativeStory(pods_that_are_lost_come_back_again_and_again, 10),
    NativeStory(an_operator_that_is_killed_again_and_again_leaves_the_groups_right, 10),
    NativeStory(a_more_important_gang_takes_the_room_of_a_whole_one, 5),
    NativeStory(a_namespace_goes_with_all_that_is_in_it, 10),
)
