"""Changing objects: whole, by patch, through status and scale; and what happens when two do it at once."""

import pytest

from grove.api.types.meta import JsonObject
from tests.cluster.apidsl import CLIQUE_SPEC, CLIQUES, CONFIGS, PODS, SETS, Api, clique, config, on_cluster, pod

_STALE = "the object has been modified; please apply your changes to the latest version and try again"


@on_cluster
async def test_a_replaced_object_keeps_what_only_the_server_decides(api: Api) -> None:
    created = await api.post(CLIQUES, clique("a", labels={"x": "y"}))
    body = clique(
        "a", spec={"replicas": 2}, resourceVersion=created.metadata["resourceVersion"], annotations={"n": "1"}
    )
    replaced = await api.put(f"{CLIQUES}/a", body)
    assert replaced.status == 200
    assert replaced.body == {
        **created.body,
        "metadata": {
            **{key: value for key, value in created.metadata.items() if key != "labels"},
            "annotations": {"n": "1"},
            "generation": 2,
            "resourceVersion": "6",
        },
        "spec": {**CLIQUE_SPEC, "replicas": 2},
    }


@on_cluster
async def test_a_write_based_on_an_old_version_conflicts(api: Api) -> None:
    created = await api.post(CLIQUES, clique("a"))
    version = created.metadata["resourceVersion"]
    await api.merge(f"{CLIQUES}/a", {"spec": {"replicas": 2}})
    conflict = (409, "Conflict", f'Operation cannot be fulfilled on podcliques.grove.io "a": {_STALE}')
    assert (await api.put(f"{CLIQUES}/a", clique("a", resourceVersion=version))).refusal == conflict
    late = {"metadata": {"resourceVersion": version}, "status": {"replicas": 1}}
    assert (await api.merge(f"{CLIQUES}/a/status", late)).refusal == conflict
    assert (await api.merge(f"{CLIQUES}/a/scale", late)).refusal == conflict
    assert (await api.merge(f"{CLIQUES}/a", late)).refusal == conflict


@on_cluster
async def test_a_write_meant_for_another_object_of_this_name_is_refused(api: Api) -> None:
    await api.post(CONFIGS, config("a"))
    patched = await api.merge(f"{CONFIGS}/a", {"metadata": {"uid": "other"}})
    assert patched.refusal[:2] == (422, "Invalid")
    replaced = await api.put(f"{CONFIGS}/a", config("a", uid="other"))
    assert replaced.refusal[:2] == (409, "Conflict")


@on_cluster
async def test_custom_kinds_are_never_replaced_blindly_built_in_ones_may_be(api: Api) -> None:
    await api.post(CLIQUES, clique("a"))
    refused = await api.put(f"{CLIQUES}/a", clique("a"))
    assert (refused.status, refused.body["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    await api.post(CONFIGS, config("a"))
    assert (await api.put(f"{CONFIGS}/a", {**config("a"), "data": {"k": "v"}})).body["data"] == {"k": "v"}


@on_cluster
async def test_a_write_that_changes_nothing_is_no_write(api: Api) -> None:
    created = await api.post(CLIQUES, clique("a", labels={"x": "y"}))
    for patch in ({}, {"spec": {"replicas": 1}}, {"metadata": {"labels": {"x": "y"}}}, {"status": {"replicas": 4}}):
        assert (await api.merge(f"{CLIQUES}/a", patch)).body == created.body
    assert (await api.put(f"{CLIQUES}/a", created.body)).body == created.body
    assert (await api.get(CLIQUES)).metadata["resourceVersion"] == created.metadata["resourceVersion"]


@on_cluster
async def test_only_wishes_make_a_new_generation(api: Api) -> None:
    await api.post(CLIQUES, clique("a"))
    generations = [
        (await api.merge(f"{CLIQUES}/a", {"metadata": {"labels": {"x": "y"}}})).metadata["generation"],
        (await api.merge(f"{CLIQUES}/a/status", {"status": {"replicas": 1}})).metadata["generation"],
        (await api.merge(f"{CLIQUES}/a", {"spec": {"replicas": 5}})).metadata["generation"],
    ]
    assert generations == [1, 1, 2]


@on_cluster
async def test_status_and_the_rest_are_written_through_different_doors(api: Api) -> None:
    await api.post(CLIQUES, clique("a"))
    both = {"metadata": {"labels": {"x": "y"}}, "spec": {"replicas": 9}, "status": {"replicas": 9}}
    by_status = await api.merge(f"{CLIQUES}/a/status", both)
    assert (by_status.body["spec"], by_status.body["status"]["replicas"]) == (CLIQUE_SPEC, 9)
    assert "labels" not in by_status.metadata
    by_main = await api.merge(f"{CLIQUES}/a", {**both, "status": {"replicas": 7}})
    assert (by_main.body["spec"], by_main.body["status"]["replicas"]) == ({**CLIQUE_SPEC, "replicas": 9}, 9)


@on_cluster
async def test_a_pods_status_is_patched_condition_by_condition(api: Api) -> None:
    await api.post(PODS, pod("a", gates=("x",)))
    ready = {"type": "Ready", "status": "True"}
    patched = await api.strategic(f"{PODS}/a/status", {"status": {"phase": "Running", "conditions": [ready]}})
    assert [condition["type"] for condition in patched.body["status"]["conditions"]] == ["Ready", "PodScheduled"]
    assert patched.body["status"]["qosClass"] == "BestEffort"


@on_cluster
async def test_kinds_without_a_status_have_no_such_door(api: Api) -> None:
    await api.post(CONFIGS, config("a"))
    assert (await api.merge(f"{CONFIGS}/a/status", {})).status == 404


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"creationTimestamp": "2000-01-01T00:00:00Z"}, 200),
        ({"deletionTimestamp": "2000-01-01T00:00:00Z"}, 422),
        ({"name": "b"}, 400),
        ({"namespace": "kube-system"}, 400),
        ({"labels": {"a b": "c"}}, 422),
        ({"labels": ["a"]}, 422),
        ({"generation": 9}, 200),
    ],
)
@on_cluster
async def test_the_servers_metadata_cannot_be_patched(api: Api, metadata: JsonObject, code: int) -> None:
    created = await api.post(CONFIGS, config("a"))
    assert (await api.merge(f"{CONFIGS}/a", {"metadata": metadata})).status == code
    assert (await api.get(f"{CONFIGS}/a")).body == created.body


@on_cluster
async def test_the_name_in_a_replacement_must_be_that_of_the_path(api: Api) -> None:
    await api.post(CONFIGS, config("a"))
    refused = await api.put(f"{CONFIGS}/a", config("b"))
    assert refused.refusal == (
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    )
    assert (await api.put(f"{CONFIGS}/missing", config("missing"))).status == 404


@on_cluster
async def test_a_json_patch_applies_as_a_whole_or_not_at_all(api: Api) -> None:
    created = await api.post(CLIQUES, clique("a", finalizers=["x.io/a"]))
    failing = await api.json_patch(
        f"{CLIQUES}/a",
        {"op": "replace", "path": "/spec/replicas", "value": 3},
        {"op": "test", "path": "/metadata/finalizers/0", "value": "x.io/b"},
    )
    assert failing.refusal == (422, "Invalid", "the server rejected our request due to an error in our request")
    assert (await api.get(f"{CLIQUES}/a")).body == created.body
    done = await api.json_patch(f"{CLIQUES}/a", {"op": "remove", "path": "/metadata/finalizers/0"})
    assert "finalizers" not in done.metadata


@pytest.mark.parametrize("patch", [b"", b"{", b"[]", b'"x"', b"[1]", b"null", b'{"metadata":5}', b'{"metadata":null}'])
@pytest.mark.parametrize("kind", ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json"])
@on_cluster
async def test_what_is_no_patch_changes_nothing(api: Api, patch: bytes, kind: str) -> None:
    created = await api.post(PODS, pod("a"))
    answer = await api.send_raw("PATCH", f"{PODS}/a", patch, f"application/{kind}")
    # An empty list is a proper JSON patch.
    assert answer.status == (200 if patch == b"[]" and kind == "json-patch+json" else 400)
    assert (await api.get(f"{PODS}/a")).body == created.body


@on_cluster
async def test_custom_kinds_know_no_strategic_patch(api: Api) -> None:
    await api.post(CLIQUES, clique("a"))
    assert (await api.strategic(f"{CLIQUES}/a", {})).refusal == (
        415,
        "UnsupportedMediaType",
        (
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        ),
    )


@pytest.mark.parametrize("part", ["spec", "status"])
@on_cluster
async def test_spec_and_status_are_objects(api: Api, part: str) -> None:
    await api.post(CLIQUES, clique("a"))
    path = f"{CLIQUES}/a/status" if part == "status" else f"{CLIQUES}/a"
    refused = await api.merge(path, {part: 5})
    problem = f'{part}: Invalid value: "integer": {part} in body must be of type object: "integer"'
    assert refused.refusal == (422, "Invalid", f'PodClique.grove.io "a" is invalid: {problem}')


# Scale


@on_cluster
async def test_scale_is_read_from_spec_and_status(api: Api) -> None:
    pcs = {**clique("a"), "kind": "PodCliqueSet", "spec": {"replicas": 1, "template": {"cliques": []}}}
    created = await api.post(SETS, pcs)
    await api.merge(f"{SETS}/a/status", {"status": {"replicas": 1, "hpaPodSelector": "app=a"}})
    scale = await api.get(f"{SETS}/a/scale")
    assert scale.body == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": created.metadata["uid"],
            "resourceVersion": "6",
            "creationTimestamp": "2026-01-01T12:00:00Z",
        },
        "spec": {"replicas": 1},
        "status": {"replicas": 1, "selector": "app=a"},
    }


@on_cluster
async def test_scaling_changes_the_wish_and_nothing_else(api: Api) -> None:
    await api.post(CLIQUES, clique("a", spec={"minAvailable": 1}))
    patched = await api.merge(f"{CLIQUES}/a/scale", {"spec": {"replicas": 3}})
    assert (patched.body["kind"], patched.body["spec"]) == ("Scale", {"replicas": 3})
    scale = {**patched.body, "spec": {"replicas": 4}}
    assert (await api.put(f"{CLIQUES}/a/scale", scale)).body["spec"] == {"replicas": 4}
    stored = await api.get(f"{CLIQUES}/a")
    assert (stored.body["spec"], stored.metadata["generation"]) == (
        {**CLIQUE_SPEC, "replicas": 4, "minAvailable": 1},
        3,
    )


@pytest.mark.parametrize(("replicas", "code"), [(-1, 422), (0, 200), ("3", 422), (True, 422), (1.5, 422)])
@on_cluster
async def test_only_counts_are_scales(api: Api, replicas: object, code: int) -> None:
    await api.post(CLIQUES, clique("a"))
    assert (await api.merge(f"{CLIQUES}/a/scale", {"spec": {"replicas": replicas}})).status == code


@on_cluster
async def test_kinds_that_do_not_scale_say_so(api: Api) -> None:
    await api.post(PODS, pod("a"))
    assert (await api.get(f"{PODS}/a/scale")).status == 404
