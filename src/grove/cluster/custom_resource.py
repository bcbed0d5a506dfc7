"""Compiled versions of custom resources: pruning, defaulting and validation as their CRD describes.

A structural schema is compiled once. A fast pass recognizes an object that is valid as it is. Only other objects take
the slow pass, which prunes unknown fields and nulls, fills in defaults, and collects errors.
Not here: which resources are served (`resource_registry.py`), the validation of CRDs (`crd_validation.py`), and
built-in kinds.
"""

from functools import cache, cached_property
from typing import Any

import msgspec

from grove.api.schema.crd_generator import custom_resource_definitions
from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import ErrorKind, FieldError, invalid
from grove.cluster.schemas.cel_rules import RuleFindings, RuleTree, build_rule_tree
from grove.cluster.schemas.fast_path import SchemaType, TypeBuilder
from grove.cluster.schemas.keywords import ALWAYS_KNOWN
from grove.cluster.schemas.pruning_defaulting import PruningPass
from grove.cluster.schemas.schema_validation import NO_OLD_VALUE, NO_PATH, validate_object

# CEL rules are skipped for an object with one of these errors.
_BLOCKING = (ErrorKind.REQUIRED, ErrorKind.TOO_LONG, ErrorKind.TOO_MANY, ErrorKind.TYPE_INVALID)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A printer column of a CRD."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    description: str = ""
    format: str = ""


class ScalePaths(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of the scale subresource, as steps from the root of the object."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] = ()


class PrunedObject(msgspec.Struct, frozen=True):
    """An object after pruning and defaulting, and the paths of the pruned fields."""

    obj: JsonObject
    unknown: tuple[str, ...] = ()


class CustomVersion:
    """One version of a custom resource. Compared by identity: a changed CRD creates new instances."""

    def __init__(self, version: JsonObject, names: JsonObject, *, types: TypeBuilder) -> None:
        self.name: str = version["name"]
        self.schema: JsonObject = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        self.singular: str = names.get("singular", "")
        self.short_names: tuple[str, ...] = tuple(names.get("shortNames", ()))
        self.categories: tuple[str, ...] = tuple(names.get("categories", ()))
        self.columns: tuple[Column, ...] = tuple(map(_column, version.get("additionalPrinterColumns") or ()))
        self.scale: ScalePaths | None = _scale_paths(version)
        self.selectable: tuple[str, ...] = tuple(
            field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()
        )
        # None: not deprecated.
        self.deprecation: str | None = version.get("deprecationWarning", "") if version.get("deprecated") else None
        # The version that objects are stored in. None: stored objects already have the form of this version.
        self.stored_as: CustomVersion | None = None
        # The CRD is terminating: creates are rejected.
        self.is_terminating = False
        self._types = types
        # The last valid value of each top-level field. A write validates twice, before and after admission.
        self._last_valid: dict[str, Any] = {}

    @property
    def needs_no_conversion(self) -> bool:
        """Return whether stored bytes can be served as they are, without conversion or warning."""
        return self.stored_as is None and self.deprecation is None

    @cached_property
    def _shapes(self) -> dict[str, SchemaType | None]:
        """Return the type that validates each top-level field, or None if only the full schema validation can."""
        fields = self.schema.get("properties", {})
        return {field: self._types.build(inner) for field, inner in fields.items() if field not in ALWAYS_KNOWN}

    @cached_property
    def _is_plain(self) -> bool:
        """Return whether the root of the schema has no constraint besides its fields."""
        words = {"type", "properties", "required", "description", "title", "x-kubernetes-validations"}
        return set(self.schema) <= words

    @cached_property
    def rules(self) -> RuleTree | None:
        return build_rule_tree(self.schema, is_root=True)

    def prune_and_default(self, obj: JsonObject, old: JsonObject | None = None) -> PrunedObject:
        """Prune and default an object. Top-level fields that are identical to those of `old` are not checked again."""
        if self._is_clean(obj, old or {}):
            return PrunedObject(obj)
        shaping = PruningPass()
        return PrunedObject(shaping.root(obj, self.schema), tuple(shaping.unknown))

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> RuleFindings:
        """Validate a pruned and defaulted object by schema and CEL rules. Errors that `old` already had are allowed."""
        errors: list[FieldError] = []
        if not self._is_clean(obj, old or {}):
            errors = validate_object(obj, self.schema, NO_OLD_VALUE if old is None else old)
        if self.rules is None:
            return RuleFindings(tuple(errors))
        if errors and any(error.kind in _BLOCKING for error in errors):
            return RuleFindings((*errors, invalid(NO_PATH, None, _UNCHECKED)))
        if not self.rules.has_rules_for(obj):
            return RuleFindings(tuple(errors))
        found = self.rules.evaluate(obj, old)
        return RuleFindings((*errors, *found.errors), found.warnings)

    def from_stored(self, obj: JsonObject, api_version: str) -> JsonObject:
        """Return a stored object in this version: defaulted in the storage version, then pruned to this one."""
        if self.stored_as is None:
            return obj
        shaped = obj if self.stored_as._is_clean(obj, {}) else PruningPass().root(obj, self.stored_as.schema)
        if self.stored_as is not self:
            shaped = PruningPass(fills_defaults=False).root(shaped, self.schema)
        return shaped if shaped.get("apiVersion") == api_version else {**shaped, "apiVersion": api_version}

    def _is_clean(self, obj: JsonObject, old: JsonObject) -> bool:
        if not self._is_plain:
            return False
        shapes = self._shapes
        for field, value in obj.items():
            if field in ALWAYS_KNOWN:
                continue
            shape = shapes.get(field)
            if shape is None:
                return False
            if value is old.get(field) or value is self._last_valid.get(field, self):
                continue
            if not shape.fits(value):
                return False
            self._last_valid[field] = value
        return self._required_or_defaulted <= obj.keys()

    @cached_property
    def _required_or_defaulted(self) -> frozenset[str]:
        """Return the top-level fields that are required or have a default."""
        fields = self.schema.get("properties", {}).items()
        return frozenset((*self.schema.get("required", ()), *(name for name, inner in fields if "default" in inner)))


def custom_versions(definition: JsonObject, types: TypeBuilder | None = None) -> dict[str, CustomVersion]:
    """Return all versions of a CRD by name, in the order of the CRD, served or not."""
    spec, made = definition["spec"], types or TypeBuilder()
    return {version["name"]: CustomVersion(version, spec["names"], types=made) for version in spec["versions"]}


def with_crd_defaults(definition: JsonObject) -> JsonObject:
    """Return the CRD with its defaults filled in."""
    spec = definition.get("spec") or {}
    names = dict(spec.get("names") or {})
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    made = {**spec, "names": names, "conversion": spec.get("conversion") or {"strategy": "None"}}
    if "versions" in spec:
        made["versions"] = [{"served": False, "storage": False, **version} for version in spec["versions"]]
    return {**definition, "spec": made}


@cache
def grove_crds() -> tuple[tuple[JsonObject, dict[str, CustomVersion]], ...]:
    """Return the CRDs of Grove and their compiled versions, shared by all servers of this process."""
    types = TypeBuilder()
    definitions = (with_crd_defaults(definition) for definition in custom_resource_definitions())
    return tuple((definition, custom_versions(definition, types)) for definition in definitions)


def grove_storage_versions() -> dict[str, CustomVersion]:
    """Return the storage versions of the Grove kinds by CRD name (`plural.group`)."""
    return {definition["metadata"]["name"]: next(iter(made.values())) for definition, made in grove_crds()}


def _column(column: JsonObject) -> Column:
    return Column(
        name=column["name"],
        type=column["type"],
        json_path=column["jsonPath"],
        priority=column.get("priority", 0),
        description=column.get("description", ""),
        format=column.get("format", ""),
    )


def _scale_paths(version: JsonObject) -> ScalePaths | None:
    scale: Any = (version.get("subresources") or {}).get("scale")
    if not scale:
        return None
    return ScalePaths(
        spec=_steps(scale["specReplicasPath"]),
        status=_steps(scale["statusReplicasPath"]),
        selector=_steps(scale["labelSelectorPath"]) if scale.get("labelSelectorPath") else (),
    )


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.strip(".").split("."))
