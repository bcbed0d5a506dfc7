"""Error responses: Status bodies with the codes, reasons and messages of a real API server.

Verbs raise `StatusError`; the server turns it into a response.
"""

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation import field_errors
from grove.api.validation.field_errors import FieldError
from grove.cluster.built_in_resources import ResourceInfo
from grove.kube.api_errors import ApiError
from grove.kube.transport import Response


class StatusError(Exception):
    """A rejected request: the client must act, because the request was invalid, outdated or not allowed."""

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
        wait = (self.details or {}).get("retryAfterSeconds")
        headers = {"Retry-After": str(wait)} if wait else {}
        return Response(status=self.code, body=msgspec.json.encode(self.status()), headers=headers)

    def api_error(self) -> ApiError:
        return ApiError(self.code, self.reason, self.message)


class UnreadableError(StatusError):
    """A body that is not an object of its kind. A patch reports it in other words (`field_validation.py`)."""

    def __init__(self, kind: str, version: str, wanted: str, error_message: str) -> None:
        message = f'{kind} in version "{version}" cannot be handled as a {wanted}: {error_message}'
        super().__init__(400, "BadRequest", message)
        self.error_message = error_message


class PageNotFoundError(StatusError):
    """A 404 for a path outside of all API groups. A real API server sends it as plain text."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")

    def response(self) -> Response:
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        return Response(status=self.code, body=f"{self.message}\n".encode(), headers=headers)


def details_of(resource_info: ResourceInfo, name: str) -> JsonObject:
    details: JsonObject = {"name": name} if name else {}
    if resource_info.group:
        details["group"] = resource_info.group
    details["kind"] = resource_info.plural
    return details


def unknown_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def not_found(resource_info: ResourceInfo, name: str) -> StatusError:
    return StatusError(
        404, "NotFound", f'{resource_info.qualified} "{name}" not found', details_of(resource_info, name)
    )


def already_exists(resource_info: ResourceInfo, name: str) -> StatusError:
    return StatusError(
        409, "AlreadyExists", f'{resource_info.qualified} "{name}" already exists', details_of(resource_info, name)
    )


def being_deleted(resource_info: ResourceInfo, name: str) -> StatusError:
    message = f'object is being deleted: {resource_info.qualified} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details_of(resource_info, name))


def conflict(resource_info: ResourceInfo, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {resource_info.qualified} "{name}": {why}'
    return StatusError(409, "Conflict", message, details_of(resource_info, name))


def conflict_of_kind(resource_info: ResourceInfo, name: str, why: str) -> StatusError:
    """Return a conflict that names the kind instead of the resource, as a real server does for delete preconditions."""
    qualified = f"{resource_info.kind}.{resource_info.group}" if resource_info.group else resource_info.kind
    details = {**details_of(resource_info, name), "kind": resource_info.kind}
    return StatusError(409, "Conflict", f'Operation cannot be fulfilled on {qualified} "{name}": {why}', details)


def stale(resource_info: ResourceInfo, name: str) -> StatusError:
    return conflict(
        resource_info,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


# Resources whose etcd key differs from the resource name; error messages contain the key.
_STORAGE_NAMES = {"services": "services/specs", "nodes": "minions"}


def other_uid(resource_info: ResourceInfo, metadata: JsonObject, wanted: str) -> StatusError:
    """Return the conflict of a UID precondition. `metadata` is that of the existing object."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {metadata['uid']}"
    return _storage_conflict(resource_info, metadata, why)


def still_readable(resource_info: ResourceInfo, metadata: JsonObject) -> StatusError:
    """Return the conflict of an unsafe delete, which is only for objects that cannot be decoded."""
    return _storage_conflict(
        resource_info, metadata, "unsafe deletion is not allowed because the object is decodable from storage"
    )


def _storage_conflict(resource_info: ResourceInfo, metadata: JsonObject, why: str) -> StatusError:
    name, plural = metadata["name"], _STORAGE_NAMES.get(resource_info.plural, resource_info.plural)
    folder = f"{resource_info.group}/{plural}" if resource_info.is_custom else plural
    key = "/".join(filter(None, ("/registry", folder, metadata.get("namespace"), name)))
    return conflict(
        resource_info,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}",
    )


def without_version(resource_info: ResourceInfo, name: str) -> StatusError:
    """Return the error of an update without resourceVersion, for kinds that require one."""
    error = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
    return invalid_kind(resource_info.plural, resource_info.group, name, [error])


def forbidden(resource_info: ResourceInfo, name: str, why: str, causes: list[JsonObject] | None = None) -> StatusError:
    details = details_of(resource_info, name)
    if causes:
        details["causes"] = causes
    return StatusError(403, "Forbidden", f'{resource_info.qualified} "{name}" is forbidden: {why}', details)


def invalid(resource_info: ResourceInfo, name: str, errors: tuple[FieldError, ...] | list[FieldError]) -> StatusError:
    return invalid_kind(resource_info.kind, resource_info.group, name, errors)


def invalid_kind(kind: str, group: str, name: str, errors: tuple[FieldError, ...] | list[FieldError]) -> StatusError:
    texts = [str(error) for error in errors]
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details: JsonObject = {"name": name} if name else {}
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details["causes"] = [
        {"reason": error.kind.value, "message": error.message, "field": error.path} for error in errors
    ]
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {summary}', details)


def rejected_patch() -> StatusError:
    """Return the error of a JSON patch that does not apply. A real API server gives no reason, either."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def too_large(why: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")


def invalid_options(kind: str, *errors: FieldError) -> StatusError:
    """Return the error of invalid options, such as `CreateOptions`."""
    return invalid_kind(kind, "meta.k8s.io", "", errors)


def undeterminable(name: str) -> StatusError:
    return bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


def other_namespace() -> StatusError:
    return bad_request("the namespace of the provided object does not match the namespace sent on the request")


def unrecognized(served_kind: str, body: bytes, why: str) -> StatusError:
    return bad_request(f"the object provided is unrecognized (must be of type {served_kind}): {why} ({_summary(body)})")


_SHOWN_BYTES = 30


def _summary(body: bytes) -> str:
    """Return the start of a body: as text if it looks like a JSON object, else as hex."""
    start = body[:_SHOWN_BYTES]
    shown = start.decode("utf-8", "replace") if body[:1] == b"{" else start.hex()
    return f"{shown} ..." if len(body) > _SHOWN_BYTES else shown or "<empty>"


def unsupported_verb(resource_info: ResourceInfo, verb: str) -> StatusError:
    """Return the 405 of a custom kind."""
    message = f'{verb} is not supported on resources of kind "{resource_info.qualified}"'
    return StatusError(405, "MethodNotAllowed", message, {"group": resource_info.group, "kind": resource_info.plural})


def unsupported_patch_type() -> StatusError:
    """Return the 415 of a built-in kind."""
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media_type(accepted: tuple[str, ...]) -> StatusError:
    return StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
    )


def overdrawn_budget(name: str, desired: int, healthy: int) -> StatusError:
    """Return the 429 of an eviction that the budget does not allow."""
    return _too_many(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently", {})


def uncounted_budget(name: str) -> StatusError:
    """Return the 429 of an eviction while the disruption controller has not observed the budget's generation."""
    error_message = f"The disruption budget {name} is still being processed by the server."
    return _too_many(error_message, {"retryAfterSeconds": 10})


def _too_many(error_message: str, details: JsonObject) -> StatusError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    causes = [{"reason": "DisruptionBudget", "message": error_message}]
    return StatusError(429, "TooManyRequests", message, {"causes": causes, **details})


def several_budgets() -> StatusError:
    message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    return StatusError(500, "", message)


def insufficient_storage(why: str) -> StatusError:
    """Return the error of a write that was rolled back. A real API server has no such reason."""
    message = f"the write was not stored: {why}; free disk space and try again"
    return StatusError(507, "InsufficientStorage", message)


def never_settled() -> StatusError:
    """Return the conflict of an object that changed repeatedly during webhook calls."""
    return StatusError(409, "Conflict", "the object has been modified; please try again")


def internal_error() -> StatusError:
    return StatusError(
        500, "InternalError", "Internal error occurred: this is a bug in the embedded cluster; see its log"
    )


def too_old(wanted: int, oldest: int) -> StatusError:
    return StatusError(410, "Expired", f"too old resource version: {wanted} ({oldest})")


def fell_behind() -> StatusError:
    """Return the 410 of a watch that reads more slowly than history is compacted."""
    return StatusError(410, "Expired", "The resourceVersion for the provided watch is too old.")


def too_old_list() -> StatusError:
    return StatusError(410, "Expired", "The resourceVersion for the provided list is too old.")


class ExpiredContinueError(StatusError):
    """A continue token of a compacted revision. The response has a token that continues at the current revision."""

    def __init__(self, token: str) -> None:
        message = (
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list."
        )
        super().__init__(410, "Expired", message)
        self._token = token

    def status(self) -> JsonObject:
        return {**super().status(), "metadata": {"continue": self._token}}


def too_large_version(wanted: int, current: int) -> StatusError:
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def immutable(path: str, value: object) -> FieldError:
    return field_errors.invalid(path, value, "field is immutable")


def unsupported_field(path: str) -> FieldError:
    """Return the error of a field that the embedded cluster does not support."""
    return field_errors.forbidden(path, "not supported by the embedded cluster")
