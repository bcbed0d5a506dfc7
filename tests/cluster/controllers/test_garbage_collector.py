"""The garbage collector: owners and dependents, pods of lost nodes, namespaces that leave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from grove.cluster.controllers.garbage_collector import GarbageCollector
from tests.cluster.apidsl import (
    CLIQUES,
    CONFIGS,
    NAMESPACES,
    NODES,
    PODS,
    Api,
    clique,
    config,
    node,
    on_cluster,
    owner,
    pod,
)


@asynccontextmanager
async def _collecting(api: Api) -> AsyncIterator[None]:
    running = asyncio.create_task(GarbageCollector(api.server).run())
    try:
        yield
    finally:
        running.cancel()


async def _family(api: Api, *, is_blocking: bool = False, finalizers: tuple[str, ...] = ()) -> None:
    """A clique, its config, and the config's pod."""
    parent = await api.post(CLIQUES, clique("parent"))
    child = await api.post(CONFIGS, config("child", ownerReferences=[owner(parent, is_blocking=is_blocking)]))
    await api.post(
        PODS,
        pod("grandchild", ownerReferences=[owner(child, is_blocking=is_blocking)], finalizers=list(finalizers)),
    )


async def _left(api: Api) -> list[str]:
    return [name for path in (CLIQUES, CONFIGS, PODS) for name in (await api.get(path)).names]


@on_cluster
async def test_dependents_follow_their_owner(api: Api) -> None:
    async with _collecting(api):
        await _family(api)
        await api.delete(f"{CLIQUES}/parent")
        assert await _left(api) == ["child", "grandchild"]
        await api.clock.sleep(1)
        assert await _left(api) == []


@on_cluster
async def test_what_was_orphaned_before_the_collector_started_is_found(api: Api) -> None:
    await _family(api)
    await api.delete(f"{CLIQUES}/parent")
    async with _collecting(api):
        await api.clock.sleep(1)
        assert await _left(api) == []


@pytest.mark.parametrize("change", [{"kind": "ConfigMap", "apiVersion": "v1"}, {"name": "other"}])
@on_cluster
async def test_an_owner_is_the_object_that_is_named_whoever_has_its_uid(api: Api, change: dict[str, str]) -> None:
    async with _collecting(api):
        parent = await api.post(CLIQUES, clique("parent"))
        await api.post(CONFIGS, config("child", ownerReferences=[{**owner(parent), **change}]))
        await api.clock.sleep(1)
        assert await _left(api) == ["parent"]


@on_cluster
async def test_an_object_born_after_its_owner_died_goes_too(api: Api) -> None:
    async with _collecting(api):
        parent = await api.post(CLIQUES, clique("parent"))
        await api.delete(f"{CLIQUES}/parent")
        await api.post(PODS, pod("late", ownerReferences=[owner(parent)]))
        await api.clock.sleep(1)
        assert await _left(api) == []


@on_cluster
async def test_a_new_owner_of_the_same_name_is_another_owner(api: Api) -> None:
    async with _collecting(api):
        await _family(api)
        await api.delete(f"{CLIQUES}/parent")
        await api.post(CLIQUES, clique("parent"))
        await api.clock.sleep(1)
        assert await _left(api) == ["parent"]


@on_cluster
async def test_one_living_owner_is_enough(api: Api) -> None:
    async with _collecting(api):
        owners = [owner(await api.post(CLIQUES, clique(name))) | {"controller": name == "a"} for name in "ab"]
        await api.post(PODS, pod("shared", ownerReferences=owners))
        await api.delete(f"{CLIQUES}/a")
        await api.clock.sleep(1)
        assert (await api.get(f"{PODS}/shared")).metadata["ownerReferences"] == owners[1:]


@on_cluster
async def test_an_owner_in_another_namespace_is_no_owner(api: Api) -> None:
    async with _collecting(api):
        elsewhere = await api.post("/api/v1/namespaces/kube-system/configmaps", config("a"))
        await api.post(CONFIGS, config("b", ownerReferences=[owner(elsewhere)]))
        await api.clock.sleep(1)
        assert (await api.get(CONFIGS)).names == []


@on_cluster
async def test_a_cluster_wide_owner_owns_in_every_namespace(api: Api) -> None:
    async with _collecting(api):
        machine = await api.post(NODES, node("n"))
        await api.post(CONFIGS, config("a", ownerReferences=[owner(machine)]))
        await api.clock.sleep(1)
        assert (await api.get(CONFIGS)).names == ["a"]
        await api.delete(f"{NODES}/n")
        await api.clock.sleep(1)
        assert (await api.get(CONFIGS)).names == []


@on_cluster
async def test_in_the_foreground_the_owner_goes_last(api: Api) -> None:
    async with _collecting(api):
        await _family(api, is_blocking=True, finalizers=("x.io/hold",))
        await api.delete(f"{CLIQUES}/parent", {"propagationPolicy": "Foreground"})
        await api.clock.sleep(10)
        assert await _left(api) == ["parent", "child", "grandchild"]
        assert (await api.get(f"{CLIQUES}/parent")).metadata["finalizers"] == ["foregroundDeletion"]
        await api.merge(f"{PODS}/grandchild", {"metadata": {"finalizers": None}})
        await api.clock.sleep(1)
        assert await _left(api) == []


@on_cluster
async def test_in_the_foreground_only_those_that_block_are_waited_for(api: Api) -> None:
    async with _collecting(api):
        parent = await api.post(CLIQUES, clique("parent"))
        await api.post(PODS, pod("a", ownerReferences=[owner(parent)], finalizers=["x.io/hold"]))
        await api.delete(f"{CLIQUES}/parent", {"propagationPolicy": "Foreground"})
        await api.clock.sleep(1)
        assert await _left(api) == ["a"]
        assert "deletionTimestamp" in (await api.get(f"{PODS}/a")).metadata


@on_cluster
async def test_an_owner_without_dependents_does_not_wait_in_the_foreground(api: Api) -> None:
    async with _collecting(api):
        await api.post(CLIQUES, clique("parent"))
        await api.delete(f"{CLIQUES}/parent", {"propagationPolicy": "Foreground"})
        await api.clock.sleep(1)
        assert await _left(api) == []


@on_cluster
async def test_orphans_stay_and_forget_their_owner(api: Api) -> None:
    async with _collecting(api):
        await _family(api)
        await api.delete(f"{CLIQUES}/parent", {"propagationPolicy": "Orphan"})
        await api.clock.sleep(1)
        assert await _left(api) == ["child", "grandchild"]
        assert "ownerReferences" not in (await api.get(f"{CONFIGS}/child")).metadata


@on_cluster
async def test_when_nothing_is_owed_nothing_is_written(api: Api) -> None:
    async with _collecting(api):
        await _family(api)
        await api.clock.sleep(1)
        before = api.server.store.revision
        await api.clock.sleep(3600)
        assert api.server.store.revision == before


# Pods of nodes that are gone


@pytest.mark.parametrize(("seconds", "left"), [(39, ["a"]), (41, [])])
@on_cluster
async def test_pods_of_a_lost_node_are_removed_after_a_while(api: Api, seconds: int, left: list[str]) -> None:
    async with _collecting(api):
        await api.post(NODES, node("n"))
        await api.post(PODS, pod("a"))
        await api.bind("a", "n")
        await api.clock.sleep(3600)
        await api.delete(f"{NODES}/n")
        await api.clock.sleep(seconds)
        assert (await api.get(PODS)).names == left


@on_cluster
async def test_a_lost_pod_fails_before_it_goes(api: Api) -> None:
    async with _collecting(api):
        await api.post(PODS, pod("a"))
        await api.bind("a", "never-there")
        moment = (await api.get(PODS)).metadata["resourceVersion"]
        async with api.watch(PODS, resourceVersion=moment) as watch:
            event = await watch.event()
            assert (event["type"], event["object"]["status"]["phase"]) == ("MODIFIED", "Failed")
            assert event["object"]["status"]["conditions"][0] == {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": "2026-01-01T12:00:40Z",
            }
            assert [await watch.next(), await watch.next()] == [("MODIFIED", "a"), ("DELETED", "a")]


@on_cluster
async def test_a_pod_that_was_leaving_when_its_node_went_is_not_stuck(api: Api) -> None:
    async with _collecting(api):
        await api.post(NODES, node("n"))
        await api.post(PODS, pod("a"))
        await api.bind("a", "n")
        await api.delete(f"{PODS}/a")
        await api.delete(f"{NODES}/n")
        await api.clock.sleep(41)
        assert (await api.get(PODS)).names == []


@on_cluster
async def test_a_node_that_comes_back_in_time_keeps_its_pods(api: Api) -> None:
    async with _collecting(api):
        await api.post(NODES, node("n"))
        await api.post(PODS, pod("a"))
        await api.bind("a", "n")
        await api.delete(f"{NODES}/n")
        await api.clock.sleep(30)
        await api.post(NODES, node("n"))
        await api.clock.sleep(100)
        assert (await api.get(PODS)).names == ["a"]


# Namespaces


@on_cluster
async def test_a_namespace_goes_when_everything_in_it_is_gone(api: Api) -> None:
    async with _collecting(api):
        await api.post(NAMESPACES, {"metadata": {"name": "team"}})
        held = "/api/v1/namespaces/team/configmaps"
        await api.post(held, config("free"))
        await api.post(held, config("held", finalizers=["x.io/hold"]))
        await api.delete(f"{NAMESPACES}/team")
        await api.clock.sleep(100)
        assert (await api.get(held)).names == ["held"]
        status = (await api.get(f"{NAMESPACES}/team")).body["status"]
        assert status["phase"] == "Terminating"
        assert [each["message"] for each in status["conditions"] if each["status"] == "True"] == [
            "Some resources are remaining: configmaps. has 1 resource instances",
            "Some content in the namespace has finalizers remaining: x.io/hold in 1 resource instances",
        ]
        await api.merge(f"{held}/held", {"metadata": {"finalizers": []}})
        await api.clock.sleep(1)
        assert (await api.get(f"{NAMESPACES}/team")).status == 404
        assert (await api.post(NAMESPACES, {"metadata": {"name": "team"}})).status == 201


@on_cluster
async def test_an_empty_namespace_goes_soon(api: Api) -> None:
    async with _collecting(api):
        await api.post(NAMESPACES, {"metadata": {"name": "team"}})
        await api.delete(f"{NAMESPACES}/team")
        await api.clock.sleep(1)
        assert (await api.get(f"{NAMESPACES}/team")).status == 404
