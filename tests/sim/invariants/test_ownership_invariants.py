"""Each safety rule of ownership notices an operator that breaks it, and only then.

A rogue operator does one thing to a set at rest, or to the objects of another tenant.
"""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from grove.api import labels
from grove.api.resources import EVENTS, PODCLIQUES, PODCLIQUESETS, PODS, SERVICES, Object, Resource
from grove.api.types.meta import JsonObject, Uid
from grove.clock import Clock
from grove.controller.manager import Controller
from grove.kube.client import Client
from grove.planner.actions import subject_of
from grove.planner.child_manifests import build_owner
from grove.sim.invariants.ownership import foreign_facts
from grove.sim.simulation import SimulatedOperator, World
from grove.sim.virtual_clock import run_virtual
from tests.dsl import clique, gang, group, pcs, pod, replica, service, snapshot
from tests.hostile_tenant import Attack, Claim, forge_all, serving

EVIL = "evil"
Act = Callable[[World, Client], Awaitable[None]]


class Rogue:
    def __init__(self, world: World, client: Client, act: Act) -> None:
        self._world = world
        self._client = client
        self._act = act

    async def run(self) -> None:
        await self._act(self._world, self._client)


def broken_by(act: Act) -> list[str]:
    """What the rules say when a rogue takes the place of the operator."""

    async def main() -> list[str]:
        def operator(client: Client, clock: Clock, random: Random) -> SimulatedOperator:
            return Controller(client, clock, random) if not is_rogue else Rogue(world, client, act)

        is_rogue = False
        async with World(seed=1, nodes=10, operator=operator) as world:
            await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EVIL}})
            await world.apply(serving())
            await world.settle()
            for claim, namespace in ((Claim.CONTROLLER, EVIL), (Claim.LABELS_ONLY, "default")):
                for resource in (PODS, SERVICES):
                    attack = Attack(resource=resource, claim=claim, is_held=namespace == EVIL)
                    await forge_all(world.client, attack, victim="default", namespace=namespace)
            assert world.invariants.broken == []
            is_rogue = True
            await world.restart_controller()
            await world.clock.sleep(1)
            return [reason.partition(" ")[2] for reason in world.invariants.broken]

    return run_virtual(main())


def name_of(world: World, resource: Resource[Any], namespace: str, start: str = "") -> tuple[str, Uid]:
    one = next(one for one in world.objects(resource, namespace=namespace) if one.metadata.name.startswith(start))
    return one.metadata.name, one.metadata.uid


async def deletes_a_pod_of_another_namespace(world: World, client: Client) -> None:
    name, uid = name_of(world, PODS, EVIL)
    await client.delete(PODS, EVIL, name, uid=uid)


async def patches_a_pod_of_another_namespace(world: World, client: Client) -> None:
    name, _ = name_of(world, PODS, EVIL)
    await client.patch(PODS, EVIL, name, {"metadata": {"labels": {"a": "b"}}})


async def patches_a_service_that_only_carries_labels(world: World, client: Client) -> None:
    name, _ = name_of(world, SERVICES, "default", "hostile")
    await client.patch(SERVICES, "default", name, {"metadata": {"labels": {"a": "b"}}})


async def deletes_by_label_whoever_carries_it(_world: World, client: Client) -> None:
    selector = labels.selector(labels.default_labels("web"))
    await client.delete_collection(SERVICES, "default", label_selector=selector)


async def creates_a_pod_for_a_clique_of_another_namespace(world: World, client: Client) -> None:
    metadata = next(one.metadata for one in world.objects(PODCLIQUES, namespace="default"))
    owner = build_owner(subject_of(PODCLIQUES, metadata))
    await client.create(PODS, EVIL, bare_pod({"name": "x", "namespace": EVIL, "ownerReferences": [owner]}))


async def creates_a_pod_for_nobody(_world: World, client: Client) -> None:
    await client.create(PODS, "default", bare_pod({"name": "x", "namespace": "default"}))


async def tells_of_a_set(world: World, client: Client) -> None:
    name, uid = name_of(world, PODCLIQUESETS, "default")
    about = {"kind": "PodCliqueSet", "name": name, "uid": uid, "namespace": "default"}
    await client.create(EVENTS, "default", {"metadata": {"name": "a"}, "involvedObject": about})


async def does_its_work(world: World, client: Client) -> None:
    name, _ = name_of(world, PODS, "default", "web-0-front")
    await client.patch(PODS, "default", name, {"metadata": {"annotations": {"a": "b"}}})
    service, _ = name_of(world, SERVICES, "default", "web-0")
    await client.patch(SERVICES, "default", service, {"metadata": {"annotations": {"a": "b"}}})


def bare_pod(metadata: JsonObject) -> JsonObject:
    containers = [{"name": "main", "image": "i"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (deletes_a_pod_of_another_namespace, "pods: was written although it belongs to no set of its namespace"),
        (patches_a_pod_of_another_namespace, "pods: was written although it belongs to no set of its namespace"),
        (
            patches_a_service_that_only_carries_labels,
            "services: was written although it belongs to no set of its namespace",
        ),
        (deletes_by_label_whoever_carries_it, "which belongs to no set, together with what does"),
        (creates_a_pod_for_a_clique_of_another_namespace, "pods: was created for no set of its namespace"),
        (creates_a_pod_for_nobody, "pods: was created for no set of its namespace"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_operator_that_touches_what_is_not_its_own_is_noticed(act: Act, reason: str) -> None:
    found = broken_by(act)
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.parametrize("act", [does_its_work, tells_of_a_set], ids=lambda act: act.__name__)
def test_an_operator_that_keeps_to_its_own_is_not(act: Act) -> None:
    assert broken_by(act) == []


def test_facts_that_another_controls_are_named() -> None:
    mine = clique(pod(0), name="p-0-a")
    seen = replica(mine, groups=(group(),), gangs=(gang(mine),), services=(service(),))
    assert list(foreign_facts(snapshot(pcs(), seen))) == []
    stolen = clique(pod(0, clique="p-0-b"), name="p-0-a")
    elsewhere = gang(stolen, name="p-0", namespace="elsewhere")
    foreign = replica(stolen, groups=(group(owner_references=()),), gangs=(elsewhere,))
    assert [fact.partition(" ")[0] for fact in foreign_facts(snapshot(pcs(), foreign))] == [
        "default/p-0-g",
        "elsewhere/p-0",
        f"default/{stolen.active[0].metadata.name}",
    ]


def test_what_belongs_to_nothing_that_was_seen_is_not_shown_to_other_rules() -> None:
    async def main() -> int:
        async with World(seed=1, nodes=1, operator=None) as world:
            before = world.invariants.checked_count
            owner = {
                "apiVersion": "grove.io/v1alpha1",
                "kind": "PodClique",
                "name": "c",
                "uid": "u",
                "controller": True,
            }
            await world.apply(bare_pod({"name": "x", "ownerReferences": [owner]}))
            assert world.objects(PODS.viewed_as(Object))
            return world.invariants.checked_count - before

    assert run_virtual(main()) == 0


def test_a_pod_that_its_tenant_took_from_its_clique_does_not_count_any_more() -> None:
    async def story() -> list[str]:
        async with World(seed=1, nodes=10) as world:
            await world.apply(serving())
            await world.settle()
            names = {pod.metadata.name for pod in world.pods()}
            taken = min(names)
            await world.client.patch(PODS, "default", taken, {"metadata": {"ownerReferences": None}})
            await world.settle()
            world.check()
            return sorted({pod.metadata.name for pod in world.pods()} - names)

    # The operator replaced it, which is not one pod too many.
    assert len(run_virtual(story())) == 1
