"""Random writes of several managers, told to both servers at once: objects and owners must be the same after each."""

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.patches.field_sets import from_wire
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from grove.kube.transport import APPLY_PATCH
from tests.conformance.talk import JSON, Answer, Talk, config, pod
from tests.conformance.test_conform_apply_custom import Widgets, widget
from tests.kube.controlplane.plane import Plane

pytestmark = pytest.mark.kube

WRITES = 25
_MERGE = "application/merge-patch+json"
_STAMPS = ("uid", "resourceVersion", "creationTimestamp", "namespace")


class Write(msgspec.Struct, frozen=True):
    method: str
    body: JsonObject
    content_type: str
    query: dict[str, str]
    subresource: str = ""


class Story:
    """One sequence of writes to one object, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.kind = self._random.choice(("widget", "config", "pod"))

    def write(self) -> "Write":
        draw = self._random
        query = {"fieldManager": draw.choice(("alice", "bob", "carol"))}
        if self.kind == "widget" and draw.random() < 0.2:
            return self._side_write(query)
        match draw.randrange(8):
            case 0 | 1 | 2:
                return Write("PATCH", self.body(), APPLY_PATCH, query)
            case 3 | 4:
                return Write("PATCH", self.body(), APPLY_PATCH, {**query, "force": "true"})
            case 5:
                return Write("PUT", self.body(), JSON, query)
            case _:
                body = self.body()
                patch = {key: body[key] for key in body if key not in ("kind", "apiVersion")}
                return Write("PATCH", patch, _MERGE, query)

    def _side_write(self, query: dict[str, str]) -> "Write":
        """To the status, or as a scale."""
        draw = self._random
        if draw.random() < 0.3:
            # Always another number: one that changes nothing splits entries of a real server, which then loses half.
            return Write("PATCH", {"spec": {"replicas": draw.randrange(10, 10**9)}}, _MERGE, query, "/scale")
        body = {**self.body(), "status": {"size": draw.randrange(3), "phase": draw.choice("xy")}}
        if draw.random() < 0.5:
            del body["status"][draw.choice(("size", "phase"))]
        if draw.random() < 0.5:
            return Write("PATCH", {"status": body["status"]}, _MERGE, query, "/status")
        return Write("PATCH", body, APPLY_PATCH, {**query, "force": draw.choice(("true", "false"))}, "/status")

    def body(self) -> JsonObject:
        match self.kind:
            case "widget":
                return {**widget(self._spec()), "metadata": self._metadata()}
            case "config":
                data = self._map() if self._chance() else None
                return {**config("one", data), "metadata": self._metadata()}
            case _:
                image = self._random.choice(("i:1", "i:2"))
                spec = {"containers": [{"name": "main", "image": image}]}
                return {**pod("one", spec=spec), "metadata": self._metadata()}

    def _metadata(self) -> JsonObject:
        metadata: JsonObject = {"name": "one"}
        if self._chance():
            metadata["labels"] = self._map()
        if self._chance():
            metadata["annotations"] = self._map()
        return metadata

    def _spec(self) -> JsonObject:
        draw = self._random
        fields: JsonObject = {
            "size": draw.randrange(3),
            "labels": self._map(),
            "inner": {name: draw.choice("12") for name in self._some("ab")},
            "whole": {name: draw.choice("12") for name in self._some("ab")},
            "words": self._some("abcd"),
            "numbers": [ord(letter) for letter in self._some("abc")],
            "lines": self._some("abc"),
            "parts": [self._part(name) for name in self._some("abc")],
            "named": [{"name": name, "image": draw.choice("ij")} for name in self._some("abc")],
            "free": self._free(2),
            "mode": draw.choice(("slow", "fast")),
            "groups": {name: {inner: draw.choice("12") for inner in self._some("ab")} for name in self._some("gh")},
        }
        return {name: fields[name] for name in fields if self._chance()}

    def _part(self, name: str) -> JsonObject:
        part: JsonObject = {"name": name}
        if self._chance():
            part["zone"] = self._random.choice(("here", "there"))
        if self._chance():
            part["image"] = self._random.choice("ij")
        if self._chance():
            part["lines"] = self._some("ab")
        return part

    def _free(self, depth: int) -> JsonObject:
        inner: list[Any] = [1, "x", ["a"], {}]
        if depth:
            inner.append(self._free(depth - 1))
        return {name: self._random.choice(inner) for name in self._some("abc")}

    def _map(self) -> JsonObject:
        return {name: self._random.choice("12") for name in self._some("abc")}

    def _some(self, letters: str) -> list[str]:
        return self._random.sample(letters, self._random.randrange(len(letters) + 1))

    def _chance(self) -> bool:
        return self._random.random() < 0.4


def seen(answer: Answer) -> Any:
    """What both must agree on: not when, and not under which uid."""
    body = answer.body
    if body["kind"] == "Status":
        # A real server names conflicts in no particular order.
        causes = (body.get("details") or {}).get("causes", [])
        return answer.status, body.get("message"), sorted(causes, key=str)
    metadata = {key: value for key, value in body["metadata"].items() if key not in _STAMPS}
    managed = metadata.pop("managedFields", [])
    owners: dict[str, JsonObject] = {}
    for entry in managed:
        who = " ".join((entry["manager"], entry["operation"], entry.get("subresource", "")))
        owners[who] = from_wire(entry["fieldsV1"])
    if body["kind"] == "Pod":
        # Defaults and the status are judged elsewhere.
        body = {"images": [container["image"] for container in body["spec"]["containers"]]}
    return answer.status, {**body, "metadata": metadata}, owners


async def told(story: Story, talks: list[Talk], number: int) -> None:
    history = []
    for _ in range(WRITES):
        write = story.write()
        history.append(write)
        answers = [await _answer(story.kind, talk, write) for talk in talks]
        ours, theirs = map(seen, answers)
        if answers[1].status in (422, 500):
            # In other words, or for no reason that we would have; nothing was written.
            assert answers[0].status in (200, 400, 422), (number, history)
            if answers[0].status == 200:
                return
            continue
        assert ours == theirs, (number, *history)


async def _answer(kind: str, talk: Talk, write: Write) -> Answer:
    """What the object looks like after the write, or why there was none."""
    path = Widgets(talk).path if kind == "widget" else talk.at("pods" if kind == "pod" else "configmaps", "one")
    body = write.body
    if write.method == "PUT":
        current = await talk.get(path)
        version = current.body["metadata"].get("resourceVersion", "1")
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
    answer = await talk.send(
        write.method, path + write.subresource, body, content_type=write.content_type, query=write.query
    )
    return await talk.get(path) if answer.status == 200 and write.subresource == "/scale" else answer


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_both_servers_make_the_same_of_random_writes(
    runner: asyncio.Runner, embedded: Access, plane: Plane, first: int
) -> None:
    async def tell() -> None:
        clock = LoopClock.starting_now()
        transports = [HttpTransport(access, clock) for access in (embedded, plane.access())]
        try:
            for number in range(first, first + 20):
                talks = [Talk(transport, clock, f"alike-{number}") for transport in transports]
                for talk in talks:
                    await talk.create("namespaces", {"metadata": {"name": talk.namespace}})
                    await talk.furnished()
                    await Widgets(talk).define()
                await told(Story(number), talks, number)
        finally:
            for transport in transports:
                await transport.close()

    runner.run(tell())
