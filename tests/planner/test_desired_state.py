"""What should exist of one set replica: names, gangs, and what belongs to which."""

import pytest

from grove.planner.desired_state import DesiredClique, DesiredGang, DesiredReplica, build_desired_replica
from tests.dsl import appendix_a, context, pcs, role, scaling


def drawn(replica: DesiredReplica) -> dict[str, list[str]]:
    return {gang.name: [clique.name for clique in gang.cliques] for gang in replica.gangs}


def test_a_replica_is_drawn_with_its_standalone_cliques_first_and_group_replicas_after() -> None:
    ctx = context(appendix_a())
    a, b, c = ctx.spec.template.cliques
    base = (
        DesiredClique(name="p-0-a", template=a, gang="p-0"),
        DesiredClique(name="p-0-g-0-b", template=b, gang="p-0", group="p-0-g", group_replica_index=0),
        DesiredClique(name="p-0-g-0-c", template=c, gang="p-0", group="p-0-g", group_replica_index=0),
    )
    scaled = tuple(
        DesiredClique(
            name=f"p-0-g-1-{template.name}",
            template=template,
            gang="p-0-g-0",
            base_gang="p-0",
            group="p-0-g",
            group_replica_index=1,
        )
        for template in (b, c)
    )
    replica = build_desired_replica(ctx, 0, {})
    assert replica.name == "p-0"
    assert [(group.name, group.config, group.replicas) for group in replica.groups] == [("p-0-g", ctx.groups[0], 2)]
    assert replica.base == DesiredGang(name="p-0", cliques=base)
    assert replica.scaled == (
        DesiredGang(name="p-0-g-0", cliques=scaled, base_gang="p-0", group="p-0-g", group_replica_index=1),
    )
    assert tuple(replica.cliques) == (*base, *scaled)
    assert [gang.is_base for gang in replica.gangs] == [True, False]


def test_every_index_has_names_of_its_own() -> None:
    assert drawn(build_desired_replica(context(appendix_a(name="web")), 12, {})) == {
        "web-12": ["web-12-a", "web-12-g-0-b", "web-12-g-0-c"],
        "web-12-g-0": ["web-12-g-1-b", "web-12-g-1-c"],
    }


def test_the_example_of_the_specification() -> None:
    ctx = context(
        pcs(
            role("leader"),
            role("worker"),
            groups=(scaling("prefill", "leader", "worker", replicas=5, needs=3),),
            name="my-pcs",
        )
    )
    assert drawn(build_desired_replica(ctx, 0, {})) == {
        "my-pcs-0": [f"my-pcs-0-prefill-{j}-{name}" for j in range(3) for name in ("leader", "worker")],
        "my-pcs-0-prefill-0": ["my-pcs-0-prefill-3-leader", "my-pcs-0-prefill-3-worker"],
        "my-pcs-0-prefill-1": ["my-pcs-0-prefill-4-leader", "my-pcs-0-prefill-4-worker"],
    }


@pytest.mark.parametrize(
    ("live", "gangs"),
    [
        pytest.param(1, ["p-0"], id="scaled in to the minimum"),
        pytest.param(3, ["p-0", "p-0-g-0", "p-0-g-1"], id="scaled out"),
        pytest.param(0, ["p-0"], id="below the minimum, past admission: the minimum stays"),
    ],
)
def test_the_scale_of_a_group_that_exists_wins_over_the_template(live: int, gangs: list[str]) -> None:
    assert [gang.name for gang in build_desired_replica(context(appendix_a()), 0, {"p-0-g": live}).gangs] == gangs


def test_group_members_come_in_the_order_of_the_group_and_groups_in_the_order_of_the_template() -> None:
    ctx = context(
        pcs(role("x"), role("y"), role("z"), groups=(scaling("late", "z", "x"), scaling("early", "y", replicas=2)))
    )
    assert drawn(build_desired_replica(ctx, 0, {})) == {
        "p-0": ["p-0-late-0-z", "p-0-late-0-x", "p-0-early-0-y"],
        "p-0-early-0": ["p-0-early-1-y"],
    }
