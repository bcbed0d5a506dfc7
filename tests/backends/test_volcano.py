"""What Volcano gets to see of a gang, which queue it is in, and what it says back. LPX, which gets to see nothing."""

from typing import Any

import msgspec
import pytest

from grove.api.resources import VOLCANO_PODGROUPS, VOLCANO_QUEUES
from grove.api.types.meta import JsonObject, Uid
from grove.api.types.podcliqueset import PackConstraint, PodCliqueSet, TopologyConstraint
from grove.api.types.scheduler_object import SchedulerObject
from grove.backends.base import CliqueInput, ClusterFeatures, GangInput, SchedulerMessage
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
        "minResources": {"cpu": "500m", "memory": "5Gi"},
        "queue": "default",
        "priorityClassName": "high",
        "subGroupPolicy": [
            {
                "name": "p-0-a",
                "labelSelector": {
                    "matchLabels": {"grove.io/podclique": "p-0-a", "grove.io/podclique-uid": "uid-of-p-0-a"}
                },
                "matchLabelKeys": ["grove.io/podclique"],
                "subGroupSize": 2,
                "minSubGroups": 1,
            },
            {
                "name": "p-0-b",
                "labelSelector": {
                    "matchLabels": {"grove.io/podclique": "p-0-b", "grove.io/podclique-uid": "uid-of-p-0-b"}
                },
                "matchLabelKeys": ["grove.io/podclique"],
                "subGroupSize": 3,
                "minSubGroups": 1,
            },
        ],
    }


def sizes(spec: JsonObject) -> list[tuple[int, int]]:
    return [(one["subGroupSize"], one["minSubGroups"]) for one in spec["subGroupPolicy"]]


def test_a_clique_whose_pods_are_all_done_is_waited_for_by_nobody() -> None:
    spec = made(podgroup("p-0-a", 0))["spec"]
    assert spec["minMember"] == 1
    assert sizes(spec) == [(1, 0)]


def test_a_podgroup_that_says_it_all_is_not_written_again() -> None:
    ask = gang_ask(podgroup("p-0-a", 2), podgroup("p-0-b", 0), pcs=a_set())
    body = body_of(answer(VOLCANO, ask))
    policies = [{**one, "networkTopology": {"mode": "hard"}} for one in body["spec"]["subGroupPolicy"]]
    # The same amounts in other words.
    found = stored(body, subGroupPolicy=policies, minResources={"cpu": "0.2", "memory": "2048Mi"})
    plan = answer(VOLCANO, ask, found)
    assert (plan.patch, plan.waits) == ((), "")


def test_what_others_wrote_into_a_policy_stays_when_it_changes() -> None:
    ask = gang_ask(podgroup("p-0-a", 2), pcs=a_set())
    body = body_of(answer(VOLCANO, ask))
    theirs = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    found = stored(body, subGroupPolicy=[{**one, **theirs} for one in body["spec"]["subGroupPolicy"]])
    (policy,) = patched(answer(VOLCANO, gang_ask(podgroup("p-0-a", 3), pcs=a_set()), found)).spec["subGroupPolicy"]
    assert policy == {**body["spec"]["subGroupPolicy"][0], "subGroupSize": 3, **theirs}


# --- after the first placement ---------------------------------------------------------------------------------------


PAIR = (podgroup("p-0-a", 2), podgroup("p-0-b", 3))
STRICT, RELAXED = [(2, 1), (3, 1)], [(1, 0), (1, 0)]


def pair(*placed: int, **fields: Any) -> GangInput:
    """A gang with a minimum of two and one of three, of which so many are on nodes; `fields` are those of cliques."""
    ask = gang_ask(*PAIR, pcs=a_set())
    cliques = tuple(
        msgspec.structs.replace(clique, placed_count=count, **fields)
        for clique, count in zip(ask.cliques, placed or (0, 0), strict=True)
    )
    return msgspec.structs.replace(ask, cliques=cliques)


def again(ask: GangInput, *names: str) -> GangInput:
    """These cliques were made again, together."""
    cliques = tuple(_made_again(one) if one.name in names else one for one in ask.cliques)
    return msgspec.structs.replace(ask, cliques=cliques)


def _made_again(clique: CliqueInput) -> CliqueInput:
    return msgspec.structs.replace(clique, uid=Uid(f"new-{clique.name}"), incarnation="2", placed_count=0)


RELAXED_GROUP = patched(answer(VOLCANO, pair(2, 3), stored(body_of(answer(VOLCANO, pair())))))


def spec_after(ask: GangInput, found: SchedulerObject) -> JsonObject:
    plan = answer(VOLCANO, ask, found)
    return patched(plan).spec if plan.patch else found.spec


def test_a_gang_that_was_placed_asks_for_nothing_more() -> None:
    assert (RELAXED_GROUP.spec["minMember"], sizes(RELAXED_GROUP.spec)) == (1, RELAXED)
    # What it holds in its queue, it keeps.
    assert RELAXED_GROUP.spec["minResources"] == {"cpu": "500m", "memory": "5Gi"}


@pytest.mark.parametrize("placed", [(0, 0), (2, 2), (1, 3)])
def test_a_gang_of_which_a_part_was_placed_waits_for_all_of_it(placed: tuple[int, int]) -> None:
    found = stored(body_of(answer(VOLCANO, pair())))
    assert answer(VOLCANO, pair(*placed), found).patch == ()


@pytest.mark.parametrize("placed", [(0, 0), (1, 3), (2, 3)])
def test_what_a_relaxed_gang_loses_does_not_make_it_strict(placed: tuple[int, int]) -> None:
    assert answer(VOLCANO, pair(*placed), RELAXED_GROUP).patch == ()


def test_the_next_incarnation_is_placed_as_a_whole_before_a_gate_opens() -> None:
    ask = again(pair(), "p-0-a", "p-0-b")
    plan = answer(VOLCANO, ask, RELAXED_GROUP)
    assert plan.waits == "PodGroup p-0 is brought up to date first"
    assert (patched(plan).spec["minMember"], sizes(patched(plan).spec)) == (5, STRICT)


def test_a_part_that_was_made_again_is_placed_as_a_whole_and_the_rest_stays_relaxed() -> None:
    spec = spec_after(again(pair(2, 3), "p-0-b"), RELAXED_GROUP)
    assert (spec["minMember"], sizes(spec)) == (3, [(1, 0), (3, 1)])


def test_a_podgroup_that_somebody_deleted_comes_back_as_relaxed_as_it_was() -> None:
    spec = body_of(answer(VOLCANO, pair(1, 0)))["spec"]
    assert (spec["minMember"], sizes(spec)) == (1, RELAXED)


# --- pods that were made before the label ----------------------------------------------------------------------------


def uids(spec: JsonObject) -> list[str]:
    return [one["labelSelector"]["matchLabels"].get("grove.io/podclique-uid", "") for one in spec["subGroupPolicy"]]


def test_a_clique_with_pods_without_the_label_is_selected_by_name_alone() -> None:
    spec = body_of(answer(VOLCANO, pair(has_unlabelled=True)))["spec"]
    assert (uids(spec), sizes(spec)) == (["", ""], STRICT)


def test_when_the_last_pod_without_the_label_is_gone_the_clique_is_still_relaxed() -> None:
    old = patched(answer(VOLCANO, pair(2, 3, has_unlabelled=True), stored(body_of(answer(VOLCANO, pair())))))
    assert (uids(old.spec), sizes(old.spec)) == (["", ""], RELAXED)
    spec = spec_after(pair(1, 2), old)
    assert (uids(spec), sizes(spec)) == (["uid-of-p-0-a", "uid-of-p-0-b"], RELAXED)


def test_the_next_incarnation_after_pods_without_the_label_is_strict() -> None:
    old = patched(answer(VOLCANO, pair(2, 3, has_unlabelled=True), stored(body_of(answer(VOLCANO, pair())))))
    spec = spec_after(again(pair(), "p-0-a", "p-0-b"), old)
    assert (uids(spec), sizes(spec)) == (["new-p-0-a", "new-p-0-b"], STRICT)


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
            "labels": {"grove.io/podclique-uid": "u"},
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
                    f'metadata.annotations[{QUEUE}]: Invalid value: "Not/Good": '
                    "must have at most 253 characters a-z, 0-9, - and "
                    "., and begin and end with a letter or digit"
                )
            ],
            id="not a name",
        ),
        pytest.param(
            a_set(role("a", annotations={QUEUE: "x"}), annotations={QUEUE: "y"}),
            [
                (
                    f'spec.template.cliques[0].annotations[{QUEUE}]: Invalid value: "x": a gang is in one queue, and '
                    f'metadata.annotations[{QUEUE}] requests "y": write that here'
                )
            ],
            id="a clique against the set",
        ),
        pytest.param(
            a_set(role("a"), role("b", annotations={QUEUE: "x"})),
            [
                (
                    f'spec.template.cliques[0].annotations[{QUEUE}]: Required value: other cliques request queue "x": '
                    "write it here too, or once on the set"
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
    ("features", "expected"),
    [
        pytest.param(ClusterFeatures(queues=queues(VOLCANO_QUEUES, gold="Open")), "", id="open"),
        pytest.param(
            ClusterFeatures(queues=queues(VOLCANO_QUEUES, gold="Closed")),
            f'queue "gold" is Closed: open it, or correct metadata.annotations[{QUEUE}]',
            id="closed",
        ),
        pytest.param(
            ClusterFeatures(queues=queues(VOLCANO_QUEUES, gold="")),
            f'queue "gold" is not open yet: open it, or correct metadata.annotations[{QUEUE}]',
            id="so new that Volcano has not seen it",
        ),
        pytest.param(
            ClusterFeatures(queues=queues(VOLCANO_QUEUES, other="Open")),
            f'queue "gold" not found: create it, or correct metadata.annotations[{QUEUE}]',
            id="unknown",
        ),
        pytest.param(
            ClusterFeatures(missing=frozenset({VOLCANO_PODGROUPS.full_name})),
            "the API server does not serve podgroups.scheduling.volcano.sh: install Volcano",
            id="Volcano is not installed",
        ),
    ],
)
def test_no_gang_is_offered_to_a_volcano_that_cannot_place_it(features: ClusterFeatures, expected: str) -> None:
    assert VOLCANO.hold(set_ask(a_set(annotations={QUEUE: "gold"})), features) == expected


# --- what Volcano says -----------------------------------------------------------------------------------------------

FULL = 'queue "default" has not admitted it yet: its minimum needs more than the queue or the cluster has left'


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
            (SchedulerMessage(message="3/5", reason="NotEnoughResources"),),
            id="unschedulable",
        ),
        pytest.param(
            {"phase": "Pending"},
            (SchedulerMessage(message=FULL, reason="Pending", is_queued=True),),
            id="not in its queue",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "3/5"}
                ],
            },
            (SchedulerMessage(message=FULL, reason="Pending", is_queued=True),),
            id="not in its queue, and so unschedulable",
        ),
        pytest.param(
            {
                "phase": "Running",
                "conditions": [
                    {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "3/5"}
                ],
            },
            (),
            id="unschedulable before it ran",
        ),
        pytest.param({"phase": "Inqueue"}, (), id="nothing yet"),
        pytest.param({}, (), id="not seen yet"),
    ],
)
def test_what_volcano_says_of_a_gang_it_did_not_place(
    status: JsonObject, expected: tuple[SchedulerMessage, ...]
) -> None:
    ask = gang_ask(pcs=a_set())
    found = stored(body_of(answer(VOLCANO, ask)), status)
    assert answer(VOLCANO, ask, found).messages == expected
    assert answer(VOLCANO, gang_ask(pcs=a_set(), placed=1), found).messages == ()


# --- pods without requests -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "is_ganged"),
    [
        ({}, False),
        ({"requests": {"cpu": "0"}}, False),
        ({"requests": {"cpu": "1m"}}, True),
        ({"limits": {"nvidia.com/gpu": 8}}, True),
    ],
)
def test_pods_that_request_nothing_are_not_ganged_and_the_set_says_so(resources: JsonObject, is_ganged: bool) -> None:
    pod = {"containers": [{"name": "main", "image": "pause", "resources": resources}]}
    plan = answer(VOLCANO, gang_ask(pcs=a_set(role("a", pod=pod))))
    words = (
        "volcano does not wait for the pods of a when it places a gang, because they request no resources: "
        "request cpu or memory in every clique"
    )
    assert plan.gangless == (() if is_ganged else (words,))


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
    assert (lpx.object_kinds, lpx.queues) == ((), ())
    assert list(lpx.errors(a_set())) == []
    assert lpx.plan_objects(gang_ask(pcs=a_set()), ()).create == ()
    # What it reads is not known, so it is told of all.
    assert {what for what, capabilities in msgspec.structs.asdict(lpx.capabilities).items() if capabilities} == {
        "reads_annotations"
    }
