"""Who may change what the operator manages: one decision per row."""

from typing import Any

import pytest

from grove.admission.admission_review import AdmissionResponse, GroupResource, ReviewRequest, ReviewUserInfo
from grove.admission.authorizer import AuthorizerOptions, Claims, authorize, collect_claims
from grove.api.types.meta import JsonObject, OwnerReference, to_wire
from grove.api.types.podcliqueset import PodCliqueSet
from tests.api.manifests import decoded, manifest

OPTIONS = AuthorizerOptions(operator_user="operator", exempt_users=("collector",))
SET = decoded(manifest())
OPEN = decoded(manifest(metadata={"annotations": {"grove.io/disable-managed-resource-protection": "true"}}))
LEAVING = decoded(manifest(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
NAMESPACE_CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"
GARBAGE_COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
MANAGER = "system:kube-controller-manager"
BY_CLIQUE = OwnerReference(api_version="grove.io/v1alpha1", kind="PodClique", name="web-0-a", controller=True)
BY_GANG = OwnerReference(api_version="scheduler.grove.io/v1alpha1", kind="PodGang", name="web-0", controller=True)
BY_JOB = OwnerReference(api_version="batch/v1", kind="Job", name="web-0", controller=True)
BESIDE = OwnerReference(api_version="grove.io/v1alpha1", kind="PodClique", name="web-0-a")


GROUPS = {"pods": "", "podgroups": "scheduling.k8s.io"}


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
        resource=GroupResource(group=GROUPS.get(resource, "grove.io"), resource=resource),
        name="x",
        user_info=ReviewUserInfo(username=user),
        object=new if new is not None or operation == "DELETE" else child(),
        old_object=old if old is not None or operation == "CREATE" else child(),
    )


@pytest.mark.parametrize(
    ("asked", "pcs", "allowed"),
    [
        pytest.param(request("DELETE", GARBAGE_COLLECTOR), SET, True, id="garbage is collected"),
        pytest.param(request("UPDATE", GARBAGE_COLLECTOR), SET, True, id="orphans are let go"),
        pytest.param(request("CREATE", GARBAGE_COLLECTOR), SET, False, id="a collector creates nothing"),
        pytest.param(request("UPDATE", MANAGER), SET, True, id="controllers without accounts of their own"),
        pytest.param(request("CREATE", "someone", resource="pods"), SET, False, id="somebody makes a pod of ours"),
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
            request("UPDATE", "someone", new={"metadata": {}}, old=child(deletionTimestamp="2026-01-01T00:00:00Z")),
            SET,
            True,
            id="leaving, and not the set's any more",
        ),
        pytest.param(
            request("UPDATE", "someone", old={"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            SET,
            False,
            id="leaving, and only now the set's",
        ),
        pytest.param(
            request("UPDATE", "someone", resource="podgroups", new=child(annotations={"a": "b"})),
            SET,
            True,
            id="a scheduler updates what it keeps of a gang",
        ),
        pytest.param(
            request("UPDATE", "someone", resource="podgroups", old={"metadata": {}}),
            SET,
            False,
            id="somebody makes a gang of theirs the set's",
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
    assert authorize(asked, () if pcs is None else (pcs,), OPTIONS).allowed is allowed


@pytest.mark.parametrize("sets", [(SET, OPEN), (OPEN, SET), (LEAVING, SET), (SET, LEAVING)])
def test_whoever_claims_two_sets_is_refused_for_the_one_that_is_protected(sets: tuple[PodCliqueSet, ...]) -> None:
    """A label of one set, and an owner of another: naming an open one does not open the other."""
    assert not authorize(request("UPDATE", "someone"), sets, OPTIONS).allowed
    assert not authorize(request("DELETE", "someone"), sets, OPTIONS).allowed


def test_a_refusal_says_what_to_do() -> None:
    verdict = authorize(request("UPDATE", "someone"), (SET,), OPTIONS)
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
    assert authorize(nobodys, (), OPTIONS) == AdmissionResponse(
        allowed=True,
        warnings=(
            "this object is not protected: neither its label app.kubernetes.io/part-of nor its owner names a set",
        ),
    )
    assert authorize(request("DELETE", "someone"), (), OPTIONS).warnings == (
        'this object is not protected: PodCliqueSet "web" does not exist',
    )
    assert authorize(request("CREATE", "someone", new=owned(BY_CLIQUE)), (), OPTIONS).warnings == (
        'this object is not protected: its owner PodClique "web-0-a" does not exist, or belongs to no set',
    )


def owned(*owners: OwnerReference, **metadata: Any) -> JsonObject:
    return {"metadata": {"name": "x", "ownerReferences": [to_wire(owner) for owner in owners], **metadata}}


def claims(*names: str, owners: tuple[OwnerReference, ...] = ()) -> Claims:
    return Claims(set_names=names, owners=owners)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param(
            request("UPDATE", "u", new=child("other"), old=child("web")), claims("web", "other"), id="before and after"
        ),
        pytest.param(request("UPDATE", "u", new=child(), old=owned()), claims("web"), id="added by an update"),
        pytest.param(request("CREATE", "u", new=child("other")), claims("other"), id="of a new object"),
        pytest.param(request("DELETE", "u", old=child("web")), claims("web"), id="as it was, of a deletion"),
        pytest.param(
            request("CREATE", "u", new=owned(BY_CLIQUE)), claims(owners=(BY_CLIQUE,)), id="an owner, and no label"
        ),
        pytest.param(
            request("UPDATE", "u", new=owned(BY_CLIQUE), old=owned(BY_GANG)),
            claims(owners=(BY_GANG, BY_CLIQUE)),
            id="another owner",
        ),
        pytest.param(request("CREATE", "u", new=owned(BESIDE)), claims(), id="an owner that is not the controller"),
        pytest.param(request("CREATE", "u", new=owned(BESIDE, BY_JOB)), claims(), id="an owner of another group"),
        pytest.param(request("CREATE", "u", new={"metadata": {"labels": 3}}), claims(), id="labels that are none"),
        pytest.param(request("CREATE", "u", new={"metadata": 3}), claims(), id="metadata that is none"),
    ],
)
def test_an_object_is_whose_it_says_by_label_or_owner_before_or_after_the_write(
    asked: ReviewRequest, found: Claims
) -> None:
    assert collect_claims(asked) == found
