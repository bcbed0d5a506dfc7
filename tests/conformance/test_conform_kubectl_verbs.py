"""What verbs of kubectl rest on, asked of the API itself: ports on nodes, scales in a table, labels of the place."""

from typing import Any

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from tests.conformance.talk import TABLE, Talk, clique, config, pod

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
ZONE = "topology.kubernetes.io/zone"


# Services that can be reached from outside


def service(name: str, kind: str, *ports: JsonObject, **spec: Any) -> JsonObject:
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": list(ports), **spec}}


OUTSIDE = {"internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster"}


@pytest.mark.parametrize(
    ("kind", "defaults"),
    [
        ("ClusterIP", {"internalTrafficPolicy": "Cluster"}),
        ("NodePort", OUTSIDE),
        ("LoadBalancer", {**OUTSIDE, "allocateLoadBalancerNodePorts": True}),
    ],
)
async def test_a_service_gets_the_defaults_of_its_type(api: Talk, kind: str, defaults: JsonObject) -> None:
    spec = (await api.create("services", service("a", kind, {"port": 80}))).spec
    fields = ("internalTrafficPolicy", "externalTrafficPolicy", "allocateLoadBalancerNodePorts")
    assert {field: spec[field] for field in fields if field in spec} == defaults
    assert ("nodePort" in spec["ports"][0]) is (kind != "ClusterIP")


async def test_the_name_of_something_outside_has_no_defaults(api: Talk) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "example.com"}}
    assert (await api.create("services", body)).spec == {
        "type": "ExternalName",
        "externalName": "example.com",
        "sessionAffinity": "None",
    }


async def test_ports_on_nodes_are_drawn_and_stay(api: Talk) -> None:
    ports = ({"name": "a", "port": 80}, {"name": "b", "port": 443})
    born = (await api.create("services", service("a", "NodePort", *ports))).spec["ports"]
    first, second = (port["nodePort"] for port in born)
    assert first != second
    assert all(30000 <= number <= 32767 for number in (first, second))
    again = await api.put(api.at("services", "a"), service("a", "NodePort", *ports))
    assert again.spec["ports"] == born


async def test_one_port_has_one_port_on_nodes_for_all_protocols(api: Talk) -> None:
    ports = ({"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"})
    born = (await api.create("services", service("a", "NodePort", *ports))).spec["ports"]
    assert born[0]["nodePort"] == born[1]["nodePort"]


async def test_a_balancer_may_do_without_ports_on_nodes(api: Talk) -> None:
    body = service("a", "LoadBalancer", {"port": 80}, allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in (await api.create("services", body)).spec["ports"][0]


async def test_ports_on_nodes_belong_to_nobody(api: Talk) -> None:
    body = service("a", "NodePort", {"name": "a", "port": 80}, {"name": "b", "port": 81})
    answer = await api.create("services", body)
    (entry,) = answer.metadata["managedFields"]
    keys = {key: sorted(fields) for key, fields in entry["fieldsV1"]["f:spec"]["f:ports"].items() if key != "."}
    owned = [".", "f:name", "f:port", "f:protocol", "f:targetPort"]
    assert keys == {'k:{"port":80,"protocol":"TCP"}': owned, 'k:{"port":81,"protocol":"TCP"}': owned}


@pytest.mark.parametrize(
    ("kind", "number", "problem"),
    [
        (
            "NodePort",
            80,
            "Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        ("ClusterIP", 30124, "Forbidden: may not be used when `type` is 'ClusterIP'"),
    ],
)
async def test_a_port_on_nodes_that_makes_no_sense_is_refused(api: Talk, kind: str, number: int, problem: str) -> None:
    answer = await api.post(api.at("services"), service("a", kind, {"port": 80, "nodePort": number}))
    assert answer.refusal == (422, "Invalid", f'Service "a" is invalid: spec.ports[0].nodePort: {problem}')


async def test_a_port_on_nodes_is_given_once(api: Talk) -> None:
    number = (await api.create("services", service("a", "NodePort", {"port": 80}))).spec["ports"][0]["nodePort"]
    answer = await api.post(api.at("services"), service("b", "NodePort", {"port": 80, "nodePort": number}))
    problem = f"spec.ports[0].nodePort: Invalid value: {number}: provided port is already allocated"
    assert answer.refusal == (422, "Invalid", f'Service "b" is invalid: {problem}')


async def test_a_service_of_another_type_loses_what_belonged_to_the_old_one(api: Talk) -> None:
    born = await api.create("services", service("a", "LoadBalancer", {"port": 80}))
    inside = await api.merge(api.at("services", "a"), {"spec": {"type": "ClusterIP"}})
    assert inside.spec["clusterIP"] == born.spec["clusterIP"]
    assert not {"externalTrafficPolicy", "allocateLoadBalancerNodePorts"} & set(inside.spec)
    assert "nodePort" not in inside.spec["ports"][0]
    outside = await api.merge(api.at("services", "a"), {"spec": {"type": "ExternalName", "externalName": "a.b"}})
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} & set(outside.spec)
    back = await api.merge(api.at("services", "a"), {"spec": {"type": "NodePort", "externalName": None}})
    assert back.spec["clusterIP"] not in ("", None)
    assert back.spec["ports"][0]["nodePort"] >= 30000


async def test_a_balancer_waits_for_an_address(api: Talk) -> None:
    await api.create("services", service("a", "LoadBalancer", {"port": 80}))
    (row,) = (await api.get(api.at("services", "a"), accept=TABLE)).body["rows"]
    assert (row["cells"][1], row["cells"][3]) == ("LoadBalancer", "<pending>")


# Scales and autoscalers


async def test_a_scale_comes_as_a_table(api: Talk) -> None:
    await api.create("podcliques", clique("a", spec={"replicas": 3}))
    answer = await api.get(api.at("podcliques", "a", "scale"), accept=TABLE)
    assert [column["name"] for column in answer.body["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    (row,) = answer.body["rows"]
    assert row["cells"][:3] == ["a", 3, 0]


TARGET = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "nobody"}
POLICY = {"type": "Percent", "value": 100, "periodSeconds": 15}


async def test_an_autoscaler_behaves_as_usual_unless_it_is_told(api: Talk) -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 5}}
    spec = {"maxReplicas": 3, "scaleTargetRef": TARGET, "behavior": behavior}
    answer = await api.create("horizontalpodautoscalers", {"metadata": {"name": "a"}, "spec": spec})
    assert answer.spec["minReplicas"] == 1
    target = {"type": "Utilization", "averageUtilization": 80}
    assert answer.spec["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    up = {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, POLICY],
    }
    down = {"stabilizationWindowSeconds": 5, "selectPolicy": "Max", "policies": [POLICY]}
    assert answer.spec["behavior"] == {"scaleUp": up, "scaleDown": down}


async def test_an_autoscaler_counts_its_generations(api: Talk) -> None:
    spec = {"maxReplicas": 3, "scaleTargetRef": TARGET}
    answer = await api.create("horizontalpodautoscalers", {"metadata": {"name": "a"}, "spec": spec})
    assert answer.metadata.get("generation") == 1
    answer = await api.merge(api.at("horizontalpodautoscalers", "a"), {"spec": {"maxReplicas": 4}})
    assert answer.metadata.get("generation") == 2


def metric(kind: str, target: JsonObject, **source: Any) -> JsonObject:
    return {"type": kind, kind[0].lower() + kind[1:]: {"target": target, **source}}


AVERAGE, VALUE = {"type": "AverageValue", "averageValue": "1k"}, {"type": "Value", "value": "2k"}
HITS: JsonObject = {"metric": {"name": "hits"}}


@pytest.mark.parametrize(
    ("metrics", "cell"),
    [
        ([metric("Resource", AVERAGE, name="memory")], "memory: <unknown>/1k"),
        (
            [
                metric("Resource", AVERAGE, name="memory"),
                metric("ContainerResource", AVERAGE, name="cpu", container="main"),
                metric("Pods", AVERAGE, **HITS),
            ],
            "memory: <unknown>/1k, cpu: <unknown>/1k + 1 more...",
        ),
        ([metric("External", AVERAGE, **HITS), metric("External", VALUE, **HITS)], "<unknown>/1k (avg), <unknown>/2k"),
        ([metric("Object", VALUE, describedObject={"kind": "Service", "name": "x"}, **HITS)], "<unknown>/2k"),
    ],
    ids=["resource", "many", "external", "object"],
)
async def test_the_targets_of_an_autoscaler_stand_in_one_line(api: Talk, metrics: Any, cell: str) -> None:
    spec = {"maxReplicas": 3, "scaleTargetRef": TARGET, "metrics": metrics}
    await api.create("horizontalpodautoscalers", {"metadata": {"name": "a"}, "spec": spec})
    (row,) = (await api.get(api.at("horizontalpodautoscalers", "a"), accept=TABLE)).body["rows"]
    assert row["cells"][2] == cell


# Pods and where they are


async def test_a_pod_carries_the_zone_of_its_node(api: Talk) -> None:
    node = f"node-of-{api.namespace}"
    labels = {ZONE: "here", "topology.kubernetes.io/region": "far", "other": "x"}
    await api.create("nodes", {"metadata": {"name": node, "labels": labels}})
    found = {ZONE: "here", "topology.kubernetes.io/region": "far"}
    # A real server learns of nodes a moment later.
    await api.until_answered(
        lambda: api.post(api.at("pods"), pod("early", spec={"nodeName": node}), dryRun="All"),
        lambda answer: "labels" in answer.metadata,
    )
    await api.create("pods", pod("a", labels={"app": "a", ZONE: "elsewhere"}))
    target = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}}
    assert (await api.post(api.at("pods", "a", "binding"), target)).status == 201
    assert (await api.get(api.at("pods", "a"))).metadata["labels"] == {"app": "a", **found}
    born = await api.create("pods", pod("b", spec={"nodeName": node}))
    assert born.metadata["labels"] == found
    await api.delete(api.at("nodes", node))


@pytest.mark.parametrize("way", ["exec", "attach", "portforward"])
async def test_there_is_no_way_into_a_pod_that_is_nowhere(api: Talk, way: str) -> None:
    await api.create("pods", pod("a"))
    answer = await api.post(api.at("pods", "a", way), None, command="ls", stdout="true")
    assert answer.refusal == (400, "BadRequest", "pod a does not have a host assigned")
    answer = await api.post(api.at("pods", "nobody", way), None, command="ls", stdout="true")
    assert answer.refusal == (404, "NotFound", 'pods "nobody" not found')


# What kubectl applied before servers could


async def test_what_somebody_changed_since_kubectl_applied_it_is_in_conflict(api: Talk) -> None:
    applied = msgspec.json.encode({**config("a", {"x": "1", "y": "1"})}).decode()
    body = config("a", {"x": "1", "y": "1"}, annotations={LAST_APPLIED: applied})
    await api.post(api.at("configmaps"), body, fieldManager="kubectl-client-side-apply")
    await api.merge(api.at("configmaps", "a"), {"data": {"y": "9"}}, fieldManager="kubectl-client-side-apply")
    mine: JsonObject = config("a", {"x": "2", "y": "2"})
    answer = await api.send(
        "PATCH",
        api.at("configmaps", "a"),
        msgspec.json.encode(mine),
        content_type="application/apply-patch+yaml",
        query={"fieldManager": "kubectl"},
    )
    assert answer.refusal[:2] == (409, "Conflict")
    assert answer.refusal[2].endswith('conflict with "kubectl-client-side-apply" using v1: .data.y')


# How it is told


async def test_an_object_ends_with_its_line(api: Talk) -> None:
    for answer in (await api.create("configmaps", config("a")), await api.get(api.at("configmaps", "nobody"))):
        assert answer.raw.endswith(b"}\n")


@pytest.mark.parametrize(
    ("fields", "cell"),
    [
        ({"source": {"component": "c", "host": "h"}}, "c, h"),
        ({"source": {"component": "c"}, "reportingComponent": "r", "reportingInstance": "i"}, "c, i"),
        ({"reportingComponent": "r", "reportingInstance": "i"}, "r, i"),
        ({"source": {"component": "c"}}, "c"),
    ],
)
async def test_an_event_is_shown_with_its_source(api: Talk, fields: JsonObject, cell: str) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": api.namespace}
    await api.create("events", {"metadata": {"name": "a"}, "involvedObject": about, "reason": "Odd", **fields})
    (row,) = (await api.get(api.at("events", "a"), accept=TABLE)).body["rows"]
    assert row["cells"][5] == cell


async def test_webhooks_are_extensions_of_the_api(api: Talk) -> None:
    resources = (await api.get("/apis/admissionregistration.k8s.io/v1")).body["resources"]
    found = {each["name"]: each.get("categories") for each in resources}
    names = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    assert {name: found[name] for name in names} == {name: ["api-extensions"] for name in names}


async def test_who_asks_for_the_older_schemas_in_protobuf_gets_an_answer(api: Talk) -> None:
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = await api.get("/openapi/v2", accept=accept)
    assert answer.headers["Content-Type"] == accept.replace("@", ".")
    # Its first field: the version of OpenAPI.
    assert (answer.status, answer.raw[:5]) == (200, b"\n\x032.0")
