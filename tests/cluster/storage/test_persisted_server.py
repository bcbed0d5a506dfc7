"""An API server whose store is kept: nobody is told of what could still be lost, and a restart changes nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.controllers.garbage_collector import GarbageCollector
from grove.cluster.in_process_transport import InProcessTransport
from grove.cluster.storage.sqlite_log import HISTORY
from grove.kube.transport import Request, Response
from tests.cluster.kept_store import Disk, Keeping, turns

CONFIGS = "/api/v1/namespaces/default/configmaps"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
# A safety net, far above what anything takes.
SECONDS = 120.0


class KeptServer:
    """A server on a disk; `again` is its next life on the same one, or on what a crash left of it."""

    def __init__(self, disk: Disk, history: int = HISTORY) -> None:
        self.keeping = Keeping(disk, history=history)
        self.clock = LoopClock.starting_now()
        self.server = ApiServer(self.clock, Random("server"), store=self.keeping.store)
        self.transport = InProcessTransport(self.server, self.clock)

    async def ask(self, method: str, path: str, body: Any = None, **query: str) -> Response:
        data = b"" if body is None else msgspec.json.encode(body)
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with asyncio.timeout(SECONDS):
            return await self.transport.send(
                Request(method=method, path=path, body=data, query=query, content_type=content_type)
            )

    async def names(self, path: str) -> list[str]:
        return [each["metadata"]["name"] for each in decoded(await self.ask("GET", path))["items"]]

    async def gone(self, path: str) -> None:
        async with asyncio.timeout(SECONDS):
            while (await self.ask("GET", path)).status != 404:
                await self.clock.sleep(0.01)

    async def close(self) -> None:
        self.keeping.log.is_free.set()
        await self.keeping.journal.close()


@asynccontextmanager
async def serving(disk: Disk, history: int = HISTORY) -> AsyncIterator[KeptServer]:
    server = KeptServer(disk, history)
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def collecting(server: ApiServer) -> AsyncIterator[None]:
    task = asyncio.create_task(GarbageCollector(server).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def tell(story: Callable[[Disk], Awaitable[None]], disk: Disk) -> None:
    async def run() -> None:
        await story(disk)

    asyncio.run(run())


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "disk")


def config(name: str, value: str = "", **more: Any) -> JsonObject:
    return {"metadata": {"name": name, **more}, "data": {"value": value}}


def decoded(response: Response) -> JsonObject:
    found: JsonObject = msgspec.json.decode(response.body)
    return found


# --- who is told, and when -------------------------------------------------------------------------------------------


def test_an_answer_waits_until_what_it_tells_of_is_kept(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as server:
            await server.ask("GET", CONFIGS)
            server.keeping.log.is_free.clear()
            writing = asyncio.ensure_future(server.ask("POST", CONFIGS, config("a")))
            await turns()
            reading = asyncio.ensure_future(server.ask("GET", f"{CONFIGS}/a"))
            again = asyncio.ensure_future(server.ask("POST", CONFIGS, config("a")))
            await turns()
            assert [each.done() for each in (writing, reading, again)] == [False] * 3
            server.keeping.log.is_free.set()
            assert [(await each).status for each in (writing, reading, again)] == [201, 200, 409]

    tell(story, disk)


def test_a_watch_tells_of_a_change_when_it_is_kept(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as server:
            version = decoded(await server.ask("GET", CONFIGS))["metadata"]["resourceVersion"]
            query = {"watch": "true", "resourceVersion": version}
            async with server.transport.stream(Request(method="GET", path=CONFIGS, query=query)) as lines:
                server.keeping.log.is_free.clear()
                writing = asyncio.ensure_future(server.ask("POST", CONFIGS, config("a")))
                hearing = asyncio.ensure_future(anext(aiter(lines)))
                await turns()
                assert not hearing.done()
                server.keeping.log.is_free.set()
                await writing
                event = msgspec.json.decode(await hearing)
                assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")

    tell(story, disk)


def test_a_watch_that_begins_with_what_there_is_begins_with_what_is_kept(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as server:
            await server.ask("POST", CONFIGS, config("kept"))
            server.keeping.log.is_free.clear()
            server.keeping.log.is_broken = True
            refused = asyncio.ensure_future(server.ask("POST", CONFIGS, config("refused")))
            await turns()
            opened = asyncio.ensure_future(_first_names(server, 2))
            await turns()
            assert not opened.done()
            server.keeping.log.is_free.set()
            assert (await refused).status == 507
            server.keeping.log.is_broken = False
            await server.ask("POST", CONFIGS, config("later"))
            assert await opened == ["kept", "later"]

    tell(story, disk)


async def _first_names(server: KeptServer, number: int) -> list[str]:
    names: list[str] = []
    async with server.transport.stream(Request(method="GET", path=CONFIGS, query={"watch": "true"})) as lines:
        async for line in lines:
            names.append(msgspec.json.decode(line)["object"]["metadata"]["name"])
            if len(names) == number:
                break
    return names


def test_a_bookmark_does_not_run_ahead_of_what_is_kept(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as server:
            version = decoded(await server.ask("GET", CONFIGS))["metadata"]["resourceVersion"]
            query = {
                "watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "1",
            }  # fmt: skip
            async with server.transport.stream(Request(method="GET", path=CONFIGS, query=query)) as lines:
                server.keeping.log.is_free.clear()
                writing = asyncio.ensure_future(server.ask("POST", CONFIGS, config("a")))
                (line,) = [line async for line in lines]
                assert not writing.done()
            event = msgspec.json.decode(line)
            assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", version)
            server.keeping.log.is_free.set()
            assert (await writing).status == 201

    tell(story, disk)


# --- a disk that refuses ---------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_writes_in_words_and_reads_go_on(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as server:
            assert (await server.ask("POST", CONFIGS, config("a", "x" * 9000))).status == 201
            with disk.full():
                refused = await server.ask("POST", CONFIGS, config("b"))
                deleted = await server.ask("DELETE", f"{CONFIGS}/a")
                assert await server.names(CONFIGS) == ["a"]
            status = decoded(refused)
            assert (refused.status, deleted.status) == (507, 507)
            assert (status["kind"], status["code"], status["reason"]) == ("Status", 507, "InsufficientStorage")
            assert status["message"].startswith(f"the write was not stored: {disk.file}: ")
            assert status["message"].endswith("; free disk space and try again")
            made = await server.ask("POST", CONFIGS, config("b"))
            assert made.status == 201
        async with serving(disk) as again:
            assert await again.names(CONFIGS) == ["a", "b"]
            assert decoded(await again.ask("GET", f"{CONFIGS}/b")) == decoded(made)

    tell(story, disk)


def test_what_runs_in_the_server_goes_on_when_the_disk_takes_writes_again(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as server:
            owner = decoded(await server.ask("POST", CONFIGS, config("owner")))["metadata"]
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
            await server.ask("POST", CONFIGS, config("dependent", ownerReferences=[reference]))
            await server.ask("POST", NAMESPACES, {"metadata": {"name": "n"}})
            await server.ask("POST", f"{NAMESPACES}/n/configmaps", config("c"))
            await server.ask("DELETE", f"{CONFIGS}/owner")
            await server.ask("DELETE", f"{NAMESPACES}/n")
            server.keeping.log.is_broken = True
            async with collecting(server.server):
                attempts = len(server.keeping.log.sizes)
                while len(server.keeping.log.sizes) < attempts + 3:
                    await server.clock.sleep(0.01)
                assert await server.names(CONFIGS) == ["dependent"]
                assert await server.names(f"{NAMESPACES}/n/configmaps") == ["c"]
                server.keeping.log.is_broken = False
                await server.gone(f"{CONFIGS}/dependent")
                await server.gone(f"{NAMESPACES}/n")

    tell(story, disk)


# --- the next life ---------------------------------------------------------------------------------------------------


def test_the_first_namespaces_are_made_once(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as first:
            before = decoded(await first.ask("GET", NAMESPACES))
        async with serving(disk) as second:
            assert decoded(await second.ask("GET", NAMESPACES)) == before

    tell(story, disk)


def test_a_watch_resumes_by_its_resource_version(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as first:
            seen = decoded(await first.ask("POST", CONFIGS, config("a")))["metadata"]["resourceVersion"]
            await first.ask("POST", CONFIGS, config("b"))
            await first.ask("DELETE", f"{CONFIGS}/a")
        async with serving(disk) as second:
            query = {"watch": "true", "resourceVersion": seen}
            async with second.transport.stream(Request(method="GET", path=CONFIGS, query=query)) as lines:
                await second.ask("POST", CONFIGS, config("c"))
                events = [msgspec.json.decode(await anext(aiter(lines))) for _ in range(3)]
            assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
                ("ADDED", "b"), ("DELETED", "a"), ("ADDED", "c"),
            ]  # fmt: skip

    tell(story, disk)


def test_a_watch_from_before_the_kept_history_is_told_to_list_again(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk, history=5) as first:
            seen = decoded(await first.ask("POST", CONFIGS, config("a")))["metadata"]["resourceVersion"]
            for number in range(20):
                await first.ask("PUT", f"{CONFIGS}/a", config("a", str(number)))
        async with serving(disk, history=5) as second:
            query = {"watch": "true", "resourceVersion": seen}
            async with second.transport.stream(Request(method="GET", path=CONFIGS, query=query)) as lines:
                (event,) = [msgspec.json.decode(line) async for line in lines]
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
            assert decoded(await second.ask("GET", f"{CONFIGS}/a"))["data"] == {"value": "19"}

    tell(story, disk)


def test_a_quota_holds_from_the_first_request_on(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"configmaps": "2"}}}
        async with serving(disk) as first:
            await first.ask("POST", "/api/v1/namespaces/default/resourcequotas", quota)
            await first.ask("POST", CONFIGS, config("a"))
            await first.ask("POST", CONFIGS, config("b"))
        async with serving(disk) as second:
            answer = decoded(await second.ask("POST", CONFIGS, config("c")))
            assert (answer["code"], "exceeded quota: few" in answer["message"]) == (403, True)

    tell(story, disk)


def test_what_was_being_deleted_goes_on_being_deleted(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as first:
            owner = decoded(await first.ask("POST", CONFIGS, config("owner")))["metadata"]
            reference = {
                "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"],
                "blockOwnerDeletion": True,
            }  # fmt: skip
            await first.ask("POST", CONFIGS, config("dependent", ownerReferences=[reference]))
            await first.ask("POST", NAMESPACES, {"metadata": {"name": "n"}})
            await first.ask("POST", f"{NAMESPACES}/n/configmaps", config("c"))
            await first.ask("DELETE", f"{NAMESPACES}/n")
            await first.ask("DELETE", f"{CONFIGS}/owner", {"propagationPolicy": "Foreground"})
            assert await first.names(CONFIGS) == ["dependent", "owner"]
        async with serving(disk) as second, collecting(second.server):
            await second.gone(f"{CONFIGS}/owner")
            await second.gone(f"{CONFIGS}/dependent")
            await second.gone(f"{NAMESPACES}/n")

    tell(story, disk)


def test_who_owns_which_field_is_kept(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as first:
            await first.ask("POST", CONFIGS, config("a", "1"), fieldManager="one")
            await first.ask("PATCH", f"{CONFIGS}/a", {"data": {"more": "2"}}, fieldManager="two")
            before = first.server.store.table(_served(first, "configmaps")).find("default", "a")
        async with serving(disk) as second:
            after = second.server.store.table(_served(second, "configmaps")).find("default", "a")
            assert before is not None
            assert after is not None
            assert after.whole == before.whole
            assert b'"manager":"two"' in after.whole

    tell(story, disk)


def _served(server: KeptServer, qualified: str) -> Any:
    return next(
        table.resource_info for table in server.server.store.tables() if table.resource_info.qualified == qualified
    )


def test_our_definitions_are_those_of_this_version_of_the_program(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgangs.scheduler.grove.io"
        async with serving(disk) as first:
            ours = decoded(await first.ask("GET", path))
            older = {**ours["spec"], "names": {**ours["spec"]["names"], "categories": ["older"]}}
            first.server.store.put(_served(first, DEFINITIONS), "", ours["metadata"]["name"], {**ours, "spec": older})
        async with serving(disk) as second:
            now = decoded(await second.ask("GET", path))
            assert now["spec"] == ours["spec"]
            assert now["metadata"]["generation"] == ours["metadata"]["generation"] + 1

    tell(story, disk)


ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
WIDE: JsonObject = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


async def rules_after_an_upgrade(disk: Disk, change: Callable[[KeptServer, JsonObject], Awaitable[None]]) -> Any:
    """Return the rules of `view` of this version, and those after a change and another start."""
    async with serving(disk) as first:
        role = decoded(await first.ask("GET", f"{ROLES}/view"))
        await change(first, role)
    async with serving(disk) as second:
        return role["rules"], decoded(await second.ask("GET", f"{ROLES}/view"))["rules"]


def test_default_roles_that_an_older_version_stored_wider_are_those_of_this_version(disk: Disk) -> None:
    async def older(server: KeptServer, role: JsonObject) -> None:
        stored = _served(server, "clusterroles.rbac.authorization.k8s.io")
        metadata = {key: value for key, value in role["metadata"].items() if key != "annotations"}
        wider = {**role, "metadata": metadata, "rules": [WIDE, *role["rules"][1:]]}
        server.server.store.put(stored, "", "view", wider)

    async def story(disk: Disk) -> None:
        ours, now = await rules_after_an_upgrade(disk, older)
        assert now == ours

    tell(story, disk)


def test_rules_that_a_user_added_to_a_default_role_stay_and_missing_ones_are_added(disk: Disk) -> None:
    async def change(server: KeptServer, role: JsonObject) -> None:
        extra = {"apiGroups": ["example.com"], "resources": ["trees"], "verbs": ["get"]}
        body = {"rules": [extra, *role["rules"][1:]]}
        assert (await server.ask("PATCH", f"{ROLES}/view", body)).status == 200

    async def story(disk: Disk) -> None:
        ours, now = await rules_after_an_upgrade(disk, change)
        assert [rule for rule in now if rule not in ours] == [
            {"apiGroups": ["example.com"], "resources": ["trees"], "verbs": ["get"]}
        ]
        assert [rule for rule in ours if rule not in now] == []

    tell(story, disk)


def test_a_default_role_whose_annotation_says_so_is_not_updated(disk: Disk) -> None:
    async def change(server: KeptServer, _: JsonObject) -> None:
        annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
        body = {"metadata": {"annotations": annotations}, "rules": [WIDE]}
        assert (await server.ask("PATCH", f"{ROLES}/view", body)).status == 200

    async def story(disk: Disk) -> None:
        _, now = await rules_after_an_upgrade(disk, change)
        assert now == [WIDE]

    tell(story, disk)


def test_our_kinds_stay_when_the_disk_is_full_and_somebody_asks_for_definitions(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        async with serving(disk) as server:
            await server.ask("POST", CONFIGS, config("a"))
            server.keeping.log.is_broken = True
            assert len(await server.names("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")) >= 5
            assert (await server.ask("GET", "/apis/grove.io/v1alpha1/podcliquesets")).status == 200

    tell(story, disk)


TREES: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "trees.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "trees", "singular": "tree", "kind": "Tree"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def test_kinds_that_somebody_defined_are_served_again_with_their_objects(disk: Disk) -> None:
    async def story(disk: Disk) -> None:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        trees = "/apis/example.com/v1/namespaces/default/trees"
        oak = {"apiVersion": "example.com/v1", "kind": "Tree", "metadata": {"name": "oak"}, "height": 3}
        async with serving(disk) as first:
            made = await first.ask("POST", definitions, TREES)
            assert made.status == 201, made.body
            async with asyncio.timeout(SECONDS):
                while (await first.ask("GET", trees)).status != 200:
                    await first.clock.sleep(0.01)
            before = await first.ask("POST", trees, oak)
            assert before.status == 201, before.body
            # Written after its objects were: it must not be needed before them.
            await first.ask("PATCH", f"{definitions}/trees.example.com", {"metadata": {"labels": {"a": "b"}}})
            names = await first.names(definitions)
        async with serving(disk) as second:
            assert decoded(await second.ask("GET", f"{trees}/oak")) == decoded(before)
            assert await second.names(definitions) == names

    tell(story, disk)
