"""Stories of sets with a start-up order. A pod is ready 10 s after its containers start. One pod per node.

Run without crashes by `test_startup_stories.py`, and with a crash at every write by `test_crash_everywhere.py`.
"""

from datetime import datetime

from grove.api import labels
from grove.api.resources import GROUPS, NODES, PODCLIQUES, PODCLIQUESETS, PODS, ROLE_BINDINGS, ROLES
from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.pod import Pod, first_started_at
from grove.sim.simulation import World
from tests.scene import Scene, Seen
from tests.simulation.refusal_stories import trouble
from tests.simulation.stories import Story
from tests.simulation.termination_stories import give_back, lose_pods

READY_AFTER = "10s"
NEVER = "8760h"


def clique(
    name: str,
    replicas: int = 1,
    minimum: int | None = None,
    *,
    after: tuple[str, ...] = (),
    ready_after: str = READY_AFTER,
    exit_after: str = "",
    image: str = "i",
) -> JsonObject:
    annotations = {labels.SIM_READY_AFTER: ready_after, **({labels.SIM_EXIT_AFTER: exit_after} if exit_after else {})}
    container = {"name": "main", "image": image, "resources": {"requests": {"memory": "80Mi"}}}
    spec: JsonObject = {
        "roleName": name,
        "replicas": replicas,
        "minAvailable": replicas if minimum is None else minimum,
        "podSpec": {"containers": [container]},
    }
    if after:
        spec["startsAfter"] = list(after)
    return {"name": name, "annotations": annotations, "spec": spec}


def ordered(
    *cliques: JsonObject, groups: tuple[JsonObject, ...] = (), delay: str = "", in_order: bool = False, **spec: object
) -> JsonObject:
    kind = "CliqueStartupTypeInOrder" if in_order else "CliqueStartupTypeExplicit"
    template: JsonObject = {"cliqueStartupType": kind, "cliques": list(cliques)}
    if groups:
        template["podCliqueScalingGroups"] = list(groups)
    if delay:
        template["terminationDelay"] = delay
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "job"},
        "spec": {"replicas": 1, **spec, "template": template},
    }


def group(name: str, *cliques: str, replicas: int, minimum: int) -> JsonObject:
    return {"name": name, "cliqueNames": list(cliques), "replicas": replicas, "minAvailable": minimum}


def starts_after(scene: Seen) -> dict[str, tuple[str, ...]]:
    """Return what each PodClique starts after, without those that start at once."""
    found = {one.metadata.name: one.spec.starts_after for one in scene.objects(PODCLIQUES)}
    return {name: after for name, after in sorted(found.items()) if after}


def pods_of(scene: Scene, clique_name: str) -> list[Pod]:
    return [pod for pod in scene.pods() if pod.metadata.labels[labels.PODCLIQUE] == clique_name]


def is_waiting(pod: Pod) -> bool:
    """Return whether the pod is on a node and its init container runs."""
    running = [one.name for one in pod.status.init_container_statuses if one.state.running]
    return pod.status.phase == "Pending" and bool(pod.spec.node_name) and running == ["grove-initc"]


def ready_since(pod: Pod) -> datetime:
    condition = find_condition(pod.status.conditions, "Ready")
    assert condition is not None
    assert condition.status == "True", pod.metadata.name
    assert condition.last_transition_time is not None
    return condition.last_transition_time


def check_order(scene: Scene) -> None:
    """Check by timestamps: no container started before the cliques that its clique starts after had their minimum."""
    minima = {one.metadata.name: one.min_available for one in scene.objects(PODCLIQUES)}
    for clique_name, after in starts_after(scene).items():
        for pod in pods_of(scene, clique_name):
            started = first_started_at(pod)
            assert started is not None, pod.metadata.name
            for dependency in after:
                ready = sorted(ready_since(one) for one in pods_of(scene, dependency) if one.is_ready)
                assert ready[minima[dependency] - 1] <= started, (pod.metadata.name, dependency)


async def cliques_start_in_the_order_of_the_template(world: Scene) -> None:
    await world.apply(ordered(clique("a"), clique("b", 2), clique("c"), in_order=True))
    await world.wait_until(lambda: len(world.pods()) == 4 and all(pod.spec.node_name for pod in world.pods()))
    assert starts_after(world) == {"job-0-b": ("job-0-a",), "job-0-c": ("job-0-b",)}
    await world.settle()
    assert len(world.running_pods()) == 4
    check_order(world)


async def members_of_the_base_gang_wait_for_every_base_replica_and_scaled_gangs_only_for_themselves(
    world: Scene,
) -> None:
    leader, worker = clique("l"), clique("w", 2, after=("l", "a"))
    await world.apply(ordered(clique("a"), leader, worker, groups=(group("g", "l", "w", replicas=3, minimum=2),)))
    await world.settle()
    leaders = ("job-0-g-0-l", "job-0-g-1-l")
    assert starts_after(world) == {
        "job-0-g-0-w": (*leaders, "job-0-a"),
        "job-0-g-1-w": (*leaders, "job-0-a"),
        "job-0-g-2-w": ("job-0-g-2-l",),
    }
    assert len(world.running_pods()) == 10
    check_order(world)


async def a_group_starts_after_another_group(world: Scene) -> None:
    groups = (group("p", "p", replicas=2, minimum=1), group("d", "d", replicas=2, minimum=1))
    await world.apply(ordered(clique("p", 2), clique("d", after=("p",)), groups=groups))
    await world.settle()
    # A scaled gang does not wait for another gang.
    assert starts_after(world) == {"job-0-d-0-d": ("job-0-p-0-p",)}
    assert len(world.running_pods()) == 6
    check_order(world)


async def the_minimum_of_a_dependency_is_enough(world: Scene) -> None:
    await world.apply(ordered(clique("a", 3, 2), clique("b", after=("a",))))
    # There is room for two of the three: the third waits for a node.
    await world.settle()
    assert sorted(pod.is_ready for pod in pods_of(world, "job-0-a")) == [False, True, True]
    assert [pod.is_ready for pod in pods_of(world, "job-0-b")] == [True]
    check_order(world)


async def a_dependency_that_is_never_ready_holds_only_those_that_start_after_it(world: World) -> None:
    slow = clique("a", ready_after=NEVER)
    await world.apply(ordered(slow, clique("b", after=("a",)), clique("c")))
    await world.wait_until(lambda: all(pod.is_ready for pod in pods_of(world, "job-0-c")) and len(world.pods()) == 3)
    await world.wait_until(lambda: all(is_waiting(pod) for pod in pods_of(world, "job-0-b")))
    await world.clock.sleep(3600)
    assert [is_waiting(pod) for pod in pods_of(world, "job-0-b")] == [True]
    # The set is corrected: the new template reaches the leader, which is not ready, at once.
    await world.apply(ordered(clique("a"), clique("b", after=("a",)), clique("c")))
    await world.settle()
    assert len(world.running_pods()) == 3


async def a_dependency_is_torn_down_while_others_wait(world: World) -> None:
    slow = clique("b", after=("a",), ready_after="40s")
    await world.apply(ordered(clique("a"), slow, clique("c", after=("b",)), delay="20s"))
    # Without the fact that it was available, nothing was lost.
    await world.wait_until(
        lambda: any(one.status.was_available for one in world.objects(PODCLIQUES) if one.metadata.name == "job-0-a")
    )
    before = {pod.metadata.uid for pod in world.pods()}
    nodes = await lose_pods(world, "job-0-a")
    # There is no room for its replacement: the delay passes, and the whole replica is recreated.
    await world.clock.sleep(60)
    await give_back(world, nodes)
    await world.settle()
    assert not before & {pod.metadata.uid for pod in world.pods()}
    assert len(world.running_pods()) == 3
    check_order(world)


async def an_update_rolls_leader_and_workers_of_a_group_replica_in_order(world: Scene) -> None:
    def version(image: str) -> JsonObject:
        leader, worker = clique("l", image=image), clique("w", 2, after=("l",), image=image)
        return ordered(leader, worker, groups=(group("g", "l", "w", replicas=2, minimum=1),))

    await world.apply(version("i"))
    await world.settle()
    old = {pod.metadata.uid for pod in world.pods()}
    await world.apply(version("j"))
    await world.settle()
    assert not old & {pod.metadata.uid for pod in world.pods()}
    assert len(world.running_pods()) == 6


async def an_update_of_standalone_cliques_starts_them_in_order(world: Scene) -> None:
    def version(image: str) -> JsonObject:
        return ordered(clique("a", image=image), clique("b", after=("a",), image=image))

    await world.apply(version("i"))
    await world.settle()
    old = {pod.metadata.uid for pod in world.pods()}
    await world.apply(version("j"))
    await world.settle()
    assert not old & {pod.metadata.uid for pod in world.pods()}
    # Both are replaced at the same time, and the new pod of b waits for the new pod of a.
    check_order(world)


async def a_leader_that_is_lost_during_an_update_does_not_stop_it(world: World) -> None:
    def version(image: str, selector: JsonObject) -> JsonObject:
        leader, worker = clique("l", image=image), clique("w", after=("l",), image=image)
        for one in (leader, worker):
            one["spec"]["podSpec"]["nodeSelector"] = selector
        return ordered(leader, worker, groups=(group("g", "l", "w", replicas=2, minimum=2),), delay="4h")

    await label_nodes(world, "x")
    await world.apply(version("i", {"disk": "x"}))
    await world.settle()
    old = {pod.metadata.uid for pod in world.pods()}
    await world.apply(version("j", {}))
    # The worker of the first group replica waits for both leaders.
    await world.wait_until(lambda: any(is_waiting(pod) for pod in pods_of(world, "job-0-g-0-w")))
    await label_nodes(world, "y")
    # No node fits the other leader any more, until the update reaches it.
    for pod in pods_of(world, "job-0-g-1-l"):
        await world.client.delete(PODS, "default", pod.metadata.name)
    await world.settle()
    assert not old & {pod.metadata.uid for pod in world.pods()}
    assert len(world.running_pods()) == 4


async def label_nodes(world: World, disk: str) -> None:
    for node in world.objects(NODES):
        await world.client.patch(NODES, "", node.metadata.name, {"metadata": {"labels": {"disk": disk}}})


async def a_dependency_that_succeeded_counts_as_ready(world: World) -> None:
    # It ends with exit code 0 without having been ready.
    done = clique("a", ready_after=NEVER, exit_after="15s")
    job = ordered(done, clique("b", after=("a",), exit_after="60s"), workloadType="Training")
    await world.apply(job)
    await world.wait_until(lambda: [is_waiting(pod) for pod in pods_of(world, "job-0-b")] == [True])
    assert [pod.status.phase for pod in pods_of(world, "job-0-a")] == ["Running"]
    await world.wait_until(lambda: [pod.status.phase for pod in pods_of(world, "job-0-b")] == ["Running"])
    assert [one.status.succeeded_indices for one in world.objects(PODCLIQUES) if one.metadata.name == "job-0-a"] == [
        (0,)
    ]
    await world.settle()
    (pcs,) = world.objects(PODCLIQUESETS)
    assert pcs.status.phase == "Succeeded"


async def a_clique_or_group_at_zero_holds_up_no_other(world: Scene) -> None:
    groups = (group("g", "m", replicas=1, minimum=1),)
    await world.apply(ordered(clique("a"), clique("m"), clique("b", 2, 1, after=("a", "m")), groups=groups))
    await world.settle()
    await world.scale(PODCLIQUES, "job-0-a", 0)
    await world.scale(GROUPS, "job-0-g", 0)
    await world.settle()
    victim = pods_of(world, "job-0-b")[0].metadata
    await world.client.delete(PODS, "default", victim.name)
    await world.settle()
    assert [pod.is_ready for pod in pods_of(world, "job-0-b")] == [True, True]


async def permissions_exist_only_with_a_start_up_order_and_go_with_the_set(world: Scene) -> None:
    await world.apply(ordered(clique("a"), clique("b", after=("a",))))
    await world.settle()
    (role,), (binding,) = world.objects(ROLES), world.objects(ROLE_BINDINGS)
    assert role.metadata.name == binding.metadata.name == "grove.io:pcs:job"
    assert [(rule.api_groups, rule.resources, rule.verbs) for rule in role.rules or ()] == [
        (("grove.io",), ("podcliques",), ("get", "list", "watch"))
    ]
    assert [(one.kind, one.name, one.namespace) for one in binding.subjects] == [
        ("ServiceAccount", "default", binding.metadata.namespace)
    ]
    await world.delete(PODCLIQUESETS, "job")
    await world.settle()
    assert (world.objects(ROLES), world.objects(ROLE_BINDINGS), world.pods()) == ((), (), ())
    await world.apply({**ordered(clique("a"), clique("b")), "metadata": {"name": "free"}})
    await world.settle()
    assert (world.objects(ROLES), world.objects(ROLE_BINDINGS)) == ((), ())


async def a_foreign_role_of_that_name_is_reported_until_it_is_gone(world: Scene) -> None:
    await world.apply(
        {
            "apiVersion": ROLES.api_version,
            "kind": ROLES.kind,
            "metadata": {"name": "grove.io:pcs:job"},
            "rules": [],
        }
    )
    await world.apply(ordered(clique("a"), clique("b", after=("a",))))
    await world.wait_until(lambda: trouble(world, "job") is not None)
    condition = trouble(world, "job")
    assert condition is not None
    assert "grove.io:pcs:job exists already and belongs to another owner" in condition.message
    await world.delete(ROLES, "grove.io:pcs:job")
    await world.settle()
    assert trouble(world, "job") is None
    assert [bool(role.rules) for role in world.objects(ROLES)] == [True]


async def a_binding_that_grants_another_role_is_replaced_and_changed_rules_are_restored(world: Scene) -> None:
    await world.apply(ordered(clique("a"), clique("b", after=("a",))))
    await world.settle()
    (role,), (binding,) = world.objects(ROLES), world.objects(ROLE_BINDINGS)
    (pcs,) = world.objects(PODCLIQUESETS)
    other = {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": "view"}
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "job", "uid": pcs.metadata.uid}
    await world.delete(ROLE_BINDINGS, binding.metadata.name)
    await world.apply(
        {
            "apiVersion": ROLE_BINDINGS.api_version,
            "kind": ROLE_BINDINGS.kind,
            "metadata": {
                "name": binding.metadata.name,
                "labels": binding.metadata.labels,
                "ownerReferences": [{**owner, "controller": True}],
            },
            "roleRef": other,
            "subjects": [],
        }
    )
    narrow = {"apiGroups": ["grove.io"], "resources": ["podcliques"], "verbs": ["get"], "resourceNames": ["x"]}
    await world.client.patch(ROLES, role.metadata.namespace, role.metadata.name, {"rules": [narrow]})
    await world.settle()
    (role,), (binding,) = world.objects(ROLES), world.objects(ROLE_BINDINGS)
    assert (binding.role_ref.kind, binding.role_ref.name) == ("Role", role.metadata.name)
    assert [one.name for one in binding.subjects] == ["default"]
    assert [(rule.verbs, rule.resource_names) for rule in role.rules or ()] == [(("get", "list", "watch"), None)]


# Those that need no more than a user has, also on clusters over HTTP.
STARTUP_SCENES = (
    cliques_start_in_the_order_of_the_template,
    members_of_the_base_gang_wait_for_every_base_replica_and_scaled_gangs_only_for_themselves,
    a_group_starts_after_another_group,
    an_update_rolls_leader_and_workers_of_a_group_replica_in_order,
    an_update_of_standalone_cliques_starts_them_in_order,
    permissions_exist_only_with_a_start_up_order_and_go_with_the_set,
)
STARTUP_STORIES = tuple(
    Story(tell.__name__, nodes, tell)
    for tell, nodes in (
        (cliques_start_in_the_order_of_the_template, 4),
        (members_of_the_base_gang_wait_for_every_base_replica_and_scaled_gangs_only_for_themselves, 10),
        (a_group_starts_after_another_group, 6),
        (the_minimum_of_a_dependency_is_enough, 3),
        (a_dependency_that_is_never_ready_holds_only_those_that_start_after_it, 3),
        (a_dependency_is_torn_down_while_others_wait, 3),
        (an_update_rolls_leader_and_workers_of_a_group_replica_in_order, 6),
        (an_update_of_standalone_cliques_starts_them_in_order, 2),
        (a_leader_that_is_lost_during_an_update_does_not_stop_it, 5),
        (a_dependency_that_succeeded_counts_as_ready, 2),
        (a_clique_or_group_at_zero_holds_up_no_other, 4),
        (permissions_exist_only_with_a_start_up_order_and_go_with_the_set, 2),
        (a_foreign_role_of_that_name_is_reported_until_it_is_gone, 2),
        (a_binding_that_grants_another_role_is_replaced_and_changed_rules_are_restored, 2),
    )
)
