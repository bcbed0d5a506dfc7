"""POST pods/NAME/eviction: who goes, who is held back by a budget, and what a pod that goes says."""

import asyncio
from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from grove.kube.kubeconfig import Access
from tests.conformance.budgets import (
    BUDGETS,
    become,
    budget,
    counted,
    evict,
    eviction,
    guarded,
    guarding,
    running,
)
from tests.conformance.talk import Answer, Talk, bound, pod
from tests.conformance.test_conform_protobuf import PROTOBUF
from tests.conformance.test_conform_rbac import allowed, as_account, user
from tests.conformance.test_conform_webhooks import VALIDATING, endpoint, hook, installed, path_of
from tests.conformance.webhook_endpoint import Endpoint, deny
from tests.conformance.words import NO_SUCH_METHOD, NO_SUCH_RESOURCE
from tests.protobuf_wire import body, field

__all__ = ["endpoint"]

SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
OVERDRAWN = "Cannot evict pod as it would violate the pod's disruption budget."


def grace_of(answer: Answer) -> Any:
    return answer.metadata.get("deletionGracePeriodSeconds")


async def test_an_evicted_pod_leaves_and_says_why(api: Talk) -> None:
    await running(api, "a")
    answer = await evict(api, "a")
    assert (answer.status, answer.body) == (201, SUCCESS)
    left = await api.get(api.at("pods", "a"))
    assert (grace_of(left), left.metadata["generation"]) == (30, 2)
    (reason,) = [each for each in left.body["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert reason.pop("lastTransitionTime") > "2026"
    assert reason == {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }


async def test_what_the_pod_said_before_stays(api: Talk) -> None:
    await running(api, "a")
    await evict(api, "a")
    status = (await api.get(api.at("pods", "a"))).body["status"]
    assert [each["type"] for each in status["conditions"]] == ["Ready", "DisruptionTarget"]
    assert status["phase"] == "Running"


async def test_a_pod_that_leaves_may_be_evicted_again(api: Talk) -> None:
    await running(api, "a")
    await evict(api, "a")
    before = await api.get(api.at("pods", "a"))
    assert (await evict(api, "a")).status == 201
    assert (await api.get(api.at("pods", "a"))).body["status"] == before.body["status"]


async def test_a_pod_that_leaves_by_itself_is_told_to_be_evicted(api: Talk) -> None:
    await running(api, "a")
    await api.delete(api.at("pods", "a"))
    assert (await evict(api, "a")).status == 201
    conditions = (await api.get(api.at("pods", "a"))).body["status"]["conditions"]
    assert [each["type"] for each in conditions] == ["Ready", "DisruptionTarget"]


async def test_a_pod_that_is_nowhere_goes_at_once(api: Talk) -> None:
    await api.create("pods", pod("a"))
    assert (await evict(api, "a")).body == SUCCESS
    assert (await api.get(api.at("pods", "a"))).status == 404


async def test_watchers_see_the_reason_before_the_end(api: Talk) -> None:
    await api.create("pods", pod("a"))
    version = (await api.get(api.at("pods"))).metadata["resourceVersion"]
    await evict(api, "a")
    async with api.watch(api.at("pods"), resourceVersion=version) as watched:
        first, second, third = [await watched.event() for _ in range(3)]
    assert [each["type"] for each in (first, second, third)] == ["MODIFIED", "MODIFIED", "DELETED"]
    assert first["object"]["status"]["conditions"][-1]["type"] == "DisruptionTarget"
    assert "deletionTimestamp" not in first["object"]["metadata"]
    assert "deletionTimestamp" in second["object"]["metadata"]


async def test_the_reason_belongs_to_nobody(api: Talk) -> None:
    await running(api, "a")
    before = (await api.get(api.at("pods", "a"))).metadata["managedFields"]
    await evict(api, "a")
    assert (await api.get(api.at("pods", "a"))).metadata["managedFields"] == before


# Options


@pytest.mark.parametrize(("grace", "left"), [(3, 3), (-3, 1), (60, 60)])
async def test_an_eviction_may_say_how_long_a_pod_may_take(api: Talk, grace: int, left: int) -> None:
    await running(api, "a")
    assert (await evict(api, "a", {"gracePeriodSeconds": grace})).status == 201
    assert grace_of(await api.get(api.at("pods", "a"))) == left


async def test_an_eviction_may_leave_no_time(api: Talk) -> None:
    await running(api, "a")
    assert (await evict(api, "a", {"gracePeriodSeconds": 0})).status == 201
    assert (await api.get(api.at("pods", "a"))).status == 404


@pytest.mark.parametrize(
    ("options", "query"),
    [
        (None, {"dryRun": "All"}),
        ({"dryRun": ["All"]}, {}),
        ({"dryRun": ["All"]}, {"dryRun": "All"}),
        ({"dryRun": [], "gracePeriodSeconds": 0}, {"dryRun": "All"}),
    ],
)
async def test_a_dry_run_evicts_nobody(api: Talk, options: Any, query: dict[str, str]) -> None:
    await running(api, "a")
    before = await api.get(api.at("pods", "a"))
    assert (await evict(api, "a", options, **query)).body == SUCCESS
    assert (await api.get(api.at("pods", "a"))).body == before.body


async def test_dry_runs_must_agree(api: Talk) -> None:
    await running(api, "a")
    answer = await evict(api, "a", {"dryRun": ["x"]}, dryRun="All")
    assert answer.refusal == (500, "", "Non-matching dry-run options in request and content: [All] and [x]")


@pytest.mark.parametrize(
    ("options", "query", "kind", "problem"),
    [
        ({"dryRun": ["x"]}, {}, "DeleteOptions", 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
        (None, {"dryRun": "x"}, "CreateOptions", 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
        (
            {"propagationPolicy": "Foo"},
            {},
            "DeleteOptions",
            (
                'propagationPolicy: Unsupported value: "Foo": supported values: "Foreground", "Background", "Orphan", '
                '"nil"'
            ),
        ),
    ],
)
async def test_options_that_make_no_sense_are_refused(
    api: Talk, options: Any, query: dict[str, str], kind: str, problem: str
) -> None:
    await running(api, "a")
    answer = await evict(api, "a", options, **query)
    assert answer.refusal == (422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {problem}')


async def test_another_pod_than_expected_is_not_evicted(api: Talk) -> None:
    await running(api, "a")
    uid = (await api.get(api.at("pods", "a"))).metadata["uid"]
    for dry in ([], ["All"]):
        answer = await evict(api, "a", {"preconditions": {"uid": "other"}, "dryRun": dry})
        assert answer.refusal == (
            409, "Conflict",
            ('Operation cannot be fulfilled on Pod "a": the UID in the precondition (other) does not match the UID in '
            f"record ({uid}). The object might have been deleted and then recreated"),
        )  # fmt: skip
        assert answer.details == {"name": "a", "kind": "Pod"}


async def test_another_version_than_expected_is_not_evicted(api: Talk) -> None:
    await running(api, "a")
    version = (await api.get(api.at("pods", "a"))).metadata["resourceVersion"]
    answer = await evict(api, "a", {"preconditions": {"resourceVersion": "1"}})
    assert answer.refusal == (
        409, "Conflict",
        ('Operation cannot be fulfilled on Pod "a": the ResourceVersion in the precondition (1) does not match the '
        f"ResourceVersion in record ({version}). The object might have been modified"),
    )  # fmt: skip


async def test_what_is_expected_is_evicted(api: Talk) -> None:
    await running(api, "a")
    found = (await api.get(api.at("pods", "a"))).metadata
    expected = {"uid": found["uid"], "resourceVersion": found["resourceVersion"]}
    assert (await evict(api, "a", {"preconditions": expected})).status == 201


async def test_a_finalizer_holds_an_evicted_pod_back(api: Talk) -> None:
    await api.create("pods", pod("a", spec=bound(), finalizers=["x.io/a"]))
    await evict(api, "a", {"gracePeriodSeconds": 0})
    assert grace_of(await api.get(api.at("pods", "a"))) == 0


# Bodies


async def test_who_is_not_there_cannot_be_evicted(api: Talk) -> None:
    answer = await evict(api, "a")
    assert answer.refusal == (404, "NotFound", 'pods "a" not found')


@pytest.mark.parametrize("body", [eviction("b"), {"apiVersion": "policy/v1", "kind": "Eviction"}])
async def test_an_eviction_names_its_pod(api: Talk, body: JsonObject) -> None:
    await running(api, "a")
    answer = await api.post(api.at("pods", "a", "eviction"), body)
    assert answer.refusal == (400, "BadRequest", "name in URL does not match name in Eviction object")


async def test_an_eviction_stays_in_its_namespace(api: Talk) -> None:
    await running(api, "a")
    body = {**eviction("a"), "metadata": {"name": "a", "namespace": "default"}}
    assert (await api.post(api.at("pods", "a", "eviction"), body)).refusal == (
        400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request"
    )  # fmt: skip


@pytest.mark.parametrize("head", [{}, {"apiVersion": "policy/v1beta1", "kind": "Eviction"}])
async def test_an_eviction_need_not_say_what_it_is(api: Talk, head: JsonObject) -> None:
    await running(api, "a")
    body = {**head, "metadata": {"name": "a"}}
    assert (await api.post(api.at("pods", "a", "eviction"), body, dryRun="All")).body == SUCCESS


@pytest.mark.parametrize(
    "body",
    [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        eviction("a", "now"),
        eviction("a", {"gracePeriodSeconds": "1"}),
        eviction("a", {"preconditions": []}),
    ],
)
async def test_what_is_no_eviction_is_refused(api: Talk, body: JsonObject) -> None:
    await running(api, "a")
    code, reason, message = (await api.post(api.at("pods", "a", "eviction"), body)).refusal
    assert (code, reason) == (400, "BadRequest")
    assert "cannot be handled as a Eviction: " in message
    assert "deletionTimestamp" not in (await api.get(api.at("pods", "a"))).metadata


async def test_an_eviction_may_come_in_protobuf(api: Talk) -> None:
    await running(api, "a")
    content = body("Eviction", field(1, field(1, b"a")) + field(2, field(1, 5)), "policy/v1")
    answer = await api.send("POST", api.at("pods", "a", "eviction"), content, content_type=PROTOBUF)
    assert answer.body == SUCCESS
    assert grace_of(await api.get(api.at("pods", "a"))) == 5


async def test_misspelt_options_are_named(api: Talk) -> None:
    await running(api, "a")
    answer = await evict(api, "a", {"grace": 1}, fieldValidation="Strict")
    assert answer.refusal[2].endswith('strict decoding error: unknown field "deleteOptions.grace"')


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_evictions_are_only_created(api: Talk, method: str) -> None:
    await running(api, "a")
    assert (await api.send(method, api.at("pods", "a", "eviction"))).refusal == NO_SUCH_METHOD


async def test_only_pods_are_evicted(api: Talk) -> None:
    assert (await api.post(api.at("configmaps", "a", "eviction"), eviction("a"))).refusal == NO_SUCH_RESOURCE


async def test_evictions_are_discovered(api: Talk) -> None:
    resources = {each["name"]: each for each in (await api.get("/api/v1")).body["resources"]}
    found = resources["pods/eviction"]
    assert (found["group"], found["version"], found["kind"]) == ("policy", "v1", "Eviction")
    assert found["verbs"] == ["create"]


# Budgets


async def test_a_budget_is_used_up(api: Talk) -> None:
    await guarded(api, "abc", minAvailable=2)
    assert (await evict(api, "a")).status == 201
    answer = await evict(api, "b")
    assert answer.refusal == (429, "TooManyRequests", OVERDRAWN)
    status = await counted(api, expected=3, healthy=2, desired=2, allowed=0)
    assert status["conditions"][0]["reason"] == "InsufficientPods"
    answer = await evict(api, "b")
    assert answer.details == {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget a needs 2 healthy pods and has 2 currently",
            }
        ]
    }
    assert "Retry-After" not in answer.headers
    assert "deletionTimestamp" not in (await api.get(api.at("pods", "b"))).metadata


async def test_a_replacement_fills_the_budget_again(api: Talk) -> None:
    await guarded(api, "ab", minAvailable=1)
    assert (await evict(api, "a", {"gracePeriodSeconds": 0})).status == 201
    await counted(api, expected=1, healthy=1, desired=1, allowed=0)
    await running(api, "c")
    await counted(api, expected=2, healthy=2, desired=1, allowed=1)
    assert (await evict(api, "b")).status == 201


async def test_of_many_evictions_at_once_as_many_succeed_as_the_budget_has(api: Talk) -> None:
    await guarded(api, "abcdef", minAvailable=4)
    answers = await asyncio.gather(*(evict(api, name) for name in "abcdef"))
    assert sorted(answer.status for answer in answers) == [201, 201, 429, 429, 429, 429]
    pods = (await api.get(api.at("pods"))).body["items"]
    assert sum("deletionTimestamp" in each["metadata"] for each in pods) == 2
    await counted(api, expected=6, healthy=4, desired=4, allowed=0)


async def test_a_dry_run_uses_nothing_up(api: Talk) -> None:
    await guarded(api, "ab", minAvailable=1)
    before = await api.get(api.at(BUDGETS, "a"))
    for name in "ab":
        assert (await evict(api, name, dryRun="All")).status == 201
    assert (await api.get(api.at(BUDGETS, "a"))).body == before.body


async def test_a_dry_run_tells_that_a_budget_is_used_up(api: Talk) -> None:
    await guarded(api, "a", minAvailable=1)
    assert (await evict(api, "a", dryRun="All")).refusal == (429, "TooManyRequests", OVERDRAWN)


async def test_who_may_not_go_is_told_so_before_it_is_found_to_be_another(api: Talk) -> None:
    await guarded(api, "a", minAvailable=1)
    assert (await evict(api, "a", {"preconditions": {"uid": "other"}})).status == 429


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_who_does_not_run_is_nobodys_disruption(api: Talk, phase: str) -> None:
    await guarded(api, "a", minAvailable=1)
    await become(api, "a", phase, ready=True)
    assert (await evict(api, "a")).status == 201


async def test_who_leaves_already_costs_nothing(api: Talk) -> None:
    await guarded(api, "ab", minAvailable=2)
    await api.delete(api.at("pods", "a"))
    assert (await evict(api, "a")).status == 201


async def test_a_deletion_asks_no_budget(api: Talk) -> None:
    await guarded(api, "a", minAvailable=1)
    assert (await api.delete(api.at("pods", "a"))).status == 200


async def test_who_is_not_ready_may_go_if_enough_others_are(api: Talk) -> None:
    await guarded(api, "a", minAvailable=1)
    await running(api, "b", ready=False)
    await counted(api, expected=2, healthy=1, desired=1, allowed=0)
    assert (await evict(api, "b")).status == 201
    assert (await evict(api, "a")).status == 429


async def test_who_is_not_ready_may_not_go_if_too_few_others_are(api: Talk) -> None:
    await running(api, "a", "b", ready=False)
    await api.create(BUDGETS, budget("a", guarding(minAvailable=1)))
    await counted(api, expected=2, healthy=0, desired=1, allowed=0)
    assert (await evict(api, "a")).refusal == (429, "TooManyRequests", OVERDRAWN)


async def test_a_budget_may_not_mind_who_is_not_ready(api: Talk) -> None:
    await running(api, "a", ready=False)
    await running(api, "b")
    await api.create(BUDGETS, budget("a", guarding(minAvailable=2, unhealthyPodEvictionPolicy="AlwaysAllow")))
    await counted(api, expected=2, healthy=1, desired=2, allowed=0)
    assert (await evict(api, "b")).status == 429
    assert (await evict(api, "a")).status == 201


async def test_a_minimum_of_none_is_never_reached_by_who_is_not_ready(api: Talk) -> None:
    await running(api, "a", ready=False)
    await api.create(BUDGETS, budget("a", guarding(minAvailable=0)))
    await counted(api, expected=1, healthy=0, desired=0, allowed=0)
    assert (await evict(api, "a")).status == 429


async def test_two_budgets_are_one_too_many(api: Talk) -> None:
    await guarded(api, "a", minAvailable=0)
    await api.create(BUDGETS, budget("b", guarding(minAvailable=0)))
    await counted(api, expected=1, healthy=1, desired=0, allowed=1, name="b")
    # A real server learns of the second one a moment later than the client.
    answer = await evicted_otherwise_than(api, 201)
    assert answer.refusal == (
        500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )  # fmt: skip
    assert answer.details is None


async def evicted_otherwise_than(api: Talk, status: int) -> Answer:
    """The answer to a dry run, once it is another one."""
    return await api.until_answered(lambda: evict(api, "a", dryRun="All"), lambda answer: answer.status != status)


async def test_a_budget_that_guards_others_does_not_matter(api: Talk) -> None:
    await guarded(api, "a", minAvailable=1)
    await running(api, "b", app="y")
    assert (await evict(api, "b")).status == 201


async def test_a_budget_that_is_gone_holds_nobody_back(api: Talk) -> None:
    await guarded(api, "a", minAvailable=1)
    await api.delete(api.at(BUDGETS, "a"))
    assert (await evicted_otherwise_than(api, 429)).status == 201


# Rights and webhooks


EVICTING: JsonObject = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
READING: JsonObject = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


async def test_to_evict_is_a_right_of_its_own(api: Talk, access: Access) -> None:
    await running(api, "a")
    async with as_account(api, access, READING, EVICTING) as robot:
        await allowed(robot, robot.at("pods", "a"))
        assert (await robot.delete(robot.at("pods", "a"))).status == 403
        assert (await evict(robot, "a")).status == 201


async def test_to_delete_is_no_right_to_evict(api: Talk, access: Access) -> None:
    await running(api, "a")
    async with as_account(api, access, {**READING, "verbs": ["*"]}) as robot:
        await allowed(robot, robot.at("pods", "a"))
        assert (await evict(robot, "a")).refusal == (
            403, "Forbidden",
            (f'pods "a" is forbidden: User "{user(api)}" cannot create resource "pods/eviction" in API group "" in '
            f'the namespace "{api.namespace}"'),
        )  # fmt: skip


EVICTIONS: JsonObject = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods/eviction"],
}


async def test_webhooks_are_asked_about_evictions(api: Talk, endpoint: Endpoint) -> None:
    await running(api, "a")
    here = path_of(api)
    async with installed(api, endpoint, VALIDATING, hook("v.tests.example", endpoint.at(here), EVICTIONS)):
        assert (await evict(api, "a", {"gracePeriodSeconds": 5})).status == 201
        (asked,) = endpoint.asked[here]
    assert (asked["operation"], asked["name"], asked["subResource"]) == ("CREATE", "a", "eviction")
    assert asked["kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert asked["object"]["deleteOptions"]["gracePeriodSeconds"] == 5


async def test_webhooks_may_refuse_an_eviction(api: Talk, endpoint: Endpoint) -> None:
    await guarded(api, "a", minAvailable=0)
    before = await api.get(api.at(BUDGETS, "a"))
    refusing = hook("v.tests.example", endpoint.at(path_of(api), deny(message="not now")), EVICTIONS)
    async with installed(api, endpoint, VALIDATING, refusing):
        answer = await evict(api, "a")
    assert answer.refusal[2] == 'admission webhook "v.tests.example" denied the request: not now'
    assert "deletionTimestamp" not in (await api.get(api.at("pods", "a"))).metadata
    assert (await api.get(api.at(BUDGETS, "a"))).body == before.body
