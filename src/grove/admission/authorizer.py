"""The optional authorizer: decides who may change objects that the operator manages. Pure.

It keeps people from editing pods, cliques or roles that the operator would only correct again, and from making objects
that the operator would take for its own. Which writes it is asked about is written in `webhook_configurations.py`.
"""

from collections.abc import Iterator, Sequence

import msgspec

from grove.admission.admission_review import ALLOWED, AdmissionResponse, ReviewRequest, refused
from grove.admission.policy import is_terminating
from grove.api import labels
from grove.api.resources import NATIVE_PODGROUPS, PODCLIQUESETS, PODGANGS
from grove.api.types.meta import JsonObject, ObjectMeta, OwnerReference, without_nulls
from grove.api.types.podcliqueset import PodCliqueSet

_MANAGER = "system:kube-controller-manager"
# It empties a namespace that is being deleted; a deletion once begun is never held up.
NAMESPACE_CONTROLLERS = ("system:serviceaccount:kube-system:namespace-controller", _MANAGER)
# It deletes what has lost its owner, and lets go of what is orphaned. It only does what owner references say.
GARBAGE_COLLECTORS = ("system:serviceaccount:kube-system:generic-garbage-collector", _MANAGER)
_OUR_GROUPS = (PODCLIQUESETS.group, PODGANGS.group)


class AuthorizerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """User names, as the API server knows them: `system:serviceaccount:<namespace>:<name>` for service accounts."""

    operator_user: str
    exempt_users: tuple[str, ...] = ()


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """Whose an object says it is, before and after a write: names of sets by label, its controllers by reference."""

    set_names: tuple[str, ...] = ()
    owners: tuple[OwnerReference, ...] = ()


def claims_of(request: ReviewRequest) -> Claims:
    """Return all claims of the object: one that a write takes away protects, and so does one that it adds."""
    before, after = _claims(request.old_object), _claims(request.object)
    return Claims(
        set_names=tuple(dict.fromkeys((*before.set_names, *after.set_names))),
        owners=tuple(dict.fromkeys((*before.owners, *after.owners))),
    )


def is_free(request: ReviewRequest) -> bool:
    """Answer whether everybody may do this: no look at the cluster is needed, and none can hold it up.

    A write to what is leaving is free, and so is an update of what schedulers keep of a gang; unless the object claims
    something that it did not claim before. The operator counts what is leaving too.
    """
    if request.operation == "CONNECT":
        return True
    is_scheduler_s = request.operation == "UPDATE" and request.resource.group == NATIVE_PODGROUPS.group
    if not (is_scheduler_s or is_terminating(request.old_object)):
        return False
    before, after = _claims(request.old_object), _claims(request.object)
    return {*after.set_names} <= {*before.set_names} and {*after.owners} <= {*before.owners}


def authorize(request: ReviewRequest, sets: Sequence[PodCliqueSet], options: AuthorizerOptions) -> AdmissionResponse:
    """`sets` are those that the claims of the object lead to, as far as they exist."""
    if is_free(request):
        return ALLOWED
    if not sets:
        return _allowed_unprotected(claims_of(request))
    pcs = next(_protecting(request, sets), None)
    if pcs is None or request.user_info.username in (options.operator_user, *options.exempt_users):
        return ALLOWED
    return _denied(request, pcs.metadata.name)


def _protecting(request: ReviewRequest, sets: Sequence[PodCliqueSet]) -> Iterator[PodCliqueSet]:
    user, is_deletion = request.user_info.username, request.operation == "DELETE"
    if request.operation != "CREATE" and user in GARBAGE_COLLECTORS:
        return
    if is_deletion and (_is_pod(request) or user in NAMESPACE_CONTROLLERS):
        return
    for pcs in sets:
        is_switched_off = pcs.metadata.annotations.get(labels.DISABLE_PROTECTION) == "true"
        if not is_switched_off and not (is_deletion and pcs.metadata.is_terminating):
            yield pcs


def _denied(request: ReviewRequest, name: str) -> AdmissionResponse:
    message = (
        f'{request.operation.lower()} of {request.resource.resource} "{request.name}" by {request.user_info.username}: '
        f'it is managed by the operator for PodCliqueSet "{name}"; change that set instead, or annotate it with '
        f"{labels.DISABLE_PROTECTION}=true first"
    )
    return refused(403, "Forbidden", message)


def _allowed_unprotected(claims: Claims) -> AdmissionResponse:
    if claims.set_names:
        why = f'PodCliqueSet "{claims.set_names[0]}" does not exist'
    elif claims.owners:
        why = f'its owner {claims.owners[0].kind} "{claims.owners[0].name}" does not exist, or belongs to no set'
    else:
        why = f"neither its label {labels.PART_OF} nor its owner names a set"
    return AdmissionResponse(allowed=True, warnings=(f"this object is not protected: {why}",))


def _claims(json: JsonObject | None) -> Claims:
    metadata = _read_metadata(json)
    name, owner = metadata.labels.get(labels.PART_OF, ""), metadata.controller_reference
    return Claims(
        set_names=(name,) if name else (),
        owners=(owner,) if owner is not None and owner.group in _OUR_GROUPS else (),
    )


def _read_metadata(json: JsonObject | None) -> ObjectMeta:
    """Read labels and owners. What cannot be read claims nothing: no API server stores it, nor could the operator."""
    metadata = (json or {}).get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    claims = {key: found[key] for key in ("labels", "ownerReferences") if key in found}
    try:
        return msgspec.convert(without_nulls(claims), ObjectMeta)
    except msgspec.ValidationError:
        return ObjectMeta()


def _is_pod(request: ReviewRequest) -> bool:
    return (request.resource.group, request.resource.resource) == ("", "pods")
