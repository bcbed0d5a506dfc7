"""The cache, told as small stories of what the watch, a list and our own writes say, and in which order."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from grove.api.resources import GROUPS, PODCLIQUES, PODS, Object, Resource
from grove.api.types.meta import ObjectMeta, OwnerKey, OwnerReference, Uid
from grove.kube.response_decoding import Added, Bookmark, Deleted, Listing, Modified, Unreadable
from grove.kube.store import Store

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def obj(
    name: str, version: int, *, uid: str = "", owner: str = "", leaving: bool = False, namespace: str = "default"
) -> Object:
    owners = (reference(owner),) if owner else ()
    return Object(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=Uid(uid or name),
            resource_version=str(version),
            owner_references=owners,
            deletion_timestamp=NOON if leaving else None,
        )
    )


def reference(owner: str) -> OwnerReference:
    version, kind = PODCLIQUES.api_version, PODCLIQUES.kind
    return OwnerReference(api_version=version, kind=kind, name=owner, uid=Uid(owner), controller=True)


def key(owner: str, *, resource: Resource[Any] = PODCLIQUES, namespace: str = "default", name: str = "") -> OwnerKey:
    return resource.owner_key(ObjectMeta(namespace=namespace, name=name or owner, uid=Uid(owner)))


def listing(*items: Object, version: int) -> Listing[Object]:
    return Listing(items=items, resource_version=str(version))


def listed(*items: Object, version: int) -> Store[Object]:
    store = Store[Object]()
    store.apply_list(listing(*items, version=version), store.begin_list())
    return store


def relist(store: Store[Object], *items: Object, version: int) -> None:
    store.apply_list(listing(*items, version=version), store.begin_list())


def contents(store: Store[Object]) -> list[Object]:
    return list(store.values())


def changes(store: Store[Object]) -> list[tuple[Object | None, Object | None]]:
    seen: list[tuple[Object | None, Object | None]] = []
    store.subscribe(lambda old, new: seen.append((old, new)))
    return seen


def everything(_: Object) -> bool:
    return True


def test_before_the_first_list_nothing_is_known_for_sure() -> None:
    store = Store[Object]()
    mark = store.begin_list()
    store.observe(obj("a", 3))
    assert (store.is_listed, contents(store)) == (False, [obj("a", 3)])
    store.apply_list(listing(version=2), mark)
    assert (store.is_listed, contents(store)) == (True, [obj("a", 3)])


def test_objects_are_found_by_uid_by_name_and_by_owner() -> None:
    store = listed(obj("a", 1, owner="x"), obj("b", 2, owner="x"), obj("c", 3), version=5)
    assert store.get(Uid("a")) == obj("a", 1, owner="x")
    assert store.get(Uid("z")) is None
    assert store.by_name("default", "c") == obj("c", 3)
    assert store.by_name("default", "z") is None
    assert store.by_name("elsewhere", "c") is None
    assert store.owned_by(key("x")) == (obj("a", 1, owner="x"), obj("b", 2, owner="x"))
    assert store.owned_by(key("y")) == ()
    assert len(store) == 3


def test_children_keep_the_order_in_which_they_were_first_seen() -> None:
    store = listed(obj("a", 1, owner="x"), obj("b", 2, owner="x"), version=5)
    store.apply(Modified(object=obj("a", 6, owner="x")))
    assert store.owned_by(key("x")) == (obj("a", 6, owner="x"), obj("b", 2, owner="x"))


def test_an_object_follows_its_new_owner() -> None:
    store = listed(obj("a", 1, owner="x"), version=5)
    store.apply(Modified(object=obj("a", 6, owner="y")))
    assert (store.owned_by(key("x")), store.owned_by(key("y"))) == ((), (obj("a", 6, owner="y"),))
    store.apply(Modified(object=obj("a", 7)))
    assert store.owned_by(key("y")) == ()


def test_an_owner_of_another_namespace_kind_or_name_owns_nothing_whatever_its_uid() -> None:
    here, there = obj("a", 1, owner="x"), obj("b", 2, owner="x", namespace="elsewhere")
    store = listed(here, there, version=5)
    assert store.owned_by(key("x")) == (here,)
    assert store.owned_by(key("x", namespace="elsewhere")) == (there,)
    # The uid is that of a clique: another kind of the same group, or the same name in another group, is not it.
    assert store.owned_by(key("x", resource=GROUPS)) == ()
    assert store.owned_by(key("x", resource=PODS)) == ()
    assert store.owned_by(key("x", name="y")) == ()


def test_an_owner_that_is_not_the_controller_owns_nothing() -> None:
    bystander = msgspec.structs.replace(reference("x"), controller=False)
    metadata = msgspec.structs.replace(obj("a", 1).metadata, owner_references=(bystander,))
    assert listed(Object(metadata=metadata), version=5).owned_by(key("x")) == ()


def test_listeners_hear_every_visible_change_once_and_in_order() -> None:
    store = listed(obj("a", 1), version=5)
    seen = changes(store)
    store.observe(obj("a", 6))
    store.apply(Modified(object=obj("a", 6)))
    store.apply(Added(object=obj("b", 7)))
    store.apply(Bookmark(resource_version="8"))
    store.apply(Deleted(object=obj("a", 9)))
    assert seen == [(obj("a", 1), obj("a", 6)), (None, obj("b", 7)), (obj("a", 6), None)]


def test_an_answer_older_than_what_we_know_is_ignored() -> None:
    store = listed(obj("a", 4), version=5)
    store.observe(obj("a", 3))
    assert contents(store) == [obj("a", 4)]


def test_a_late_event_does_not_take_our_own_write_back() -> None:
    store = listed(obj("a", 4), version=5)
    store.observe(obj("a", 8))
    store.apply(Modified(object=obj("a", 6)))
    assert contents(store) == [obj("a", 8)]


@pytest.mark.parametrize(
    ("version", "survives"),
    [
        pytest.param(7, True, id="list just before our write"),
        pytest.param(8, False, id="list with our write"),
        pytest.param(9, False, id="list after our write"),
    ],
)
def test_what_we_created_survives_a_list_from_before_and_no_other(version: int, survives: bool) -> None:
    store = listed(version=5)
    mark = store.begin_list()
    store.observe(obj("a", 8))
    store.apply_list(listing(version=version), mark)
    assert contents(store) == ([obj("a", 8)] if survives else [])


def test_what_we_deleted_does_not_come_back_with_a_list_from_before() -> None:
    store = listed(obj("a", 4), version=5)
    mark = store.begin_list()
    store.forget(Uid("a"))
    store.apply_list(listing(obj("a", 6), version=6), mark)
    store.apply(Modified(object=obj("a", 7)))
    assert (contents(store), store.tombstone_count) == ([], 1)
    store.apply(Deleted(object=obj("a", 8)))
    assert (contents(store), store.tombstone_count) == ([], 0)


def test_the_answer_of_an_earlier_write_does_not_bring_back_what_is_deleted() -> None:
    store = listed(obj("a", 4), version=5)
    store.apply(Deleted(object=obj("a", 8)))
    store.observe(obj("a", 6))
    assert contents(store) == []


@pytest.mark.parametrize(
    ("version", "tombstone_count"),
    [pytest.param(7, 1, id="before its last known version"), pytest.param(8, 0, id="at its last known version")],
)
def test_a_tombstone_is_dropped_by_a_list_that_is_past_the_deletion(version: int, tombstone_count: int) -> None:
    store = listed(version=5)
    mark = store.begin_list()
    store.observe(obj("a", 8))
    store.forget(Uid("a"))
    store.apply_list(listing(version=version), mark)
    assert store.tombstone_count == tombstone_count


def test_a_deletion_that_the_watch_told_first_needs_no_tombstone() -> None:
    store = listed(obj("a", 4), version=5)
    store.apply(Deleted(object=obj("a", 8)))
    store.forget(Uid("a"))
    assert store.tombstone_count == 0


def test_a_relist_tells_of_what_vanished_what_changed_and_what_is_new() -> None:
    store = listed(obj("a", 1), obj("b", 2), obj("c", 3), version=5)
    seen = changes(store)
    relist(store, obj("b", 2), obj("c", 7), obj("d", 8), version=9)
    assert seen == [(obj("a", 1), None), (obj("c", 3), obj("c", 7)), (None, obj("d", 8))]


def test_a_list_that_is_behind_the_watch_changes_nothing() -> None:
    store = listed(obj("a", 4), version=5)
    mark = store.begin_list()
    store.apply(Added(object=obj("b", 7)))
    store.apply(Deleted(object=obj("a", 8)))
    store.apply_list(listing(obj("a", 4), version=6), mark)
    assert contents(store) == [obj("b", 7)]


def test_a_server_put_back_to_a_backup_is_believed() -> None:
    store = listed(obj("a", 400), obj("b", 400), version=500)
    relist(store, obj("a", 40), version=50)
    store.apply(Modified(object=obj("a", 51)))
    assert contents(store) == [obj("a", 51)]


def test_a_list_older_than_an_own_write_that_was_answered_before_is_a_new_history() -> None:
    store = listed(obj("a", 4), version=5)
    store.observe(obj("a", 9))
    assert store.apply_list(listing(obj("a", 4), version=8), store.begin_list())
    assert contents(store) == [obj("a", 4)]


def test_an_object_older_than_the_one_that_was_held_is_a_new_history_whatever_the_version_of_the_list() -> None:
    """Restored with a bumped revision: the list is new, its objects are old."""
    store = listed(obj("a", 4), obj("b", 4), version=5)
    store.apply(Modified(object=obj("a", 9)))
    store.apply(Added(object=obj("c", 10)))
    seen = changes(store)
    assert store.apply_list(listing(obj("a", 4), obj("b", 4), version=1_000_000), store.begin_list())
    assert contents(store) == [obj("a", 4), obj("b", 4)]
    # Everything was dropped first: what is made of these objects begins anew too.
    assert [new for _, new in seen] == [None, None, None, obj("a", 4), obj("b", 4)]


@pytest.mark.parametrize("deleted_by", ["the watch", "ourselves"])
def test_an_object_that_comes_back_is_a_new_history(deleted_by: str) -> None:
    store = listed(obj("a", 4), version=5)
    if deleted_by == "the watch":
        store.apply(Deleted(object=obj("a", 8)))
    else:
        store.forget(Uid("a"))
    assert store.apply_list(listing(obj("a", 4), version=1_000_000), store.begin_list())
    assert contents(store) == [obj("a", 4)]


def test_a_list_that_was_sent_before_something_was_known_may_be_older_than_it() -> None:
    store = listed(obj("a", 4), obj("b", 4), version=5)
    mark = store.begin_list()
    store.observe(obj("a", 9))
    store.forget(Uid("b"))
    assert not store.apply_list(listing(obj("a", 4), obj("b", 4), version=6), mark)
    assert contents(store) == [obj("a", 9)]


def test_an_object_that_is_only_absent_was_deleted() -> None:
    store = listed(obj("a", 4), obj("b", 4), version=5)
    assert not store.apply_list(listing(obj("a", 4), version=1_000_000), store.begin_list())
    assert contents(store) == [obj("a", 4)]


def test_a_partial_list_of_a_new_history_is_not_mixed_with_the_old_one() -> None:
    store = listed(obj("a", 4, owner="x"), obj("b", 4), version=5)
    store.apply(Modified(object=obj("a", 9, owner="x")))
    mark = store.begin_list()
    assert store.apply_partial_list(listing(obj("a", 4, owner="x"), version=1_000_000), mark, everything)
    assert contents(store) == [obj("a", 9, owner="x"), obj("b", 4)]


def test_a_watch_that_does_not_show_an_own_write_is_behind() -> None:
    seconds = 100.0
    store = Store[Object](lambda: seconds)
    store.apply_list(listing(version=5), store.begin_list())
    store.observe(obj("a", 7))
    seconds = 110.0
    store.observe(obj("a", 9))
    seconds = 130.0
    assert store.behind_seconds == 30
    store.apply(Added(object=obj("a", 7)))
    assert store.behind_seconds == 20
    store.apply(Bookmark(resource_version="9"))
    assert store.behind_seconds == 0


def test_events_told_twice_change_nothing() -> None:
    store = listed(version=5)
    for _ in range(2):
        store.apply(Added(object=obj("a", 6)))
        store.apply(Deleted(object=obj("a", 7)))
    assert contents(store) == []


def test_a_name_belongs_to_the_newer_of_two_objects() -> None:
    store = listed(obj("a", 4, uid="old", owner="x"), version=5)
    seen = changes(store)
    store.observe(obj("a", 8, uid="new", owner="x"))
    assert store.by_name("default", "a") == obj("a", 8, uid="new", owner="x")
    assert store.get(Uid("old")) is None
    assert seen == [(obj("a", 4, uid="old", owner="x"), None), (None, obj("a", 8, uid="new", owner="x"))]
    store.apply(Modified(object=obj("a", 6, uid="old", owner="x")))
    store.apply(Deleted(object=obj("a", 7, uid="old", owner="x")))
    store.apply(Added(object=obj("a", 8, uid="new", owner="x")))
    assert (contents(store), store.tombstone_count) == ([obj("a", 8, uid="new", owner="x")], 0)


def test_the_past_of_a_name_that_we_know_only_by_its_new_object_is_ignored() -> None:
    store = listed(version=5)
    store.observe(obj("a", 9, uid="new"))
    store.apply(Added(object=obj("a", 6, uid="old")))
    store.apply(Deleted(object=obj("a", 7, uid="old")))
    assert contents(store) == [obj("a", 9, uid="new")]


def test_an_object_that_was_not_selected_for_a_while_comes_back() -> None:
    store = listed(obj("a", 4), version=5)
    store.apply(Deleted(object=obj("a", 6)))
    store.apply(Added(object=obj("a", 7)))
    assert contents(store) == [obj("a", 7)]


def test_not_being_selected_long_ago_does_not_confirm_our_deletion() -> None:
    store = listed(obj("a", 4), version=5)
    store.observe(obj("a", 8))
    store.forget(Uid("a"))
    store.apply(Deleted(object=obj("a", 6)))
    store.apply(Added(object=obj("a", 7)))
    assert contents(store) == []
    store.apply(Deleted(object=obj("a", 9)))
    assert store.tombstone_count == 0


def test_what_we_brought_back_into_the_selection_stays_when_its_leaving_is_told_late() -> None:
    store = listed(obj("a", 4), version=5)
    store.observe(obj("a", 8))
    store.apply(Deleted(object=obj("a", 6)))
    assert contents(store) == [obj("a", 8)]


def test_deleting_the_successor_does_not_bring_back_the_predecessor() -> None:
    store = listed(obj("a", 4, uid="old"), version=5)
    store.observe(obj("a", 8, uid="new"))
    store.forget(Uid("new"))
    store.apply(Modified(object=obj("a", 6, uid="old")))
    assert contents(store) == []


def test_a_bulk_delete_shows_its_objects_as_leaving_until_the_watch_tells_more() -> None:
    store = listed(obj("a", 3), obj("b", 4, leaving=True), version=5)
    seen = changes(store)
    store.mark_terminating([Uid("a"), Uid("b"), Uid("gone")], NOON)
    assert seen == [(obj("a", 3), obj("a", 3, leaving=True))]
    store.apply(Modified(object=obj("a", 3)))
    assert store.get(Uid("a")) == obj("a", 3, leaving=True)
    store.apply(Modified(object=obj("a", 6)))
    assert store.get(Uid("a")) == obj("a", 6)


def test_only_a_list_begun_after_a_bulk_delete_may_say_that_an_object_stays() -> None:
    store = listed(obj("a", 3), version=5)
    earlier = store.begin_list()
    store.mark_terminating([Uid("a")], NOON)
    store.apply_list(listing(obj("a", 3), version=5), earlier)
    assert contents(store) == [obj("a", 3, leaving=True)]
    relist(store, obj("a", 3), version=5)
    assert contents(store) == [obj("a", 3)]


def test_looking_again_at_a_part_leaves_the_rest_alone() -> None:
    store = listed(obj("a", 1, owner="x"), obj("b", 2, owner="x"), obj("c", 3, owner="y"), version=5)
    mark = store.begin_list()
    part = listing(obj("a", 7, owner="x"), obj("d", 8, owner="x"), version=9)
    store.apply_partial_list(part, mark, lambda one: one.metadata.controller == key("x"))
    assert contents(store) == [obj("a", 7, owner="x"), obj("c", 3, owner="y"), obj("d", 8, owner="x")]


def test_a_frozen_watch_that_thaws_does_not_bring_back_what_a_look_again_missed() -> None:
    store = listed(obj("a", 1), version=5)
    store.apply_partial_list(listing(version=9), store.begin_list(), everything)
    store.apply(Modified(object=obj("a", 6)))
    assert (contents(store), store.tombstone_count) == ([], 1)
    store.apply(Deleted(object=obj("a", 7)))
    store.apply(Bookmark(resource_version="9"))
    assert (contents(store), store.tombstone_count) == ([], 0)


def test_what_moved_out_of_the_part_that_was_looked_at_comes_back_with_the_watch() -> None:
    store = listed(obj("a", 1, owner="x"), version=5)
    store.apply_partial_list(listing(version=9), store.begin_list(), lambda one: one.metadata.controller == key("x"))
    store.apply(Modified(object=obj("a", 6, owner="y")))
    assert contents(store) == []
    store.apply(Bookmark(resource_version="8"))
    assert contents(store) == []
    store.apply(Bookmark(resource_version="9"))
    assert contents(store) == [obj("a", 6, owner="y")]


def test_what_moved_out_of_a_part_and_was_deleted_by_us_stays_away() -> None:
    store = listed(obj("a", 1, owner="x"), version=5)
    store.apply_partial_list(listing(version=9), store.begin_list(), everything)
    store.forget(Uid("a"))
    store.apply(Modified(object=obj("a", 6, owner="y")))
    store.apply(Bookmark(resource_version="9"))
    assert contents(store) == []
    store.apply(Deleted(object=obj("a", 10, owner="y")))
    assert store.tombstone_count == 0


def test_what_was_held_back_does_not_outlive_our_own_later_deletion() -> None:
    store = listed(obj("a", 1), version=5)
    store.apply_partial_list(listing(version=9), store.begin_list(), everything)
    store.apply(Modified(object=obj("a", 6)))
    store.observe(obj("a", 10))
    store.forget(Uid("a"))
    store.apply(Bookmark(resource_version="9"))
    assert contents(store) == []


def test_what_was_held_back_and_is_not_in_the_next_list_is_gone() -> None:
    store = listed(obj("a", 1), version=5)
    store.apply_partial_list(listing(version=9), store.begin_list(), everything)
    store.apply(Modified(object=obj("a", 6)))
    relist(store, version=9)
    assert contents(store) == []


def test_a_look_again_that_is_behind_the_watch_changes_nothing() -> None:
    store = listed(obj("a", 1), version=5)
    mark = store.begin_list()
    store.apply(Deleted(object=obj("a", 7)))
    store.apply(Added(object=obj("b", 8)))
    store.apply_partial_list(listing(obj("a", 1), version=6), mark, everything)
    assert contents(store) == [obj("b", 8)]


def test_an_older_list_does_not_bring_back_what_a_newer_look_again_missed() -> None:
    store = listed(obj("a", 1), version=5)
    mark = store.begin_list()
    store.apply_partial_list(listing(version=9), store.begin_list(), everything)
    store.apply_list(listing(obj("a", 1), version=6), mark)
    assert contents(store) == []


def test_an_object_that_became_unreadable_is_kept_as_we_knew_it() -> None:
    store = listed(obj("a", 1), version=5)
    newer = msgspec.structs.replace(obj("a", 6).metadata)
    store.apply(Unreadable(metadata=newer, is_deleted=False))
    store.apply_list(Listing(items=(), resource_version="7", unreadable=(newer,)), store.begin_list())
    assert contents(store) == [obj("a", 1)]


def test_an_unreadable_object_that_is_deleted_is_gone() -> None:
    store = listed(obj("a", 1), version=5)
    store.apply(Unreadable(metadata=ObjectMeta(), is_deleted=True))
    assert contents(store) == [obj("a", 1)]
    store.apply(Unreadable(metadata=obj("a", 6).metadata, is_deleted=True))
    assert contents(store) == []


def test_a_late_answer_to_our_delete_leaves_nothing_once_the_watch_has_told_the_deletion() -> None:
    store = listed(obj("a", 1), version=1)
    store.apply_partial_list(listing(version=9), store.begin_list(), everything)
    store.apply(Deleted(object=obj("a", 2)))
    store.forget(Uid("a"))
    assert store.tombstone_count > 0
    store.apply(Bookmark(resource_version="9"))
    assert (store.tombstone_count, list(store.values())) == (0, [])
