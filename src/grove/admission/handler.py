"""One question of an API server in, the verdict out: reads what the answer depends on, then asks the pure rules.

Which path means which question is the table at the end. The envelope is in `admission_review.py`, HTTP in
`webhook_server.py`.
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
    refused,
)
from grove.admission.authorizer import AuthorizerOptions, authorize, claims_of, is_free
from grove.admission.json_patch import json_patch
from grove.admission.lookups import Reader, find, find_whole, lookup_for, set_above
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

Question = Callable[[ReviewRequest], Awaitable[AdmissionResponse]]


class AdmissionHandler:
    """Answers with a verdict, or raises: `MalformedReviewError`, or `ApiError` when a look at the cluster failed."""

    def __init__(
        self,
        client: Reader,
        settings: ValidationOptions = DEFAULT_SETTINGS,
        authorizer: AuthorizerOptions | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._authorizer = authorizer
        self._questions: dict[str, Question] = {
            DEFAULT_SET_PATH: self._default_set,
            VALIDATE_SET_PATH: lambda request: self._validate(PODCLIQUESETS, request),
            VALIDATE_CLIQUE_PATH: lambda request: self._validate(PODCLIQUES, request),
            VALIDATE_GROUP_PATH: lambda request: self._validate(GROUPS, request),
            VALIDATE_TOPOLOGY_PATH: lambda request: self._validate(TOPOLOGY_BINDINGS, request),
            VALIDATE_SCALE_PATH: self._validate_scale,
            AUTHORIZER_PATH: self._authorize,
        }

    def question(self, path: str) -> Question | None:
        """What is asked at a path; None: nothing."""
        return self._questions.get(path)

    async def _default_set(self, request: ReviewRequest) -> AdmissionResponse:
        _expect(request, PODCLIQUESETS)
        if request.object is None or is_terminating(request.old_object):
            return ALLOWED
        old = None if request.old_object is None else default_podcliqueset(request.old_object)
        defaulted = default_podcliqueset(request.object, old, default_delay=self._settings.default_delay)
        patch = json_patch(request.object, defaulted)
        return AdmissionResponse(allowed=True, patch=patch or None)

    async def _validate(self, resource: Resource[Any], request: ReviewRequest) -> AdmissionResponse:
        _expect(request, resource)
        return await self._judge(
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
        """A Scale says nothing but a count: the object itself is read, and judged as if its count had been edited."""
        resource = _scaled(request)
        held = await find_whole(self._client, resource, request.namespace, request.name)
        if held is None:
            return refused(404, "NotFound", f'{resource.plural}.{resource.group} "{request.name}" not found')
        if _uid(request.object) not in ("", held["metadata"].get("uid")):
            message = f'{resource.plural}.{resource.group} "{request.name}" was replaced by another one: try again'
            return refused(409, "Conflict", message)
        spec = (request.object or {}).get("spec")
        replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
        return await self._judge(
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

    async def _judge(self, resource: Resource[Any], request: AdmissionRequest) -> AdmissionResponse:
        # Before any look at the cluster: what is leaving is never held up by one that fails.
        if is_terminating(request.old):
            return ALLOWED
        answer = review(request, await lookup_for(self._client, request, self._settings), self._settings)
        if not answer.is_allowed:
            kind = GroupKind(group=resource.group, version=resource.version, kind=resource.kind)
            return invalid(kind, request.name or _generate_name(request.object), answer.errors)
        return AdmissionResponse(allowed=True, warnings=answer.warnings)

    async def _authorize(self, request: ReviewRequest) -> AdmissionResponse:
        if self._authorizer is None:
            raise MalformedReviewError("the authorizer is switched off here: remove its webhook configuration")
        # Before any look at the cluster: what is leaving is never held up by one that fails.
        if is_free(request):
            return ALLOWED
        claims, namespace = claims_of(request), request.namespace
        found = [await find(self._client, PODCLIQUESETS, namespace, name) for name in claims.set_names]
        found += [await set_above(self._client, namespace, owner) for owner in claims.owners]
        return authorize(request, tuple(pcs for pcs in found if pcs is not None), self._authorizer)


def _expect(request: ReviewRequest, resource: Resource[Any]) -> None:
    asked = request.resource
    if (asked.group, asked.resource) != (resource.group, resource.plural):
        raise MalformedReviewError(f"{resource.plural} are judged here, not {asked.resource}: correct the rules")


def _scaled(request: ReviewRequest) -> Resource[Any]:
    for resource in _SCALABLE:
        if (request.resource.group, request.resource.resource) == (resource.group, resource.plural):
            return resource
    raise MalformedReviewError(f"{request.resource.resource} are not scaled here: correct the rules")


def _operation(request: ReviewRequest) -> Operation:
    try:
        return Operation(request.operation)
    except ValueError:
        raise MalformedReviewError(f"{request.operation} is not judged here: correct the rules") from None


def _uid(json: JsonObject | None) -> str:
    metadata = (json or {}).get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if isinstance(uid, str) else ""


def _generate_name(json: JsonObject | None) -> str:
    metadata = (json or {}).get("metadata")
    name = metadata.get("generateName") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
