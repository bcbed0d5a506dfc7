"""Every list, text and count that people write has a limit, and every limit its line in the reference."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from grove.api.resources import PODCLIQUESETS, PODGANGS, Resource
from grove.api.schema.crd_generator import KINDS, object_schema, own_schema
from grove.api.schema.limits import LARGEST_OBJECT, LIMITS
from grove.api.types.meta import JsonObject
from grove.api.types.podgang import PodGroup
from tests.markdown import ROOT, tables

PAGE = ROOT / "docs" / "reference" / "validation.md"


def _fields(schema: JsonObject, path: str) -> Iterator[tuple[str, JsonObject]]:
    """Every field below, but nothing of what belongs to Kubernetes."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        if not (path == "" and name in ("metadata", "apiVersion", "kind")):
            yield from _fields(inner, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from _fields(schema["items"], f"{path}[]")


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind)
def test_every_list_has_a_limit(resource: Resource[Any]) -> None:
    lists = [(path, schema) for path, schema in _fields(own_schema(resource), "") if schema["type"] == "array"]
    assert lists
    assert [path for path, schema in lists if "maxItems" not in schema] == []


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind)
def test_every_text_that_people_write_has_a_limit(resource: Resource[Any]) -> None:
    texts = [
        (path, schema)
        for path, schema in _fields(own_schema(resource), "")
        if schema["type"] == "string" and path.startswith("spec")
    ]
    assert [path for path, schema in texts if "maxLength" not in schema and "enum" not in schema] == []


def test_every_limit_belongs_to_a_field_and_has_a_reason() -> None:
    for struct, fields in LIMITS.items():
        known = [field.encode_name for field in msgspec.structs.fields(struct)]
        for name, limit in fields.items():
            assert name in known, f"{struct.__name__}.{name}"
            assert limit.why
            assert limit.most > 0


def test_no_limit_is_put_on_what_belongs_to_kubernetes() -> None:
    template = object_schema(PODCLIQUESETS)["properties"]["spec"]["properties"]["template"]["properties"]
    pod_spec = template["cliques"]["items"]["properties"]["spec"]["properties"]["podSpec"]
    assert "maxItems" not in pod_spec["properties"]["containers"]
    assert "maxItems" not in pod_spec["properties"]["containers"]["items"]["properties"]["env"]


def test_the_reference_shows_every_limit_of_a_list_or_a_count_with_its_reason() -> None:
    documented = [(row[0].strip("`"), row[2].replace(",", ""), row[3]) for row in _limit_rows()]
    assert documented == list(dict.fromkeys(_documented_limits()))


def _documented_limits() -> Iterator[tuple[str, str, str]]:
    """Of all kinds that people write; a field that several kinds have stands there once."""
    for resource in KINDS:
        for path, schema in _fields(own_schema(resource), ""):
            if path.startswith("spec") and resource is not PODGANGS and ("maxItems" in schema or "maximum" in schema):
                yield path, str(schema.get("maxItems") or schema["maximum"]), _reason(path)


def _limit_rows() -> list[tuple[str, ...]]:
    return [row for table in tables(PAGE.read_text()) for row in table if len(row) == 4]


def _reason(path: str) -> str:
    field = path.rpartition(".")[2]
    (why,) = {limit.why for fields in LIMITS.values() for name, limit in fields.items() if name == field}
    return why


def test_an_object_at_the_limit_of_etcd_is_what_bounds_the_references_of_a_gang() -> None:
    shortest = len('{"namespace":"a","name":"a-0-a-0-xxxxx"},')
    references = LIMITS[PodGroup]["podReferences"].most
    assert references * shortest > LARGEST_OBJECT
