"""Budgets, pods that they guard, and evictions, for the tests of both."""

from collections.abc import Iterable
from typing import Any

from grove.api.types.meta import JsonObject
from tests.conformance.talk import PATIENCE_SECONDS, Answer, Talk, bound, clique, owned_by, pod

BUDGETS = "poddisruptionbudgets"
SELECTOR: JsonObject = {"matchLabels": {"app": "x"}}


def budget(name: str, spec: Any = None, **metadata: Any) -> JsonObject:
    body: JsonObject = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, **metadata},
    }
    return body if spec is None else {**body, "spec": spec}


def guarding(**wish: Any) -> JsonObject:
    """A spec that guards the pods of these tests."""
    return {**wish, "selector": SELECTOR}


async def running(api: Talk, *names: str, ready: bool = True, app: str = "x", owner: Answer | None = None) -> None:
    """Pods that run on a node, and are ready or not."""
    owners = {} if owner is None else {"ownerReferences": [{**owned_by(owner), "controller": True}]}
    for name in names:
        await api.create("pods", pod(name, spec=bound(), labels={"app": app}, **owners))
        await become(api, name, "Running", ready=ready)


async def become(api: Talk, name: str, phase: str, *, ready: bool) -> None:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    answer = await api.merge(api.at("pods", name, "status"), {"status": {"phase": phase, "conditions": conditions}})
    assert answer.status == 200, answer.body


async def a_clique(api: Talk, replicas: int) -> Answer:
    """An owner of pods that has a scale."""
    return await api.create("podcliques", clique("owner", spec={"replicas": replicas}))


class Count:
    """The numbers of a budget's status, as they are compared: expected, healthy of them, desired, allowed to go."""

    def __init__(self, expected: int, healthy: int, desired: int, allowed: int) -> None:
        self.numbers = {
            "expectedPods": expected,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
        }

    def is_in(self, answer: Answer) -> bool:
        status = answer.body["status"]
        is_counted: bool = status.get("observedGeneration") == answer.metadata["generation"]
        return is_counted and self.numbers.items() <= status.items()


async def counted(api: Talk, expected: int, healthy: int, desired: int, allowed: int, name: str = "a") -> JsonObject:
    """The status of the budget, once its controller has counted so.

    A real one learns of new kinds every 30 s only, and tries later and later: it is reminded.
    """
    path, wanted = api.at(BUDGETS, name), Count(expected, healthy, desired, allowed)
    begun = reminded = api.clock.monotonic()
    while not wanted.is_in(answer := await api.get(path)):
        now = api.clock.monotonic()
        assert now < begun + PATIENCE_SECONDS, answer.body
        if now > reminded + 1:
            reminded = now
            await api.merge(path, {"metadata": {"annotations": {"reminded": str(now)}}})
        await api.clock.sleep(0.02)
    status: JsonObject = answer.body["status"]
    return status


async def guarded(api: Talk, names: Iterable[str], **wish: Any) -> None:
    """Ready pods, and the budget `a` that guards them, counted."""
    names = tuple(names)
    await running(api, *names)
    await api.create(BUDGETS, budget("a", guarding(**wish)))
    desired = wish["minAvailable"]
    await counted(api, len(names), len(names), desired, max(len(names) - desired, 0))


async def evict(api: Talk, name: str, options: Any = None, **query: str) -> Answer:
    return await api.post(api.at("pods", name, "eviction"), eviction(name, options), **query)


def eviction(name: str, options: Any = None) -> JsonObject:
    body: JsonObject = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return body if options is None else {**body, "deleteOptions": options}
