"""GET with watch: what comes, in which shape, and where a watch may begin."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from grove.kube.api_errors import ApiError
from tests.conformance.talk import Talk, bound, clique, config, pod

MINE = "mine=1"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def mine(name: str, **metadata: Any) -> JsonObject:
    return config(name, labels={"mine": "1"}, **metadata)


async def version_of(api: Talk, plural: str) -> str:
    version: str = (await api.get(api.at(plural))).metadata["resourceVersion"]
    return version


async def events(api: Talk, path: str = "", **query: str) -> list[JsonObject]:
    """All that a watch of config maps tells before it tells of one that is made now. They carry the label `mine`."""
    found: list[JsonObject] = []
    async with api.watch(path or api.at("configmaps"), **query) as watched:
        last = await api.create("configmaps", config("last", labels={"mine": "1", "run": api.namespace}))
        while (event := await watched.event())["object"] != last.body:
            found.append(event)
    return found


async def refusal(api: Talk, plural: str, **query: str) -> tuple[int, str, str]:
    with pytest.raises(ApiError) as refused:
        async with api.watch(api.at(plural), **query):
            pass
    return refused.value.code, refused.value.reason, refused.value.message


def names(found: list[JsonObject]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in found]


async def test_changes_come_in_order_with_whole_objects(api: Talk) -> None:
    version = await version_of(api, "configmaps")
    async with api.watch(api.at("configmaps"), resourceVersion=version, labelSelector=MINE) as watched:
        born = await api.create("configmaps", mine("a"))
        assert await watched.event() == {"type": "ADDED", "object": born.body}
        changed = await api.merge(api.at("configmaps", "a"), {"data": {"k": "v"}})
        assert await watched.event() == {"type": "MODIFIED", "object": changed.body}


async def test_an_object_that_is_gone_is_shown_as_it_was(api: Talk) -> None:
    born = await api.create("podcliques", clique("a"))
    async with api.watch(api.at("podcliques"), resourceVersion=born.metadata["resourceVersion"]) as watched:
        await api.delete(api.at("podcliques", "a"))
        event = await watched.event()
    version = event["object"]["metadata"].pop("resourceVersion")
    before = born.body
    assert int(version) > int(before["metadata"].pop("resourceVersion"))
    assert event == {"type": "DELETED", "object": before}


async def test_an_object_that_its_finalizer_let_go_is_shown_with_it(api: Talk) -> None:
    born = await api.create("podcliques", clique("a", finalizers=["x.io/a"]))
    async with api.watch(api.at("podcliques"), resourceVersion=born.metadata["resourceVersion"]) as watched:
        await api.delete(api.at("podcliques", "a"))
        leaving = await watched.event()
        assert leaving["type"] == "MODIFIED"
        assert leaving["object"]["metadata"]["deletionTimestamp"]
        await api.merge(api.at("podcliques", "a"), {"metadata": {"finalizers": None}})
        gone = await watched.event()
    assert (gone["type"], gone["object"]["metadata"]["finalizers"]) == ("DELETED", ["x.io/a"])


@pytest.mark.parametrize("spec", [{}, bound()])
async def test_a_pod_that_is_killed_is_first_marked(api: Talk, spec: JsonObject) -> None:
    born = await api.create("pods", pod("a", spec=spec))
    async with api.watch(api.at("pods"), resourceVersion=born.metadata["resourceVersion"]) as watched:
        await api.delete(api.at("pods", "a"), {"gracePeriodSeconds": 0})
        marked, gone = await watched.event(), await watched.event()
    assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
    assert marked["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(marked["object"]["metadata"]["resourceVersion"])


async def test_an_object_that_stops_to_match_is_gone_for_the_watcher(api: Talk) -> None:
    version = await version_of(api, "configmaps")
    path = api.at("configmaps", "a")
    async with api.watch(api.at("configmaps"), resourceVersion=version, labelSelector=MINE) as watched:
        await api.create("configmaps", mine("a"))
        assert await watched.next() == ("ADDED", "a")
        moved = await api.merge(path, {"metadata": {"labels": {"mine": "2"}}})
        left = await watched.event()
        assert (left["type"], left["object"]["metadata"]["labels"]) == ("DELETED", {"mine": "1"})
        assert left["object"]["metadata"]["resourceVersion"] == moved.metadata["resourceVersion"]
        await api.merge(path, {"metadata": {"labels": {"mine": "1"}}})
        assert await watched.next() == ("ADDED", "a")


async def test_a_watch_by_field_follows_one_object(api: Talk) -> None:
    version = await version_of(api, "configmaps")
    async with api.watch(api.at("configmaps"), resourceVersion=version, fieldSelector="metadata.name=b") as watched:
        for name in ("a", "b", "c"):
            await api.create("configmaps", config(name))
        assert await watched.next() == ("ADDED", "b")


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_a_watch_from_anywhere_begins_with_what_there_is(api: Talk, query: Any) -> None:
    for name in ("a", "b"):
        await api.create("configmaps", mine(name))
    await api.caught_up("configmaps", ["a", "b"], labelSelector=MINE)
    assert names(await events(api, labelSelector=MINE, **query)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_from_a_version_begins_after_it(api: Talk) -> None:
    first = await api.create("configmaps", mine("a"))
    await api.create("configmaps", mine("b"))
    version = first.metadata["resourceVersion"]
    assert names(await events(api, labelSelector=MINE, resourceVersion=version)) == [("ADDED", "b")]


async def test_a_watch_over_all_namespaces(api: Talk) -> None:
    label = {"run": api.namespace}
    await api.create("configmaps", config("a", labels=label))
    found = await events(api, api.everywhere("configmaps"), labelSelector=f"run={api.namespace}")
    assert names(found) == [("ADDED", "a")]


async def test_a_watch_may_wait_for_a_version_that_is_yet_to_come(api: Talk) -> None:
    await api.create("configmaps", mine("a"))
    async with api.watch(api.at("configmaps"), resourceVersion="99999999", timeoutSeconds="1") as watched:
        assert await watched.rest() == []


async def test_the_first_events_can_be_told_from_later_ones(api: Talk) -> None:
    await api.create("configmaps", mine("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(api.at("configmaps"), labelSelector=MINE, **query) as watched:
        assert await watched.next() == ("ADDED", "a")
        bookmark = await watched.event()
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["kind"] == "ConfigMap"
        assert sorted(bookmark["object"]["metadata"]) == ["annotations", "resourceVersion"]
        assert bookmark["object"]["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}
        await api.create("configmaps", mine("b"))
        assert await watched.next() == ("ADDED", "b")


async def test_without_bookmarks_the_first_events_have_no_end(api: Talk) -> None:
    await api.create("configmaps", mine("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    assert names(await events(api, labelSelector=MINE, **query)) == [("ADDED", "a")]


async def test_first_events_can_be_declined(api: Talk) -> None:
    await api.create("configmaps", mine("a"))
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    assert await events(api, labelSelector=MINE, **query) == []


REFUSED: list[Any] = [
    ({"sendInitialEvents": "true"},
     "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
    ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
     ("resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
     "provided")),
]  # fmt: skip


@pytest.mark.parametrize(("query", "problem"), REFUSED)
async def test_options_of_a_watch_must_go_together(api: Talk, query: Any, problem: str) -> None:
    message = f'ListOptions.meta.k8s.io "" is invalid: {problem}'
    assert await refusal(api, "configmaps", **query) == (422, "Invalid", message)


async def test_a_watch_selects_as_a_list_does(api: Talk) -> None:
    message = "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
    assert await refusal(api, "configmaps", labelSelector="a b") == (400, "BadRequest", message)
    message = "field label not supported: spec.x"
    assert await refusal(api, "pods", fieldSelector="spec.x=1") == (400, "BadRequest", message)


async def test_a_watch_from_what_is_no_version_is_refused(api: Talk) -> None:
    message = 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
    assert await refusal(api, "configmaps", resourceVersion="x") == (500, "", message)


async def test_of_one_object_there_is_no_watch(api: Talk) -> None:
    born = await api.create("configmaps", config("a"))
    assert (await api.get(api.at("configmaps", "a"), watch="true")).body == born.body


@pytest.mark.parametrize("word", ["1", "yes", "TRUE", ""])
async def test_a_watch_is_asked_for_by_anything_but_false(api: Talk, word: str) -> None:
    await api.create("configmaps", mine("a"))
    assert names(await events(api, labelSelector=MINE, watch=word)) == [("ADDED", "a")]


@pytest.mark.parametrize("word", ["0", "false", "False"])
async def test_a_list_is_asked_for_by_false(api: Talk, word: str) -> None:
    await api.create("configmaps", mine("a"))
    assert (await api.get(api.at("configmaps"), labelSelector=MINE, watch=word)).names == ["a"]
