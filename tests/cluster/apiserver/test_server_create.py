"""Creating objects: what the server adds, and what it refuses."""

import pytest

from grove.api.types.admission import AdmissionRequest, AdmissionResult
from grove.api.validation.field_errors import invalid, required
from grove.kube.transport import Request
from tests.cluster.apidsl import (
    CLIQUE_SPEC,
    CLIQUES,
    CONFIGS,
    NAMESPACES,
    NODES,
    PODS,
    Api,
    clique,
    config,
    node,
    on_cluster,
    on_cluster_with,
    pod,
)
from tests.protobuf_wire import body


@on_cluster
async def test_a_new_object_gets_uid_version_generation_and_birthday(api: Api) -> None:
    await api.clock.sleep(1.9)
    created = await api.post(CLIQUES, clique("a", labels={"x": "y"}))
    uid = created.metadata["uid"]
    assert created.status == 201
    assert created.body == {
        "kind": "PodClique",
        "apiVersion": "grove.io/v1alpha1",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": uid,
            "resourceVersion": "5",
            "generation": 1,
            "creationTimestamp": "2026-01-01T12:00:01Z",
            "labels": {"x": "y"},
        },
        "spec": CLIQUE_SPEC,
    }
    assert (await api.get(f"{CLIQUES}/a")).body == created.body


@on_cluster
async def test_what_only_the_server_decides_cannot_be_given(api: Api) -> None:
    given = {"uid": "mine", "generation": 7, "creationTimestamp": "2000-01-01T00:00:00Z", "managedFields": [{}]}
    created = await api.post(CONFIGS, config("a", deletionTimestamp="2000-01-01T00:00:00Z", selfLink="/x", **given))
    assert set(created.metadata) == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
    assert created.metadata["uid"] != "mine"
    assert created.metadata["creationTimestamp"] == "2026-01-01T12:00:00Z"


@on_cluster
async def test_status_is_not_taken_from_a_create_of_a_kind_with_a_status_of_its_own(api: Api) -> None:
    created = await api.post(CLIQUES, {**clique("a"), "status": {"replicas": 3}})
    assert "status" not in created.body


@on_cluster
async def test_a_kubelet_registers_its_node_with_a_status(api: Api) -> None:
    created = await api.post(NODES, {**node("n"), "status": {"capacity": {"cpu": "4"}}})
    assert created.body["status"] == {"capacity": {"cpu": "4"}}


@on_cluster
async def test_the_server_makes_up_names_from_generate_name(api: Api) -> None:
    body = {"kind": "ConfigMap", "metadata": {"generateName": "x" * 80}}
    names = [(await api.post(CONFIGS, body)).metadata["name"] for _ in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("x" * 58) and len(name) == 63 for name in names)


@on_cluster
async def test_a_taken_name_is_refused(api: Api) -> None:
    await api.post(CLIQUES, clique("a"))
    again = await api.post(CLIQUES, clique("a"))
    assert again.refusal == (409, "AlreadyExists", 'podcliques.grove.io "a" already exists')
    assert again.body["details"] == {"name": "a", "group": "grove.io", "kind": "podcliques"}


@on_cluster
async def test_a_name_held_by_a_leaving_object_is_still_taken(api: Api) -> None:
    await api.post(CLIQUES, clique("a", finalizers=["x.io/keep"]))
    await api.delete(f"{CLIQUES}/a")
    again = await api.post(CLIQUES, clique("a"))
    assert again.refusal == (
        409,
        "AlreadyExists",
        'object is being deleted: podcliques.grove.io "a" already exists',
    )


@on_cluster
async def test_a_namespace_must_exist(api: Api) -> None:
    refused = await api.post("/api/v1/namespaces/nowhere/configmaps", config("a"))
    assert refused.refusal == (404, "NotFound", 'namespaces "nowhere" not found')


@on_cluster
async def test_a_leaving_namespace_takes_nothing_new(api: Api) -> None:
    await api.post(NAMESPACES, {"metadata": {"name": "team"}})
    await api.delete(f"{NAMESPACES}/team")
    refused = await api.post("/api/v1/namespaces/team/configmaps", config("a"))
    assert refused.refusal == (
        403,
        "Forbidden",
        'configmaps "a" is forbidden: unable to create new content in namespace team because it is being terminated',
    )
    assert refused.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace team is being terminated",
            "field": "metadata.namespace",
        }
    ]


@on_cluster
async def test_a_dry_run_answers_as_if_and_stores_nothing(api: Api) -> None:
    tried = await api.post(CONFIGS, config("a"), dryRun="All")
    assert (tried.status, tried.metadata["name"]) == (201, "a")
    assert (await api.get(f"{CONFIGS}/a")).status == 404
    assert (await api.post(CONFIGS, config("a"), dryRun="maybe")).status == 422


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        pytest.param([], 400, "json parse error", id="not an object"),
        pytest.param({"metadata": 5}, 400, "cannot be handled as a ConfigMap", id="metadata of the wrong type"),
        pytest.param({"metadata": {"labels": {"a": 1}}}, 400, "$.metadata.labels", id="a label that is a number"),
        pytest.param({"metadata": {"name": "a", "namespace": "other"}}, 400, "does not match", id="other namespace"),
        pytest.param(
            {"apiVersion": "v2", "metadata": {"name": "a"}},
            400,
            'no kind "ConfigMap" is registered for version "v2"',
            id="version",
        ),
        pytest.param({"kind": "Secret", "metadata": {"name": "a"}}, 400, "cannot be handled", id="kind"),
        pytest.param({"metadata": {"name": "a", "resourceVersion": "1"}}, 400, "should not be set", id="has a version"),
        pytest.param({}, 422, "metadata.name: Required value: name or generateName is required", id="no name"),
        pytest.param(config("A"), 422, 'metadata.name: Invalid value: "A": a lowercase RFC 1123', id="capital"),
        pytest.param(config("a" * 254), 422, "must be no more than 253 characters", id="name too long"),
        pytest.param(config("a", labels={"-": "x"}), 422, "metadata.labels", id="label key"),
        pytest.param(config("a", labels={"x": "y" * 64}), 422, "no more than 63 bytes", id="label value"),
        pytest.param(config("a", annotations={"/x": ""}), 422, "prefix part must be non-empty", id="annotation key"),
        pytest.param(config("a", finalizers=[""]), 422, "metadata.finalizers", id="empty finalizer"),
        pytest.param(
            config("a", ownerReferences=[{"kind": "Pod"}]), 422, "ownerReferences[0].uid", id="owner without uid"
        ),
    ],
)
@on_cluster
async def test_a_bad_body_is_refused_and_nothing_is_stored(api: Api, body: object, code: int, words: str) -> None:
    refused = await api.post(CONFIGS, body)
    assert refused.status == code
    assert words in refused.body["message"]
    assert (await api.get(CONFIGS)).names == []


@on_cluster
async def test_all_errors_of_an_object_are_told_at_once(api: Api) -> None:
    refused = await api.post(CONFIGS, config("A", labels={"": "x"}, finalizers=["a b"]))
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [
        "metadata.name",
        "metadata.labels",
        "metadata.finalizers",
    ]
    assert refused.body["message"].startswith('ConfigMap "A" is invalid: [metadata.name: Invalid value: "A": ')


@on_cluster
async def test_two_controllers_of_one_object_are_refused(api: Api) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in ("a", "b")]
    refused = await api.post(CONFIGS, config("c", ownerReferences=owners))
    assert "Only one reference can have Controller set to true" in refused.body["message"]


@on_cluster
async def test_names_at_their_longest_are_accepted(api: Api) -> None:
    assert (await api.post(CONFIGS, config("a" * 253, labels={"x": "y" * 63}))).status == 201
    assert (await api.post(NAMESPACES, {"metadata": {"name": "n" * 63}})).status == 201
    assert (await api.post(NAMESPACES, {"metadata": {"name": "n" * 64}})).status == 422


@on_cluster
async def test_custom_kinds_must_say_what_they_are_built_in_ones_need_not(api: Api) -> None:
    assert (await api.post(CONFIGS, {"metadata": {"name": "a"}})).status == 201
    assert (await api.post(CLIQUES, {"metadata": {"name": "a"}})).status == 400


def _strict(request: AdmissionRequest) -> AdmissionResult:
    assert request.object is not None
    spec = request.object["spec"]
    if spec["roleName"] == "broken":
        errors = (invalid("spec.roleName", "broken", "must not be that"), required("spec.whole", "set it"))
        return AdmissionResult(errors=errors)
    defaulted = {**request.object, "spec": {"minAvailable": 1, **spec}}
    return AdmissionResult(object=defaulted, warnings=(f"{request.operation}: mind {request.subresource or 'this'}",))


@on_cluster_with(admission=_strict)
async def test_admission_may_fill_in_defaults_and_warn(api: Api) -> None:
    created = await api.post(CLIQUES, clique("a"))
    assert created.body["spec"] == {**CLIQUE_SPEC, "minAvailable": 1}
    assert created.headers == {"Warning": '299 - "CREATE: mind this"'}
    scaled = await api.merge(f"{CLIQUES}/a/scale", {"spec": {"replicas": 2}})
    assert scaled.headers == {"Warning": '299 - "UPDATE: mind scale"'}


@on_cluster_with(admission=_strict)
async def test_what_admission_refuses_is_answered_with_every_cause(api: Api) -> None:
    refused = await api.post(CLIQUES, clique("a", spec={"roleName": "broken"}))
    assert refused.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'PodClique.grove.io "a" is invalid: [spec.roleName: Invalid value: "broken": must not be that, '
        "spec.whole: Required value: set it]",
        "reason": "Invalid",
        "details": {
            "name": "a",
            "group": "grove.io",
            "kind": "PodClique",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "message": 'Invalid value: "broken": must not be that',
                    "field": "spec.roleName",
                },
                {"reason": "FieldValueRequired", "message": "Required value: set it", "field": "spec.whole"},
            ],
        },
        "code": 422,
    }


@on_cluster_with(admission=_strict)
async def test_admission_is_asked_about_updates_and_patches_but_not_about_statuses(api: Api) -> None:
    await api.post(CLIQUES, clique("a"))
    assert (await api.merge(f"{CLIQUES}/a", {"spec": {"roleName": "broken"}})).status == 422
    assert (await api.put(f"{CLIQUES}/a", clique("a", spec={"roleName": "broken"}, resourceVersion="5"))).status == 422
    assert (await api.merge(f"{CLIQUES}/a/status", {"status": {"replicas": 1}})).headers == {}


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/default/endpoints", 404),
        ("GET", "/apis/grove.io/v2/podcliques", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", f"{PODS}/a/exec", 404),
        ("PUT", PODS, 405),
        ("POST", f"{PODS}/a", 405),
        ("POST", "/api/v1/pods", 405),
        ("GET", f"{PODS}/a/binding", 405),
    ],
)
@on_cluster
async def test_what_is_not_served_is_answered_as_such(api: Api, method: str, path: str, code: int) -> None:
    request = Request(method=method, path=path, body=b"{}")
    assert (await api.transport.send(request)).status == code


@on_cluster
async def test_other_media_types_are_refused_by_name(api: Api) -> None:
    unknown = body("Deployment", b"", "apps/v1")
    protobuf = await api.send_raw("POST", PODS, unknown, "application/vnd.kubernetes.protobuf")
    assert protobuf.refusal[:2] == (415, "UnsupportedMediaType")
    assert protobuf.refusal[2].endswith(
        "the embedded cluster does not support protobuf for apps/v1 Deployment: send JSON"
    )
    refused = await api.send_raw("POST", PODS, b"a: b", "application/toml")
    assert refused.refusal == (
        415,
        "UnsupportedMediaType",
        (
            "the body of the request was in an unknown format - accepted media types include: application/json, "
            "application/vnd.kubernetes.protobuf"
        ),
    )
    await api.post(PODS, pod("a"))
    applied = await api.send_raw("PATCH", f"{PODS}/a", b"{}", "application/apply-patch+cbor")
    assert (applied.status, applied.body["reason"]) == (415, "UnsupportedMediaType")


@on_cluster
async def test_observers_see_every_request_and_its_answer(api: Api) -> None:
    seen: list[tuple[str, str, int]] = []
    api.server.observers.append(lambda asked, answer: seen.append((asked.method, asked.path, answer.status)))
    await api.post(CONFIGS, config("a"))
    await api.delete(f"{CONFIGS}/b")
    assert seen == [("POST", CONFIGS, 201), ("DELETE", f"{CONFIGS}/b", 404)]
