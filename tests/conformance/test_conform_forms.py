"""What is asked for and in which form: paths, methods, media types, tables, metadata, discovery."""

from typing import Any

import msgspec
import pytest

from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from grove.kube.transport import MERGE_PATCH, Request
from tests.conformance.talk import JSON, METADATA, METADATA_LIST, TABLE, Answer, Talk, bound, clique, config, pod
from tests.conformance.words import NO_SUCH_METHOD, NO_SUCH_RESOURCE

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# Paths


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/foos", "/api/v1/namespaces/default/foos", "/api/v9/pods", "/apis/apps/v9/controllerrevisions",
        "/apis/apps/v1/foos", "/api/v1/namespaces/default/configmaps/a/foo", "/api/v1/nodes/a/foo",
        "/api/v1/namespaces/default/configmaps/a/status", "/api/v1/namespaces/default/foo",
    ],
)  # fmt: skip
async def test_what_is_not_served_is_not_found(api: Talk, path: str) -> None:
    answer = await api.get(path)
    assert answer.refusal == NO_SUCH_RESOURCE
    assert answer.details == {}


@pytest.mark.parametrize(
    "path",
    [
        "/foo", "/apis/foo.io/v1/foos", "/apis/grove.io/v9/podcliques", "/apis/grove.io/v1alpha1/foos",
        "/apis/grove.io/v1alpha1/podcliques/a", "/apis/grove.io/v1alpha1/namespaces/default/clustertopologybindings",
        "/apis/foo.io",
    ],
)  # fmt: skip
async def test_where_nothing_is_there_is_no_page(api: Talk, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.raw) == (404, b"404 page not found\n")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


async def test_a_custom_object_has_no_other_subresources(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.get(api.at("podcliques", "a", "foo"))
    assert answer.refusal == (404, "NotFound", 'podcliques.grove.io "a" not found')


OBJECTS: list[Any] = [
    ("configmaps", "", {"kind": "configmaps"}),
    ("podcliques", ".grove.io", {"group": "grove.io", "kind": "podcliques"}),
]


@pytest.mark.parametrize(("plural", "suffix", "details"), OBJECTS)
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_what_is_not_there_is_not_found(api: Talk, plural: str, suffix: str, details: Any, method: str) -> None:
    body = {"GET": None, "DELETE": None, "PATCH": {}, "PUT": config("a") if plural == "configmaps" else clique("a")}
    content_type = MERGE_PATCH if method == "PATCH" else JSON
    answer = await api.send(method, api.at(plural, "a"), body[method], content_type=content_type)
    assert answer.refusal == (404, "NotFound", f'{plural}{suffix} "a" not found')
    assert answer.details == {"name": "a", **details}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/configmaps"), ("POST", "/api/v1/namespaces/default/configmaps/a"),
        ("PUT", "/api/v1/namespaces/default/configmaps"), ("PATCH", "/api/v1/namespaces/default/configmaps"),
        ("POST", "/version"), ("POST", "/api"), ("OPTIONS", "/api/v1/namespaces/default/configmaps"),
    ],
)  # fmt: skip
async def test_a_method_that_makes_no_sense_is_not_allowed(api: Talk, method: str, path: str) -> None:
    answer = await api.send(method, path, config("a"), content_type=MERGE_PATCH if method == "PATCH" else JSON)
    assert answer.refusal == NO_SUCH_METHOD
    assert answer.details == {}


async def test_a_slash_at_the_end_is_forgiven(api: Talk) -> None:
    await api.create("configmaps", config("a", labels={"mine": "1"}))
    assert (await api.get(f"{api.at('configmaps')}/", labelSelector="mine")).names == ["a"]
    assert [(await api.get(path)).status for path in ("/api/", "/apis/", "/api/v1/")] == [200, 200, 200]


# Who asks


async def test_a_stranger_is_not_let_in(api: Talk, access: Access) -> None:
    stranger = msgspec.structs.replace(access, token="of somebody else")
    async with HttpTransport(stranger, api.clock) as transport:
        response = await transport.send(Request(method="GET", path=api.at("pods")))
    answer = Answer(response.status, response.body, dict(response.headers))
    assert answer.refusal == (401, "Unauthorized", "Unauthorized")
    assert answer.details is None


# Media types


@pytest.mark.parametrize("plural", ["configmaps", "podcliques"])
async def test_a_body_of_another_type_is_refused(api: Talk, plural: str) -> None:
    answer = await api.send("POST", api.at(plural), b"text", content_type="text/plain")
    assert answer.refusal[:2] == (415, "UnsupportedMediaType")
    assert answer.refusal[2].startswith(
        "the body of the request was in an unknown format - accepted media types include: application/json"
    )


async def test_a_form_that_there_is_not_is_refused(api: Talk) -> None:
    answer = await api.get(api.at("configmaps"), accept="text/html")
    assert answer.refusal[:2] == (406, "NotAcceptable")
    assert answer.refusal[2].startswith("406: Not Acceptable\n\nAvailable representations: application/json, ")
    assert answer.details == {}


@pytest.mark.parametrize(
    ("plural", "accept"),
    [("podcliques", "text/html"), ("configmaps", "application/json;as=Table;g=meta.k8s.io;v=v9")],
)
async def test_a_form_of_no_known_version_is_refused(api: Talk, plural: str, accept: str) -> None:
    answer = await api.get(api.at(plural), accept=accept)
    assert answer.refusal[:2] == (406, "NotAcceptable")
    assert answer.refusal[2].startswith("only the following media types are accepted: application/json")
    assert answer.details is None


@pytest.mark.parametrize("accept", ["*/*", "text/html,application/json;q=0.5", "application/json;q=1"])
async def test_json_is_found_among_the_wishes(api: Talk, accept: str) -> None:
    answer = await api.get(api.at("configmaps"), accept=accept)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")


async def test_yaml_is_spoken(api: Talk) -> None:
    answer = await api.get(api.at("configmaps"), accept="application/yaml")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/yaml")


# Tables


def columns(answer: Answer) -> list[tuple[Any, ...]]:
    found = answer.body["columnDefinitions"]
    return [(each["name"], each["type"], each["format"], each["priority"]) for each in found]


def text(name: str, priority: int = 0) -> tuple[Any, ...]:
    return name, "string", "name" if name == "Name" else "", priority


async def test_pods_come_as_a_table(api: Talk) -> None:
    await api.create("pods", pod("a"))
    answer = await api.get(api.at("pods"), accept=TABLE)
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert list(answer.metadata) == ["resourceVersion"]
    assert columns(answer) == [
        *(text(name) for name in ("Name", "Ready", "Status", "Restarts", "Age")),
        *(text(name, 1) for name in ("IP", "Node", "Nominated Node", "Readiness Gates")),
    ]
    (row,) = answer.body["rows"]
    assert row["cells"][:4] == ["a", "0/1", "Pending", "0"]
    assert row["cells"][5:] == ["<none>"] * 4
    assert (row["object"]["kind"], sorted(row["object"])) == (
        "PartialObjectMetadata", ["apiVersion", "kind", "metadata"]
    )  # fmt: skip


async def test_a_gated_pod_is_shown_as_such(api: Talk) -> None:
    await api.create("pods", pod("a", spec={"schedulingGates": [{"name": "x.io/a"}]}))
    (row,) = (await api.get(api.at("pods"), accept=TABLE)).body["rows"]
    assert row["cells"][:3] == ["a", "0/1", "SchedulingGated"]


async def test_a_leaving_pod_is_shown_as_such(api: Talk) -> None:
    node = (await api.create("pods", pod("a", spec=bound()))).spec["nodeName"]
    await api.delete(api.at("pods", "a"))
    (row,) = (await api.get(api.at("pods"), accept=TABLE)).body["rows"]
    assert (row["cells"][2], row["cells"][6]) == ("Terminating", node)


async def test_custom_objects_come_with_the_columns_of_their_definition(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    answer = await api.get(api.at("podcliques"), accept=TABLE)
    assert [(name, type_) for name, type_, _, _ in columns(answer)] == [
        ("Name", "string"), ("MinAvail", "integer"), ("Replicas", "integer"), ("Ready", "integer"),
        ("Scheduled", "integer"), ("Updated", "integer"), ("Gated", "integer"), ("MinBreached", "string"),
        ("Age", "date"),
    ]  # fmt: skip
    (row,) = answer.body["rows"]
    assert row["cells"][:-1] == ["a", None, 1, None, None, None, None, None]


BUILT_IN: list[Any] = [
    ("configmaps", ["Name", "Data", "Age"]), ("secrets", ["Name", "Type", "Data", "Age"]),
    ("services", ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"]),
    ("namespaces", ["Name", "Status", "Age"]), ("leases", ["Name", "Holder", "Age"]),
    ("nodes", ["Name", "Status", "Roles", "Age", "Version", "Internal-IP", "External-IP", "OS-Image", "Kernel-Version",
               "Container-Runtime"]),
    ("events", ["Last Seen", "Type", "Reason", "Object", "Subobject", "Source", "Message", "First Seen", "Count",
                "Name"]),
    ("resourcequotas", ["Name", "Request", "Limit", "Age"]), ("controllerrevisions", ["Name", "Controller", "Revision",
                                                                                      "Age"]),
    ("horizontalpodautoscalers", ["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"]),
]  # fmt: skip


@pytest.mark.parametrize(("plural", "names"), BUILT_IN)
async def test_built_in_kinds_have_columns_of_text(api: Talk, plural: str, names: list[str]) -> None:
    found = columns(await api.get(api.at(plural), accept=TABLE))
    assert [(name, type_, form) for name, type_, form, _ in found] == [text(name)[:3] for name in names]


async def test_priority_classes_have_columns_of_their_own_types(api: Talk) -> None:
    await api.create("priorityclasses", {"metadata": {"name": f"class-{api.namespace}"}, "value": 5})
    answer = await api.get(api.at("priorityclasses", f"class-{api.namespace}"), accept=TABLE)
    assert [(name, type_) for name, type_, _, _ in columns(answer)] == [
        ("Name", "string"), ("Value", "integer"), ("Global-Default", "boolean"), ("Age", "string"),
        ("PreemptionPolicy", "string"),
    ]  # fmt: skip
    cells = answer.body["rows"][0]["cells"]
    assert (cells[1], cells[2], cells[4]) == (5, False, "PreemptLowerPriority")


@pytest.mark.parametrize(
    ("included", "kind"), [("Object", "ConfigMap"), ("Metadata", "PartialObjectMetadata"), ("None", None)]
)
async def test_a_row_carries_as_much_of_its_object_as_wanted(api: Talk, included: str, kind: str | None) -> None:
    await api.create("configmaps", config("a", {"k": "v"}))
    answer = await api.get(api.at("configmaps", "a"), accept=TABLE, includeObject=included)
    (row,) = answer.body["rows"]
    assert row["cells"][:2] == ["a", 1]
    assert (None if row["object"] is None else row["object"]["kind"]) == kind


async def test_a_row_cannot_carry_anything_else(api: Talk) -> None:
    answer = await api.get(api.at("configmaps"), accept=TABLE, includeObject="Foo")
    problem = "must be 'Metadata', 'Object', 'None', or empty"
    message = f'Unable to convert to Table as requested: includeObject: Invalid value: "Foo": {problem}'
    assert answer.refusal == (400, "BadRequest", message)


async def test_a_refusal_is_no_table(api: Talk) -> None:
    answer = await api.get(api.at("configmaps", "a"), accept=TABLE)
    assert answer.refusal == (404, "NotFound", 'configmaps "a" not found')


async def test_a_watch_of_tables_names_the_columns_once(api: Talk) -> None:
    for name in ("a", "b"):
        await api.create("configmaps", config(name, labels={"mine": "1"}))
    async with api.watch(api.at("configmaps"), accept=TABLE, labelSelector="mine") as watched:
        found = [await watched.event(), await watched.event()]
    assert [event["object"]["rows"][0]["cells"][0] for event in found] == ["a", "b"]
    assert [len(event["object"]["columnDefinitions"] or ()) for event in found] == [3, 0]


# Metadata


async def test_an_object_can_be_reduced_to_its_metadata(api: Talk) -> None:
    born = await api.create("configmaps", config("a", {"k": "v"}))
    body = (await api.get(api.at("configmaps", "a"), accept=METADATA)).body
    assert body == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": born.metadata}


async def test_a_list_can_be_reduced_to_metadata(api: Talk) -> None:
    await api.create("pods", pod("a"))
    body = (await api.get(api.at("pods"), accept=METADATA_LIST)).body
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [sorted(item) for item in body["items"]] == [["apiVersion", "kind", "metadata"]]


@pytest.mark.parametrize(
    ("name", "accept", "what"), [("", METADATA, "is a list"), ("a", METADATA_LIST, "is not a list")]
)
async def test_a_list_is_no_object(api: Talk, name: str, accept: str, what: str) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.get(api.at("configmaps", name), accept=accept)
    kind = accept.partition("as=")[2].partition(";")[0]
    assert answer.refusal[:2] == (406, "NotAcceptable")
    assert answer.refusal[2].startswith(f"you requested {kind}, but the requested object {what} (")


async def test_writes_are_answered_in_the_form_asked_for(api: Talk) -> None:
    answer = await api.send("POST", api.at("configmaps"), config("a"), accept=METADATA)
    assert (answer.status, answer.body["kind"]) == (201, "PartialObjectMetadata")
    answer = await api.send("PATCH", api.at("configmaps", "a"), {}, accept=TABLE, content_type=MERGE_PATCH)
    assert (answer.status, answer.body["kind"]) == (200, "Table")


# Discovery

SHARED = {
    "/api/v1": ("configmaps", "events", "namespaces", "namespaces/finalize", "namespaces/status", "nodes",
                "nodes/status", "pods", "pods/binding", "pods/log", "pods/status", "resourcequotas",
                "resourcequotas/status", "secrets",
                "serviceaccounts", "services", "services/status"),
    "/apis/grove.io/v1alpha1": ("clustertopologybindings", "podcliques", "podcliques/scale", "podcliques/status",
                                "podcliquescalinggroups/scale", "podcliquesets", "podcliquesets/scale"),
    "/apis/scheduler.grove.io/v1alpha1": ("podgangs", "podgangs/status"),
    "/apis/coordination.k8s.io/v1": ("leases",),
    "/apis/scheduling.k8s.io/v1": ("priorityclasses",),
    "/apis/apps/v1": ("controllerrevisions",),
    "/apis/autoscaling/v2": ("horizontalpodautoscalers", "horizontalpodautoscalers/status"),
}  # fmt: skip
ALL_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
VERBS = {
    "binding": ["create"], "log": ["get"], "finalize": ["update"],
    "status": ["get", "patch", "update"], "scale": ["get", "patch", "update"],
}  # fmt: skip
SHORT_NAMES = {
    "configmaps": "cm", "events": "ev", "namespaces": "ns", "nodes": "no", "pods": "po", "resourcequotas": "quota",
    "serviceaccounts": "sa", "services": "svc", "podcliques": "pclq", "podcliquesets": "pcs", "podgangs": "pg",
    "clustertopologybindings": "ct", "priorityclasses": "pc", "horizontalpodautoscalers": "hpa",
}  # fmt: skip
CLUSTER_WIDE = ("namespaces", "nodes", "priorityclasses", "clustertopologybindings")


@pytest.mark.parametrize("path", SHARED)
async def test_a_group_says_what_it_serves(api: Talk, path: str) -> None:
    body = (await api.get(path)).body
    assert (body["kind"], body["groupVersion"]) == (
        "APIResourceList",
        path.removeprefix("/apis/").removeprefix("/api/"),
    )
    found = {each["name"]: each for each in body["resources"]}
    for name in SHARED[path]:
        plural, _, subresource = name.partition("/")
        each = found[name]
        verbs = VERBS[subresource] if subresource else ALL_VERBS
        if name == "namespaces":
            verbs = [verb for verb in verbs if verb != "deletecollection"]
        assert sorted(each["verbs"]) == verbs, name
        assert each["namespaced"] is (plural not in CLUSTER_WIDE), name
        if not subresource:
            assert each["singularName"] == each["kind"].lower(), name
            short_names = [SHORT_NAMES[name]] if name in SHORT_NAMES else []
            assert each.get("shortNames", []) == short_names, name
        if subresource == "scale":
            assert (each["group"], each["version"], each["kind"]) == ("autoscaling", "v1", "Scale"), name


@pytest.mark.parametrize("path", ["/apis/grove.io", "/apis/scheduler.grove.io"])
async def test_a_group_says_its_versions(api: Talk, path: str) -> None:
    group = path.removeprefix("/apis/")
    version = {"groupVersion": f"{group}/v1alpha1", "version": "v1alpha1"}
    assert (await api.get(path)).body == {
        "kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [version], "preferredVersion": version,
    }  # fmt: skip


async def test_groups_are_listed(api: Talk) -> None:
    body = (await api.get("/apis")).body
    assert (body["kind"], body["apiVersion"]) == ("APIGroupList", "v1")
    assert {"grove.io", "scheduler.grove.io", "apps", "coordination.k8s.io"} <= {
        each["name"] for each in body["groups"]
    }
    body = (await api.get("/api")).body
    assert (body["kind"], body["versions"]) == ("APIVersions", ["v1"])


async def test_all_that_is_served_can_be_asked_at_once(api: Talk) -> None:
    answer = await api.get("/apis", accept=f"{AGGREGATED},application/json")
    assert answer.headers["Content-Type"] == AGGREGATED
    assert (answer.body["kind"], answer.body["apiVersion"], answer.metadata) == (
        "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2", {}
    )  # fmt: skip
    (group,) = (each for each in answer.body["items"] if each["metadata"]["name"] == "scheduler.grove.io")
    (version,) = group["versions"]
    (gangs,) = version["resources"]
    gangs["verbs"].sort()
    kind = {"group": "scheduler.grove.io", "version": "v1alpha1", "kind": "PodGang"}
    status = {"subresource": "status", "responseKind": kind, "verbs": ["get", "patch", "update"]}
    assert group["metadata"] == {"name": "scheduler.grove.io"}
    assert (version["version"], version["freshness"]) == ("v1alpha1", "Current")
    assert gangs == {
        "resource": "podgangs", "responseKind": kind, "scope": "Namespaced", "singularResource": "podgang",
        "verbs": ALL_VERBS, "shortNames": ["pg"], "categories": ["grove"], "subresources": [status],
    }  # fmt: skip


async def test_the_core_can_be_asked_at_once(api: Talk) -> None:
    (group,) = (await api.get("/api", accept=AGGREGATED)).body["items"]
    assert group["metadata"] == {}
    (version,) = group["versions"]
    found = {each["resource"]: each for each in version["resources"]}
    assert found["configmaps"] == {
        "resource": "configmaps", "responseKind": {"group": "", "version": "", "kind": "ConfigMap"},
        "scope": "Namespaced", "singularResource": "configmap", "verbs": ALL_VERBS, "shortNames": ["cm"],
    }  # fmt: skip


async def test_the_version_is_told(api: Talk) -> None:
    body = (await api.get("/version")).body
    assert body["major"] == "1"
    assert body["gitVersion"].startswith(f"v1.{body['minor']}.")
    for field in ("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"):
        assert isinstance(body[field], str)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_told(api: Talk, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.raw, answer.headers["Content-Type"]) == (200, b"ok", "text/plain; charset=utf-8")


async def test_schemas_are_told(api: Talk) -> None:
    # A real server tells of a new kind some time after it is served.
    index = await api.until("/openapi/v3", lambda answer: "apis/grove.io/v1alpha1" in answer.body["paths"])
    place = index.body["paths"]["apis/grove.io/v1alpha1"]["serverRelativeURL"]
    assert place.startswith("/openapi/v3/apis/grove.io/v1alpha1?hash=")
    name = "io.grove.v1alpha1.PodClique"
    told = await api.until(place.partition("?")[0], lambda answer: name in answer.raw.decode())
    schema = told.body["components"]["schemas"][name]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "grove.io", "version": "v1alpha1", "kind": "PodClique"}
    ]
    assert {"apiVersion", "kind", "metadata", "spec", "status"} <= set(schema["properties"])


async def test_schemas_are_told_in_the_older_way(api: Talk) -> None:
    assert (await api.get("/openapi/v2")).status == 200


async def test_whoever_asks_is_told_what_he_may(api: Talk) -> None:
    attributes = {"verb": "get", "resource": "pods"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await api.post(path, {"spec": {"resourceAttributes": attributes}})
    assert (answer.status, answer.body["status"]["allowed"]) == (201, True)
    answer = await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert "system:masters" in answer.body["status"]["userInfo"]["groups"]
