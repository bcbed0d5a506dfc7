"""One version of a custom kind, made ready for use: what its CustomResourceDefinition says of objects of that version.

A structural schema is compiled once. An object that conforms is recognised in one quick pass and stored as it is; only
for others is the slow pass taken, which prunes unknown fields and nulls, fills in defaults, and names what is wrong.
Not here: which kinds are served (`resource_registry.py`), how a definition is judged (`crd_validation.py`), and
built-in kinds, whose unknown fields are kept.
"""

from functools import cache, cached_property
from typing import Any

import msgspec

from grove.api.schema.crd_generator import custom_resource_definitions
from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import ErrorKind, FieldError, invalid
from grove.cluster.schemas.cel_rules import Ruled, RuleFindings, ruled
from grove.cluster.schemas.fast_path import SchemaType, Types
from grove.cluster.schemas.keywords import ALWAYS_KNOWN
from grove.cluster.schemas.pruning_defaulting import Shaping
from grove.cluster.schemas.schema_validation import NOTHING_OLD, NOWHERE, schema_errors_of

# Of an object with one of these it is not asked whether it keeps the rules.
_BLOCKING = (ErrorKind.REQUIRED, ErrorKind.TOO_LONG, ErrorKind.TOO_MANY, ErrorKind.TYPE_INVALID)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One printer column, as the definition has it."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    description: str = ""
    format: str = ""


class ScalePaths(msgspec.Struct, frozen=True, kw_only=True):
    """Where in an object the scale subresource finds what it shows, as steps from the root."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] = ()


class Shaped(msgspec.Struct, frozen=True):
    """An object made to fit its schema, as far as that goes, and the paths of what was pruned."""

    obj: JsonObject
    unknown: tuple[str, ...] = ()


class CustomVersion:
    """One version of a custom kind. Known by its identity: a definition that changes makes new ones."""

    def __init__(self, version: JsonObject, names: JsonObject, *, types: Types) -> None:
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
        # Set if stored objects may be other than they are shown: stored in another version, or under an older schema.
        self.stored_as: CustomVersion | None = None
        # Set while the definition leaves: no new objects.
        self.is_terminating = False
        self._types = types
        # Of each part the last value that was found to fit: a write asks twice, before admission and after it.
        self._fitting: dict[str, Any] = {}

    @property
    def is_shown_as_stored(self) -> bool:
        """There is nothing to say about an object but what the store has of it."""
        return self.stored_as is None and self.deprecation is None

    @cached_property
    def _shapes(self) -> dict[str, SchemaType | None]:
        """Of spec, status and whatever else is there; None: only the slow pass tells."""
        fields = self.schema.get("properties", {})
        return {field: self._types.shape_of(inner) for field, inner in fields.items() if field not in ALWAYS_KNOWN}

    @cached_property
    def _is_plain(self) -> bool:
        """Whether the root of the schema says no more than which fields there are."""
        words = {"type", "properties", "required", "description", "title", "x-kubernetes-validations"}
        return set(self.schema) <= words

    @cached_property
    def rules(self) -> Ruled | None:
        return ruled(self.schema, is_root=True)

    def shaped(self, obj: JsonObject, old: JsonObject | None = None) -> Shaped:
        """Parts shared with `old` are not looked at again."""
        if self._is_clean(obj, old or {}):
            return Shaped(obj)
        shaping = Shaping()
        return Shaped(shaping.root(obj, self.schema), tuple(shaping.unknown))

    def judged(self, obj: JsonObject, old: JsonObject | None = None) -> RuleFindings:
        """What schema and rules have against an object that was shaped; what was wrong in `old` before may stay."""
        errors: list[FieldError] = []
        if not self._is_clean(obj, old or {}):
            errors = schema_errors_of(obj, self.schema, NOTHING_OLD if old is None else old)
        if self.rules is None:
            return RuleFindings(tuple(errors))
        if errors and any(error.kind in _BLOCKING for error in errors):
            return RuleFindings((*errors, invalid(NOWHERE, None, _UNCHECKED)))
        if not self.rules.is_met_in(obj):
            return RuleFindings(tuple(errors))
        found = self.rules.judged(obj, old)
        return RuleFindings((*errors, *found.errors), found.warnings)

    def shown(self, obj: JsonObject, api_version: str) -> JsonObject:
        """A stored object as this version shows it: shaped as it is stored, then without what this version lacks."""
        if self.stored_as is None:
            return obj
        shaped = obj if self.stored_as._is_clean(obj, {}) else Shaping().root(obj, self.stored_as.schema)
        if self.stored_as is not self:
            shaped = Shaping(fills_defaults=False).root(shaped, self.schema)
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
            if value is old.get(field) or value is self._fitting.get(field, self):
                continue
            if not shape.fits(value):
                return False
            self._fitting[field] = value
        return self._indispensable <= obj.keys()

    @cached_property
    def _indispensable(self) -> frozenset[str]:
        """Parts of the whole that are never absent: they are required, or have a default."""
        fields = self.schema.get("properties", {}).items()
        return frozenset((*self.schema.get("required", ()), *(name for name, inner in fields if "default" in inner)))


def custom_versions(definition: JsonObject, types: Types | None = None) -> dict[str, CustomVersion]:
    """By name, in the order of the definition; served or not."""
    spec, made = definition["spec"], types or Types()
    return {version["name"]: CustomVersion(version, spec["names"], types=made) for version in spec["versions"]}


def defaulted_definition(definition: JsonObject) -> JsonObject:
    """With what follows from the rest of it."""
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
def own_definitions() -> tuple[tuple[JsonObject, dict[str, CustomVersion]], ...]:
    """The definitions of our kinds, made ready once for all servers of this process."""
    types = Types()
    definitions = (defaulted_definition(definition) for definition in custom_resource_definitions())
    return tuple((definition, custom_versions(definition, types)) for definition in definitions)


def custom_kinds() -> dict[str, CustomVersion]:
    """Our kinds as they are stored, by the definition's name: plural and group."""
    return {definition["metadata"]["name"]: next(iter(made.values())) for definition, made in own_definitions()}


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
