"""What a running API server says of its own kinds in OpenAPI v3: `python -m tests.kube.controlplane.openapi`.

Only structure is taken - types, formats, enumerations, required fields, references, keys of lists - and no sentence.
The result is checked in, compressed, as `src/grove/cluster/apiserver/built_in_openapi.json.gz`, and served by
`grove.cluster.apiserver.openapi`.
"""

import gzip
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.built_in_resources import SERVED
from tests.kube.controlplane.plane import running_plane
from tests.kube.controlplane.schemas import references

TARGET = Path(__file__).parents[3] / "src" / "grove" / "cluster" / "apiserver" / "built_in_openapi.json.gz"
# Kinds that are answered and not stored, or on their way to be served.
OTHERS = (
    ("authentication.k8s.io", "v1", "SelfSubjectReview"),
    ("authentication.k8s.io", "v1", "TokenRequest"),
    ("authentication.k8s.io", "v1", "TokenReview"),
    ("authorization.k8s.io", "v1", "LocalSubjectAccessReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "v1", "SubjectAccessReview"),
    ("autoscaling", "v1", "Scale"),
    ("events.k8s.io", "v1", "Event"),
    ("policy", "v1", "Eviction"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("", "v1", "Binding"),
    ("", "v1", "PersistentVolumeClaim"),
)
LIST_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_KEPT = (
    "type", "format", "enum", "required", "oneOf", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type", "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy", "x-kubernetes-unions",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string",
)  # fmt: skip
_GVK = "x-kubernetes-group-version-kind"
# All definitions of one group and version, by their names.
Read = Callable[[str], JsonObject]


def kinds_of(read: Read) -> JsonObject:
    """The kinds that we serve, by group, version and kind, and every definition that they need."""
    wanted = dict.fromkeys(
        (resource_info.group, resource_info.version, resource_info.kind)
        for resource_info in SERVED
        if not resource_info.is_custom
    )
    roots: JsonObject = {}
    definitions: JsonObject = {}
    for group, version, kind in (*wanted, *(other for other in OTHERS if other not in wanted)):
        # Kinds of subresources are told of beside those that have them.
        for path in (f"apis/{group}/{version}" if group else f"api/{version}", "api/v1"):
            schemas = read(path)
            if (root := _name_of({"group": group, "version": version, "kind": kind}, schemas)) is not None:
                break
        assert root is not None, kind
        roots[f"{group}/{version}/{kind}"] = root
        for name in _needed(root, schemas):
            definitions[name] = reduced(schemas[name])
    # Of lists that we describe ourselves.
    for name in _needed(LIST_METADATA, read("api/v1")):
        definitions[name] = reduced(read("api/v1")[name])
    return {"kinds": roots, "definitions": dict(sorted(definitions.items()))}


def _name_of(place: JsonObject, schemas: JsonObject) -> str | None:
    return next((name for name, schema in schemas.items() if place in schema.get(_GVK, ())), None)


def _needed(root: str, schemas: JsonObject) -> Iterator[str]:
    waiting, seen = [root], {root: None}
    while waiting:
        name = waiting.pop()
        yield name
        for other in references(schemas[name]):
            if other not in seen:
                seen[other] = None
                waiting.append(other)


def reduced(schema: JsonObject) -> JsonObject:
    """A schema without words and defaults."""
    if "allOf" in schema:
        (schema,) = schema["allOf"]
    if "$ref" in schema:
        return {"$ref": schema["$ref"].rpartition("/")[2]}
    kept: JsonObject = {key: schema[key] for key in _KEPT if key in schema}
    if "properties" in schema:
        kept["properties"] = {name: reduced(inner) for name, inner in sorted(schema["properties"].items())}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            kept[key] = reduced(schema[key])
    return kept


def packed(data: JsonObject) -> bytes:
    """The same bytes for the same data."""
    return gzip.compress(msgspec.json.encode(data), 9, mtime=0)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_plane(Path(folder)) as plane:
        read: dict[str, JsonObject] = {}

        def schemas(path: str) -> JsonObject:
            if path not in read:
                document = msgspec.json.decode(plane.kubectl("get", "--raw", f"/openapi/v3/{path}"))
                read[path] = document["components"]["schemas"]
            return read[path]

        TARGET.write_bytes(packed(kinds_of(schemas)))
    sys.stdout.write(f"{TARGET}\n")


if __name__ == "__main__":
    main()
