"""Schemas that our CRDs embed, taken from a running API server: `python -m tests.kube.controlplane.schemas`.

Only structure is taken - types, formats, enumerations, required fields, keys of lists - and no sentence. The result is
checked in as `src/grove/api/schema/kubernetes_schemas.json`; `grove.api.schema.kubernetes_schemas` makes schemas for
CRDs of it.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from grove.api.schema.kubernetes_schemas import SPECIAL
from grove.api.types.meta import JsonObject
from tests.kube.controlplane.plane import Plane, running_plane

TARGET = Path(__file__).parents[3] / "src" / "grove" / "api" / "schema" / "kubernetes_schemas.json"
# Where each schema that we embed is described.
SOURCES = {
    "io.k8s.api.core.v1.PodSpec": "/openapi/v3/api/v1",
    "io.k8s.api.autoscaling.v2.MetricSpec": "/openapi/v3/apis/autoscaling/v2",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior": "/openapi/v3/apis/autoscaling/v2",
    "io.k8s.api.resource.v1.ResourceClaimTemplateSpec": "/openapi/v3/apis/resource.k8s.io/v1",
}
_KEPT = ("type", "format", "enum", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
         "x-kubernetes-map-type")  # fmt: skip
_KEYS = "x-kubernetes-list-map-keys"


def schemas_of(plane: Plane) -> JsonObject:
    """What the API server says, reduced to what we keep."""
    documents = {
        path: msgspec.json.decode(plane.kubectl("get", "--raw", path)) for path in dict.fromkeys(SOURCES.values())
    }
    return reduced({root: documents[path]["components"]["schemas"] for root, path in SOURCES.items()})


def reduced(described: Mapping[str, JsonObject]) -> JsonObject:
    """All definitions that the roots need, under their short names; `described` has the definitions of each root."""
    full: JsonObject = {}
    for root, schemas in described.items():
        for name, definition in _needed(root, schemas):
            if _reduced(full.setdefault(_short(name), definition)) != _reduced(definition):
                raise ValueError(f"two definitions are called {_short(name)}: give one of them another name")
    found = {name: _reduced(definition) for name, definition in sorted(full.items())}
    _keep_defaults_of_keys(found, full)
    return found


def text_of(schemas: JsonObject) -> str:
    """One definition per line: a change shows what it is about."""
    lines = (f"{msgspec.json.encode(name).decode()}:{_compact(schema)}" for name, schema in schemas.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _needed(root: str, schemas: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    waiting, seen = [root], {root: None}
    while waiting:
        name = waiting.pop()
        if _short(name) in SPECIAL:
            continue
        yield name, schemas[name]
        for other in references(schemas[name]):
            if other not in seen:
                seen[other] = None
                waiting.append(other)


def references(value: Any) -> Iterator[str]:
    """The names of all schemas that one refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def _reduced(schema: JsonObject) -> JsonObject:
    if "allOf" in schema:
        (schema,) = schema["allOf"]
    if "$ref" in schema:
        return {"$ref": _short(schema["$ref"])}
    kept: JsonObject = {key: schema[key] for key in _KEPT if key in schema}
    if "properties" in schema:
        kept["properties"] = {name: _reduced(inner) for name, inner in sorted(schema["properties"].items())}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            kept[key] = _reduced(schema[key])
    return kept


def _keep_defaults_of_keys(found: JsonObject, full: JsonObject) -> None:
    """A list keyed by an optional field needs that field's default; no other default is of use to us."""
    for definition in [*found.values()]:
        for field in definition.get("properties", {}).values():
            item = field.get("items", {}).get("$ref")
            for key in field.get(_KEYS, ()):
                default = full[item]["properties"][key].get("default")
                if default and key not in found[item].get("required", ()):
                    found[item]["properties"][key]["default"] = default


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _compact(schema: JsonObject) -> str:
    return msgspec.json.encode(schema).decode()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, running_plane(Path(folder)) as plane:
        TARGET.write_text(text_of(schemas_of(plane)))
    sys.stdout.write(f"{TARGET}\n")
