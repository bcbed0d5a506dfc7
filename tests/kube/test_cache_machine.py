"""The cache between a server, a watch that lags and repeats itself, lists that arrive late, and our own writes.

A model server keeps its whole history. Hypothesis decides who does what when, and which answer arrives after which.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from grove.api.resources import PODCLIQUES, Object
from grove.api.types.meta import ObjectMeta, OwnerKey, OwnerReference, Uid
from grove.kube.response_decoding import Added, Bookmark, Deleted, Listing, Modified, WatchEvent
from grove.kube.store import ListMark, Store
from tests.seeds import examples

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAMES = st.sampled_from(["a", "b"])
OWNERS = st.sampled_from(["", "x"])


class ModelServer:
    """Objects by name, one version counter, and everything that ever happened."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, Object] = {}
        self.history: list[WatchEvent[Object]] = []

    def create(self, name: str, owner: str) -> Object:
        metadata = ObjectMeta(name=name, namespace="default", uid=Uid(f"{name}-{self.version}"))
        created = self._store(msgspec.structs.replace(metadata, owner_references=_owners(owner)))
        self.history.append(Added(object=created))
        return created

    def modify(self, name: str, **changes: Any) -> Object:
        modified = self._store(msgspec.structs.replace(self.objects[name].metadata, **changes))
        self.history.append(Modified(object=modified))
        return modified

    def remove(self, name: str) -> None:
        self.version += 1
        metadata = msgspec.structs.replace(self.objects.pop(name).metadata, resource_version=str(self.version))
        self.history.append(Deleted(object=Object(metadata=metadata)))

    def list(self, owner: str = "") -> Listing[Object]:
        items = tuple(o for o in self.objects.values() if not owner or o.metadata.controller == key_of(owner))
        return Listing(items=items, resource_version=str(self.version))

    def holds(self, uid: Uid) -> bool:
        return any(one.metadata.uid == uid for one in self.objects.values())

    def _store(self, metadata: ObjectMeta) -> Object:
        self.version += 1
        stored = Object(metadata=msgspec.structs.replace(metadata, resource_version=str(self.version)))
        self.objects[metadata.name] = stored
        return stored


def _owners(owner: str) -> tuple[OwnerReference, ...]:
    if not owner:
        return ()
    version, kind = PODCLIQUES.api_version, PODCLIQUES.kind
    return (OwnerReference(api_version=version, kind=kind, name=owner, uid=Uid(owner), controller=True),)


def key_of(owner: str) -> OwnerKey:
    return PODCLIQUES.owner_key(ObjectMeta(namespace="default", name=owner, uid=Uid(owner)))


def version_of(one: Object) -> int:
    return int(one.metadata.resource_version)


class Observed(msgspec.Struct, frozen=True):
    object: Object


class Gone(msgspec.Struct, frozen=True):
    uid: Uid


class Leaving(msgspec.Struct, frozen=True):
    uids: tuple[Uid, ...]


class Look(msgspec.Struct):
    """A list on its way: begun, then taken by the server, then applied. `owner`: only a part."""

    mark: ListMark
    owner: str
    listing: Listing[Object] | None = None


class CacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = ModelServer()
        self.store = Store[Object]()
        self.position = 0
        self.answers: list[Observed | Gone | Leaving] = []
        self.lists: list[Look] = []
        self.newest_seen: dict[Uid, int] = {}
        self.forgotten: list[Uid] = []
        self.moved: list[Uid] = []
        self.departed: list[Uid] = []
        self.mirror: dict[Uid, Object] = {}
        self.store.subscribe(self._hear)
        self.server.create("a", "x")
        self.store.apply_list(self.server.list(), self.store.begin_list())
        self.position = 1

    # What the server does by itself

    @rule(name=NAMES, owner=OWNERS)
    def someone_creates_or_changes(self, name: str, owner: str) -> None:
        self._write(name, owner)

    @rule(name=NAMES)
    def someone_deletes(self, name: str) -> None:
        if name in self.server.objects:
            self.server.remove(name)

    @rule(name=NAMES, owner=OWNERS)
    def someone_moves_it_to_another_owner(self, name: str, owner: str) -> None:
        if name in self.server.objects:
            self.moved.append(self.server.modify(name, owner_references=_owners(owner)).metadata.uid)

    # Our own writes; an answer that does not come at once waits until `a_late_answer_arrives`

    @rule(name=NAMES, owner=OWNERS, is_late=st.booleans())
    def we_write(self, name: str, owner: str, is_late: bool) -> None:
        self._answer(Observed(self._write(name, owner)), is_late=is_late)

    @rule(name=NAMES, is_late=st.booleans())
    def we_delete(self, name: str, is_late: bool) -> None:
        known = self.store.by_name("default", name)
        actual = self.server.objects.get(name)
        if known is not None and actual is not None and known.metadata.uid == actual.metadata.uid:
            self.server.remove(name)
            self._answer(Gone(known.metadata.uid), is_late=is_late)

    @rule(is_graceful=st.booleans(), is_late=st.booleans())
    def we_delete_all_that_we_see(self, is_graceful: bool, is_late: bool) -> None:
        for name in list(self.server.objects):
            if is_graceful:
                self.server.modify(name, deletion_timestamp=NOON)
            else:
                self.server.remove(name)
        self._answer(Leaving(tuple(one.metadata.uid for one in self.store.values())), is_late=is_late)

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def a_late_answer_arrives(self, data: st.DataObject) -> None:
        self._receive(self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1))))

    # The watch and the lists

    @precondition(lambda self: self.position < len(self.server.history))
    @rule(count=st.integers(1, 4))
    def the_watch_tells_the_next_events(self, count: int) -> None:
        for event in self.server.history[self.position : self.position + count]:
            self.store.apply(event)
            self.position += 1

    @rule(steps=st.integers(1, 5))
    def the_watch_is_cut_and_repeats_itself(self, steps: int) -> None:
        self.position = max(0, self.position - steps)

    @rule()
    def the_watch_bookmarks(self) -> None:
        if self.position == len(self.server.history):
            self.store.apply(Bookmark(resource_version=str(self.server.version)))

    @precondition(lambda self: len(self.lists) < 3)
    @rule(owner=OWNERS, is_taken_at_once=st.booleans())
    def a_list_is_begun(self, owner: str, is_taken_at_once: bool) -> None:
        listing = self.server.list(owner) if is_taken_at_once else None
        self.lists.append(Look(self.store.begin_list(), owner, listing))

    @precondition(lambda self: self.lists)
    @rule(data=st.data())
    def a_list_is_taken(self, data: st.DataObject) -> None:
        look = data.draw(st.sampled_from(self.lists))
        if look.listing is None:
            look.listing = self.server.list(look.owner)

    @precondition(lambda self: self.lists)
    @rule(data=st.data())
    def a_list_arrives(self, data: st.DataObject) -> None:
        look = self.lists.pop(data.draw(st.integers(0, len(self.lists) - 1)))
        listing = look.listing or self.server.list(look.owner)
        # The server never lost anything, so no list is taken for one of a new history.
        if look.owner:
            assert not self.store.apply_partial_list(
                listing, look.mark, lambda one: one.metadata.controller == key_of(look.owner)
            )
        else:
            assert not self.store.apply_list(listing, look.mark)
            self._resume_after(int(listing.resource_version))

    # What must hold

    @invariant()
    def nothing_goes_back_in_time(self) -> None:
        for one in self.store.values():
            assert version_of(one) >= self.newest_seen.get(one.metadata.uid, 0)
            self.newest_seen[one.metadata.uid] = version_of(one)

    @invariant()
    def what_we_deleted_stays_away(self) -> None:
        assert [uid for uid in self.forgotten if self.store.get(uid) is not None] == []

    @invariant()
    def what_was_seen_to_go_does_not_come_back(self) -> None:
        departed = [uid for uid in self.departed if uid not in self.moved]
        assert [uid for uid in departed if self.store.get(uid) is not None] == []

    @invariant()
    def what_was_seen_is_lost_only_when_it_is_gone(self) -> None:
        # To a look at one part, what moved to another part looks like gone; `teardown` demands that it comes back.
        lost = [uid for uid in self.newest_seen if self.store.get(uid) is None and self.server.holds(uid)]
        assert [uid for uid in lost if uid not in self.moved] == []

    @invariant()
    def listeners_know_exactly_what_the_cache_shows(self) -> None:
        assert self.mirror == {one.metadata.uid: one for one in self.store.values()}

    @invariant()
    def indexes_agree_with_the_objects(self) -> None:
        by_owner: dict[OwnerKey, set[Uid]] = {key_of("x"): set()}
        for one in self.store.values():
            assert self.store.by_name("default", one.metadata.name) is one
            if one.metadata.controller is not None:
                by_owner[one.metadata.controller].add(one.metadata.uid)
        for owner, uids in by_owner.items():
            children = self.store.owned_by(owner)
            assert {child.metadata.uid for child in children} == uids
            assert all(self.store.get(child.metadata.uid) is child for child in children)

    def teardown(self) -> None:
        """When the watch has caught up, the cache is the server, and no tombstone is left."""
        for event in self.server.history[self.position :]:
            self.store.apply(event)
        assert {one.metadata.name: one for one in self.store.values()} == self.server.objects
        self.store.apply(Bookmark(resource_version=str(self.server.version)))
        assert self.store.tombstone_count == 0

    # Small steps

    def _answer(self, answer: Observed | Gone | Leaving, *, is_late: bool) -> None:
        if is_late:
            self.answers.append(answer)
        else:
            self._receive(answer)

    def _receive(self, answer: Observed | Gone | Leaving) -> None:
        match answer:
            case Observed():
                self.store.observe(answer.object)
                self._check_our_write_is_seen(answer.object)
            case Gone():
                self.store.forget(answer.uid)
                self.forgotten.append(answer.uid)
            case Leaving():
                self.store.mark_terminating(answer.uids, NOON)
                assert all(
                    one.metadata.is_terminating for uid in answer.uids if (one := self.store.get(uid)) is not None
                )

    def _write(self, name: str, owner: str) -> Object:
        if name not in self.server.objects:
            return self.server.create(name, owner)
        return self.server.modify(name, generation=self.server.version)

    def _resume_after(self, version: int) -> None:
        told = (index for index, event in enumerate(self.server.history) if _event_version(event) > version)
        self.position = next(told, len(self.server.history))

    def _check_our_write_is_seen(self, written: Object) -> None:
        seen = self.store.get(written.metadata.uid)
        if self.server.holds(written.metadata.uid) and written.metadata.uid not in self.moved:
            assert seen is not None
            assert version_of(seen) >= version_of(written)

    def _hear(self, old: Object | None, new: Object | None) -> None:
        uid = (new or old or _nothing()).metadata.uid
        assert self.mirror.get(uid) is old
        assert self.store.get(uid) is new
        if new is None:
            del self.mirror[uid]
            self.departed.append(uid)
        else:
            self.mirror[uid] = new


def _event_version(event: WatchEvent[Object]) -> int:
    assert isinstance(event, Added | Modified | Deleted)
    return version_of(event.object)


def _nothing() -> Object:
    raise AssertionError("a change of nothing into nothing")


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=examples(100), stateful_step_count=100, deadline=None)
