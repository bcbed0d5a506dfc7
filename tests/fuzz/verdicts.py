"""What must hold whatever was asked: of one answer, and of everything that a server shows afterwards.

Each check returns what is wrong, in words, or nothing. They ask as any client does.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.controllers.garbage_collector import GarbageCollector
from grove.cluster.storage.store import Storage
from grove.kube.transport import Request, Response, Transport

# Said by a real server, too: no logs are kept, a version that is yet to come, and a webhook that did not answer.
_HONEST_5XX = {501: "NotImplemented", 504: "Timeout"}
_WEBHOOK = re.compile(r"Internal error occurred: (?:failed calling|admission) webhook")
# What happened before is told without waiting; after that there would be nothing but silence.
_NOTHING_NEW_SECONDS = 0.1
_PAGE_NOT_FOUND = b"404 page not found\n"


def wrong_with_answer(request: Request, response: Response) -> str:
    """Empty: nothing."""
    if response.status < 400:
        return "" if 200 <= response.status < 400 else f"status {response.status}"
    if response.body == _PAGE_NOT_FOUND and response.status == 404:
        return ""
    if request.method == "HEAD" and not response.body:
        return ""
    try:
        status = msgspec.json.decode(response.body)
    except msgspec.DecodeError:
        return f"{response.status} with a body that is no JSON: {response.body[:200]!r}"
    if not isinstance(status, dict) or status.get("kind") != "Status" or status.get("code") != response.status:
        return f"{response.status} with a body that is no Status of that code: {response.body[:200]!r}"
    return _wrong_with_status(status)


def _wrong_with_status(status: JsonObject) -> str:
    code, message = status["code"], status.get("message", "")
    if not isinstance(message, str) or not message:
        return f"{code} that does not say why"
    if code < 500 or _HONEST_5XX.get(code) == status.get("reason"):
        return ""
    if code == 500 and _WEBHOOK.match(message):
        return ""
    return f"{code}: {message}"


# --- everything that is shown ----------------------------------------------------------------------------------------


class Shown(msgspec.Struct, frozen=True):
    """All objects of a server as lists show them, by collection; and the revision of the first list."""

    revision: int
    lists: dict[str, dict[str, JsonObject]]


async def shown_by(transport: Transport) -> Shown:
    lists: dict[str, dict[str, JsonObject]] = {}
    revision = 0
    async for path in _collections(transport):
        listed = await _json(transport, path)
        revision = revision or int(listed["metadata"]["resourceVersion"])
        lists[path] = {_key(item): item for item in listed["items"]}
    return Shown(revision, lists)


async def wrong_with_state(transport: Transport, before: Shown) -> list[str]:
    """Lists, reads, selected lists and watches must tell the same story."""
    problems: list[str] = []
    now = await shown_by(transport)
    versions: dict[str, str] = {}
    # Together: each ends by the clock.
    watched = await asyncio.gather(*(_wrong_with_watch(transport, path, before, now) for path in now.lists))
    for path, items in now.lists.items():
        problems += await _wrong_with_collection(transport, path, items)
        for key, item in items.items():
            version = item["metadata"]["resourceVersion"]
            if path.startswith("/apis/events.k8s.io/"):
                # The same objects as those of the core group.
                continue
            if version in versions:
                problems.append(f"{path} {key} has the version of {versions[version]}")
            versions[version] = f"{path} {key}"
    return [*problems, *(problem for found in watched for problem in found)]


async def _wrong_with_collection(transport: Transport, path: str, items: dict[str, JsonObject]) -> list[str]:
    problems = []
    for key, item in items.items():
        one = await _json(transport, _object_path(path, item))
        kind, api_version = one.pop("kind", None), one.pop("apiVersion", None)
        if not kind or not api_version:
            problems.append(f"{path} {key} does not say what it is")
        if one != {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}:
            problems.append(f"{path} {key} is listed as {item} and read as {one}")
    for label, value in sorted({pair for item in items.values() for pair in _labels(item)})[:3]:
        listed = await _json(transport, path, labelSelector=f"{label}={value}")
        found = {_key(item) for item in listed["items"]}
        wanted = {key for key, item in items.items() if (label, value) in _labels(item)}
        if found != wanted:
            problems.append(f"{path} with {label}={value}: {sorted(found)}, not {sorted(wanted)}")
    return problems


async def _wrong_with_watch(transport: Transport, path: str, before: Shown, now: Shown) -> list[str]:
    """What was there, and all that a watch tells since, is what is there now. Versions only rise."""
    problems: list[str] = []
    state = dict(before.lists.get(path, {}))
    if path not in before.lists:
        # Its definition may have come and gone meanwhile; it is told from the beginning.
        state = {}
    last = 0
    async for event in _told(transport, path, before.revision):
        obj = event["object"]
        if event["type"] == "ERROR":
            return [f"{path}: the watch ended with {obj}"]
        version = int(obj["metadata"]["resourceVersion"])
        if version <= last:
            problems.append(f"{path}: version {version} after {last}")
        last = version
        if event["type"] == "DELETED":
            state.pop(_key(obj), None)
        else:
            state[_key(obj)] = obj
    if (told := _plain(state)) != (listed := _plain(now.lists[path])):
        differing = sorted(key for key in {*told, *listed} if told.get(key) != listed.get(key))
        problems.append(f"{path}: a watch and a list disagree about {differing}")
    return problems


async def _told(transport: Transport, path: str, revision: int) -> AsyncIterator[JsonObject]:
    """All that a watch has to tell at this moment."""
    query = {"watch": "true", "resourceVersion": str(revision)}
    async with transport.stream(Request(method="GET", path=path, query=query, program="verdicts")) as lines:
        with suppress(StopAsyncIteration, TimeoutError):
            while True:
                # For each line: whoever has much to tell may take longer.
                async with asyncio.timeout(_NOTHING_NEW_SECONDS):
                    line = await anext(lines)
                yield msgspec.json.decode(line)


def _plain(items: dict[str, JsonObject]) -> dict[str, JsonObject]:
    """Lists of built-in kinds leave out what the list says anyway."""
    return {
        key: {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}
        for key, item in items.items()
    }


async def _collections(transport: Transport) -> AsyncIterator[str]:
    """Every path that can be listed and watched, as discovery tells it. Metrics can only be read."""
    roots = ["/api/v1"]
    for group in (await _json(transport, "/apis"))["groups"]:
        roots += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    for root in roots:
        for resource in (await _json(transport, root))["resources"]:
            if "watch" in resource["verbs"]:
                yield f"{root}/{resource['name']}"


async def _json(transport: Transport, path: str, **query: str) -> Any:
    request = Request(method="GET", path=path, query=query, program="verdicts")
    response = await transport.send(request)
    assert response.status == 200, f"GET {path} {query}: {response.status} {response.body[:300]!r}"
    return msgspec.json.decode(response.body)


def _key(item: JsonObject) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def _labels(item: JsonObject) -> set[tuple[str, str]]:
    return set((item["metadata"].get("labels") or {}).items())


def _object_path(path: str, item: JsonObject) -> str:
    root, _, plural = path.rpartition("/")
    namespace = item["metadata"].get("namespace")
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{place}/{plural}/{item['metadata']['name']}"


# --- behind the scenes -----------------------------------------------------------------------------------------------


def wrong_with_owners(server: ApiServer, collector: GarbageCollector) -> list[str]:
    """The collector's index is what the objects say."""
    wanted: dict[str, set[str]] = {}
    places: set[str] = set()
    for table in server.store.tables():
        for entry in table.entries(None):
            metadata = entry.obj["metadata"]
            places.add(metadata["uid"])
            for owner in metadata.get("ownerReferences") or ():
                wanted.setdefault(owner["uid"], set()).add(metadata["uid"])
    found = {uid: set(dependents) for uid, dependents in collector._dependents.items() if dependents}
    problems = [] if found == wanted else [f"owners as indexed {found}, as objects say {wanted}"]
    if (known := set(collector._refs)) != places:
        problems.append(f"the collector knows {sorted(known - places)} and does not know {sorted(places - known)}")
    return problems


def contents(store: Storage) -> Iterator[tuple[str, str, str, bytes]]:
    """All objects of a store, with what is known of their owners."""
    for table in store.tables():
        for entry in table.entries(None):
            yield table.resource_info.qualified, entry.namespace, entry.name, entry.whole
