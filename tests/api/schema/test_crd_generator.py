"""The CRDs follow from the types; the checked-in YAML is what people install.

`GROVE_UPDATE_GOLDEN=1 pytest tests/api/schema/test_crd_generator.py` rewrites the files.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import grove.api
from grove.api.resources import PODCLIQUESETS, Resource
from grove.api.schema.crd_generator import (
    KINDS,
    crd_file_name,
    crd_text,
    custom_resource_definitions,
    object_schema,
    own_schema,
)
from grove.api.schema.crd_markers import FIELDS
from grove.api.schema.kubernetes_schemas import kubernetes_schema
from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct

_FOLDER = Path(grove.api.__file__).parent / "schema" / "crd_yaml"
CRDS = custom_resource_definitions()


@pytest.mark.parametrize("crd", CRDS, ids=crd_file_name)
def test_the_checked_in_yaml_is_what_the_types_say(crd: JsonObject) -> None:
    path = _FOLDER / crd_file_name(crd)
    if os.environ.get("GROVE_UPDATE_GOLDEN"):
        _FOLDER.mkdir(exist_ok=True)
        path.write_text(crd_text(crd))
    assert path.read_text() == crd_text(crd)


def test_no_stray_file_lies_beside_the_crds() -> None:
    assert sorted(path.name for path in _FOLDER.iterdir()) == sorted(crd_file_name(crd) for crd in CRDS)


def test_every_kind_has_its_names_scope_and_subresources() -> None:
    facts = [
        (
            crd["metadata"]["name"],
            crd["spec"]["names"]["shortNames"],
            crd["spec"]["scope"],
            crd["spec"]["versions"][0]["subresources"].get("scale", {}).get("labelSelectorPath"),
        )
        for crd in CRDS
    ]
    assert facts == [
        ("podcliquesets.grove.io", ["pcs"], "Namespaced", ".status.hpaPodSelector"),
        ("podcliques.grove.io", ["pclq"], "Namespaced", ".status.hpaPodSelector"),
        ("podcliquescalinggroups.grove.io", ["pcsg"], "Namespaced", ".status.selector"),
        ("podgangs.scheduler.grove.io", ["pg"], "Namespaced", None),
        ("clustertopologybindings.grove.io", ["ct"], "Cluster", None),
    ]


def columns_of(plural: str, *, is_wide: bool) -> list[str]:
    """The columns of `kubectl get`, or those that only `-o wide` adds."""
    (crd,) = [one for one in CRDS if one["spec"]["names"]["plural"] == plural]
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    return [column["name"] for column in columns if bool(column.get("priority", 0)) is is_wide]


@pytest.mark.parametrize(
    ("plural", "narrow", "wide"),
    [
        (
            "podcliquesets",
            {"Ready": "False", "Replicas": "1000", "Available": "1000", "Phase": "Succeeded", "Age": "365d"},
            ["Updated", "PCLQs-Updated", "PCLQs-Total", "PCSGs-Updated", "PCSGs-Total", "Restarts"],
        ),
        (
            "podcliques",
            {"Replicas": "10000", "Ready": "10000", "Age": "365d"},
            ["MinAvail", "Scheduled", "Updated", "Gated", "MinBreached"],
        ),
        (
            "podcliquescalinggroups",
            {"Replicas": "10000", "Available": "10000", "Age": "365d"},
            ["MinAvail", "Scheduled", "Updated", "PCLQs-Updated", "PCLQs-Total", "MinBreached"],
        ),
        ("podgangs", {"Phase": "Starting", "Age": "365d"}, []),
        ("clustertopologybindings", {"Domains": "datacenter", "Age": "365d"}, []),
    ],
)
def test_what_kubectl_get_prints_fits_80_columns_and_the_rest_is_wide(
    plural: str, narrow: dict[str, str], wide: list[str]
) -> None:
    assert (columns_of(plural, is_wide=False), columns_of(plural, is_wide=True)) == (list(narrow), wide)
    # kubectl separates columns by three spaces. A set may have 30 characters, and its children the 45 that names have.
    name = 30 if plural == "podcliquesets" else 45
    assert name + sum(3 + max(len(header), len(value)) for header, value in narrow.items()) <= 80


def test_the_limits_of_training_are_held_to_their_types() -> None:
    limits = object_schema(PODCLIQUESETS)["properties"]["spec"]["properties"]["trainingSpec"]["properties"]
    kept = {name: {key: field[key] for key in field if key != "description"} for name, field in limits.items()}
    assert kept == {
        "maxRuntime": {"type": "string", "maxLength": 64},
        "maxRestarts": {"type": "integer", "format": "int32", "minimum": 0},
    }


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind)
def test_every_field_has_a_description(resource: Resource[Any]) -> None:
    assert list(_undescribed(own_schema(resource), resource.kind)) == []


def test_every_note_belongs_to_a_field() -> None:
    stray = [
        f"{struct.__name__}.{name}"
        for struct, notes in FIELDS.items()
        for name in notes
        if name not in [field.encode_name for field in msgspec.structs.fields(struct)]
    ]
    assert stray == []


def test_what_belongs_to_kubernetes_has_its_schema() -> None:
    template = object_schema(PODCLIQUESETS)["properties"]["spec"]["properties"]["template"]["properties"]
    clique = template["cliques"]["items"]["properties"]["spec"]["properties"]
    parts = [
        clique["podSpec"],
        clique["autoScalingConfig"]["properties"]["metrics"]["items"],
        template["podCliqueScalingGroups"]["items"]["properties"]["scaleConfig"]["properties"]["metrics"]["items"],
        template["resourceClaimTemplates"]["items"]["properties"]["templateSpec"],
    ]
    names = ["PodSpec", "MetricSpec", "MetricSpec", "ResourceClaimTemplateSpec"]
    assert [part["properties"] for part in parts] == [kubernetes_schema(name)["properties"] for name in names]


@pytest.mark.parametrize("crd", CRDS, ids=crd_file_name)
def test_a_definition_is_far_below_what_an_api_server_stores(crd: JsonObject) -> None:
    """The store refuses objects of about 1.5 MB, and `kubectl apply` on the client's side annotations of 256 KiB."""
    assert len(msgspec.json.encode(crd)) < 200_000


class Novelty(WireStruct):
    name: str
    count: int = 0
    tags: dict[str, str] = {}


class Thing(WireStruct):
    metadata: ObjectMeta
    spec: Novelty


def test_a_field_added_to_a_type_shows_up_by_itself() -> None:
    resource = Resource(group="g", version="v1", plural="things", kind="Thing", view=Thing)
    assert object_schema(resource)["properties"]["spec"] == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer", "format": "int32"},
            "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["name"],
    }


def _undescribed(schema: JsonObject, path: str) -> Any:
    for name, inner in schema.get("properties", {}).items():
        if "description" not in inner and name != "metadata":
            yield f"{path}.{name}"
        yield from _undescribed(inner, f"{path}.{name}")
    if "items" in schema:
        yield from _undescribed(schema["items"], path)
