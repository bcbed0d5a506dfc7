"""Writes that wait for webhooks: nothing happens meanwhile, and what they were asked about is what is stored."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.admission.webhook_request import Call, CallFailure, CallResult, WebhookResult
from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.cluster.controllers.garbage_collector import GarbageCollector
from grove.cluster.controllers.namespace_defaults import NamespaceDefaults
from grove.kube.transport import MERGE_PATCH, Request
from tests.cluster.apidsl import Api, on_cluster

CONFIGS = "/api/v1/namespaces/default/configmaps"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
ALLOWED = WebhookResult(is_allowed=True)


class AdmissionHandler:
    """Takes part in the conversation: what is asked is kept, and answered as a test says."""

    def __init__(self, answer: Callable[[JsonObject], CallResult | Awaitable[CallResult]] = lambda _: ALLOWED) -> None:
        self.serve = answer
        self.asked: list[JsonObject] = []

    async def ask(self, call: Call, uid: str) -> CallResult:
        question: JsonObject = msgspec.json.decode(call.request)
        self.asked.append(question)
        answer = self.serve(question)
        return answer if isinstance(answer, WebhookResult | CallFailure) else await answer


async def judged(api: Api, judge: AdmissionHandler, *, plural: str = "validatingwebhookconfigurations") -> None:
    """Every write of a config map is asked about from now on."""
    api.server.enable_webhooks(judge.ask)
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps"]}
    webhook = {
        "name": "v.tests.example",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    made = await api.post(f"{WEBHOOKS}/{plural}", {"metadata": {"name": "judged"}, "webhooks": [webhook]})
    assert made.status == 201, made.body


def config(name: str, **metadata: object) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


@on_cluster
async def test_what_was_asked_about_is_what_is_stored(api: Api) -> None:
    judge = AdmissionHandler()
    await judged(api, judge)
    made = await api.post(CONFIGS, {"metadata": {"generateName": "made-"}})
    (asked,) = judge.asked
    for field in ("name", "uid", "creationTimestamp"):
        assert asked["object"]["metadata"][field] == made.body["metadata"][field]


@on_cluster
async def test_no_two_objects_are_alike_however_long_their_webhooks_take(api: Api) -> None:
    async def slow(question: JsonObject) -> CallResult:
        await api.clock.sleep(1)
        return ALLOWED

    await judged(api, AdmissionHandler(slow))
    made = await asyncio.gather(*(api.post(CONFIGS, {"metadata": {"generateName": "made-"}}) for _ in range(20)))
    assert {answer.status for answer in made} == {201}
    assert len({answer.body["metadata"]["uid"] for answer in made}) == 20


@on_cluster
async def test_a_patch_is_asked_about_again_when_the_object_changed_meanwhile(api: Api) -> None:
    await api.post(CONFIGS, config("a"))

    async def meddle(question: JsonObject) -> CallResult:
        if len(judge.asked) == 1:
            # In the place of another writer, past the webhooks.
            kind, store = BY_QUALIFIED["configmaps"], api.server.store
            entry = store.table(kind).find("default", "a")
            assert entry is not None
            store.put(kind, "default", "a", {**entry.obj, "data": {"other": "1"}})
        return ALLOWED

    judge = AdmissionHandler(meddle)
    await judged(api, judge)
    body = msgspec.json.encode({"data": {"mine": "1"}})
    request = Request(method="PATCH", path=f"{CONFIGS}/a", body=body, content_type=MERGE_PATCH)
    answer = await api.server.serve(request)
    found = msgspec.json.decode(answer.body)
    assert (answer.status, found["data"]) == (200, {"other": "1", "mine": "1"})
    assert [asked["object"]["data"] for asked in judge.asked] == [{"mine": "1"}, {"other": "1", "mine": "1"}]


@on_cluster
async def test_who_gives_up_while_webhooks_are_asked_has_done_nothing(api: Api) -> None:
    async def never(question: JsonObject) -> CallResult:
        await asyncio.Event().wait()
        return ALLOWED

    await judged(api, AdmissionHandler(never))
    writing = asyncio.create_task(api.post(CONFIGS, config("a")))
    await api.clock.sleep(1)
    writing.cancel()
    await asyncio.wait([writing])
    assert (await api.get(f"{CONFIGS}/a")).status == 404


@on_cluster
async def test_a_collection_goes_as_a_whole_or_not_at_all(api: Api) -> None:
    for name in ("a", "b", "c"):
        await api.post(CONFIGS, config(name))

    def keep_b(question: JsonObject) -> CallResult:
        is_b = question["oldObject"]["metadata"]["name"] == "b"
        return WebhookResult(is_allowed=not is_b, status={"message": "b stays"})

    await judged(api, AdmissionHandler(keep_b))
    refused = await api.delete(CONFIGS)
    assert (refused.status, "b stays" in refused.body["message"]) == (400, True)
    assert len((await api.get(CONFIGS)).body["items"]) == 3


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "add", "path": "/metadata/labels", "value": {"a": 1}}],
        [{"op": "add", "path": "/metadata/finalizers", "value": "x"}],
        [{"op": "replace", "path": "/metadata", "value": 5}],
        [{"op": "replace", "path": "", "value": None}],
        [{"op": "remove", "path": "/nothing"}],
        [5],
    ],
    ids=str,
)
@on_cluster
async def test_rubbish_that_a_webhook_makes_of_an_object_is_not_stored(api: Api, patch: list[object]) -> None:
    await judged(
        api,
        AdmissionHandler(lambda _: WebhookResult(is_allowed=True, patch=patch)),
        plural="mutatingwebhookconfigurations",
    )
    refused = await api.post(CONFIGS, config("a"))
    assert refused.body["kind"] == "Status"
    assert "this is a bug" not in refused.body["message"]
    assert (await api.get(f"{CONFIGS}/a")).status == 404


@on_cluster
async def test_without_a_configuration_nobody_is_asked(api: Api) -> None:
    judge = AdmissionHandler()
    await judged(api, judge)
    await api.delete(f"{WEBHOOKS}/validatingwebhookconfigurations/judged")
    await api.post(CONFIGS, config("a"))
    assert judge.asked == []


@on_cluster
async def test_whoever_calls_at_once_is_told_that_webhooks_cannot_be_asked(api: Api) -> None:
    await judged(api, AdmissionHandler())
    request = Request(method="POST", path=CONFIGS, body=msgspec.json.encode(config("a")))
    assert api.server.handle(request).status == 500
    assert (await api.get(f"{CONFIGS}/a")).status == 404


@pytest.mark.parametrize("refusal", [WebhookResult(is_allowed=False), CallFailure("down")], ids=["refused", "down"])
@on_cluster
async def test_garbage_is_tried_again_until_the_webhook_lets_it_go(api: Api, refusal: CallResult) -> None:
    owner = (await api.post(CONFIGS, config("owner"))).body["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    await api.post(CONFIGS, config("owned", ownerReferences=[reference]))
    collecting = asyncio.create_task(GarbageCollector(api.server).run())
    judge = AdmissionHandler(
        lambda question: refusal if question["oldObject"]["metadata"]["name"] == "owned" else ALLOWED
    )
    await judged(api, judge)
    await api.delete(f"{CONFIGS}/owner")
    await api.clock.sleep(10)
    assert (await api.get(f"{CONFIGS}/owned")).status == 200
    user = "system:serviceaccount:kube-system:generic-garbage-collector"
    assert {asked["userInfo"]["username"] for asked in judge.asked[1:]} == {user}
    assert len(judge.asked) > 5
    judge.serve = lambda _: ALLOWED
    await api.clock.sleep(5)
    assert (await api.get(f"{CONFIGS}/owned")).status == 404
    collecting.cancel()
    await asyncio.wait([collecting])


@on_cluster
async def test_a_namespace_is_emptied_by_its_controller(api: Api) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "leaving"}})
    path = "/api/v1/namespaces/leaving/configmaps"
    await api.post(path, config("a"))
    judge = AdmissionHandler()
    await judged(api, judge)
    collecting = asyncio.create_task(GarbageCollector(api.server).run())
    await api.delete("/api/v1/namespaces/leaving")
    await api.clock.sleep(5)
    assert (await api.get("/api/v1/namespaces/leaving")).status == 404
    (asked,) = judge.asked
    assert asked["userInfo"]["username"] == "system:serviceaccount:kube-system:namespace-controller"
    collecting.cancel()
    await asyncio.wait([collecting])


@on_cluster
async def test_a_namespace_is_furnished_again(api: Api) -> None:
    furnishing = asyncio.create_task(NamespaceDefaults(api.server, root_ca=b"PEM").run())
    await api.post("/api/v1/namespaces", {"metadata": {"name": "new"}})
    await api.clock.sleep(1)
    account, authority = (
        f"/api/v1/namespaces/new/{name}" for name in ("serviceaccounts/default", "configmaps/kube-root-ca.crt")
    )
    first = (await api.get(account)).body["metadata"]["uid"]
    assert (await api.get(authority)).body["data"] == {"ca.crt": "PEM"}
    await api.delete(account)
    await api.clock.sleep(1)
    assert (await api.get(account)).body["metadata"]["uid"] != first
    furnishing.cancel()
    await asyncio.wait([furnishing])


@on_cluster
async def test_the_first_roles_are_there_whoever_asks_first(api: Api) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    found = (await api.post(path, {"spec": {"namespace": "default"}})).body["status"]["resourceRules"]
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in found


# --- tokens in time --------------------------------------------------------------------------------------------------

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def _token(api: Api, seconds: int) -> str:
    await api.post(ACCOUNTS, {"metadata": {"name": "robot"}})
    answer = await api.post(f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": seconds}})
    token: str = answer.body["status"]["token"]
    return token


@on_cluster
async def test_a_token_ends_with_its_time(api: Api) -> None:
    api.server.authenticator.derive_key(b"secret")
    token = await _token(api, 600)
    await api.clock.sleep(598)
    assert api.server.authenticator.identify(token) is not None
    await api.clock.sleep(2)
    assert api.server.authenticator.identify(token) is None


@on_cluster
async def test_a_token_that_was_tampered_with_is_none(api: Api) -> None:
    token = await _token(api, 600)
    head, claims, signature = token.split(".")
    assert api.server.authenticator.identify(token) is not None
    other = "A" if claims[5] != "A" else "B"
    for changed in (f"{head}.{claims[:5]}{other}{claims[6:]}.{signature}", f"{head}.{claims}.", f"{head}.{claims}"):
        assert api.server.authenticator.identify(changed) is None


@on_cluster
async def test_a_cluster_with_the_same_secret_knows_the_token_and_another_does_not(api: Api) -> None:
    authenticator = api.server.authenticator
    authenticator.derive_key(b"one")
    token = await _token(api, 600)
    assert authenticator.identify(token) is not None
    authenticator.derive_key(b"two")
    assert authenticator.identify(token) is None
    authenticator.derive_key(b"one")
    assert authenticator.identify(token) is not None


@on_cluster
async def test_the_answer_tells_when_a_token_ends(api: Api) -> None:
    await api.post(ACCOUNTS, {"metadata": {"name": "robot"}})
    answer = await api.post(f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 900}})
    end = (api.clock.now() + timedelta(seconds=900)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert answer.body["status"]["expirationTimestamp"] == end
