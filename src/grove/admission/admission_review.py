"""Decode and encode AdmissionReview v1, with which an API server calls a webhook. Pure.

`policy.py` and `authorizer.py` compute the responses.
"""

import base64
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject, WireStruct
from grove.api.validation.field_errors import FieldError

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


# Twice what an object of 1.5 MiB has. Decoding a body of brackets takes fifty times its size in memory.
MOST_VALUES = 400_000
# A podSpec in a set has about 20, and so have its managed fields.
MOST_LEVELS = 100


class MalformedReviewError(Exception):
    """An error for a body that is not a supported AdmissionReview; the sender must correct it."""


class OversizedReviewError(Exception):
    """An error for a body that would take too much memory to decode."""


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


class _ReviewEnvelope(WireStruct):
    """A request without its objects."""

    uid: str
    operation: str
    kind: GroupKind = GroupKind()
    resource: GroupResource = GroupResource()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: ReviewUserInfo = ReviewUserInfo()


class ReviewRequest(_ReviewEnvelope):
    """A request for review. `object` is null for a delete, `oldObject` for a create."""

    object: JsonObject | None = None
    old_object: JsonObject | None = None


class AdmissionResponse(WireStruct):
    """A response: `status` says why a write is rejected, `patch` (JSON Patch) what to change in the object."""

    allowed: bool
    status: JsonObject | None = None
    patch: list[JsonObject] | None = None
    warnings: tuple[str, ...] = ()


ALLOWED = AdmissionResponse(allowed=True)


_NULL = msgspec.Raw(b"null")


class _UnreadRequest(_ReviewEnvelope):
    """A request whose objects are decoded one after the other: one long decode would block the other thread."""

    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL


class _Review(WireStruct):
    api_version: str
    kind: str
    request: _UnreadRequest


_DECODER = msgspec.json.Decoder(_Review)
_OBJECT_DECODER = msgspec.json.Decoder(JsonObject | None)


def decode_review(body: bytes) -> ReviewRequest:
    """Decode a review. Raises `MalformedReviewError` or `OversizedReviewError`, with a message for the sender."""
    # An upper bound that is fast to compute: characters inside of strings count too.
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
    envelope = {name: getattr(review.request, name) for name in _ReviewEnvelope.__struct_fields__}
    return ReviewRequest(**envelope, object=new, old_object=old)


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


def encode_review(uid: str, response: AdmissionResponse) -> bytes:
    body: JsonObject = {"uid": uid, "allowed": response.allowed}
    if response.status is not None:
        body["status"] = response.status
    if response.patch:
        patch = base64.b64encode(msgspec.json.encode(response.patch)).decode()
        body |= {"patchType": "JSONPatch", "patch": patch}
    if response.warnings:
        body["warnings"] = response.warnings
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": body})


def invalid(kind: GroupKind, name: str, errors: tuple[FieldError, ...]) -> AdmissionResponse:
    """Return a rejection with the text that the API server itself uses for invalid objects."""
    texts = [str(error) for error in errors]
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": error.kind.value, "message": error.message, "field": error.path} for error in errors]
    message = f'{kind.kind}.{kind.group} "{name}" is invalid: {summary}'
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes}
    return reject(422, "Invalid", message, details)


def reject(code: int, reason: str, message: str, details: JsonObject | None = None) -> AdmissionResponse:
    status: JsonObject = {"status": "Failure", "code": code, "reason": reason, "message": message}
    if details is not None:
        status["details"] = details
    return AdmissionResponse(allowed=False, status=status)
