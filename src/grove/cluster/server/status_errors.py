"""What the server says no with: Status bodies with the codes, reasons and words of a real API server.

Verbs raise `RefusedError`; the server turns it into a response.
"""

import msgspec

from grove.api import fielderrors
from grove.api.fielderrors import FieldError
from grove.api.meta import JsonObject
from grove.cluster.resources import Served
from grove.kube.errors import ApiError
from grove.kube.transport import Response


class RefusedError(Exception):
    """The client must act: the request was wrong, came too late, or is not allowed."""

    def __init__(self, code: int, reason: str, message: str, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> JsonObject:
        body: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body

    def response(self) -> Response:
        return Response(status=self.code, body=msgspec.json.encode(self.status()))

    def api_error(self) -> ApiError:
        return ApiError(self.code, self.reason, self.message)


def details_of(served: Served, name: str) -> JsonObject:
    details: JsonObject = {"name": name} if name else {}
    if served.group:
        details["group"] = served.group
    details["kind"] = served.plural
    return details


def unknown_path() -> RefusedError:
    return RefusedError(404, "NotFound", "the server could not find the requested resource", {})


def not_found(served: Served, name: str) -> RefusedError:
    return RefusedError(404, "NotFound", f'{served.qualified} "{name}" not found', details_of(served, name))


def already_exists(served: Served, name: str) -> RefusedError:
    return RefusedError(409, "AlreadyExists", f'{served.qualified} "{name}" already exists', details_of(served, name))


def being_deleted(served: Served, name: str) -> RefusedError:
    message = f'object is being deleted: {served.qualified} "{name}" already exists'
    return RefusedError(409, "AlreadyExists", message, details_of(served, name))


def conflict(served: Served, name: str, why: str) -> RefusedError:
    message = f'Operation cannot be fulfilled on {served.qualified} "{name}": {why}'
    return RefusedError(409, "Conflict", message, details_of(served, name))


def stale(served: Served, name: str) -> RefusedError:
    return conflict(
        served, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def other_uid(served: Served, name: str, wanted: str, actual: str) -> RefusedError:
    return conflict(served, name, f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}")


def forbidden(served: Served, name: str, why: str, causes: list[JsonObject] | None = None) -> RefusedError:
    details = details_of(served, name)
    if causes:
        details["causes"] = causes
    return RefusedError(403, "Forbidden", f'{served.qualified} "{name}" is forbidden: {why}', details)


def invalid(served: Served, name: str, errors: tuple[FieldError, ...] | list[FieldError]) -> RefusedError:
    return invalid_kind(served.kind, served.group, name, errors)


def invalid_kind(kind: str, group: str, name: str, errors: tuple[FieldError, ...] | list[FieldError]) -> RefusedError:
    texts = [str(error) for error in errors]
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details: JsonObject = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = kind
    details["causes"] = [
        {"reason": error.kind.value, "message": error.message, "field": error.path} for error in errors
    ]
    return RefusedError(422, "Invalid", f'{qualified} "{name}" is invalid: {summary}', details)


def rejected_patch(why: str) -> RefusedError:
    """A JSON patch that does not apply to the object as it is."""
    return RefusedError(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        {"causes": [{"reason": "UnexpectedServerResponse", "message": why}]},
    )


def bad_request(message: str) -> RefusedError:
    return RefusedError(400, "BadRequest", message)


def method_not_allowed() -> RefusedError:
    return RefusedError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media_type(accepted: tuple[str, ...]) -> RefusedError:
    return RefusedError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
    )


def too_old(wanted: int, oldest: int) -> RefusedError:
    return RefusedError(410, "Expired", f"too old resource version: {wanted} ({oldest})")


def fell_behind() -> RefusedError:
    """For a watcher that reads more slowly than history is forgotten."""
    return RefusedError(410, "Expired", "The resourceVersion for the provided watch is too old.")


def expired_continue() -> RefusedError:
    return RefusedError(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You must start a new list "
        "without the continue parameter.",
    )


def too_large_version(wanted: int, current: int) -> RefusedError:
    return RefusedError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def immutable(path: str, value: object) -> FieldError:
    return fielderrors.invalid(path, value, "field is immutable")


def unsupported_field(path: str) -> FieldError:
    """A field that this cluster would have to ignore: it says so instead."""
    return fielderrors.forbidden(path, "not supported by the embedded cluster")
