"""How the parts of built-in kinds merge, taken from an API server: `python -m tests.kube.controlplane.merge_types`.

Only structure is taken: names of fields, what kind of value each holds, keys of lists, what is atomic. The result is
checked in as `src/grove/cluster/patches/built_in_types.json`; `grove.cluster.patches.merge_types` says what its
signs mean.
"""

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from tests.kube.controlplane.plane import Plane, running_plane

TARGET = Path(__file__).parents[3] / "src" / "grove" / "cluster" / "patches" / "built_in_types.json"
# By group and version: the kinds that the embedded cluster serves, or may come to serve.
KINDS: dict[str, tuple[str, ...]] = {
    "api/v1": (
        "ConfigMap", "Event", "Namespace", "Node", "PersistentVolumeClaim", "Pod", "ResourceQuota", "Secret", "Service",
        "ServiceAccount",
    ),
    "apis/admissionregistration.k8s.io/v1": ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    "apis/apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    "apis/apps/v1": ("ControllerRevision",),
    "apis/autoscaling/v1": ("Scale",),
    "apis/autoscaling/v2": ("HorizontalPodAutoscaler",),
    "apis/coordination.k8s.io/v1": ("Lease",),
    "apis/policy/v1": ("PodDisruptionBudget",),
    "apis/rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "apis/scheduling.k8s.io/v1": ("PriorityClass",),
}  # fmt: skip
_DOCUMENTS_OF_SCALE = "apis/apps/v1"
_SCALARS = {"string": "text", "integer": "number", "number": "number", "boolean": "truth"}
# Definitions that hold one value of no particular type, whatever OpenAPI calls them.
_VALUES = ("Quantity", "IntOrString")
# Of these the server itself decides how they are compared.
_ANYTHING = ("RawExtension", "FieldsV1", "JSON")


def types_of(plane: Plane) -> JsonObject:
    documents = {}
    for place in KINDS:
        source = _DOCUMENTS_OF_SCALE if KINDS[place] == ("Scale",) else place
        documents[place] = msgspec.json.decode(plane.kubectl("get", "--raw", f"/openapi/v3/{source}"))
    return types_in({place: document["components"]["schemas"] for place, document in documents.items()})


def types_in(schemas_by_place: dict[str, JsonObject]) -> JsonObject:
    """`kinds`: the definition of each kind, by its apiVersion and name; `definitions`: by their short names."""
    kinds: JsonObject = {}
    definitions: JsonObject = {}
    for place, schemas in schemas_by_place.items():
        for kind in KINDS[place]:
            name = _definition_of(place, kind, schemas)
            kinds[f"{place.partition('/')[2]}/{kind}"] = _short(name)
            _collect(name, schemas, definitions)
    return {"kinds": kinds, "definitions": dict(sorted(definitions.items()))}


def text_of(types: JsonObject) -> str:
    """One definition per line: a change shows what it is about."""
    definitions = ",\n".join(f"{_compact(name)}:{_compact(made)}" for name, made in types["definitions"].items())
    return f'{{"kinds":{_compact(types["kinds"])},\n"definitions":{{\n{definitions}\n}}}}\n'


def _definition_of(place: str, kind: str, schemas: JsonObject) -> str:
    group, _, version = place.partition("/")[2].rpartition("/")
    for name, schema in schemas.items():
        for found in schema.get("x-kubernetes-group-version-kind", ()):
            if (found["group"], found["version"], found["kind"]) == (group, version, kind):
                return str(name)
    raise ValueError(f"no definition of {kind} in {place}")


def _collect(name: str, schemas: JsonObject, definitions: JsonObject) -> None:
    made = _type(schemas[name], schemas)
    known = definitions.get(_short(name))
    if known is not None:
        if known != made:
            raise ValueError(f"two definitions are called {_short(name)}: give one of them another name")
        return
    definitions[_short(name)] = made
    for reference in _references(schemas[name]):
        if not _is_value(_short(reference)):
            _collect(reference, schemas, definitions)


def _type(schema: JsonObject, schemas: JsonObject) -> Any:
    if reference := _reference(schema):
        short = _short(reference)
        return "value" if short in _VALUES else "anything" if short in _ANYTHING else _of(reference, schemas)
    match schema.get("type"):
        case "array":
            return _list(schema, schemas)
        case "object" if "properties" in schema:
            made: JsonObject = {"fields": {name: _type(inner, schemas) for name, inner in schema["properties"].items()}}
            return {**made, "atomic": True} if schema.get("x-kubernetes-map-type") == "atomic" else made
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            each = _type(schema["additionalProperties"], schemas)
            return {"each": each, **({"atomic": True} if schema.get("x-kubernetes-map-type") == "atomic" else {})}
        case "object" | None:
            return "anything"
        case other:
            return _SCALARS[other]


def _of(reference: str, schemas: JsonObject) -> Any:
    """A definition that is no object is written where it is used."""
    target = schemas[reference]
    return f"#{_short(reference)}" if "properties" in target else _type(target, schemas)


def _list(schema: JsonObject, schemas: JsonObject) -> JsonObject:
    items = _type(schema["items"], schemas)
    match schema.get("x-kubernetes-list-type", "atomic"):
        case "map":
            reference = _reference(schema["items"])
            fields = schemas[reference]["properties"] if reference else {}
            keys = schema["x-kubernetes-list-map-keys"]
            # A key that may be left out has a default.
            return {"keys": {key: fields.get(key, {}).get("default") for key in keys}, "items": items}
        case "set":
            return {"keys": {}, "items": items}
        case _:
            return {"items": items}


def _reference(schema: JsonObject) -> str:
    """OpenAPI wraps a reference that has a default. Of a schema of schemas, both names are those of fields."""
    wrapping = schema.get("allOf")
    found = wrapping[0].get("$ref") if isinstance(wrapping, list) else schema.get("$ref")
    return found.removeprefix("#/components/schemas/") if isinstance(found, str) else ""


def _references(schema: Any) -> Iterable[str]:
    match schema:
        case dict():
            if reference := _reference(schema):
                yield reference
            for inner in schema.values():
                yield from _references(inner)
        case list():
            for inner in schema:
                yield from _references(inner)


def _is_value(short: str) -> bool:
    return short in _VALUES or short in _ANYTHING


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_plane(Path(folder)) as plane:
        TARGET.write_text(text_of(types_of(plane)))
    sys.stdout.write(f"wrote {TARGET}\n")


if __name__ == "__main__":
    main()
