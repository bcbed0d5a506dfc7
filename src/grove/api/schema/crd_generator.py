"""Generate the CRDs of Grove's five kinds from their types.

A new field of a type is in the CRD automatically. Descriptions and rules are in `crd_markers.py`, size limits in
`limits.py`, and types of Kubernetes in `kubernetes_schemas.py`. The generated YAML is checked in under `crd_yaml/`; a
test compares it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, TOPOLOGY_BINDINGS, Resource
from grove.api.schema.crd_markers import FIELDS, RULES, Notes
from grove.api.schema.kubernetes_schemas import kubernetes_schema
from grove.api.schema.limits import LIMITS
from grove.api.types.meta import JsonObject, ObjectMeta
from grove.api.values.yaml_text import compact_yaml

KINDS: tuple[Resource[Any], ...] = (PODCLIQUESETS, PODCLIQUES, GROUPS, PODGANGS, TOPOLOGY_BINDINGS)

_SHORT_NAMES = {"podcliquesets": "pcs", "podcliques": "pclq", "podcliquescalinggroups": "pcsg",
                "podgangs": "pg", "clustertopologybindings": "ct"}  # fmt: skip
# The labelSelectorPath of the scale subresource; a kind without an entry has no scale subresource.
_SELECTOR_PATHS = {"podcliquesets": ".status.hpaPodSelector", "podcliques": ".status.hpaPodSelector",
                   "podcliquescalinggroups": ".status.selector"}  # fmt: skip
_AVAILABLE = '.status.conditions[?(@.type=="Available")].status'
_BREACHED = '.status.conditions[?(@.type=="MinAvailableBreached")].status'
# The columns of `kubectl get` that fit 80 characters; `-o wide` prints all.
_NARROW = frozenset({"Ready", "Replicas", "Available", "Phase", "Domains", "Age"})
_COLUMNS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "podcliquesets": (
        ("Ready", "string", _AVAILABLE),
        ("Replicas", "integer", ".spec.replicas"),
        ("Available", "integer", ".status.availableReplicas"),
        ("Updated", "integer", ".status.updatedReplicas"),
        ("PCLQs-Updated", "integer", ".status.updateProgress.updatedPodCliquesCount"),
        ("PCLQs-Total", "integer", ".status.updateProgress.totalPodCliquesCount"),
        ("PCSGs-Updated", "integer", ".status.updateProgress.updatedPodCliqueScalingGroupsCount"),
        ("PCSGs-Total", "integer", ".status.updateProgress.totalPodCliqueScalingGroupsCount"),
        ("Phase", "string", ".status.phase"),
        ("Restarts", "integer", ".status.restartCount"),
    ),
    "podcliques": (
        ("MinAvail", "integer", ".spec.minAvailable"),
        ("Replicas", "integer", ".spec.replicas"),
        ("Ready", "integer", ".status.readyReplicas"),
        ("Scheduled", "integer", ".status.scheduledReplicas"),
        ("Updated", "integer", ".status.updatedReplicas"),
        ("Gated", "integer", ".status.scheduleGatedReplicas"),
        ("MinBreached", "string", _BREACHED),
    ),
    "podcliquescalinggroups": (
        ("MinAvail", "integer", ".spec.minAvailable"),
        ("Replicas", "integer", ".spec.replicas"),
        ("Available", "integer", ".status.availableReplicas"),
        ("Scheduled", "integer", ".status.scheduledReplicas"),
        ("Updated", "integer", ".status.updatedReplicas"),
        ("PCLQs-Updated", "integer", ".status.updateProgress.updatedPodCliquesCount"),
        ("PCLQs-Total", "integer", ".status.updateProgress.totalPodCliquesCount"),
        ("MinBreached", "string", _BREACHED),
    ),
    "podgangs": (("Phase", "string", ".status.phase"),),
    "clustertopologybindings": (("Domains", "string", ".spec.levels[*].domain"),),
}
_AGE = ("Age", "date", ".metadata.creationTimestamp")
_NO_NOTES = Notes("")
_ANY_OBJECT: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

# Returns the schema of a Kubernetes type by its name.
Embed = Callable[[str], JsonObject]


def custom_resource_definitions() -> tuple[JsonObject, ...]:
    return tuple(_crd(resource) for resource in KINDS)


def crd_file_name(crd: JsonObject) -> str:
    return f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"


def crd_text(crd: JsonObject) -> str:
    """Return the YAML of a CRD, as it is checked in."""
    return compact_yaml(crd)


@cache
def object_schema(resource: Resource[Any]) -> JsonObject:
    """Return the structural schema of a kind."""
    return _with_type_fields(_struct_schema(resource.view, kubernetes_schema))


@cache
def own_schema(resource: Resource[Any]) -> JsonObject:
    """Return the structural schema of a kind in which every Kubernetes type accepts any object."""
    return _with_type_fields(_struct_schema(resource.view, lambda _: _ANY_OBJECT))


def _with_type_fields(schema: JsonObject) -> JsonObject:
    properties = {
        "apiVersion": {"type": "string", "description": "Version of this representation of the object."},
        "kind": {"type": "string", "description": "Kind of the object."},
        **schema["properties"],
    }
    return {**schema, "properties": properties}


def _crd(resource: Resource[Any]) -> JsonObject:
    plural, singular = resource.plural, resource.kind.lower()
    version: JsonObject = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(*column) for column in (*_COLUMNS[plural], _AGE)],
        "schema": {"openAPIV3Schema": object_schema(resource)},
        "subresources": _subresources(plural),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": plural,
                "singular": singular,
                "shortNames": [_SHORT_NAMES[plural]],
                "categories": ["grove"],
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _subresources(plural: str) -> JsonObject:
    subresources: JsonObject = {"status": {}}
    if plural in _SELECTOR_PATHS:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": _SELECTOR_PATHS[plural],
        }
    return subresources


def _column(name: str, type_: str, path: str) -> JsonObject:
    column: JsonObject = {"name": name, "type": type_, "jsonPath": path}
    return column if name in _NARROW else {**column, "priority": 1}


def _struct_schema(struct: type[msgspec.Struct], embed: Embed) -> JsonObject:
    if struct is ObjectMeta:
        return {"type": "object"}
    notes, limits = FIELDS.get(struct, {}), LIMITS.get(struct, {})
    properties: JsonObject = {}
    required: list[str] = []
    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    for field in info.fields:
        note = notes.get(field.encode_name, _NO_NOTES)
        field_schema, limit = _field_schema(field, note, embed), limits.get(field.encode_name)
        properties[field.encode_name] = (
            {**field_schema, **limit.schema(field_schema["type"])} if limit else field_schema
        )
        if (field.required or note.is_required) and field.encode_name != "metadata":
            required.append(field.encode_name)
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if struct in RULES:
        schema["x-kubernetes-validations"] = RULES[struct]
    return schema


def _field_schema(field: msgspec.inspect.Field, note: Notes, embed: Embed) -> JsonObject:
    schema: JsonObject = {"description": note.description} if note.description else {}
    schema.update(_type_schema(field.type, embed))
    if note.kubernetes and schema["type"] == "array":
        schema["items"] = embed(note.kubernetes)
    elif note.kubernetes:
        schema.update(embed(note.kubernetes))
    elif schema["type"] == "integer":
        schema["format"] = "int64" if field.encode_name.endswith("Generation") else "int32"
    schema.update(note.schema)
    return schema


def _type_schema(type_: msgspec.inspect.Type, embed: Embed) -> JsonObject:
    match type_:
        case msgspec.inspect.UnionType(types=types):
            return _type_schema(next(t for t in types if not isinstance(t, msgspec.inspect.NoneType)), embed)
        case msgspec.inspect.StructType(cls=struct):
            return _struct_schema(struct, embed)
        case msgspec.inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _item_schema(item, embed)}
        case msgspec.inspect.DictType(value_type=msgspec.inspect.AnyType()):
            return {"type": "object"}
        case msgspec.inspect.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _item_schema(value, embed)}
        case msgspec.inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case msgspec.inspect.BoolType():
            return {"type": "boolean"}
        case msgspec.inspect.IntType():
            return {"type": "integer"}
        case msgspec.inspect.FloatType():
            return {"type": "number"}
        case msgspec.inspect.StrType():
            return {"type": "string"}
        case _:
            raise TypeError(f"no schema for {type_}: add the type to grove.api.schema.crd_generator")


def _item_schema(type_: msgspec.inspect.Type, embed: Embed) -> JsonObject:
    schema = _type_schema(type_, embed)
    return {**schema, "format": "int32"} if schema["type"] == "integer" else schema
