"""`grove why` on worlds with one thing wrong each: the true cause comes first, then what happens next and when."""

import re
from collections.abc import Awaitable, Callable

import pytest
import yaml

from grove.api import labels, names
from grove.api.resources import GROUPS, PODCLIQUESETS
from grove.api.types.meta import JsonObject
from grove.cli.commands.why import why_rows
from grove.cli.common.options import parse_object_ref
from grove.cli.common.output import plain_lines
from grove.errors import UserError
from grove.operations.why.runner import explain
from grove.sim.simulation import OperatorFactory, World, grove_operator
from grove.sim.virtual_clock import run_virtual
from tests.controller.test_reconciler import BROKEN, small_set
from tests.sim.invariants.test_gate_invariants import makes_a_service
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1, WORKLOAD2, quota

NEXT_PLACED = "Next: the scheduler places the gang when it fits: its minimum all at once, the other pods one by one."
NEXT_GATE = "Next: the controller that set this gate must remove it; Grove removes only its own gate."
NEVER_FITS = (
    "10 pods of podgang/workload1-0 never fit: the 9 nodes have room for 9 of these 10 pods together, even when empty."
)
NEXT_SMALLER = "Next: lower minAvailable or the requests in the template, or add nodes."


def why(
    nodes: int,
    prepare: Callable[[World], Awaitable[str]],
    *,
    operator: OperatorFactory | None = grove_operator,
) -> str:
    """What is said about the object that `prepare` names, times and suffixes as placeholders."""

    async def story() -> str:
        async with World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE, operator=operator) as world:
            target = parse_object_ref(await prepare(world))
            said = await explain(world.client, world.clock.now(), "default", target)
        return "\n".join(plain_lines(why_rows(said)))

    return masked(run_virtual(story()))


def masked(text: str) -> str:
    text = re.sub(r"\d\d:\d\d:\d\d \(in \d+ s\)", "TIME", text)
    return re.sub(rf"-(\d+)-[{names.ALPHABET}]{{5}}\b", r"-\1-*****", text)


def refused_count(world: World) -> int:
    return sum(write.target.verb == "create" and write.status == 403 for write in world.writes_by("operator"))


def with_gate(gate: str) -> JsonObject:
    manifest: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
    manifest["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["schedulingGates"] = [{"name": gate}]
    return manifest


# --- the four cases that must be right -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["pcs/workload1", "pg/workload1-0"])
def test_a_base_gang_without_capacity_waits_for_what_the_scheduler_says(target: str) -> None:
    async def story(world: World) -> str:
        await world.apply(WORKLOAD1)
        await world.settle()
        return target

    assert why(9, story).splitlines() == [NEVER_FITS, NEXT_SMALLER]


def test_a_scaled_gang_waits_for_its_base_and_for_what_that_waits_for() -> None:
    async def story(world: World) -> str:
        await world.apply(WORKLOAD1)
        await world.settle()
        await world.scale(GROUPS, "workload1-0-sg-x", 3)
        await world.settle()
        return "pg/workload1-0-sg-x-0"

    assert why(9, story).splitlines() == [
        NEVER_FITS,
        (
            "4 pods of podgang/workload1-0-sg-x-0 wait: base gang workload1-0 is not scheduled: "
            "workload1-0-pc-a has 0 of 2 pods on nodes."
        ),
        NEXT_SMALLER,
        (
            "Next: podgang/workload1-0-sg-x-0 may be placed as soon as every clique of workload1-0 has its minimum "
            "on nodes."
        ),
    ]


def test_a_pod_behind_a_foreign_gate_waits_for_that_gate() -> None:
    async def story(world: World) -> str:
        await world.apply(with_gate("example.com/hold"))
        await world.settle()
        return "pod/" + next(pod.metadata.name for pod in world.pods() if pod.spec.scheduling_gates)

    assert why(10, story).splitlines() == [
        "pod/workload1-0-pc-a-0-***** waits behind scheduling gate example.com/hold.",
        NEXT_GATE,
    ]


def test_a_set_whose_pods_are_refused_is_told_the_servers_words_and_the_next_attempt() -> None:
    async def story(world: World) -> str:
        await world.apply(quota(6))
        await world.apply(WORKLOAD1)
        await world.clock.sleep(10)
        return "pcs/workload1"

    assert why(20, story).splitlines() == [
        "Quota few-pods rejects pods of podgang/workload1-0: 6 of 6 pods are used, a pod asks for 1.",
        "Next: raise quota few-pods, or scale down what uses it.",
        "Next: the operator retries about TIME, then at least every 5 minutes (6 of 10 pods exist).",
        "Next: a gang that stays below its minimum releases its waiting pods after 30 s, so that others can run.",
    ]


# --- and the others --------------------------------------------------------------------------------------------------


def test_the_announced_attempt_is_when_the_operator_tries_again() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=20, node_resources=ONE_POD_NODE) as world:
            await world.apply(quota(6))
            await world.apply(WORKLOAD1)
            for _ in range(4):
                await world.clock.sleep(5)
                said = await explain(world.client, world.clock.now(), "default", parse_object_ref("pcs/workload1"))
                due = next(sentence.until for sentence in said if sentence.until)
                before = refused_count(world)
                await world.clock.sleep((due - world.clock.now()).total_seconds() - 2)
                assert refused_count(world) == before
                await world.clock.sleep(3)
                assert refused_count(world) > before

    run_virtual(story())


def test_the_others_of_a_gang_wait_for_the_foreign_gate_too() -> None:
    async def story(world: World) -> str:
        await world.apply(with_gate("example.com/hold"))
        await world.settle()
        return "pclq/workload1-0-sg-x-0-pc-b"

    assert why(10, story).splitlines()[:2] == [
        "2 pods of podgang/workload1-0 wait behind scheduling gate example.com/hold.",
        "  Pods: workload1-0-pc-a-0-*****, workload1-0-pc-a-1-*****.",
    ]


@pytest.mark.parametrize("target", ["pcs/workload1", "pg/workload1-0", "pcsg/workload1-0-sg-x"])
def test_a_complete_object_waits_for_nothing(target: str) -> None:
    async def story(world: World) -> str:
        await world.apply(WORKLOAD1)
        await world.settle()
        return target

    counts = {"pcs/workload1": "10 of 10", "pg/workload1-0": "10 of 10", "pcsg/workload1-0-sg-x": "8 of 8"}
    assert why(10, story) == f"Nothing: {counts[target]} pods are ready."


def test_pods_above_the_minimum_are_told_apart_from_the_minimum() -> None:
    async def story(world: World) -> str:
        await world.apply(WORKLOAD2)
        await world.settle()
        return "pclq/workload2-0-pc-a"

    assert why(3, story).splitlines()[0].startswith("1 pod of podclique/workload2-0-pc-a waits for a node: 240Mi of")


def test_a_pod_on_a_lost_node_is_named_with_its_node() -> None:
    async def story(world: World) -> str:
        await world.apply(WORKLOAD1)
        await world.settle()
        node = next(pod.spec.node_name for pod in world.pods() if "pc-a-0" in pod.metadata.name)
        await world.nodes.fail(node)
        await world.clock.sleep(400)
        return "pcs/workload1"

    assert why(10, story).splitlines() == [
        "1 pod of podgang/workload1-0 waits for a node: 1 of 10 nodes is not ready (node-0).",
        "So workload1-0-pc-a lost its minimum: 1 of at least 2 pods are ready.",
        "Next: repair or replace the nodes that are not ready.",
        NEXT_PLACED,
        (
            "The scheduler: needs 1 pod of memory=80Mi together, 0 fit: "
            "9 of 10 nodes do not have enough free memory, 1 is not ready."
        ),
        (
            "pod/workload1-0-pc-a-0-***** is being deleted, but its node node-0 does not answer; the pod is removed "
            "when the node returns or is deleted. Its replacement does not wait for that."
        ),
    ]


def test_a_pod_that_is_not_ready_is_explained_by_its_container() -> None:
    async def story(world: World) -> str:
        manifest: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
        manifest["spec"]["template"]["cliques"][0]["annotations"] = {labels.SIM_READY_AFTER: "1h"}
        await world.apply(manifest)
        await world.clock.sleep(60)
        return "pclq/workload1-0-pc-a"

    assert why(10, story) == (
        "2 pods of podclique/workload1-0-pc-a are not ready: "
        "container main runs, but is not ready yet (its readiness probe decides).\n"
        "  Pods: workload1-0-pc-a-0-*****, workload1-0-pc-a-1-*****."
    )


def test_pods_that_keep_ending_are_replaced_later_and_later() -> None:
    async def story(world: World) -> str:
        manifest: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
        manifest["spec"]["template"]["cliques"][0]["annotations"] = {
            labels.SIM_EXIT_AFTER: "1s",
            labels.SIM_EXIT_CODE: "3",
        }
        manifest["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["restartPolicy"] = "Never"
        await world.apply(manifest)
        await world.clock.sleep(20)
        return "pg/workload1-0"

    said = why(10, story).splitlines()
    assert said[0] == "2 pods of workload1-0-pc-a keep ending with exit code 3."
    assert said[1] == "  Pods: workload1-0-pc-a-0-*****, workload1-0-pc-a-1-*****."
    assert said[2] == "So podgang/workload1-0 is not complete: 0 of 2 pods of workload1-0-pc-a exist."
    assert said[4] == ("Next: the operator replaces them about TIME; each pause is longer.")


def test_a_set_without_an_operator_says_that_nobody_acts() -> None:
    async def story(world: World) -> str:
        await world.apply(WORKLOAD1)
        await world.clock.sleep(30)
        return "pcs/workload1"

    assert why(10, story, operator=None).splitlines() == [
        "No operator has acted on the set since its creation 30 s ago.",
        "Next: start the operator; it then acts on the set. Its pods: kubectl -n grove-system get pods.",
    ]


def test_a_set_that_is_deleted_without_an_operator_says_that_nobody_acts() -> None:
    async def story(world: World) -> str:
        manifest: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
        manifest["metadata"]["finalizers"] = [labels.SET_FINALIZER]
        await world.apply(manifest)
        await world.delete(PODCLIQUESETS, "workload1")
        await world.clock.sleep(30)
        return "pcs/workload1"

    assert why(10, story, operator=None).splitlines() == [
        "No operator has acted on the set since its deletion 30 s ago.",
        "So the set is being deleted; 0 pods still exist.",
        "Next: start the operator, or delete the set without one: see Uninstall in docs/how-to/install.md.",
    ]


def test_a_set_that_is_held_by_a_finalizer_names_it() -> None:
    async def story(world: World) -> str:
        manifest: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
        manifest["metadata"]["finalizers"] = ["example.com/backup"]
        await world.apply(manifest)
        await world.settle()
        await world.delete(PODCLIQUESETS, "workload1")
        await world.settle()
        return "pcs/workload1"

    assert why(10, story).splitlines() == [
        "Finalizer example.com/backup blocks the deletion of podcliqueset/workload1.",
        "So the set is being deleted; 0 pods still exist.",
        "Next: the controller of this finalizer must remove it. If that controller is gone, remove the finalizer:",
        "  kubectl edit podcliqueset/workload1",
    ]


def test_a_name_that_a_stranger_has_taken_is_named() -> None:
    async def story(world: World) -> str:
        stranger = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "workload1-0"},
                    "spec": {"clusterIP": "None", "selector": {"a": "b"}}}  # fmt: skip
        await world.apply(stranger)
        await world.apply(WORKLOAD1)
        await world.clock.sleep(10)
        return "pcs/workload1"

    lines = why(10, story).splitlines()
    taken = "409 Service workload1-0 exists already and belongs to another owner."
    assert lines[0] == f"Cannot create Service default/workload1-0: {taken}"
    assert lines[1:3] == ["  Rename the set, or delete that Service.", "  It has failed since 2026-01-01T00:00:00Z."]


def test_a_set_of_many_waiting_gangs_names_the_first_ones() -> None:
    async def story(world: World) -> str:
        manifest: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
        manifest["spec"]["replicas"] = 8
        await world.apply(manifest)
        await world.settle()
        return "pcs/workload1"

    assert why(9, story).splitlines() == [
        NEVER_FITS,
        NEXT_SMALLER,
        "7 more gangs wait for the same reason: workload1-1, workload1-2, workload1-3 and 4 more.",
    ]


def test_a_field_that_is_not_carried_out_is_noted_last() -> None:
    async def story(world: World) -> str:
        manifest: JsonObject = yaml.safe_load(WORKLOAD1.read_text())
        manifest["spec"]["template"]["cliques"][0]["resourceSharing"] = [{"name": "x", "scope": "AllReplicas"}]
        await world.apply(manifest)
        await world.settle()
        return "pcs/workload1"

    first, last = why(10, story).splitlines()
    assert first == "Nothing: 10 of 10 pods are ready."
    assert last.startswith("spec.template.cliques[0].resourceSharing is not supported yet and has no effect: ")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("pod/nobody", "no pod/nobody in namespace 'default'; check the name and the namespace (-n)"),
        ("pcs/nobody", "no PodCliqueSet 'nobody' in namespace 'default'; `grove status -A` lists all sets"),
        ("pod/lone", "pod/lone does not belong to a PodCliqueSet; try `kubectl describe pod/lone`"),
    ],
)
def test_what_cannot_be_explained_is_a_users_error(target: str, message: str) -> None:
    async def story(world: World) -> str:
        lone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone"},
                "spec": {"containers": [{"name": "main", "image": "none"}]}}  # fmt: skip
        await world.apply(lone)
        return target

    with pytest.raises(UserError, match=re.escape(message)):
        why(1, story)


def test_a_service_that_cannot_be_made_is_what_the_gang_waits_for() -> None:
    async def prepare(world: World) -> str:
        world.operator.refuse(makes_a_service, BROKEN)
        await world.apply(small_set("p"))
        await world.clock.sleep(30)
        return "pg/p-0"

    assert why(2, prepare).splitlines() == [
        "Service p-0, by which its pods find each other, does not exist yet.",
        "Next: the operator then removes their gate within seconds.",
    ]
