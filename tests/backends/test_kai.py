"""What KAI gets to see of a gang, what it keeps for itself, and what it says back."""

from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.resources import KAI_PODGROUPS, KAI_QUEUES, KAI_TOPOLOGIES
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PackConstraint, PodCliqueSet, TopologyConstraint
from grove.api.types.scheduler_object import SchedulerObject
from grove.backends.base import ClusterFeatures, SchedulerMessage
from grove.backends.kai import KaiBackend
from tests.backends.asking import (
    a_set,
    answer,
    around,
    body_of,
    gang_ask,
    packed,
    patched,
    pod_ask,
    podgroup,
    queues,
    set_ask,
    stored,
)
from tests.dsl import role, scaling

KAI = KaiBackend()
QUEUE = "kai.scheduler/queue"
RESEARCH = {QUEUE: "research"}


def a_kai_set(*cliques: Any, **fields: Any) -> PodCliqueSet:
    return a_set(*cliques, **{"labels": RESEARCH, **fields})


def made(*podgroups: Any, **fields: Any) -> JsonObject:
    """The PodGroup of a new gang."""
    return body_of(answer(KAI, gang_ask(*podgroups, **{"pcs": a_kai_set(), **fields})))


def spec_of(*podgroups: Any, **fields: Any) -> JsonObject:
    spec: JsonObject = made(*podgroups, **fields)["spec"]
    return spec


# --- the PodGroup ----------------------------------------------------------------------------------------------------


def test_a_gang_becomes_one_podgroup_with_a_subgroup_per_clique() -> None:
    body = made(
        podgroup("p-0-a", 2),
        podgroup("p-0-b", 3),
        spec={"priority_class_name": "high"},
        gang_labels={"team": "x", labels.INCARNATION: "7"},
        annotations={"note": "y", labels.RECREATION: "{}"},
    )
    assert body == {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": "p-0",
            "labels": {"team": "x"},
            "annotations": {"note": "y", "grove.io/asked-fields": "subGroups,stalenessGracePeriod"},
        },
        "spec": {
            "minMember": 5,
            "queue": "research",
            "priorityClassName": "high",
            "subGroups": [{"name": "p-0-a", "minMember": 2}, {"name": "p-0-b", "minMember": 3}],
            "stalenessGracePeriod": "-1s",
        },
    }


def test_topology_at_all_three_levels_is_told_with_parents_before_their_members() -> None:
    spec = spec_of(
        podgroup("p-0-a"),
        podgroup("p-0-g-0-b", 2, packed("host")),
        podgroup("p-0-g-0-c", 1),
        spec={
            "topology_constraint": packed("zone", "block"),
            "topology_constraint_group_configs": (
                around("p-0-g-0", "p-0-g-0-b", "p-0-g-0-c", packed_in=packed(preferred="rack")),
                around("p-0-h-0", "p-0-h-0-d", packed_in=packed("rack")),
            ),
        },
        annotations={labels.TOPOLOGY_NAME: "dc"},
    )
    assert spec["topologyConstraint"] == {
        "topology": "dc",
        "requiredTopologyLevel": "zone",
        "preferredTopologyLevel": "block",
    }
    assert spec["subGroups"] == [
        {
            "name": "p-0-g-0",
            "minSubGroup": 2,
            "topologyConstraint": {"topology": "dc", "preferredTopologyLevel": "rack"},
        },
        {"name": "p-0-a", "minMember": 1},
        {
            "name": "p-0-g-0-b",
            "minMember": 2,
            "parent": "p-0-g-0",
            "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "host"},
        },
        {"name": "p-0-g-0-c", "minMember": 1, "parent": "p-0-g-0"},
    ]


def test_a_topology_of_kais_own_is_named_where_the_binding_refers_to_one() -> None:
    spec = spec_of(
        spec={"topology_constraint": packed("zone")},
        annotations={labels.TOPOLOGY_NAME: "dc"},
        topology_reference="kais-own",
    )
    assert spec["topologyConstraint"]["topology"] == "kais-own"


def test_when_the_binding_is_gone_the_podgroup_keeps_a_topology_that_somebody_else_made() -> None:
    spec = {"topology_constraint": packed("zone")}
    ask = gang_ask(pcs=a_kai_set(), spec=spec, topology_reference="kais-own")
    written = stored(body_of(answer(KAI, ask)))
    lost = gang_ask(pcs=a_kai_set(), spec=spec, is_topology_known=False)
    plan = answer(KAI, lost, written)
    assert (plan.patch, plan.waits) == ((), "")


def test_when_the_binding_is_gone_with_its_topology_the_podgroup_asks_for_none() -> None:
    named: dict[str, Any] = {
        "spec": {"topology_constraint": packed("zone")},
        "annotations": {labels.TOPOLOGY_NAME: "dc"},
    }
    written = stored(body_of(answer(KAI, gang_ask(pcs=a_kai_set(), **named))))
    assert written.spec["topologyConstraint"]["topology"] == "dc"
    lost = gang_ask(pcs=a_kai_set(), is_topology_known=False, **named)
    after = patched(answer(KAI, lost, written))
    assert "topologyConstraint" not in after.spec
    assert (answer(KAI, lost, after).patch, answer(KAI, lost, after).waits) == ((), "")
    # It is back.
    again = answer(KAI, gang_ask(pcs=a_kai_set(), **named), after)
    assert patched(again).spec["topologyConstraint"] == written.spec["topologyConstraint"]


def test_constraints_of_an_unnamed_topology_are_not_offered() -> None:
    ask = gang_ask(pcs=a_kai_set(), spec={"topology_constraint": packed("zone")})
    first = answer(KAI, ask)
    assert answer(KAI, ask, stored(body_of(first))).waits == "no topologyName names the topology of the constraints"


@pytest.mark.parametrize(
    ("pcs", "expected"),
    [
        pytest.param(a_kai_set(), "-1s", id="gang termination is off"),
        pytest.param(a_kai_set(template={"termination_delay": "4h"}), "4h0m0s", id="the set's"),
        pytest.param(
            a_kai_set(
                role("a"),
                groups=(scaling("g", "a", termination_delay="90m"),),
                template={"termination_delay": "1h"},
            ),
            "1h30m0s",
            id="the longest, because KAI has one clock per gang",
        ),
        pytest.param(a_kai_set(template={"termination_delay": "0s"}), "0s", id="at once, as training does"),
    ],
)
def test_kai_ends_a_gang_no_sooner_than_we_do(pcs: PodCliqueSet, expected: str) -> None:
    assert spec_of(pcs=pcs)["stalenessGracePeriod"] == expected


@pytest.mark.parametrize(
    ("spec", "priorities", "expected"),
    [
        pytest.param({"priority_class_name": "set"}, ("own", "own"), "set", id="of the set"),
        pytest.param({}, ("own", "own"), "own", id="of all cliques alike"),
        pytest.param({}, ("own", ""), None, id="of none: cliques differ"),
    ],
)
def test_the_priority_of_a_gang(spec: JsonObject, priorities: tuple[str, ...], expected: str | None) -> None:
    made_spec = spec_of(podgroup("p-0-a"), podgroup("p-0-b"), spec=spec, priorities=priorities)
    assert made_spec.get("priorityClassName") == expected


def test_a_gang_whose_pods_are_all_done_asks_for_one_that_never_comes() -> None:
    """KAI refuses a PodGroup with a minimum of 0."""
    assert spec_of(podgroup("p-0-a", 0))["minMember"] == 1


# --- kept up to date -------------------------------------------------------------------------------------------------


def test_gates_stay_closed_until_the_podgroup_is_there() -> None:
    ask = gang_ask(pcs=a_kai_set())
    first = answer(KAI, ask)
    assert first.waits == "PodGroup p-0 is written first"
    assert answer(KAI, ask, stored(body_of(first))).waits == ""


def test_a_podgroup_that_says_it_all_is_not_written_again() -> None:
    ask = gang_ask(
        podgroup("p-0-a", 0),
        pcs=a_kai_set(template={"termination_delay": "4h"}),
        spec={"topology_constraint": packed("zone")},
        annotations={labels.TOPOLOGY_NAME: "dc"},
    )
    body = body_of(answer(KAI, ask))
    # As clients in Go write it back: zeros left out, empty objects put in, the same time in other words.
    subgroups = [{"name": "p-0-a", "topologyConstraint": {}}]
    found = stored(body, markUnschedulable=True, subGroups=subgroups, stalenessGracePeriod="240m0s")
    assert answer(KAI, ask, found).patch == ()


def test_what_kai_and_others_own_is_kept() -> None:
    ask = gang_ask(pcs=a_kai_set(), gang_labels={QUEUE: "research", "team": "x"})
    body = body_of(answer(KAI, ask))
    body["metadata"]["labels"] = {QUEUE: "moved", "kai.scheduler/node-pool": "a", "theirs": "b"}
    found = stored(body, queue="moved", schedulingBackoff=1, minMember=9, preemptibility="preemptible")
    plan = answer(KAI, ask, found)
    (patch,) = plan.patch
    assert patch.patch == {"metadata": {"labels": {"team": "x"}}, "spec": {"minMember": 1}}
    assert plan.unmet == ('KAI keeps the gang in queue "moved", not "research": the queue of a PodGroup is immutable',)


def test_a_gang_that_changed_changes_its_podgroup_before_another_gate_opens() -> None:
    before = gang_ask(podgroup("p-0-a", 2), pcs=a_kai_set())
    found = stored(body_of(answer(KAI, before)))
    ask = gang_ask(podgroup("p-0-a", 1), podgroup("p-0-b", 1), pcs=a_kai_set())
    plan = answer(KAI, ask, found)
    assert plan.waits == "PodGroup p-0 is brought up to date first"
    after = patched(plan)
    assert after.spec["subGroups"] == [{"name": "p-0-a", "minMember": 1}, {"name": "p-0-b", "minMember": 1}]
    assert answer(KAI, ask, after).patch == ()


def test_constraints_that_are_gone_are_taken_out() -> None:
    """Topology-aware scheduling was switched off."""
    ask = gang_ask(pcs=a_kai_set(), spec={"topology_constraint": packed("zone", "rack")}, topology_reference="dc")
    found = stored(body_of(answer(KAI, ask)))
    narrower = gang_ask(pcs=a_kai_set(), spec={"topology_constraint": packed("zone")}, topology_reference="dc")
    assert patched(answer(KAI, narrower, found)).spec["topologyConstraint"] == {
        "topology": "dc",
        "requiredTopologyLevel": "zone",
    }
    assert "topologyConstraint" not in patched(answer(KAI, gang_ask(pcs=a_kai_set()), found)).spec


def test_constraints_of_a_clique_that_are_gone_are_taken_out_of_its_subgroup() -> None:
    ask = gang_ask(podgroup("p-0-a", 1, packed("rack")), pcs=a_kai_set(), topology_reference="dc")
    found = stored(body_of(answer(KAI, ask)))
    after = patched(answer(KAI, gang_ask(podgroup("p-0-a", 1), pcs=a_kai_set()), found))
    assert after.spec["subGroups"] == [{"name": "p-0-a", "minMember": 1}]


def test_a_version_that_drops_the_grace_period_is_told_once_and_not_written_to_for_ever() -> None:
    ask = gang_ask(pcs=a_kai_set())
    body = body_of(answer(KAI, ask))
    found = stored({**body, "spec": {k: v for k, v in body["spec"].items() if k != "stalenessGracePeriod"}})
    plan = answer(KAI, ask, found)
    assert (plan.patch, plan.waits) == ((), "")
    (unmet,) = plan.unmet
    assert "after its own delay" in unmet


def test_a_version_without_subgroups_gets_no_pods() -> None:
    ask = gang_ask(pcs=a_kai_set())
    body = body_of(answer(KAI, ask))
    found = stored({**body, "spec": {k: v for k, v in body["spec"].items() if k != "subGroups"}})
    plan = answer(KAI, ask, found)
    assert plan.patch == ()
    assert plan.waits.startswith("PodGroups of this version of KAI have no subGroups")


def test_a_podgroup_on_its_way_out_is_waited_for() -> None:
    ask = gang_ask(pcs=a_kai_set())
    body = body_of(answer(KAI, ask))
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    plan = answer(KAI, ask, stored(body))
    assert (plan.create, plan.patch) == ((), ())
    assert plan.waits == "PodGroup p-0 is being deleted; it is created again after that"


def test_a_podgroup_under_another_name_goes() -> None:
    ask = gang_ask(pcs=a_kai_set())
    body = body_of(answer(KAI, ask))
    other = stored({**body, "metadata": {**body["metadata"], "name": "other"}})
    (delete,) = answer(KAI, ask, stored(body), other).delete
    assert delete.existing is other


# --- what KAI says ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        pytest.param(
            {"type": "UnschedulableOnNodePool", "status": "True", "reasons": [{"reason": "OverLimit", "message": "m"}]},
            (SchedulerMessage(message="m", reason="OverLimit"),),
            id="reasons",
        ),
        pytest.param(
            {"type": "UnschedulableOnNodePool", "status": "True", "reason": "Unschedulable", "message": "old"},
            (SchedulerMessage(message="old", reason="Unschedulable"),),
            id="as older versions write it",
        ),
        pytest.param({"type": "UnschedulableOnNodePool", "status": "False", "message": "m"}, (), id="over"),
        pytest.param({"type": "UnschedulableOnNodePool"}, (), id="without words"),
        pytest.param("rubbish", (), id="rubbish"),
    ],
)
def test_what_kai_says_of_a_gang_it_did_not_place(condition: object, expected: tuple[SchedulerMessage, ...]) -> None:
    ask = gang_ask(pcs=a_kai_set())
    found = stored(body_of(answer(KAI, ask)), {"schedulingConditions": [condition]})
    assert answer(KAI, ask, found).messages == expected
    assert answer(KAI, gang_ask(pcs=a_kai_set(), placed=1), found).messages == ()


# --- pods ------------------------------------------------------------------------------------------------------------


def test_a_pod_names_its_group_its_subgroup_and_its_scheduler() -> None:
    shared = {"grove.io/podclique": "p-0-a"}
    pod: JsonObject = {"metadata": {"name": "x", "labels": shared, "annotations": shared}, "spec": {"hostname": "x-0"}}
    KAI.prepare_pod(pod, pod_ask())
    assert pod == {
        "metadata": {
            "name": "x",
            "labels": {**shared, "kai.scheduler/subgroup-name": "p-0-a"},
            "annotations": {**shared, "kai.scheduler/skip-podgrouper": "true", "pod-group-name": "p-0"},
        },
        "spec": {"hostname": "x-0", "schedulerName": "kai-scheduler"},
    }
    assert shared == {"grove.io/podclique": "p-0-a"}


# --- queues ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pcs", "queue"),
    [
        pytest.param(a_set(labels={QUEUE: "a"}, annotations={QUEUE: "b"}), "a", id="label before annotation"),
        pytest.param(a_set(annotations={QUEUE: "b"}), "b", id="annotation"),
        pytest.param(a_set(role("a"), role("b", labels={QUEUE: "c"})), "c", id="the only clique that names one"),
        pytest.param(a_set(role("a", annotations={QUEUE: "c"}), role("b", labels={QUEUE: "c"})), "c", id="agreed"),
        pytest.param(a_set(role("a", labels={QUEUE: "a"}), labels={QUEUE: "a"}), "a", id="set and clique agree"),
    ],
)
def test_the_queue_of_a_set(pcs: PodCliqueSet, queue: str) -> None:
    assert list(KAI.errors(pcs)) == []
    assert spec_of(pcs=pcs)["queue"] == queue


@pytest.mark.parametrize(
    ("pcs", "expected"),
    [
        pytest.param(
            a_set(),
            "metadata.labels[kai.scheduler/queue]: Required value: kai-scheduler needs a queue: write its name",
            id="none",
        ),
        pytest.param(
            a_set(role("a", labels={QUEUE: "x"}), labels={QUEUE: "y"}),
            'spec.template.cliques[0].labels[kai.scheduler/queue]: Invalid value: "x": a gang is in one queue, and '
            'metadata.labels[kai.scheduler/queue] requests "y": write that here',
            id="a clique against the set",
        ),
        pytest.param(
            a_set(role("a", labels={QUEUE: "x"}), role("b", annotations={QUEUE: "y"})),
            'spec.template.cliques[1].annotations[kai.scheduler/queue]: Invalid value: "y": a gang is in one queue, '
            'and spec.template.cliques[0].labels[kai.scheduler/queue] requests "x": write that here',
            id="a clique against another",
        ),
    ],
)
def test_a_set_without_one_clear_queue_is_refused(pcs: PodCliqueSet, expected: str) -> None:
    assert [str(error) for error in KAI.errors(pcs)] == [expected]


def _topological(pcs: PodCliqueSet) -> PodCliqueSet:
    constraint = TopologyConstraint(topology_name="dc", pack=PackConstraint(required="zone"))
    template = msgspec.structs.replace(pcs.spec.template, topology_constraint=constraint)
    return msgspec.structs.replace(pcs, spec=msgspec.structs.replace(pcs.spec, template=template))


@pytest.mark.parametrize(
    ("pcs", "features", "expected"),
    [
        pytest.param(a_kai_set(), ClusterFeatures(queues=queues(KAI_QUEUES, research="")), "", id="all there"),
        pytest.param(
            a_kai_set(),
            ClusterFeatures(missing=frozenset({KAI_PODGROUPS.full_name, KAI_QUEUES.full_name})),
            "the API server does not serve podgroups.scheduling.run.ai, queues.scheduling.run.ai: install KAI",
            id="KAI is not installed",
        ),
        pytest.param(
            a_kai_set(),
            ClusterFeatures(queues=queues(KAI_QUEUES, other="")),
            'queue "research" not found: create it, or correct metadata.labels[kai.scheduler/queue]',
            id="unknown queue",
        ),
        pytest.param(
            _topological(a_kai_set()),
            ClusterFeatures(missing=frozenset({KAI_TOPOLOGIES.full_name}), queues=queues(KAI_QUEUES, research="")),
            "the API server does not serve topologies.kai.scheduler: install KAI",
            id="topology without its kind",
        ),
        pytest.param(
            a_kai_set(),
            ClusterFeatures(missing=frozenset({KAI_TOPOLOGIES.full_name}), queues=queues(KAI_QUEUES, research="")),
            "",
            id="no topology asked for",
        ),
    ],
)
def test_no_gang_is_offered_to_a_kai_that_cannot_place_it(
    pcs: PodCliqueSet, features: ClusterFeatures, expected: str
) -> None:
    assert KAI.hold(set_ask(pcs), features) == expected


def test_mirrors_are_found_again_by_their_name() -> None:
    ask = gang_ask(pcs=a_kai_set())
    foreign = SchedulerObject(metadata=stored(body_of(answer(KAI, ask))).metadata)
    assert [one.name for one in KAI.plan_objects(ask, ((KAI_QUEUES, foreign),)).create] == ["p-0"]
