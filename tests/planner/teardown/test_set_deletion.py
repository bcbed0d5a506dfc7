"""A set that is being deleted, and its finalizer."""

from typing import Any

import msgspec

from grove.api import labels
from grove.api.resources import (
    CONTROLLER_REVISIONS,
    GROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    SERVICES,
    Resource,
)
from grove.api.types.meta import OwnerKey, Uid
from grove.planner.actions import DeleteMany, Patch, Plan
from grove.planner.plan import plan
from tests.dsl import (
    NOW,
    SET_UID,
    World,
    actions,
    appendix_a,
    clique,
    gang,
    group,
    pcs,
    pod,
    replica,
    run_to_rest,
    service,
    snapshot,
    told,
)

SELECTOR = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=p"


def finalizers(names: list[str], reason: str) -> Patch:
    return Patch(
        resource=PODCLIQUESETS,
        namespace="default",
        name="p",
        uid=SET_UID,
        resource_version="1",
        patch={"metadata": {"finalizers": names}},
        reason=reason,
    )


def test_a_new_set_gets_our_finalizer_before_anything_is_made_for_it() -> None:
    decided = plan(snapshot(pcs(finalizers=("theirs",))), NOW)
    assert actions(decided) == [finalizers(["theirs", labels.SET_FINALIZER], "guards its children")]
    assert decided.statuses == ()


def test_a_leaving_set_loses_its_pods_then_its_children_then_our_finalizer() -> None:
    view = clique(pod(0), pod(1, phase="Failed"), pod(2, terminating=True))
    seen = replica(view, groups=(group(),), gangs=(gang(view),), services=(service(),))
    terminating = pcs(deletion_timestamp=NOW, finalizers=(labels.SET_FINALIZER, "theirs"))
    world = snapshot(terminating, seen)
    (chain,) = plan(world, NOW).chains
    reason = "set p is being deleted"

    def all_of(resource: Resource[Any], *uids: str, owner: OwnerKey | None = None) -> DeleteMany:
        return DeleteMany(
            resource=resource,
            namespace="default",
            selector=SELECTOR,
            owners=(owner or PODCLIQUESETS.owner_key(terminating.metadata),),
            uids=tuple(map(Uid, uids)),
            reason=reason,
        )

    first, failed, _ = (one.metadata.uid for one in (*view.active, *view.failed, *view.terminating))
    assert chain.stages == (
        (all_of(PODS, first, failed, owner=view.owner_key),),
        (
            all_of(PODCLIQUES, "uid-of-p-0-a"),
            all_of(GROUPS, "uid-of-p-0-g"),
            all_of(PODGANGS, "uid-of-gang-p-0"),
            all_of(SERVICES, "uid-of-service-p-0"),
            all_of(CONTROLLER_REVISIONS, *(revision.metadata.uid for revision in world.revisions)),
        ),
        (finalizers(["theirs"], "all its children were deleted"),),
    )


def test_a_leaving_set_without_children_is_let_go_at_once() -> None:
    bare = msgspec.structs.replace(snapshot(pcs(deletion_timestamp=NOW)), revisions=())
    assert actions(plan(bare, NOW)) == [finalizers([], "all its children were deleted")]


def test_a_set_that_was_let_go_and_waits_for_others_is_left_alone() -> None:
    terminating = pcs(deletion_timestamp=NOW, finalizers=("theirs",))
    assert plan(snapshot(terminating, replica(clique(pod(0)))), NOW) == Plan(rejections=None)


def test_an_orphaning_delete_deletes_nothing() -> None:
    terminating = pcs(deletion_timestamp=NOW, finalizers=("orphan", labels.SET_FINALIZER))
    assert actions(plan(snapshot(terminating, replica(clique(pod(0)))), NOW)) == [
        finalizers(["orphan"], "all its children were deleted")
    ]


def test_an_invalid_set_can_be_deleted() -> None:
    invalid = pcs(deletion_timestamp=NOW, replicas=-1)
    assert snapshot(invalid).context.errors
    assert actions(plan(snapshot(invalid), NOW))[-1] == finalizers([], "all its children were deleted")


def test_finalizers_of_older_versions_are_taken_off_the_children_first() -> None:
    view = clique(finalizers=(labels.CLIQUE_FINALIZER, "theirs"))
    seen = replica(view, groups=(group(finalizers=(labels.GROUP_FINALIZER,)),))
    why = "a finalizer of an older version would block its deletion"
    terminating = plan(snapshot(pcs(deletion_timestamp=NOW), seen), NOW)
    assert told(terminating)[:2] == [
        f"set 0: patch podcliques/p-0-a ({why})",
        f"set 0: patch podcliquescalinggroups/p-0-g ({why})",
    ]
    first, second = actions(terminating)[:2]
    assert isinstance(first, Patch)
    assert isinstance(second, Patch)
    assert first.patch == {"metadata": {"finalizers": ["theirs"]}}
    assert second.patch == {"metadata": {"finalizers": []}}
    living = plan(snapshot(pcs(), seen), NOW)
    assert told(living)[:1] == [f"p-0 0: patch podcliques/p-0-a ({why})"]
    orphaning = pcs(deletion_timestamp=NOW, finalizers=("orphan", labels.SET_FINALIZER))
    assert told(plan(snapshot(orphaning, seen), NOW)) == [
        f"set 0: patch podcliques/p-0-a ({why})",
        f"set 0: patch podcliquescalinggroups/p-0-g ({why})",
        "set 1: patch podcliquesets/p (all its children were deleted)",
    ]


def test_nothing_is_left_of_a_deleted_set() -> None:
    world = World(appendix_a(replicas=2))
    run_to_rest(world)
    world.delete(PODCLIQUESETS, "p")
    run_to_rest(world)
    assert [world.names(resource) for resource in (PODCLIQUESETS, PODCLIQUES, GROUPS, PODGANGS, SERVICES, PODS)] == [
        [],
        [],
        [],
        [],
        [],
        [],
    ]
