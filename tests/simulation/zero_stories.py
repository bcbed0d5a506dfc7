"""Stories of cliques and groups that are scaled to zero, and back. One pod per node, so a cordoned node is lost room.

Told in calm by `test_zero_stories.py`, and with a crash at every write by `test_crash_everywhere.py`.
"""

from grove.api import labels
from grove.api.resources import GROUPS, NODES, PODCLIQUES, PODCLIQUESETS, PODGANGS
from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podgang import PodGang
from grove.sim.simulation import World
from tests.scene import Scene, Seen
from tests.simulation.stories import Story, expect_running, find_set
from tests.simulation.termination_stories import breach_of, clique_of, give_back, lose_pods, pods_of

AT_ZERO = ("False", "ScaledToZero")
A, B = "job-0-a", "job-0-b"
GROUP, SCALED_GANG = "job-0-g", "job-0-g-0"
MEMBERS = (f"{GROUP}-0-m", f"{GROUP}-0-w", f"{GROUP}-1-m", f"{GROUP}-1-w")


def clique(name: str, replicas: int, minimum: int, image: str = "i") -> JsonObject:
    container = {"name": "main", "image": image, "resources": {"requests": {"memory": "80Mi"}}}
    spec = {"roleName": name, "replicas": replicas, "minAvailable": minimum, "podSpec": {"containers": [container]}}
    return {"name": name, "spec": spec}


def serving(*cliques: JsonObject, group: JsonObject | None = None, delay: str | None = "10s") -> JsonObject:
    template: JsonObject = {"cliques": list(cliques)}
    if group is not None:
        template["podCliqueScalingGroups"] = [group]
    if delay is not None:
        template["terminationDelay"] = delay
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "job"},
        "spec": {"replicas": 1, "template": template},
    }


def two_cliques(image: str = "i", delay: str | None = "10s", first: int = 2) -> JsonObject:
    return serving(clique("a", first, 2, image), clique("b", 2, 1, image), delay=delay)


def with_group(image: str = "i", replicas: int = 2) -> JsonObject:
    """One clique alone, and a group of which one replica is in the base gang and another one is a gang of its own."""
    group = {"name": "g", "cliqueNames": ["m", "w"], "replicas": replicas, "minAvailable": 1}
    return serving(clique("a", 1, 1, image), clique("m", 1, 1, image), clique("w", 2, 1, image), group=group)


def gang_of(world: Seen, name: str) -> PodGang:
    return next(gang for gang in world.objects(PODGANGS) if gang.metadata.name == name)


def podgroups_of(world: Seen, name: str) -> dict[str, int]:
    """The podgroups of a gang, and how many pods each names."""
    return {group.name: len(group.pod_references) for group in gang_of(world, name).spec.podgroups}


def group_of(world: Seen) -> PodCliqueScalingGroup:
    return next(group for group in world.objects(GROUPS) if group.metadata.name == GROUP)


def group_breach_of(world: Seen) -> tuple[str, str]:
    condition = find_condition(group_of(world).status.conditions, "MinAvailableBreached")
    assert condition is not None
    return condition.status, condition.reason


def names_of(world: Seen) -> list[str]:
    return sorted(clique.metadata.name for clique in world.objects(PODCLIQUES))


def expect_available(world: Seen, count: int = 1, phase: str = "Running") -> None:
    status = find_set(world, "job").status
    assert (status.available_replicas, status.phase, status.pod_gang_statuses) == (count, phase, ())


async def a_clique_goes_to_zero_and_comes_back(world: Scene) -> None:
    await world.apply(two_cliques())
    await expect_running(world, 4)
    kept = {pod.metadata.uid for pod in world.pods() if pod.metadata.labels[labels.PODCLIQUE] == B}
    await world.scale(PODCLIQUES, A, 0)
    await expect_running(world, 2)
    assert podgroups_of(world, "job-0") == {B: 2}
    expect_available(world)
    await world.scale(PODCLIQUES, A, 3)
    await expect_running(world, 5)
    assert podgroups_of(world, "job-0") == {A: 3, B: 2}
    expect_available(world)
    # The rest of the gang was not touched.
    assert kept <= {pod.metadata.uid for pod in world.pods()}


async def a_group_goes_to_zero_and_comes_back(world: Scene) -> None:
    await world.apply(with_group())
    await expect_running(world, 7)
    kept = {pod.metadata.uid for pod in world.pods() if pod.metadata.labels[labels.PODCLIQUE] == A}
    await world.scale(GROUPS, GROUP, 0)
    await expect_running(world, 1)
    assert names_of(world) == [A]
    assert podgroups_of(world, "job-0") == {A: 1}
    assert [gang.metadata.name for gang in world.objects(PODGANGS)] == ["job-0"]
    assert group_breach_of(world) == AT_ZERO
    expect_available(world)
    await world.scale(GROUPS, GROUP, 2)
    await expect_running(world, 7)
    assert names_of(world) == [A, *MEMBERS]
    assert podgroups_of(world, "job-0") == {A: 1, f"{GROUP}-0-m": 1, f"{GROUP}-0-w": 2}
    assert podgroups_of(world, SCALED_GANG) == {f"{GROUP}-1-m": 1, f"{GROUP}-1-w": 2}
    expect_available(world)
    assert kept <= {pod.metadata.uid for pod in world.pods()}


async def all_of_a_set_replica_goes_to_zero_and_comes_back(world: Scene) -> None:
    await world.apply(with_group())
    await expect_running(world, 7)
    await world.scale(PODCLIQUES, A, 0)
    await world.scale(GROUPS, GROUP, 0)
    await expect_running(world, 0)
    assert podgroups_of(world, "job-0") == {}
    expect_available(world, phase="Pending")
    await world.scale(GROUPS, GROUP, 1)
    await expect_running(world, 3)
    await world.scale(PODCLIQUES, A, 1)
    await expect_running(world, 4)
    expect_available(world)


async def a_template_with_no_pods_waits_to_be_scaled_up(world: Scene) -> None:
    await world.apply(two_cliques(first=0))
    await expect_running(world, 2)
    assert podgroups_of(world, "job-0") == {B: 2}
    expect_available(world)
    await world.scale(PODCLIQUES, A, 2)
    await expect_running(world, 4)
    assert podgroups_of(world, "job-0") == {A: 2, B: 2}


async def a_group_template_with_no_replicas_waits_to_be_scaled_up(world: Scene) -> None:
    await world.apply(with_group(replicas=0))
    await expect_running(world, 1)
    assert names_of(world) == [A]
    expect_available(world)
    await world.scale(GROUPS, GROUP, 1)
    await expect_running(world, 4)


async def scaled_up_again_its_minimum_is_placed_all_or_nothing(world: World) -> None:
    await world.apply(two_cliques())
    await expect_running(world, 4)
    others = pods_of(world, B)
    await world.scale(PODCLIQUES, A, 0)
    await world.settle()
    used = {pod.spec.node_name for pod in world.running_pods()}
    free = [node.metadata.name for node in world.objects(NODES) if node.metadata.name not in used]
    for node in free[:-1]:
        await world.nodes.cordon(node)
    # There is room for one of the two that it takes: none is placed. And nothing is in breach, however long it waits.
    await world.scale(PODCLIQUES, A, 2)
    await world.clock.sleep(60)
    await world.settle()
    assert pods_of(world, B) == others
    assert [pod.spec.node_name for pod in world.pods() if pod.metadata.labels[labels.PODCLIQUE] == A] == [""] * 2
    assert breach_of(world, A) == ("False", "NeverAvailable")
    assert clique_of(world, A).status.was_available
    await world.nodes.uncordon(free[0])
    await expect_running(world, 4)
    assert pods_of(world, B) == others
    assert breach_of(world, A) == ("False", "SufficientReadyPods")


async def a_clique_that_came_back_from_zero_is_watched_again(world: World) -> None:
    await world.apply(two_cliques())
    await expect_running(world, 4)
    await world.scale(PODCLIQUES, A, 0)
    await world.settle()
    await world.scale(PODCLIQUES, A, 2)
    await expect_running(world, 4)
    before = pods_of(world)
    for node in world.objects(NODES):
        await world.nodes.cordon(node.metadata.name)
    await lose_pods(world, A)
    await world.clock.sleep(5)
    assert breach_of(world, A) == ("True", "InsufficientReadyPods")
    await world.settle()
    assert not pods_of(world).keys() & before.keys()


async def a_scale_to_zero_ends_the_clock_of_a_breach(world: World) -> None:
    await world.apply(two_cliques())
    await expect_running(world, 4)
    others = pods_of(world, B)
    for node in world.objects(NODES):
        await world.nodes.cordon(node.metadata.name)
    await lose_pods(world, A)
    await world.clock.sleep(8)
    assert breach_of(world, A) == ("True", "InsufficientReadyPods")
    await world.scale(PODCLIQUES, A, 0)
    await world.clock.sleep(60)
    await world.settle()
    assert breach_of(world, A) == AT_ZERO
    assert pods_of(world) == others


async def a_group_at_zero_ends_the_clock_of_its_breach(world: World) -> None:
    await world.apply(with_group(replicas=1))
    await expect_running(world, 4)
    others = pods_of(world, A)
    for node in world.objects(NODES):
        await world.nodes.cordon(node.metadata.name)
    await lose_pods(world, f"{GROUP}-0-m")
    await world.clock.sleep(8)
    assert group_breach_of(world)[0] == "True"
    await world.scale(GROUPS, GROUP, 0)
    await world.clock.sleep(60)
    await world.settle()
    assert group_breach_of(world) == AT_ZERO
    assert pods_of(world) == others


async def zero_survives_a_gang_termination(world: World) -> None:
    group = {"name": "g", "cliqueNames": ["m"], "replicas": 1, "minAvailable": 1}
    await world.apply(serving(clique("a", 2, 2), clique("b", 1, 1), clique("m", 1, 1), group=group))
    await expect_running(world, 4)
    await world.scale(PODCLIQUES, B, 0)
    await world.scale(GROUPS, GROUP, 0)
    await expect_running(world, 2)
    before = pods_of(world)
    nodes = [node.metadata.name for node in world.objects(NODES)]
    for node in nodes:
        await world.nodes.cordon(node)
    await lose_pods(world, A)
    await world.clock.sleep(20)
    assert not pods_of(world).keys() & before.keys()
    await give_back(world, nodes)
    await expect_running(world, 2)
    assert names_of(world) == [A, B]
    assert clique_of(world, B).spec.replicas == 0
    assert podgroups_of(world, "job-0") == {A: 2}
    expect_available(world)


async def an_update_completes_with_a_clique_and_a_group_at_zero(world: World) -> None:
    await world.apply(with_group())
    await expect_running(world, 7)
    await world.scale(PODCLIQUES, A, 0)
    await world.scale(GROUPS, GROUP, 0)
    await expect_running(world, 0)
    await world.apply(with_group("j"))
    await world.settle()
    expect_updated(world)
    await world.scale(PODCLIQUES, A, 1)
    await world.scale(GROUPS, GROUP, 2)
    await expect_running(world, 7)
    assert {pod.metadata.labels[labels.TEMPLATE_HASH] for pod in world.pods()} <= hashes_of(world)


async def a_group_goes_to_zero_in_the_middle_of_its_update(world: World) -> None:
    await world.apply(with_group())
    await expect_running(world, 7)
    await world.apply(with_group("j"))
    await world.clock.sleep(0.5)
    await world.scale(GROUPS, GROUP, 0)
    await expect_running(world, 1)
    expect_updated(world)
    assert names_of(world) == [A]


def expect_updated(world: Seen) -> None:
    status = find_set(world, "job").status
    assert (status.updated_replicas, status.available_replicas) == (1, 1)
    progress = status.rolling_update_progress
    assert progress is not None
    assert progress.update_ended_at is not None


def hashes_of(world: Seen) -> set[str]:
    return {clique.metadata.labels[labels.TEMPLATE_HASH] for clique in world.objects(PODCLIQUES)}


async def a_group_that_is_wanted_again_at_once_is_made_of_one_life(world: World) -> None:
    await world.apply(with_group())
    await expect_running(world, 7)
    before = pods_of(world, *MEMBERS)
    await world.scale(GROUPS, GROUP, 0)
    # The operator has begun: a clique of the base gang is on its way out.
    await world.wait_until(lambda: len(pods_of(world, *MEMBERS)) < len(before))
    await world.scale(GROUPS, GROUP, 2)
    await expect_running(world, 7)
    assert names_of(world) == [A, *MEMBERS]
    assert not pods_of(world, *MEMBERS).keys() & before.keys()


async def a_set_without_replicas_and_back_forgets_a_zero(world: World) -> None:
    """A zero is the scale of that very clique: a new replica of the set is made as its template says."""
    await world.apply(two_cliques())
    await expect_running(world, 4)
    await world.scale(PODCLIQUES, A, 0)
    await expect_running(world, 2)
    await world.scale(PODCLIQUESETS, "job", 0)
    await expect_running(world, 0)
    await world.scale(PODCLIQUESETS, "job", 1)
    await expect_running(world, 4)


# Those that take a `Scene` are also told on clusters that are reached over HTTP.
SCENES = (
    (5, a_clique_goes_to_zero_and_comes_back),
    (7, a_group_goes_to_zero_and_comes_back),
    (7, all_of_a_set_replica_goes_to_zero_and_comes_back),
    (4, a_template_with_no_pods_waits_to_be_scaled_up),
    (4, a_group_template_with_no_replicas_waits_to_be_scaled_up),
)

# How far its update had come when the group went to zero is remembered in the gang and in the group.
_MANY_ENDS = (a_group_goes_to_zero_in_the_middle_of_its_update,)

ZERO_STORIES = tuple(
    Story(tell.__name__, nodes, tell, has_one_end=tell not in _MANY_ENDS)
    for nodes, tell in (
        *SCENES,
        (4, scaled_up_again_its_minimum_is_placed_all_or_nothing),
        (4, a_clique_that_came_back_from_zero_is_watched_again),
        (4, a_scale_to_zero_ends_the_clock_of_a_breach),
        (4, a_group_at_zero_ends_the_clock_of_its_breach),
        (4, zero_survives_a_gang_termination),
        (7, an_update_completes_with_a_clique_and_a_group_at_zero),
        (7, a_group_goes_to_zero_in_the_middle_of_its_update),
        (7, a_group_that_is_wanted_again_at_once_is_made_of_one_life),
        (4, a_set_without_replicas_and_back_forgets_a_zero),
    )
)
