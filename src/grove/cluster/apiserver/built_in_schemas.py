"""OpenAPI schemas of built-in kinds, without descriptions, from `built_in_openapi.json.gz`.

`tests/kube/controlplane/openapi.py` extracts them from a running kube-apiserver. `$ref` is the bare name of a schema.
"""

import gzip
import pkgutil
from functools import cache

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.built_in_resources import ResourceInfo


class BuiltIn(msgspec.Struct, frozen=True):
    # The name of the schema by `group/version/kind`.
    kinds: dict[str, str]
    definitions: dict[str, JsonObject]


@cache
def built_in() -> BuiltIn:
    data = pkgutil.get_data(__package__, "built_in_openapi.json.gz")
    return msgspec.json.decode(gzip.decompress(data or b""), type=BuiltIn)


def definition_name(resource_info: ResourceInfo) -> str | None:
    """Return the name of the kind's schema; None if there is none."""
    return built_in().kinds.get(f"{resource_info.group}/{resource_info.version}/{resource_info.kind}")


def collect_definitions(*roots: str) -> dict[str, JsonObject]:
    """Return these schemas and all that they refer to."""
    definitions, found, waiting = built_in().definitions, dict[str, JsonObject](), list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definitions[name]
            waiting += _references(definitions[name])
    return found


def _references(schema: JsonObject) -> list[str]:
    if "$ref" in schema:
        return [schema["$ref"]]
    inner = [*schema.get("properties", {}).values()]
    inner += [schema[word] for word in ("items", "additionalProperties") if isinstance(schema.get(word), dict)]
    return [name for each in inner for name in _references(each)]
