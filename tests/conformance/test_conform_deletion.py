"""DELETE: grace, finalizers, preconditions, collections, and what becomes of dependents."""

from typing import Any

import pytest

from tests.conformance.talk import Answer, Talk, clique, config, owned_by, pod


async def test_a_deleted_object_is_gone_and_its_uid_is_told(api: Talk) -> None:
    uid = (await api.create("configmaps", config("a"))).metadata["uid"]
    answer = await api.delete(api.at("configmaps", "a"))
    assert answer.status == 200
    assert answer.body == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": uid},
    }  # fmt: skip
    assert (await api.get(api.at("configmaps", "a"))).status == 404


async def test_a_deleted_custom_object_is_told_with_its_group(api: Talk) -> None:
    uid = (await api.create("podcliques", clique("a"))).metadata["uid"]
    answer = await api.delete(api.at("podcliques", "a"))
    assert answer.body["details"] == {"name": "a", "group": "grove.io", "kind": "podcliques", "uid": uid}


@pytest.mark.parametrize("plural", ["services", "resourcequotas", "serviceaccounts"])
async def test_some_kinds_answer_with_what_was_deleted_as_it_was(api: Talk, plural: str) -> None:
    spec = {"spec": {"clusterIP": "None"}} if plural == "services" else {}
    await api.create(plural, {"metadata": {"name": "a"}, **spec})
    answer = await api.delete(api.at(plural, "a"))
    assert (answer.status, answer.metadata["name"]) == (200, "a")
    assert "deletionTimestamp" not in answer.metadata


async def test_what_is_not_there_cannot_be_deleted(api: Talk) -> None:
    answer = await api.delete(api.at("configmaps", "a"))
    assert answer.refusal == (404, "NotFound", 'configmaps "a" not found')


# Finalizers


async def leaving(api: Talk, plural: str = "configmaps") -> str:
    """The path of an object that is being deleted and held by a finalizer."""
    body = config("a", finalizers=["x.io/a"]) if plural == "configmaps" else clique("a", finalizers=["x.io/a"])
    await api.create(plural, body)
    await api.delete(api.at(plural, "a"))
    return api.at(plural, "a")


async def test_a_finalizer_holds_an_object_back(api: Talk) -> None:
    await api.create("configmaps", config("a", finalizers=["x.io/a"]))
    answer = await api.delete(api.at("configmaps", "a"))
    assert (answer.status, answer.body["kind"]) == (200, "ConfigMap")
    assert answer.metadata["deletionTimestamp"] > "2026"
    assert answer.metadata["deletionGracePeriodSeconds"] == 0
    assert (await api.get(api.at("configmaps", "a"))).body == answer.body


async def test_deleting_again_changes_nothing(api: Talk) -> None:
    path = await leaving(api)
    before = await api.get(path)
    assert (await api.delete(path)).body == before.body


async def test_the_last_finalizer_lets_an_object_go(api: Talk) -> None:
    path = await leaving(api)
    answer = await api.merge(path, {"metadata": {"finalizers": None}})
    assert answer.status == 200
    assert "finalizers" not in answer.metadata
    assert (await api.get(path)).status == 404


@pytest.mark.parametrize(("plural", "kind"), [("configmaps", "ConfigMap"), ("podcliques", "PodClique.grove.io")])
@pytest.mark.parametrize("finalizers", [["x.io/a", "x.io/b"], ["x.io/b"]])
async def test_no_finalizer_is_added_to_what_is_leaving(
    api: Talk, plural: str, kind: str, finalizers: list[str]
) -> None:
    path = await leaving(api, plural)
    answer = await api.merge(path, {"metadata": {"finalizers": finalizers}})
    problem = (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
        'finalizers []string{"x.io/b"}'
    )
    assert answer.refusal == (422, "Invalid", f'{kind} "a" is invalid: {problem}')


async def test_what_is_leaving_may_still_change(api: Talk) -> None:
    path = await leaving(api)
    answer = await api.merge(path, {"metadata": {"labels": {"a": "b"}}, "data": {"k": "v"}})
    assert (answer.status, answer.metadata["labels"], answer.body["data"]) == (200, {"a": "b"}, {"k": "v"})


@pytest.mark.parametrize("time", [None, "2030-01-01T00:00:00Z"])
async def test_a_deletion_cannot_be_taken_back_or_moved(api: Talk, time: str | None) -> None:
    path = await leaving(api)
    before = await api.get(path)
    answer = await api.merge(path, {"metadata": {"deletionTimestamp": time}})
    assert answer.status == 200
    assert answer.metadata["deletionTimestamp"] == before.metadata["deletionTimestamp"]


async def test_leaving_is_a_new_wish(api: Talk) -> None:
    path = await leaving(api, "podcliques")
    assert (await api.get(path)).metadata["generation"] == 2
    assert (await api.merge(path, {"spec": {"replicas": 3}})).metadata["generation"] == 3


# Preconditions and options


async def test_another_uid_than_expected_is_not_deleted(api: Talk) -> None:
    uid = (await api.create("configmaps", config("a"))).metadata["uid"]
    answer = await api.delete(api.at("configmaps", "a"), {"preconditions": {"uid": "other"}})
    assert answer.refusal == (
        409, "Conflict",
        (f'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the UID '
        f"in record ({uid}). The object might have been deleted and then recreated"),
    )  # fmt: skip
    assert answer.details == {"name": "a", "kind": "ConfigMap"}


async def test_another_uid_of_a_custom_object_than_expected_is_not_deleted(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.delete(api.at("podcliques", "a"), {"preconditions": {"uid": "other"}})
    assert answer.refusal[2].startswith('Operation cannot be fulfilled on PodClique.grove.io "a": the UID in the')
    assert answer.details == {"name": "a", "group": "grove.io", "kind": "PodClique"}


async def test_another_version_than_expected_is_not_deleted(api: Talk) -> None:
    version = (await api.create("configmaps", config("a"))).metadata["resourceVersion"]
    answer = await api.delete(api.at("configmaps", "a"), {"preconditions": {"resourceVersion": "1"}})
    assert answer.refusal == (
        409, "Conflict",
        ('Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match '
        f"the ResourceVersion in record ({version}). The object might have been modified"),
    )  # fmt: skip


async def test_what_is_expected_is_deleted(api: Talk) -> None:
    born = (await api.create("configmaps", config("a"))).metadata
    expected = {"uid": born["uid"], "resourceVersion": born["resourceVersion"]}
    assert (await api.delete(api.at("configmaps", "a"), {"preconditions": expected})).status == 200


BAD_OPTIONS: list[Any] = [
    pytest.param(
        {"propagationPolicy": "Foo"},
        'propagationPolicy: Unsupported value: "Foo": supported values: "Foreground", "Background", "Orphan", "nil"',
        id="policy",
    ),
    pytest.param(
        {"propagationPolicy": "Orphan", "orphanDependents": True},
        'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        id="both",
    ),
    pytest.param({"dryRun": ["x"]}, 'dryRun: Unsupported value: ["x"]: supported values: "All"', id="dry-run"),
]


@pytest.mark.parametrize(("options", "problem"), BAD_OPTIONS)
async def test_options_that_make_no_sense_are_refused(api: Talk, options: Any, problem: str) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.delete(api.at("configmaps", "a"), options)
    assert answer.refusal == (422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: {problem}')
    assert (await api.get(api.at("configmaps", "a"))).status == 200


async def test_a_bad_option_in_the_query_is_refused(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.delete(api.at("configmaps", "a"), gracePeriodSeconds="x")
    assert answer.refusal == (400, "BadRequest", 'strconv.ParseInt: parsing "x": invalid syntax')


async def test_options_that_are_no_json_are_refused(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    code, reason, message = (await api.send("DELETE", api.at("configmaps", "a"), b"{")).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("couldn't get version/kind; json parse error: ")


async def test_options_are_of_their_kind(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    code, reason, message = (await api.delete(api.at("configmaps", "a"), {"kind": "Pod", "apiVersion": "v1"})).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith('no kind "Pod" is registered for version "v1"')


@pytest.mark.parametrize("kind", [{"kind": "DeleteOptions", "apiVersion": "v1"}, {"foo": 1}, {}])
async def test_options_may_name_their_kind_and_have_unknown_fields(api: Talk, kind: Any) -> None:
    await api.create("configmaps", config("a"))
    assert (await api.delete(api.at("configmaps", "a"), kind)).status == 200


async def test_a_dry_run_deletes_nothing(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    assert (await api.delete(api.at("configmaps", "a"), {"dryRun": ["All"]})).body["status"] == "Success"
    assert (await api.delete(api.at("configmaps", "a"), dryRun="All")).body["status"] == "Success"
    assert (await api.get(api.at("configmaps", "a"))).status == 200


async def test_with_a_body_the_query_is_not_read(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    await api.delete(api.at("configmaps", "a"), {"propagationPolicy": "Background"}, dryRun="All")
    assert (await api.get(api.at("configmaps", "a"))).status == 404


# Pods leave gracefully

BOUND = {"nodeName": "no-such-node"}


def grace_of(answer: Answer) -> Any:
    return answer.metadata.get("deletionGracePeriodSeconds")


async def test_a_pod_that_is_nowhere_goes_at_once(api: Talk) -> None:
    await api.create("pods", pod("a"))
    answer = await api.delete(api.at("pods", "a"))
    assert (answer.status, answer.body["kind"], grace_of(answer)) == (200, "Pod", 0)
    assert answer.metadata["deletionTimestamp"]
    assert answer.metadata["generation"] == 2
    assert (await api.get(api.at("pods", "a"))).status == 404


async def test_a_pod_on_a_node_has_time_to_stop(api: Talk) -> None:
    await api.create("pods", pod("a", spec=BOUND))
    answer = await api.delete(api.at("pods", "a"))
    assert (answer.status, grace_of(answer), answer.metadata["generation"]) == (200, 30, 2)
    assert (await api.get(api.at("pods", "a"))).body == answer.body


async def test_the_time_to_stop_is_the_pods_own(api: Talk) -> None:
    await api.create("pods", pod("a", spec={**BOUND, "terminationGracePeriodSeconds": 7}))
    assert grace_of(await api.delete(api.at("pods", "a"))) == 7


async def test_the_time_to_stop_can_be_shortened_and_never_lengthened(api: Talk) -> None:
    await api.create("pods", pod("a", spec=BOUND))
    path = api.at("pods", "a")
    assert grace_of(await api.delete(path)) == 30
    assert grace_of(await api.delete(path, {"gracePeriodSeconds": 5})) == 5
    assert grace_of(await api.delete(path, {"gracePeriodSeconds": 50})) == 5
    assert grace_of(await api.delete(path)) == 5
    assert (await api.delete(path, {"gracePeriodSeconds": 0})).status == 200
    assert (await api.get(path)).status == 404


async def test_a_negative_time_to_stop_is_one_second(api: Talk) -> None:
    await api.create("pods", pod("a", spec=BOUND))
    assert grace_of(await api.delete(api.at("pods", "a"), {"gracePeriodSeconds": -1})) == 1


async def test_a_pod_that_ended_goes_at_once(api: Talk) -> None:
    await api.create("pods", pod("a", spec=BOUND))
    await api.merge(api.at("pods", "a", "status"), {"status": {"phase": "Succeeded"}})
    assert grace_of(await api.delete(api.at("pods", "a"))) == 0
    assert (await api.get(api.at("pods", "a"))).status == 404


async def test_a_stopped_pod_still_waits_for_its_finalizer(api: Talk) -> None:
    await api.create("pods", pod("a", spec=BOUND, finalizers=["x.io/a"]))
    path = api.at("pods", "a")
    await api.delete(path)
    assert grace_of(await api.delete(path, {"gracePeriodSeconds": 0})) == 0
    assert (await api.get(path)).status == 200
    await api.merge(path, {"metadata": {"finalizers": None}})
    assert (await api.get(path)).status == 404


async def test_a_finalizer_that_goes_first_does_not_end_the_grace(api: Talk) -> None:
    await api.create("pods", pod("a", spec=BOUND, finalizers=["x.io/a"]))
    path = api.at("pods", "a")
    await api.delete(path)
    await api.merge(path, {"metadata": {"finalizers": None}})
    assert grace_of(await api.get(path)) == 30


# Collections


async def test_a_collection_is_deleted_by_label(api: Talk) -> None:
    for name in ("a", "b", "c"):
        await api.create("configmaps", config(name, labels={"group": "1" if name != "c" else "2"}))
    answer = await api.delete(api.at("configmaps"), labelSelector="group=1")
    assert (answer.status, answer.body["kind"], answer.names) == (200, "ConfigMapList", ["a", "b"])
    assert (await api.get(api.at("configmaps"), labelSelector="group")).names == ["c"]


async def test_a_collection_of_custom_objects_is_answered_with_what_was_there(api: Talk) -> None:
    for name in ("a", "b"):
        await api.create("podcliques", clique(name))
    answer = await api.delete(api.at("podcliques"))
    assert (answer.body["kind"], answer.names) == ("PodCliqueList", ["a", "b"])
    assert sorted(answer.body["metadata"]) == ["continue", "resourceVersion"]
    assert (await api.delete(api.at("podcliques"))).body["items"] == []


async def test_a_collection_of_pods_leaves_gracefully(api: Talk) -> None:
    for name in ("a", "b"):
        await api.create("pods", pod(name, spec=BOUND))
    answer = await api.delete(api.at("pods"))
    assert [item["metadata"].get("deletionTimestamp") for item in answer.body["items"]] == [None, None]
    left = (await api.get(api.at("pods"))).body["items"]
    assert [item["metadata"]["deletionGracePeriodSeconds"] for item in left] == [30, 30]
    await api.delete(api.at("pods"), {"gracePeriodSeconds": 0})
    assert (await api.get(api.at("pods"))).names == []


async def test_a_dry_run_deletes_no_collection(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    assert (await api.delete(api.at("podcliques"), {"dryRun": ["All"]})).names == ["a"]
    assert (await api.get(api.at("podcliques"))).names == ["a"]


@pytest.mark.parametrize("path", ["/api/v1/configmaps", "/api/v1/namespaces"])
async def test_there_are_collections_that_nobody_deletes(api: Talk, path: str) -> None:
    answer = await api.delete(path)
    assert answer.refusal == (
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )  # fmt: skip


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
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "11111111-2222-4333-a444-555555555555"}
    await api.create("configmaps", config("child", ownerReferences=[owner]))
    await api.until_gone(api.at("configmaps", "child"))


async def test_a_custom_owner_owns_pods(api: Talk) -> None:
    owner = await api.create("podcliques", clique("owner"))
    await api.create("pods", pod("child", ownerReferences=[owned_by(owner)]))
    await api.delete(api.at("podcliques", "owner"))
    await api.until_gone(api.at("pods", "child"))
