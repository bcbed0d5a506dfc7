"""Answers in other forms than the object: tables for people, metadata for programs."""

import pytest

from grove.api.types.meta import JsonObject
from grove.kube.transport import Request
from tests.cluster.apidsl import (
    CLIQUES,
    CONFIGS,
    NODES,
    PODS,
    Api,
    clique,
    config,
    node,
    on_cluster,
    pod,
)

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
EVENTS = "/api/v1/namespaces/default/events"


def _names(table: JsonObject) -> list[tuple[str, int]]:
    return [(column["name"], column["priority"]) for column in table["columnDefinitions"]]


@on_cluster
async def test_a_list_as_a_table_has_a_row_per_object(api: Api) -> None:
    await api.post(CONFIGS, {**config("a"), "data": {"x": "1", "y": "2"}})
    created = await api.post(CONFIGS, config("b"))
    await api.clock.sleep(130)
    table = (await api.get_as(TABLE, CONFIGS)).body
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert _names(table) == [("Name", 0), ("Data", 0), ("Age", 0)]
    assert [row["cells"] for row in table["rows"]] == [["a", 2, "2m10s"], ["b", 0, "2m10s"]]
    assert table["rows"][1]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": created.metadata,
    }


@on_cluster
async def test_a_table_keeps_the_pages_of_its_list(api: Api) -> None:
    for name in "abc":
        await api.post(CONFIGS, config(name))
    first = (await api.get_as(TABLE, CONFIGS, limit="2")).body
    assert (len(first["rows"]), first["metadata"]["remainingItemCount"]) == (2, 1)
    rest = (await api.get_as(TABLE, CONFIGS, limit="2", **{"continue": first["metadata"]["continue"]})).body
    assert [row["cells"][0] for row in rest["rows"]] == ["c"]


@on_cluster
async def test_one_object_is_a_table_of_one_row(api: Api) -> None:
    created = await api.post(CONFIGS, config("a"))
    table = (await api.get_as(TABLE, f"{CONFIGS}/a", includeObject="Object")).body
    assert [row["object"] for row in table["rows"]] == [created.body]
    assert (await api.get_as(TABLE, f"{CONFIGS}/a", includeObject="None")).body["rows"][0]["object"] is None
    assert (await api.get_as(TABLE, f"{CONFIGS}/a", includeObject="Half")).status == 400
    assert (await api.get_as(TABLE, f"{CONFIGS}/b")).refusal[:2] == (404, "NotFound")


@on_cluster
async def test_our_kinds_have_the_columns_of_their_definitions(api: Api) -> None:
    await api.post(CLIQUES, clique("a", spec={"replicas": 3, "minAvailable": 2}))
    breached = {"type": "MinAvailableBreached", "status": "False", "reason": "SufficientReadyPods"}
    await api.merge(f"{CLIQUES}/a/status", {"status": {"readyReplicas": 2, "conditions": [breached]}})
    table = (await api.get_as(TABLE, CLIQUES)).body
    assert _names(table) == [
        ("Name", 0), ("MinAvail", 1), ("Replicas", 0), ("Ready", 0), ("Scheduled", 1), ("Updated", 1), ("Gated", 1),
        ("MinBreached", 1), ("Age", 0),
    ]  # fmt: skip
    assert table["rows"][0]["cells"] == ["a", 2, 3, 2, 0, 0, 0, "False", "0s"]


@on_cluster
async def test_a_column_without_a_value_is_empty(api: Api) -> None:
    await api.post(CLIQUES, clique("a"))
    assert (await api.get_as(TABLE, CLIQUES)).body["rows"][0]["cells"][3:8] == [None] * 5


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        pytest.param({}, {"phase": "Pending"}, ["0/1", "Pending", "0"], id="waits for a node"),
        pytest.param({"schedulingGates": [{"name": "x"}]}, {}, ["0/1", "SchedulingGated", "0"], id="gated"),
        pytest.param(
            {},
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
            ["0/1", "ContainerCreating", "0"],
            id="starts",
        ),
        pytest.param(
            {},
            {"phase": "Running", "containerStatuses": [{"ready": True, "state": {"running": {}}, "restartCount": 2}]},
            ["1/1", "Running", "2"],
            id="runs",
        ),
        pytest.param(
            {},
            {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "restartCount": 3,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"finishedAt": "2026-01-01T11:59:00Z"}},
                    }
                ],
            },
            ["0/1", "CrashLoopBackOff", "3 (60s ago)"],
            id="crashes",
        ),
        pytest.param(
            {},
            {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]},
            ["0/1", "Completed", "0"],
            id="done",
        ),
        pytest.param(
            {},
            {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]},
            ["0/1", "ExitCode:3", "0"],
            id="failed without a word",
        ),
        pytest.param({}, {"phase": "Failed", "reason": "Evicted"}, ["0/1", "Evicted", "0"], id="evicted"),
        pytest.param(
            {"initContainers": [{"name": "i", "image": "i"}, {"name": "j", "image": "j"}]},
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    {"state": {"terminated": {"exitCode": 0}}},
                    {"state": {"waiting": {"reason": "PodInitializing"}}},
                ],
            },
            ["0/1", "Init:1/2", "0"],
            id="second init container",
        ),
        pytest.param(
            {"initContainers": [{"name": "i", "image": "i"}]},
            {"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]},
            ["0/1", "Init:ExitCode:1", "0"],
            id="init container failed",
        ),
        pytest.param({}, {"phase": "Running", "containerStatuses": "rubbish"}, ["0/1", "Running", "0"], id="rubbish"),
    ],
)
@on_cluster
async def test_a_pod_has_one_word_of_status(api: Api, spec: JsonObject, status: JsonObject, cells: list[str]) -> None:
    await api.post(PODS, pod("a", spec=spec))
    await api.merge(f"{PODS}/a/status", {"status": {"conditions": None, **status}})
    table = (await api.get_as(TABLE, PODS)).body
    assert table["rows"][0]["cells"] == ["a", *cells, "0s", "<none>", "<none>", "<none>", "<none>"]


@on_cluster
async def test_a_leaving_pod_is_terminating(api: Api) -> None:
    await api.post(NODES, node("n"))
    await api.post(PODS, pod("a"))
    await api.bind("a", "n")
    await api.delete(f"{PODS}/a")
    assert (await api.get_as(TABLE, PODS)).body["rows"][0]["cells"][2] == "Terminating"


@on_cluster
async def test_a_watch_as_tables_names_its_columns_once(api: Api) -> None:
    await api.post(CONFIGS, config("a"))
    async with api.watch(CONFIGS, accept=TABLE) as watch:
        first = await watch.event()
        await api.merge(f"{CONFIGS}/a", {"data": {"x": "y"}})
        second = await watch.event()
        await api.delete(f"{CONFIGS}/a")
        third = await watch.event()
    events = (first, second, third)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [event["object"]["rows"][0]["cells"][:2] for event in events] == [["a", 0], ["a", 1], ["a", 1]]
    assert [len(event["object"]["columnDefinitions"]) for event in events] == [3, 0, 0]


@on_cluster
async def test_metadata_alone_is_enough_for_some(api: Api) -> None:
    created = await api.post(CONFIGS, {**config("a"), "data": {"x": "y"}})
    expected = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": created.metadata}
    listed = (await api.get_as(METADATA, CONFIGS)).body
    assert (listed["kind"], listed["items"]) == ("PartialObjectMetadataList", [expected])
    assert (await api.get_as("application/json;as=PartialObjectMetadata", f"{CONFIGS}/a")).body == expected
    async with api.watch(CONFIGS, accept=METADATA) as watch:
        assert (await watch.event())["object"] == expected


@pytest.mark.parametrize(
    ("accept", "code"),
    [
        ("", 200),
        ("*/*", 200),
        ("application/json, */*", 200),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("application/vnd.kubernetes.protobuf", 406),
        ("application/json;as=Chair;v=v1;g=meta.k8s.io", 406),
    ],
)
@on_cluster
async def test_a_form_that_cannot_be_given_is_not_acceptable(api: Api, accept: str, code: int) -> None:
    assert (await api.get_as(accept, CONFIGS)).status == code


@on_cluster
async def test_a_write_in_a_form_that_cannot_be_answered_is_no_write(api: Api) -> None:
    request = Request(method="POST", path=CONFIGS, body=b'{"metadata":{"name":"a"}}', accept="text/html")
    assert (await api.transport.send(request)).status == 406
    assert (await api.get(CONFIGS)).names == []


@on_cluster
async def test_events_are_also_served_by_their_newer_group(api: Api) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "Made", "message": "made it", "count": 2}
    await api.post(EVENTS, event)
    newer = "/apis/events.k8s.io/v1/namespaces/default/events"
    (listed,) = (await api.get(newer)).body["items"]
    assert listed == (await api.get(f"{newer}/e")).body
    shown = {field: listed[field] for field in ("apiVersion", "regarding", "reason", "note", "deprecatedCount")}
    assert shown == {
        "apiVersion": "events.k8s.io/v1", "regarding": about, "reason": "Made", "note": "made it", "deprecatedCount": 2,
    }  # fmt: skip
    async with api.watch(newer) as watch:
        assert (await watch.event())["object"] == listed
    assert (await api.post(newer, {"metadata": {"name": "f"}})).status == 405
