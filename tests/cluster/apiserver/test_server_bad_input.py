"""Rubbish in, a Status out: no body makes the server fail, and a refused request leaves the store as it was."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grove.api.types.admission import AdmissionRequest, AdmissionResult
from grove.api.types.meta import JsonObject
from grove.kube.transport import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request
from grove.sim.virtual_clock import run_virtual
from tests.cluster.apidsl import (
    CLIQUES,
    CONFIGS,
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
    Api,
    clique,
    config,
    fresh_api,
    node,
    pod,
)
from tests.seeds import examples

_WORDS = st.sampled_from(
    [
        "name", "metadata", "spec", "status", "labels", "annotations", "finalizers", "ownerReferences", "uid",
        "containers", "schedulingGates", "resources", "requests", "limits", "cpu", "hard", "pods", "conditions", "type",
        "tolerations", "nodeName", "replicas", "preconditions", "gracePeriodSeconds", "propagationPolicy", "target",
        "op", "path", "value", "from", "add", "/metadata", "/spec/-", "$patch", "replace", "delete", "$retainKeys",
        "affinity", "nodeAffinity", "key", "operator", "data", "stringData", "ports", "nodeSelector",
        "kind", "apiVersion", "v1", "Pod", "a", "", "managedFields", "fieldsV1", "manager", "operation", "f:spec",
        "resourceVersion", "0", "creationTimestamp", "namespace",
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

_SECRETS = "/api/v1/namespaces/default/secrets"
_SERVICES = "/api/v1/namespaces/default/services"
_COLLECTIONS = (PODS, CLIQUES, CONFIGS, NODES, NAMESPACES, QUOTAS, _SECRETS, _SERVICES)
_TARGETS = (
    ("POST", "", "application/json"),
    ("PUT", "/a", "application/json"),
    ("PATCH", "/a", MERGE_PATCH),
    ("PATCH", "/a", JSON_PATCH),
    ("PATCH", "/a", STRATEGIC_PATCH),
    ("PATCH", "/a/status", MERGE_PATCH),
    ("PATCH", "/a/status", JSON_PATCH),
    ("PATCH", "/a/status", STRATEGIC_PATCH),
    ("PUT", "/a/status", "application/json"),
    ("PATCH", "/a/scale", MERGE_PATCH),
    ("PATCH", "/a/scale", JSON_PATCH),
    ("PUT", "/a/scale", "application/json"),
    ("POST", "/a/binding", "application/json"),
    ("PUT", "/a/finalize", "application/json"),
    ("DELETE", "/a", "application/json"),
    ("DELETE", "", "application/json"),
    ("PATCH", "/a", APPLY_PATCH),
    ("PATCH", "/new", APPLY_PATCH),
    ("PATCH", "/a/status", APPLY_PATCH),
    ("PATCH", "/a/scale", APPLY_PATCH),
)
# What is applied must say what it is, or nothing is read of it.
_HEADS: dict[str, JsonObject] = {
    PODS: {"apiVersion": "v1", "kind": "Pod"},
    CLIQUES: {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique"},
    CONFIGS: {"apiVersion": "v1", "kind": "ConfigMap"},
    NODES: {"apiVersion": "v1", "kind": "Node"},
    NAMESPACES: {"apiVersion": "v1", "kind": "Namespace"},
    QUOTAS: {"apiVersion": "v1", "kind": "ResourceQuota"},
    _SECRETS: {"apiVersion": "v1", "kind": "Secret"},
    _SERVICES: {"apiVersion": "v1", "kind": "Service"},
}


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
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}},
    )
    for collection, obj in zip(_COLLECTIONS, objects, strict=True):
        assert (await api.post(collection, obj)).status == 201
    return api


def test_a_bug_is_answered_with_a_status_and_the_server_goes_on() -> None:
    def broken(_: AdmissionRequest) -> AdmissionResult:
        raise ZeroDivisionError("a detail for the log only")

    async def story() -> None:
        api = fresh_api(admission=broken)
        revision = api.server.store.revision
        answer = await api.post(CLIQUES, clique("a"))
        assert answer.refusal[:2] == (500, "InternalError")
        assert "detail for the log" not in answer.refusal[2]
        assert api.server.store.revision == revision
        assert (await api.post(CONFIGS, config("a"))).status == 201

    run_virtual(story())


def _encoded(body: Any) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


@pytest.mark.parametrize(("method", "suffix", "content_type"), _TARGETS)
@given(
    collection=st.sampled_from(_COLLECTIONS),
    query=st.sampled_from([{}, {"fieldValidation": "Strict"}, {"fieldValidation": "Ignore"}, {"dryRun": "All"}]),
    bodies=st.lists(_BODIES, min_size=1, max_size=3),
)
@settings(max_examples=examples(200), deadline=None)
def test_rubbish_is_answered_with_a_status(
    method: str, suffix: str, content_type: str, collection: str, query: dict[str, str], bodies: list[Any]
) -> None:
    async def story() -> None:
        api = await _populated()
        for body in bodies:
            revision = api.server.store.revision
            is_applied = content_type == APPLY_PATCH
            sent = {**_HEADS[collection], **body} if is_applied and isinstance(body, dict) else body
            options = {**query, "fieldManager": "rubbish", "force": "true"} if is_applied else query
            answer = await api.send_raw(method, collection + suffix, _encoded(sent), content_type, **options)
            assert answer.status < 500
            if answer.status >= 400:
                assert (answer.body["kind"], answer.body["code"]) == ("Status", answer.status)
                assert api.server.store.revision == revision
        for each in _COLLECTIONS:
            assert (await api.get(each)).status == 200
            # Those who want to know who owns what are answered, too.
            assert api.server.handle(Request(method="GET", path=each, program="tests")).status == 200

    run_virtual(story())
