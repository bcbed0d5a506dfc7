"""What Volcano gets to see of a gang, which queue it is in, and what it says back. LPX, which gets to see nothing."""

from typing import Any

import msgspec
import pytest

from grove.api.meta import JsonObject
from grove.api.podcliqueset import PackConstraint, PodCliqueSet, TopologyConstraint
from grove.api.resources import VOLCANO_PODGROUPS, VOLCANO_QUEUES
from grove.backends.base import Said, Surface
from grove.backends.lpx import LpxBackend
from grove.backends.volcano import VolcanoBackend
from tests.backends.asking import (
    a_set,
    answer,
    body_of,
    gang_ask,
    patched,
    pod_ask,
    podgroup,
    queues,
    set_ask,
    stored,
)
from tests.dsl import role, scaling

VOLCANO = VolcanoBackend()
QUEUE = "scheduling.grove.io/volcano-queue"
ZONE = TopologyConstraint(topology_name="dc", pack=PackConstraint(required="zone"))


def made(*podgroups: Any, **fields: Any) -> JsonObject:
    return body_of(answer(VOLCANO, gang_ask(*podgroups, **{"pcs": a_set(), **fields})))


def test_a_gang_becomes_one_podgroup_with_a_policy_per_clique() -> None:
    body = made(podgroup("p-0-a", 2), podgroup("p-0-b", 3), spec={"priority_class_name": "high"})
    assert body["metadata"]["name"] == "p-0"
    assert body["spec"] == {
        "minMember": 5,
        "queue": "default",
        "priorityClassName": "high",
        "subGroupPolicy": [
            {
                "name": "p-0-a",
                "labelSelector": {"matchLabels": {"grove.io/podclique": "p-0-a"}},
                "matchLabelKeys": ["grove.io/podclique"],
                "subGroupSize": 2,
                "minSubGroups": 1,
            },
            {
                "name": "p-0-b",
                "labelSelector": {"matchLabels": {"grove.io/podclique": "p-0-b"}},
                "matchLabelKeys": ["grove.io/podclique"],
                "subGroupSize": 3,
                "minSubGroups": 1,
            },
        ],
    }


def test_a_clique_whose_pods_are_all_done_is_waited_for_by_nobody() -> None:
    spec = made(podgroup("p-0-a", 0))["spec"]
    assert spec["minMember"] == 1
    assert [(one["subGroupSize"], one["minSubGroups"]) for one in spec["subGroupPolicy"]] == [(1, 0)]


def test_a_podgroup_that_says_it_all_is_not_written_again() -> None:
    ask = gang_ask(podgroup("p-0-a", 2), podgroup("p-0-b", 0), pcs=a_set())
    body = body_of(answer(VOLCANO, ask))
    policies = [{**one, "networkTopology": {"mode": "hard"}} for one in body["spec"]["subGroupPolicy"]]
    found = stored(body, subGroupPolicy=policies, minResources={"cpu": "1"})
    plan = answer(VOLCANO, ask, found)
    assert (plan.patch, plan.waits) == ((), "")


def test_a_gang_that_changed_changes_its_podgroup_before_another_gate_opens() -> None:
    found = stored(body_of(answer(VOLCANO, gang_ask(podgroup("p-0-a", 2), pcs=a_set()))))
    ask = gang_ask(podgroup("p-0-a", 3), pcs=a_set())
    plan = answer(VOLCANO, ask, found)
    assert plan.waits == "PodGroup p-0 is brought up to date first"
    after = patched(plan)
    assert after.spec["minMember"] == 3
    assert answer(VOLCANO, ask, after).patch == ()


def test_a_version_without_subgroup_policies_gets_no_pods() -> None:
    ask = gang_ask(pcs=a_set())
    body = body_of(answer(VOLCANO, ask))
    found = stored({**body, "spec": {k: v for k, v in body["spec"].items() if k != "subGroupPolicy"}})
    plan = answer(VOLCANO, ask, found)
    assert plan.patch == ()
    assert plan.waits.startswith("PodGroups of this version of Volcano have no subGroupPolicy")


def test_a_pod_names_its_group_and_its_scheduler() -> None:
    shared = {"team": "x"}
    pod: JsonObject = {"metadata": {"name": "x", "annotations": shared}, "spec": {"hostname": "x-0"}}
    VOLCANO.prepare_pod(pod, pod_ask())
    assert pod == {
        "metadata": {
            "name": "x",
            "annotations": {
                "team": "x",
                "scheduling.volcano.sh/group-name": "p-0",
                "scheduling.k8s.io/group-name": "p-0",
            },
        },
        "spec": {"hostname": "x-0", "schedulerName": "volcano"},
    }
    assert shared == {"team": "x"}


# --- queues ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pcs", "queue"),
    [
        pytest.param(a_set(), "default", id="none"),
        pytest.param(a_set(annotations={QUEUE: " gold "}), "gold", id="on the set, trimmed"),
        pytest.param(a_set(role("a", annotations={QUEUE: "gold"}), role("b", annotations={QUEUE: "gold"})), "gold",
                     id="on all cliques"),
        pytest.param(a_set(role("a"), role("b", annotations={QUEUE: "gold"}), annotations={QUEUE: "gold"}), "gold",
                     id="on the set and a clique"),
        pytest.param(a_set(role("a"), role("b", annotations={QUEUE: "default"})), "default", id="the default by name"),
    ],
)  # fmt: skip
def test_the_queue_of_a_set(pcs: PodCliqueSet, queue: str) -> None:
    assert list(VOLCANO.errors(pcs)) == []
    assert made(pcs=pcs)["spec"]["queue"] == queue


@pytest.mark.parametrize(
    ("pcs", "expected"),
    [
        pytest.param(
            a_set(annotations={QUEUE: "Not/Good"}),
            [
                (
                    f'metadata.annotations[{QUEUE}]: Invalid value: "Not/Good": write up to 253 of a-z, 0-9, - and ., '
                    "beginning and ending with a letter or digit"
                )
            ],
            id="not a name",
        ),
        pytest.param(
            a_set(role("a", annotations={QUEUE: "x"}), annotations={QUEUE: "y"}),
            [
                (
                    f'spec.template.cliques[0].annotations[{QUEUE}]: Invalid value: "x": a gang is in one queue, and '
                    f'metadata.annotations[{QUEUE}] asks for "y": write that here'
                )
            ],
            id="a clique against the set",
        ),
        pytest.param(
            a_set(role("a"), role("b", annotations={QUEUE: "x"})),
            [
                (
                    f'spec.template.cliques[0].annotations[{QUEUE}]: Required value: other cliques ask for queue "x": '
                    "name it here too, or once on the set"
                )
            ],
            id="a clique that would be in the default queue",
        ),
    ],
)
def test_a_set_without_one_clear_queue_is_refused(pcs: PodCliqueSet, expected: list[str]) -> None:
    assert [str(error) for error in VOLCANO.errors(pcs)] == expected


def test_a_set_that_moves_to_another_queue_takes_its_podgroups_along() -> None:
    found = stored(body_of(answer(VOLCANO, gang_ask(pcs=a_set()))))
    plan = answer(VOLCANO, gang_ask(pcs=a_set(annotations={QUEUE: "gold"})), found)
    assert [patch.patch for patch in plan.patch] == [{"spec": {"queue": "gold"}}]
    assert plan.waits == ""


def test_a_queue_that_volcano_gave_to_a_set_without_one_is_kept() -> None:
    ask = gang_ask(pcs=a_set())
    assert answer(VOLCANO, ask, stored(body_of(answer(VOLCANO, ask)), queue="of-the-namespace")).patch == ()


@pytest.mark.parametrize(
    ("surface", "expected"),
    [
        pytest.param(Surface(queues=queues(VOLCANO_QUEUES, gold="Open")), "", id="open"),
        pytest.param(
            Surface(queues=queues(VOLCANO_QUEUES, gold="Closed")),
            f'queue "gold" is Closed: open it, or correct metadata.annotations[{QUEUE}]',
            id="closed",
        ),
        pytest.param(
            Surface(queues=queues(VOLCANO_QUEUES, gold="")),
            f'queue "gold" is not open yet: open it, or correct metadata.annotations[{QUEUE}]',
            id="so new that Volcano has not seen it",
        ),
        pytest.param(
            Surface(queues=queues(VOLCANO_QUEUES, other="Open")),
            f'there is no queue "gold": create it, or correct metadata.annotations[{QUEUE}]',
            id="unknown",
        ),
        pytest.param(
            Surface(missing=frozenset({VOLCANO_PODGROUPS.full_name})),
            "the API server does not serve podgroups.scheduling.volcano.sh: install Volcano",
            id="Volcano is not installed",
        ),
    ],
)
def test_no_gang_is_offered_to_a_volcano_that_cannot_place_it(surface: Surface, expected: str) -> None:
    assert VOLCANO.hold(set_ask(a_set(annotations={QUEUE: "gold"})), surface) == expected


# --- what Volcano says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            {
                "phase": "Inqueue",
                "conditions": [
                    {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "3/5"}
                ],
            },
            (Said(message="3/5", reason="NotEnoughResources"),),
            id="unschedulable",
        ),
        pytest.param(
            {"phase": "Pending"},
            (Said(message='it is not let into queue "default" yet', reason="Pending"),),
            id="not in its queue",
        ),
        pytest.param({"phase": "Inqueue"}, (), id="nothing yet"),
        pytest.param({}, (), id="not seen yet"),
    ],
)
def test_what_volcano_says_of_a_gang_it_did_not_place(status: JsonObject, expected: tuple[Said, ...]) -> None:
    ask = gang_ask(pcs=a_set())
    found = stored(body_of(answer(VOLCANO, ask)), status)
    assert answer(VOLCANO, ask, found).said == expected
    assert answer(VOLCANO, gang_ask(pcs=a_set(), placed=1), found).said == ()


# --- topology --------------------------------------------------------------------------------------------------------


def test_neither_volcano_nor_lpx_packs_at_any_level() -> None:
    pcs = a_set(
        role("a", topology_constraint=ZONE),
        groups=(scaling("g", "a", topology_constraint=ZONE),),
        template={"topology_constraint": ZONE},
    )
    expected = [
        "spec.template.topologyConstraint",
        "spec.template.podCliqueScalingGroups[0].topologyConstraint",
        "spec.template.cliques[0].topologyConstraint",
    ]
    assert [error.path for error in VOLCANO.errors(pcs)] == expected
    assert [error.path for error in LpxBackend().errors(pcs)] == expected


# --- LPX -------------------------------------------------------------------------------------------------------------


def test_lpx_sees_its_name_on_pods_and_nothing_else() -> None:
    lpx = LpxBackend()
    pod: JsonObject = {"metadata": {"name": "x"}, "spec": {"hostname": "x-0", "schedulerName": ""}}
    lpx.prepare_pod(pod, pod_ask())
    assert pod == {"metadata": {"name": "x"}, "spec": {"hostname": "x-0", "schedulerName": "lpx-scheduler"}}
    assert (lpx.mirrors, lpx.queues) == ((), ())
    assert list(lpx.errors(a_set())) == []
    assert lpx.mirror(gang_ask(pcs=a_set()), ()).create == ()
    # What it reads is not known, so it is told of all.
    assert {what for what, can in msgspec.structs.asdict(lpx.can).items() if can} == {"reads_annotations"}
