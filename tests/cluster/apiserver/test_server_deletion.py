"""Deleting: finalizers, preconditions, collections, namespaces. How pods leave is in `test_server_pods.py`."""

import pytest

from tests.cluster.apidsl import CLIQUES, CONFIGS, NAMESPACES, PODS, Api, clique, config, on_cluster, pod


@on_cluster
async def test_an_object_nobody_holds_goes_at_once(api: Api) -> None:
    created = await api.post(CLIQUES, clique("a"))
    answer = await api.delete(f"{CLIQUES}/a")
    assert (answer.status, answer.body) == (
        200,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {
                "name": "a",
                "group": "grove.io",
                "kind": "podcliques",
                "uid": created.metadata["uid"],
            },
        },
    )
    assert (await api.delete(f"{CLIQUES}/a")).refusal == (404, "NotFound", 'podcliques.grove.io "a" not found')


@on_cluster
async def test_a_finalizer_holds_an_object_until_it_is_taken_away(api: Api) -> None:
    await api.post(CLIQUES, clique("a", finalizers=["x.io/one", "x.io/two"]))
    await api.clock.sleep(5)
    leaving = await api.delete(f"{CLIQUES}/a")
    assert leaving.metadata["deletionTimestamp"] == "2026-01-01T12:00:05Z"
    assert (leaving.metadata["deletionGracePeriodSeconds"], leaving.metadata["generation"]) == (0, 2)
    await api.clock.sleep(5)
    assert (await api.delete(f"{CLIQUES}/a")).body == leaving.body
    await api.merge(f"{CLIQUES}/a", {"metadata": {"finalizers": ["x.io/two"]}})
    assert (await api.get(f"{CLIQUES}/a")).status == 200
    await api.merge(f"{CLIQUES}/a", {"metadata": {"finalizers": []}})
    assert (await api.get(f"{CLIQUES}/a")).status == 404


@on_cluster
async def test_a_leaving_object_takes_no_new_finalizers_but_other_changes(api: Api) -> None:
    await api.post(CLIQUES, clique("a", finalizers=["x.io/one"]))
    await api.delete(f"{CLIQUES}/a")
    refused = await api.merge(f"{CLIQUES}/a", {"metadata": {"finalizers": ["x.io/one", "x.io/two"]}})
    assert refused.body["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: no new finalizers can be added if the object is being deleted, "
            'found new finalizers []string{"x.io/two"}',
            "field": "metadata.finalizers",
        }
    ]
    assert (await api.merge(f"{CLIQUES}/a", {"spec": {"replicas": 2}})).status == 200
    assert (await api.merge(f"{CLIQUES}/a/status", {"status": {"replicas": 2}})).status == 200


@on_cluster
async def test_a_delete_says_which_object_it_means(api: Api) -> None:
    created = await api.post(CONFIGS, config("a"))
    uid = created.metadata["uid"]
    other = await api.delete(f"{CONFIGS}/a", {"preconditions": {"uid": "other"}})
    assert other.refusal == (
        409,
        "Conflict",
        (
            f'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the '
            f"UID in record ({uid}). The object might have been deleted and then recreated"
        ),
    )
    late = await api.delete(f"{CONFIGS}/a", {"preconditions": {"resourceVersion": "1"}})
    assert late.refusal == (
        409,
        "Conflict",
        (
            'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not '
            "match the ResourceVersion in record (5). The object might have been modified"
        ),
    )
    exact = {"preconditions": {"uid": uid, "resourceVersion": "5"}}
    assert (await api.delete(f"{CONFIGS}/a", exact)).status == 200


@pytest.mark.parametrize(
    ("before", "policy", "after"),
    [
        (["x.io/a"], None, ["x.io/a"]),
        (["x.io/a", "orphan"], None, ["x.io/a", "orphan"]),
        (["x.io/a", "orphan"], "Background", ["x.io/a"]),
        (["x.io/a", "orphan"], "Foreground", ["x.io/a", "foregroundDeletion"]),
        (["foregroundDeletion"], "Orphan", ["orphan"]),
    ],
)
@on_cluster
async def test_the_policy_of_a_delete_becomes_a_finalizer(
    api: Api, before: list[str], policy: str | None, after: list[str]
) -> None:
    await api.post(CONFIGS, config("a", finalizers=before))
    answer = await api.delete(f"{CONFIGS}/a", {"propagationPolicy": policy} if policy else None)
    assert answer.metadata["finalizers"] == after


@on_cluster
async def test_options_may_come_in_the_query(api: Api) -> None:
    await api.post(PODS, pod("a"))
    await api.bind("a", "n")
    assert (await api.delete(f"{PODS}/a", gracePeriodSeconds="7")).metadata["deletionGracePeriodSeconds"] == 7
    assert (await api.delete(f"{PODS}/a", gracePeriodSeconds="soon")).status == 400
    assert (await api.delete(f"{PODS}/a", propagationPolicy="Sideways")).status == 422
    assert (await api.delete(f"{PODS}/a", gracePeriodSeconds="0", dryRun="All")).status == 200
    assert (await api.get(f"{PODS}/a")).status == 200


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"gracePeriodSeconds":"x"}', b'{"preconditions":5}'])
@on_cluster
async def test_unreadable_options_delete_nothing(api: Api, body: bytes) -> None:
    await api.post(CONFIGS, config("a"))
    assert (await api.send_raw("DELETE", f"{CONFIGS}/a", body)).status == 400
    assert (await api.get(CONFIGS)).names == ["a"]


@on_cluster
async def test_a_collection_is_deleted_by_selector_and_answered_as_it_was(api: Api) -> None:
    for name, value in (("a", "1"), ("b", "1"), ("c", "2")):
        await api.post(CLIQUES, clique(name, labels={"x": value}, finalizers=["x.io/f"] if name == "b" else []))
    before = (await api.get(CLIQUES, labelSelector="x=1")).body["items"]
    answer = await api.delete(CLIQUES, labelSelector="x=1")
    assert (answer.status, answer.body["kind"], answer.body["items"]) == (200, "PodCliqueList", before)
    left = (await api.get(CLIQUES)).body["items"]
    assert [(item["metadata"]["name"], "deletionTimestamp" in item["metadata"]) for item in left] == [
        ("b", True),
        ("c", False),
    ]


@on_cluster
async def test_a_collection_over_all_namespaces_cannot_be_deleted(api: Api) -> None:
    assert (await api.delete("/api/v1/configmaps")).status == 405


@on_cluster
async def test_some_namespaces_are_there_to_stay(api: Api) -> None:
    refused = await api.delete(f"{NAMESPACES}/default")
    assert refused.refusal == (
        403,
        "Forbidden",
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )


@on_cluster
async def test_a_deleted_namespace_is_terminating_until_it_is_finalized(api: Api) -> None:
    await api.post(NAMESPACES, {"metadata": {"name": "team"}})
    leaving = await api.delete(f"{NAMESPACES}/team")
    assert (leaving.status, leaving.body["status"]) == (200, {"phase": "Terminating"})
    await api.put(f"{NAMESPACES}/team/finalize", {**leaving.body, "spec": {"finalizers": []}})
    assert (await api.get(f"{NAMESPACES}/team")).status == 404
