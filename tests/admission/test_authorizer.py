"""Who may change what the operator manages: one decision per row."""

from typing import Any

import pytest

from grove.admission.authorizer import AuthorizerOptions, authorize, owning_set_name
from grove.admission.envelope import GroupResource, ReviewRequest, UserInfo, Verdict
from grove.api.meta import JsonObject
from grove.api.podcliqueset import PodCliqueSet
from tests.api.manifests import decoded, manifest

OPTIONS = AuthorizerOptions(operator_user="operator", exempt_users=("collector",))
SET = decoded(manifest())
OPEN = decoded(manifest(metadata={"annotations": {"grove.io/disable-managed-resource-protection": "true"}}))
LEAVING = decoded(manifest(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
NAMESPACE_CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"


def child(part_of: str = "web", **metadata: Any) -> JsonObject:
    return {"metadata": {"name": "x", "labels": {"app.kubernetes.io/part-of": part_of}, **metadata}}


def request(
    operation: str,
    user: str,
    *,
    resource: str = "podcliques",
    new: JsonObject | None = None,
    old: JsonObject | None = None,
) -> ReviewRequest:
    return ReviewRequest(
        uid="q1",
        operation=operation,
        resource=GroupResource(group="" if resource == "pods" else "grove.io", resource=resource),
        name="x",
        user_info=UserInfo(username=user),
        object=new if new is not None or operation == "DELETE" else child(),
        old_object=old if old is not None or operation == "CREATE" else child(),
    )


@pytest.mark.parametrize(
    ("asked", "pcs", "allowed"),
    [
        pytest.param(request("CREATE", "someone"), SET, False, id="somebody creates"),
        pytest.param(request("UPDATE", "someone"), SET, False, id="somebody edits"),
        pytest.param(request("DELETE", "someone"), SET, False, id="somebody deletes"),
        pytest.param(request("CREATE", "operator"), SET, True, id="the operator creates"),
        pytest.param(request("DELETE", "operator"), SET, True, id="the operator deletes"),
        pytest.param(request("DELETE", "collector"), SET, True, id="the garbage collector deletes"),
        pytest.param(request("UPDATE", "collector"), SET, True, id="an exempt user edits"),
        pytest.param(request("DELETE", NAMESPACE_CONTROLLER), SET, True, id="a namespace is emptied"),
        pytest.param(request("UPDATE", NAMESPACE_CONTROLLER), SET, False, id="emptying is not editing"),
        pytest.param(request("DELETE", "someone", resource="pods"), SET, True, id="anybody deletes a pod"),
        pytest.param(request("UPDATE", "someone", resource="pods"), SET, False, id="nobody edits a pod"),
        pytest.param(request("UPDATE", "someone"), OPEN, True, id="protection is switched off"),
        pytest.param(request("DELETE", "someone"), LEAVING, True, id="the set is being deleted"),
        pytest.param(request("CREATE", "someone"), LEAVING, False, id="but nothing is added to it"),
        pytest.param(request("UPDATE", "someone"), None, True, id="the set does not exist"),
        pytest.param(request("CONNECT", "someone"), SET, True, id="a connection"),
        pytest.param(
            request("UPDATE", "someone", old=child(deletionTimestamp="2026-01-01T00:00:00Z")), SET, True, id="leaving"
        ),
        pytest.param(
            request("CREATE", "someone", new=child(deletionTimestamp="2026-01-01T00:00:00Z")),
            SET,
            False,
            id="a new object that says it is leaving",
        ),
    ],
)
def test_only_the_operator_writes_what_it_manages(
    asked: ReviewRequest, pcs: PodCliqueSet | None, allowed: bool
) -> None:
    assert authorize(asked, pcs, OPTIONS).allowed is allowed


def test_a_refusal_says_what_to_do() -> None:
    verdict = authorize(request("UPDATE", "someone"), SET, OPTIONS)
    assert verdict.status == {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": (
            'update of podcliques "x" by someone: it is managed by the operator for PodCliqueSet "web"; '
            "change that set instead, or annotate it with grove.io/disable-managed-resource-protection=true first"
        ),
    }


def test_what_cannot_be_protected_is_allowed_with_a_warning() -> None:
    nobodys = request("CREATE", "someone", new={"metadata": {}})
    assert authorize(nobodys, None, OPTIONS) == Verdict(
        allowed=True, warnings=("this object is not protected: it has no label app.kubernetes.io/part-of",)
    )
    assert authorize(request("DELETE", "someone"), None, OPTIONS).warnings == (
        'this object is not protected: PodCliqueSet "web" does not exist',
    )


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        pytest.param(request("UPDATE", "u", new=child("other"), old=child("web")), "web", id="as it was, of an update"),
        pytest.param(request("CREATE", "u", new=child("other")), "other", id="as it will be, of a new object"),
        pytest.param(request("DELETE", "u", old=child("web")), "web", id="as it was, of a deletion"),
        pytest.param(request("CREATE", "u", new={"metadata": {"labels": 3}}), "", id="labels that are none"),
        pytest.param(request("CREATE", "u", new={"metadata": 3}), "", id="metadata that is none"),
    ],
)
def test_labels_that_a_write_takes_away_still_protect(asked: ReviewRequest, name: str) -> None:
    assert owning_set_name(asked) == name
