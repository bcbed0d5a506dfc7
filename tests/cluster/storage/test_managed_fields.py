"""Who owns what, as the server remembers it: noted with every write, worked out when somebody asks."""

from random import Random
from typing import Any

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.cluster.storage.store import Storage, Version
from grove.kube.transport import APPLY_PATCH, MERGE_PATCH, Request
from tests.cluster.apidsl import CLIQUES, CONFIGS, PODS, Api, on_cluster

CLIQUE: JsonObject = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodClique",
    "metadata": {"name": "a"},
    "spec": {"roleName": "r", "replicas": 1, "podSpec": {"containers": [{"name": "m", "image": "i"}]}},
}


def config(**data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


def ask(server: ApiServer, method: str, path: str, body: Any = None, *, program: str = "tests/1", **more: Any) -> Any:
    """A request from outside, unless the program is empty; a refusal fails the test."""
    data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    response = server.handle(Request(method=method, path=path, body=data, program=program, **more))
    assert response.status < 300, response.body
    return msgspec.json.decode(response.body)


def owners(obj: JsonObject) -> dict[str, JsonObject]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


@on_cluster
async def test_programs_in_this_process_are_not_shown_managed_fields(api: Api) -> None:
    created = await api.post(CONFIGS, config(x="1"))
    changed = await api.merge(f"{CONFIGS}/a", {"data": {"y": "1"}})
    listed = await api.get(CONFIGS)
    async with api.watch(CONFIGS, resourceVersion="0") as watch:
        event = await watch.event()
    shown = (created.body, changed.body, listed.body["items"][0], event["object"])
    assert not any("managedFields" in each["metadata"] for each in shown)


@on_cluster
async def test_what_they_write_is_followed_all_the_same(api: Api) -> None:
    await api.post(CONFIGS, config(x="1"))
    seen = ask(api.server, "GET", f"{CONFIGS}/a")
    assert owners(seen) == {"grove": {"f:data": {".": {}, "f:x": {}}}}


@on_cluster
async def test_everybody_else_is_known_by_his_program_or_by_the_name_he_gives(api: Api) -> None:
    ask(api.server, "POST", CONFIGS, config(x="1"), program="kubectl/v1.37 (linux/amd64)")
    patch = {"data": {"y": "1"}}
    seen = ask(
        api.server, "PATCH", f"{CONFIGS}/a", patch, content_type=MERGE_PATCH, query={"fieldManager": "somebody else"}
    )
    assert list(owners(seen)) == ["kubectl", "somebody else"]


@on_cluster
async def test_a_read_modify_write_of_a_program_that_sees_no_owners_takes_none_away(api: Api) -> None:
    ask(api.server, "POST", CONFIGS, config(x="1", y="1"))
    found = (await api.get(f"{CONFIGS}/a")).body
    await api.put(f"{CONFIGS}/a", {**found, "data": {"x": "1", "y": "2"}})
    seen = ask(api.server, "GET", f"{CONFIGS}/a")
    assert owners(seen) == {"tests": {"f:data": {".": {}, "f:x": {}}}, "grove": {"f:data": {"f:y": {}}}}


@on_cluster
async def test_what_a_pod_goes_through_inside_is_told_outside(api: Api) -> None:
    spec = {"containers": [{"name": "m", "image": "i"}], "schedulingGates": [{"name": "g/a"}]}
    await api.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    await api.json_patch(f"{PODS}/p", {"op": "remove", "path": "/spec/schedulingGates"})
    await api.bind("p", "node")
    await api.strategic(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    entries = ask(api.server, "GET", f"{PODS}/p")["metadata"]["managedFields"]
    assert [(entry["manager"], entry.get("subresource", "")) for entry in entries] == [
        ("grove", ""),
        ("grove", "status"),
    ]
    assert not {"f:schedulingGates", "f:nodeName", "f:tolerations"} & set(entries[0]["fieldsV1"]["f:spec"])
    assert entries[1]["fieldsV1"] == {"f:status": {"f:phase": {}}}


@pytest.mark.parametrize("seed", range(10))
def test_when_somebody_asks_does_not_change_the_answer(seed: int) -> None:
    assert _owners_after_writes(seed, is_asked=True) == _owners_after_writes(seed, is_asked=False)


def _owners_after_writes(seed: int, *, is_asked: bool) -> JsonObject:
    """After more writes than there may be notes."""
    seen: list[JsonObject] = []

    @on_cluster
    async def run(api: Api) -> None:
        draw = Random(seed)
        ask(api.server, "POST", CONFIGS, config(x="1"))
        for _ in range(150):
            data = {draw.choice("xyz"): draw.choice(("1", "2", None))}
            query = {"fieldManager": draw.choice(("alice", "bob", "carol"))}
            ask(api.server, "PATCH", f"{CONFIGS}/a", {"data": data}, content_type=MERGE_PATCH, query=query, program="")
            if is_asked:
                ask(api.server, "GET", f"{CONFIGS}/a")
        seen.append(ask(api.server, "GET", f"{CONFIGS}/a"))

    run()
    return owners(seen[0])


@on_cluster
async def test_a_watch_shows_each_version_with_its_own_owners(api: Api) -> None:
    ask(api.server, "POST", CONFIGS, config(x="1"), program="one/1")
    ask(api.server, "PATCH", f"{CONFIGS}/a", {"data": {"x": "2"}}, content_type=MERGE_PATCH, program="two/1")
    request = Request(method="GET", path=CONFIGS, query={"watch": "true", "resourceVersion": "1"}, program="tests/1")
    async with api.transport.stream(request) as lines:
        events = [msgspec.json.decode(await anext(lines)) for _ in range(2)]
    first, second = (owners(event["object"]) for event in events)
    assert first == {"one": {"f:data": {".": {}, "f:x": {}}}}
    assert second == {"one": {"f:data": {}}, "two": {"f:data": {"f:x": {}}}}


@on_cluster
async def test_owners_survive_a_restart(api: Api) -> None:
    ask(api.server, "POST", CONFIGS, config(x="1"), program="one/1")
    query = {"fieldManager": "two"}
    ask(api.server, "PATCH", f"{CONFIGS}/a", config(y="1"), content_type=APPLY_PATCH, query=query)
    resource_info = BY_QUALIFIED["configmaps"]
    (change,) = api.server.store.table(resource_info).log[-1:]
    entry = change.entry
    owned = entry.ownership.encoded
    kept = Version(entry.revision, resource_info.qualified, change.type, entry.namespace, entry.name, entry.data, owned)
    store = Storage(10)
    store.restore([kept], 0)
    (restored,) = store.table(resource_info).entries(None)
    assert (restored.whole, restored.data) == (entry.whole, entry.data)
    assert restored.ownership.managers == entry.ownership.managers


@on_cluster
async def test_a_status_and_a_scale_have_managers_of_their_own(api: Api) -> None:
    ask(api.server, "POST", CLIQUES, CLIQUE)
    ask(api.server, "PATCH", f"{CLIQUES}/a/status", {"status": {"replicas": 1}}, content_type=MERGE_PATCH)
    ask(api.server, "PATCH", f"{CLIQUES}/a/scale", {"spec": {"replicas": 3}}, content_type=MERGE_PATCH)
    entries = ask(api.server, "GET", f"{CLIQUES}/a")["metadata"]["managedFields"]
    assert [entry.get("subresource", "") for entry in entries] == ["", "scale", "status"]


@pytest.mark.parametrize(
    "body",
    [
        (
            b"a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
            b"c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
            b"e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n"
            b"g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n"
        ),
        b"[" * 100_000,
        b"? {a: b}\n: c",
        b"a: !!python/object:os.system x",
        b"a: !!binary eA==",
        b"\x00",
        b"\xff\xfe\x00",
    ],
    ids=["aliases", "depth", "key", "python", "binary", "zero", "coding"],
)
@on_cluster
async def test_yaml_that_wants_too_much_is_refused(api: Api, body: bytes) -> None:
    request = Request(
        method="PATCH", path=f"{CONFIGS}/a", body=body, content_type=APPLY_PATCH, query={"fieldManager": "x"}
    )
    assert api.server.handle(request).status == 400
