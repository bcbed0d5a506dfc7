"""Watches: from which moment, which events, bookmarks, ends, and what happens to those who fall behind."""

import asyncio

import pytest

from grove.kube.api_errors import ApiError
from tests.cluster.apidsl import CONFIGS, PODS, Api, config, on_cluster, on_cluster_with, pod


@on_cluster
async def test_a_watch_tells_what_happens_after_its_moment(api: Api) -> None:
    await api.post(CONFIGS, config("a"))
    moment = (await api.get(CONFIGS)).metadata["resourceVersion"]
    await api.post(CONFIGS, config("b"))
    async with api.watch(CONFIGS, resourceVersion=moment, timeoutSeconds="10") as watch:
        assert await watch.next() == ("ADDED", "b")
        await api.merge(f"{CONFIGS}/a", {"data": {"x": "y"}})
        await api.delete(f"{CONFIGS}/a")
        assert await watch.all() == [("MODIFIED", "a"), ("DELETED", "a")]


@pytest.mark.parametrize("start", [{}, {"resourceVersion": "0"}])
@on_cluster
async def test_a_watch_without_a_moment_begins_with_what_there_is(api: Api, start: dict[str, str]) -> None:
    await api.post(CONFIGS, config("b"))
    await api.post(CONFIGS, config("a"))
    async with api.watch(CONFIGS, timeoutSeconds="1", **start) as watch:
        assert await watch.next() == ("ADDED", "a")
        assert await watch.next() == ("ADDED", "b")
        await api.delete(f"{CONFIGS}/b")
        assert await watch.next() == ("DELETED", "b")


@on_cluster
async def test_an_event_carries_the_whole_object_as_it_was_answered(api: Api) -> None:
    async with api.watch(CONFIGS, resourceVersion="4") as watch:
        created = await api.post(CONFIGS, config("a"))
        assert await watch.event() == {"type": "ADDED", "object": created.body}


@on_cluster
async def test_a_deletion_carries_a_version_of_its_own(api: Api) -> None:
    created = await api.post(CONFIGS, config("a"))
    await api.delete(f"{CONFIGS}/a")
    async with api.watch(CONFIGS, resourceVersion=created.metadata["resourceVersion"]) as watch:
        event = await watch.event()
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("DELETED", "6")


@on_cluster
async def test_a_reader_waits_until_something_happens(api: Api) -> None:
    async with api.watch(CONFIGS, resourceVersion="4") as watch:
        waiting = asyncio.ensure_future(watch.next())
        await api.clock.sleep(100)
        assert not waiting.done()
        await api.post(CONFIGS, config("a"))
        assert await waiting == ("ADDED", "a")


@on_cluster
async def test_an_object_that_starts_or_stops_to_match_comes_or_goes(api: Api) -> None:
    async with api.watch(CONFIGS, resourceVersion="4", labelSelector="x=1", timeoutSeconds="1") as watch:
        await api.post(CONFIGS, config("a"))
        await api.merge(f"{CONFIGS}/a", {"metadata": {"labels": {"x": "1"}}})
        await api.merge(f"{CONFIGS}/a", {"data": {"k": "v"}})
        left = await api.merge(f"{CONFIGS}/a", {"metadata": {"labels": {"x": "2"}}})
        await api.delete(f"{CONFIGS}/a")
        assert await watch.next() == ("ADDED", "a")
        assert await watch.next() == ("MODIFIED", "a")
        event = await watch.event()
        assert event["type"] == "DELETED"
        # The last version that matched, at the moment it stopped to.
        assert event["object"]["metadata"]["labels"] == {"x": "1"}
        assert event["object"]["metadata"]["resourceVersion"] == left.metadata["resourceVersion"]
        assert await watch.all() == []


@on_cluster
async def test_a_watch_by_field_sees_pods_arrive_on_its_node(api: Api) -> None:
    async with api.watch(PODS, resourceVersion="4", fieldSelector="spec.nodeName=n1", timeoutSeconds="1") as watch:
        await api.post(PODS, pod("a"))
        await api.post(PODS, pod("b"))
        await api.bind("b", "n2")
        await api.bind("a", "n1")
        await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
        assert await watch.all() == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


@on_cluster
async def test_a_watch_of_a_namespace_sees_no_other(api: Api) -> None:
    elsewhere = "/api/v1/namespaces/kube-system/configmaps"
    async with (
        api.watch(CONFIGS, resourceVersion="4", timeoutSeconds="1") as here,
        api.watch("/api/v1/configmaps", resourceVersion="4", timeoutSeconds="1") as everywhere,
    ):
        await api.post(elsewhere, config("a"))
        await api.post(CONFIGS, config("b"))
        assert await here.all() == [("ADDED", "b")]
        assert await everywhere.all() == [("ADDED", "a"), ("ADDED", "b")]


@on_cluster
async def test_a_moment_that_is_forgotten_is_an_error_event(api: Api) -> None:
    await api.post(CONFIGS, config("a"))
    api.server.store.compact()
    async with api.watch(CONFIGS, resourceVersion="4") as watch:
        event = await watch.event()
        assert await watch.all() == []
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"] == "too old resource version: 4 (5)"


@on_cluster
async def test_the_present_moment_is_never_forgotten(api: Api) -> None:
    await api.post(CONFIGS, config("a"))
    api.server.store.compact()
    async with api.watch(CONFIGS, resourceVersion="5", timeoutSeconds="1") as watch:
        assert await watch.all() == []


@on_cluster_with(history=4)
async def test_a_reader_that_falls_behind_the_history_is_told_to_list_again(api: Api) -> None:
    async with api.watch(CONFIGS, resourceVersion="4") as watch:
        for name in "abcde":
            await api.post(CONFIGS, config(name))
        assert (await watch.event())["object"]["code"] == 410


@on_cluster_with(history=4)
async def test_a_reader_at_the_edge_of_the_history_misses_nothing(api: Api) -> None:
    async with api.watch(CONFIGS, resourceVersion="4", timeoutSeconds="1") as watch:
        for name in "abcd":
            await api.post(CONFIGS, config(name))
        assert await watch.all() == [("ADDED", name) for name in "abcd"]


@on_cluster
async def test_bookmarks_come_every_minute_and_at_the_end_to_those_who_want_them(api: Api) -> None:
    async with (
        api.watch(CONFIGS, resourceVersion="4", timeoutSeconds="100", allowWatchBookmarks="true") as wanting,
        api.watch(CONFIGS, resourceVersion="4", timeoutSeconds="100") as other,
    ):
        await api.post(PODS, pod("x"))
        event = await wanting.event()
        assert event == {
            "type": "BOOKMARK",
            "object": {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": "5"},
            },
        }
        assert (api.clock.monotonic(), await wanting.all()) == (60, [("BOOKMARK", "")])
        assert (api.clock.monotonic(), await other.all()) == (100, [])


@on_cluster
async def test_a_watch_ends_after_its_time_and_tells_first_what_already_happened(api: Api) -> None:
    async with api.watch(CONFIGS, resourceVersion="4", timeoutSeconds="5") as watch:
        await api.clock.sleep(4)
        await api.post(CONFIGS, config("a"))
        await api.clock.sleep(4)
        await api.post(CONFIGS, config("b"))
        assert await watch.next() == ("ADDED", "a")


@on_cluster
async def test_a_watch_without_a_time_out_still_ends_some_day(api: Api) -> None:
    async with api.watch(CONFIGS, resourceVersion="4") as watch:
        assert await watch.all() == []
    assert 1800 <= api.clock.monotonic() <= 3600


@pytest.mark.parametrize(
    ("path", "query", "code"),
    [
        ("/api/v1/nothing", {}, 404),
        (CONFIGS, {"resourceVersion": "x"}, 400),
        (CONFIGS, {"labelSelector": "="}, 400),
        (CONFIGS, {"sendInitialEvents": "true"}, 422),
    ],
)
@on_cluster
async def test_a_watch_that_cannot_be_is_refused_when_it_is_opened(
    api: Api, path: str, query: dict[str, str], code: int
) -> None:
    with pytest.raises(ApiError) as refused:
        async with api.watch(path, **query):
            pass
    assert refused.value.code == code
