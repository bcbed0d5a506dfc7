"""What the server says of itself: resources, schemas, version, health."""

import pytest

from grove.api.types.meta import JsonObject
from grove.cluster.built_in_resources import SERVED
from grove.kube.transport import Request
from tests.cluster.apidsl import Api, on_cluster

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
_STORED = {
    (resource_info.group, resource_info.version, resource_info.plural, resource_info.kind, resource_info.namespaced)
    for resource_info in SERVED
}
_ANSWERED = {
    ("events.k8s.io", "v1", "events", "Event", True),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
    ("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
    ("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False),
    ("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False),
}


@on_cluster
async def test_two_requests_discover_everything(api: Api) -> None:
    answers = [await api.get_as(AGGREGATED, path) for path in ("/api", "/apis")]
    assert {answer.headers["Content-Type"] for answer in answers} == {
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    }
    found = {
        (group["metadata"].get("name", ""), version["version"], each["resource"], each["responseKind"]["kind"],
         each["scope"] == "Namespaced")
        for answer in answers for group in answer.body["items"]
        for version in group["versions"] for each in version["resources"]
    }  # fmt: skip
    assert found == _STORED | _ANSWERED


@on_cluster
async def test_the_legacy_way_discovers_the_same(api: Api) -> None:
    assert (await api.get("/api")).body["versions"] == ["v1"]
    groups = (await api.get_as("application/json", "/apis")).body["groups"]
    places = [("", "v1", "/api/v1")]
    places += [(g["name"], v["version"], f"/apis/{v['groupVersion']}") for g in groups for v in g["versions"]]
    found = {
        (group, version, each["name"], each["kind"], each["namespaced"])
        for group, version, path in places
        for each in (await api.get(path)).body["resources"]
        if "/" not in each["name"]
    }
    assert found == _STORED | _ANSWERED
    for group in groups:
        assert (await api.get(f"/apis/{group['name']}")).body == {"kind": "APIGroup", "apiVersion": "v1", **group}


@on_cluster
async def test_subresources_are_discovered(api: Api) -> None:
    resources = (await api.get("/apis/grove.io/v1alpha1")).body["resources"]
    scale = next(each for each in resources if each["name"] == "podcliques/scale")
    assert scale == {
        "name": "podcliques/scale",
        "singularName": "",
        "namespaced": True,
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
        "group": "autoscaling",
        "version": "v1",
    }


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
@on_cluster
async def test_a_server_that_answers_is_well(api: Api, path: str) -> None:
    answer = await api.transport.send(Request(method="GET", path=path))
    assert (answer.status, answer.body) == (200, b"ok")
    assert (await api.post(path, {})).refusal[:2] == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "path", ["/", "/apis/nobody", "/apis/grove.io/v2", "/openapi/v2", "/metrics", "/api/v1/nothing"]
)
@on_cluster
async def test_what_is_not_served_is_not_found(api: Api, path: str) -> None:
    assert (await api.transport.send(Request(method="GET", path=path))).status == 404


@on_cluster
async def test_every_document_of_the_index_is_there_and_complete(api: Api) -> None:
    paths = (await api.get("/openapi/v3")).body["paths"]
    kinds = set()
    for place in paths.values():
        document = (await api.get(place["serverRelativeURL"].partition("?")[0])).body
        schemas = document["components"]["schemas"]
        assert [ref for ref in _references(document) if ref.rpartition("/")[2] not in schemas] == []
        for schema in schemas.values():
            kinds |= {(each["group"], each["version"], each["kind"]) for each in _kinds_of(schema)}
    assert {(resource_info.group, resource_info.version, resource_info.kind) for resource_info in SERVED} <= kinds


@on_cluster
async def test_kubectl_finds_strict_validation_and_dry_run_in_the_documents(api: Api) -> None:
    document = (await api.get("/openapi/v3/apis/grove.io/v1alpha1")).body
    place = document["paths"]["/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets/{name}"]
    assert {"dryRun", "fieldValidation"} <= {each["name"] for each in place["patch"]["parameters"]}
    assert list(place["patch"]["requestBody"]["content"]) == [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ]


@on_cluster
async def test_a_built_in_kind_is_told_in_full_with_the_keys_of_its_lists(api: Api) -> None:
    document = (await api.get("/openapi/v3/api/v1")).body
    place = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]
    assert "application/strategic-merge-patch+json" in place["patch"]["requestBody"]["content"]
    spec = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert spec["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert spec["nodeName"]["type"] == "string"
    port = document["components"]["schemas"]["io.k8s.api.core.v1.ContainerPort"]
    assert (port["required"], "description" in port) == (["containerPort"], False)


def _references(value: object) -> list[str]:
    if isinstance(value, list):
        return [ref for item in value for ref in _references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [ref for item in value.values() for ref in _references(item)]


def _kinds_of(schema: JsonObject) -> list[JsonObject]:
    kinds: list[JsonObject] = schema.get("x-kubernetes-group-version-kind", [])
    return kinds


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"allowed": True},
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"userInfo": {"username": "grove-admin", "groups": ["system:masters", "system:authenticated"]}},
        ),
    ],
)
@on_cluster
async def test_the_token_is_not_restricted(api: Api, path: str, status: JsonObject) -> None:
    answer = await api.post(path, {"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}})
    assert (answer.status, answer.body["status"]) == (201, status)
    assert (await api.get(path)).status == 405
