"""Rubbish in, a Status out: no body makes the server fail, and a refused request leaves the store as it was."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grove.api.meta import JsonObject
from grove.kube.transport import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from grove.sim.clock import run_virtual
from tests.cluster.apidsl import CLIQUES, CONFIGS, NAMESPACES, NODES, PODS, QUOTAS, Api, clique, fresh_api, node, pod

_WORDS = st.sampled_from(
    [
        "name", "metadata", "spec", "status", "labels", "annotations", "finalizers", "ownerReferences", "uid",
        "containers", "schedulingGates", "resources", "requests", "limits", "cpu", "hard", "pods", "conditions", "type",
        "tolerations", "nodeName", "replicas", "preconditions", "gracePeriodSeconds", "propagationPolicy", "target",
        "op", "path", "value", "from", "add", "/metadata", "/spec/-", "$patch", "replace", "delete", "$retainKeys",
        "kind", "apiVersion", "v1", "Pod", "a", "", "resourceVersion", "0", "creationTimestamp", "namespace",
    ]
)  # fmt: skip
_LEAVES = st.none() | st.booleans() | st.integers(-2, 2**40) | st.floats(allow_nan=False, allow_infinity=False) | _WORDS
_RUBBISH = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4), max_leaves=12
)
_METADATA = st.fixed_dictionaries({"name": st.just("new")}, optional={"labels": _RUBBISH, "finalizers": _RUBBISH})
_SPECS = st.dictionaries(_WORDS, _RUBBISH, max_size=4)
_HALF_GOOD = st.fixed_dictionaries(
    {"metadata": _METADATA | _RUBBISH, "spec": _SPECS | _RUBBISH}, optional={"x": _RUBBISH}
)
_BODIES = _RUBBISH | _HALF_GOOD | st.binary(max_size=8)

_COLLECTIONS = (PODS, CLIQUES, CONFIGS, NODES, NAMESPACES, QUOTAS)
_TARGETS = (
    ("POST", "", "application/json"),
    ("PUT", "/a", "application/json"),
    ("PATCH", "/a", MERGE_PATCH),
    ("PATCH", "/a", JSON_PATCH),
    ("PATCH", "/a", STRATEGIC_PATCH),
    ("PATCH", "/a/status", MERGE_PATCH),
    ("PUT", "/a/status", "application/json"),
    ("PATCH", "/a/scale", MERGE_PATCH),
    ("PUT", "/a/scale", "application/json"),
    ("POST", "/a/binding", "application/json"),
    ("PUT", "/a/finalize", "application/json"),
    ("DELETE", "/a", "application/json"),
    ("DELETE", "", "application/json"),
)


async def _populated() -> Api:
    api = fresh_api()
    quota = {"metadata": {"name": "a"}, "spec": {"hard": {"pods": "5", "requests.cpu": "5"}}}
    containers = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    objects: tuple[JsonObject, ...] = (
        pod("a", gates=("x",), spec={"containers": containers}),
        clique("a"),
        {"metadata": {"name": "a"}},
        node("a"),
        {"metadata": {"name": "a"}},
        quota,
    )
    for collection, obj in zip(_COLLECTIONS, objects, strict=True):
        assert (await api.post(collection, obj)).status == 201
    return api


def _encoded(body: Any) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


@pytest.mark.parametrize(("method", "suffix", "content_type"), _TARGETS)
@given(collection=st.sampled_from(_COLLECTIONS), bodies=st.lists(_BODIES, min_size=1, max_size=4))
@settings(max_examples=1500, deadline=None)
def test_rubbish_is_answered_with_a_status(
    method: str, suffix: str, content_type: str, collection: str, bodies: list[Any]
) -> None:
    async def story() -> None:
        api = await _populated()
        for body in bodies:
            revision = api.server.store.revision
            answer = await api.send_raw(method, collection + suffix, _encoded(body), content_type)
            assert answer.status < 500
            if answer.status >= 400:
                assert (answer.body["kind"], answer.body["code"]) == ("Status", answer.status)
                assert api.server.store.revision == revision
        for each in _COLLECTIONS:
            assert (await api.get(each)).status == 200

    run_virtual(story())
