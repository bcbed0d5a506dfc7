"""Handle an admission request: read what the response depends on, then apply the pure rules.

`admission_review.py` has the encoding, `webhook_server.py` HTTP.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from grove.admission.admission_review import (
    ALLOWED,
    AdmissionResponse,
    GroupKind,
    MalformedReviewError,
    ReviewRequest,
    invalid,
    reject,
)
from grove.admission.authorizer import AuthorizerOptions, authorize, collect_claims, is_exempt
from grove.admission.json_patch import json_patch
from grove.admission.lookups import Reader, find, find_as_json, find_owner_set, lookup_for
from grove.admission.policy import DEFAULT_SETTINGS, is_terminating, review
from grove.api.defaulting import default_podcliqueset
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, TOPOLOGY_BINDINGS, Resource
from grove.api.types.admission import AdmissionRequest, Operation
from grove.api.types.meta import JsonObject
from grove.api.validation.validation_options import ValidationOptions
from grove.installation.webhook_configurations import (
    AUTHORIZER_PATH,
    DEFAULT_SET_PATH,
    VALIDATE_CLIQUE_PATH,
    VALIDATE_GROUP_PATH,
    VALIDATE_SCALE_PATH,
    VALIDATE_SET_PATH,
    VALIDATE_TOPOLOGY_PATH,
)

_SCALABLE: tuple[Resource[Any], ...] = (PODCLIQUESETS, PODCLIQUES, GROUPS)

ReviewHandler = Callable[[ReviewRequest], Awaitable[AdmissionResponse]]


class AdmissionHandler:
    """The handlers of all webhook paths. They raise `MalformedReviewError`, or `ApiError` if a lookup failed."""

    def __init__(
        self,
        client: Reader,
        settings: ValidationOptions = DEFAULT_SETTINGS,
        authorizer: AuthorizerOptions | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._authorizer = authorizer
        self._handlers: dict[str, ReviewHandler] = {
            DEFAULT_SET_PATH: self._default_set,
            VALIDATE_SET_PATH: lambda request: self._validate(PODCLIQUESETS, request),
            VALIDATE_CLIQUE_PATH: lambda request: self._validate(PODCLIQUES, request),
            VALIDATE_GROUP_PATH: lambda request: self._validate(GROUPS, request),
            VALIDATE_TOPOLOGY_PATH: lambda request: self._validate(TOPOLOGY_BINDINGS, request),
            VALIDATE_SCALE_PATH: self._validate_scale,
            AUTHORIZER_PATH: self._authorize,
        }

    def find_handler(self, path: str) -> ReviewHandler | None:
        """Return the handler of a path; None: unknown path."""
        return self._handlers.get(path)

    async def _default_set(self, request: ReviewRequest) -> AdmissionResponse:
        _check_resource(request, PODCLIQUESETS)
        if request.object is None or is_terminating(request.old_object):
            return ALLOWED
        old = None if request.old_object is None else default_podcliqueset(request.old_object)
        defaulted = default_podcliqueset(request.object, old, default_delay=self._settings.default_delay)
        patch = json_patch(request.object, defaulted)
        return AdmissionResponse(allowed=True, patch=patch or None)

    async def _validate(self, resource: Resource[Any], request: ReviewRequest) -> AdmissionResponse:
        _check_resource(request, resource)
        return await self._review(
            resource,
            AdmissionRequest(
                operation=_operation(request),
                group=request.resource.group,
                plural=request.resource.resource,
                subresource=request.sub_resource,
                namespace=request.namespace,
                name=request.name,
                object=request.object,
                old=request.old_object,
            ),
        )

    async def _validate_scale(self, request: ReviewRequest) -> AdmissionResponse:
        """Read the object of a Scale, and validate it as if its replicas had been edited."""
        resource = _scaled_resource(request)
        held = await find_as_json(self._client, resource, request.namespace, request.name)
        if held is None:
            return reject(404, "NotFound", f'{resource.plural}.{resource.group} "{request.name}" not found')
        if _uid(request.object) not in ("", held["metadata"].get("uid")):
            message = f'{resource.plural}.{resource.group} "{request.name}" was replaced by another object: try again'
            return reject(409, "Conflict", message)
        spec = (request.object or {}).get("spec")
        replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
        return await self._review(
            resource,
            AdmissionRequest(
                operation=Operation.UPDATE,
                group=resource.group,
                plural=resource.plural,
                subresource="scale",
                namespace=request.namespace,
                name=request.name,
                object={**held, "spec": {**held["spec"], "replicas": replicas}},
                old=held,
            ),
        )

    async def _review(self, resource: Resource[Any], request: AdmissionRequest) -> AdmissionResponse:
        # Before any lookup: a lookup that fails must not block the deletion of an object.
        if is_terminating(request.old):
            return ALLOWED
        answer = review(request, await lookup_for(self._client, request, self._settings), self._settings)
        if not answer.is_allowed:
            kind = GroupKind(group=resource.group, version=resource.version, kind=resource.kind)
            return invalid(kind, request.name or _generate_name(request.object), answer.errors)
        return AdmissionResponse(allowed=True, warnings=answer.warnings)

    async def _authorize(self, request: ReviewRequest) -> AdmissionResponse:
        if self._authorizer is None:
            raise MalformedReviewError("the authorizer is disabled: remove its webhook configuration")
        # Before any lookup: a lookup that fails must not block the deletion of an object.
        if is_exempt(request):
            return ALLOWED
        claims, namespace = collect_claims(request), request.namespace
        found = [await find(self._client, PODCLIQUESETS, namespace, name) for name in claims.set_names]
        found += [await find_owner_set(self._client, namespace, owner) for owner in claims.owners]
        return authorize(request, tuple(pcs for pcs in found if pcs is not None), self._authorizer)


def _check_resource(request: ReviewRequest, resource: Resource[Any]) -> None:
    requested = request.resource
    if (requested.group, requested.resource) != (resource.group, resource.plural):
        raise MalformedReviewError(
            f"this path validates {resource.plural}, not {requested.resource}: correct the rules"
        )


def _scaled_resource(request: ReviewRequest) -> Resource[Any]:
    for resource in _SCALABLE:
        if (request.resource.group, request.resource.resource) == (resource.group, resource.plural):
            return resource
    raise MalformedReviewError(f"{request.resource.resource} cannot be scaled: correct the rules")


def _operation(request: ReviewRequest) -> Operation:
    try:
        return Operation(request.operation)
    except ValueError:
        raise MalformedReviewError(f"{request.operation} is not supported: correct the rules") from None


def _uid(json: JsonObject | None) -> str:
    metadata = (json or {}).get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if isinstance(uid, str) else ""


def _generate_name(json: JsonObject | None) -> str:
    metadata = (json or {}).get("metadata")
    name = metadata.get("generateName") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
