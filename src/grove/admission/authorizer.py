"""Who may change what the operator manages: the optional authorizer. One decision, pure.

It keeps people from editing pods, cliques or roles that the operator would only correct again; which writes it is asked
about is written in `installation/webhooks.py`.
"""

import msgspec

from grove.admission.envelope import ALLOWED, ReviewRequest, Verdict, refused
from grove.admission.review import is_leaving
from grove.api import labels
from grove.api.meta import JsonObject
from grove.api.podcliqueset import PodCliqueSet

# It empties a namespace that is being deleted; a deletion once begun is never held up.
NAMESPACE_CONTROLLERS = ("system:serviceaccount:kube-system:namespace-controller", "system:kube-controller-manager")


class AuthorizerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """User names, as the API server knows them: `system:serviceaccount:<namespace>:<name>` for service accounts."""

    operator_user: str
    exempt_users: tuple[str, ...] = ()


def owning_set_name(request: ReviewRequest) -> str:
    """The set that the object says it is part of; empty if it says nothing."""
    return _labels_of(_judged_object(request)).get(labels.PART_OF, "")


def authorize(request: ReviewRequest, pcs: PodCliqueSet | None, options: AuthorizerOptions) -> Verdict:
    """`pcs` is the set that `owning_set_name` named, if there is one."""
    user = request.user_info.username
    if request.operation == "CONNECT" or is_leaving(request.old_object):
        return ALLOWED
    name = owning_set_name(request)
    if not name:
        return _allowed_unprotected(f"it has no label {labels.PART_OF}")
    if pcs is None:
        return _allowed_unprotected(f'PodCliqueSet "{name}" does not exist')
    if pcs.metadata.annotations.get(labels.DISABLE_PROTECTION) == "true":
        return ALLOWED
    if request.operation == "DELETE" and (_is_pod(request) or user in NAMESPACE_CONTROLLERS or pcs.metadata.is_leaving):
        return ALLOWED
    if user == options.operator_user or user in options.exempt_users:
        return ALLOWED
    return _denied(request, name)


def _denied(request: ReviewRequest, name: str) -> Verdict:
    message = (
        f'{request.operation.lower()} of {request.resource.resource} "{request.name}" by {request.user_info.username}: '
        f'it is managed by the operator for PodCliqueSet "{name}"; change that set instead, or annotate it with '
        f"{labels.DISABLE_PROTECTION}=true first"
    )
    return refused(403, "Forbidden", message)


def _allowed_unprotected(why: str) -> Verdict:
    return Verdict(allowed=True, warnings=(f"this object is not protected: {why}",))


def _judged_object(request: ReviewRequest) -> JsonObject:
    """Labels that a write takes away still protect: of an update the object as it was counts."""
    return (request.object if request.operation == "CREATE" else request.old_object) or {}


def _labels_of(json: JsonObject) -> dict[str, str]:
    metadata = json.get("metadata")
    found = metadata.get("labels") if isinstance(metadata, dict) else None
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _is_pod(request: ReviewRequest) -> bool:
    return (request.resource.group, request.resource.resource) == ("", "pods")
