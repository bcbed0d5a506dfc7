"""The optional authorizer: decides who may change objects that the operator manages. Pure.

It stops users from editing objects that the operator would correct, and from creating objects that the operator would
take for its own. `webhook_configurations.py` defines which writes it reviews.
"""

from collections.abc import Iterator, Sequence

import msgspec

from grove.admission.admission_review import ALLOWED, AdmissionResponse, ReviewRequest, reject
from grove.admission.policy import is_terminating
from grove.api import labels
from grove.api.resources import NATIVE_PODGROUPS, PODCLIQUESETS, PODGANGS
from grove.api.types.meta import JsonObject, ObjectMeta, OwnerReference, without_nulls
from grove.api.types.podcliqueset import PodCliqueSet

_MANAGER = "system:kube-controller-manager"
# They delete the objects of a terminating namespace. Deletion is never blocked.
NAMESPACE_CONTROLLERS = ("system:serviceaccount:kube-system:namespace-controller", _MANAGER)
# They delete objects without owners and orphan dependents, as owner references demand.
GARBAGE_COLLECTORS = ("system:serviceaccount:kube-system:generic-garbage-collector", _MANAGER)
_OUR_GROUPS = (PODCLIQUESETS.group, PODGANGS.group)


class AuthorizerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """User names as in the API server: `system:serviceaccount:<namespace>:<name>` for service accounts."""

    operator_user: str
    exempt_users: tuple[str, ...] = ()


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """The sets that an object claims to belong to, before and after a write: by label, and by controller reference."""

    set_names: tuple[str, ...] = ()
    owners: tuple[OwnerReference, ...] = ()


def collect_claims(request: ReviewRequest) -> Claims:
    """Return all claims of the object. A claim that the write removes protects it, and so does one that it adds."""
    before, after = _claims(request.old_object), _claims(request.object)
    return Claims(
        set_names=tuple(dict.fromkeys((*before.set_names, *after.set_names))),
        owners=tuple(dict.fromkeys((*before.owners, *after.owners))),
    )


def is_exempt(request: ReviewRequest) -> bool:
    """Return whether every user may do this, so that no lookup is needed.

    Writes to terminating objects are exempt, and so are updates of scheduler objects, unless the write adds a claim:
    the operator counts terminating objects too.
    """
    if request.operation == "CONNECT":
        return True
    is_scheduler_update = request.operation == "UPDATE" and request.resource.group == NATIVE_PODGROUPS.group
    if not (is_scheduler_update or is_terminating(request.old_object)):
        return False
    before, after = _claims(request.old_object), _claims(request.object)
    return {*after.set_names} <= {*before.set_names} and {*after.owners} <= {*before.owners}


def authorize(request: ReviewRequest, sets: Sequence[PodCliqueSet], options: AuthorizerOptions) -> AdmissionResponse:
    """Return the response. `sets` are the existing sets that the object claims to belong to."""
    if is_exempt(request):
        return ALLOWED
    if not sets:
        return _allow_unprotected(collect_claims(request))
    pcs = next(_protecting_sets(request, sets), None)
    if pcs is None or request.user_info.username in (options.operator_user, *options.exempt_users):
        return ALLOWED
    return _deny(request, pcs.metadata.name)


def _protecting_sets(request: ReviewRequest, sets: Sequence[PodCliqueSet]) -> Iterator[PodCliqueSet]:
    user, is_deletion = request.user_info.username, request.operation == "DELETE"
    if request.operation != "CREATE" and user in GARBAGE_COLLECTORS:
        return
    if is_deletion and (_is_pod(request) or user in NAMESPACE_CONTROLLERS):
        return
    for pcs in sets:
        is_disabled = pcs.metadata.annotations.get(labels.DISABLE_PROTECTION) == "true"
        if not is_disabled and not (is_deletion and pcs.metadata.is_terminating):
            yield pcs


def _deny(request: ReviewRequest, name: str) -> AdmissionResponse:
    message = (
        f'{request.operation.lower()} of {request.resource.resource} "{request.name}" by {request.user_info.username}: '
        f'it is managed by the operator for PodCliqueSet "{name}"; change that set instead, or annotate it with '
        f"{labels.DISABLE_PROTECTION}=true first"
    )
    return reject(403, "Forbidden", message)


def _allow_unprotected(claims: Claims) -> AdmissionResponse:
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
    """Return labels and owners. Malformed metadata claims nothing: no API server stores it."""
    metadata = (json or {}).get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    claims = {key: found[key] for key in ("labels", "ownerReferences") if key in found}
    try:
        return msgspec.convert(without_nulls(claims), ObjectMeta)
    except msgspec.ValidationError:
        return ObjectMeta()


def _is_pod(request: ReviewRequest) -> bool:
    return (request.resource.group, request.resource.resource) == ("", "pods")
