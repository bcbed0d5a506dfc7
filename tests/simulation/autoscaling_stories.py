"""Stories of autoscalers: which exist, what they say, and that the scale they chose stays. One pod per node.

The story plays the autoscaler: it writes `/scale`. Run without crashes by `test_autoscaling_stories.py`, and with a
crash at every write by `test_crash_everywhere.py`.
"""

from datetime import datetime

from grove.api import labels
from grove.api.resources import AUTOSCALERS, GROUPS, PODCLIQUES, PODCLIQUESETS, PODS
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import JsonObject, find_condition
from grove.sim.simulation import World
from tests.scene import Scene, Seen
from tests.simulation.refusal_stories import trouble
from tests.simulation.stories import Story, running_by_role
from tests.simulation.termination_stories import breach_of, clique_of, give_back, lose_pods, pods_of

QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1500m"}},
}
BY_LOAD: JsonObject = {"maxReplicas": 4, "metrics": [QUEUE]}


def scaled_set(
    config: JsonObject | None = BY_LOAD,
    group_config: JsonObject | None = BY_LOAD,
    *,
    image: str = "i",
    delay: str = "",
    replicas: int = 1,
) -> JsonObject:
    """Return a set with clique `a` (2 pods, at least 1) and group `g` (2 replicas of one pod, at least 1)."""
    group: JsonObject = {"name": "g", "cliqueNames": ["m"], "replicas": 2, "minAvailable": 1}
    group["scaleConfig"] = group_config
    template: JsonObject = {
        "cliques": [_clique("a", image, 2, autoScalingConfig=config), _clique("m", image, 1)],
        "podCliqueScalingGroups": [group],
        "terminationDelay": delay or None,
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s"},
        "spec": {"replicas": replicas, "template": template},
    }


def _clique(name: str, image: str, replicas: int, **spec: object) -> JsonObject:
    container = {"name": "main", "image": image, "resources": {"requests": {"memory": "80Mi"}}}
    pods = {"roleName": name, "replicas": replicas, "minAvailable": 1, "podSpec": {"containers": [container]}}
    return {"name": name, "annotations": {labels.SIM_READY_AFTER: "2s"}, "spec": {**pods, **spec}}


def autoscalers(scene: Seen) -> dict[str, HorizontalPodAutoscaler]:
    return {one.metadata.name: one for one in scene.objects(AUTOSCALERS)}


def bounds(scene: Seen) -> dict[str, tuple[int | None, int]]:
    return {name: (one.spec.min_replicas, one.spec.max_replicas) for name, one in autoscalers(scene).items()}


def uids(scene: Scene) -> set[str]:
    return {pod.metadata.uid for pod in scene.pods()}


async def a_clique_and_a_group_get_an_autoscaler_in_each_replica(world: Scene) -> None:
    await world.apply(scaled_set(replicas=2))
    await world.settle()
    assert bounds(world) == {"s-0-a": (2, 4), "s-0-g": (2, 4), "s-1-a": (2, 4), "s-1-g": (2, 4)}
    found = autoscalers(world)
    targets = {name: one.spec.scale_target_ref for name, one in found.items()}
    assert {name: (ref.api_version, ref.kind, ref.name) for name, ref in targets.items()} == {
        "s-0-a": ("grove.io/v1alpha1", "PodClique", "s-0-a"),
        "s-0-g": ("grove.io/v1alpha1", "PodCliqueScalingGroup", "s-0-g"),
        "s-1-a": ("grove.io/v1alpha1", "PodClique", "s-1-a"),
        "s-1-g": ("grove.io/v1alpha1", "PodCliqueScalingGroup", "s-1-g"),
    }
    (pcs,) = world.objects(PODCLIQUESETS)
    assert {one.metadata.controller for one in found.values()} == {PODCLIQUESETS.owner_key(pcs.metadata)}
    assert found["s-1-g"].metadata.labels == {
        **labels.default_labels("s"),
        labels.NAME: "s-1-g",
        labels.COMPONENT: "pcs-hpa",
        labels.SET_REPLICA_INDEX: "1",
    }


async def a_changed_config_reaches_the_autoscalers_and_no_pod(world: Scene) -> None:
    await world.apply(scaled_set())
    await world.settle()
    before = uids(world)
    faster = {"scaleDown": {"stabilizationWindowSeconds": 10}}
    await world.apply(scaled_set({"minReplicas": 1, "maxReplicas": 6, "behavior": faster}))
    await world.settle()
    assert bounds(world) == {"s-0-a": (1, 6), "s-0-g": (2, 4)}
    spec = autoscalers(world)["s-0-a"].spec
    # Without metrics the API server sets its default, and it fills the behavior.
    assert [one["type"] for one in spec.metrics or ()] == ["Resource"]
    assert spec.behavior is not None
    assert spec.behavior["scaleDown"]["stabilizationWindowSeconds"] == 10
    clique = next(one for one in world.objects(PODCLIQUES) if one.metadata.name == "s-0-a")
    assert clique.spec.auto_scaling_config is not None
    assert clique.spec.auto_scaling_config.max_replicas == 6
    await world.apply(scaled_set())
    await world.settle()
    spec = autoscalers(world)["s-0-a"].spec
    assert (spec.min_replicas, spec.max_replicas, spec.metrics) == (2, 4, (QUEUE,))
    assert spec.behavior is None
    assert uids(world) == before


async def an_autoscaler_goes_with_its_config_and_the_count_stays(world: Scene) -> None:
    await world.apply(scaled_set())
    await world.settle()
    await world.scale(PODCLIQUES, "s-0-a", 3)
    await world.scale(GROUPS, "s-0-g", 3)
    await world.settle()
    before = uids(world)
    await world.apply(scaled_set(None, None))
    await world.settle()
    assert autoscalers(world) == {}
    assert uids(world) == before
    assert running_by_role(world) == {"s-0-a": 3, "s-0-g-0-m": 1, "s-0-g-1-m": 1, "s-0-g-2-m": 1}


async def autoscalers_go_with_their_replica_and_with_the_set(world: Scene) -> None:
    await world.apply(scaled_set(replicas=2))
    await world.settle()
    await world.scale(PODCLIQUESETS, "s", 1)
    await world.settle()
    assert list(autoscalers(world)) == ["s-0-a", "s-0-g"]
    await world.delete(PODCLIQUESETS, "s")
    await world.settle()
    assert autoscalers(world) == {}


async def a_lost_or_changed_autoscaler_is_restored_and_a_behavior_of_a_user_is_kept(world: Scene) -> None:
    await world.apply(scaled_set())
    await world.settle()
    await world.delete(AUTOSCALERS, "s-0-g")
    slow = {"scaleDown": {"selectPolicy": "Disabled"}}
    patch = {"spec": {"maxReplicas": 99, "behavior": slow}}
    await world.client.patch(AUTOSCALERS, _namespace(world), "s-0-a", patch)
    await world.settle()
    assert bounds(world) == {"s-0-a": (2, 4), "s-0-g": (2, 4)}
    behavior = autoscalers(world)["s-0-a"].spec.behavior
    assert behavior is not None
    assert behavior["scaleDown"]["selectPolicy"] == "Disabled"


async def a_foreign_autoscaler_of_that_name_is_reported_until_it_is_gone(world: Scene) -> None:
    target = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "s-0-a"}
    manifest = {"apiVersion": AUTOSCALERS.api_version, "kind": AUTOSCALERS.kind, "metadata": {"name": "s-0-a"}}
    await world.apply({**manifest, "spec": {"scaleTargetRef": target, "maxReplicas": 9}})
    await world.apply(scaled_set())
    await world.wait_until(lambda: trouble(world, "s") is not None)
    condition = trouble(world, "s")
    assert condition is not None
    assert condition.reason == "NameTaken"
    assert "s-0-a exists already and belongs to another owner" in condition.message
    await world.wait_until(lambda: len(world.running_pods()) == 4)
    assert bounds(world) == {"s-0-a": (1, 9), "s-0-g": (2, 4)}
    await world.delete(AUTOSCALERS, "s-0-a")
    await world.settle()
    assert trouble(world, "s") is None
    assert bounds(world) == {"s-0-a": (2, 4), "s-0-g": (2, 4)}


async def an_autoscaled_count_survives_gang_termination(world: World) -> None:
    await world.apply(
        scaled_set({"minReplicas": 1, "maxReplicas": 4}, {"minReplicas": 1, "maxReplicas": 4}, delay="10s")
    )
    await world.settle()
    await world.scale(PODCLIQUES, "s-0-a", 3)
    await world.scale(GROUPS, "s-0-g", 3)
    await world.settle()
    before, owners = pods_of(world), autoscalers(world)
    nodes = await lose_pods(world, "s-0-a", 3)
    await world.clock.sleep(60)
    await give_back(world, nodes)
    await world.settle()
    assert not pods_of(world).keys() & before.keys()
    assert running_by_role(world) == {"s-0-a": 3, "s-0-g-0-m": 1, "s-0-g-1-m": 1, "s-0-g-2-m": 1}
    assert clique_of(world, "s-0-a").spec.replicas == 3
    # The autoscalers were not recreated.
    assert {one.metadata.uid for one in autoscalers(world).values()} == {one.metadata.uid for one in owners.values()}


async def scaling_never_moves_the_clock_of_a_breach(world: World) -> None:
    await world.apply(scaled_set(delay="5m"))
    await world.settle()
    await world.scale(PODCLIQUES, "s-0-a", 4)
    await world.settle()
    lost = await lose_pods(world, "s-0-a", 3)
    await world.clock.sleep(30)
    # One of four is left. The minimum is one: that is no breach.
    assert breach_of(world, "s-0-a") == ("False", "SufficientReadyPods")
    lost += await lose_pods(world, "s-0-a", 1)
    await world.wait_until(lambda: breach_of(world, "s-0-a")[0] == "True")
    began = _breach_time(world, "s-0-a")
    for count in (2, 4, 3):
        await world.clock.sleep(20)
        await world.scale(PODCLIQUES, "s-0-a", count)
    await world.clock.sleep(20)
    assert (breach_of(world, "s-0-a")[0], _breach_time(world, "s-0-a")) == ("True", began)
    await give_back(world, lost)
    await world.settle()
    assert running_by_role(world)["s-0-a"] == 3


async def an_update_goes_on_while_the_autoscaler_scales_in_and_out(world: World) -> None:
    await world.apply(scaled_set())
    await world.settle()
    await world.scale(PODCLIQUES, "s-0-a", 4)
    await world.scale(GROUPS, "s-0-g", 4)
    await world.settle()
    before = uids(world)
    await world.apply(scaled_set(image="j"))
    await world.wait_until(lambda: len(uids(world) - before) > 0)
    await world.scale(PODCLIQUES, "s-0-a", 2)
    await world.scale(GROUPS, "s-0-g", 2)
    await world.clock.sleep(3)
    await world.scale(GROUPS, "s-0-g", 3)
    await world.settle()
    assert not uids(world) & before
    assert running_by_role(world) == {"s-0-a": 2, "s-0-g-0-m": 1, "s-0-g-1-m": 1, "s-0-g-2-m": 1}
    (pcs,) = world.objects(PODCLIQUESETS)
    assert pcs.status.updated_replicas == 1


async def a_scale_out_that_waits_for_room_keeps_true_counts(world: World) -> None:
    await world.apply(scaled_set())
    await world.settle()
    await world.scale(PODCLIQUES, "s-0-a", 4)
    await world.settle()
    status = clique_of(world, "s-0-a").status
    assert (status.replicas, status.ready_replicas, status.scheduled_replicas) == (4, 2, 2)
    assert breach_of(world, "s-0-a")[0] == "False"
    await world.scale(PODCLIQUES, "s-0-a", 2)
    await world.settle()
    assert clique_of(world, "s-0-a").status.replicas == 2
    assert running_by_role(world)["s-0-a"] == 2


async def a_selector_matches_as_many_pods_as_there_are_replicas(world: Scene) -> None:
    """An autoscaler multiplies by the number of pods that it measures."""
    manifest = scaled_set(replicas=2)
    template = manifest["spec"]["template"]
    template["cliques"].append(_clique("w", "i", 2))
    template["podCliqueScalingGroups"][0]["cliqueNames"].append("w")
    await world.apply(manifest)
    await world.settle()
    (pcs,) = world.objects(PODCLIQUESETS)
    assert await _selected(world, pcs.status.hpa_pod_selector) == ["s-0-a", "s-1-a"]
    (clique,) = (one for one in world.objects(PODCLIQUES) if one.metadata.name == "s-0-a")
    assert await _selected(world, clique.status.hpa_pod_selector) == ["s-0-a", "s-0-a"]
    await world.scale(GROUPS, "s-1-g", 3)
    await world.settle()
    (group,) = (one for one in world.objects(GROUPS) if one.metadata.name == "s-1-g")
    assert await _selected(world, group.status.selector) == ["s-1-g-0-m", "s-1-g-1-m", "s-1-g-2-m"]


async def _selected(scene: Scene, selector: str | None) -> list[str]:
    """Return the cliques of the pods that a selector matches."""
    found = await scene.client.list(PODS, namespace=_namespace(scene), label_selector=selector or "")
    return sorted(pod.metadata.labels[labels.PODCLIQUE] for pod in found.items)


async def a_pod_that_ended_counts_once(world: World) -> None:
    manifest = scaled_set()
    manifest["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["restartPolicy"] = "Never"
    await world.apply(manifest)
    await world.settle()
    counts: list[int] = []
    world.server.store.subscribe(lambda _: counts.append(clique_of(world, "s-0-a").status.replicas))
    pod = next(pod for pod in world.running_pods() if pod.metadata.labels[labels.PODCLIQUE] == "s-0-a")
    failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
    await world.client.patch(PODS, pod.metadata.namespace, pod.metadata.name, failed, subresource="status")
    await world.settle()
    assert running_by_role(world)["s-0-a"] == 2
    assert max(counts) == 2


def _breach_time(world: World, name: str) -> datetime | None:
    condition = find_condition(clique_of(world, name).status.conditions, "MinAvailableBreached")
    assert condition is not None
    return condition.last_transition_time


def _namespace(scene: Scene) -> str:
    (pcs,) = scene.objects(PODCLIQUESETS)
    return pcs.metadata.namespace


AUTOSCALING_STORIES = tuple(
    Story(tell.__name__, nodes, tell)
    for tell, nodes in (
        (a_clique_and_a_group_get_an_autoscaler_in_each_replica, 8),
        (a_changed_config_reaches_the_autoscalers_and_no_pod, 4),
        (an_autoscaler_goes_with_its_config_and_the_count_stays, 6),
        (autoscalers_go_with_their_replica_and_with_the_set, 8),
        (a_lost_or_changed_autoscaler_is_restored_and_a_behavior_of_a_user_is_kept, 4),
        (a_foreign_autoscaler_of_that_name_is_reported_until_it_is_gone, 4),
        (an_autoscaled_count_survives_gang_termination, 6),
        (scaling_never_moves_the_clock_of_a_breach, 6),
        (an_update_goes_on_while_the_autoscaler_scales_in_and_out, 9),
        (a_scale_out_that_waits_for_room_keeps_true_counts, 4),
        (a_selector_matches_as_many_pods_as_there_are_replicas, 19),
        (a_pod_that_ended_counts_once, 6),
    )
)
