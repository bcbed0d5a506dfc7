"""Rubbish over sockets, whatever the verb: 4xx with a Status, never a 500, and the store as it was."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grove.kube.transport import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.cluster.apidsl import CLIQUES, CONFIGS, NODES, PODS, SETS, clique, config, node, pod
from tests.cluster.served_http import Answer, HttpClient, http_cluster
from tests.seeds import examples

_WORDS = st.sampled_from(
    [
        "name", "metadata", "spec", "status", "labels", "finalizers", "ownerReferences", "uid", "containers",
        "replicas", "template", "cliques", "podSpec", "roleName", "minAvailable", "podCliqueScalingGroups",
        "cliqueNames", "terminationDelay", "conditions", "type", "propagationPolicy", "preconditions",
        "op", "path",
        "value", "from", "add", "/metadata", "$patch", "delete", "kind", "apiVersion", "v1", "", "\u0000", "\U0001f333",
    ]
)  # fmt: skip
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _WORDS
_RUBBISH = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4), max_leaves=12
)
_HALF_GOOD = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.just("a")}) | _RUBBISH, "spec": _RUBBISH},
    optional={"kind": _WORDS, "apiVersion": _WORDS, "x": _RUBBISH},
)
# What is no JSON object is no object of any kind.
_SURELY_BAD = (
    st.binary(min_size=1, max_size=12).filter(lambda body: not body.lstrip().startswith(b"{"))
    | st.sampled_from(
        [b"{", b'{"a"', b"[" * 5_000, b'{"a":' * 5_000, b'{"metadata":{"name":"\\ud800"}}', b"\xff\xfe{}"]
    )
    | st.lists(_LEAVES, max_size=3).map(msgspec.json.encode)
    | _LEAVES.map(msgspec.json.encode)
)
_COLLECTIONS = (PODS, CLIQUES, SETS, CONFIGS, NODES)
_VERBS = (
    ("POST", "", "application/json"),
    ("PUT", "/a", "application/json"),
    ("PUT", "/a/status", "application/json"),
    ("PUT", "/a/scale", "application/json"),
    ("PATCH", "/a", MERGE_PATCH),
    ("PATCH", "/a", STRATEGIC_PATCH),
    ("PATCH", "/a", JSON_PATCH),
    ("PATCH", "/a/status", MERGE_PATCH),
    ("PATCH", "/a/status", JSON_PATCH),
    ("PATCH", "/a/status", STRATEGIC_PATCH),
    ("PATCH", "/a/scale", MERGE_PATCH),
    ("PATCH", "/a/scale", JSON_PATCH),
    ("POST", "/a/binding", "application/json"),
    ("DELETE", "/a", "application/json"),
    ("DELETE", "", "application/json"),
)


class _Cluster:
    """A served cluster on a loop that stands still between requests."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._http = self._loop.run_until_complete(self._stack.enter_async_context(http_cluster()))
        self._loop.run_until_complete(self._populate())

    def close(self) -> None:
        self._loop.run_until_complete(self._stack.aclose())
        self._loop.close()

    def send(self, method: str, path: str, body: bytes, content_type: str) -> Answer:
        return self._loop.run_until_complete(self._http.send(method, path, body, Content_Type=content_type))

    @property
    def revision(self) -> int:
        return self._http.server.store.revision

    async def _populate(self) -> None:
        http: HttpClient = self._http
        template = {"cliques": [{"name": "c", "spec": {"roleName": "c", "replicas": 1, "podSpec": _pod_spec()}}]}
        pcs = {**clique("a"), "kind": "PodCliqueSet", "spec": {"replicas": 1, "template": template}}
        objects = (pod("a"), clique("a", spec={"podSpec": _pod_spec()}), pcs, config("a"), node("a"))
        for collection, obj in zip(_COLLECTIONS, objects, strict=True):
            answer = await http.send("POST", collection, obj)
            assert answer.status == 201, answer.body


def _pod_spec() -> Any:
    return {"containers": [{"name": "main", "image": "i"}]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[_Cluster]:
    made = _Cluster()
    yield made
    made.close()


@pytest.mark.parametrize(("method", "suffix", "content_type"), _VERBS)
@given(collection=st.sampled_from(_COLLECTIONS), body=_SURELY_BAD)
@settings(max_examples=examples(200), deadline=None)
def test_what_is_no_object_is_refused(
    cluster: _Cluster, method: str, suffix: str, content_type: str, collection: str, body: bytes
) -> None:
    if content_type == JSON_PATCH and body.lstrip()[:1] == b"[":
        # A list of nothing is a patch that changes nothing.
        body = b"{}"
    if method == "DELETE" and not body.strip():
        body = b"[]"
    revision = cluster.revision
    answer = cluster.send(method, collection + suffix, body, content_type)
    assert 400 <= answer.status < 500, answer.body
    assert answer.refusal[1:3] == ("Status", answer.status)
    assert cluster.revision == revision


@pytest.mark.parametrize(("method", "suffix", "content_type"), _VERBS)
@given(collection=st.sampled_from(_COLLECTIONS), body=_RUBBISH | _HALF_GOOD)
@settings(max_examples=examples(200), deadline=None)
def test_what_is_refused_was_not_stored(
    cluster: _Cluster, method: str, suffix: str, content_type: str, collection: str, body: Any
) -> None:
    revision = cluster.revision
    answer = cluster.send(method, collection + suffix, msgspec.json.encode(body), content_type)
    assert answer.status < 500, answer.body
    if answer.status >= 400:
        assert answer.refusal[1:3] == ("Status", answer.status)
        assert cluster.revision == revision
    if cluster.revision != revision:
        # What was stored can be read.
        assert cluster.send("GET", collection, b"", "").status == 200
