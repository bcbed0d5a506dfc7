"""The webhook configurations as they are installed: who is asked, when, and what must never be held up."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.admission.match_conditions import matches_conditions
from grove.installation.webhook_configurations import (
    MUTATING_NAMES,
    VALIDATING_NAMES,
    ServiceTarget,
    Target,
    UrlTarget,
    webhook_configurations,
)

SERVICE = ServiceTarget(namespace="grove-system")
URL = UrlTarget(url="https://host.example:9443/")


def configurations(target: Target = SERVICE, *, ca_bundle: str = "", user: str = "") -> tuple[JsonObject, ...]:
    return webhook_configurations(target, ca_bundle=ca_bundle, has_authorizer=True, operator_user=user)


def webhooks(*given: JsonObject) -> list[JsonObject]:
    return [webhook for configuration in given or configurations() for webhook in configuration["webhooks"]]


def asked_about(name: str) -> list[tuple[str, list[str], list[str]]]:
    (found,) = (webhook for webhook in webhooks() if webhook["name"] == name)
    return [(rule["apiGroups"][0], rule["resources"], rule["operations"]) for rule in found["rules"]]


def test_every_configuration_has_one_of_the_names_that_we_look_after() -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in configurations()]
    assert names == [
        *(("MutatingWebhookConfiguration", name) for name in MUTATING_NAMES),
        *(("ValidatingWebhookConfiguration", name) for name in VALIDATING_NAMES),
    ]


def test_without_an_authorizer_nobody_asks_it() -> None:
    names = [one["metadata"]["name"] for one in webhook_configurations(SERVICE, ca_bundle="", has_authorizer=False)]
    assert "authorizer-webhook" not in names
    assert len(names) == 6


def test_paths_and_names_are_those_that_people_know() -> None:
    paths = {webhook["name"]: webhook["clientConfig"]["service"]["path"] for webhook in webhooks()}
    assert paths == {
        "pcs.defaulting.webhooks.grove.io": "/webhooks/default-podcliqueset",
        "pcs.validating.webhooks.grove.io": "/webhooks/validate-podcliqueset",
        "pclq.validating.webhooks.grove.io": "/webhooks/validate-podclique",
        "pcsg.validating.webhooks.grove.io": "/webhooks/validate-podcliquescalinggroup",
        "scale.validating.webhooks.grove.io": "/webhooks/validate-scale",
        "clustertopology.validating.webhooks.grove.io": "/webhooks/validate-clustertopology",
        "authorizer.webhooks.grove.io": "/webhooks/authorizer-webhook",
        "deletion.authorizer.webhooks.grove.io": "/webhooks/authorizer-webhook",
    }


def test_a_url_is_joined_with_the_path() -> None:
    first = webhooks(*configurations(URL, ca_bundle="Q0E="))[0]
    assert first["clientConfig"] == {
        "url": "https://host.example:9443/webhooks/default-podcliqueset",
        "caBundle": "Q0E=",
    }


def test_a_bundle_that_nobody_has_yet_is_left_out() -> None:
    assert [webhook for webhook in webhooks() if "caBundle" in webhook["clientConfig"]] == []


def test_scales_of_all_three_kinds_are_judged() -> None:
    assert asked_about("scale.validating.webhooks.grove.io") == [
        ("grove.io", ["podcliquesets/scale", "podcliques/scale", "podcliquescalinggroups/scale"], ["UPDATE"])
    ]


def test_no_webhook_that_must_answer_is_asked_about_a_deletion() -> None:
    must = [webhook for webhook in webhooks() if webhook["failurePolicy"] == "Fail"]
    assert len(must) == len(webhooks()) - 1
    assert [webhook["name"] for webhook in must for rule in webhook["rules"] if "DELETE" in rule["operations"]] == []


def test_every_webhook_that_must_answer_is_not_asked_about_what_is_leaving() -> None:
    """A Scale cannot tell whether its object is leaving; nor does a deletion ever scale. The authorizer: see below."""
    asked = [
        webhook["name"]
        for webhook in webhooks()
        if webhook["failurePolicy"] == "Fail"
        and "not-leaving" not in [condition["name"] for condition in webhook["matchConditions"]]
    ]
    assert asked == ["scale.validating.webhooks.grove.io", "authorizer.webhooks.grove.io"]


@pytest.mark.parametrize("short", ["pclq", "pcsg"])
def test_the_operators_own_children_are_not_judged_again(short: str) -> None:
    user = 'system:serviceaccount:grove-system:"x"'
    (found,) = (one for one in webhooks(*configurations(user=user)) if one["name"].startswith(f"{short}."))
    assert found["matchConditions"][-1] == {
        "name": "not-by-the-operator",
        "expression": r'request.userInfo.username != "system:serviceaccount:grove-system:\"x\""',
    }


def test_sets_are_judged_whoever_writes_them() -> None:
    conditions = [
        condition["name"]
        for webhook in webhooks(*configurations(user="operator"))
        if webhook["name"].startswith(("pcs.", "scale.", "clustertopology."))
        for condition in webhook["matchConditions"]
    ]
    assert "not-by-the-operator" not in conditions
    assert len(conditions) == 7


def test_the_authorizer_protects_what_the_operator_manages() -> None:
    both = [webhook for webhook in webhooks() if webhook["name"].endswith("authorizer.webhooks.grove.io")]
    assert [webhook["objectSelector"] for webhook in both] == [{}, {}]
    assert asked_about("authorizer.webhooks.grove.io") == [
        ("", ["secrets", "serviceaccounts"], ["UPDATE"]),
        ("", ["services", "pods"], ["CREATE", "UPDATE"]),
        ("apps", ["controllerrevisions"], ["CREATE", "UPDATE"]),
        ("rbac.authorization.k8s.io", ["roles", "rolebindings"], ["CREATE", "UPDATE"]),
        ("autoscaling", ["horizontalpodautoscalers"], ["CREATE", "UPDATE"]),
        ("grove.io", ["podcliques", "podcliquescalinggroups"], ["CREATE", "UPDATE"]),
        ("grove.io", ["podcliques/status", "podcliquescalinggroups/status"], ["UPDATE"]),
        ("scheduler.grove.io", ["podgangs"], ["CREATE", "UPDATE"]),
        ("scheduler.grove.io", ["podgangs/status"], ["UPDATE"]),
        ("scheduling.k8s.io", ["podgroups"], ["CREATE", "UPDATE"]),
        ("scheduling.k8s.io", ["compositepodgroups"], ["CREATE", "UPDATE"]),
    ]
    assert asked_about("deletion.authorizer.webhooks.grove.io") == [
        ("", ["secrets", "serviceaccounts", "services"], ["DELETE"]),
        ("apps", ["controllerrevisions"], ["DELETE"]),
        ("rbac.authorization.k8s.io", ["roles", "rolebindings"], ["DELETE"]),
        ("autoscaling", ["horizontalpodautoscalers"], ["DELETE"]),
        ("grove.io", ["podcliques", "podcliquescalinggroups"], ["DELETE"]),
        ("scheduler.grove.io", ["podgangs"], ["DELETE"]),
    ]


LABELLED: JsonObject = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "grove-operator"}}}
OWNED: JsonObject = {"metadata": {"ownerReferences": [{"apiVersion": "grove.io/v1alpha1", "kind": "PodClique"}]}}
GANGED: JsonObject = {"metadata": {"ownerReferences": [{"apiVersion": "scheduler.grove.io/v1", "kind": "PodGang"}]}}
OTHERS: JsonObject = {
    "metadata": {"labels": {"app.kubernetes.io/managed-by": "helm"}, "ownerReferences": [{"apiVersion": "apps/v1"}]}
}
BARE: JsonObject = {"metadata": {"name": "x"}}


@pytest.mark.parametrize(
    ("new", "old", "is_asked"),
    [
        pytest.param(LABELLED, None, True, id="a label"),
        pytest.param(OWNED, None, True, id="an owner, and no label"),
        pytest.param(GANGED, None, True, id="a gang as owner"),
        pytest.param(OWNED, BARE, True, id="an owner that is added"),
        pytest.param(BARE, LABELLED, True, id="a label that is taken away"),
        pytest.param(None, OWNED, True, id="a deletion"),
        pytest.param(OTHERS, None, False, id="others"),
        pytest.param(BARE, OTHERS, False, id="others, edited"),
        pytest.param(None, BARE, False, id="others, deleted"),
    ],
)
def test_the_authorizer_is_asked_about_whatever_claims_to_be_ours_and_nothing_else(
    new: JsonObject | None, old: JsonObject | None, is_asked: bool
) -> None:
    for name in ("authorizer.webhooks.grove.io", "deletion.authorizer.webhooks.grove.io"):
        (found,) = (webhook for webhook in webhooks() if webhook["name"] == name)
        (claims,) = (one["expression"] for one in found["matchConditions"] if one["name"] == "claims-a-set")
        assert matches_conditions([claims], request={}, obj=new, old=old) is is_asked


GOING: JsonObject = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def leaving(obj: JsonObject, **metadata: Any) -> JsonObject:
    return {"metadata": {**obj["metadata"], **GOING, **metadata}}


@pytest.mark.parametrize(
    ("group", "new", "old", "is_asked"),
    [
        pytest.param("", OWNED, None, True, id="a new one"),
        pytest.param("", OWNED, OWNED, True, id="one that stays"),
        pytest.param("", leaving(OWNED), leaving(OWNED, finalizers=["x"]), False, id="a leaving one loses a finalizer"),
        pytest.param("", leaving(OWNED), leaving(BARE), True, id="a leaving one gets an owner"),
        pytest.param("", leaving(LABELLED), leaving(BARE), True, id="a leaving one gets a label"),
        pytest.param("scheduling.k8s.io", GANGED, None, True, id="a new one of schedulers"),
        pytest.param("scheduling.k8s.io", GANGED, GANGED, False, id="one of schedulers is updated"),
        pytest.param("scheduling.k8s.io", GANGED, BARE, True, id="one of schedulers gets an owner"),
    ],
)
def test_the_authorizer_is_asked_about_what_is_leaving_only_if_it_gets_another_owner_or_label(
    group: str, new: JsonObject, old: JsonObject | None, is_asked: bool
) -> None:
    (found,) = (webhook for webhook in webhooks() if webhook["name"] == "authorizer.webhooks.grove.io")
    conditions = [one["expression"] for one in found["matchConditions"]]
    request = {"operation": "CREATE" if old is None else "UPDATE", "resource": {"group": group}}
    assert matches_conditions(conditions, request=request, obj=new, old=old) is is_asked


def test_common_to_all() -> None:
    for webhook in webhooks():
        assert (webhook["sideEffects"], webhook["timeoutSeconds"], webhook["matchPolicy"]) == ("None", 10, "Equivalent")
        assert webhook["admissionReviewVersions"] == ["v1"]
    assert webhooks()[0]["reinvocationPolicy"] == "IfNeeded"
