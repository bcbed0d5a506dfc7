"""The tree of `grove status` on a page: what is folded, shortened and dropped, and what stays visible."""

from datetime import UTC, datetime
from itertools import product

import msgspec
import pytest

from grove.cli.common.output import plain_lines
from grove.cli.status.tree import (
    CliqueNode,
    GroupNode,
    GroupReplicaNode,
    PodCounts,
    PodNode,
    Problem,
    ReplicaNode,
    SetNode,
)
from grove.cli.status.tree_view import PageSize, page_rows, tree_rows

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_clique(name: str, pods: int, broken: dict[int, str]) -> CliqueNode:
    """Return a clique of running pods, except those of the indices in `broken`, which have that phase."""
    made = tuple(
        PodNode(
            name=f"{name}-{index}-x7k2p",
            phase=broken.get(index, "Running"),
            is_ready=index not in broken,
            node="" if broken.get(index) == "Pending" else f"gpu-node-{index}.eu-central-1.compute.internal",
            created_at=NOW,
        )
        for index in range(pods)
    )
    ready = pods - len(broken)
    counts = PodCounts(wanted=pods, ready=ready, scheduled=sum(bool(pod.node) for pod in made))
    phase = "Running" if ready >= pods - 1 else "Pending"
    return CliqueNode(name=name, phase=phase, min_available=pods - 1, counts=counts, created_at=NOW, pods=made)


def total(*counts: PodCounts) -> PodCounts:
    return PodCounts(
        wanted=sum(each.wanted for each in counts),
        ready=sum(each.ready for each in counts),
        scheduled=sum(each.scheduled for each in counts),
    )


def make_set(
    name: str = "llm",
    replicas: int = 4,
    instances: int = 8,
    pods: int = 4,
    broken: dict[str, dict[int, str]] | None = None,
) -> SetNode:
    """Return a set of a router and a group of instances. `broken`: phases of pods, by clique and pod index."""
    bad = broken or {}
    made = []
    for index in range(replicas):
        router = make_clique(f"{name}-{index}-router", 2, bad.get(f"{name}-{index}-router", {}))
        group = f"{name}-{index}-decode"
        workers = [
            make_clique(f"{group}-{one}-worker", pods, bad.get(f"{group}-{one}-worker", {})) for one in range(instances)
        ]
        decode = GroupNode(
            name=group,
            phase="Running",
            replicas=instances,
            available_replicas=sum(worker.phase == "Running" for worker in workers),
            min_available=1,
            counts=total(*(worker.counts for worker in workers)),
            created_at=NOW,
            group_replicas=tuple(
                GroupReplicaNode(
                    index=one, gang=f"{group}-{one}", phase=worker.phase, counts=worker.counts, cliques=(worker,)
                )
                for one, worker in enumerate(workers)
            ),
        )
        made.append(
            ReplicaNode(
                index=index,
                gang=f"{name}-{index}",
                phase="Running",
                counts=total(router.counts, decode.counts),
                created_at=NOW,
                cliques=(router,),
                groups=(decode,),
            )
        )
    return SetNode(
        name=name,
        namespace="default",
        phase="Running",
        replicas=replicas,
        available_replicas=replicas,
        updated_replicas=replicas,
        counts=total(*(replica.counts for replica in made)),
        created_at=NOW,
        set_replicas=tuple(made),
    )


def page(sets: list[SetNode], width: int | None, height: int | None, *, home: str = "", footer: str = "") -> list[str]:
    return plain_lines(page_rows(sets, NOW, PageSize(width=width, height=height), home=home, footer=footer))


BROKEN = {"llm-2-decode-5-worker": {1: "CrashLoopBackOff"}}


def test_healthy_replicas_are_folded_and_the_broken_pod_stays_visible() -> None:
    assert page([make_set(broken=BROKEN)], 80, 13) == [
        "NAME                          STATUS            READY    WHERE              AGE",
        "pcs/llm                       Running           135/136                     0s",
        "├─ replica 2                  Running           33/34    pg/llm-2           0s",
        "│  ├─ pclq/…-router           Running           2/2                         0s",
        "│  └─ pcsg/…-decode           Running           31/32                       0s",
        "│     ├─ replica 5            Running           3/4      pg/llm-2-decode-5",
        "│     │  └─ pclq/…-worker     Running           3/4                         0s",
        "│     │     ├─ pod/…-1-x7k2p  CrashLoopBackOff  no       gpu-node-1         0s",
        "│     │     └─ 3 pods ready",
        "│     └─ 7 replicas ready                       28/28",
        "└─ 3 replicas ready                             102/102",
        "Why is it not complete? grove why pcs/llm",
    ]


def test_without_a_page_every_line_is_there_in_its_order() -> None:
    node = make_set(broken=BROKEN)
    rows = plain_lines(tree_rows(node, NOW, has_hint=False))
    # Header, set, and per replica: itself, router with 2 pods, group, 8 x (replica, clique, 4 pods).
    assert len(rows) == 2 + 4 * (1 + 3 + 1 + 8 * 6)
    names = [row.split("pod/")[1].split()[0] for row in rows if "pod/" in row]
    assert names == [
        pod.name
        for replica in node.set_replicas
        for clique in (*replica.cliques, *(c for one in replica.groups[0].group_replicas for c in one.cliques))
        for pod in clique.pods
    ]


@pytest.mark.parametrize(
    ("node", "needle"),
    [
        pytest.param(make_set(), "llm", id="healthy"),
        pytest.param(make_set(broken=BROKEN), "CrashLoopBackOff", id="one pod crashes"),
        pytest.param(make_set("a-name-of-forty-five-characters-which-is-long", broken={}), "a-name", id="a long name"),
        pytest.param(make_set(replicas=3, instances=100, pods=16), "llm", id="5,000 pods"),
    ],
)
def test_a_page_is_never_left_and_never_empty(node: SetNode, needle: str) -> None:
    for width, height in product((20, 40, 60, 80, 100, 160), (1, 2, 3, 5, 12, 23, 50)):
        lines = page([node], width, height)
        assert 0 < len(lines) <= height
        assert max(map(len, lines)) <= width, (width, height)
        if height >= 12 and width >= 60:
            assert needle in "\n".join(lines), (width, height)


def test_thousands_of_pods_that_wait_are_one_line_and_three_examples() -> None:
    waits = {f"llm-0-decode-{one}-worker": dict.fromkeys(range(500), "Pending") for one in range(10)}
    lines = page([make_set(replicas=1, instances=10, pods=500, broken=waits)], None, 60)
    assert len(lines) <= 60
    text = "\n".join(lines)
    assert "497 pods Pending" in text
    assert text.count("pod/") == 2 + 9


def test_a_page_with_folded_lines_says_how_to_see_them_all() -> None:
    footer = "--all shows every line"
    assert page([make_set()], None, 60, footer=footer)[-1] == footer
    assert page([make_set(replicas=1, instances=1)], None, 60, footer=footer)[-1] != footer


def test_healthy_sets_leave_the_room_to_the_broken_one() -> None:
    sets = [make_set("a"), make_set("b", broken={"b-0-router": {0: "ImagePullBackOff"}}), make_set("c")]
    lines = page(sets, 80, 9)
    assert any("ImagePullBackOff" in line for line in lines)
    assert lines[-1].split() == ["2", "sets", "ready", "272/272"]


def test_a_set_of_another_namespace_is_named_as_a_command_takes_it() -> None:
    other = msgspec.structs.replace(make_set(replicas=1, instances=1), namespace="web", available_replicas=0)
    lines = page([make_set(replicas=1, instances=1), other], 80, 40, home="default")
    assert [line.split("  ")[0] for line in lines if line.startswith("pcs/")] == ["pcs/llm", "pcs/llm -n web"]
    assert lines[-1] == "Why is it not complete? grove why pcs/llm -n web"


def test_a_long_message_is_wrapped_and_cut() -> None:
    problem = Problem(type="ReconcileFailed", reason="QuotaExceeded", message="quota exceeded " * 40)
    lines = page([msgspec.structs.replace(make_set(), problems=(problem,))], 80, 23)
    notes = [line for line in lines if "quota" in line]
    assert len(notes) == 3
    assert notes[0].startswith("! ReconcileFailed: quota exceeded")
    assert notes[-1].endswith("…")


def test_a_complete_set_with_a_warning_is_not_asked_why_it_is_not_complete() -> None:
    problem = Problem(type="UnsupportedFields", reason="NotSupportedYet", message="spec.x has no effect")
    lines = plain_lines(tree_rows(msgspec.structs.replace(make_set(), problems=(problem,)), NOW))
    assert "! UnsupportedFields: spec.x has no effect" in lines
    assert not any("Why" in line for line in lines)


def test_only_a_complete_set_is_told_to_run_older_templates() -> None:
    older = msgspec.structs.replace(make_set(replicas=2), updated_replicas=1)
    note = "1 of 2 replicas run the newest template"
    assert note in page([older], None, None)
    waiting = msgspec.structs.replace(make_set(replicas=2, broken={"llm-0-router": {0: "Pending"}}), updated_replicas=1)
    assert note not in page([waiting], None, None)
