"""The boundary between tenants: what a user who writes in one namespace can do to a set in another, and in their own.

`docs/explanation/security.md` says what that is; each line of it is a test here. The attacks themselves are in
`tests/hostile_tenant.py`, and `tests/e2e/test_tenants_on_clusters.py` runs them on servers that are reached over HTTP.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import Any

import msgspec
import pytest
from _pytest.mark import ParameterSet

from grove.api import labels
from grove.api.resources import (
    CONTROLLER_REVISIONS,
    EVENTS,
    GROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from grove.api.types.meta import JsonObject, Uid, to_wire
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.hostile_tenant import (
    ATTACKS,
    LAST_NUMBER,
    PARTS,
    Attack,
    Claim,
    Raw,
    forge_all,
    release,
    seen_of,
    serving,
    training,
    uids_in,
)
from tests.simulation.startup_stories import clique, ordered
from tests.simulation.stories import find_set

EVIL = "evil"
_DEEP = pytest.mark.deep(
    reason="the quick tier runs the same attack, held where this one is not, or the other way round"
)
# Longer than every back-off and delay of the stories.
A_WHILE = 400.0

Story = Callable[[World], Awaitable[None]]


def namespace(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def tell(story: Story) -> None:
    """In a world with both sets at rest, and a second namespace. No rule is broken on the way."""

    async def main() -> None:
        async with World(seed=1, nodes=10) as world:
            await world.apply(namespace(EVIL))
            await world.apply(serving())
            await world.apply(training())
            await world.settle()
            await story(world)
            world.check()

    run_virtual(main())


def in_tiers(attacks: Iterable[Attack]) -> list[ParameterSet]:
    """Return one parameter per attack. Of the two that differ only in `is_held`, one is marked deep.

    Which one alternates, so that the quick tier still has every kind and every claim, held and not held.
    """
    kinds = list(dict.fromkeys(one.resource for one in ATTACKS))
    claims = list(Claim)
    return [
        pytest.param(
            one,
            id=str(one),
            marks=() if (kinds.index(one.resource) + claims.index(one.claim)) % 2 == one.is_held else _DEEP,
        )
        for one in attacks
    ]


def uids(world: World, resource: Resource[Any], name: str = "") -> dict[str, str]:
    """By name, of what is in the namespace of the victims and stays; of one set, or of both."""
    found = world.objects(resource, namespace="default")
    return {
        one.metadata.name: one.metadata.uid
        for one in found
        if not one.metadata.is_terminating and (not name or one.metadata.labels.get(labels.PART_OF) == name)
    }


def everything(world: World) -> dict[str, dict[str, str]]:
    return {resource.plural: uids(world, resource) for resource in PARTS}


# --- the attacks that worked -----------------------------------------------------------------------------------------


def test_a_gang_of_another_namespace_does_not_tear_a_set_down() -> None:
    """It names the set as its controller, says that a teardown has begun, and a finalizer keeps it."""

    async def story(world: World) -> None:
        before = everything(world)
        attack = Attack(resource=PODGANGS, claim=Claim.CONTROLLER, is_held=True)
        await forge_all(world.client, attack, victim="default", namespace=EVIL)
        await world.clock.sleep(A_WHILE)
        assert everything(world) == before

    tell(story)


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("resource", [ROLES, ROLE_BINDINGS], ids=lambda resource: resource.plural)
def test_roles_of_another_namespace_grant_and_withhold_nothing(resource: Resource[Any], is_held: bool) -> None:
    async def story(world: World) -> None:
        await world.apply({**ordered(clique("a"), clique("b", after=("a",))), "metadata": {"name": "startup"}})
        await world.settle()
        before = access_of(world)
        attack = Attack(resource=resource, claim=Claim.CONTROLLER, is_held=is_held)
        await forge_all(world.client, attack, victim="default", namespace=EVIL)
        await world.clock.sleep(A_WHILE)
        assert access_of(world) == before
        await world.delete(PODCLIQUESETS, "startup")
        await world.settle()
        assert access_of(world) == {}
        touched = [write for write in world.writes_by("operator") if f"/namespaces/{EVIL}/" in write.request.path]
        assert touched == []

    tell(story)


def access_of(world: World) -> dict[Uid, JsonObject]:
    roles, bindings = world.objects(ROLES, namespace="default"), world.objects(ROLE_BINDINGS, namespace="default")
    return {one.metadata.uid: to_wire(one) for one in roles} | {one.metadata.uid: to_wire(one) for one in bindings}


def test_pods_of_another_namespace_that_end_well_do_not_complete_a_training_set() -> None:
    async def story(world: World) -> None:
        attack = Attack(resource=PODS, claim=Claim.CONTROLLER, is_held=True)
        await forge_all(world.client, attack, victim="default", namespace=EVIL)
        await world.clock.sleep(A_WHILE)
        assert find_set(world, "job").status.phase == "Running"
        assert [one.status.succeeded_indices for one in world.objects(PODCLIQUES, namespace="default")] == [()] * 4

    tell(story)


def test_a_revision_of_another_namespace_does_not_choose_what_the_pods_of_a_set_run() -> None:
    """It has the same hash and the highest number; the next cliques of the victim would run its image."""

    async def story(world: World) -> None:
        attack = Attack(resource=CONTROLLER_REVISIONS, claim=Claim.CONTROLLER, is_held=True)
        await forge_all(world.client, attack, victim="default", namespace=EVIL)
        await world.clock.sleep(A_WHILE)
        await world.delete(PODCLIQUES, "web-0-front")
        await world.scale(PODCLIQUESETS, "web", 2)
        await world.clock.sleep(A_WHILE)
        assert len(uids(world, PODS, "web")) == 10
        assert images(world) == {"good"}

    tell(story)


def images(world: World) -> set[str]:
    found = (one.spec["containers"][0]["image"] for one in world.objects(PODS.viewed_as(Raw), namespace="default"))
    return set(found)


# --- from another namespace ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", in_tiers(ATTACKS))
def test_nothing_in_another_namespace_changes_anything_of_a_set(attack: Attack) -> None:
    """The sets live on: a pod is lost, a clique grows. All is as it would be without the other tenant."""
    assert lived_through(attack) == lived_through(None)


@cache
def lived_through(attack: Attack | None) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def story(world: World) -> None:
        born_before = await uids_in(world.client, "default")
        if attack is not None:
            made = await forge_all(world.client, attack, victim="default", namespace=EVIL)
            assert made
        await world.clock.sleep(A_WHILE)
        front = next(pod for pod in world.pods(namespace="default") if "front" in pod.metadata.name)
        await world.client.delete(PODS, "default", front.metadata.name, grace_period_seconds=0)
        await world.scale(PODCLIQUES, "web-0-front", 2)
        await world.clock.sleep(A_WHILE)
        assert len(world.running_pods(namespace="default")) == 8
        found.update(await seen_of(world.client, "default", born_before))

    tell(story)
    return found


@pytest.mark.parametrize("resource", PARTS, ids=lambda resource: resource.plural)
def test_the_deletion_of_a_set_leaves_the_objects_of_other_namespaces_alone(resource: Resource[Any]) -> None:
    async def story(world: World) -> None:
        attack = Attack(resource=resource, claim=Claim.LABELS_ONLY)
        await forge_all(world.client, attack, victim="default", namespace=EVIL)
        before = {one.metadata.uid for one in world.objects(resource, namespace=EVIL)}
        await world.delete(PODCLIQUESETS, "web")
        await world.delete(PODCLIQUESETS, "job")
        await world.clock.sleep(A_WHILE)
        assert {one.metadata.uid for one in world.objects(resource, namespace=EVIL)} == before
        assert everything(world) == {part.plural: {} for part in PARTS}

    tell(story)


def test_events_of_another_namespace_are_never_counted_on() -> None:
    """An event is counted under its name, in the namespace of what it is about."""

    async def story(world: World) -> None:
        for one in world.objects(EVENTS, namespace="default"):
            body = {"metadata": {"name": one.metadata.name}, "involvedObject": {"namespace": EVIL}, "count": 7}
            await world.client.create(EVENTS, EVIL, body)
        before = {one.metadata.name: one for one in world.objects(EVENTS, namespace=EVIL)}
        assert before
        await world.scale(GROUPS, "web-0-g", 3)
        await world.scale(GROUPS, "web-0-g", 2)
        await world.clock.sleep(A_WHILE)
        assert {one.metadata.name: one for one in world.objects(EVENTS, namespace=EVIL)} == before

    tell(story)


# --- in the same namespace -------------------------------------------------------------------------------------------

INERT = [attack for attack in ATTACKS if attack.claim is not Claim.CONTROLLER and attack.resource in PARTS]


@pytest.mark.parametrize("attack", in_tiers(INERT))
def test_whoever_only_wears_the_labels_of_a_set_is_no_part_of_it(attack: Attack) -> None:
    """The operator neither counts it nor writes it nor deletes it, also when the set goes.

    What the garbage collector does with one that names an owner is its own affair.
    """

    async def story(world: World) -> None:
        before = everything(world)
        made = await forge_all(world.client, attack, victim="default", namespace="default")
        forged = forgeries(world, attack.resource, made)
        await world.clock.sleep(A_WHILE)
        after = everything(world)
        assert [plural for plural, names in before.items() if not after[plural].items() >= names.items()] == []
        assert written_by_the_operator(world, attack.resource).isdisjoint(made)
        await world.delete(PODCLIQUESETS, "web")
        await world.delete(PODCLIQUESETS, "job")
        await world.clock.sleep(A_WHILE)
        assert written_by_the_operator(world, attack.resource).isdisjoint(made)
        if attack.claim is Claim.LABELS_ONLY:
            assert forgeries(world, attack.resource, made) == forged
        left = {plural: [name for name in names if name not in made] for plural, names in everything(world).items()}
        assert left == {part.plural: [] for part in PARTS}

    tell(story)


def forgeries(world: World, resource: Resource[Any], names: list[str]) -> list[Raw]:
    """What is left of them, as it is."""
    found = world.objects(resource.viewed_as(Raw), namespace="default")
    return [one for one in found if one.metadata.name in names]


def written_by_the_operator(world: World, resource: Resource[Any]) -> set[str]:
    targets = [write.target for write in world.writes_by("operator")]
    return {target.name for target in targets if target.resource.partition("/")[0] == resource.plural}


FORGED = [attack for attack in ATTACKS if attack.claim is Claim.CONTROLLER and attack.resource in PARTS]


@pytest.mark.parametrize("attack", [attack for attack in FORGED if attack.resource is not PODS], ids=str)
def test_what_names_the_right_controller_under_a_name_that_no_set_uses_changes_nothing(attack: Attack) -> None:
    """It belongs to the set, and goes with it."""

    async def story(world: World) -> None:
        before = everything(world)
        statuses = {name: find_set(world, name).status for name in ("web", "job")}
        made = await forge_all(world.client, attack, victim="default", namespace="default")
        await world.clock.sleep(A_WHILE)
        after = everything(world)
        assert [plural for plural, names in before.items() if not after[plural].items() >= names.items()] == []
        assert {name: find_set(world, name).status for name in statuses} == statuses
        assert images(world) == {"good"}
        await release(world.client, attack.resource, "default")
        await world.delete(PODCLIQUESETS, "web")
        await world.delete(PODCLIQUESETS, "job")
        await world.clock.sleep(A_WHILE)
        assert made
        assert everything(world) == {part.plural: {} for part in PARTS}

    tell(story)


def test_a_pod_that_names_the_right_controller_counts_as_one_of_its_pods() -> None:
    """In a serving set it is one too many and goes; in a training set it completes its index by ending well."""

    async def story(world: World) -> None:
        before = uids(world, PODS, "web")
        attack = Attack(resource=PODS, claim=Claim.CONTROLLER)
        made = await forge_all(world.client, attack, victim="default", namespace="default")
        await world.clock.sleep(A_WHILE)
        assert uids(world, PODS, "web") == before
        assert find_set(world, "web").status.available_replicas == 1
        assert find_set(world, "job").status.phase == "Succeeded"
        assert len(made) == 7
        # The rules rightly say that nobody should have made such pods.
        world.invariants.broken.clear()

    tell(story)


@pytest.mark.parametrize("number", [LAST_NUMBER, 2**53 + 1, 0])
def test_a_number_that_somebody_gave_a_revision_never_holds_up_an_update(number: int) -> None:
    """Whoever may write revisions may renumber one; the next change of the set is stored and rolled all the same."""

    async def story(world: World) -> None:
        (mine,) = uids(world, CONTROLLER_REVISIONS, "web")
        await world.client.patch(CONTROLLER_REVISIONS, "default", mine, {"revision": number})
        await world.clock.sleep(A_WHILE)
        changed = serving()
        for one in changed["spec"]["template"]["cliques"]:
            one["spec"]["podSpec"]["containers"][0]["image"] = "better"
        await world.apply(changed)
        await world.clock.sleep(A_WHILE)
        assert find_set(world, "web").status.updated_replicas == 1
        running = world.objects(PODS.viewed_as(Raw), label_selector=f"{labels.PART_OF}=web")
        assert {one.spec["containers"][0]["image"] for one in running} == {"better"}
        stored = world.objects(CONTROLLER_REVISIONS, label_selector=f"{labels.PART_OF}=web")
        assert sorted(one.revision for one in stored) in ([1, 2], [0, 1], [2, 3])

    tell(story)


def test_a_revision_that_cannot_be_read_gives_its_name_back() -> None:
    """Under the name that the set needs next, and with the right controller: it is removed, not waited for."""

    async def story(world: World) -> None:
        (mine,) = world.objects(CONTROLLER_REVISIONS.viewed_as(Raw), label_selector=f"{labels.PART_OF}=web")
        await world.crash_controller()
        await world.delete(CONTROLLER_REVISIONS, mine.metadata.name)
        damaged = msgspec.structs.replace(mine, data={"template": "rubbish"})
        await world.client.create(CONTROLLER_REVISIONS, "default", revision_body(damaged))
        await world.restart_controller()
        await world.clock.sleep(A_WHILE)
        before = len(world.writes_by("operator"))
        await world.clock.sleep(A_WHILE)
        assert len(world.writes_by("operator")) == before
        (healed,) = world.objects(CONTROLLER_REVISIONS.viewed_as(Raw), label_selector=f"{labels.PART_OF}=web")
        assert (healed.metadata.name, healed.data) == (mine.metadata.name, mine.data)

    tell(story)


def revision_body(original: Raw) -> JsonObject:
    metadata = original.metadata
    return {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": metadata.name,
            "labels": metadata.labels,
            "ownerReferences": [to_wire(owner) for owner in metadata.owner_references],
        },
        "data": original.data,
        "revision": original.revision,
    }
