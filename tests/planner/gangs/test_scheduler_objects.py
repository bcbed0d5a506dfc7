"""What a scheduler has of a gang, as the planner keeps it: held back, written first, followed, and pods made anew."""

from typing import Any

import msgspec

from grove.api import labels
from grove.api.reasons import FindingReason
from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS, PODGANGS, PODS
from grove.api.types.meta import JsonObject
from grove.api.types.pod import Pod, SchedulingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.scheduler_object import SchedulerObject
from grove.backends.base import (
    ClusterFeatures,
    NewSchedulerObject,
    SchedulerObjectDelete,
    SchedulerObjectPatch,
    SchedulerObjectPlan,
)
from grove.backends.native_podgroups import NativeFeatures
from grove.backends.registry import Backends
from grove.planner.actions import Action, Create, Delete, Patch, Plan
from grove.planner.gangs.scheduler_objects import build_pod_input, scheduler_object_stages
from grove.planner.plan import plan
from grove.planner.snapshot import ClusterContext, Snapshot, build_context
from grove.planner.views import CliqueView
from tests.dsl import NOW, actions, clique, gang, gated, pcs, pod, replica, role, service, snapshot

BACKENDS = Backends(features=NativeFeatures(groups=True, composites=True))
NATIVE = ClusterContext(backends=BACKENDS)
WITHOUT_KINDS = ClusterContext(
    backends=BACKENDS, features=ClusterFeatures(missing=frozenset({NATIVE_PODGROUPS.full_name}))
)
OFF = ClusterContext(backends=Backends(features=NativeFeatures(why="no gangs here")))
PAIR = pcs(role("a", 2), role("b"))


def seen(
    *cliques: CliqueView,
    observed: PodCliqueSet = PAIR,
    cluster: ClusterContext = NATIVE,
    scheduler_objects: tuple[tuple[Any, SchedulerObject], ...] = (),
    is_stored: bool = True,
) -> Snapshot:
    """A set with one replica, as it was observed: with its gang if that is stored."""
    gangs = (gang(*cliques),) if is_stored else ()
    view = replica(*cliques, gangs=gangs, services=(service(),))
    view = msgspec.structs.replace(
        view, scheduler_objects={gangs[0].metadata.uid: scheduler_objects} if gangs and scheduler_objects else {}
    )
    found = snapshot(observed, view)
    return msgspec.structs.replace(found, context=build_context(observed, cluster))


def decide(found: Snapshot) -> Plan:
    return plan(found, NOW)


def told(found: Snapshot) -> list[str]:
    return [f"{type(one).__name__.lower()} {one.resource.plural}" for one in actions(decide(found))]


def a(*pods: Pod, **fields: Any) -> CliqueView:
    return clique(*pods, **{"replicas": 2, "needs": 2, **fields})


def b(*pods: Pod, **fields: Any) -> CliqueView:
    return clique(*pods, name="p-0-b", **{"replicas": 1, "needs": 1, **fields})


def grouped(one: Pod, view: CliqueView, cluster: ClusterContext = NATIVE) -> Pod:
    """In the group that its place asks for."""
    backend = build_context(PAIR, cluster).backend
    index = int(one.metadata.labels[labels.POD_INDEX])
    name = backend.group_of(build_pod_input(gang(view), view, index))
    return msgspec.structs.replace(
        one, spec=msgspec.structs.replace(one.spec, scheduling_group=SchedulingGroup(pod_group_name=name))
    )


def whole(make: Any = gated) -> tuple[CliqueView, CliqueView]:
    """Every pod of the pair, each in its group."""
    first = a(*(grouped(make(index), a()) for index in range(2)))
    second = b(grouped(make(0, clique="p-0-b"), b()))
    return first, second


def written(found: Snapshot) -> tuple[tuple[Any, SchedulerObject], ...]:
    """All mirrors that the plan creates, as a server keeps them."""
    return tuple(
        (
            one.resource,
            msgspec.convert({**one.body, "metadata": {**one.body["metadata"], "uid": one.name}}, SchedulerObject),
        )
        for one in actions(decide(found))
        if isinstance(one, Create) and one.resource in (NATIVE_PODGROUPS, NATIVE_COMPOSITES)
    )


def test_nothing_is_written_for_a_scheduler_before_the_gang_is_stored() -> None:
    assert "create podgangs" in told(seen(a(), b(), is_stored=False))
    assert not {"create podgroups", "create pods"} & set(told(seen(a(), b(), is_stored=False)))


def test_groups_belong_to_their_gang() -> None:
    creates = [one for one in actions(decide(seen(a(), b()))) if one.resource is NATIVE_PODGROUPS]
    assert creates
    for one in creates:
        assert isinstance(one, Create)
        (owner,) = one.body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("PodGang", "p-0", True)
        assert one.body["metadata"]["namespace"] == "default"


def test_a_gate_waits_until_its_groups_are_written() -> None:
    before = seen(*whole())
    assert "patch pods" not in told(before)
    (finding,) = (one for one in decide(before).findings if one.reason is FindingReason.SCHEDULER_OBJECT_PENDING)
    assert "is written first" in finding.message
    after = seen(*whole(), scheduler_objects=written(before))
    assert told(after).count("patch pods") == 3


def test_a_missing_kind_holds_the_set_without_a_pod() -> None:
    found = seen(a(), b(), cluster=WITHOUT_KINDS)
    assert not {"create pods", "create podgroups"} & set(told(found))
    (finding,) = (one for one in decide(found).findings if one.reason is FindingReason.MISSING_DEPENDENCY)
    assert NATIVE_PODGROUPS.full_name in finding.message


def test_a_hold_closes_gates_of_what_was_never_placed() -> None:
    first, second = whole()
    groups = written(seen(first, second))
    assert "patch pods" not in told(seen(first, second, cluster=WITHOUT_KINDS, scheduler_objects=groups))


def test_a_waiting_pod_in_a_group_that_is_not_kept_is_made_anew() -> None:
    first, second = a(gated(0), grouped(gated(1), a())), whole()[1]
    groups = written(seen(first, second))
    deleted = [one for one in actions(decide(seen(first, second, scheduler_objects=groups))) if isinstance(one, Delete)]
    assert [one.name for one in deleted] == [first.active[0].metadata.name]
    assert "scheduling group" in deleted[0].reason


def test_a_pod_on_a_node_stays_whatever_group_it_names() -> None:
    first, second = a(pod(0), pod(1)), b(pod(0, clique="p-0-b"))
    assert "delete pods" not in told(seen(first, second))


def test_where_gangs_are_switched_off_waiting_pods_leave_their_groups() -> None:
    assert told(seen(*whole(), cluster=OFF)).count("delete pods") == 3


def test_a_waiting_pod_above_the_minimum_makes_room_for_one_below_it() -> None:
    """Only the places below make a gang: with one of them empty it would wait for ever."""
    observed = pcs(role("a", 2, needs=2), role("b"))
    first = a(grouped(gated(0), a()), grouped(gated(3), a()))
    found = seen(first, whole()[1], observed=observed)
    deleted = [one for one in actions(decide(found)) if isinstance(one, Delete)]
    assert [one.name for one in deleted] == [first.active[1].metadata.name]
    created = [one for one in actions(decide(found)) if isinstance(one, Create) and one.resource is PODS]
    assert [one.body["metadata"]["labels"][labels.POD_INDEX] for one in created] == ["1"]


def test_a_pod_above_the_minimum_that_runs_keeps_its_place() -> None:
    first = a(grouped(pod(0), a()), grouped(pod(3), a()))
    assert "delete pods" not in told(seen(first, whole()[1]))


def test_where_gangs_are_switched_off_the_set_says_so() -> None:
    found = decide(seen(*whole(pod), cluster=OFF))
    (finding,) = (one for one in found.findings if one.reason is FindingReason.NOT_AS_A_GANG)
    assert finding.message == "no gangs here"


def test_what_the_scheduler_says_stands_in_the_gangs_condition_while_it_waits() -> None:
    first, second = whole()
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
    groups = tuple(
        (kind, msgspec.structs.replace(one, status={"conditions": [condition]}))
        for kind, one in written(seen(first, second))
    )
    decided = decide(seen(first, second, scheduler_objects=groups))
    (finding,) = (one for one in decided.findings if one.reason is FindingReason.DOES_NOT_FIT)
    assert "full" in finding.message
    (status,) = (one for one in decided.statuses if one.resource is PODGANGS)
    patched = msgspec.convert(status.patch["conditions"], tuple[_Told, ...])
    (scheduled,) = (one for one in patched if one.type == "Scheduled")
    assert "full" in scheduled.message


class _Told(msgspec.Struct, frozen=True):
    type: str
    message: str = ""


def test_what_goes_comes_before_what_is_made_anew_under_its_name() -> None:
    one = msgspec.convert({"metadata": {"name": "r", "namespace": "default", "uid": "u"}}, SchedulerObject)
    body: JsonObject = {"metadata": {"name": "r"}, "spec": {}}
    decided = SchedulerObjectPlan(
        create=(NewSchedulerObject(resource=NATIVE_COMPOSITES, name="r", body=body),),
        patch=(SchedulerObjectPatch(resource=NATIVE_PODGROUPS, existing=one, patch={"spec": {}}, reason="lower"),),
        delete=(SchedulerObjectDelete(resource=NATIVE_COMPOSITES, existing=one, reason="swapped"),),
    )
    first, second = scheduler_object_stages(gang(), decided)
    kinds: list[type[Action]] = [type(action) for action in (*first, *second)]
    assert kinds == [Delete, Create, Patch]
    assert scheduler_object_stages(None, decided) == ((), ())
