"""AdmissionReview v1, the envelope of every question an API server asks a webhook: opened and closed here. Pure.

What is inside is judged in `review.py` and `authorizer.py`.
"""

import base64

import msgspec

from grove.api.fielderrors import FieldError
from grove.api.meta import JsonObject, Wire

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class MalformedReviewError(Exception):
    """Whoever sent the body must act: it is not an AdmissionReview that we understand."""


class GroupKind(Wire):
    group: str = ""
    version: str = ""
    kind: str = ""


class GroupResource(Wire):
    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(Wire):
    username: str = ""


class ReviewRequest(Wire):
    """One question. `object` is null for a deletion, `oldObject` for a creation."""

    uid: str
    operation: str
    kind: GroupKind = GroupKind()
    resource: GroupResource = GroupResource()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: JsonObject | None = None
    old_object: JsonObject | None = None


class Verdict(Wire):
    """What is answered. `status` says why not; `patch` (JSON Patch) what to change first."""

    allowed: bool
    status: JsonObject | None = None
    patch: list[JsonObject] | None = None
    warnings: tuple[str, ...] = ()


ALLOWED = Verdict(allowed=True)


class _Review(Wire):
    api_version: str
    kind: str
    request: ReviewRequest


_DECODER = msgspec.json.Decoder(_Review)


def open_review(body: bytes) -> ReviewRequest:
    """Raises `MalformedReviewError`, with a text for whoever sent it."""
    try:
        review = _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise MalformedReviewError(f"not an AdmissionReview: {error}") from error
    except UnicodeDecodeError as error:
        raise MalformedReviewError("not an AdmissionReview: the text is not UTF-8") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise MalformedReviewError(f"send {KIND} {API_VERSION}, not {review.kind} {review.api_version}")
    return review.request


def close_review(uid: str, verdict: Verdict) -> bytes:
    response: JsonObject = {"uid": uid, "allowed": verdict.allowed}
    if verdict.status is not None:
        response["status"] = verdict.status
    if verdict.patch:
        patch = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    if verdict.warnings:
        response["warnings"] = verdict.warnings
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def invalid(kind: GroupKind, name: str, errors: tuple[FieldError, ...]) -> Verdict:
    """Refused in the words of an API server that found these errors itself."""
    texts = [str(error) for error in errors]
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": error.kind.value, "message": error.message, "field": error.path} for error in errors]
    message = f'{kind.kind}.{kind.group} "{name}" is invalid: {summary}'
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes}
    return refused(422, "Invalid", message, details)


def refused(code: int, reason: str, message: str, details: JsonObject | None = None) -> Verdict:
    status: JsonObject = {"status": "Failure", "code": code, "reason": reason, "message": message}
    if details is not None:
        status["details"] = details
    return Verdict(allowed=False, status=status)
