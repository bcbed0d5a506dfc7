"""Rules of single kinds: services, secrets, leases, namespaces, nodes, events, priority classes, revisions."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from tests.conformance.talk import Talk, clique, config
from tests.conformance.words import SUBDOMAIN

HEADLESS = {"clusterIP": "None", "selector": {"a": "b"}}


def named(name: str, **fields: Any) -> JsonObject:
    return {"metadata": {"name": name}, **fields}


# Services


async def test_a_headless_service_has_no_address(api: Talk) -> None:
    answer = await api.create("services", named("a", spec={**HEADLESS, "publishNotReadyAddresses": True}))
    assert answer.spec == {
        "selector": {"a": "b"}, "clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP",
        "sessionAffinity": "None", "publishNotReadyAddresses": True, "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
    }  # fmt: skip
    assert answer.body["status"] == {"loadBalancer": {}}


async def test_a_service_gets_an_address_of_its_own(api: Talk) -> None:
    found = [(await api.create("services", named(name, spec={"ports": [{"port": 80}]}))).spec for name in ("a", "b")]
    assert [spec["clusterIPs"] for spec in found] == [[spec["clusterIP"]] for spec in found]
    assert found[0]["clusterIP"] != found[1]["clusterIP"]
    assert {spec["clusterIP"].count(".") for spec in found} == {3}


async def test_a_port_of_a_service_gets_its_defaults(api: Talk) -> None:
    ports = [{"name": "http", "port": 80}, {"name": "other", "port": 81, "targetPort": "x", "protocol": "UDP"}]
    answer = await api.create("services", named("a", spec={**HEADLESS, "ports": ports}))
    assert answer.spec["ports"] == [
        {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80},
        {"name": "other", "protocol": "UDP", "port": 81, "targetPort": "x"},
    ]


SERVICES: list[Any] = [
    pytest.param("a", {}, "spec.ports: Required value", id="no-ports"),
    pytest.param(
        "a", {**HEADLESS, "ports": [{"port": 80}, {"port": 81}]},
        "[spec.ports[0].name: Required value, spec.ports[1].name: Required value]", id="port-names",
    ),
    pytest.param("a.b", HEADLESS, 'metadata.name: Invalid value: "a.b": must not contain dots', id="dots"),
    pytest.param(
        "a", {**HEADLESS, "type": "Foo"},
        'spec.type: Unsupported value: "Foo": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
        '"NodePort"', id="type",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "spec", "problem"), SERVICES)
async def test_a_service_that_makes_no_sense_is_refused(api: Talk, name: str, spec: Any, problem: str) -> None:
    answer = await api.post(api.at("services"), named(name, spec=spec))
    assert answer.refusal == (422, "Invalid", f'Service "{name}" is invalid: {problem}')


async def test_the_name_of_a_service_may_begin_with_a_digit(api: Talk) -> None:
    assert (await api.post(api.at("services"), named("1a", spec=HEADLESS))).status == 201


async def test_the_address_of_a_service_stays(api: Talk) -> None:
    born = await api.create("services", named("a", spec={"ports": [{"port": 80}]}))
    answer = await api.merge(api.at("services", "a"), {"spec": {"clusterIP": None, "clusterIPs": None}})
    assert answer.spec["clusterIP"] == born.spec["clusterIP"]
    answer = await api.merge(api.at("services", "a"), {"spec": {"clusterIP": "10.0.0.9"}})
    assert answer.refusal[:2] == (422, "Invalid")
    assert "may not change once set" in answer.refusal[2]


# Secrets and config maps


async def test_a_secret_may_be_written_in_plain_text(api: Talk) -> None:
    answer = await api.create("secrets", named("a", stringData={"k": "hello"}, data={"l": "YQ=="}))
    assert (answer.body["data"], answer.body["type"]) == ({"k": "aGVsbG8=", "l": "YQ=="}, "Opaque")
    assert "stringData" not in answer.body


async def test_a_secret_keeps_its_type(api: Talk) -> None:
    await api.create("secrets", named("a"))
    answer = await api.merge(api.at("secrets", "a"), {"type": "x.io/other"})
    problem = 'type: Invalid value: "x.io/other": field is immutable'
    assert answer.refusal == (422, "Invalid", f'Secret "a" is invalid: {problem}')


async def test_the_bytes_of_a_secret_are_base64(api: Talk) -> None:
    code, reason, message = (await api.post(api.at("secrets"), named("a", data={"k": "%%"}))).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith('Secret in version "v1" cannot be handled as a Secret: ')
    assert "illegal base64 data" in message


@pytest.mark.parametrize(("plural", "kind"), [("secrets", "Secret"), ("configmaps", "ConfigMap")])
async def test_what_is_immutable_does_not_change(api: Talk, plural: str, kind: str) -> None:
    await api.create(plural, named("a", data={"k": "YQ=="}, immutable=True))
    answer = await api.merge(api.at(plural, "a"), {"data": {"k": "Yg=="}})
    problem = "data: Forbidden: field is immutable when `immutable` is set"
    assert answer.refusal == (422, "Invalid", f'{kind} "a" is invalid: {problem}')


async def test_the_keys_of_a_config_map_are_file_names(api: Talk) -> None:
    answer = await api.post(api.at("configmaps"), config("a", {"no good": "x"}))
    assert answer.details is not None
    assert answer.status == 422
    assert [cause["field"] for cause in answer.details["causes"]] == ["data[no good]"]


# Leases


async def test_a_lease_is_renewed_by_version(api: Talk) -> None:
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    born = await api.create("leases", named("a", spec=spec))
    assert born.spec == spec
    version = born.metadata["resourceVersion"]
    body = {"metadata": {"name": "a", "resourceVersion": version}, "spec": {**spec, "holderIdentity": "you"}}
    assert (await api.put(api.at("leases", "a"), body)).status == 200
    assert (await api.put(api.at("leases", "a"), body)).refusal[:2] == (409, "Conflict")


LEASES: list[Any] = [
    ({"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"),
    ({"leaseTransitions": -1}, "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"),
]


@pytest.mark.parametrize(("spec", "problem"), LEASES)
async def test_a_lease_that_makes_no_sense_is_refused(api: Talk, spec: Any, problem: str) -> None:
    answer = await api.post(api.at("leases"), named("a", spec=spec))
    assert answer.refusal == (422, "Invalid", f'Lease.coordination.k8s.io "a" is invalid: {problem}')


@pytest.mark.parametrize("time", ["soon", "2026-01-01T00:00:00Z"])
@pytest.mark.parametrize("field", ["renewTime", "acquireTime"])
async def test_the_times_of_a_lease_have_microseconds(api: Talk, field: str, time: str) -> None:
    code, reason, message = (await api.post(api.at("leases"), named("a", spec={field: time}))).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith(f'Lease in version "v1" cannot be handled as a Lease: parsing time "{time}" as ')


# Namespaces


async def test_a_namespace_carries_its_name_as_a_label(api: Talk) -> None:
    path = api.at("namespaces", api.namespace)
    found = await api.get(path)
    assert found.metadata["labels"] == {"kubernetes.io/metadata.name": api.namespace}
    assert (found.spec, found.body["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    answer = await api.merge(path, {"metadata": {"labels": {"kubernetes.io/metadata.name": "x", "a": "b"}}})
    assert answer.metadata["labels"] == {"kubernetes.io/metadata.name": api.namespace, "a": "b"}


async def test_the_name_of_a_namespace_has_no_dots(api: Talk) -> None:
    answer = await api.post(api.at("namespaces"), named("a.b"))
    message = 'Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots'
    assert answer.refusal == (422, "Invalid", message)


async def test_a_name_that_is_a_label_too_is_refused_twice(api: Talk) -> None:
    name = "a" * 64
    answer = await api.post(api.at("namespaces"), named(name))
    assert answer.details is not None
    assert [(cause["field"], cause["message"].rpartition(": ")[2]) for cause in answer.details["causes"]] == [
        ("metadata.name", "must be no more than 63 characters"), ("metadata.labels", "must be no more than 63 bytes")
    ]  # fmt: skip


async def test_the_first_namespace_stays(api: Talk) -> None:
    answer = await api.delete(api.at("namespaces", "default"))
    message = 'namespaces "default" is forbidden: this namespace may not be deleted'
    assert answer.refusal == (403, "Forbidden", message)


async def leaving_namespace(api: Talk) -> str:
    """One that an object with a finalizer keeps."""
    name = f"{api.namespace}-leaving"
    await api.create("namespaces", named(name))
    await api.post(api.at("configmaps", namespace=name), config("held", finalizers=["x.io/a"]))
    answer = await api.delete(api.at("namespaces", name))
    assert (answer.status, answer.body["status"]["phase"]) == (200, "Terminating")
    assert answer.metadata["deletionTimestamp"]
    assert "deletionGracePeriodSeconds" not in answer.metadata
    return name


@pytest.mark.parametrize(("plural", "qualified"), [("configmaps", "configmaps"), ("podcliques", "podcliques.grove.io")])
async def test_nothing_new_comes_into_a_leaving_namespace(api: Talk, plural: str, qualified: str) -> None:
    name = await leaving_namespace(api)
    answer = await api.post(api.at(plural, namespace=name), config("a") if plural == "configmaps" else clique("a"))
    assert answer.refusal == (
        403, "Forbidden",
        (f'{qualified} "a" is forbidden: unable to create new content in namespace {name} because it is being '
        "terminated"),
    )  # fmt: skip
    assert answer.details is not None
    assert answer.details["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
    ]


async def test_a_leaving_namespace_is_emptied_and_goes(api: Talk) -> None:
    name = await leaving_namespace(api)
    held = api.at("configmaps", "held", namespace=name)
    await api.until(held, lambda found: "deletionTimestamp" in found.metadata)
    assert (await api.get(api.at("namespaces", name))).status == 200
    await api.merge(held, {"metadata": {"finalizers": None}})
    await api.until_gone(api.at("namespaces", name))


# Nodes


async def test_a_node_comes_with_its_status_and_unready(api: Talk) -> None:
    name = f"node-of-{api.namespace}"
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
    answer = await api.create("nodes", named(name, status=status))
    try:
        assert answer.body["status"]["capacity"] == {"cpu": "4"}
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        assert answer.body.get("spec", {}).get("taints") == [taint]
    finally:
        await api.delete(api.at("nodes", name))


async def test_a_node_can_be_cordoned_and_found(api: Talk) -> None:
    name = f"node-of-{api.namespace}"
    await api.create("nodes", named(name))
    path = api.at("nodes", name)
    assert (await api.merge(path, {"spec": {"unschedulable": True}})).spec["unschedulable"] is True
    selector = f"spec.unschedulable=true,metadata.name={name}"
    assert (await api.get(api.at("nodes"), fieldSelector=selector)).names == [name]
    assert (await api.delete(path)).body["status"] == "Success"


async def test_the_name_of_a_node_is_a_subdomain(api: Talk) -> None:
    answer = await api.post(api.at("nodes"), named("N_"))
    problem = f'metadata.name: Invalid value: "N_": {SUBDOMAIN}'
    assert answer.refusal == (422, "Invalid", f'Node "N_" is invalid: {problem}')


# Events


def event(api: Talk, name: str, **fields: Any) -> JsonObject:
    about = {"kind": "Pod", "namespace": api.namespace, "name": "p"}
    return {
        "metadata": {"name": name}, "involvedObject": about, "reason": "Because", "message": "m", "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1,
        "source": {"component": "tests"}, **fields,
    }  # fmt: skip


async def test_an_event_is_counted_up(api: Talk) -> None:
    await api.create("events", event(api, "a"))
    patch = {"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"}
    answer = await api.strategic(api.at("events", "a"), patch)
    assert (answer.status, answer.body["count"]) == (200, 2)


@pytest.mark.parametrize(
    ("selector", "names"),
    [("involvedObject.name=p,reason=Because", ["a"]), ("type=Warning", []), ("involvedObject.kind!=Pod", [])],
)
async def test_events_are_found_by_what_they_are_about(api: Talk, selector: str, names: list[str]) -> None:
    await api.create("events", event(api, "a"))
    assert (await api.get(api.at("events"), fieldSelector=selector)).names == names


@pytest.mark.parametrize("about", [{"kind": "Pod", "name": "p", "namespace": "other"}, {"kind": "Pod", "name": "p"}])
async def test_an_event_is_in_the_namespace_of_its_object(api: Talk, about: Any) -> None:
    answer = await api.post(api.at("events"), event(api, "a", involvedObject=about))
    problem = f'involvedObject.namespace: Invalid value: "{about.get("namespace", "")}": does not match event.namespace'
    assert answer.refusal == (422, "Invalid", f'Event "a" is invalid: {problem}')


async def test_an_event_can_be_read_in_its_newer_shape(api: Talk) -> None:
    await api.create("events", event(api, "a"))
    body = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events/a")).body
    body.pop("metadata")
    assert body == {
        "kind": "Event", "apiVersion": "events.k8s.io/v1", "eventTime": None, "reason": "Because",
        "regarding": {"kind": "Pod", "namespace": api.namespace, "name": "p"}, "note": "m", "type": "Normal",
        "deprecatedSource": {"component": "tests"}, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
        "deprecatedLastTimestamp": "2026-01-01T00:00:00Z", "deprecatedCount": 1,
    }  # fmt: skip


# Others


async def test_a_priority_class_gets_its_defaults(api: Talk) -> None:
    answer = await api.create("priorityclasses", named(f"class-{api.namespace}"))
    assert (answer.body["value"], answer.body["preemptionPolicy"]) == (0, "PreemptLowerPriority")


CLASSES: list[Any] = [
    pytest.param("system-foo", 5, (
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
        "system-foo is not a known system priority class"
    ), id="name"),
    pytest.param(
        "foo", 2_000_000_000, "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        id="value",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "problem"), CLASSES)
async def test_the_highest_priorities_are_the_systems(api: Talk, name: str, value: int, problem: str) -> None:
    answer = await api.post(api.at("priorityclasses"), named(name, value=value))
    assert answer.refusal == (422, "Invalid", f'PriorityClass.scheduling.k8s.io "{name}" is invalid: {problem}')


async def test_the_value_of_a_priority_class_stays(api: Talk) -> None:
    name = f"class-{api.namespace}"
    await api.create("priorityclasses", named(name, value=1))
    answer = await api.merge(api.at("priorityclasses", name), {"value": 2})
    problem = "value: Forbidden: may not be changed in an update."
    assert answer.refusal == (422, "Invalid", f'PriorityClass.scheduling.k8s.io "{name}" is invalid: {problem}')


async def test_the_system_has_priority_classes(api: Talk) -> None:
    assert (await api.get(api.at("priorityclasses", "system-node-critical"))).body.get("value") == 2000001000


async def test_an_autoscaler_gets_its_defaults(api: Talk) -> None:
    target = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "x"}
    spec = {"maxReplicas": 3, "scaleTargetRef": target}
    answer = await api.create("horizontalpodautoscalers", named("a", spec=spec))
    assert (answer.spec.get("minReplicas"), len(answer.spec.get("metrics", []))) == (1, 1)


NEGATIVE = 'spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0'


async def test_a_quota_is_not_negative(api: Talk) -> None:
    answer = await api.post(api.at("resourcequotas"), named("a", spec={"hard": {"pods": "-1"}}))
    assert answer.refusal == (422, "Invalid", f'ResourceQuota "a" is invalid: {NEGATIVE}')


async def test_a_namespace_is_furnished(api: Talk) -> None:
    for plural, name in (("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")):
        await api.until(api.at(plural, name), lambda found: found.status == 200)
