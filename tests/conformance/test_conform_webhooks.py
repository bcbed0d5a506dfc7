"""Webhook configurations: whom the server asks about a write, and what it does with the answers."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any

import msgspec
import pytest
from aiohttp import web

from grove.api.types.meta import JsonObject
from tests.conformance.talk import METADATA, Answer, Talk, clique, config, pod
from tests.conformance.webhook_endpoint import Endpoint, allow, deny, patch

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
CONFIGS: JsonObject = {
    "operations": ["*"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}
_numbers = count()


@pytest.fixture(scope="module")
def endpoint(runner: asyncio.Runner) -> Iterator[Endpoint]:
    async def made() -> Endpoint:
        return Endpoint()

    one = runner.run(made())
    runner.run(one.start())
    yield one
    runner.run(one.stop())


def hook(name: str, client_config: JsonObject, *rules: JsonObject, **more: Any) -> JsonObject:
    return {
        "name": name,
        "clientConfig": client_config,
        "rules": list(rules) or [CONFIGS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


@asynccontextmanager
async def installed(
    api: Talk, endpoint: Endpoint, plural: str, *hooks: JsonObject, name: str = ""
) -> AsyncIterator[str]:
    """These webhooks, about the namespace of the test only, from when the server asks them until the end."""
    name = name or f"{api.namespace}-{next(_numbers)}"
    ours = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    probe_path = f"/probe-{name}"
    secrets = {**CONFIGS, "resources": ["secrets"]}
    labelled = {"matchLabels": {"probe": name}}
    probe = hook("probe.tests.example", endpoint.at(probe_path), secrets, objectSelector=labelled)
    webhooks = [{"namespaceSelector": ours, **one} for one in (probe, *hooks)]
    made = await api.post(api.at(plural), {"metadata": {"name": name}, "webhooks": webhooks})
    assert made.status == 201, made.body
    secret = {"metadata": {"name": "probe", "labels": {"probe": name}}}
    await api.until_answered(
        lambda: api.post(api.at("secrets"), secret, dryRun="All"), lambda _: endpoint.asked[probe_path]
    )
    # Whatever the probes caused is not the story's.
    for asked in endpoint.asked.values():
        asked.clear()
    try:
        yield name
    finally:
        await api.delete(api.at(plural, name))


def path_of(api: Talk) -> str:
    return f"/{api.namespace}"


# --- what is asked ---------------------------------------------------------------------------------------------------


async def test_a_creation_is_told_in_full(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here))):
        made = await api.create("configmaps", config("a", {"x": "1"}))
        (asked,) = endpoint.asked[here]
    kind, resource = {"group": "", "version": "v1", "kind": "ConfigMap"}, {"group": "", "version": "v1"}
    assert (asked["kind"], asked["requestKind"]) == (kind, kind)
    assert asked["resource"] == asked["requestResource"] == {**resource, "resource": "configmaps"}
    assert (asked["operation"], asked["name"], asked["namespace"]) == ("CREATE", "a", api.namespace)
    assert (asked["oldObject"], asked["dryRun"]) == (None, False)
    assert asked["options"]["kind"] == "CreateOptions"
    assert asked["options"]["apiVersion"] == "meta.k8s.io/v1"
    assert asked["userInfo"]["groups"] == ["system:masters", "system:authenticated"]
    assert asked["object"]["data"] == {"x": "1"}
    assert asked["object"]["metadata"]["uid"] == made.metadata["uid"]
    assert (asked["object"]["kind"], asked["object"]["apiVersion"]) == ("ConfigMap", "v1")
    assert endpoint.queries[here][-1] == "timeout=10s"


async def test_who_changes_an_object_sees_it_before_it_is_born(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    async with installed(api, endpoint, MUTATING, hook("m.tests.example", endpoint.at(here))):
        await api.create("configmaps", {"metadata": {"generateName": "made-"}})
        (asked,) = endpoint.asked[here]
    metadata = asked["object"]["metadata"]
    assert (metadata["generateName"], metadata["namespace"]) == ("made-", api.namespace)
    assert {"uid", "resourceVersion", "name"}.isdisjoint(metadata)
    assert asked.get("name", "") == ""


async def test_an_update_is_told_with_what_was_before(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    await api.create("configmaps", config("a", {"x": "1"}))
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here))):
        await api.merge(api.at("configmaps", "a"), {"data": {"x": "2"}})
        # A real server that does not know yet what was just written asks about it as it was, and then once more.
        await api.caught_up("configmaps", ["a"], fieldSelector="metadata.name=a")
        await api.put(api.at("configmaps", "a"), config("a", {"x": "3"}))
        patched, put = endpoint.asked[here]
    assert [asked["operation"] for asked in (patched, put)] == ["UPDATE", "UPDATE"]
    assert [asked["oldObject"]["data"]["x"] for asked in (patched, put)] == ["1", "2"]
    assert [asked["object"]["data"]["x"] for asked in (patched, put)] == ["2", "3"]
    assert [asked["name"] for asked in (patched, put)] == ["a", "a"]
    assert put["options"]["kind"] == "UpdateOptions"


async def test_a_deletion_is_told_by_what_goes(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    await api.create("configmaps", config("a", {"x": "1"}))
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here))):
        await api.delete(api.at("configmaps", "a"))
        (asked,) = endpoint.asked[here]
    assert (asked["operation"], asked["object"], asked["oldObject"]["data"]) == ("DELETE", None, {"x": "1"})
    assert (asked["name"], asked["options"]["kind"]) == ("a", "DeleteOptions")


async def test_every_object_of_a_collection_is_asked_about(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    for name in ("a", "b"):
        await api.create("configmaps", config(name, labels={"own": "yes"}))
    only = {"objectSelector": {"matchLabels": {"own": "yes"}}}
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here), **only)):
        await api.delete(api.at("configmaps"), labelSelector="own=yes")
        asked = endpoint.asked[here]
    assert sorted(one["oldObject"]["metadata"]["name"] for one in asked) == ["a", "b"]
    assert {one["operation"] for one in asked} == {"DELETE"}


async def test_a_status_is_a_resource_of_its_own(api: Talk, endpoint: Endpoint) -> None:
    here, there = f"{path_of(api)}/pods", f"{path_of(api)}/status"
    await api.create("pods", pod("p"))
    rules = [{**CONFIGS, "operations": ["UPDATE"], "resources": [resource]} for resource in ("pods", "pods/status")]
    hooks = [
        hook(f"{name}.tests.example", endpoint.at(path), rule)
        for name, path, rule in (("pods", here, rules[0]), ("status", there, rules[1]))
    ]
    async with installed(api, endpoint, VALIDATING, *hooks):
        await api.merge(api.at("pods", "p", "status"), {"status": {"reason": "Told"}})
        assert endpoint.asked[here] == []
        (asked,) = endpoint.asked[there]
    assert (asked["subResource"], asked["requestSubResource"]) == ("status", "status")
    assert asked["object"]["status"]["reason"] == "Told"
    assert asked["resource"]["resource"] == "pods"


async def test_a_scale_is_told_as_such(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    await api.create("podcliques", clique("c", spec={"replicas": 2}))
    rule = {
        "operations": ["UPDATE"],
        "apiGroups": ["grove.io"],
        "apiVersions": ["*"],
        "resources": ["podcliques/scale"],
    }
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here), rule)):
        answer = await api.merge(api.at("podcliques", "c", "scale"), {"spec": {"replicas": 3}})
        assert answer.status == 200, answer.body
        (asked,) = endpoint.asked[here]
    assert asked["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert asked["resource"] == {"group": "grove.io", "version": "v1alpha1", "resource": "podcliques"}
    assert (asked["object"]["spec"], asked["oldObject"]["spec"]) == ({"replicas": 3}, {"replicas": 2})
    assert asked["subResource"] == "scale"


@pytest.mark.parametrize(
    ("rule", "is_asked"),
    [
        ({"operations": ["CREATE"]}, True),
        ({"operations": ["UPDATE", "DELETE"]}, False),
        ({"apiGroups": ["*"]}, True),
        ({"apiGroups": ["apps"]}, False),
        ({"apiVersions": ["*"]}, True),
        ({"apiVersions": ["v2"]}, False),
        ({"resources": ["*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["secrets"]}, False),
        ({"resources": ["configmaps/status"]}, False),
        ({"resources": ["configmaps/*"]}, True),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
        ({"scope": "*"}, True),
    ],
    ids=str,
)
async def test_rules_say_what_is_asked_about(api: Talk, endpoint: Endpoint, rule: JsonObject, is_asked: bool) -> None:
    here = path_of(api)
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here), {**CONFIGS, **rule})):
        await api.create("configmaps", config("a"))
        assert len(endpoint.asked[here]) == int(is_asked)


@pytest.mark.parametrize(
    ("selector", "labels", "is_asked"),
    [
        ({"matchLabels": {"tier": "gold"}}, {"tier": "gold"}, True),
        ({"matchLabels": {"tier": "gold"}}, {"tier": "tin"}, False),
        ({"matchLabels": {"tier": "gold"}}, {}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}, {"tier": "b"}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["a"]}]}, {}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, {}, True),
    ],
)
async def test_labels_say_what_is_asked_about(
    api: Talk, endpoint: Endpoint, selector: JsonObject, labels: JsonObject, is_asked: bool
) -> None:
    here = path_of(api)
    one = hook("v.tests.example", endpoint.at(here), objectSelector=selector)
    async with installed(api, endpoint, VALIDATING, one):
        await api.create("configmaps", config("a", labels=labels))
        assert len(endpoint.asked[here]) == int(is_asked)


async def test_labels_that_go_away_still_count(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    await api.create("configmaps", config("a", labels={"tier": "gold"}))
    one = hook("v.tests.example", endpoint.at(here), objectSelector={"matchLabels": {"tier": "gold"}})
    async with installed(api, endpoint, VALIDATING, one):
        await api.merge(api.at("configmaps", "a"), {"metadata": {"labels": None}})
        assert len(endpoint.asked[here]) == 1


async def test_a_namespace_may_be_left_out(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    other = {"matchLabels": {"kubernetes.io/metadata.name": "somewhere-else"}}
    async with installed(
        api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here), namespaceSelector=other)
    ):
        await api.create("configmaps", config("a"))
        assert endpoint.asked[here] == []


async def test_reading_is_nobodys_business(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    await api.create("configmaps", config("a"))
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here))):
        await api.get(api.at("configmaps", "a"))
        await api.get(api.at("configmaps"), accept=METADATA + "," + "application/json")
        assert endpoint.asked[here] == []


# --- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plural", [VALIDATING, MUTATING])
@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        ({}, (400, "", "without explanation")),
        ({"message": "no such thing"}, (400, "", ": no such thing")),
        ({"reason": "Forbidden", "code": 403}, (403, "Forbidden", ": Forbidden")),
        ({"message": "too much", "reason": "Invalid", "code": 422}, (422, "Invalid", ": too much")),
        ({"message": "odd", "code": 200}, (400, "", ": odd")),
    ],
    ids=["bare", "message", "reason", "all", "success-code"],
)
async def test_a_refusal_is_told_in_the_webhooks_words(
    api: Talk, endpoint: Endpoint, plural: str, status: JsonObject, refusal: tuple[int, str, str]
) -> None:
    here = path_of(api)
    async with installed(api, endpoint, plural, hook("v.tests.example", endpoint.at(here, deny(**status)))):
        refused = await api.post(api.at("configmaps"), config("a"))
    code, reason, words = refusal
    denied = 'admission webhook "v.tests.example" denied the request'
    space = "" if words.startswith(":") else " "
    assert refused.refusal == (code, reason, f"{denied}{space}{words}")
    assert (await api.get(api.at("configmaps", "a"))).status == 404


async def test_a_refused_deletion_leaves_everything(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    await api.create("configmaps", config("a"))
    async with installed(
        api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here, deny(message="keep it")))
    ):
        refused = await api.delete(api.at("configmaps", "a"))
        assert refused.refusal[2].endswith("denied the request: keep it")
    found = await api.get(api.at("configmaps", "a"))
    assert "deletionTimestamp" not in found.metadata


async def test_warnings_reach_the_client(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    answer = {"allowed": True, "warnings": ["mind the gap", 'say "x"']}
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here, lambda _: answer))):
        made = await api.create("configmaps", config("a"))
    assert made.warnings == ['299 - "mind the gap"', '299 - "say \\"x\\""']


async def test_an_object_is_changed_on_its_way(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    change = patch(
        {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}},
        {"op": "add", "path": "/data/y", "value": "2"},
    )
    async with installed(api, endpoint, MUTATING, hook("m.tests.example", endpoint.at(here, change))):
        made = await api.create("configmaps", config("a", {"x": "1"}))
    assert (made.metadata["labels"], made.body["data"]) == ({"seen": "yes"}, {"x": "1", "y": "2"})
    assert (await api.get(api.at("configmaps", "a"))).body["data"] == {"x": "1", "y": "2"}


async def test_an_update_is_changed_on_its_way(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    await api.create("configmaps", config("a", {"x": "1"}))
    change = patch({"op": "replace", "path": "/data/x", "value": "corrected"})
    async with installed(api, endpoint, MUTATING, hook("m.tests.example", endpoint.at(here, change))):
        changed = await api.merge(api.at("configmaps", "a"), {"data": {"x": "2"}})
    assert changed.body["data"] == {"x": "corrected"}


async def test_what_a_webhook_adds_gets_its_defaults(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    sidecar = {"name": "sidecar", "image": "registry.example/sidecar"}
    change = patch({"op": "add", "path": "/spec/containers/-", "value": sidecar})
    rule = {**CONFIGS, "operations": ["CREATE"], "resources": ["pods"]}
    async with installed(api, endpoint, MUTATING, hook("m.tests.example", endpoint.at(here, change), rule)):
        made = await api.create("pods", pod("p"))
    _, added = made.spec["containers"]
    assert (added["name"], added["imagePullPolicy"]) == ("sidecar", "Always")


async def test_what_a_webhook_makes_is_validated(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    change = patch({"op": "add", "path": "/data", "value": {"not legal": "x"}})
    async with installed(api, endpoint, MUTATING, hook("m.tests.example", endpoint.at(here, change))):
        refused = await api.post(api.at("configmaps"), config("a"))
    assert refused.refusal[:2] == (422, "Invalid")
    assert "data[not legal]" in refused.refusal[2]


async def test_webhooks_are_asked_in_the_order_of_their_names(api: Talk, endpoint: Endpoint) -> None:
    first, second = f"{path_of(api)}/1", f"{path_of(api)}/2"
    change = patch({"op": "add", "path": "/data", "value": {"by": "first"}})
    late = hook("late.tests.example", endpoint.at(second))
    early = hook("early.tests.example", endpoint.at(first, change))
    async with (
        installed(api, endpoint, MUTATING, late, name=f"{api.namespace}-b"),
        installed(api, endpoint, MUTATING, early, name=f"{api.namespace}-a"),
    ):
        await api.create("configmaps", config("x"))
        (asked,) = endpoint.asked[second]
    assert asked["object"]["data"] == {"by": "first"}


async def test_validating_webhooks_see_what_mutating_ones_made(api: Talk, endpoint: Endpoint) -> None:
    changing, judging = f"{path_of(api)}/m", f"{path_of(api)}/v"
    change = patch({"op": "add", "path": "/data", "value": {"by": "webhook"}})
    async with (
        installed(api, endpoint, MUTATING, hook("m.tests.example", endpoint.at(changing, change))),
        installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(judging))),
    ):
        await api.create("configmaps", config("x"))
        (asked,) = endpoint.asked[judging]
    assert asked["object"]["data"] == {"by": "webhook"}


@pytest.mark.parametrize(("policy", "times"), [("IfNeeded", 2), ("Never", 1)])
async def test_a_webhook_may_want_to_see_what_came_after_it(
    api: Talk, endpoint: Endpoint, policy: str, times: int
) -> None:
    first, second = f"{path_of(api)}/1", f"{path_of(api)}/2"
    change = patch({"op": "add", "path": "/data", "value": {"by": "second"}})
    hooks = (
        hook("a.tests.example", endpoint.at(first), reinvocationPolicy=policy),
        hook("b.tests.example", endpoint.at(second, change)),
    )
    async with installed(api, endpoint, MUTATING, *hooks):
        await api.create("configmaps", config("x"))
        assert (len(endpoint.asked[first]), len(endpoint.asked[second])) == (times, 1)
        assert endpoint.asked[first][-1]["object"].get("data") == ({"by": "second"} if times == 2 else None)


async def test_a_webhook_cannot_change_what_goes(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    await api.create("configmaps", config("a"))
    change = patch({"op": "add", "path": "/data", "value": {}})
    async with installed(api, endpoint, MUTATING, hook("m.tests.example", endpoint.at(here, change))):
        refused = await api.delete(api.at("configmaps", "a"))
    words = (
        'Internal error occurred: admission webhook "m.tests.example" attempted to modify the object, which is not '
        "supported for this operation"
    )
    assert refused.refusal == (500, "InternalError", words)


async def test_of_several_refusals_one_is_told(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    hooks = [hook(f"{name}.tests.example", endpoint.at(f"{here}/{name}", deny(message=name))) for name in ("a", "b")]
    async with installed(api, endpoint, VALIDATING, *hooks):
        refused = await api.post(api.at("configmaps"), config("x"))
        assert [len(endpoint.asked[f"{here}/{name}"]) for name in ("a", "b")] == [1, 1]
    assert refused.refusal[2] in {
        f'admission webhook "{name}.tests.example" denied the request: {name}' for name in ("a", "b")
    }


# --- dry runs --------------------------------------------------------------------------------------------------------


async def test_a_dry_run_is_told_as_such(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here))):
        await api.post(api.at("configmaps"), config("a"), dryRun="All")
        (asked,) = endpoint.asked[here]
    assert (asked["dryRun"], asked["options"]["dryRun"]) == (True, ["All"])


@pytest.mark.parametrize("effects", ["None", "NoneOnDryRun"])
async def test_side_effects_are_declared(api: Talk, endpoint: Endpoint, effects: str) -> None:
    here = path_of(api)
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here), sideEffects=effects)):
        assert (await api.post(api.at("configmaps"), config("a"), dryRun="All")).status == 201


# --- webhooks that do not answer -------------------------------------------------------------------------------------


@contextmanager
def closed_port() -> Iterator[int]:
    """It is ours until the end of the block, and nobody listens there."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield int(one.getsockname()[1])


async def test_a_webhook_that_is_down_stops_the_write(api: Talk, endpoint: Endpoint) -> None:
    with closed_port() as port:
        down = {"url": f"https://127.0.0.1:{port}/x", "caBundle": endpoint.ca_bundle}
        async with installed(api, endpoint, VALIDATING, hook("v.tests.example", down)):
            refused = await api.post(api.at("configmaps"), config("a"))
    why = (
        f'failed calling webhook "v.tests.example": failed to call webhook: Post '
        f'"https://127.0.0.1:{port}/x?timeout=10s": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )
    assert refused.refusal == (500, "InternalError", f"Internal error occurred: {why}")
    assert refused.details == {"causes": [{"message": why}]}


async def test_a_service_that_nobody_made_is_missed(api: Talk, endpoint: Endpoint) -> None:
    service = {"namespace": api.namespace, "name": "nobody", "path": "/x", "port": 8443}
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", {"service": service})):
        refused = await api.post(api.at("configmaps"), config("a"))
    url = f"https://nobody.{api.namespace}.svc:8443/x?timeout=10s"
    why = f'failed to call webhook: Post "{url}": service "nobody" not found'
    words = f'Internal error occurred: failed calling webhook "v.tests.example": {why}'
    assert refused.refusal == (500, "InternalError", words)


async def test_a_service_may_stand_for_a_host_outside(api: Talk, endpoint: Endpoint) -> None:
    # Whose certificate is not for the name of the Service, which shows that it was reached.
    outside = {"type": "ExternalName", "externalName": "localhost"}
    await api.create("services", {"metadata": {"name": "outside"}, "spec": outside})
    port = int(endpoint.url.rpartition(":")[2])
    service = {"namespace": api.namespace, "name": "outside", "port": port}
    client = {"service": service, "caBundle": endpoint.ca_bundle}
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", client)):
        # A real server learns of services a moment later.
        refused = await api.until_answered(
            lambda: api.post(api.at("configmaps"), config("a")),
            lambda answer: 'service "outside" not found' not in answer.refusal[2],
        )
    assert refused.refusal[:2] == (500, "InternalError")
    url = f"https://outside.{api.namespace}.svc:{port}/?timeout=10s"
    assert f'Post "{url}": tls: failed to verify certificate' in refused.refusal[2]


@pytest.mark.parametrize("plural", [VALIDATING, MUTATING])
async def test_a_webhook_that_is_down_may_be_ignored(api: Talk, endpoint: Endpoint, plural: str) -> None:
    with closed_port() as port:
        down = {"url": f"https://127.0.0.1:{port}/x", "caBundle": endpoint.ca_bundle}
        async with installed(api, endpoint, plural, hook("v.tests.example", down, failurePolicy="Ignore")):
            assert (await api.post(api.at("configmaps"), config("a"))).status == 201


async def test_a_refusal_is_not_ignored(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    one = hook("v.tests.example", endpoint.at(here, deny(message="no")), failurePolicy="Ignore")
    async with installed(api, endpoint, VALIDATING, one):
        assert (await api.post(api.at("configmaps"), config("a"))).status == 400


async def test_a_stranger_is_not_believed(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    trusting_another = {**endpoint.at(here), "caBundle": Endpoint().ca_bundle}
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", trusting_another)):
        refused = await api.post(api.at("configmaps"), config("a"))
        assert endpoint.asked[here] == []
    start = 'Internal error occurred: failed calling webhook "v.tests.example": failed to call webhook: Post '
    assert refused.refusal[:2] == (500, "InternalError")
    assert refused.refusal[2].startswith(start)
    assert "certificate" in refused.refusal[2]


async def test_a_webhook_that_takes_too_long_is_given_up(api: Talk, endpoint: Endpoint) -> None:
    # A port that takes connections and never speaks.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/x"
        slow = hook("v.tests.example", {"url": url, "caBundle": endpoint.ca_bundle}, timeoutSeconds=1)
        async with installed(api, endpoint, VALIDATING, slow):
            refused = await api.post(api.at("configmaps"), config("a"))
    why = f'failed to call webhook: Post "{url}?timeout=1s": context deadline exceeded'
    words = f'Internal error occurred: failed calling webhook "v.tests.example": {why}'
    assert refused.refusal == (500, "InternalError", words)


def raw(status: int, body: Any, content_type: str = "application/json") -> web.Response:
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return web.Response(status=status, body=content, content_type=content_type)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (raw(404, b""), "failed to call webhook: the server could not find the requested resource"),
        (
            raw(500, b"broken\n", "text/plain"),
            'failed to call webhook: an error on the server ("broken") has prevented the request from succeeding',
        ),
        (
            raw(500, {"oh": "no"}),
            'failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding',
        ),
        (
            raw(200, {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}),
            "received invalid webhook response: webhook response was absent",
        ),
        (
            raw(200, {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "?"}}),
            'received invalid webhook response: expected response.uid="{uid}", got "?"',
        ),
    ],
    ids=["not-found", "text", "error", "no-response", "other-uid"],
)
async def test_an_answer_that_is_none_stops_the_write(
    api: Talk, endpoint: Endpoint, answer: web.Response, why: str
) -> None:
    here = path_of(api)
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here, answer))):
        refused = await api.post(api.at("configmaps"), config("a"))
        uid = endpoint.asked[here][0]["uid"]
    words = f'Internal error occurred: failed calling webhook "v.tests.example": {why.replace("{uid}", uid)}'
    assert refused.refusal == (500, "InternalError", words)


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ({"patch": "W10="}, "webhook returned response.patch but not response.patchType"),
        ({"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch"),
    ],
)
async def test_a_patch_says_of_which_type_it_is(api: Talk, endpoint: Endpoint, response: JsonObject, why: str) -> None:
    here = path_of(api)
    answer = {"allowed": True, **response}
    async with installed(api, endpoint, MUTATING, hook("m.tests.example", endpoint.at(here, lambda _: answer))):
        refused = await api.post(api.at("configmaps"), config("a"))
    words = 'Internal error occurred: failed calling webhook "m.tests.example": received invalid webhook response: '
    assert refused.refusal == (500, "InternalError", words + why)


async def test_who_judges_changes_nothing(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    change = patch({"op": "add", "path": "/data", "value": {}})
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here, change))):
        refused = await api.post(api.at("configmaps"), config("a"))
    why = "received invalid webhook response: validating webhook may not return response.patch"
    words = f'Internal error occurred: failed calling webhook "v.tests.example": {why}'
    assert refused.refusal == (500, "InternalError", words)


# --- conditions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "is_asked"),
    [
        ("request.operation == 'CREATE'", True),
        ("object.metadata.name == 'b'", False),
        ("has(object.data) && object.data.x == '1'", True),
        ("oldObject == null", True),
        ("request.userInfo.groups.exists(g, g == 'system:masters')", True),
        ("object.metadata.?labels[?'tier'].orValue('none') == 'none'", True),
        ("object.?data.?y.hasValue()", False),
        ("request.namespace.startsWith('test-') && request.resource.resource in ['configmaps']", True),
        ("object.metadata.name.matches('^[a-c]$') && size(object.data) == 1", True),
    ],
)
async def test_conditions_say_what_is_asked_about(
    api: Talk, endpoint: Endpoint, expression: str, is_asked: bool
) -> None:
    here = path_of(api)
    conditions = [{"name": "it-matters", "expression": expression}]
    one = hook("v.tests.example", endpoint.at(here), matchConditions=conditions)
    async with installed(api, endpoint, VALIDATING, one):
        await api.create("configmaps", config("a", {"x": "1"}))
        assert len(endpoint.asked[here]) == int(is_asked)


@pytest.mark.parametrize(("policy", "status"), [("Fail", 403), ("Ignore", 201)])
async def test_a_condition_that_fails_is_like_a_webhook_that_does(
    api: Talk, endpoint: Endpoint, policy: str, status: int
) -> None:
    here = path_of(api)
    conditions = [{"name": "fails", "expression": "object.data.missing == 'x'"}]
    one = hook("v.tests.example", endpoint.at(here), matchConditions=conditions, failurePolicy=policy)
    async with installed(api, endpoint, VALIDATING, one):
        answer = await api.post(api.at("configmaps"), config("a", {"x": "1"}))
        assert endpoint.asked[here] == []
    assert answer.status == status


async def test_one_false_condition_is_enough(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    expressions = ("object.data.missing == 'x'", "false")
    conditions = [{"name": f"c{index}", "expression": text} for index, text in enumerate(expressions)]
    async with installed(
        api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here), matchConditions=conditions)
    ):
        assert (await api.post(api.at("configmaps"), config("a", {"x": "1"}))).status == 201
        assert endpoint.asked[here] == []


# --- configurations as objects ---------------------------------------------------------------------------------------


async def create_configuration(api: Talk, plural: str, *hooks: JsonObject) -> Answer:
    return await api.post(
        api.at(plural), {"metadata": {"name": f"{api.namespace}-c"}, "webhooks": list(hooks)}, dryRun="All"
    )


async def test_a_configuration_is_completed(api: Talk) -> None:
    bare = hook("m.tests.example", {"url": "https://127.0.0.1:1/x"})
    made = await create_configuration(api, MUTATING, bare)
    assert made.status == 201, made.body
    (found,) = made.body["webhooks"]
    assert {key: found[key] for key in found if key not in bare} == {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }
    assert found["rules"] == [{**CONFIGS, "scope": "*"}]
    (judging,) = (await create_configuration(api, VALIDATING, bare)).body["webhooks"]
    assert "reinvocationPolicy" not in judging


async def test_a_service_has_a_port(api: Talk) -> None:
    one = hook("m.tests.example", {"service": {"name": "s", "namespace": "n"}})
    (found,) = (await create_configuration(api, MUTATING, one)).body["webhooks"]
    assert found["clientConfig"] == {"service": {"name": "s", "namespace": "n", "port": 443}}


URL: JsonObject = {"url": "https://127.0.0.1:1/x"}


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (
            hook("short", URL),
            (
                'webhooks[0].name: Invalid value: "short": should be a domain with at least three segments '
                "separated by dots"
            ),
        ),
        (hook("a.b.c", {}), "webhooks[0].clientConfig: Required value: exactly one of url or service is required"),
        (
            hook("a.b.c", {"url": "http://x"}),
            (
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only "
                "allowed URL scheme; desired format: https://host[/path]"
            ),
        ),
        (
            hook("a.b.c", {"url": "https://x?a=b"}),
            ('webhooks[0].clientConfig.url: Invalid value: "a=b": query parameters are not permitted in the URL'),
        ),
        (
            hook("a.b.c", URL, sideEffects="Some"),
            ('webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'),
        ),
        (
            hook("a.b.c", URL, timeoutSeconds=31),
            ("webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"),
        ),
        (
            hook("a.b.c", URL, timeoutSeconds=0),
            ("webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds"),
        ),
        (
            hook("a.b.c", URL, failurePolicy="Panic"),
            ('webhooks[0].failurePolicy: Unsupported value: "Panic": supported values: "Fail", "Ignore"'),
        ),
        (
            hook("a.b.c", URL, matchPolicy="Some"),
            ('webhooks[0].matchPolicy: Unsupported value: "Some": supported values: "Equivalent", "Exact"'),
        ),
        (
            hook("a.b.c", URL, admissionReviewVersions=[]),
            ("webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"),
        ),
        (
            hook("a.b.c", URL, admissionReviewVersions=["v9"]),
            ('webhooks[0].admissionReviewVersions: Invalid value: ["v9"]: must include at least one of v1, v1beta1'),
        ),
        (
            hook("a.b.c", URL, {**CONFIGS, "operations": ["READ"]}),
            (
                "webhooks[0].rules[0].operations[0]: Unsupported "
                'value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"'
            ),
        ),
        (hook("a.b.c", URL, {**CONFIGS, "apiGroups": []}), "webhooks[0].rules[0].apiGroups: Required value"),
        (hook("a.b.c", URL, {**CONFIGS, "resources": []}), "webhooks[0].rules[0].resources: Required value"),
        (
            hook("a.b.c", URL, {**CONFIGS, "apiVersions": ["*", "v1"]}),
            (
                "webhooks[0].rules[0].apiVersions: Invalid value: "
                '["*","v1"]: if \'*\' is present, must not specify other API versions'
            ),
        ),
        (
            hook("a.b.c", URL, {**CONFIGS, "scope": "Wide"}),
            ('webhooks[0].rules[0].scope: Unsupported value: "Wide": supported values: "*", "Cluster", "Namespaced"'),
        ),
        (
            hook("a.b.c", URL, matchConditions=[{"name": "x", "expression": ""}]),
            "webhooks[0].matchConditions[0].expression: Required value",
        ),
    ],
    ids=[
        "name",
        "client",
        "scheme",
        "query",
        "effects",
        "long",
        "zero",
        "policy",
        "match",
        "versions",
        "version",
        "operation",
        "groups",
        "resources",
        "wildcard",
        "scope",
        "condition",
    ],
)
async def test_a_webhook_that_makes_no_sense_is_refused(api: Talk, one: JsonObject, problem: str) -> None:
    refused = await create_configuration(api, VALIDATING, one)
    name = f'ValidatingWebhookConfiguration.admissionregistration.k8s.io "{api.namespace}-c" is invalid'
    assert refused.refusal == (422, "Invalid", f"{name}: {problem}")


@pytest.mark.parametrize("webhooks", ["x", [1], [{"name": 5}], [{"name": "a.b.c", "rules": "all"}]], ids=str)
async def test_webhooks_of_another_shape_are_refused(api: Talk, webhooks: Any) -> None:
    body = {"metadata": {"name": f"{api.namespace}-c"}, "webhooks": webhooks}
    code, reason, words = (await api.post(api.at(VALIDATING), body, dryRun="All")).refusal
    assert (code, reason, "cannot be handled as a" in words) == (400, "BadRequest", True)


async def test_every_name_stands_once_among_those_that_change(api: Talk) -> None:
    refused = await create_configuration(api, MUTATING, hook("a.b.c", URL), hook("a.b.c", URL))
    assert refused.refusal[2].endswith('webhooks[1].name: Duplicate value: "a.b.c"')


async def test_nobody_is_asked_about_webhooks(api: Talk, endpoint: Endpoint) -> None:
    here = path_of(api)
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    everything = hook(
        "v.tests.example", endpoint.at(here, allow), rule, namespaceSelector={},
        objectSelector={"matchLabels": {"own": api.namespace}},
    )  # fmt: skip
    async with installed(api, endpoint, VALIDATING, everything):
        body = {"metadata": {"name": f"{api.namespace}-other", "labels": {"own": api.namespace}}}
        assert (await api.post(api.at(VALIDATING), body, dryRun="All")).status == 201
        assert endpoint.asked[here] == []
        await api.create("configmaps", config("a", labels={"own": api.namespace}))
        assert len(endpoint.asked[here]) == 1
