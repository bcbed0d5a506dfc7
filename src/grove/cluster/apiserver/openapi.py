"""OpenAPI v3: an index, and one document per group and version; `kubectl explain`, `apply` and `--validate` read it.

Custom kinds have the schemas of their CRDs. Built-in kinds have the structure of a real server's schemas
(`built_in_schemas.py`) with Grove's own short descriptions.
OpenAPI v2 is an empty document: kubectl reads it only for kinds that it did not find in v3.
"""

import hashlib
from collections.abc import Iterable
from functools import cache, lru_cache

import msgspec

from grove.api.schema.kubernetes_descriptions import DESCRIPTIONS
from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.built_in_schemas import collect_definitions, definition_name
from grove.cluster.apiserver.codec.content_negotiation import parse_accept
from grove.cluster.apiserver.discovery import GIT_VERSION, Handler, root
from grove.cluster.apiserver.status_errors import method_not_allowed, unknown_path
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.resource_registry import ResourceRegistry
from grove.kube.transport import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Response

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_GVK = "x-kubernetes-group-version-kind"


def build_handlers(kinds: ResourceRegistry) -> dict[str, Handler]:
    """Return the handler of each OpenAPI path for the currently served resources."""
    grouped: dict[tuple[str, str], tuple[ResourceInfo, ...]] = {}
    for resource_info in kinds.resources:
        place = (resource_info.group, resource_info.version)
        grouped[place] = (*grouped.get(place, ()), resource_info)
    places = {root(*place): members for place, members in grouped.items()}
    index = cache(lambda: _index_body(places))
    found: dict[str, Handler] = {"/openapi/v3": lambda request: _json(request, index()), "/openapi/v2": _openapi_v2}
    for path, members in places.items():
        found[f"/openapi/v3{path}"] = _document_page(members)
    return found


# As clients request it. The response replaces the @, which is not allowed in a media type.
_V2_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
# An empty document of version 2.0.
_V2_DOCUMENT = b"\n\x032.0"


def _openapi_v2(request: Request) -> Response:
    """Return an empty v2 document to kubectl, which reads it as protobuf for kinds that it did not find in v3.

    Other clients get a 404: the served resources are described in v3 only."""
    if request.method != "GET" or all(media.media_type != _V2_TYPE for media in parse_accept(request.accept)):
        raise unknown_path()
    return Response(status=200, body=_V2_DOCUMENT, headers={"Content-Type": _V2_TYPE.replace("@", ".")})


def _index_body(places: dict[str, tuple[ResourceInfo, ...]]) -> bytes:
    paths = {}
    for place, members in places.items():
        digest = hashlib.sha256(_document(members)).hexdigest().upper()
        paths[place.removeprefix("/")] = {"serverRelativeURL": f"/openapi/v3{place}?hash={digest}"}
    return msgspec.json.encode({"paths": paths})


def _document_page(members: tuple[ResourceInfo, ...]) -> Handler:
    return lambda request: _json(request, _document(members))


def _json(request: Request, body: bytes) -> Response:
    if request.method != "GET":
        raise method_not_allowed()
    return Response(status=200, body=body)


@lru_cache(maxsize=256)
def _document(kinds: tuple[ResourceInfo, ...]) -> bytes:
    """Return the document of the resources of one group and version."""
    roots = [name for resource_info in kinds if (name := definition_name(resource_info)) is not None]
    schemas = {
        name: _with_descriptions(name, _with_pointers(schema))
        for name, schema in collect_definitions(*_ALWAYS, *roots).items()
    }
    paths: JsonObject = {}
    for resource_info in kinds:
        schemas[_schema_name(resource_info)] = _schema(resource_info, schemas.get(_schema_name(resource_info)))
        schemas[f"{_schema_name(resource_info)}List"] = _list_schema(resource_info)
        paths |= _paths(resource_info)
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": GIT_VERSION},
            "paths": paths,
            "components": {"schemas": schemas},
        }
    )


# Schemas


def _schema_name(resource_info: ResourceInfo) -> str:
    if resource_info.is_custom:
        return ".".join((*reversed(resource_info.group.split(".")), resource_info.version, resource_info.kind))
    group = resource_info.group.partition(".")[0] or "core"
    return definition_name(resource_info) or f"io.k8s.api.{group}.{resource_info.version}.{resource_info.kind}"


def _kind_of(resource_info: ResourceInfo, kind: str = "") -> JsonObject:
    return {"group": resource_info.group, "version": resource_info.version, "kind": kind or resource_info.kind}


def _ref(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}


def _schema(resource_info: ResourceInfo, schema: JsonObject | None) -> JsonObject:
    if resource_info.custom is not None:
        metadata = {"description": "Standard object's metadata.", "allOf": [_ref(f"{_META}.ObjectMeta")]}
        schema = resource_info.custom.schema
        schema = {**schema, "properties": {**_HEAD, **schema.get("properties", {}), "metadata": metadata}}
    elif schema is None:
        properties = {**_HEAD, "metadata": _ref(f"{_META}.ObjectMeta")}
        schema = {"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": True}
    return {**schema, _GVK: [_kind_of(resource_info)]}


def _list_schema(resource_info: ResourceInfo) -> JsonObject:
    return {
        "type": "object",
        "description": f"{resource_info.list_kind} is a list of {resource_info.kind}",
        "required": ["items"],
        "properties": {
            **_HEAD,
            "items": {"type": "array", "items": _ref(_schema_name(resource_info))},
            "metadata": _ref(f"{_META}.ListMeta"),
        },
        _GVK: [_kind_of(resource_info, resource_info.list_kind)],
    }


def _with_pointers(schema: JsonObject) -> JsonObject:
    """Return the schema with `$ref` as a JSON pointer into the document."""
    if "$ref" in schema:
        return _ref(schema["$ref"])
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: _with_pointers(inner) for name, inner in schema["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            result[word] = _with_pointers(schema[word])
    return result


def _with_descriptions(name: str, schema: JsonObject) -> JsonObject:
    """Return the schema with Grove's descriptions of its fields."""
    descriptions = {
        **_DESCRIPTIONS.get(name, {}),
        **DESCRIPTIONS.get(name.rpartition(".")[2], {}),
        **_HEAD_DESCRIPTIONS,
    }
    properties = {
        field: _with_description(inner, descriptions.get(field, ""))
        for field, inner in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties} if properties else schema


def _with_description(schema: JsonObject, description: str) -> JsonObject:
    if not description:
        return schema
    return {"description": description, **({"allOf": [schema]} if "$ref" in schema else schema)}


_HEAD_DESCRIPTIONS = {
    "apiVersion": "Version of this representation of the object.",
    "kind": "Kind of the object.",
    "metadata": "Standard object's metadata.",
}
_HEAD: JsonObject = {
    field: {"type": "string", "description": _HEAD_DESCRIPTIONS[field]} for field in ("apiVersion", "kind")
}
# Part of every document, because list schemas need them.
_ALWAYS = (f"{_META}.ListMeta", f"{_META}.ObjectMeta")
_DESCRIPTIONS = {
    f"{_META}.ObjectMeta": {
        "name": "Name, unique among objects of the same kind in the same namespace.",
        "generateName": "Prefix of a name that the server generates if name is empty.",
        "namespace": "Namespace: names are unique within it.",
        "uid": "Unique identifier, set by the server.",
        "resourceVersion": "Changes with every write.",
        "generation": "Number of the last change to the desired state.",
        "creationTimestamp": "When the object was created.",
        "deletionTimestamp": "When the object will be deleted.",
        "labels": "Keys and values that selectors match.",
        "annotations": "Other keys and values, for tools.",
        "finalizers": "Names of tasks that must be done before the object is removed.",
        "ownerReferences": "Owners: when all are deleted, this object is deleted.",
        "managedFields": "Fields by the manager that owns them.",
    }
}


# Paths: kubectl reads here which parameters a kind supports


def _paths(resource_info: ResourceInfo) -> JsonObject:
    place = root(resource_info.group, resource_info.version)
    if resource_info.namespaced:
        place += "/namespaces/{namespace}"
    collection, one = f"{place}/{resource_info.plural}", f"{place}/{resource_info.plural}/{{name}}"
    paths = {
        collection: {
            "get": _operation(resource_info, "list", _READ),
            "post": _operation(resource_info, "post", _WRITE, ("application/json",)),
            "delete": _operation(resource_info, "deletecollection", _DELETE),
            "parameters": _place_parameters(resource_info, ()),
        },
        one: {**_one(resource_info), "delete": _operation(resource_info, "delete", _DELETE)},
    }
    if resource_info.has_status:
        paths[f"{one}/status"] = _one(resource_info)
    return paths


def _one(resource_info: ResourceInfo) -> JsonObject:
    return {
        "get": _operation(resource_info, "get", ()),
        "put": _operation(resource_info, "put", _WRITE, ("application/json",)),
        "patch": _operation(resource_info, "patch", (*_WRITE, "force"), _patches(resource_info)),
        "parameters": _place_parameters(resource_info, ("name",)),
    }


def _patches(resource_info: ResourceInfo) -> tuple[str, ...]:
    merging = () if resource_info.is_custom else (STRATEGIC_PATCH,)
    return (APPLY_PATCH, JSON_PATCH, MERGE_PATCH, *merging)


_READ = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
    "resourceVersionMatch", "timeoutSeconds", "watch",
)  # fmt: skip
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")


def _operation(
    resource_info: ResourceInfo, action: str, queries: Iterable[str], bodies: tuple[str, ...] = ()
) -> JsonObject:
    operation: JsonObject = {
        "operationId": f"{action}-{resource_info.qualified}",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in queries
        ],
        "responses": {
            code: {
                "description": description,
                "content": {"application/json": {"schema": _response_schema(resource_info, action)}},
            }
            for code, description in _CODES.get(action, _OK).items()
        },
        "x-kubernetes-action": action,
        _GVK: _kind_of(resource_info),
    }
    if bodies:
        schema = _ref(_schema_name(resource_info)) if action != "patch" else {"type": "object"}
        operation["requestBody"] = {"required": True, "content": {body: {"schema": schema} for body in bodies}}
    return operation


_OK = {"200": "OK"}
_CODES = {
    "post": {"201": "Created"},
    "patch": {"200": "OK", "201": "Created"},
    "delete": {"200": "OK", "202": "Accepted"},
}


def _response_schema(resource_info: ResourceInfo, action: str) -> JsonObject:
    if action.startswith("delete"):
        # The deleted object, or a Status.
        return {"type": "object"}
    return _ref(f"{_schema_name(resource_info)}List" if action == "list" else _schema_name(resource_info))


def _place_parameters(resource_info: ResourceInfo, names: tuple[str, ...]) -> list[JsonObject]:
    places = (*names, "namespace") if resource_info.namespaced else names
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in places]
