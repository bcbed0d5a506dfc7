"""Definitions: those of our kinds, as everybody finds them; and kinds of others, from their definition to its end."""

from random import Random
from typing import Any

import msgspec

from grove.api.schema.crd_generator import custom_resource_definitions
from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.storage.store import HISTORY, Storage, Version
from grove.kube.transport import Request
from tests.cluster.apidsl import CLIQUES, Api, clique, on_cluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SETS = f"{DEFINITIONS}/podcliquesets.grove.io"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def definition(plural: str = "widgets", kind: str = "Widget", **properties: Any) -> JsonObject:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def widget(name: str, **spec: Any) -> JsonObject:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


# Ours


@on_cluster
async def test_the_five_definitions_are_there_and_established(api: Api) -> None:
    listed = await api.get(DEFINITIONS)
    assert listed.names == sorted(crd["metadata"]["name"] for crd in custom_resource_definitions())
    for crd in listed.body["items"]:
        conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert crd["status"]["storedVersions"] == ["v1alpha1"]
        assert crd["status"]["acceptedNames"] == crd["spec"]["names"]


@on_cluster
async def test_a_definition_looks_like_any_other_object(api: Api) -> None:
    await api.clock.sleep(60)
    found = await api.get(SETS)
    assert found.metadata["creationTimestamp"] == "2026-01-01T12:00:00Z"
    assert (found.metadata["generation"], len(found.metadata["uid"])) == (1, 36)
    assert found.body["spec"]["names"]["shortNames"] == ["pcs"]
    async with api.watch(DEFINITIONS) as watch:
        names = [await watch.next() for _ in range(5)]
    assert ("ADDED", "podcliquesets.grove.io") in names


@on_cluster
async def test_a_definition_may_be_annotated(api: Api) -> None:
    annotated = await api.merge(SETS, {"metadata": {"annotations": {"note": "x"}}})
    assert (annotated.status, annotated.metadata["annotations"]) == (200, {"note": "x"})
    assert annotated.metadata["generation"] == 1


@on_cluster
async def test_definitions_are_stored_when_they_are_first_asked_for(api: Api) -> None:
    first = api.server.store.revision
    await api.get("/api/v1/namespaces/default/pods")
    assert api.server.store.revision == first
    await api.get(DEFINITIONS)
    stored = api.server.store.revision
    await api.get(DEFINITIONS)
    assert api.server.store.revision == stored == first + 5


@on_cluster
async def test_storing_our_definitions_changes_nothing_about_our_kinds(api: Api) -> None:
    before = api.server.kinds.find("grove.io", "v1alpha1", "podcliques")
    edition = api.server.kinds.edition
    await api.get(DEFINITIONS)
    assert api.server.kinds.find("grove.io", "v1alpha1", "podcliques") is before
    assert api.server.kinds.edition == edition


@on_cluster
async def test_a_definition_of_ours_can_be_changed_like_any_other(api: Api) -> None:
    assert (await api.post(CLIQUES, clique("a"))).status == 201
    path = f"{DEFINITIONS}/podcliques.grove.io"
    (version,) = (await api.get(path)).body["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["mood"] = {"type": "string", "default": "good"}
    assert (await api.merge(path, {"spec": {"versions": [version]}})).status == 200
    assert (await api.get(f"{CLIQUES}/a")).body["spec"]["mood"] == "good"


@on_cluster
async def test_a_definition_of_ours_that_was_deleted_does_not_come_back(api: Api) -> None:
    path = f"{DEFINITIONS}/podgangs.scheduler.grove.io"
    assert (await api.delete(path)).status == 200
    await api.merge(path, {"metadata": {"finalizers": []}})
    assert (await api.get(path)).status == 404
    assert api.server.kinds.find("scheduler.grove.io", "v1alpha1", "podgangs") is None
    assert len((await api.get(DEFINITIONS)).names) == 4


@on_cluster
async def test_a_definition_that_leaves_one_cluster_stays_in_others(api: Api) -> None:
    other = ApiServer(api.clock, Random(1))
    assert (await api.delete(f"{DEFINITIONS}/podcliques.grove.io")).status == 200
    assert (await api.post(CLIQUES, clique("a"))).status == 403
    body = msgspec.json.encode(clique("a"))
    assert other.handle(Request(method="POST", path=CLIQUES, body=body)).status == 201


# Others'


def _is_served(api: Api) -> bool:
    return api.server.kinds.find("example.com", "v1", "widgets") is not None


@on_cluster
async def test_a_kind_is_served_as_soon_as_it_is_defined(api: Api) -> None:
    assert not _is_served(api)
    assert (await api.post(DEFINITIONS, definition(size={"type": "integer"}))).status == 201
    assert (await api.post(WIDGETS, widget("a", size=3))).body["spec"] == {"size": 3}
    assert (await api.post(WIDGETS, widget("b", size="x"))).status == 422
    assert (await api.get(WIDGETS)).names == ["a"]
    resources = (await api.get("/apis/example.com/v1")).body["resources"]
    assert [(each["name"], each["kind"]) for each in resources] == [("widgets", "Widget")]
    assert "apis/example.com/v1" in (await api.get("/openapi/v3")).body["paths"]


@on_cluster
async def test_watchers_of_definitions_see_them_accepted(api: Api) -> None:
    async with api.watch(DEFINITIONS, resourceVersion=str(api.server.store.revision)) as watch:
        for _ in custom_resource_definitions():
            await watch.next()
        await api.post(DEFINITIONS, definition())
        assert await watch.next() == ("ADDED", "widgets.example.com")
        assert await watch.next() == ("MODIFIED", "widgets.example.com")


@on_cluster
async def test_a_dry_run_defines_nothing(api: Api) -> None:
    assert (await api.post(DEFINITIONS, definition(), dryRun="All")).status == 201
    assert not _is_served(api)


@on_cluster
async def test_conversion_by_a_webhook_is_refused_by_name(api: Api) -> None:
    webhook = {"clientConfig": {"url": "https://localhost"}, "conversionReviewVersions": ["v1"]}
    wanted = definition()
    wanted["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    refused = await api.post(DEFINITIONS, wanted)
    assert refused.refusal[2].endswith("spec.conversion.webhook: Forbidden: not supported by the embedded cluster")


@on_cluster
async def test_a_schema_that_is_nested_for_ever_is_refused(api: Api) -> None:
    body = b'{"metadata":{"name":"widgets.example.com"},"spec":{"versions":[{"schema":{"openAPIV3Schema":'
    body += b'{"properties":{"a":' * 2000 + b"{}" + b"}}" * 2000 + b"}}]}}"
    refused = await api.send_raw("POST", DEFINITIONS, body, "application/json")
    assert refused.refusal[:2] == (400, "BadRequest")


@on_cluster
async def test_a_status_of_a_definition_must_be_readable(api: Api) -> None:
    await api.post(DEFINITIONS, definition())
    path = f"{DEFINITIONS}/widgets.example.com"
    wrong: list[JsonObject] = [
        {"conditions": "x"}, {"conditions": [{}]}, {"storedVersions": 5}, {"acceptedNames": []}
    ]  # fmt: skip
    for status in wrong:
        assert (await api.merge(f"{path}/status", {"status": status})).refusal[0] in (400, 422)
    assert (await api.merge(f"{path}/status", {"status": {"conditions": []}})).status == 200
    assert [each["type"] for each in (await api.get(path)).body["status"]["conditions"]] == [
        "NamesAccepted", "Established"
    ]  # fmt: skip


@on_cluster
async def test_names_are_free_again_when_a_definition_goes(api: Api) -> None:
    await api.post(DEFINITIONS, definition())
    await api.post(DEFINITIONS, definition("gadgets"))
    path = f"{DEFINITIONS}/gadgets.example.com"
    assert (await api.get(path)).body["status"]["conditions"][0]["reason"] == "ListKindConflict"
    await api.delete(f"{DEFINITIONS}/widgets.example.com")
    await api.merge(f"{DEFINITIONS}/widgets.example.com", {"metadata": {"finalizers": []}})
    assert (await api.get("/apis/example.com/v1/namespaces/default/gadgets")).status == 200


@on_cluster
async def test_watches_end_when_their_kind_goes(api: Api) -> None:
    await api.post(DEFINITIONS, definition())
    path = f"{DEFINITIONS}/widgets.example.com"
    async with api.watch(WIDGETS, timeoutSeconds="600") as watch:
        await api.post(WIDGETS, widget("a"))
        await api.delete(f"{WIDGETS}/a")
        await api.delete(path)
        await api.merge(path, {"metadata": {"finalizers": []}})
        before = api.clock.now()
        assert await watch.all() == [("ADDED", "a"), ("DELETED", "a")]
        assert api.clock.now() == before


# After a restart


def _restored(server: ApiServer) -> Storage:
    """A store that was kept: all that ever happened, told again."""
    changes = sorted((change for table in server.store.tables() for change in table.log), key=lambda c: c.revision)
    store = Storage(HISTORY)
    store.restore(
        [
            Version(c.revision, c.resource_info.qualified, c.type, c.entry.namespace, c.entry.name, c.entry.data)
            for c in changes
        ],
        floor=0,
    )
    return store


@on_cluster
async def test_kinds_are_served_again_after_a_restart(api: Api) -> None:
    await api.post(DEFINITIONS, definition(size={"type": "integer"}))
    await api.post(WIDGETS, widget("a", size=3))
    again = ApiServer(api.clock, Random(1), store=_restored(api.server))
    answer = again.handle(Request(method="GET", path=f"{WIDGETS}/a"))
    assert (answer.status, b'"size":3' in answer.body) == (200, True)
    kept = again.kinds.find("grove.io", "v1alpha1", "podcliques")
    assert kept is api.server.kinds.find("grove.io", "v1alpha1", "podcliques")


@on_cluster
async def test_objects_are_seen_through_a_changed_definition_after_a_restart(api: Api) -> None:
    await api.post(DEFINITIONS, definition(size={"type": "integer"}))
    await api.post(WIDGETS, widget("a", size=3))
    changed = definition(size={"type": "integer"}, mood={"type": "string", "default": "good"})["spec"]["versions"]
    await api.merge(f"{DEFINITIONS}/widgets.example.com", {"spec": {"versions": changed}})
    again = ApiServer(api.clock, Random(1), store=_restored(api.server))
    assert b'"mood":"good"' in again.handle(Request(method="GET", path=f"{WIDGETS}/a")).body


@on_cluster
async def test_a_definition_of_ours_that_was_deleted_is_gone_after_a_restart(api: Api) -> None:
    path = f"{DEFINITIONS}/podgangs.scheduler.grove.io"
    await api.delete(path)
    await api.merge(path, {"metadata": {"finalizers": []}})
    again = ApiServer(api.clock, Random(1), store=_restored(api.server))
    assert again.kinds.find("scheduler.grove.io", "v1alpha1", "podgangs") is None
    assert again.kinds.find("grove.io", "v1alpha1", "podcliques") is not None
