"""What the server says no with: Status bodies with the codes, reasons and words of a real API server.

Verbs raise `RefusedError`; the server turns it into a response.
"""

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation import field_errors
from grove.api.validation.field_errors import FieldError
from grove.cluster.built_in_resources import Served
from grove.kube.api_errors import ApiError
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
        wait = (self.details or {}).get("retryAfterSeconds")
        headers = {"Retry-After": str(wait)} if wait else {}
        return Response(status=self.code, body=msgspec.json.encode(self.status()), headers=headers)

    def api_error(self) -> ApiError:
        return ApiError(self.code, self.reason, self.message)


class UnreadableError(RefusedError):
    """What was sent is no object of its kind. Of a patch this is said in other words (`conformity.refused_patch`)."""

    def __init__(self, kind: str, version: str, wanted: str, problem: str) -> None:
        message = f'{kind} in version "{version}" cannot be handled as a {wanted}: {problem}'
        super().__init__(400, "BadRequest", message)
        self.problem = problem


class PageNotFoundError(RefusedError):
    """Not even a place where objects could be: a real server says so in plain text."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")

    def response(self) -> Response:
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        return Response(status=self.code, body=f"{self.message}\n".encode(), headers=headers)


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


def conflict_of_kind(served: Served, name: str, why: str) -> RefusedError:
    """As `conflict`, where a real server speaks of the kind and not of the resource: preconditions of a deletion."""
    qualified = f"{served.kind}.{served.group}" if served.group else served.kind
    details = {**details_of(served, name), "kind": served.kind}
    return RefusedError(409, "Conflict", f'Operation cannot be fulfilled on {qualified} "{name}": {why}', details)


def stale(served: Served, name: str) -> RefusedError:
    return conflict(
        served, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


# Where a real server stores what it does not store under the resource's name; it shows.
_STORAGE_NAMES = {"services": "services/specs", "nodes": "minions"}


def other_uid(served: Served, metadata: JsonObject, wanted: str) -> RefusedError:
    """`metadata` is that of the object there is."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {metadata['uid']}"
    return _storage_conflict(served, metadata, why)


def still_readable(served: Served, metadata: JsonObject) -> RefusedError:
    """Of a deletion that is meant for objects that nobody can read any more."""
    return _storage_conflict(
        served, metadata, "unsafe deletion is not allowed because the object is decodable from storage"
    )


def _storage_conflict(served: Served, metadata: JsonObject, why: str) -> RefusedError:
    name, plural = metadata["name"], _STORAGE_NAMES.get(served.plural, served.plural)
    folder = f"{served.group}/{plural}" if served.is_custom else plural
    key = "/".join(filter(None, ("/registry", folder, metadata.get("namespace"), name)))
    return conflict(
        served,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}",
    )


def without_version(served: Served, name: str) -> RefusedError:
    """A replacement that does not say what it replaces, of a kind that wants to know."""
    error = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
    return invalid_kind(served.plural, served.group, name, [error])


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
    if kind:
        details["kind"] = kind
    details["causes"] = [
        {"reason": error.kind.value, "message": error.message, "field": error.path} for error in errors
    ]
    return RefusedError(422, "Invalid", f'{qualified} "{name}" is invalid: {summary}', details)


def rejected_patch() -> RefusedError:
    """A JSON patch that does not apply to the object as it is. A real server does not say why, either."""
    return RefusedError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def too_large(why: str) -> RefusedError:
    return RefusedError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")


def invalid_options(kind: str, *errors: FieldError) -> RefusedError:
    """Options of a request that make no sense, such as `CreateOptions`."""
    return invalid_kind(kind, "meta.k8s.io", "", errors)


def undeterminable(name: str) -> RefusedError:
    return bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


def other_namespace() -> RefusedError:
    return bad_request("the namespace of the provided object does not match the namespace sent on the request")


def unrecognized(served_kind: str, body: bytes, why: str) -> RefusedError:
    return bad_request(f"the object provided is unrecognized (must be of type {served_kind}): {why} ({_summary(body)})")


_SHOWN_BYTES = 30


def _summary(body: bytes) -> str:
    """The beginning of a body: as text if it looks like an object."""
    start = body[:_SHOWN_BYTES]
    shown = start.decode("utf-8", "replace") if body[:1] == b"{" else start.hex()
    return f"{shown} ..." if len(body) > _SHOWN_BYTES else shown or "<empty>"


def unsupported_verb(served: Served, verb: str) -> RefusedError:
    """How custom kinds say that they have no such method."""
    message = f'{verb} is not supported on resources of kind "{served.qualified}"'
    return RefusedError(405, "MethodNotAllowed", message, {"group": served.group, "kind": served.plural})


def unsupported_patch_type() -> RefusedError:
    """Of a built-in kind."""
    return RefusedError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


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


def overdrawn_budget(name: str, desired: int, healthy: int) -> RefusedError:
    """Of an eviction."""
    return _too_many(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently", {})


def uncounted_budget(name: str) -> RefusedError:
    """Of an eviction: the budget is new, or changed, and nobody has counted its pods since."""
    problem = f"The disruption budget {name} is still being processed by the server."
    return _too_many(problem, {"retryAfterSeconds": 10})


def _too_many(problem: str, details: JsonObject) -> RefusedError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    causes = [{"reason": "DisruptionBudget", "message": problem}]
    return RefusedError(429, "TooManyRequests", message, {"causes": causes, **details})


def several_budgets() -> RefusedError:
    message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    return RefusedError(500, "", message)


def insufficient_storage(why: str) -> RefusedError:
    """Of a write that could not be kept: nothing of it is there. A real server knows no reason for it."""
    message = f"the write was not stored: {why}; see that there is room on the disk, and try again"
    return RefusedError(507, "InsufficientStorage", message)


def never_settled() -> RefusedError:
    """While webhooks were asked about an object, it changed, again and again."""
    return RefusedError(409, "Conflict", "the object has been modified; please try again")


def internal_error() -> RefusedError:
    return RefusedError(
        500, "InternalError", "Internal error occurred: this is a bug of the embedded cluster, its log has the details"
    )


def too_old(wanted: int, oldest: int) -> RefusedError:
    return RefusedError(410, "Expired", f"too old resource version: {wanted} ({oldest})")


def fell_behind() -> RefusedError:
    """For a watcher that reads more slowly than history is forgotten."""
    return RefusedError(410, "Expired", "The resourceVersion for the provided watch is too old.")


def too_old_list() -> RefusedError:
    return RefusedError(410, "Expired", "The resourceVersion for the provided list is too old.")


class ExpiredContinueError(RefusedError):
    """A list cannot be continued as of the moment it was begun; with the token given here, as of now."""

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
    return field_errors.invalid(path, value, "field is immutable")


def unsupported_field(path: str) -> FieldError:
    """A field that this cluster would have to ignore: it says so instead."""
    return field_errors.forbidden(path, "not supported by the embedded cluster")
