"""What becomes of dependents when their owner is deleted, and of all that is in a namespace."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from tests.conformance.talk import NOBODY, Answer, Talk, bound, clique, config, owned_by, pod

# Dependents


async def family(api: Talk, *, is_blocking: bool = False) -> tuple[str, str]:
    """The paths of an owner and of its dependent."""
    owner = await api.create("configmaps", config("owner"))
    await api.create("configmaps", config("child", ownerReferences=[owned_by(owner, is_blocking=is_blocking)]))
    return api.at("configmaps", "owner"), api.at("configmaps", "child")


async def test_in_the_background_the_owner_goes_first(api: Talk) -> None:
    owner, child = await family(api)
    assert (await api.delete(owner, {"propagationPolicy": "Background"})).body["status"] == "Success"
    assert (await api.get(owner)).status == 404
    await api.until_gone(child)


async def test_without_a_wish_dependents_go_in_the_background(api: Talk) -> None:
    owner, child = await family(api)
    assert (await api.delete(owner)).body["status"] == "Success"
    await api.until_gone(child)


async def test_orphans_stay_and_forget_their_owner(api: Talk) -> None:
    owner, child = await family(api)
    answer = await api.delete(owner, {"propagationPolicy": "Orphan"})
    assert (answer.status, answer.metadata["finalizers"]) == (200, ["orphan"])
    await api.until_gone(owner)
    assert "ownerReferences" not in (await api.get(child)).metadata


async def test_in_the_foreground_the_owner_waits(api: Talk) -> None:
    owner, child = await family(api, is_blocking=True)
    await api.merge(child, {"metadata": {"finalizers": ["x.io/a"]}})
    answer = await api.delete(owner, {"propagationPolicy": "Foreground"})
    assert (answer.status, answer.metadata["finalizers"]) == (200, ["foregroundDeletion"])
    await api.until(child, lambda found: "deletionTimestamp" in found.metadata)
    assert (await api.get(owner)).metadata["finalizers"] == ["foregroundDeletion"]
    await api.merge(child, {"metadata": {"finalizers": None}})
    await api.until_gone(owner)


@pytest.mark.parametrize("word", ["true", "TRUE", "1", "x", ""])
async def test_everything_but_no_is_yes(api: Talk, word: str) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.delete(api.at("configmaps", "a"), orphanDependents=word)
    assert answer.metadata["finalizers"] == ["orphan"]


@pytest.mark.parametrize("word", ["false", "0"])
async def test_no_is_the_background(api: Talk, word: str) -> None:
    owner, child = await family(api)
    assert (await api.delete(owner, orphanDependents=word)).body["status"] == "Success"
    await api.until_gone(child)


async def test_older_words_and_newer_ones_do_not_mix(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.delete(api.at("configmaps", "a"), orphanDependents="false", propagationPolicy="Background")
    assert answer.refusal == (
        422, "Invalid",
        ('DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Background": orphanDependents '
        "and deletionPropagation cannot be both set"),
    )  # fmt: skip


async def test_who_says_no_to_orphans_is_told_that_it_takes_a_while(api: Talk) -> None:
    await api.create("configmaps", config("a", finalizers=["x.io/a"]))
    assert (await api.delete(api.at("configmaps", "a"), {"orphanDependents": False})).status == 202


@pytest.mark.parametrize("plural", ["configmaps", "podcliques", "pods"])
@pytest.mark.parametrize(
    ("before", "policy", "after"),
    [
        (["orphan"], None, ["orphan"]),
        (["foregroundDeletion"], None, ["foregroundDeletion"]),
        (["foregroundDeletion"], "Orphan", ["orphan"]),
        (["orphan"], "Foreground", ["foregroundDeletion"]),
        (["x.io/a", "orphan"], "Background", ["x.io/a"]),
        (["x.io/a"], "Foreground", ["x.io/a", "foregroundDeletion"]),
    ],
)
async def test_a_policy_becomes_a_finalizer(
    api: Talk, plural: str, before: list[str], policy: str | None, after: list[str]
) -> None:
    make = {"configmaps": config, "podcliques": clique, "pods": pod}[plural]
    await api.create(plural, make("a", finalizers=before))
    answer = await api.delete(api.at(plural, "a"), {} if policy is None else {"propagationPolicy": policy})
    assert (answer.status, answer.metadata["finalizers"]) == (200, after)


@pytest.mark.parametrize("finalizers", [["orphan", "foregroundDeletion"], ["x.io/a", "foregroundDeletion", "orphan"]])
async def test_an_object_wants_its_dependents_gone_or_kept(api: Talk, finalizers: list[str]) -> None:
    answer = await api.post(api.at("configmaps"), config("a", finalizers=finalizers))
    shown = ",".join(f'"{finalizer}"' for finalizer in finalizers)
    problem = f"Invalid value: [{shown}]: finalizer orphan and foregroundDeletion cannot be both set"
    assert answer.refusal == (422, "Invalid", f'ConfigMap "a" is invalid: metadata.finalizers: {problem}')


async def test_who_does_not_block_is_not_waited_for(api: Talk) -> None:
    owner, child = await family(api)
    await api.merge(child, {"metadata": {"finalizers": ["x.io/a"]}})
    await api.delete(owner, {"propagationPolicy": "Foreground"})
    await api.until_gone(owner)
    await api.until(child, lambda found: "deletionTimestamp" in found.metadata)


async def test_the_foreground_reaches_grandchildren(api: Talk) -> None:
    owner, child = await family(api, is_blocking=True)
    middle = owned_by(await api.get(child), is_blocking=True)
    await api.create("configmaps", config("grandchild", ownerReferences=[middle], finalizers=["x.io/a"]))
    grandchild = api.at("configmaps", "grandchild")
    await api.delete(owner, {"propagationPolicy": "Foreground"})
    await api.until(grandchild, lambda found: "deletionTimestamp" in found.metadata)
    assert (await api.get(child)).metadata["finalizers"] == ["foregroundDeletion"]
    await api.merge(grandchild, {"metadata": {"finalizers": None}})
    for path in (grandchild, child, owner):
        await api.until_gone(path)


async def test_in_the_foreground_another_owner_keeps_an_object(api: Talk) -> None:
    owners = [await api.create("configmaps", config(name)) for name in ("first", "second")]
    references = [owned_by(owner, is_blocking=True) for owner in owners]
    await api.create("configmaps", config("child", ownerReferences=references))
    await api.delete(api.at("configmaps", "first"), {"propagationPolicy": "Foreground"})
    await api.until_gone(api.at("configmaps", "first"))
    kept = (await api.get(api.at("configmaps", "child"))).metadata
    assert [each["name"] for each in kept["ownerReferences"]] == ["second"]
    assert "deletionTimestamp" not in kept


@pytest.mark.parametrize("references", [None, "unblocked"])
async def test_who_stops_blocking_is_no_longer_waited_for(api: Talk, references: Any) -> None:
    owner, child = await family(api, is_blocking=True)
    await api.merge(child, {"metadata": {"finalizers": ["x.io/a"]}})
    await api.delete(owner, {"propagationPolicy": "Foreground"})
    await api.until(child, lambda found: "deletionTimestamp" in found.metadata)
    others = [owned_by(await api.get(owner))] if references else None
    await api.merge(child, {"metadata": {"ownerReferences": others}})
    await api.until_gone(owner)


async def test_who_takes_the_finalizer_away_ends_the_waiting(api: Talk) -> None:
    owner, child = await family(api, is_blocking=True)
    await api.merge(child, {"metadata": {"finalizers": ["x.io/a"]}})
    await api.delete(owner, {"propagationPolicy": "Foreground"})
    await api.merge(owner, {"metadata": {"finalizers": None}})
    await api.until_gone(owner)
    await api.until(child, lambda found: "deletionTimestamp" in found.metadata)


@pytest.mark.parametrize(("policy", "is_kept"), [("Foreground", False), ("Orphan", True), ("Background", True)])
async def test_a_finalizer_of_its_own_holds_the_owner_only(api: Talk, policy: str, is_kept: bool) -> None:
    owner, child = await family(api, is_blocking=True)
    await api.merge(owner, {"metadata": {"finalizers": ["x.io/own"]}})
    await api.delete(owner, {"propagationPolicy": policy})
    await api.until(owner, lambda found: found.metadata["finalizers"] == ["x.io/own"])
    if is_kept:
        assert "deletionTimestamp" not in (await api.get(child)).metadata
    else:
        await api.until_gone(child)


@pytest.mark.parametrize(("finalizer", "is_kept"), [("orphan", True), ("foregroundDeletion", False)])
async def test_a_dependent_knows_what_becomes_of_its_own(api: Talk, finalizer: str, is_kept: bool) -> None:
    owner, child = await family(api)
    await api.merge(child, {"metadata": {"finalizers": [finalizer]}})
    reference = owned_by(await api.get(child), is_blocking=True)
    await api.create("configmaps", config("grandchild", ownerReferences=[reference]))
    await api.delete(owner, {"propagationPolicy": "Background"})
    await api.until_gone(child)
    assert ((await api.get(api.at("configmaps", "grandchild"))).status == 200) is is_kept


async def test_a_custom_owner_waits_for_its_pods(api: Talk) -> None:
    owner = await api.create("podcliques", clique("owner"))
    await api.create("pods", pod("child", spec=bound(), ownerReferences=[owned_by(owner, is_blocking=True)]))
    await api.seen_by_the_collector("pods", pod("any"))
    await api.delete(api.at("podcliques", "owner"), {"propagationPolicy": "Foreground"})
    await api.until(api.at("pods", "child"), lambda found: "deletionTimestamp" in found.metadata)
    assert (await api.get(api.at("podcliques", "owner"))).status == 200
    await api.delete(api.at("pods", "child"), {"gracePeriodSeconds": 0})
    await api.until_gone(api.at("podcliques", "owner"))


async def test_the_older_words_mean_the_same(api: Talk) -> None:
    owner, child = await family(api)
    assert (await api.delete(owner, {"orphanDependents": True})).metadata["finalizers"] == ["orphan"]
    await api.until_gone(owner)
    assert (await api.get(child)).status == 200


async def test_an_object_with_two_owners_goes_with_the_last(api: Talk) -> None:
    owners = [await api.create("configmaps", config(name)) for name in ("first", "second")]
    await api.create("configmaps", config("child", ownerReferences=[owned_by(owner) for owner in owners]))
    child = api.at("configmaps", "child")
    await api.delete(api.at("configmaps", "first"))
    await api.until(child, lambda found: len(found.metadata["ownerReferences"]) == 1)
    await api.delete(api.at("configmaps", "second"))
    await api.until_gone(child)


async def test_an_object_whose_owner_never_was_goes(api: Talk) -> None:
    await api.create("configmaps", config("child", ownerReferences=[NOBODY]))
    await api.until_gone(api.at("configmaps", "child"))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"kind": "Secret"}, id="another kind"),
        pytest.param({"name": "other"}, id="another name"),
        pytest.param({"apiVersion": "apps/v1", "kind": "Deployment"}, id="another group"),
    ],
)
async def test_an_owner_is_the_object_that_is_named_whoever_has_its_uid(api: Talk, change: JsonObject) -> None:
    owner = await api.create("configmaps", config("owner"))
    await api.create("configmaps", config("child", ownerReferences=[{**owned_by(owner), **change}]))
    await api.until_gone(api.at("configmaps", "child"))
    assert (await api.get(api.at("configmaps", "owner"))).status == 200


async def test_an_owner_of_another_namespace_is_none(api: Talk) -> None:
    owner = await api.create("configmaps", config("owner"))
    home = f"{api.namespace}-other"
    await api.create("namespaces", {"metadata": {"name": home}})
    child = api.at("configmaps", "child", namespace=home)
    made = await api.post(child.rpartition("/")[0], config("child", ownerReferences=[owned_by(owner)]))
    assert made.status == 201
    await api.until_gone(child)
    assert (await api.get(api.at("configmaps", "owner"))).status == 200


async def test_a_dependent_of_another_namespace_holds_up_a_deletion_in_the_foreground(api: Talk) -> None:
    """Kubernetes' own: it is taken for a dependent by its uid, although it is about to be collected."""
    owner = await api.create("configmaps", config("owner"))
    home = f"{api.namespace}-other"
    await api.create("namespaces", {"metadata": {"name": home}})
    child = api.at("configmaps", "child", namespace=home)
    body = config("child", ownerReferences=[owned_by(owner, is_blocking=True)], finalizers=["x.io/a"])
    assert (await api.post(child.rpartition("/")[0], body)).status == 201
    await api.until(child, lambda found: "deletionTimestamp" in found.metadata)
    await api.delete(api.at("configmaps", "owner"), {"propagationPolicy": "Foreground"})
    await api.clock.sleep(2)
    assert (await api.get(api.at("configmaps", "owner"))).metadata["finalizers"] == ["foregroundDeletion"]
    await api.merge(child, {"metadata": {"finalizers": None}})
    await api.until_gone(api.at("configmaps", "owner"))


async def test_a_custom_owner_owns_pods(api: Talk) -> None:
    owner = await api.create("podcliques", clique("owner"))
    await api.create("pods", pod("child", ownerReferences=[owned_by(owner)]))
    await api.delete(api.at("podcliques", "owner"))
    await api.until_gone(api.at("pods", "child"))


# Namespaces


async def test_a_namespace_that_leaves_takes_nothing_new(api: Talk) -> None:
    await api.create("configmaps", config("a", finalizers=["x.io/a"]))
    answer = await api.delete(api.at("namespaces", api.namespace))
    assert (answer.status, answer.body["status"]["phase"]) == (200, "Terminating")
    answer = await api.post(api.at("configmaps"), config("b"))
    assert answer.refusal[0:2] == (403, "Forbidden")
    assert answer.details is not None
    assert answer.details["causes"][0]["reason"] == "NamespaceTerminating"
    assert (await api.merge(api.at("configmaps", "a"), {"data": {"x": "y"}})).status == 200


LEFT: list[JsonObject] = [
    {
        "type": "NamespaceDeletionDiscoveryFailure",
        "status": "False",
        "reason": "ResourcesDiscovered",
        "message": "All resources successfully discovered",
    },
    {
        "type": "NamespaceDeletionGroupVersionParsingFailure",
        "status": "False",
        "reason": "ParsedGroupVersions",
        "message": "All legacy kube types successfully parsed",
    },
    {
        "type": "NamespaceDeletionContentFailure",
        "status": "False",
        "reason": "ContentDeleted",
        "message": "All content successfully deleted, may be waiting on finalization",
    },
    {
        "type": "NamespaceContentRemaining",
        "status": "True",
        "reason": "SomeResourcesRemain",
        "message": (
            "Some resources are remaining: configmaps. has 2 resource instances, podcliques.grove.io has 1 "
            "resource instances"
        ),
    },
    {
        "type": "NamespaceFinalizersRemaining",
        "status": "True",
        "reason": "SomeFinalizersRemain",
        "message": (
            "Some content in the namespace has finalizers remaining: x.io/a in 3 resource instances, x.io/b in 1 "
            "resource instances"
        ),
    },
]


async def test_a_namespace_that_leaves_says_what_is_left(api: Talk) -> None:
    await api.create("configmaps", config("a", finalizers=["x.io/a"]))
    await api.create("configmaps", config("b", finalizers=["x.io/a", "x.io/b"]))
    await api.create("podcliques", clique("c", finalizers=["x.io/a"]))
    path = api.at("namespaces", api.namespace)
    await api.delete(path)
    # A real server that is just learning of some kind may say first that it does not know all of them.
    answer = await api.until(path, lambda found: _untimed(found) == LEFT)
    assert all(each["lastTransitionTime"] > "2026" for each in answer.body["status"]["conditions"])
    for plural, name in (("configmaps", "a"), ("configmaps", "b"), ("podcliques", "c")):
        await api.merge(api.at(plural, name), {"metadata": {"finalizers": None}})
    await api.until_gone(path)


def _untimed(answer: Answer) -> list[JsonObject]:
    conditions = answer.body["status"].get("conditions", [])
    return [{key: each[key] for key in each if key != "lastTransitionTime"} for each in conditions]


async def test_a_namespace_waits_for_finalizers_of_its_own(api: Talk) -> None:
    name = f"{api.namespace}-own"
    path = api.at("namespaces", name)
    await api.create("namespaces", {"metadata": {"name": name, "finalizers": ["x.io/a"]}})
    await api.delete(path)
    answer = await api.until(path, lambda found: found.spec == {})
    assert answer.metadata["finalizers"] == ["x.io/a"]
    await api.merge(path, {"metadata": {"finalizers": None}})
    assert (await api.get(path)).status == 404


async def test_a_dry_run_deletes_no_namespace(api: Talk) -> None:
    answer = await api.delete(api.at("namespaces", api.namespace), dryRun="All")
    assert answer.body["status"]["phase"] == "Terminating"
    assert (await api.get(api.at("namespaces", api.namespace))).body["status"]["phase"] == "Active"


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_stay(api: Talk, name: str) -> None:
    assert (await api.delete(api.at("namespaces", name))).refusal == (
        403, "Forbidden", f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    )  # fmt: skip


@pytest.mark.parametrize(("policy", "finalizer"), [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")])
async def test_a_namespace_takes_a_policy_too(api: Talk, policy: str, finalizer: str) -> None:
    path = api.at("namespaces", api.namespace)
    answer = await api.delete(path, {"propagationPolicy": policy})
    assert answer.metadata["finalizers"] == [finalizer]
    await api.until_gone(path)
