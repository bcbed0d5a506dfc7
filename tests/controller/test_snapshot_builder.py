"""From the caches to a snapshot: what wakes whom, and what is counted again."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.resources import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    GROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    SERVICES,
    Resource,
)
from grove.api.types.horizontalpodautoscaler import AutoscalerSpec, AutoscalerStatus, HorizontalPodAutoscaler
from grove.api.types.meta import OwnerReference, Uid
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliqueset import PodCliqueSet
from grove.backends.registry import Backends
from grove.controller.informers import Caches
from grove.controller.rejected_creates import RejectedCreates
from grove.controller.snapshot_builder import Observer
from grove.planner.plan import plan
from grove.planner.plan_cache import PlanCache
from grove.planner.snapshot import Snapshot
from tests.dsl import NOW, SET_UID, World, appendix_a, at, pcs, role, run_to_rest


class Eyes:
    """An observer over caches that hold what a settled world holds; `woken` collects whom it woke."""

    def __init__(self, observed: PodCliqueSet | None = None) -> None:
        self.caches = Caches()
        self.failures = RejectedCreates()
        self.woken: list[Uid] = []
        self.observer = Observer(self.caches, self.failures, self.woken.append)
        self.world = World(observed or appendix_a(replicas=2))
        run_to_rest(self.world)
        self._version = 1_000_000

    def see(self, *resources: Resource[Any]) -> None:
        for resource in resources:
            for one in self.world.all(resource):
                self.caches.store(resource).observe(one)

    def see_all(self) -> None:
        self.see(PODCLIQUESETS, *CHILDREN, PODS)
        self.woken.clear()

    def snapshot(self) -> Snapshot:
        found = self.observer.snapshot(SET_UID)
        assert found is not None
        return found

    def change(self, resource: Resource[Any], name: str, *, generation: int = 1, **fields: Any) -> None:
        """A newer version of an object arrives."""
        self._version += 1
        old = self.caches.store(resource).by_name("default", name)
        assert old is not None
        metadata = msgspec.structs.replace(old.metadata, resource_version=str(self._version), generation=generation)
        self.caches.store(resource).observe(msgspec.structs.replace(old, **{"metadata": metadata, **fields}))

    def touched_by(self, act: Callable[[], object]) -> int:
        before = self.observer.touched_count
        act()
        self.snapshot()
        return self.observer.touched_count - before


CHILDREN: tuple[Resource[Any], ...] = (CONTROLLER_REVISIONS, SERVICES, GROUPS, PODCLIQUES, PODGANGS)
KINDS = (PODS, PODCLIQUES, GROUPS, PODGANGS, SERVICES, CONTROLLER_REVISIONS)


def test_a_snapshot_is_what_the_world_holds() -> None:
    eyes = Eyes()
    eyes.see_all()
    assert eyes.snapshot() == eyes.world.snapshot()


@pytest.mark.parametrize("first", KINDS, ids=lambda one: one.plural)
def test_it_does_not_matter_what_is_seen_first(first: Resource[Any]) -> None:
    eyes = Eyes()
    eyes.see(first, *KINDS, PODCLIQUESETS)
    assert eyes.snapshot() == eyes.world.snapshot()


@pytest.mark.parametrize("first", KINDS, ids=lambda one: one.plural)
def test_it_does_not_matter_what_is_seen_late(first: Resource[Any]) -> None:
    eyes = Eyes()
    eyes.see(PODCLIQUESETS)
    eyes.snapshot()
    eyes.see(first)
    eyes.snapshot()
    eyes.see(*KINDS)
    assert eyes.snapshot() == eyes.world.snapshot()


def test_an_unknown_set_has_no_snapshot() -> None:
    assert Eyes().observer.snapshot(Uid("nobody")) is None


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (PODCLIQUESETS, "p"),
        (PODCLIQUES, "p-0-a"),
        (PODCLIQUES, "p-1-g-1-b"),
        (GROUPS, "p-0-g"),
        (PODGANGS, "p-0-g-0"),
        (SERVICES, "p-1"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.plural,
)
def test_a_change_of_anything_wakes_its_set(resource: Resource[Any], name: str) -> None:
    eyes = Eyes()
    eyes.see_all()
    eyes.change(resource, name)
    assert set(eyes.woken) == {SET_UID}


def test_a_change_of_a_pod_wakes_its_set_through_its_clique_and_group() -> None:
    eyes = Eyes()
    eyes.see_all()
    for name in eyes.world.names(PODS):
        eyes.woken.clear()
        eyes.change(PODS, name)
        assert eyes.woken == [SET_UID]


def test_the_status_of_an_autoscaler_wakes_nobody_and_its_spec_does() -> None:
    eyes = Eyes()
    eyes.see_all()
    found = msgspec.convert(
        {
            "metadata": {
                "name": "p-0-a",
                "namespace": "default",
                "uid": "u",
                "resourceVersion": "1",
                "labels": {labels.SET_REPLICA_INDEX: "0"},
                "ownerReferences": [
                    {
                        "apiVersion": PODCLIQUESETS.api_version,
                        "kind": PODCLIQUESETS.kind,
                        "name": "p",
                        "uid": SET_UID,
                        "controller": True,
                    }
                ],
            },
            "spec": {"maxReplicas": 2},
        },
        HorizontalPodAutoscaler,
    )
    eyes.caches.autoscalers.observe(found)
    assert eyes.woken == [SET_UID]
    eyes.change(AUTOSCALERS, "p-0-a", status=AutoscalerStatus(current_replicas=2))
    assert eyes.woken == [SET_UID]
    eyes.change(AUTOSCALERS, "p-0-a", spec=AutoscalerSpec(max_replicas=3))
    assert eyes.woken == [SET_UID, SET_UID]
    assert eyes.snapshot().replicas[0].autoscalers["p-0-a"].spec.max_replicas == 3


def test_objects_of_nobody_wake_nobody() -> None:
    eyes = Eyes()
    eyes.see_all()
    stranger = OwnerReference(kind="PodClique", name="x", uid=Uid("x"), controller=True)
    for owners in ((), (stranger,)):
        metadata = eyes.world.all(PODS)[0].metadata
        name = f"alien-{len(owners)}"
        alien = msgspec.structs.replace(metadata, name=name, uid=Uid(name), owner_references=owners)
        eyes.caches.pods.observe(Pod(metadata=alien))
    assert eyes.woken == []
    assert eyes.snapshot() == eyes.world.snapshot()


def test_one_pod_event_touches_its_clique_and_replica_only() -> None:
    eyes = Eyes(pcs(role("a", 3), role("b", 2), replicas=4))
    eyes.see_all()
    eyes.snapshot()
    pod = next(name for name in eyes.world.names(PODS) if name.startswith("p-2-b-"))
    # One replica and the two pods of its clique.
    assert eyes.touched_by(lambda: eyes.change(PODS, pod)) == 3
    assert eyes.touched_by(lambda: None) == 0


def test_views_that_did_not_change_are_the_same_objects() -> None:
    eyes = Eyes(pcs(role("a", 2), replicas=3))
    eyes.see_all()
    before = eyes.snapshot().replicas
    eyes.change(PODS, next(name for name in eyes.world.names(PODS) if name.startswith("p-1-")))
    after = eyes.snapshot().replicas
    assert [old is new for old, new in zip(before, after, strict=True)] == [True, False, True]


def test_the_status_of_a_set_does_not_change_what_it_asks_for() -> None:
    eyes = Eyes()
    eyes.see_all()
    before = eyes.snapshot().context
    eyes.change(PODCLIQUESETS, "p")
    assert eyes.snapshot().context is before
    eyes.change(PODCLIQUESETS, "p", generation=2, spec=msgspec.structs.replace(before.spec, replicas=3))
    after = eyes.snapshot()
    assert after.context is not before
    assert after.context.spec.replicas == 3
    assert [view.index for view in after.replicas] == [0, 1, 2]


def test_a_replica_above_the_count_is_seen_as_long_as_anything_of_it_exists() -> None:
    eyes = Eyes()
    eyes.see_all()
    fewer = msgspec.structs.replace(eyes.snapshot().pcs.spec, replicas=0)
    eyes.change(PODCLIQUESETS, "p", generation=2, spec=fewer)
    assert [view.index for view in eyes.snapshot().replicas] == [0, 1]
    for resource in (*CHILDREN, PODS):
        for one in list(eyes.caches.store(resource).values()):
            eyes.caches.store(resource).forget(one.metadata.uid)
    assert eyes.snapshot().replicas == ()


def test_the_name_of_a_pod_that_vanished_is_remembered_while_its_clique_lives() -> None:
    eyes = Eyes(pcs(role("a", 2)))
    eyes.see_all()
    gone = eyes.world.all(PODS)[0].metadata
    eyes.caches.pods.forget(gone.uid)
    (view,) = eyes.snapshot().replicas[0].cliques.values()
    assert (view.gone_names, len(view.active)) == (frozenset({gone.name}), 1)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_well_and_vanished_before_that_was_written_is_remembered(phase: str) -> None:
    """But not one that failed: it is missed."""
    eyes = Eyes(pcs(role("a", 2), spec={"workload_type": "Training"}))
    eyes.see_all()
    first = eyes.caches.pods.by_name("default", eyes.world.all(PODS)[0].metadata.name)
    assert first is not None
    eyes.change(PODS, first.metadata.name, status=msgspec.structs.replace(first.status, phase=phase))
    eyes.caches.pods.forget(first.metadata.uid)
    (view,) = eyes.snapshot().replicas[0].cliques.values()
    assert view.done_indices == ({0} if phase == "Succeeded" else frozenset())
    eyes.caches.cliques.forget(view.uid)
    assert eyes.snapshot().replicas[0].cliques == {}


def test_a_refusal_is_part_of_its_replicas_view() -> None:
    eyes = Eyes()
    eyes.see_all()
    eyes.snapshot()
    eyes.failures.record(SET_UID, 1, key="pods/p-1-a", code="CreateRejected", message="no", now=NOW)
    eyes.observer.mark(SET_UID, 1)
    assert [len(view.failures) for view in eyes.snapshot().replicas] == [0, 1]
    assert eyes.woken == [SET_UID]


class TestWhoTriesFirst:
    def rivals(self) -> Eyes:
        eyes = Eyes()
        eyes.see_all()
        old = eyes.snapshot().pcs
        for uid, namespace, seconds in (
            ("older", "default", -1),
            ("younger", "default", 1),
            ("elsewhere", "other", -1),
        ):
            metadata = msgspec.structs.replace(
                old.metadata,
                uid=Uid(uid),
                name=uid,
                namespace=namespace,
                creation_timestamp=at(seconds),
            )
            eyes.caches.sets.observe(msgspec.structs.replace(old, metadata=metadata))
        return eyes

    def refuse(self, eyes: Eyes, *uids: str) -> int:
        for uid in uids:
            eyes.failures.record(Uid(uid), 0, key="pods/x", code="CreateRejected", message="no", now=NOW)
        return eyes.snapshot().rejected_ahead_count

    def test_only_older_refused_sets_of_the_namespace_are_ahead(self) -> None:
        assert self.refuse(self.rivals(), "younger", "elsewhere", SET_UID) == 0
        assert self.refuse(self.rivals(), "older", "younger", "elsewhere", SET_UID) == 1

    def test_a_set_that_is_not_refused_waits_for_nobody(self) -> None:
        assert self.refuse(self.rivals(), "older") == 0


def test_a_set_that_is_gone_leaves_nothing_behind() -> None:
    eyes = Eyes()
    eyes.see_all()
    eyes.snapshot()
    eyes.failures.record(SET_UID, 0, key="pods/x", code="CreateRejected", message="no", now=NOW)
    eyes.caches.sets.forget(SET_UID)
    assert eyes.woken == [SET_UID]
    assert eyes.observer.snapshot(SET_UID) is None
    assert eyes.failures.of(SET_UID, 0) == ()


def test_a_settled_world_seen_through_the_observer_needs_nothing() -> None:
    eyes = Eyes()
    eyes.see_all()
    assert plan(eyes.snapshot(), NOW, PlanCache()).is_empty


def test_cliques_are_found_by_owner_not_by_name() -> None:
    eyes = Eyes(pcs(role("a", 1)))
    eyes.see_all()
    (mine,) = eyes.world.all(PODCLIQUES)
    owner = OwnerReference(kind="PodCliqueSet", name="p", uid=Uid("another-p"), controller=True)
    metadata = msgspec.structs.replace(
        mine.metadata, uid=Uid("alien"), name="p-0-b", owner_references=(owner,), labels={labels.PART_OF: "p"}
    )
    eyes.caches.cliques.observe(PodClique(metadata=metadata))
    assert list(eyes.snapshot().replicas[0].cliques) == ["p-0-a"]


def test_the_rules_are_not_asked_again_when_only_the_surroundings_changed() -> None:
    eyes = Eyes()
    eyes.see_all()
    spec = eyes.snapshot().context.spec
    eyes.change(PODCLIQUESETS, "p", generation=2, spec=msgspec.structs.replace(spec, replicas=-1))
    before = eyes.snapshot().context
    eyes.observer.update_features(Backends(enabled=("default-scheduler", "volcano")), frozenset())
    after = eyes.snapshot().context
    assert before is not after
    assert before.spec_errors
    assert before.spec_errors is after.spec_errors
