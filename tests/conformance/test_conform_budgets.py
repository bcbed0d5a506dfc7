"""PodDisruptionBudgets: what makes sense, how they are shown, and who counts."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from grove.kube.transport import APPLY_PATCH
from tests.conformance.budgets import (
    BUDGETS,
    SELECTOR,
    a_clique,
    become,
    budget,
    counted,
    guarding,
    running,
)
from tests.conformance.talk import TABLE, Talk, config, owned_by, pod
from tests.conformance.test_conform_protobuf import PROTOBUF
from tests.conformance.words import LABEL_VALUE, QUALIFIED_NAME
from tests.protobuf_wire import body, field

NOTHING = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
NEGATIVE = "must be greater than or equal to 0"


async def test_of_a_new_budget_nothing_is_counted(api: Talk) -> None:
    made = await api.create(BUDGETS, budget("a", {"minAvailable": 1, "selector": SELECTOR}))
    assert (made.body["status"], made.metadata["generation"]) == (NOTHING, 1)
    assert made.spec == {"minAvailable": 1, "selector": SELECTOR}


async def test_its_author_does_not_count(api: Talk) -> None:
    made = await api.create(BUDGETS, {**budget("a", {"minAvailable": 1}), "status": {"disruptionsAllowed": 7}})
    assert made.body["status"] == NOTHING


@pytest.mark.parametrize("spec", [None, {}])
async def test_a_budget_may_wish_for_nothing(api: Talk, spec: Any) -> None:
    assert (await api.create(BUDGETS, budget("a", spec))).spec == {}


@pytest.mark.parametrize("name", ["A_b", "a.b", "a" * 300])
async def test_a_budget_may_be_called_almost_anything(api: Talk, name: str) -> None:
    assert (await api.create(BUDGETS, budget(name, {"minAvailable": 1}))).metadata["name"] == name


def expression(**requirement: Any) -> JsonObject:
    return {"minAvailable": 1, "selector": {"matchExpressions": [requirement]}}


BAD: list[Any] = [
    pytest.param({"minAvailable": -1}, f"spec.minAvailable: Invalid value: -1: {NEGATIVE}", id="negative"),
    pytest.param({"maxUnavailable": -1}, f"spec.maxUnavailable: Invalid value: -1: {NEGATIVE}", id="negative-max"),
    pytest.param(
        {"minAvailable": "101%"},
        'spec.minAvailable: Invalid value: "101%": must not be greater than 100%',
        id="too-much",
    ),
    pytest.param(
        {"maxUnavailable": "101%"},
        'spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
        id="too-much-max",
    ),
    pytest.param({"minAvailable": "x"}, f'spec.minAvailable: Invalid value: "x": {PERCENT}', id="word"),
    pytest.param({"minAvailable": "-5%"}, f'spec.minAvailable: Invalid value: "-5%": {PERCENT}', id="less-than-none"),
    pytest.param({"maxUnavailable": ""}, f'spec.maxUnavailable: Invalid value: "": {PERCENT}', id="empty"),
    pytest.param(
        {"minAvailable": 1, "maxUnavailable": "10%"},
        'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"10%",'
        '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set',
        id="both",
    ),
    pytest.param(
        {"unhealthyPodEvictionPolicy": "Never"},
        'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", '
        '"IfHealthyBudget"',
        id="policy",
    ),
    pytest.param(
        {"selector": {"matchLabels": {"a b": "x"}}},
        f'spec.selector.matchLabels: Invalid value: "a b": {QUALIFIED_NAME}',
        id="label",
    ),
    pytest.param(
        {"selector": {"matchLabels": {"a": "x y"}}},
        f'spec.selector.matchLabels: Invalid value: "x y": {LABEL_VALUE}',
        id="label-value",
    ),
    pytest.param(
        expression(key="a", operator="Foo"),
        'spec.selector.matchExpressions[0].operator: Invalid value: "Foo": not a valid selector operator',
        id="operator",
    ),
    pytest.param(
        expression(key="a", operator="In"),
        "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or "
        "'NotIn'",
        id="no-values",
    ),
    pytest.param(
        expression(key="a", operator="Exists", values=["b"]),
        "spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or "
        "'DoesNotExist'",
        id="needless-values",
    ),
    pytest.param(
        expression(key="a b", operator="Exists"),
        f'spec.selector.matchExpressions[0].key: Invalid value: "a b": {QUALIFIED_NAME}',
        id="key",
    ),
    pytest.param(
        expression(key="a", operator="In", values=["x y"]),
        f'spec.selector.matchExpressions[0].values[0]: Invalid value: "x y": {LABEL_VALUE}',
        id="value",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "problem"), BAD)
async def test_a_budget_that_makes_no_sense_is_refused(api: Talk, spec: Any, problem: str) -> None:
    answer = await api.post(api.at(BUDGETS), budget("a", spec))
    assert answer.refusal == (422, "Invalid", f'PodDisruptionBudget.policy "a" is invalid: {problem}')
    assert answer.details is not None
    assert (answer.details["group"], answer.details["kind"]) == ("policy", "PodDisruptionBudget")


@pytest.mark.parametrize("spec", [{"minAvailable": 0}, {"minAvailable": "100%"}, {"maxUnavailable": "0%"}])
async def test_all_and_nothing_make_sense(api: Talk, spec: Any) -> None:
    assert (await api.create(BUDGETS, budget("a", spec))).spec == spec


@pytest.mark.parametrize(
    "spec",
    [
        {"minAvailable": 1.5},
        {"minAvailable": [1]},
        {"maxUnavailable": True},
        {"minAvailable": 3_000_000_000},
        {"selector": "app=x"},
        [],
    ],
)
async def test_what_is_no_budget_is_refused(api: Talk, spec: Any) -> None:
    code, reason, message = (await api.post(api.at(BUDGETS), budget("a", spec))).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith('PodDisruptionBudget in version "v1" cannot be handled as a PodDisruptionBudget: json: ')


async def test_a_misspelt_wish_is_named(api: Talk) -> None:
    answer = await api.post(api.at(BUDGETS), budget("a", {"minAvailabel": 1}), fieldValidation="Strict")
    assert answer.refusal[2].endswith('strict decoding error: unknown field "spec.minAvailabel"')


@pytest.mark.parametrize(
    ("wish", "spec"),
    [
        (field(1, field(2, 2)), {"minAvailable": 2}),
        (field(3, field(1, 1) + field(3, b"50%")), {"maxUnavailable": "50%"}),
    ],
)
async def test_a_budget_may_come_in_protobuf(api: Talk, wish: bytes, spec: Any) -> None:
    content = body("PodDisruptionBudget", field(1, field(1, b"a")) + field(2, wish), "policy/v1")
    answer = await api.send("POST", api.at(BUDGETS), content, content_type=PROTOBUF)
    assert (answer.status, answer.spec) == (201, spec)


# Changes


async def test_a_change_is_held_to_the_same_rules(api: Talk) -> None:
    await api.create(BUDGETS, budget("a", {"minAvailable": 1}))
    answer = await api.merge(api.at(BUDGETS, "a"), {"spec": {"minAvailable": -1}})
    assert answer.refusal[2].endswith(f"is invalid: spec.minAvailable: Invalid value: -1: {NEGATIVE}")
    answer = await api.merge(api.at(BUDGETS, "a"), {"spec": {"maxUnavailable": 1}})
    assert answer.refusal[2].endswith("minAvailable and maxUnavailable cannot be both set")


async def test_only_a_new_wish_is_a_new_generation(api: Talk) -> None:
    await api.create(BUDGETS, budget("a", {"minAvailable": 1}))
    path = api.at(BUDGETS, "a")
    assert (await api.merge(path, {"metadata": {"labels": {"x": "y"}}})).metadata["generation"] == 1
    assert (await api.merge(path, {"spec": {"minAvailable": None, "maxUnavailable": 1}})).metadata["generation"] == 2


async def test_a_budget_is_not_replaced_blindly(api: Talk) -> None:
    await api.create(BUDGETS, budget("a", {"minAvailable": 1}))
    answer = await api.put(api.at(BUDGETS, "a"), budget("a", {"minAvailable": 2}))
    assert answer.refusal == (
        422, "Invalid",
        ('poddisruptionbudgets.policy "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified '
        "for an update"),
    )  # fmt: skip


async def test_a_strategic_patch_brings_another_selector(api: Talk) -> None:
    await api.create(BUDGETS, budget("a", {"selector": {"matchLabels": {"a": "1"}}}))
    other = {"matchLabels": {"b": "2"}}
    assert (await api.strategic(api.at(BUDGETS, "a"), {"spec": {"selector": other}})).spec["selector"] == other


async def test_a_merge_patch_adds_to_a_selector(api: Talk) -> None:
    await api.create(BUDGETS, budget("a", {"selector": {"matchLabels": {"a": "1"}}}))
    answer = await api.merge(api.at(BUDGETS, "a"), {"spec": {"selector": {"matchLabels": {"b": "2"}}}})
    assert answer.spec["selector"] == {"matchLabels": {"a": "1", "b": "2"}}


async def test_a_budget_is_applied_and_owned(api: Talk) -> None:
    body = budget("a", {"minAvailable": 1, "selector": SELECTOR})
    answer = await api.send(
        "PATCH", api.at(BUDGETS, "a"), body, content_type=APPLY_PATCH, query={"fieldManager": "somebody"}
    )
    assert answer.status == 201
    (owned,) = answer.metadata["managedFields"]
    assert (owned["manager"], owned["operation"]) == ("somebody", "Apply")
    assert owned["fieldsV1"] == {"f:spec": {"f:minAvailable": {}, "f:selector": {}}}


async def test_two_who_apply_a_wish_are_in_conflict(api: Talk) -> None:
    for manager, wish in (("one", 1), ("two", 2)):
        answer = await api.send(
            "PATCH",
            api.at(BUDGETS, "a"),
            budget("a", {"minAvailable": wish}),
            content_type=APPLY_PATCH,
            query={"fieldManager": manager},
        )
    assert answer.refusal == (
        409, "Conflict", 'Apply failed with 1 conflict: conflict with "one": .spec.minAvailable'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "problems"),
    [
        pytest.param({"disruptionsAllowed": -1}, [f"disruptionsAllowed: Invalid value: -1: {NEGATIVE}"], id="allowed"),
        pytest.param(
            {"currentHealthy": -2, "desiredHealthy": -3, "expectedPods": -4},
            [
                f"currentHealthy: Invalid value: -2: {NEGATIVE}",
                f"desiredHealthy: Invalid value: -3: {NEGATIVE}",
                f"expectedPods: Invalid value: -4: {NEGATIVE}",
            ],
            id="others",
        ),
        pytest.param(
            {"conditions": [{"type": "a b", "status": "x", "reason": "", "message": ""}]},
            [
                f'conditions[0].type: Invalid value: "a b": {QUALIFIED_NAME}',
                'conditions[0].status: Unsupported value: "x": supported values: "False", "True", "Unknown"',
                "conditions[0].lastTransitionTime: Required value",
                "conditions[0].reason: Required value",
            ],
            id="condition",
        ),
    ],
)
async def test_a_status_that_cannot_be_is_refused(api: Talk, status: Any, problems: list[str]) -> None:
    await api.create(BUDGETS, budget("a", {"minAvailable": 1}))
    answer = await api.merge(api.at(BUDGETS, "a", "status"), {"status": status})
    named = [f"status.{problem}" for problem in problems]
    shown = named[0] if len(named) == 1 else f"[{', '.join(named)}]"
    assert answer.refusal == (422, "Invalid", f'PodDisruptionBudget.policy "a" is invalid: {shown}')


# How it is shown


async def test_a_budget_is_shown_in_a_line(api: Talk) -> None:
    for name, spec in (("a", {"minAvailable": 2}), ("b", {"maxUnavailable": "30%"}), ("c", {})):
        await api.create(BUDGETS, budget(name, spec))
    table = (await api.get(api.at(BUDGETS), accept=TABLE)).body
    columns = [(column["name"], column["type"]) for column in table["columnDefinitions"]]
    assert columns == [
        ("Name", "string"),
        ("Min Available", "string"),
        ("Max Unavailable", "string"),
        ("Allowed Disruptions", "integer"),
        ("Age", "string"),
    ]
    assert [row["cells"][:4] for row in table["rows"]] == [
        ["a", "2", "N/A", 0], ["b", "N/A", "30%", 0], ["c", "N/A", "N/A", 0]
    ]  # fmt: skip


async def test_budgets_are_discovered(api: Talk) -> None:
    resources = {each["name"]: each for each in (await api.get("/apis/policy/v1")).body["resources"]}
    assert sorted(resources) == ["poddisruptionbudgets", "poddisruptionbudgets/status"]
    assert (resources[BUDGETS]["shortNames"], resources[BUDGETS]["namespaced"]) == (["pdb"], True)
    assert resources[f"{BUDGETS}/status"]["verbs"] == ["get", "patch", "update"]


async def test_an_older_version_is_not_served(api: Talk) -> None:
    answer = await api.get(f"/apis/policy/v1beta1/namespaces/{api.namespace}/{BUDGETS}")
    assert answer.status == 404


async def test_a_budget_is_described(api: Talk) -> None:
    told = await api.until("/openapi/v3/apis/policy/v1", lambda answer: answer.status == 200)
    schemas = told.body["components"]["schemas"]
    spec = schemas["io.k8s.api.policy.v1.PodDisruptionBudgetSpec"]["properties"]
    assert sorted(spec) == ["maxUnavailable", "minAvailable", "selector", "unhealthyPodEvictionPolicy"]


async def test_a_deleted_budget_is_told_by_its_uid(api: Talk) -> None:
    uid = (await api.create(BUDGETS, budget("a", {"minAvailable": 1}))).metadata["uid"]
    answer = await api.delete(api.at(BUDGETS, "a"))
    assert answer.body["details"] == {"name": "a", "group": "policy", "kind": BUDGETS, "uid": uid}


async def test_budgets_are_selected_by_name_only(api: Talk) -> None:
    answer = await api.get(api.at(BUDGETS), fieldSelector="spec.minAvailable=1")
    assert answer.refusal == (
        400, "BadRequest",
        '"spec.minAvailable" is not a known field selector: only "metadata.name", "metadata.namespace"',
    )  # fmt: skip


# Who counts


async def test_ready_pods_above_the_minimum_may_go(api: Talk) -> None:
    await running(api, "a", "b", "c")
    await api.create(BUDGETS, budget("a", guarding(minAvailable=1)))
    status = await counted(api, expected=3, healthy=3, desired=1, allowed=2)
    (condition,) = status["conditions"]
    assert condition.pop("lastTransitionTime") > "2026"
    assert condition == {
        "type": "DisruptionAllowed",
        "status": "True",
        "observedGeneration": 1,
        "reason": "SufficientPods",
        "message": "",
    }


async def test_without_pods_nobody_may_go(api: Talk) -> None:
    await api.create(BUDGETS, budget("a", guarding(minAvailable=0)))
    status = await counted(api, expected=0, healthy=0, desired=0, allowed=0)
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")


async def test_pods_that_are_not_ready_are_expected_all_the_same(api: Talk) -> None:
    await running(api, "a", "b")
    await running(api, "c", ready=False)
    await api.create(BUDGETS, budget("a", guarding(minAvailable=1)))
    await counted(api, expected=3, healthy=2, desired=1, allowed=1)


async def test_a_pod_that_failed_is_expected_all_the_same(api: Talk) -> None:
    await running(api, "a", "b")
    await become(api, "b", "Failed", ready=False)
    await api.create(BUDGETS, budget("a", guarding(minAvailable=1)))
    await counted(api, expected=2, healthy=1, desired=1, allowed=0)


async def test_a_pod_that_leaves_is_no_longer_healthy(api: Talk) -> None:
    await running(api, "a", "b")
    await api.create(BUDGETS, budget("a", guarding(minAvailable=1)))
    await counted(api, expected=2, healthy=2, desired=1, allowed=1)
    await api.delete(api.at("pods", "a"))
    await counted(api, expected=2, healthy=1, desired=1, allowed=0)
    await api.delete(api.at("pods", "a"), {"gracePeriodSeconds": 0})
    await counted(api, expected=1, healthy=1, desired=1, allowed=0)


async def test_a_pod_that_becomes_ready_is_counted(api: Talk) -> None:
    await api.create(BUDGETS, budget("a", guarding(minAvailable=1)))
    await running(api, "a", "b", ready=False)
    await counted(api, expected=2, healthy=0, desired=1, allowed=0)
    for name in ("a", "b"):
        await become(api, name, "Running", ready=True)
    await counted(api, expected=2, healthy=2, desired=1, allowed=1)


async def test_another_wish_is_counted_anew(api: Talk) -> None:
    await running(api, "a", "b")
    await api.create(BUDGETS, budget("a", guarding(minAvailable=1)))
    await counted(api, expected=2, healthy=2, desired=1, allowed=1)
    await api.merge(api.at(BUDGETS, "a"), {"spec": {"minAvailable": 3}})
    assert (await counted(api, expected=2, healthy=2, desired=3, allowed=0))["observedGeneration"] == 2


@pytest.mark.parametrize(("selector", "expected"), [({}, 2), (None, 0), ({"matchLabels": {"app": "y"}}, 1)])
async def test_a_selector_says_whom_a_budget_guards(api: Talk, selector: Any, expected: int) -> None:
    await running(api, "a")
    await running(api, "b", app="y")
    spec = {"minAvailable": 0} if selector is None else {"minAvailable": 0, "selector": selector}
    await api.create(BUDGETS, budget("a", spec))
    await counted(api, expected=expected, healthy=expected, desired=0, allowed=expected)


async def test_pods_of_other_namespaces_are_not_counted(api: Talk) -> None:
    other = f"{api.namespace}-other"
    await api.create("namespaces", {"metadata": {"name": other}})
    await api.post(api.at("pods", namespace=other), pod("b", labels={"app": "x"}))
    await running(api, "a")
    await api.create(BUDGETS, budget("a", guarding(minAvailable=0)))
    await counted(api, expected=1, healthy=1, desired=0, allowed=1)


async def test_who_wishes_for_nothing_lets_nobody_go(api: Talk) -> None:
    await running(api, "a")
    await api.create(BUDGETS, budget("a", guarding()))
    await counted(api, expected=0, healthy=1, desired=0, allowed=0)


@pytest.mark.parametrize("wish", [{"maxUnavailable": 1}, {"maxUnavailable": "50%"}, {"minAvailable": "50%"}])
async def test_of_pods_without_an_owner_no_share_is_known(api: Talk, wish: Any) -> None:
    await running(api, "a", "b")
    await api.create(BUDGETS, budget("a", guarding(**wish)))
    await counted(api, expected=0, healthy=2, desired=0, allowed=0)


@pytest.mark.parametrize(
    ("wish", "desired", "allowed"),
    [
        ({"maxUnavailable": 1}, 3, 0),
        ({"maxUnavailable": 2}, 2, 1),
        ({"maxUnavailable": 9}, 0, 3),
        ({"maxUnavailable": "60%"}, 1, 2),
        ({"maxUnavailable": "0%"}, 4, 0),
        ({"minAvailable": "30%"}, 2, 1),
        ({"minAvailable": "100%"}, 4, 0),
        ({"minAvailable": "0%"}, 0, 3),
    ],
)
async def test_a_share_is_one_of_what_the_owner_is_scaled_to(api: Talk, wish: Any, desired: int, allowed: int) -> None:
    await running(api, "a", "b", "c", owner=await a_clique(api, replicas=4))
    await api.create(BUDGETS, budget("a", guarding(**wish)))
    await counted(api, expected=4, healthy=3, desired=desired, allowed=allowed)


async def test_a_number_needs_no_owner(api: Talk) -> None:
    await running(api, "a", "b", owner=await a_clique(api, replicas=4))
    await api.create(BUDGETS, budget("a", guarding(minAvailable=1)))
    await counted(api, expected=2, healthy=2, desired=1, allowed=1)


async def known(api: Talk, healthy: int) -> None:
    """Until the controller knows of the one pod, so that it cannot count without it: another budget tells."""
    await api.create(BUDGETS, budget("first", guarding(minAvailable=0)))
    await counted(api, expected=1, healthy=healthy, desired=0, allowed=healthy, name="first")


async def uncounted(api: Talk) -> JsonObject:
    """The condition of the budget once its controller has given up."""
    answer = await api.until(api.at(BUDGETS, "a"), lambda found: found.body["status"].get("conditions"))
    status = answer.body["status"]
    (condition,) = status.pop("conditions")
    assert status == NOTHING
    assert condition.pop("lastTransitionTime") > "2026"
    return dict(condition)


async def test_an_owner_without_a_scale_cannot_be_counted(api: Talk) -> None:
    await running(api, "a", owner=await api.create("configmaps", config("owner")))
    await known(api, healthy=1)
    await api.create(BUDGETS, budget("a", guarding(maxUnavailable=1)))
    assert await uncounted(api) == {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "SyncFailed",
        "message": "configmaps does not implement the scale subresource",
    }


async def test_an_owner_of_an_unknown_kind_cannot_be_counted(api: Talk) -> None:
    owner = {**owned_by(await api.create("configmaps", config("owner"))), "controller": True}
    strange = {**owner, "apiVersion": "no.such/v1", "kind": "Thing"}
    # A finalizer, because nobody knows whether the owner is there.
    await api.create("pods", pod("a", labels={"app": "x"}, ownerReferences=[strange], finalizers=["x.io/a"]))
    await known(api, healthy=0)
    await api.create(BUDGETS, budget("a", guarding(minAvailable="50%")))
    assert (await uncounted(api))["message"] == 'no matches for kind "Thing" in version "no.such/v1"'


async def test_numbers_of_somebody_else_are_put_right(api: Talk) -> None:
    await running(api, "a")
    await api.create(BUDGETS, budget("a", guarding(minAvailable=1)))
    await counted(api, expected=1, healthy=1, desired=1, allowed=0)
    answer = await api.merge(api.at(BUDGETS, "a", "status"), {"status": {"disruptionsAllowed": 5}})
    assert answer.body["status"]["disruptionsAllowed"] == 5
    await counted(api, expected=1, healthy=1, desired=1, allowed=0)
