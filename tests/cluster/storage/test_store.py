"""The store: one counter, versions that never change, history with an end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api.types.meta import JsonObject
from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.cluster.storage.store import Change, ChangeType, CompactedError, Entry, Storage

CONFIGS = BY_QUALIFIED["configmaps"]
SECRETS = BY_QUALIFIED["secrets"]


def _object(name: str, **labels: str) -> JsonObject:
    return {"kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


def _put(store: Storage, name: str, namespace: str = "d", **labels: str) -> Entry:
    return store.put(CONFIGS, namespace, name, _object(name, **labels))


def test_one_counter_numbers_the_writes_of_all_kinds() -> None:
    store = Storage(history=10)
    first = _put(store, "a")
    second = store.put(SECRETS, "d", "a", _object("a"))
    third = store.remove(CONFIGS, "d", "a")
    assert [first.revision, second.revision, third.revision] == [1, 2, 3]
    assert third.obj["metadata"]["resourceVersion"] == "3"
    assert store.revision == 3


def test_storing_does_not_touch_what_was_given_and_shares_it() -> None:
    store = Storage(history=10)
    given_object = _object("a", x="y")
    entry = store.put(CONFIGS, "d", "a", given_object)
    assert given_object == _object("a", x="y")
    assert entry.obj["metadata"]["labels"] is given_object["metadata"]["labels"]
    assert entry.data == b'{"kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"y"},"resourceVersion":"1"}}'


def test_listeners_hear_each_change_in_order() -> None:
    store = Storage(history=10)
    heard: list[Change] = []
    store.subscribe(heard.append)
    added = _put(store, "a")
    changed = _put(store, "a", x="y")
    gone = store.remove(CONFIGS, "d", "a")
    assert heard == [
        Change(CONFIGS, ChangeType.ADDED, added, None),
        Change(CONFIGS, ChangeType.MODIFIED, changed, added),
        Change(CONFIGS, ChangeType.DELETED, gone, changed),
    ]


@pytest.mark.parametrize(("writes", "oldest"), [(3, 0), (4, 0), (5, 2), (6, 2), (7, 4)])
def test_history_is_cut_in_half_when_it_grows_too_long(writes: int, oldest: int) -> None:
    store = Storage(history=4)
    for number in range(writes):
        _put(store, f"a{number}")
    table = store.table(CONFIGS)
    assert table.compacted == oldest
    assert table.cursor_after(oldest) == oldest
    assert [change.revision for change in table.log] == list(range(oldest + 1, writes + 1))
    if oldest:
        with pytest.raises(CompactedError):
            table.cursor_after(oldest - 1)


def test_a_waker_is_called_once_and_only_for_its_kind() -> None:
    store = Storage(history=10)
    calls: list[str] = []
    store.table(CONFIGS).wake_on_change("me", lambda: calls.append("me"))
    store.table(CONFIGS).wake_on_change("gone", lambda: calls.append("gone"))
    store.table(CONFIGS).stop_waking("gone")
    store.put(SECRETS, "d", "a", _object("a"))
    assert calls == []
    _put(store, "a")
    _put(store, "b")
    assert calls == ["me"]


_Write = tuple[str, str, str, str]
_WRITES = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove"]),
        st.sampled_from("de"),
        st.sampled_from("abc"),
        st.sampled_from(["", "1", "2"]),
    ),
    max_size=30,
)


def _apply(store: Storage, write: _Write) -> None:
    verb, namespace, name, label = write
    before = store.table(CONFIGS).find(namespace, name)
    if verb == "put":
        store.put(CONFIGS, namespace, name, _object(name, **({"x": label} if label else {})))
    elif before is not None:
        store.remove(CONFIGS, namespace, name)


@given(_WRITES, st.integers(0, 30))
def test_any_moment_in_history_can_be_seen_again(writes: list[_Write], at: int) -> None:
    store = Storage(history=100)
    seen: dict[int, list[Entry]] = {0: []}
    for write in writes:
        _apply(store, write)
        seen[store.revision] = list(store.table(CONFIGS).entries(None))
    revision = min(at, store.revision)
    assert store.table(CONFIGS).entries_at(revision, None) == seen[revision]
    assert store.table(CONFIGS).entries_at(revision, "d") == [e for e in seen[revision] if e.namespace == "d"]


def test_the_rarest_label_leads_to_the_objects() -> None:
    store = Storage(history=10)
    _put(store, "a", team="t", role="r")
    _put(store, "b", team="t")
    table = store.table(CONFIGS)
    assert [entry.name for entry in table.find_candidates([("team", "t"), ("role", "r")])] == ["a"]
    assert table.find_candidates([("team", "t"), ("role", "other")]) == []


@given(_WRITES, st.integers(0, 30))
def test_the_label_index_finds_what_a_full_search_finds(writes: list[_Write], asked_first: int) -> None:
    store = Storage(history=100)
    table = store.table(CONFIGS)
    for number, write in enumerate(writes):
        if number == asked_first:
            table.find_candidates([("x", "1")])
        _apply(store, write)
    for value in ("1", "2"):
        found = [entry for entry in table.entries(None) if entry.obj["metadata"]["labels"].get("x") == value]
        assert table.find_candidates([("x", value)]) == found
