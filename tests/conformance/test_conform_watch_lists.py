"""Watches that begin with a list (`sendInitialEvents`), as clients in Go open them; and switches, in all words."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from grove.kube.kubeconfig import Access
from tests.conformance.talk import METADATA, TABLE, Talk, clique, config
from tests.conformance.test_conform_rbac import allowed, as_account, user
from tests.conformance.test_conform_watches import INITIAL_EVENTS_END, events, refusal

STREAMED = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
LIST_CONFIGS: JsonObject = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}


async def begun(api: Talk, plural: str, *, accept: str = "", **query: str) -> tuple[list[JsonObject], JsonObject]:
    """The objects that a watch begins with, and the bookmark that ends them."""
    first: list[JsonObject] = []
    async with api.watch(api.at(plural), accept=accept, **{**STREAMED, **query}) as watched:
        while (event := await watched.event())["type"] == "ADDED":
            first.append(event["object"])
    assert event["type"] == "BOOKMARK", event
    return first, event["object"]


def names(objects: list[JsonObject]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


@pytest.mark.parametrize("word", ["true", "True", "1", "yes", ""])
async def test_a_switch_is_on_unless_it_is_false(api: Talk, word: str) -> None:
    await api.create("configmaps", config("a", labels={"mine": "1"}))
    query = {"sendInitialEvents": word, "allowWatchBookmarks": word, "labelSelector": "mine"}
    first, bookmark = await begun(api, "configmaps", **query)
    assert names(first) == ["a"]
    assert bookmark["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}


@pytest.mark.parametrize("word", ["false", "False", "FALSE", "0"])
async def test_a_switch_is_off_by_false(api: Talk, word: str) -> None:
    await api.create("configmaps", config("a", labels={"mine": "1"}))
    query = {**STREAMED, "sendInitialEvents": word, "allowWatchBookmarks": word, "labelSelector": "mine"}
    assert await events(api, **query) == []


@pytest.mark.parametrize("version", ["", "0", "1"])
async def test_a_streamed_list_is_complete_whatever_the_client_knew(api: Talk, version: str) -> None:
    born = [await api.create("podcliques", clique(name)) for name in ("a", "b")]
    await api.caught_up("podcliques", ["a", "b"])
    first, bookmark = await begun(api, "podcliques", resourceVersion=version)
    assert first == [one.body for one in born]
    # From any state, if that is what the client asks for.
    assert version == "0" or int(bookmark["metadata"]["resourceVersion"]) >= int(born[-1].metadata["resourceVersion"])


async def test_a_streamed_list_as_new_as_what_is_yet_to_come_is_too_much(api: Talk) -> None:
    query = {**STREAMED, "resourceVersion": "99999999"}
    async with api.watch(api.at("podcliques"), **query) as watched:
        (event,) = await watched.rest()
    status = event["object"]
    assert (event["type"], status["code"], status["reason"]) == ("ERROR", 504, "Timeout")
    assert status["message"].startswith("Timeout: Too large resource version: 99999999, current: ")
    assert status["details"]["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]  # fmt: skip


async def test_a_streamed_list_of_nothing_ends_at_once(api: Talk) -> None:
    first, bookmark = await begun(api, "podcliques")
    assert first == []
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("PodClique", "grove.io/v1alpha1")


async def test_a_streamed_list_goes_on_as_a_watch(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    async with api.watch(api.at("podcliques"), **STREAMED) as watched:
        assert [await watched.next(), await watched.next()] == [("ADDED", "a"), ("BOOKMARK", "")]
        await api.merge(api.at("podcliques", "a"), {"metadata": {"labels": {"x": "1"}}})
        assert await watched.next() == ("MODIFIED", "a")
        await api.delete(api.at("podcliques", "a"))
        assert await watched.next() == ("DELETED", "a")


async def test_a_streamed_list_may_be_of_metadata_only(api: Talk) -> None:
    await api.create("podcliques", clique("a", labels={"x": "1"}))
    (first,), bookmark = await begun(api, "podcliques", accept=METADATA)
    assert (first["kind"], sorted(first), first["metadata"]["labels"]) == (
        "PartialObjectMetadata", ["apiVersion", "kind", "metadata"], {"x": "1"},
    )  # fmt: skip
    assert bookmark["kind"] == "PartialObjectMetadata"
    assert bookmark["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}


async def test_a_streamed_list_may_be_of_rows(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    (first,), bookmark = await begun(api, "podcliques", accept=TABLE)
    assert (first["kind"], [row["object"]["metadata"]["name"] for row in first["rows"]]) == ("Table", ["a"])
    assert bookmark["kind"] == "Table"
    (row,) = bookmark["rows"]
    assert row["object"]["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}


@pytest.mark.parametrize("match", ["Exact", "", "rubbish"])
async def test_a_streamed_list_is_not_older_than(api: Talk, match: str) -> None:
    code, reason, message = await refusal(
        api, "configmaps", **{**STREAMED, "resourceVersionMatch": match, "resourceVersion": "1"}
    )
    assert (code, reason) == (422, "Invalid")
    assert "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" in message


@pytest.mark.parametrize("word", ["true", "True", "yes", ""])
async def test_whoever_may_list_may_not_watch_in_other_words(api: Talk, access: Access, word: str) -> None:
    async with as_account(api, access, LIST_CONFIGS) as robot:
        await allowed(robot, robot.at("configmaps"))
        refused = await refusal(robot, "configmaps", watch=word)
    message = (
        f'configmaps is forbidden: User "{user(api)}" cannot watch resource "configmaps" in API group "" in the '
        f'namespace "{api.namespace}"'
    )
    assert refused == (403, "Forbidden", message)


async def test_a_custom_object_tells_which_patches_it_takes(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.strategic(api.at("podcliques", "a"), {})
    words: Any = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    assert answer.refusal[2].endswith(f"accepted media types include: {words}")
