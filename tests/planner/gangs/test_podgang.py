"""PodGangs as their schedulers should see them."""

import msgspec
import pytest

from grove.api import labels
from grove.api.reasons import EventReason
from grove.api.resources import PODCLIQUES, PODGANGS, PODS
from grove.api.types.meta import NamespacedName
from grove.api.types.podgang import PodGang, PodGangSpec, PodGangStatus, PodGroup
from grove.backends.native_podgroups import NativeFeatures
from grove.backends.registry import Backends
from grove.planner.actions import Create, EventRecord, Patch
from grove.planner.child_manifests import build_gang
from grove.planner.desired_state import build_desired_replica
from grove.planner.gangs.podgang import GangContent, build_gang_spec, plan_gang_object, referenced_names, was_placed
from grove.planner.plan import plan
from grove.planner.pods.pod_sync import CliquePods
from grove.planner.snapshot import ClusterContext, build_context
from tests.dsl import (
    NOW,
    World,
    actions,
    appendix_a,
    clique,
    context,
    gang,
    pcs,
    pod,
    replica,
    role,
    run_to_rest,
    service,
    snapshot,
    told,
)

CTX = context(pcs(role("a", 2), role("b")))
BASE = build_desired_replica(CTX, 0, {}).base


def podgroup(name: str, *pods: str, needs: int) -> PodGroup:
    references = tuple(NamespacedName(namespace="default", name=one) for one in pods)
    return PodGroup(name=name, pod_references=references, min_replicas=needs)


SPEC = PodGangSpec(podgroups=(podgroup("p-0-a", "x", "y", needs=1), podgroup("p-0-b", needs=1)))


def decide(current: PodGang | None, spec: PodGangSpec = SPEC) -> Create | Patch | None:
    return plan_gang_object(CTX, 0, BASE, current, GangContent(spec=spec, incarnation="1"))


def existing(spec: PodGangSpec) -> PodGang:
    return msgspec.structs.replace(gang(), spec=spec)


def test_a_gang_has_a_podgroup_per_clique_with_its_minimum_and_the_names_of_its_pods() -> None:
    cliques = {"p-0-a": clique(replicas=3, needs=2), "p-0-b": clique(name="p-0-b", replicas=1)}
    pods = {"p-0-a": CliquePods(names=("x", "y")), "p-0-b": CliquePods()}
    high = context(pcs(role("a", 2), role("b"), template={"priority_class_name": "high"}))
    assert build_gang_spec(high, BASE, cliques, pods) == PodGangSpec(
        podgroups=(podgroup("p-0-a", "x", "y", needs=2), podgroup("p-0-b", needs=1)), priority_class_name="high"
    )
    assert build_gang_spec(CTX, BASE, cliques, pods).priority_class_name is None


def test_the_minimum_follows_the_clique_that_exists_not_the_template() -> None:
    cliques = {"p-0-a": clique(replicas=9, needs=4), "p-0-b": clique(name="p-0-b", replicas=2)}
    spec = build_gang_spec(CTX, BASE, cliques, {"p-0-a": CliquePods(), "p-0-b": CliquePods()})
    assert [group.min_replicas for group in spec.podgroups] == [4, 2]


def test_a_missing_gang_is_created_with_the_names_of_pods_that_do_not_exist_yet() -> None:
    body = build_gang(CTX, 0, BASE, spec=msgspec.to_builtins(SPEC), incarnation="1")
    body["spec"] = {
        "podgroups": [
            {
                "name": "p-0-a",
                "podReferences": [{"namespace": "default", "name": "x"}, {"namespace": "default", "name": "y"}],
                "minReplicas": 1,
            },
            {"name": "p-0-b", "podReferences": [], "minReplicas": 1},
        ],
        "topologyConstraintGroupConfigs": [],
    }
    assert decide(None) == Create(
        resource=PODGANGS,
        namespace="default",
        name="p-0",
        body=body,
        failure_key="podgangs/p-0",
        reason="gang p-0 names its pods before they are created",
        on_success=EventRecord(
            subject=CTX.subject, reason=EventReason.GANG_SYNCED, message="created PodGang", names=("p-0",)
        ),
    )


def test_a_gang_that_is_right_is_left_alone() -> None:
    assert decide(existing(SPEC)) is None


def test_fields_a_scheduler_wrote_stay() -> None:
    theirs = msgspec.structs.replace(SPEC, reuse_reservation_ref=NamespacedName(namespace="default", name="old"))
    assert decide(existing(theirs)) is None


def test_only_what_changed_is_patched_and_only_on_the_version_that_was_seen() -> None:
    old = msgspec.structs.replace(SPEC, podgroups=SPEC.podgroups[:1])
    assert decide(existing(old)) == Patch(
        resource=PODGANGS,
        namespace="default",
        name="p-0",
        uid=gang().metadata.uid,
        resource_version="1",
        patch={
            "spec": {
                "podgroups": [
                    {
                        "name": "p-0-a",
                        "podReferences": [{"namespace": "default", "name": "x"}, {"namespace": "default", "name": "y"}],
                        "minReplicas": 1,
                    },
                    {"name": "p-0-b", "podReferences": [], "minReplicas": 1},
                ]
            }
        },
        reason="gang p-0 is updated to match its cliques",
    )


def test_a_priority_class_comes_and_goes_with_the_set() -> None:
    high = msgspec.structs.replace(SPEC, priority_class_name="high")
    added, removed = decide(existing(SPEC), high), decide(existing(high))
    assert isinstance(added, Patch)
    assert isinstance(removed, Patch)
    assert added.patch == {"spec": {"priorityClassName": "high"}}
    assert removed.patch == {"spec": {"priorityClassName": None}}


def test_the_references_of_a_clique_are_found_by_its_name() -> None:
    stored = gang(clique(pod(0, name="x"), pod(1, name="y")), clique(pod(0, name="z"), name="p-0-b"))
    assert referenced_names(stored, "p-0-a") == ("x", "y")
    assert referenced_names(stored, "p-0-b") == ("z",)
    assert referenced_names(stored, "p-0") == ()
    assert referenced_names(None, "p-0-a") == ()


def test_every_pod_is_referenced_before_it_is_created() -> None:
    world = World(appendix_a())

    def check(world: World, decided: object) -> None:
        for one in world.all(PODGANGS):
            referenced = {ref.name for podgroup in one.spec.podgroups for ref in podgroup.pod_references}
            created = {
                pod.metadata.name
                for pod in world.all(PODS)
                if pod.metadata.labels["grove.io/podgang"] == one.metadata.name
            }
            assert created <= referenced

    run_to_rest(world, check=check)
    world.edit(PODCLIQUES, "p-0-a", {"spec": {"replicas": 4}})
    run_to_rest(world, check=check)
    assert len(world.names(PODS)) == 8


def test_one_write_names_all_new_pods_of_a_gang() -> None:
    world = World(pcs(role("a", 50), role("b", 50)))
    lines = [line for decided in run_to_rest(world) for line in told(decided) if "podgangs/" in line]
    assert lines == ["p-0 0: create podgangs/p-0 (gang p-0 names its pods before they are created)"]


def test_a_new_label_of_the_set_reaches_its_gangs_and_nothing_of_others_is_taken_away() -> None:
    a = clique(pod(0))
    shown = gang(a, labels={"team": "red", "scheduler": "mine", "grove.io/incarnation": "1"})
    observed = pcs(role("a"), labels={"team": "blue"}, annotations={"queue": "q1", "grove.io/ours": "stays"})
    decided = plan(snapshot(observed, replica(a, gangs=(shown,), services=(service(),))), NOW)
    (patch,) = [action for action in actions(decided) if isinstance(action, Patch)]
    assert patch.patch == {"metadata": {"labels": {"team": "blue"}, "annotations": {"queue": "q1"}}}


TOUCHED = pcs(role("a"), annotations={"touched": "yes"})
NO_READER = ClusterContext(backends=Backends(features=NativeFeatures(reads_gangs=False)))
READER = ClusterContext(backends=Backends(features=NativeFeatures(reads_gangs=True)))


@pytest.mark.parametrize(("cluster", "is_told"), [(NO_READER, False), (READER, True)])
def test_a_touched_annotation_is_told_at_once_to_a_scheduler_that_may_read_it(
    cluster: ClusterContext, is_told: bool
) -> None:
    a = clique(pod(0))
    seen = snapshot(TOUCHED, replica(a, gangs=(gang(a),), services=(service(),)))
    seen = msgspec.structs.replace(seen, context=build_context(TOUCHED, cluster))
    patches = [action.patch for action in actions(plan(seen, NOW)) if isinstance(action, Patch)]
    assert patches == ([{"metadata": {"annotations": {"touched": "yes"}}}] if is_told else [])


def test_a_touched_annotation_comes_with_the_next_change() -> None:
    a = clique(pod(0))
    older = msgspec.structs.replace(gang(a), spec=PodGangSpec())
    seen = snapshot(TOUCHED, replica(a, gangs=(older,), services=(service(),)))
    seen = msgspec.structs.replace(seen, context=build_context(TOUCHED, NO_READER))
    (patch,) = [action.patch for action in actions(plan(seen, NOW)) if isinstance(action, Patch)]
    assert (patch["metadata"], list(patch["spec"])) == ({"annotations": {"touched": "yes"}}, ["podgroups"])


KAI_ONLY = ClusterContext(backends=Backends(enabled=("kai-scheduler",), default="kai-scheduler"))


@pytest.mark.parametrize("cluster", [NO_READER, READER, KAI_ONLY], ids=["no-reader", "reader", "kai"])
def test_what_is_ours_to_say_is_not_taken_from_the_set(cluster: ClusterContext) -> None:
    observed = pcs(
        role("a"),
        labels={"kai.scheduler/queue": "q", labels.MANAGED_BY: "Helm", labels.PART_OF: "chart", labels.COMPONENT: "x"},
        annotations={"kai.scheduler/skip-podgrouper": "false"},
    )
    known = build_context(observed, cluster)
    a = clique(pod(0))
    made = build_gang(known, 0, build_desired_replica(known, 0, {}).base, spec={}, incarnation="1")["metadata"]
    assert (made["labels"][labels.MANAGED_BY], made["labels"][labels.PART_OF]) == (labels.MANAGED_BY_VALUE, "p")
    shown = gang(a, labels=made["labels"], annotations=made["annotations"])
    seen = snapshot(observed, replica(a, gangs=(shown,), services=(service(),)))
    seen = msgspec.structs.replace(seen, context=known)
    assert [action for action in actions(plan(seen, NOW)) if action.resource is PODGANGS] == []


@pytest.mark.parametrize(
    ("stored", "life", "is_placed"),
    [
        pytest.param("1", "1", True, id="in this incarnation"),
        pytest.param(None, "1", False, id="never"),
        pytest.param("0", "1", False, id="in an earlier incarnation"),
        pytest.param("1", "1.1", False, id="its cliques are of a later one"),
    ],
)
def test_a_gang_was_placed_if_it_was_scheduled_in_the_incarnation_of_its_cliques(
    stored: str | None, life: str, is_placed: bool
) -> None:
    view = clique(pod(0), labels={labels.INCARNATION: life})
    assert was_placed(gang(view, status=PodGangStatus(placed_incarnation=stored)), (view,)) is is_placed
    assert not was_placed(None, (view,))
