"""A PodClique takes another template over: what the one before put there goes, what others wrote stays."""

from typing import Any

import pytest

from grove.api import labels
from grove.api.merge_patch import merge_patch
from grove.api.resources import PODCLIQUES, PODS
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import CliqueTemplate
from grove.cluster.patches.merge_patch import apply_merge_patch
from grove.planner.child_manifests import build_clique, clique_template_patch
from grove.planner.desired_state import build_desired_replica
from grove.planner.rollout.revision_history import Targets
from grove.planner.snapshot import build_context
from tests.dsl import World, pcs, revision, role, run_to_rest, scaling


def pod(image: str, **fields: Any) -> JsonObject:
    return {"containers": [{"name": "main", "image": image}], **fields}


def patch_between(old: CliqueTemplate, new: CliqueTemplate, edits: JsonObject | None = None) -> tuple[JsonObject, ...]:
    """What is stored of a clique, and its patch; `edits` were made to it by others meanwhile."""
    before, after = pcs(old), pcs(new)
    world = World(before)
    run_to_rest(world)
    if edits is not None:
        world.edit(PODCLIQUES, "p-0-a", edits)
    targets = Targets(build_context(after), (revision(before, 1), revision(after, 2)))
    context = targets.newest
    assert context is not None
    (clique,) = build_desired_replica(context, 0, {}).cliques
    (current,) = world.all(PODCLIQUES)
    patch = clique_template_patch(context, 0, clique, current, owner=context.subject)
    return world.json(PODCLIQUES, "p-0-a"), patch


def test_only_what_changed_is_in_the_patch() -> None:
    old, new = role("a", pod=pod("v1")), role("a", pod=pod("v2"))
    _, patch = patch_between(old, new)
    assert patch == {
        "metadata": {"labels": {labels.TEMPLATE_HASH: build_context(pcs(new)).template_hashes["a"]}},
        "spec": {"podSpec": {"containers": [{"name": "main", "image": "v2"}]}},
    }


def with_keys(field: str, keys: dict[str, str]) -> CliqueTemplate:
    return role("a", labels=keys) if field == "labels" else role("a", annotations=keys)


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_keys_of_the_old_template_go_those_of_others_stay(field: str) -> None:
    old = with_keys(field, {"gone": "1", "changed": "1", "kept": "1"})
    new = with_keys(field, {"changed": "2", "kept": "1", "added": "1"})
    stored, patch = patch_between(old, new, {"metadata": {field: {"theirs": "x"}}})
    after = apply_merge_patch(stored, patch)["metadata"][field]
    ours = {key: value for key, value in after.items() if not key.startswith(("grove.io/", "app.kubernetes.io/"))}
    assert ours == {"changed": "2", "kept": "1", "added": "1", "theirs": "x"}


def test_a_key_that_somebody_took_away_already_is_no_trouble() -> None:
    old, new = role("a", labels={"gone": "1"}), role("a", labels={})
    _, patch = patch_between(old, new, {"metadata": {"labels": {"gone": None}}})
    assert "gone" not in patch["metadata"]["labels"]


def test_fields_that_the_new_template_does_not_have_go() -> None:
    old = role("a", pod=pod("v1", nodeSelector={"gpu": "yes"}, hostNetwork=True))
    stored, patch = patch_between(old, role("a", pod=pod("v1", nodeSelector={"gpu": "no"})))
    after = apply_merge_patch(stored, patch)["spec"]["podSpec"]
    assert (after["nodeSelector"], "hostNetwork" in after) == ({"gpu": "no"}, False)


def test_the_count_that_somebody_set_and_the_life_it_belongs_to_stay() -> None:
    old, new = role("a", 2, needs=1, pod=pod("v1")), role("a", 5, needs=1, pod=pod("v2"))
    edits = {"spec": {"replicas": 3}, "metadata": {"labels": {labels.INCARNATION: "1.4"}}}
    stored, patch = patch_between(old, new, edits)
    after = apply_merge_patch(stored, patch)
    assert (after["spec"]["replicas"], after["metadata"]["labels"][labels.INCARNATION]) == (3, "1.4")


def test_what_is_patched_is_what_would_be_made() -> None:
    old = role("a", labels={"x": "1"}, annotations={"n": "1"}, pod=pod("v1", hostIPC=True))
    new = role("a", labels={"y": "1"}, annotations={"m": "1"}, pod=pod("v2", hostNetwork=True))
    stored, patch = patch_between(old, new)
    context = build_context(pcs(new))
    (clique,) = build_desired_replica(context, 0, {}).cliques
    made = build_clique(context, 0, clique, owner=context.subject, incarnation="1")
    after = apply_merge_patch(stored, patch)
    assert merge_patch(after["spec"], made["spec"]) is None
    assert (after["metadata"]["labels"], after["metadata"]["annotations"]) == (
        made["metadata"]["labels"],
        made["metadata"]["annotations"],
    )


def test_a_patched_member_keeps_the_variables_of_its_group() -> None:
    observed = pcs(role("b"), groups=(scaling("g", "b"),), spec={"update_strategy": {"type": "OnDelete"}})
    world = World(observed)
    run_to_rest(world)
    before = variables(world)
    world.change("b", "v2")
    run_to_rest(world)
    for name in world.names(PODS):
        world.delete(PODS, name)
    run_to_rest(world)
    assert variables(world) == before
    assert world.json(PODCLIQUES, "p-0-g-0-b")["spec"]["podSpec"]["containers"][0]["image"] == "v2"


def variables(world: World) -> list[str]:
    (name,) = world.names(PODS)
    return [one["name"] for one in world.json(PODS, name)["spec"]["containers"][0]["env"]]
