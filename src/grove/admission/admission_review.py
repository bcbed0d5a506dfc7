"""AdmissionReview v1, the envelope of every question an API server asks a webhook: opened and closed here. Pure.

What is inside is judged in `policy.py` and `authorizer.py`.
"""

import base64
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject, WireStruct
from grove.api.validation.field_errors import FieldError

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


# Twice what an object of 1.5 MiB has. A body of nothing but brackets would take fifty times its size in memory.
MOST_VALUES = 400_000
# A podSpec in a set has about 20, and so have its managed fields.
MOST_LEVELS = 100


class MalformedReviewError(Exception):
    """Whoever sent the body must act: it is not an AdmissionReview that we understand."""


class OversizedReviewError(Exception):
    """Whoever sent the body must act: reading it would take too much memory."""


class GroupKind(WireStruct):
    group: str = ""
    version: str = ""
    kind: str = ""


class GroupResource(WireStruct):
    group: str = ""
    version: str = ""
    resource: str = ""


class ReviewUserInfo(WireStruct):
    username: str = ""


class _Circumstances(WireStruct):
    """A question without the objects that it is about."""

    uid: str
    operation: str
    kind: GroupKind = GroupKind()
    resource: GroupResource = GroupResource()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: ReviewUserInfo = ReviewUserInfo()


class ReviewRequest(_Circumstances):
    """One question. `object` is null for a deletion, `oldObject` for a creation."""

    object: JsonObject | None = None
    old_object: JsonObject | None = None


class AdmissionResponse(WireStruct):
    """What is answered. `status` says why not; `patch` (JSON Patch) what to change first."""

    allowed: bool
    status: JsonObject | None = None
    patch: list[JsonObject] | None = None
    warnings: tuple[str, ...] = ()


ALLOWED = AdmissionResponse(allowed=True)


_NULL = msgspec.Raw(b"null")


class _UnreadRequest(_Circumstances):
    """Objects are read one after the other: a decoder that reads for long holds up the other thread."""

    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL


class _Review(WireStruct):
    api_version: str
    kind: str
    request: _UnreadRequest


_DECODER = msgspec.json.Decoder(_Review)
_OBJECT_DECODER = msgspec.json.Decoder(JsonObject | None)


def open_review(body: bytes) -> ReviewRequest:
    """Raises `MalformedReviewError` or `OversizedReviewError`, with a text for whoever sent it."""
    # Those inside of texts are counted too: it is a bound, and quick to find.
    if body.count(b",") + body.count(b"{") + body.count(b"[") > MOST_VALUES:
        raise OversizedReviewError(f"the body has more than {MOST_VALUES} values")
    try:
        review = _DECODER.decode(body)
        new, old = (_OBJECT_DECODER.decode(raw) for raw in (review.request.object, review.request.old_object))
    except RecursionError as error:
        raise _nested_too_deeply() from error
    except msgspec.MsgspecError as error:
        raise MalformedReviewError(f"not an AdmissionReview: {error}") from error
    except UnicodeDecodeError as error:
        raise MalformedReviewError("not an AdmissionReview: the text is not UTF-8") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise MalformedReviewError(f"send {KIND} {API_VERSION}, not {review.kind} {review.api_version}")
    for content in (new, old):
        _check_levels(content)
    circumstances = {name: getattr(review.request, name) for name in _Circumstances.__struct_fields__}
    return ReviewRequest(**circumstances, object=new, old_object=old)


def _check_levels(content: JsonObject | None) -> None:
    level: list[Any] = [content]
    for _ in range(MOST_LEVELS):
        values = (value.values() if isinstance(value, dict) else value for value in level)
        level = [inner for inners in values if inners for inner in inners if isinstance(inner, dict | list)]
        if not level:
            return
    raise _nested_too_deeply()


def _nested_too_deeply() -> MalformedReviewError:
    return MalformedReviewError(f"not an AdmissionReview: nested deeper than {MOST_LEVELS} levels")


def close_review(uid: str, verdict: AdmissionResponse) -> bytes:
    response: JsonObject = {"uid": uid, "allowed": verdict.allowed}
    if verdict.status is not None:
        response["status"] = verdict.status
    if verdict.patch:
        patch = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    if verdict.warnings:
        response["warnings"] = verdict.warnings
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def invalid(kind: GroupKind, name: str, errors: tuple[FieldError, ...]) -> AdmissionResponse:
    """Refused in the words of an API server that found these errors itself."""
    texts = [str(error) for error in errors]
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": error.kind.value, "message": error.message, "field": error.path} for error in errors]
    message = f'{kind.kind}.{kind.group} "{name}" is invalid: {summary}'
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes}
    return refused(422, "Invalid", message, details)


def refused(code: int, reason: str, message: str, details: JsonObject | None = None) -> AdmissionResponse:
    status: JsonObject = {"status": "Failure", "code": code, "reason": reason, "message": message}
    if details is not None:
        status["details"] = details
    return AdmissionResponse(allowed=False, status=status)
