"""What `grove status` shows, on worlds in virtual time: the tree, the table, and lines of what changed.

`GROVE_UPDATE_GOLDEN=1` writes the pictures anew.
"""

import os
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec
import pytest
import yaml

from grove.api import names
from grove.api.resources import GROUPS, PODCLIQUESETS
from grove.api.types.meta import JsonObject
from grove.cli.common.output import plain_lines
from grove.cli.status.set_watcher import SetWatcher
from grove.cli.status.tree import PodCounts, SetNode, is_settled
from grove.cli.status.tree_diff import MAX_LINES, describe_tree_changes
from grove.cli.status.tree_lines import age
from grove.cli.status.tree_view import table_rows, tree_rows
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1, WORKLOAD2, quota
from tests.simulation.training_stories import clique, expect_failure, fail_one, runs, training

GOLDEN = Path(__file__).parent / "golden"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def look(nodes: int, prepare: Callable[[World], Awaitable[None]]) -> list[SetNode]:
    async def story() -> list[SetNode]:
        async with World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE) as world:
            await prepare(world)
            return await SetWatcher(world.client, world.clock, Random(1)).list_once()

    return run_virtual(story())


async def settled(world: World) -> None:
    await world.apply(WORKLOAD2)
    await world.settle()


def shown(node: SetNode) -> str:
    """Ages and suffixes as placeholders."""
    text = "\n".join(plain_lines(tree_rows(node, NOW)))
    text = re.sub(rf"-(\d+)-[{names.ALPHABET}]{{5}}\b", r"-\1-*****", text)
    return re.sub(r"(?m)\b\d+[smh](?:\d+s)?$", "AGE", text)


def bare_set(name: str) -> SetNode:
    return SetNode(
        name=name, namespace="default", phase="Pending", replicas=1, available_replicas=0,
        updated_replicas=0, counts=PodCounts(), created_at=NOW,
    )  # fmt: skip


def check_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("GROVE_UPDATE_GOLDEN"):
        path.write_text(text + "\n")
    assert path.read_text() == text + "\n"


def test_a_complete_set_is_a_tree_of_replicas_groups_cliques_and_pods() -> None:
    (node,) = look(10, settled)
    check_golden("complete.txt", shown(node))
    assert is_settled(node)


def test_a_set_that_waits_says_where_to_ask_why() -> None:
    (node,) = look(2, settled)
    check_golden("waiting.txt", shown(node))
    assert not is_settled(node)


def test_refused_pods_and_their_cause_are_visible() -> None:
    async def story(world: World) -> None:
        await world.apply(quota(6))
        await world.apply(WORKLOAD1)
        await world.clock.sleep(10)

    (node,) = look(10, story)
    check_golden("refused.txt", shown(node))


def test_a_lost_minimum_is_visible_in_its_clique() -> None:
    async def story(world: World) -> None:
        await settled(world)
        node = next(pod.spec.node_name for pod in world.pods() if "-pc-b-0-" in pod.metadata.name)
        await world.nodes.fail(node)
        await world.clock.sleep(400)

    (node,) = look(10, story)
    phases = [
        clique.phase for group in node.set_replicas[0].groups for r in group.group_replicas for clique in r.cliques
    ]
    assert phases == ["Breached", "Running", "Running", "Running"]


def test_a_group_replica_does_not_wait_because_another_part_of_its_gang_does() -> None:
    async def story(world: World) -> None:
        await world.apply(WORKLOAD1)
        await world.settle()
        node = next(pod.spec.node_name for pod in world.pods() if "-pc-a-" in pod.metadata.name)
        await world.nodes.fail(node)
        await world.clock.sleep(400)

    (node,) = look(10, story)
    replica = node.set_replicas[0]
    assert (replica.phase, replica.cliques[0].phase) == ("Breached", "Breached")
    assert [(one.phase, one.counts.ready) for one in replica.groups[0].group_replicas] == [("Running", 4)] * 2


def test_a_training_set_that_is_done_is_done_at_every_level() -> None:
    async def done(world: World) -> None:
        await world.apply(
            {
                "apiVersion": "grove.io/v1alpha1",
                "kind": "PodCliqueSet",
                "metadata": {"name": "job"},
                "spec": {
                    "replicas": 1,
                    "workloadType": "Training",
                    "template": {
                        "cliques": [
                            {
                                "name": "worker",
                                "annotations": {"simulation.grove.io/exit-after": "5s"},
                                "spec": {
                                    "roleName": "worker",
                                    "replicas": 1,
                                    "podSpec": {"containers": [{"name": "main", "image": "none"}]},
                                },
                            }
                        ]
                    },
                },
            }
        )
        await world.settle()

    (node,) = look(2, done)
    assert is_settled(node)
    rows = plain_lines(tree_rows(node, NOW))[1:]
    assert [" Succeeded " in row for row in rows] == [True] * 4
    assert [" 1 done " in row for row in rows] == [True, True, True, False]
    assert describe_tree_changes([], [node])[0] == "pcs/job Succeeded, 1/1 replicas available, 1/1 pods succeeded"
    assert table_rows([node], NOW, has_namespaces=False)[1][2].text == "1 done"


def test_pods_that_succeeded_are_counted_beside_those_that_still_run() -> None:
    counts = PodCounts(wanted=4, ready=3, scheduled=4, succeeded=1)
    node = msgspec.structs.replace(bare_set("job"), phase="Running", available_replicas=1, counts=counts)
    assert " 3/4, 1 done " in plain_lines(tree_rows(node, NOW))[1]
    assert is_settled(node)
    assert describe_tree_changes([], [node])[0].endswith("3/4 pods ready, 1 succeeded")


def test_a_set_that_is_being_deleted_says_so() -> None:
    async def story(world: World) -> None:
        manifest: JsonObject = yaml.safe_load(WORKLOAD2.read_text())
        manifest["metadata"]["finalizers"] = ["example.com/backup"]
        await world.apply(manifest)
        await world.settle()
        await world.delete(PODCLIQUESETS, "workload2")
        await world.settle()

    (node,) = look(10, story)
    assert node.phase == "Terminating"
    assert [row[0].text for row in tree_rows(node, NOW)] == ["NAME", "pcs/workload2", "replica 0"]


def test_the_json_of_a_set_is_the_tree_itself() -> None:
    (node,) = look(10, settled)
    assert msgspec.json.decode(msgspec.json.encode(node), type=SetNode) == node
    assert msgspec.to_builtins(node)["counts"] == {
        "wanted": 10,
        "ready": 10,
        "scheduled": 10,
        "succeeded": 0,
    }


def test_the_table_has_one_line_per_set() -> None:
    counts = PodCounts(wanted=8, ready=5, scheduled=6)
    chat = msgspec.structs.replace(
        bare_set("chat"), namespace="web", phase="Running", replicas=2, available_replicas=1, counts=counts
    )
    nodes = [msgspec.structs.replace(chat, created_at=NOW - timedelta(seconds=90))]
    assert plain_lines(table_rows(nodes, NOW, has_namespaces=False)) == [
        "NAME  STATUS   READY  AVAILABLE  SCHEDULED  AGE",
        "chat  Running  5/8    1/2        6          90s",
    ]
    assert (
        plain_lines(table_rows(nodes, NOW, has_namespaces=True))[1]
        == "web        chat  Running  5/8    1/2        6          90s"
    )


# --- changes ---------------------------------------------------------------------------------------------------------


def test_a_change_is_told_once_and_in_one_line() -> None:
    async def story() -> list[list[str]]:
        async with World(seed=1, nodes=2, node_resources=ONE_POD_NODE) as world:
            followed = SetWatcher(world.client, world.clock, Random(1))
            looks: list[list[SetNode]] = [[]]
            await world.apply(WORKLOAD2)
            for act in (world.settle, partial(world.add_nodes, 8), partial(world.scale, GROUPS, "workload2-0-sg-x", 1)):
                await act()
                await world.settle()
                looks.append(await followed.list_once())
            return [describe_tree_changes(before, after) for before, after in pairwise([*looks, looks[-1]])]

    assert run_virtual(story()) == [
        [
            "pcs/workload2 Pending, 0/1 replicas available, 0/10 pods ready",
            "pg/workload2-0 Pending",
            "pg/workload2-0-sg-x-0 Pending",
        ],
        [
            "pcs/workload2 Pending -> Running, 1/1 replicas available, 10/10 pods ready",
            "pg/workload2-0 Pending -> Running",
            "pg/workload2-0-sg-x-0 Pending -> Running",
        ],
        [
            "pcs/workload2 Running, 1/1 replicas available, 6/6 pods ready",
            "pg/workload2-0-sg-x-0 is gone",
        ],
        [],
    ]


@pytest.mark.parametrize(("sets", "lines"), [(MAX_LINES - 1, MAX_LINES - 1), (MAX_LINES, MAX_LINES), (21, 21)])
def test_very_many_changes_are_cut_short(sets: int, lines: int) -> None:
    nodes = [bare_set(f"s{n}") for n in range(sets)]
    told = describe_tree_changes([], nodes)
    assert len(told) == lines
    assert (told[-1] == "... and 1 more change") == (sets > MAX_LINES)


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(seconds=0), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=120), "2m0s"),
        (timedelta(seconds=599), "9m59s"),
        (timedelta(seconds=600), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=47), "47h"),
        (timedelta(hours=48), "2d"),
    ],
)
def test_an_age_is_written_as_kubectl_writes_it(passed: timedelta, text: str) -> None:
    assert age(NOW - passed, NOW) == text


async def restarted_once(world: World) -> None:
    await world.apply(training(clique("a"), max_restarts=2, max_runtime="1h"))
    await fail_one(world, "-a", 1)
    await world.wait_until(runs(world, 1, 1))


async def failed_for_good(world: World) -> None:
    await world.apply(training(clique("a", exits_after="20s", code=1), clique("b", exits_after="900s")))
    await expect_failure(world, "MaxRestartsExceeded")


def test_a_training_set_shows_what_it_used_of_its_limits() -> None:
    (node,) = look(1, restarted_once)
    assert (node.phase, node.training and (node.training.restarts, node.training.max_restarts)) == ("Running", (1, 2))
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert "│  1 of 2 restarts used, ends at 01:00:00 (in 59m1s) at the latest" in plain_lines(tree_rows(node, now))


def test_of_a_set_that_failed_nothing_is_torn_down_any_more() -> None:
    (node,) = look(2, failed_for_good)
    text = "\n".join(plain_lines(tree_rows(node, NOW)))
    assert node.phase == "Failed"
    assert "! Failed: it failed and all restarts are used (0 of 0)" in text
    assert "torn down" not in text
