"""Budgets in virtual time: who counts, what time changes, and evictions that never overdraw one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.admission.webhook_request import Call, CallFailure, CallResult, WebhookResult
from grove.cluster.apiserver.registry.metadata import format_time
from grove.cluster.controllers.disruption_controller import DisruptionController
from grove.cluster.in_process_transport import InProcessTransport
from grove.kube.transport import Request
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.cluster.apidsl import NOON, PODS, Answer, Api, fresh_api, on_cluster, pod
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
READY: JsonObject = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


@asynccontextmanager
async def counting(api: Api) -> AsyncIterator[None]:
    running = asyncio.create_task(DisruptionController(api.server).run())
    try:
        yield
    finally:
        assert not running.done(), running.exception()
        running.cancel()


async def ready_pods(api: Api, *names: str) -> None:
    for name in names:
        await api.post(PODS, pod(name, spec={"nodeName": "n"}, labels={"app": "x"}))
        await api.merge(f"{PODS}/{name}/status", READY)


async def guard(api: Api, **wish: Any) -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}, **wish}
    made = await api.post(BUDGETS, {"metadata": {"name": "a"}, "spec": spec})
    assert made.status == 201, made.body


async def allowed(api: Api) -> int:
    """After the controller has had its moment."""
    await api.clock.sleep(1)
    count: int = (await api.get(f"{BUDGETS}/a")).body["status"]["disruptionsAllowed"]
    return count


async def evict(api: Api, name: str) -> Answer:
    return await api.post(f"{PODS}/{name}/eviction", {"metadata": {"name": name}})


@on_cluster
async def test_what_was_there_before_the_controller_is_counted(api: Api) -> None:
    await ready_pods(api, "a", "b")
    await guard(api, minAvailable=1)
    assert (await evict(api, "a")).status == 429
    async with counting(api):
        assert await allowed(api) == 1


@on_cluster
async def test_nobody_writes_while_nothing_changes(api: Api) -> None:
    await ready_pods(api, "a", "b")
    await guard(api, minAvailable=1)
    async with counting(api):
        await allowed(api)
        revision = api.server.store.revision
        await api.clock.sleep(3600)
        assert api.server.store.revision == revision


@on_cluster
async def test_a_pod_that_was_paid_for_and_stays_counts_again_after_two_minutes(api: Api) -> None:
    await ready_pods(api, "a", "b")
    await guard(api, minAvailable=1)
    async with counting(api):
        assert await allowed(api) == 1
        paid = {"disruptionsAllowed": 0, "disruptedPods": {"a": format_time(NOON + timedelta(seconds=1))}}
        await api.merge(f"{BUDGETS}/a/status", {"status": paid})
        assert await allowed(api) == 0
        await api.clock.sleep(117)
        assert await allowed(api) == 0
        await api.clock.sleep(1)
        assert await allowed(api) == 1
        assert "disruptedPods" not in (await api.get(f"{BUDGETS}/a")).body["status"]


@pytest.mark.parametrize(
    "time", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "2026-01-01T12:00:00.123456789Z"]
)
@on_cluster
async def test_whatever_a_status_says_is_counted(api: Api, time: str) -> None:
    await ready_pods(api, "a", "b")
    await guard(api, minAvailable=1)
    async with counting(api):
        await api.merge(f"{BUDGETS}/a/status", {"status": {"disruptedPods": {"a": time}}})
        assert await allowed(api) == (1 if time < "1" else 0)


@pytest.mark.parametrize("conditions", [["x"], "x", [{"type": 5}], {}])
@on_cluster
async def test_whatever_a_pod_says_is_counted(api: Api, conditions: Any) -> None:
    await ready_pods(api, "a", "b")
    await api.merge(f"{PODS}/a/status", {"status": {"conditions": conditions}})
    await guard(api, minAvailable=0)
    async with counting(api):
        assert await allowed(api) == 1
        assert (await evict(api, "a")).status == 201


@on_cluster
async def test_a_share_may_be_written_at_any_length(api: Api) -> None:
    assert (
        await api.post(BUDGETS, {"metadata": {"name": "a"}, "spec": {"minAvailable": "9" * 5000 + "%"}})
    ).status == 422
    await ready_pods(api, "a", "b")
    await guard(api, minAvailable="0" * 5000 + "50%")
    async with counting(api):
        await api.clock.sleep(1)
        assert (await api.get(f"{BUDGETS}/a")).body["status"]["observedGeneration"] == 1


@on_cluster
async def test_a_pod_of_another_label_leaves_its_budget(api: Api) -> None:
    await ready_pods(api, "a", "b")
    await guard(api, minAvailable=1)
    async with counting(api):
        assert await allowed(api) == 1
        await api.merge(f"{PODS}/a", {"metadata": {"labels": {"app": "y"}}})
        assert await allowed(api) == 0


@on_cluster
async def test_an_owner_that_comes_later_is_found(api: Api) -> None:
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "late", "uid": "1", "controller": True}
    await api.post(PODS, pod("a", labels={"app": "x"}, ownerReferences=[owner]))
    await api.merge(f"{PODS}/a/status", READY)
    await guard(api, maxUnavailable=1)
    async with counting(api):
        await api.clock.sleep(60)
        (condition,) = (await api.get(f"{BUDGETS}/a")).body["status"]["conditions"]
        assert condition["message"] == 'found no controllers for pod "a"'
        spec = {"roleName": "worker", "podSpec": {"containers": []}, "replicas": 1}
        body = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": {"name": "late"}, "spec": spec}
        await api.post("/apis/grove.io/v1alpha1/namespaces/default/podcliques", body)
        await api.clock.sleep(10)
        assert await allowed(api) == 1


@on_cluster
async def test_a_status_that_a_webhook_refuses_is_written_later(api: Api) -> None:
    answer: list[CallResult] = [CallFailure("down")]

    async def ask(call: Call, uid: str) -> CallResult:
        return answer[-1]

    await ready_pods(api, "a", "b")
    await watch_over(api, ask, "poddisruptionbudgets/status")
    await guard(api, minAvailable=1)
    async with counting(api):
        assert await allowed(api) == 0
        answer.append(WebhookResult(is_allowed=True))
        assert await allowed(api) == 1


@on_cluster
async def test_of_evictions_that_wait_for_a_webhook_no_more_succeed_than_the_budget_has(api: Api) -> None:
    async def ask(call: Call, uid: str) -> CallResult:
        await api.clock.sleep(1)
        return WebhookResult(is_allowed=True)

    await ready_pods(api, "a", "b", "c")
    await guard(api, minAvailable=1)
    async with counting(api):
        assert await allowed(api) == 2
        await watch_over(api, ask, "pods/eviction")
        answers = await asyncio.gather(*(evict(api, name) for name in "abc"))
        assert sorted(answer.status for answer in answers) == [201, 201, 429]


async def watch_over(api: Api, ask: Any, resource: str) -> None:
    """Whoever writes this is asked about."""
    api.server.enable_webhooks(ask)
    webhook = {
        "name": "v.tests.example",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    made = await api.post(VALIDATING, {"metadata": {"name": "judged"}, "webhooks": [webhook]})
    assert made.status == 201, made.body


@given(
    minimum=st.integers(0, 5),
    steps=st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(["evict", "wait", "gone", "new"])), max_size=25),
)
def test_evictions_never_leave_fewer_ready_pods_than_the_budget_wants(
    minimum: int, steps: list[tuple[str, str]]
) -> None:
    """Whenever the controller gets its turn."""

    async def story() -> None:
        api = fresh_api()
        await ready_pods(api, *"abcde")
        await guard(api, minAvailable=minimum)
        async with counting(api):
            await allowed(api)
            for name, step in steps:
                match step:
                    case "evict":
                        await evict(api, name)
                    case "gone" if "deletionTimestamp" in (await api.get(f"{PODS}/{name}")).body.get("metadata", {}):
                        await api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
                    case "new" if (await api.get(f"{PODS}/{name}")).status == 404:
                        await ready_pods(api, name)
                    case _:
                        await allowed(api)
                items = (await api.get(PODS)).body["items"]
                assert sum("deletionTimestamp" not in each["metadata"] for each in items) >= minimum

    run_virtual(story())


def test_an_evicted_pod_of_a_gang_is_replaced() -> None:
    async def story() -> None:
        async with World(seed=1, nodes=30, node_resources=ONE_POD_NODE) as world:
            await world.apply(WORKLOAD1)
            await world.wait_until(lambda: len(world.running_pods()) == 10)
            await world.settle()
            before = {each.metadata.name for each in world.running_pods()}
            gone = min(before)
            body = msgspec.json.encode({"metadata": {"name": gone}})
            request = Request(method="POST", path=f"{PODS}/{gone}/eviction", body=body)
            assert (await InProcessTransport(world.server, world.clock).send(request)).status == 201
            await world.settle()
            after = {each.metadata.name for each in world.running_pods()}
            assert (len(after), gone in after) == (10, False)
            world.check()

    run_virtual(story())
