"""Requests to and responses from a single webhook. No I/O.

`webhook_dispatcher.py` selects webhooks and uses their results; `cluster/http/webhook_client.py` sends the requests.
"""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject

_REVIEW = "AdmissionReview"
_VERSION = "admission.k8s.io/v1"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a webhook."""

    # As it appears in error messages.
    shown: str
    # The URL to call. Empty: the webhook cannot be called, and `error_message` gives the reason.
    url: str = ""
    # The name in its certificate, if that is not the host of the URL.
    tls_name: str = ""
    error_message: str = ""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook call that is needed before a write can continue."""

    webhook: str
    is_mutating: bool
    address: "Address"
    # The CA bundle: base64 of PEM.
    ca_bundle: str
    timeout_seconds: int
    # The request of the review, as JSON, without its uid.
    request: bytes

    @property
    def key(self) -> tuple[str, bytes]:
        """The identity of the call: calls with the same key have the same response."""
        return self.webhook, self.request

    def encode_review(self, uid: str) -> bytes:
        head = f'{{"kind":"{_REVIEW}","apiVersion":"{_VERSION}","request":{{"uid":"{uid}",'
        return head.encode() + self.request[1:] + b"}"


class WebhookResult(msgspec.Struct, frozen=True, kw_only=True):
    """The response of a webhook. `patch` is a decoded JSON patch."""

    is_allowed: bool
    status: JsonObject | None = None
    patch: list[Any] | None = None
    warnings: tuple[str, ...] = ()


class CallFailure(msgspec.Struct, frozen=True):
    """A call without a usable response. The failure policy of the webhook decides."""

    why: str


CallResult = WebhookResult | CallFailure
# Takes a call and the uid of its request.
WebhookCaller = Callable[[Call, str], Awaitable[CallResult]]


class PendingCallsError(Exception):
    """The write needs the responses to these calls. Nothing was stored."""

    def __init__(self, calls: tuple[Call, ...] = ()) -> None:
        super().__init__()
        self.calls = calls


class _Response(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: tuple[str, ...] | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: _Response | None = None


def read_review(call: Call, uid: str, body: bytes) -> CallResult:
    """Decode the response body, and check that it belongs to this request."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return CallFailure(f"failed to call webhook: couldn't get version/kind; json parse error: {error}")
    response = review.response
    if response is None:
        return _invalid("webhook response was absent")
    if response.uid != uid:
        return _invalid(f'expected response.uid="{uid}", got "{response.uid}"')
    if (review.kind, review.api_version) != (_REVIEW, _VERSION):
        group, _, version = review.api_version.rpartition("/")
        got = f"{group}/{version}, Kind={review.kind}"
        return _invalid(f"expected webhook response of admission.k8s.io/v1, Kind={_REVIEW}, got {got}")
    return _read_response(call, response)


def _read_response(call: Call, response: _Response) -> CallResult:
    if call.is_mutating:
        if response.patch and response.patch_type is None:
            return _invalid("webhook returned response.patch but not response.patchType")
        if not response.patch and response.patch_type is not None:
            return _invalid("webhook returned response.patchType but not response.patch")
        if response.patch_type == "":
            return _invalid('webhook returned invalid response.patchType of ""')
    elif response.patch:
        return _invalid("validating webhook may not return response.patch")
    elif response.patch_type is not None:
        return _invalid("validating webhook may not return response.patchType")
    result = WebhookResult(
        is_allowed=response.allowed, status=response.status, warnings=response.warnings or ()
    )  # fmt: skip
    if not response.allowed or not response.patch:
        return result
    if response.patch_type != "JSONPatch":
        return CallFailure(f'unsupported patch type "{response.patch_type}"')
    try:
        patch = msgspec.json.decode(base64.b64decode(response.patch, validate=True), type=list[Any])
    except (ValueError, msgspec.DecodeError) as error:
        return CallFailure(f"received undecodable patch in webhook response: {error}")
    return msgspec.structs.replace(result, patch=patch)


def _invalid(why: str) -> CallFailure:
    return CallFailure(f"received invalid webhook response: {why}")
