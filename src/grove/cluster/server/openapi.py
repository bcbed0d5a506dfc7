"""OpenAPI v3: an index, and one document per group and version; what `kubectl explain`, `apply` and `--validate` read.

Our kinds have their full schemas. Of built-in kinds only the metadata is described; the rest is any object, and that is
also why no document offers strategic merge patches, although the server takes them for built-in kinds: kubectl would
look for merge keys in these schemas, and finding none falls short of the keys it was built with.
OpenAPI v2 is not served; kubectl needs it only where v3 is missing.
"""

import hashlib
from collections.abc import Iterable
from functools import cache

import msgspec

from grove.api.meta import JsonObject
from grove.cluster.crds import custom_kinds
from grove.cluster.resources import SERVED, Served
from grove.cluster.server.discovery import GIT_VERSION, Page, root
from grove.cluster.server.status_errors import method_not_allowed
from grove.kube.transport import JSON_PATCH, MERGE_PATCH, Request, Response

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_GVK = "x-kubernetes-group-version-kind"


def pages() -> dict[str, Page]:
    """The answer to each path of OpenAPI."""
    found: dict[str, Page] = {"/openapi/v3": _index}
    for group, version in _group_versions():
        found[f"/openapi/v3{root(group, version)}"] = _document_page(group, version)
    return found


def _group_versions() -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys((served.group, served.version) for served in SERVED))


def _index(request: Request) -> Response:
    return _json(request, _index_body())


@cache
def _index_body() -> bytes:
    paths = {}
    for group, version in _group_versions():
        place = root(group, version)
        digest = hashlib.sha256(_document(group, version)).hexdigest().upper()
        paths[place.removeprefix("/")] = {"serverRelativeURL": f"/openapi/v3{place}?hash={digest}"}
    return msgspec.json.encode({"paths": paths})


def _document_page(group: str, version: str) -> Page:
    return lambda request: _json(request, _document(group, version))


def _json(request: Request, body: bytes) -> Response:
    if request.method != "GET":
        raise method_not_allowed()
    return Response(status=200, body=body)


@cache
def _document(group: str, version: str) -> bytes:
    kinds = [served for served in SERVED if (served.group, served.version) == (group, version)]
    schemas = dict(_META_SCHEMAS)
    paths: JsonObject = {}
    for served in kinds:
        schemas[_schema_name(served)] = _schema(served)
        schemas[f"{_schema_name(served)}List"] = _list_schema(served)
        paths |= _paths(served)
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": GIT_VERSION},
            "paths": paths,
            "components": {"schemas": schemas},
        }
    )


# Schemas


def _schema_name(served: Served) -> str:
    if served.is_custom:
        return ".".join((*reversed(served.group.split(".")), served.version, served.kind))
    return f"io.k8s.api.{served.group.partition('.')[0] or 'core'}.{served.version}.{served.kind}"


def _kind_of(served: Served, kind: str = "") -> JsonObject:
    return {"group": served.group, "version": served.version, "kind": kind or served.kind}


def _ref(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}


def _schema(served: Served) -> JsonObject:
    custom = custom_kinds().get(served.qualified)
    metadata = {"description": "Standard object's metadata.", "allOf": [_ref(f"{_META}.ObjectMeta")]}
    if custom is None:
        described: JsonObject = {
            "type": "object",
            "properties": dict(_HEAD),
            "x-kubernetes-preserve-unknown-fields": True,
        }
    else:
        described = custom.schema
    return {**described, "properties": {**described["properties"], "metadata": metadata}, _GVK: [_kind_of(served)]}


def _list_schema(served: Served) -> JsonObject:
    return {
        "type": "object",
        "description": f"{served.kind}List is a list of {served.kind}",
        "required": ["items"],
        "properties": {
            **_HEAD,
            "items": {"type": "array", "items": _ref(_schema_name(served))},
            "metadata": _ref(f"{_META}.ListMeta"),
        },
        _GVK: [_kind_of(served, served.list_kind)],
    }


def _text(description: str, **more: str) -> JsonObject:
    return {"type": "string", "description": description, **more}


_HEAD: JsonObject = {
    "apiVersion": _text("Version of this representation of the object."),
    "kind": _text("Kind of the object."),
}
_TEXTS: JsonObject = {"type": "object", "additionalProperties": {"type": "string"}}
_META_SCHEMAS: JsonObject = {
    f"{_META}.ObjectMeta": {
        "type": "object",
        "description": "Metadata that every object has.",
        "properties": {
            "name": _text("Name, unique among objects of the same kind in the same namespace."),
            "generateName": _text("Beginning of a name that the server completes."),
            "namespace": _text("The space within which the name is unique."),
            "uid": _text("Unique in time and space, given by the server."),
            "resourceVersion": _text("Changes with every write."),
            "generation": {"type": "integer", "format": "int64", "description": "Counts changes of the wish."},
            "creationTimestamp": _text("When the object was created.", format="date-time"),
            "deletionTimestamp": _text("When the object leaves, or will.", format="date-time"),
            "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
            "labels": {**_TEXTS, "description": "For selecting objects."},
            "annotations": {**_TEXTS, "description": "For everything else that tools want to remember."},
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "ownerReferences": {
                "type": "array",
                "items": _ref(f"{_META}.OwnerReference"),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
            },
            "managedFields": {"type": "array", "items": {"type": "object"}},
            "selfLink": _text("Deprecated."),
        },
    },
    f"{_META}.OwnerReference": {
        "type": "object",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "name": {"type": "string"},
            "uid": {"type": "string"},
            "controller": {"type": "boolean"},
            "blockOwnerDeletion": {"type": "boolean"},
        },
    },
    f"{_META}.ListMeta": {
        "type": "object",
        "properties": {
            "continue": {"type": "string"},
            "remainingItemCount": {"type": "integer", "format": "int64"},
            "resourceVersion": {"type": "string"},
            "selfLink": {"type": "string"},
        },
    },
}


# Paths: kubectl looks here for what a kind supports


def _paths(served: Served) -> JsonObject:
    place = root(served.group, served.version)
    if served.namespaced:
        place += "/namespaces/{namespace}"
    collection, one = f"{place}/{served.plural}", f"{place}/{served.plural}/{{name}}"
    paths = {
        collection: {
            "get": _operation(served, "list", _READ),
            "post": _operation(served, "post", _WRITE, ("application/json",)),
            "delete": _operation(served, "deletecollection", _DELETE),
            "parameters": _place_parameters(served, ()),
        },
        one: _one(served),
    }
    if served.has_status:
        paths[f"{one}/status"] = _one(served)
    return paths


def _one(served: Served) -> JsonObject:
    return {
        "get": _operation(served, "get", ()),
        "put": _operation(served, "put", _WRITE, ("application/json",)),
        "patch": _operation(served, "patch", (*_WRITE, "force"), (JSON_PATCH, MERGE_PATCH)),
        "delete": _operation(served, "delete", _DELETE),
        "parameters": _place_parameters(served, ("name",)),
    }


_READ = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
    "resourceVersionMatch", "timeoutSeconds", "watch",
)  # fmt: skip
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")


def _operation(served: Served, action: str, queries: Iterable[str], bodies: tuple[str, ...] = ()) -> JsonObject:
    operation: JsonObject = {
        "operationId": f"{action}-{served.qualified}",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in queries
        ],
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": _answer(served, action)}}}
        },
        "x-kubernetes-action": action,
        _GVK: _kind_of(served),
    }
    if bodies:
        schema = _ref(_schema_name(served)) if action != "patch" else {"type": "object"}
        operation["requestBody"] = {"required": True, "content": {body: {"schema": schema} for body in bodies}}
    return operation


def _answer(served: Served, action: str) -> JsonObject:
    return _ref(f"{_schema_name(served)}List" if action == "list" else _schema_name(served))


def _place_parameters(served: Served, names: tuple[str, ...]) -> list[JsonObject]:
    places = (*names, "namespace") if served.namespaced else names
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in places]
