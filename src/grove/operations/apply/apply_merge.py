"""Apply manifests to a cluster with a three-way merge, like client-side `kubectl apply`.

Fields that were applied before and are no longer in the manifest are removed. Fields of other writers stay. Lists are
replaced as a whole, except that annotations of clique templates are merged (`clique_annotations.py`).
"""

import re
from collections.abc import AsyncIterator, Iterable
from enum import StrEnum
from typing import Any

import msgspec

from grove.api.resources import PODCLIQUESETS, Object, Resource
from grove.api.types.meta import JsonObject, WireStruct
from grove.cluster.built_in_resources import SERVED
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.response_decoding import check, decode_object
from grove.kube.transport import MERGE_PATCH, Request, Response, Transport
from grove.operations.apply.clique_annotations import keep_foreign_annotations
from grove.operations.apply.manifest_reader import ManifestDocument
from grove.operations.apply.rejection_hints import NOT_CHECKED, with_hints
from grove.operations.hints import name_with_namespace

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The operator may write the set between the read and the patch.
ATTEMPTS = 10
# The server rejects an unknown field by name, as with kubectl.
_STRICT = {"fieldValidation": "Strict", "fieldManager": "grove"}
_BUILT_IN = {
    (one.api_version, one.kind): Resource(
        group=one.group, version=one.version, plural=one.plural, kind=one.kind, namespaced=one.namespaced, view=Object
    )
    for one in SERVED
}


class Verb(StrEnum):
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


class ApplyResult(WireStruct):
    """The result of applying one document, with the warnings of the server."""

    api_version: str
    kind: str
    namespace: str
    name: str
    action: Verb
    warnings: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """Return the name as `kubectl -o name` prints it."""
        group = self.api_version.rpartition("/")[0]
        return f"{self.kind.lower()}{f'.{group}' if group else ''}/{self.name}"

    def __str__(self) -> str:
        what = name_with_namespace(f"{self.kind.lower()}/{self.name}", self.namespace)
        return f"{what} {self.action}"


class ApplyRejected(UserError):
    """The server rejected a document. The message has all causes, one per line."""


class _Cause(msgspec.Struct, frozen=True, kw_only=True):
    field: str = ""
    message: str = ""


class _Details(msgspec.Struct, frozen=True, kw_only=True):
    causes: tuple[_Cause, ...] = ()


class _Status(msgspec.Struct, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""
    details: _Details | None = None


async def apply_documents(
    transport: Transport, documents: Iterable[ManifestDocument], namespace: str
) -> AsyncIterator[ApplyResult]:
    """Apply all documents and yield the results. Raise one `UserError` at the end with all rejections."""
    rejections: list[str] = []
    for document in documents:
        try:
            result = await apply_document(transport, document, namespace)
        except ApplyRejected as error:
            rejections.append(str(error))
        else:
            yield result
    if rejections:
        raise UserError("\n".join(rejections))


async def apply_document(transport: Transport, document: ManifestDocument, namespace: str) -> ApplyResult:
    """Create or patch one object. Raises `ApplyRejected` if the server rejects it, `ApiError` for any other failure."""
    resource = await find_resource(transport, document)
    own_namespace = _namespace_of(document, resource, namespace)
    body = _with_last_applied(document.body)
    path = resource.path(own_namespace)
    request = Request(method="POST", path=path, query=_STRICT, body=msgspec.json.encode(body))
    response = await transport.send(request)
    version = ""
    is_new = not (response.status == 409 and _status_of(response).reason == "AlreadyExists")
    if not is_new:
        request, response, version = await _patch_existing(transport, resource, own_namespace, body)
    if response.status >= 400:
        raise _build_rejection(document, request, response)
    after = decode_object(resource, request, response).metadata.resource_version
    action = Verb.CREATED if is_new else Verb.UNCHANGED if after == version else Verb.CONFIGURED
    return ApplyResult(
        api_version=document.api_version,
        kind=document.kind,
        namespace=own_namespace,
        name=document.name,
        action=action,
        warnings=warnings_of(response),
    )


async def _patch_existing(
    transport: Transport, resource: Resource[Object], namespace: str, body: JsonObject
) -> tuple[Request, Response, str]:
    """Patch an object that exists. Returns the last request, its response, and the version before it."""
    name = str(body["metadata"]["name"])
    for attempt in range(1, ATTEMPTS + 1):
        before = await read_object(transport, resource, namespace, name)
        last = _last_applied(before)
        patch = _three_way(last, body)
        if (resource.api_version, resource.kind) == (PODCLIQUESETS.api_version, PODCLIQUESETS.kind):
            patch = keep_foreign_annotations(patch, last=last, live=before)
        request = Request(
            method="PATCH",
            path=resource.path(namespace, name),
            query=_STRICT,
            body=msgspec.json.encode(patch),
            content_type=MERGE_PATCH,
        )
        response = await transport.send(request)
        is_conflict = response.status == 409 and "resourceVersion" in patch["metadata"]
        if not is_conflict or attempt == ATTEMPTS:
            break
    return request, response, str(before["metadata"].get("resourceVersion"))


async def find_resource(transport: Transport, document: ManifestDocument) -> Resource[Object]:
    """Return the resource of a document's kind, from the built-in kinds or from discovery."""
    known = _BUILT_IN.get((document.api_version, document.kind))
    if known is not None:
        return known
    group, _, version = document.api_version.rpartition("/")
    path = f"/apis/{document.api_version}" if group else f"/api/{version}"
    response = await transport.send(Request(method="GET", path=path))
    for one in _read_discovery(response):
        if one.get("kind") == document.kind and "/" not in one.get("name", "/"):
            return Resource(
                group=group, version=version, plural=one["name"], kind=document.kind,
                namespaced=bool(one.get("namespaced")), view=Object,
            )  # fmt: skip
    raise UserError(
        f"{document.place}: this cluster has no kind {document.kind} in {document.api_version}; "
        "check apiVersion and kind, or install its CustomResourceDefinition"
    )


def _read_discovery(response: Response) -> list[JsonObject]:
    """Return the resources of a discovery response. Empty if it is not one."""
    try:
        found = msgspec.json.decode(response.body) if response.status == 200 else None
    except msgspec.MsgspecError:
        return []
    resources = found.get("resources") if isinstance(found, dict) else None
    return [one for one in resources if isinstance(one, dict)] if isinstance(resources, list) else []


def _namespace_of(document: ManifestDocument, resource: Resource[Object], namespace: str) -> str:
    return (document.namespace or namespace) if resource.namespaced else ""


def _with_last_applied(body: JsonObject) -> JsonObject:
    metadata = {**body["metadata"]}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != LAST_APPLIED}
    plain = {**body, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}
    written = msgspec.json.encode(plain, order="deterministic").decode() + "\n"
    metadata["annotations"] = {**annotations, LAST_APPLIED: written}
    return {**body, "metadata": metadata}


def _last_applied(before: JsonObject) -> JsonObject:
    written = (before["metadata"].get("annotations") or {}).get(LAST_APPLIED, "{}")
    try:
        last = msgspec.json.decode(written)
    except msgspec.DecodeError:
        return {}
    return last if isinstance(last, dict) else {}


def _three_way(last: JsonObject, wanted: JsonObject) -> JsonObject:
    """Return the merge patch: the desired fields, and null for fields that were applied before and are gone now."""
    patch: JsonObject = {key: None for key in last if key not in wanted}
    for key, value in wanted.items():
        before = last.get(key)
        patch[key] = _three_way(before, value) if isinstance(value, dict) and isinstance(before, dict) else value
    return patch


async def read_object(transport: Transport, resource: Resource[Any], namespace: str, name: str) -> JsonObject:
    """Return an object as JSON. Raises `ApiError`."""
    request = Request(method="GET", path=resource.path(namespace, name))
    response = await transport.send(request)
    # Raises a good error if the response is not an object.
    decode_object(resource, request, response)
    obj: JsonObject = msgspec.json.decode(response.body)
    return obj


def _status_of(response: Response) -> _Status:
    try:
        return msgspec.json.decode(response.body, type=_Status)
    except msgspec.MsgspecError:
        return _Status(message=response.body[:200].decode(errors="replace"))


def _build_rejection(document: ManifestDocument, request: Request, response: Response) -> Exception:
    status = _status_of(response)
    what = f"{document.place}: {document.kind} {document.name}"
    if response.status not in (400, 403, 409, 413, 415, 422):
        try:
            check(request, response)
        except ApiError as error:
            if error.is_not_found:
                return ApplyRejected(f"{what}: {error.message}; check apiVersion, kind and namespace")
            return error
    texts = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in _causes(status)]
    causes = [with_hints(document.kind, document.body, text) for text in texts if NOT_CHECKED not in text]
    if not causes:
        return ApplyRejected(f"{what} was rejected: {with_hints(document.kind, document.body, status.message)}")
    if len(causes) == 1:
        return ApplyRejected(f"{what} was rejected: {causes[0]}")
    return ApplyRejected("\n  ".join((f"{what} was rejected with {len(causes)} errors:", *causes)))


def _causes(status: _Status) -> tuple[_Cause, ...]:
    return status.details.causes if status.details is not None else ()


def warnings_of(response: Response) -> tuple[str, ...]:
    """Return the texts of the Warning headers, `299 - "text"`, with quotes and backslashes unescaped."""
    texts = [re.sub(r'^299 \S+ "(.*)"\s*$', r"\1", line) for line in response.headers.get("Warning", "").splitlines()]
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in texts if text)
