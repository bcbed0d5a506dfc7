"""The boundary between tenants from outside: on `grove up` and on a real control plane, with every attack at once.

One by one, and on virtual time, they are in `tests/simulation/test_tenants.py`.
"""

import asyncio
from typing import Any

import pytest

from grove.api.resources import CONTROLLER_REVISIONS, PODCLIQUES, PODCLIQUESETS, PODS, Resource
from grove.api.types.meta import Uid
from grove.api.types.operatorconfiguration import OperatorConfiguration
from tests.e2e.harness import Cluster, Stage
from tests.hostile_tenant import (
    ATTACKS,
    EVIL_IMAGE,
    KINDS,
    PARTS,
    Attack,
    Claim,
    Raw,
    forge_all,
    release,
    seen_of,
    serving,
    take_lease,
    training,
    uids_in,
)
from tests.simulation.stories import find_set

pytestmark = pytest.mark.kube

# Long enough for the garbage collector, the operator and every delay of the sets.
A_WHILE = 20.0


def is_running(stage: Stage) -> bool:
    return len(stage.running_pods()) == 7 and all(
        find_set(stage, name).status.available_replicas == 1 for name in ("web", "job")
    )


async def begin(cluster: Cluster) -> Stage:
    """Both sets run, and nothing of them changes any more."""
    stage = await cluster.stage()
    for manifest in (serving(), training()):
        await stage.apply(manifest)
    await stage.wait_until(lambda: is_running(stage))
    await wait_for_rest(stage)
    return stage


async def wait_for_rest(stage: Stage) -> None:
    seen = await seen_of(stage.client, stage.namespace, frozenset())
    for _ in range(60):
        await stage.cluster.clock.sleep(3)
        before, seen = seen, await seen_of(stage.client, stage.namespace, frozenset())
        if seen == before:
            return
    raise AssertionError("the sets never come to rest")


async def attack(victim: Stage) -> list[Stage]:
    """Everything that a tenant can forge, in a namespace for each way to claim an owner."""
    hostile = []
    for claim, is_held in {(one.claim, one.is_held): None for one in ATTACKS}:
        stage = await victim.cluster.stage()
        hostile.append(stage)
        for resource in KINDS:
            one = Attack(resource=resource, claim=claim, is_held=is_held)
            assert await forge_all(victim.client, one, victim=victim.namespace, namespace=stage.namespace)
        lease = OperatorConfiguration().leader_election.resource_name
        await take_lease(victim.client, lease, stage.namespace)
    return hostile


def uids_of(stage: Stage, resource: Resource[Any]) -> dict[str, Uid]:
    return {one.metadata.name: one.metadata.uid for one in stage.objects(resource)}


async def clean_up(*stages: Stage) -> None:
    for stage in stages:
        for resource in KINDS:
            await release(stage.client, resource, stage.namespace)
        await stage.clear()


def test_nothing_in_other_namespaces_changes_anything_of_a_set(runner: asyncio.Runner, cluster: Cluster) -> None:
    async def story() -> None:
        victim = await begin(cluster)
        born_before = await uids_in(victim.client, victim.namespace)
        before = await seen_of(victim.client, victim.namespace, born_before)
        hostile = await attack(victim)
        await cluster.clock.sleep(A_WHILE)
        assert await seen_of(victim.client, victim.namespace, born_before) == before
        # Life goes on: a clique is made anew and another grows, from the templates of the set.
        await victim.delete(PODCLIQUES, "web-0-front")
        await victim.scale(PODCLIQUES, "web-0-g-1-m", 3)
        await victim.wait_until(lambda: len(victim.running_pods()) == 8)
        await cluster.clock.sleep(A_WHILE)
        await victim.look()
        assert EVIL_IMAGE not in {
            one.spec["containers"][0]["image"] for one in victim.objects(PODS.viewed_as(Raw))
        }  # fmt: skip
        assert (find_set(victim, "job").status.phase, len(victim.running_pods())) == ("Running", 8)
        assert len(victim.objects(CONTROLLER_REVISIONS)) == 2
        await clean_up(*hostile, victim)

    runner.run(story())


def test_the_deletion_of_a_set_leaves_alone_what_only_carries_its_labels(
    runner: asyncio.Runner, cluster: Cluster
) -> None:
    async def story() -> None:
        stage = await begin(cluster)
        made = {}
        for resource in PARTS:
            one = Attack(resource=resource, claim=Claim.LABELS_ONLY)
            made[resource] = await forge_all(stage.client, one, victim=stage.namespace, namespace=stage.namespace)
        await stage.look()
        forged = {
            resource: {name: uids_of(stage, resource)[name] for name in names} for resource, names in made.items()
        }
        for name in ("web", "job"):
            await stage.delete(PODCLIQUESETS, name)
        await stage.wait_until(lambda: {resource: uids_of(stage, resource) for resource in PARTS} == forged)
        await cluster.clock.sleep(A_WHILE)
        await stage.look()
        assert {resource: uids_of(stage, resource) for resource in PARTS} == forged
        for resource, names in made.items():
            for name in names:
                await stage.delete(resource, name)

    runner.run(story())
