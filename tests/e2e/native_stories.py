"""Placement on kube-scheduler with native gangs: the engine's stories as they are told there, and what is its own.

Where the engine's scheduler puts every minimum before any extra, kube-scheduler looks at one gang after the other. What
is kept of it: an extra is shown to the scheduler only after the scaled gangs of its replica had their chance.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime

import msgspec
import yaml

from grove.api import labels
from grove.api.resources import PODGANGS, PODS, PRIORITY_CLASSES
from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.pod import Pod
from grove.planner.gangs.surplus_gates import SURPLUS_WAIT
from tests.e2e.harness import POLL_SECONDS
from tests.e2e.native import NativeStage
from tests.e2e.native_mirrors import mirror_problems
from tests.e2e.rollouts import Eye, watching
from tests.simulation.gate_stories import OTHERS_GATE, gates
from tests.simulation.stories import (
    WORKLOAD1,
    WORKLOAD2,
    a_deleted_set_leaves_nothing,
    a_scaled_replica_waits_as_a_block,
    a_second_set_replica_waits_as_a_block,
    all_or_nothing,
    minima_first_then_the_rest,
    running_by_role,
    scaling_in_and_out_again,
)

SIDE = "e2e.grove.io/side"


class NativeStory(msgspec.Struct, frozen=True):
    """`tell` begins with so many nodes, for one pod each."""

    tell: Callable[[NativeStage], Awaitable[None]]
    nodes: int


def minima_of(stage: NativeStage) -> dict[str, int]:
    return {group.name: group.min_replicas for gang in stage.objects(PODGANGS) for group in gang.spec.podgroups}


def partial_gangs(stage: NativeStage) -> list[str]:
    """Gangs that have pods on nodes and lack others that they need; there are none at any rest."""
    on_nodes: dict[str, int] = {}
    for pod in stage.pods():
        if pod.spec.node_name and not pod.metadata.is_terminating:
            clique = pod.metadata.labels[labels.PODCLIQUE]
            on_nodes[clique] = on_nodes.get(clique, 0) + 1
    found = []
    for gang in stage.objects(PODGANGS):
        counts = {group.name: on_nodes.get(group.name, 0) for group in gang.spec.podgroups}
        short = [group.name for group in gang.spec.podgroups if counts[group.name] < group.min_replicas]
        if short and any(counts.values()):
            found.append(f"{gang.metadata.name}: {counts}")
    return found


def workload2(*, replicas: int = 1, group_replicas: int = 2) -> JsonObject:
    manifest: JsonObject = yaml.safe_load(WORKLOAD2.read_text())
    manifest["spec"]["replicas"] = replicas
    manifest["spec"]["template"]["podCliqueScalingGroups"][0]["replicas"] = group_replicas
    return manifest


def two_cliques(*, first: int = 2, second: int = 3) -> JsonObject:
    """A set of one gang of two cliques, all of whose pods are needed."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "pair"},
        "spec": {"replicas": 1, "template": {"cliques": [clique("one", first), clique("two", second)]}},
    }


def clique(name: str, replicas: int, minimum: int | None = None) -> JsonObject:
    container = {"name": "main", "image": "none", "resources": {"requests": {"memory": "80Mi"}}}
    minimum = replicas if minimum is None else minimum
    return {
        "name": name,
        "spec": {
            "roleName": name,
            "replicas": replicas,
            "minAvailable": minimum,
            "podSpec": {"containers": [container]},
        },
    }


def said_of(stage: NativeStage, gang_name: str) -> str:
    """Why a gang is not on nodes, in the words of its condition."""
    (gang,) = (gang for gang in stage.objects(PODGANGS) if gang.metadata.name == gang_name)
    condition = find_condition(gang.status.conditions, "Scheduled")
    return condition.message if condition is not None and condition.status == "False" else ""


async def rest(stage: NativeStage, running: int | None, *, is_whole: bool = True) -> None:
    """At rest so many pods run, every gang is whole or has nothing, and its groups are right.

    A slow machine may be quiet for a while before it is at rest, so it is asked again until that is so.
    """
    deadline = stage.cluster.clock.monotonic() + stage.patience
    while True:
        await stage.settle()
        found = running_by_role(stage)
        problems = mirror_problems(stage) + (partial_gangs(stage) if is_whole else [])
        if running in (None, sum(found.values())) and not problems:
            return
        assert stage.cluster.clock.monotonic() < deadline, (found, problems)
        await stage.cluster.clock.sleep(POLL_SECONDS)


# --- the stories -----------------------------------------------------------------------------------------------------


async def of_two_groups_where_one_fits_nothing_is_placed(stage: NativeStage) -> None:
    await stage.apply(two_cliques())
    await rest(stage, 0)
    assert all(not pod.spec.node_name for pod in stage.pods())
    assert "minCount" in said_of(stage, "pair-0")
    await stage.add_nodes(1)
    await rest(stage, 5)
    assert said_of(stage, "pair-0") == ""


def is_extra(pod: Pod, minima: dict[str, int]) -> bool:
    return int(pod.metadata.labels[labels.POD_INDEX]) >= minima[pod.metadata.labels[labels.PODCLIQUE]]


def extras_come_last(minima: dict[str, int]) -> Callable[[Eye], str | None]:
    """No extra is on a node before every minimum, those of scaled gangs included; unless these took too long."""

    def check(eye: Eye) -> str | None:
        placed = [pod for pod in eye.pods.values() if pod.spec.node_name]
        extras = [pod for pod in placed if is_extra(pod, minima)]
        base = [pod for pod in placed if pod not in extras and labels.BASE_PODGANG not in pod.metadata.labels]
        if not extras or len(placed) - len(extras) >= sum(minima.values()):
            return None
        # They wait for scaled gangs, but not for ever.
        if base and min(map(placed_at, extras)) - max(map(placed_at, base)) >= SURPLUS_WAIT:
            return None
        return f"{[pod.metadata.name for pod in extras]} are on nodes, and minima of their replica are not"

    return check


def placed_at(pod: Pod) -> datetime:
    condition = find_condition(pod.status.conditions, "PodScheduled")
    assert condition is not None
    assert condition.last_transition_time is not None
    return condition.last_transition_time


async def scaled_minima_come_before_any_extra_where_there_is_room_for_them(stage: NativeStage) -> None:
    minima = {
        "workload2-0-pc-a": 1,
        **{f"workload2-0-sg-x-{index}-{clique}": 1 for index in range(3) for clique in ("pc-b", "pc-c")},
    }
    async with watching(stage, extras_come_last(minima)):
        await stage.apply(workload2(group_replicas=3))
        await rest(stage, 7)
        assert running_by_role(stage) == minima == minima_of(stage)
        await stage.add_nodes(7)
        await rest(stage, 14)


async def two_replicas_and_little_room_never_leave_half_a_gang(stage: NativeStage) -> None:
    await stage.apply(workload2(replicas=2))
    await rest(stage, 0)
    # Both bases fit, or one with what is scaled or extra of it: never a part of anything.
    for added, count in ((6, None), (4, None), (10, 20)):
        await stage.add_nodes(added)
        await rest(stage, count)


async def extras_do_not_wait_for_scaled_gangs_that_do_not_fit(stage: NativeStage) -> None:
    """Four nodes: the base takes three, the scaled gang would need two, so the fourth goes to an extra."""
    await stage.apply(workload2())
    await rest(stage, 4)
    roles = running_by_role(stage)
    assert not [role for role in roles if role.startswith("workload2-0-sg-x-1-")], roles


async def extras_do_not_wait_for_a_scaled_gang_behind_the_gate_of_another(stage: NativeStage) -> None:
    manifest = workload2()
    member = manifest["spec"]["template"]["cliques"][1]
    member["spec"]["podSpec"]["schedulingGates"] = [{"name": OTHERS_GATE}]
    await stage.apply(manifest)
    await open_others_gate(stage, "workload2-0-sg-x-0-pc-b")
    await rest(stage, 6)
    roles = running_by_role(stage)
    assert roles == {"workload2-0-pc-a": 2, "workload2-0-sg-x-0-pc-b": 1, "workload2-0-sg-x-0-pc-c": 3}, roles
    await open_others_gate(stage, "workload2-0-sg-x-1-pc-b")
    await rest(stage, 10)


async def open_others_gate(stage: NativeStage, clique_name: str) -> None:
    """As its owner would, once ours is gone."""

    def found() -> list[Pod]:
        pods = [pod for pod in stage.pods() if pod.metadata.labels[labels.PODCLIQUE] == clique_name]
        return [pod for pod in pods if gates(pod) == [OTHERS_GATE]]

    await stage.wait_until(lambda: len(found()) == 1)
    patch: JsonObject = {"spec": {"schedulingGates": []}}
    await stage.client.patch(PODS, stage.namespace, found()[0].metadata.name, patch)


async def a_dead_members_replacement_is_placed_alone(stage: NativeStage) -> None:
    await stage.apply(WORKLOAD1)
    await rest(stage, 10)
    lost = [pod for pod in stage.running_pods() if pod.metadata.labels[labels.PODCLIQUE].endswith("pc-c")][:2]
    # Two members go, and there is room for one.
    await stage.nodes.cordon(lost[0].spec.node_name)
    for pod in lost:
        await stage.client.delete(PODS, stage.namespace, pod.metadata.name, uid=pod.metadata.uid)
    await stage.wait_until(lambda: not {pod.metadata.uid for pod in lost} & {p.metadata.uid for p in stage.pods()})
    await stage.wait_until(lambda: len(stage.running_pods()) == 9)
    await stage.nodes.uncordon(lost[0].spec.node_name)
    await rest(stage, 10)


async def a_clique_that_cannot_be_repaired_does_not_hold_up_another(stage: NativeStage) -> None:
    """Each clique has nodes that are for it alone."""
    manifest = two_cliques(first=2, second=2)
    rooms = {}
    for template in manifest["spec"]["template"]["cliques"]:
        rooms[template["name"]] = await stage.add_nodes(2, {SIDE: template["name"]})
        template["spec"]["podSpec"]["affinity"] = only_on({SIDE: template["name"]})
    await stage.apply(manifest)
    await rest(stage, 4)
    for name in rooms["one"]:
        await stage.nodes.drain(name)
    await stage.wait_until(lambda: running_by_role(stage) == {"pair-0-two": 2} and len(stage.pods()) == 4)
    victim = next(pod.metadata for pod in stage.running_pods())
    await stage.client.delete(PODS, stage.namespace, victim.name, uid=victim.uid)
    await stage.wait_until(lambda: victim.uid not in {pod.metadata.uid for pod in stage.pods()})
    await stage.wait_until(lambda: running_by_role(stage) == {"pair-0-two": 2})
    for name in rooms["one"]:
        await stage.nodes.uncordon(name)
    await rest(stage, 4)


def only_on(labels: dict[str, str]) -> JsonObject:
    """Affinity to nodes with these labels; the selector is the stage's."""
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    selector = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


async def pods_of_a_lost_node_come_back_elsewhere(stage: NativeStage) -> None:
    manifest: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
    for template in manifest["spec"]["template"]["cliques"]:
        template["spec"]["podSpec"]["tolerations"] = [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
            for key in ("unreachable", "not-ready")
        ]
    await stage.apply(manifest)
    await rest(stage, 10)
    lost = {pod.metadata.uid: pod.spec.node_name for pod in stage.running_pods()[:2]}
    for name in lost.values():
        await stage.nodes.fail(name)
    # Nobody is there to confirm their end: they stay, leaving, and others take their indices.
    await stage.wait_until(lambda: len(stage.running_pods()) == 8 and len(stage.pods()) == 12)
    await stage.add_nodes(2)
    await stage.wait_until(lambda: len(stage.running_pods()) == 10)
    for name in lost.values():
        await stage.nodes.recover(name)
    await rest(stage, 10)


async def a_set_of_a_priority_is_placed_as_a_gang(stage: NativeStage) -> None:
    name = f"high-{stage.namespace}"
    await stage.client.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": 1000})
    manifest = two_cliques()
    manifest["spec"]["template"]["priorityClassName"] = name
    await stage.apply(manifest)
    await rest(stage, 5)
    priorities = {mirror.spec.get("priority") for mirror in (*stage.groups(), *stage.roots())}
    assert priorities == {1000}, priorities


NATIVE_STORIES = (
    NativeStory(all_or_nothing, 9),
    NativeStory(a_scaled_replica_waits_as_a_block, 13),
    NativeStory(a_second_set_replica_waits_as_a_block, 19),
    NativeStory(minima_first_then_the_rest, 2),
    NativeStory(scaling_in_and_out_again, 24),
    NativeStory(a_deleted_set_leaves_nothing, 10),
    NativeStory(of_two_groups_where_one_fits_nothing_is_placed, 4),
    NativeStory(scaled_minima_come_before_any_extra_where_there_is_room_for_them, 7),
    NativeStory(two_replicas_and_little_room_never_leave_half_a_gang, 0),
    NativeStory(extras_do_not_wait_for_scaled_gangs_that_do_not_fit, 4),
    NativeStory(extras_do_not_wait_for_a_scaled_gang_behind_the_gate_of_another, 10),
    NativeStory(a_dead_members_replacement_is_placed_alone, 10),
    NativeStory(a_clique_that_cannot_be_repaired_does_not_hold_up_another, 0),
    NativeStory(pods_of_a_lost_node_come_back_elsewhere, 10),
    NativeStory(a_set_of_a_priority_is_placed_as_a_gang, 5),
)
