"""DELETE: grace, finalizers, preconditions, options, collections. What goes with it: `test_conform_dependents.py`."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from tests.conformance.talk import Answer, Talk, bound, clique, config, owned_by, pod


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


UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"
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
    pytest.param(
        {"dryRun": ["All", "x"]}, 'dryRun: Unsupported value: ["All","x"]: supported values: "All"', id="half-dry-run"
    ),
    pytest.param(
        {UNSAFE: True, "gracePeriodSeconds": 1},
        f"{UNSAFE}: Invalid value: true: cannot be set together with .gracePeriodSeconds",
        id="unsafe-grace",
    ),
    pytest.param(
        {UNSAFE: True, "propagationPolicy": "Orphan"},
        f"{UNSAFE}: Invalid value: true: cannot be set together with .propagationPolicy",
        id="unsafe-policy",
    ),
    pytest.param(
        {UNSAFE: True, "preconditions": {}},
        f"{UNSAFE}: Invalid value: true: cannot be set together with .preconditions",
        id="unsafe-preconditions",
    ),
]


@pytest.mark.parametrize(("options", "problem"), BAD_OPTIONS)
async def test_options_that_make_no_sense_are_refused(api: Talk, options: Any, problem: str) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.delete(api.at("configmaps", "a"), options)
    assert answer.status == 422
    assert answer.refusal == (422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: {problem}')
    assert (await api.get(api.at("configmaps", "a"))).status == 200


async def test_a_bad_option_in_the_query_is_refused(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.delete(api.at("configmaps", "a"), gracePeriodSeconds="x")
    assert answer.refusal == (400, "BadRequest", 'strconv.ParseInt: parsing "x": invalid syntax')


@pytest.mark.parametrize("wish", ["x", ""])
async def test_a_dry_run_in_the_query_is_all_or_nothing(api: Talk, wish: str) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.delete(api.at("configmaps", "a"), dryRun=wish)
    problem = f'dryRun: Unsupported value: ["{wish}"]: supported values: "All"'
    assert answer.refusal == (422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: {problem}')


@pytest.mark.parametrize(
    "options",
    [{"gracePeriodSeconds": "1"}, {"gracePeriodSeconds": 1.5}, {"dryRun": "All"}, {"preconditions": "x"}],
)
async def test_options_of_another_type_are_refused(api: Talk, options: Any) -> None:
    await api.create("configmaps", config("a"))
    code, reason, message = (await api.delete(api.at("configmaps", "a"), options)).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("json: ")


@pytest.mark.parametrize("plural", ["configmaps", "podcliques"])
async def test_only_what_cannot_be_read_is_deleted_unread(api: Talk, plural: str) -> None:
    await api.create(plural, config("a") if plural == "configmaps" else clique("a"))
    qualified, key = {
        "configmaps": ("configmaps", "configmaps"),
        "podcliques": ("podcliques.grove.io", "grove.io/podcliques"),
    }[plural]
    answer = await api.delete(api.at(plural, "a"), {UNSAFE: True})
    assert answer.status == 409
    assert answer.refusal == (
        409, "Conflict",
        (f'Operation cannot be fulfilled on {qualified} "a": StorageError: invalid object, Code: 4, Key: '
        f"/registry/{key}/{api.namespace}/a, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed "
        "because the object is decodable from storage"),
    )  # fmt: skip


async def test_a_collection_is_never_deleted_unread(api: Talk) -> None:
    answer = await api.delete(api.at("configmaps"), {UNSAFE: True})
    problem = (
        f"{UNSAFE}: Invalid value: true: is not allowed with DELETECOLLECTION, try again after removing the option"
    )
    assert answer.refusal == (422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: {problem}')


@pytest.mark.parametrize(
    ("preconditions", "problem"),
    [
        ({"uid": "x"}, "UID in precondition: x, UID in object meta: {uid}"),
        ({"resourceVersion": "1"}, "ResourceVersion in precondition: 1, ResourceVersion in object meta: {version}"),
        ({"uid": "x", "resourceVersion": "1"}, "UID in precondition: x, UID in object meta: {uid}"),
    ],
)
async def test_another_namespace_than_expected_is_not_deleted(api: Talk, preconditions: Any, problem: str) -> None:
    path = api.at("namespaces", api.namespace)
    found = (await api.get(path)).metadata
    answer = await api.delete(path, {"preconditions": preconditions})
    shown = problem.format(uid=found["uid"], version=found["resourceVersion"])
    assert answer.refusal == (
        409, "Conflict",
        f'Operation cannot be fulfilled on namespaces "{api.namespace}": Precondition failed: {shown}',
    )  # fmt: skip
    assert (await api.get(path)).body["status"]["phase"] == "Active"


async def test_another_definition_than_expected_is_not_deleted(api: Talk) -> None:
    path = api.at("customresourcedefinitions", "podcliques.grove.io")
    found = (await api.get(path)).metadata
    for preconditions, shown in (
        ({"uid": "x"}, f"UID in precondition: x, UID in object meta: {found['uid']}"),
        (
            {"resourceVersion": "1"},
            f"ResourceVersion in precondition: 1, ResourceVersion in object meta: {found['resourceVersion']}",
        ),
    ):
        answer = await api.delete(path, {"preconditions": preconditions})
        assert answer.refusal == (
            409, "Conflict",
            ('Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io "podcliques.grove.io": '
            f"precondition failed: {shown}"),
        )  # fmt: skip


@pytest.mark.parametrize("grace", [0, 10, -1])
async def test_only_pods_take_their_time(api: Talk, grace: int) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.delete(api.at("podcliques", "a"), {"gracePeriodSeconds": grace})
    assert (answer.status, answer.body["kind"]) == (200, "Status")
    assert (await api.get(api.at("podcliques", "a"))).status == 404


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


async def test_a_dry_run_shows_what_would_be_left(api: Talk) -> None:
    await api.create("configmaps", config("a", finalizers=["x.io/a"]))
    before = await api.get(api.at("configmaps", "a"))
    answer = await api.delete(api.at("configmaps", "a"), {"dryRun": ["All"], "propagationPolicy": "Foreground"})
    assert answer.metadata["finalizers"] == ["x.io/a", "foregroundDeletion"]
    assert answer.metadata["deletionTimestamp"] > "2026"
    assert (await api.get(api.at("configmaps", "a"))).body == before.body


async def test_a_dry_run_of_a_pod_shows_how_long_it_would_take(api: Talk) -> None:
    await api.create("pods", pod("a", spec=bound()))
    assert grace_of(await api.delete(api.at("pods", "a"), {"dryRun": ["All"]})) == 30
    assert grace_of(await api.delete(api.at("pods", "a"), {"dryRun": ["All"], "gracePeriodSeconds": 0})) == 0
    assert grace_of(await api.get(api.at("pods", "a"))) is None


async def test_with_a_body_the_query_is_not_read(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    await api.delete(api.at("configmaps", "a"), {"propagationPolicy": "Background"}, dryRun="All")
    assert (await api.get(api.at("configmaps", "a"))).status == 404


# Pods leave gracefully


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
    await api.create("pods", pod("a", spec=bound()))
    answer = await api.delete(api.at("pods", "a"))
    assert (answer.status, grace_of(answer), answer.metadata["generation"]) == (200, 30, 2)
    assert (await api.get(api.at("pods", "a"))).body == answer.body


async def test_the_time_to_stop_is_the_pods_own(api: Talk) -> None:
    await api.create("pods", pod("a", spec={**bound(), "terminationGracePeriodSeconds": 7}))
    assert grace_of(await api.delete(api.at("pods", "a"))) == 7


async def test_the_time_to_stop_can_be_shortened_and_never_lengthened(api: Talk) -> None:
    await api.create("pods", pod("a", spec=bound()))
    path = api.at("pods", "a")
    assert grace_of(await api.delete(path)) == 30
    assert grace_of(await api.delete(path, {"gracePeriodSeconds": 5})) == 5
    assert grace_of(await api.delete(path, {"gracePeriodSeconds": 50})) == 5
    assert grace_of(await api.delete(path)) == 5
    assert (await api.delete(path, {"gracePeriodSeconds": 0})).status == 200
    assert (await api.get(path)).status == 404


async def test_a_negative_time_to_stop_is_one_second(api: Talk) -> None:
    await api.create("pods", pod("a", spec=bound()))
    assert grace_of(await api.delete(api.at("pods", "a"), {"gracePeriodSeconds": -1})) == 1


async def test_a_pod_that_ended_goes_at_once(api: Talk) -> None:
    await api.create("pods", pod("a", spec=bound()))
    await api.merge(api.at("pods", "a", "status"), {"status": {"phase": "Succeeded"}})
    assert grace_of(await api.delete(api.at("pods", "a"))) == 0
    assert (await api.get(api.at("pods", "a"))).status == 404


async def test_a_stopped_pod_still_waits_for_its_finalizer(api: Talk) -> None:
    await api.create("pods", pod("a", spec=bound(), finalizers=["x.io/a"]))
    path = api.at("pods", "a")
    await api.delete(path)
    assert grace_of(await api.delete(path, {"gracePeriodSeconds": 0})) == 0
    assert (await api.get(path)).status == 200
    await api.merge(path, {"metadata": {"finalizers": None}})
    assert (await api.get(path)).status == 404


async def test_a_finalizer_that_goes_first_does_not_end_the_grace(api: Talk) -> None:
    await api.create("pods", pod("a", spec=bound(), finalizers=["x.io/a"]))
    path = api.at("pods", "a")
    await api.delete(path)
    await api.merge(path, {"metadata": {"finalizers": None}})
    assert grace_of(await api.get(path)) == 30


@pytest.mark.parametrize("second", ["Orphan", "Foreground", "Background"])
async def test_a_pod_that_is_stopping_keeps_its_finalizers(api: Talk, second: str) -> None:
    await api.create("pods", pod("a", spec=bound(), finalizers=["x.io/a"]))
    path = api.at("pods", "a")
    await api.delete(path)
    answer = await api.delete(path, {"propagationPolicy": second})
    assert (answer.metadata["finalizers"], grace_of(answer)) == (["x.io/a"], 30)


async def test_a_pod_that_is_hurried_takes_a_policy(api: Talk) -> None:
    await api.create("pods", pod("a", spec=bound(), finalizers=["x.io/a"]))
    await api.delete(api.at("pods", "a"))
    answer = await api.delete(api.at("pods", "a"), {"propagationPolicy": "Foreground", "gracePeriodSeconds": 3})
    assert (answer.metadata["finalizers"], grace_of(answer)) == (["x.io/a", "foregroundDeletion"], 3)


@pytest.mark.parametrize(("asked", "left"), [(0, None), (-1, 1), (1, 1), (14, 14), (15, 15), (16, 15)])
async def test_a_second_deletion_only_hurries(api: Talk, asked: int, left: int | None) -> None:
    await api.create("pods", pod("a", spec=bound()))
    path = api.at("pods", "a")
    await api.delete(path, {"gracePeriodSeconds": 15})
    await api.delete(path, {"gracePeriodSeconds": asked})
    found = await api.get(path)
    assert (found.status == 404) is (left is None)
    assert left is None or grace_of(found) == left


@pytest.mark.parametrize("spec", [{}, {"schedulingGates": [{"name": "x.io/a"}]}])
async def test_who_is_nowhere_gets_no_time_even_if_somebody_grants_it(api: Talk, spec: Any) -> None:
    await api.create("pods", pod("a", spec=spec))
    assert grace_of(await api.delete(api.at("pods", "a"), {"gracePeriodSeconds": 10})) == 0
    assert (await api.get(api.at("pods", "a"))).status == 404


# Collections


async def test_a_collection_is_deleted_by_label(api: Talk) -> None:
    for name in ("a", "b", "c"):
        await api.create("configmaps", config(name, labels={"group": "1" if name != "c" else "2"}))
    answer = await api.delete(api.at("configmaps"), labelSelector="group=1")
    assert (answer.status, answer.body["kind"], answer.names) == (200, "ConfigMapList", ["a", "b"])
    assert (await api.get(api.at("configmaps"), labelSelector="group")).names == ["c"]


@pytest.mark.parametrize("plural", ["configmaps", "podcliques", "pods", "services"])
async def test_a_collection_is_deleted_as_it_was_at_a_version(api: Talk, plural: str) -> None:
    """What was labelled since, or unlabelled, makes no difference: the operator deletes what it has looked at.

    The request has a body: without one a real server takes the version for a precondition of every object.
    """
    make = {"configmaps": config, "podcliques": clique, "pods": pod, "services": headless}[plural]
    for name, labels in (("mine", {"a": "b"}), ("later", {}), ("no-more", {"a": "b"})):
        await api.create(plural, make(name, labels=labels))
    listed = await api.get(api.at(plural), labelSelector="a=b")
    assert listed.names == ["mine", "no-more"]
    await api.merge(api.at(plural, "later"), {"metadata": {"labels": {"a": "b"}}})
    await api.merge(api.at(plural, "no-more"), {"metadata": {"labels": {"a": None}}})
    await api.create(plural, make("new", labels={"a": "b"}))
    version = listed.body["metadata"]["resourceVersion"]
    answer = await api.delete(
        api.at(plural), {}, labelSelector="a=b", resourceVersion=version, resourceVersionMatch="Exact"
    )
    assert (answer.status, answer.names) == (200, ["mine", "no-more"])
    await api.until(api.at(plural), lambda found: "mine" not in found.names)
    left = [name for name in (await api.get(api.at(plural))).names if name in ("later", "new", "no-more")]
    assert left == ["later", "new"]


def headless(name: str, **metadata: Any) -> JsonObject:
    return {"metadata": {"name": name, **metadata}, "spec": {"clusterIP": "None"}}


async def test_a_collection_of_custom_objects_is_answered_with_what_was_there(api: Talk) -> None:
    for name in ("a", "b"):
        await api.create("podcliques", clique(name))
    answer = await api.delete(api.at("podcliques"))
    assert (answer.body["kind"], answer.names) == ("PodCliqueList", ["a", "b"])
    assert sorted(answer.body["metadata"]) == ["continue", "resourceVersion"]
    assert (await api.delete(api.at("podcliques"))).body["items"] == []


async def test_a_collection_of_pods_leaves_gracefully(api: Talk) -> None:
    for name in ("a", "b"):
        await api.create("pods", pod(name, spec=bound()))
    answer = await api.delete(api.at("pods"))
    assert [item["metadata"].get("deletionTimestamp") for item in answer.body["items"]] == [None, None]
    left = (await api.get(api.at("pods"))).body["items"]
    assert [item["metadata"]["deletionGracePeriodSeconds"] for item in left] == [30, 30]
    await api.delete(api.at("pods"), {"gracePeriodSeconds": 0})
    assert (await api.get(api.at("pods"))).names == []


async def several(api: Talk, plural: str) -> None:
    for number in range(5):
        labels = {"of": "us", "number": str(number % 2)}
        name = f"c{number}"
        await api.create(plural, config(name, labels=labels) if plural == "configmaps" else clique(name, labels=labels))


async def left(api: Talk, plural: str) -> list[str]:
    return (await api.get(api.at(plural), labelSelector="of=us")).names


@pytest.mark.parametrize("plural", ["configmaps", "podcliques"])
async def test_a_collection_is_deleted_in_pages(api: Talk, plural: str) -> None:
    await several(api, plural)
    query = {"labelSelector": "of=us", "limit": "2"}
    first = await api.delete(api.at(plural), None, **query)
    assert (first.names, await left(api, plural)) == (["c0", "c1"], ["c2", "c3", "c4"])
    second = await api.delete(api.at(plural), None, **query, **{"continue": first.metadata["continue"]})
    assert (second.names, await left(api, plural)) == (["c2", "c3"], ["c4"])
    third = await api.delete(api.at(plural), None, **query, **{"continue": second.metadata["continue"]})
    assert (third.names, await left(api, plural)) == (["c4"], [])
    assert not third.metadata.get("continue")


async def test_a_page_says_how_many_are_left(api: Talk) -> None:
    await several(api, "podcliques")
    answer = await api.delete(api.at("podcliques"), limit="2")
    assert (answer.names, answer.metadata["remainingItemCount"]) == (["c0", "c1"], 3)
    assert await left(api, "podcliques") == ["c2", "c3", "c4"]


async def test_a_page_shows_what_went_meanwhile(api: Talk) -> None:
    await several(api, "podcliques")
    first = await api.delete(api.at("podcliques"), limit="1")
    await api.delete(api.at("podcliques", "c1"))
    second = await api.delete(api.at("podcliques"), limit="2", **{"continue": first.metadata["continue"]})
    assert (second.status, second.names) == (200, ["c1", "c2"])
    assert await left(api, "podcliques") == ["c3", "c4"]


@pytest.mark.parametrize(
    ("query", "code", "problem"),
    [
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"continue": "x"}, 400, "invalid continue token: continue key is not valid: "),
        ({"fieldSelector": "spec.x=y"}, 400, '"spec.x" is not a known field selector: '),
        ({"labelSelector": "a b"}, 400, "unable to parse requirement: "),
        ({"resourceVersion": "x"}, 400, 'invalid resource version: resourceVersion: Invalid value: "x"'),
        (
            {"sendInitialEvents": "true"},
            422,
            'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for ',
        ),
    ],
)
async def test_a_collection_that_cannot_be_found_is_not_deleted(
    api: Talk, query: dict[str, str], code: int, problem: str
) -> None:
    await several(api, "configmaps")
    answer = await api.delete(api.at("configmaps"), None, **query)
    assert answer.refusal[0] == code
    assert answer.refusal[2].startswith(problem)
    assert len(await left(api, "configmaps")) == 5


@pytest.mark.parametrize("plural", ["configmaps", "podcliques"])
async def test_a_collection_is_deleted_by_field_and_label(api: Talk, plural: str) -> None:
    await several(api, plural)
    await api.delete(api.at(plural), fieldSelector="metadata.name=c1")
    assert await left(api, plural) == ["c0", "c2", "c3", "c4"]
    answer = await api.delete(api.at(plural), fieldSelector="metadata.name!=c2", labelSelector="number=0")
    assert (answer.names, await left(api, plural)) == (["c0", "c4"], ["c2", "c3"])


async def test_a_collection_of_pods_is_deleted_by_their_node(api: Talk) -> None:
    node = (await api.create("pods", pod("a", spec=bound()))).spec["nodeName"]
    await api.create("pods", pod("b"))
    answer = await api.delete(api.at("pods"), {"gracePeriodSeconds": 0}, fieldSelector=f"spec.nodeName={node}")
    assert (answer.names, (await api.get(api.at("pods"))).names) == (["a"], ["b"])


async def test_a_collection_waits_for_its_finalizers(api: Talk) -> None:
    await api.create("podcliques", clique("a", finalizers=["x.io/a"]))
    await api.create("podcliques", clique("b"))
    for _ in range(2):
        assert (await api.delete(api.at("podcliques"))).status == 200
    (item,) = (await api.get(api.at("podcliques"))).body["items"]
    assert (item["metadata"]["name"], "deletionTimestamp" in item["metadata"]) == ("a", True)


async def test_a_collection_is_deleted_until_one_is_another_than_expected(api: Talk) -> None:
    await several(api, "podcliques")
    uid = (await api.get(api.at("podcliques", "c0"))).metadata["uid"]
    answer = await api.delete(api.at("podcliques"), {"preconditions": {"uid": uid}})
    assert answer.refusal[0:2] == (409, "Conflict")
    assert answer.refusal[2].startswith('Operation cannot be fulfilled on PodClique.grove.io "c1": the UID in the')
    assert await left(api, "podcliques") == ["c1", "c2", "c3", "c4"]


async def test_a_policy_is_one_for_the_whole_collection(api: Talk) -> None:
    owners = [await api.create("configmaps", config(name, labels={"of": "us"})) for name in ("c0", "c1")]
    for number, owner in enumerate(owners):
        await api.create("configmaps", config(f"child{number}", ownerReferences=[owned_by(owner)]))
    await api.delete(api.at("configmaps"), labelSelector="of=us", propagationPolicy="Orphan")
    for name in ("c0", "c1"):
        await api.until_gone(api.at("configmaps", name))
    for name in ("child0", "child1"):
        assert "ownerReferences" not in (await api.get(api.at("configmaps", name))).metadata


async def test_with_a_body_the_query_says_only_which(api: Talk) -> None:
    await several(api, "podcliques")
    await api.delete(api.at("podcliques"), {}, dryRun="All", labelSelector="number=1")
    assert await left(api, "podcliques") == ["c0", "c2", "c4"]


async def test_a_dry_run_in_the_query_deletes_no_collection(api: Talk) -> None:
    await several(api, "podcliques")
    assert len((await api.delete(api.at("podcliques"), dryRun="All")).names) == 5
    assert len(await left(api, "podcliques")) == 5


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
