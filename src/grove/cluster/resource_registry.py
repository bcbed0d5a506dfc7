"""The registry of served resources: the built-in ones, and those that CRDs define.

CRDs are objects of the store, and the registry follows their changes: a CRD is served as soon as it is established, a
changed one in its new form, and a deleted one no longer. The CRDs of Grove are served from the start, although they are
stored only when a client first requests CRDs (`cluster/apiserver/registry/crd_strategy.py`).
"""

import re
from functools import cache

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.built_in_resources import DEFINITIONS, EVENTS, SERVED, ResourceInfo, with_derived_fields
from grove.cluster.custom_resource import CustomVersion, custom_versions, grove_crds
from grove.cluster.storage.store import Change, ChangeType, Storage

Place = tuple[str, str, str]

_BUILT_IN = tuple(resource_info for resource_info in SERVED if not resource_info.is_custom)
_BUILT_IN_GROUPS = frozenset(resource_info.group for resource_info in _BUILT_IN) | {"events.k8s.io"}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {"": 2, "beta": 1, "alpha": 0}


class CrdResources(msgspec.Struct, frozen=True):
    """The resources of one CRD: the storage version, and all served versions."""

    spec: JsonObject
    stored: ResourceInfo
    served: tuple[ResourceInfo, ...]
    # The CRD is being deleted: creates are rejected.
    is_terminating: bool = False


class ResourceRegistry:
    """A registry of the served resources, kept up to date with the CRDs in the store."""

    def __init__(self, store: Storage) -> None:
        # Incremented with every change. Callers cache what they derive from the registry until then.
        self.edition = 0
        self._store = store
        self._defined: dict[str, CrdResources] = {}
        self._by_place: dict[Place, ResourceInfo] = {}
        restored = [entry.obj for entry in store.table(DEFINITIONS).entries("")]
        for definition in restored:
            self._update(definition)
        if not restored:
            for defined in _own_resources():
                self._defined[defined.stored.qualified] = defined
        self._index()
        store.subscribe(self._follow)

    def find(self, group: str, version: str, plural: str) -> ResourceInfo | None:
        return self._by_place.get((group, version, plural))

    def is_built_in(self, group: str) -> bool:
        return group in _BUILT_IN_GROUPS

    @property
    def resources(self) -> tuple[ResourceInfo, ...]:
        """Return all served resources: built-in kinds first, then every served version of each custom kind."""
        return (
            *_BUILT_IN,
            *(resource_info for defined in self._defined.values() for resource_info in defined.served),
        )

    def _follow(self, change: Change) -> None:
        if change.resource_info is not DEFINITIONS:
            return
        if change.type is ChangeType.DELETED:
            gone = self._defined.pop(change.entry.name, None)
            if gone is not None:
                self._store.table(gone.stored).retire()
                self._index()
        elif self._update(change.entry.obj):
            self._index()

    def _update(self, definition: JsonObject) -> bool:
        """Update the registry from a CRD; return whether anything changed."""
        name = definition["metadata"]["name"]
        before = self._defined.get(name)
        if not is_established(definition):
            return self._defined.pop(name, None) is not None
        spec, is_terminating = definition["spec"], "deletionTimestamp" in definition["metadata"]
        if before is not None and before.spec == spec and before.is_terminating == is_terminating:
            return False
        defined = _find_own(definition) if before is None and not is_terminating else None
        if defined is None:
            was_changed = definition["metadata"].get("generation", 1) > 1
            is_changed = was_changed or (before is not None and before.spec != spec)
            defined = _compile_crd(
                definition, custom_versions(definition), is_changed=is_changed, is_terminating=is_terminating
            )
        self._defined[name] = defined
        self._store.open_table(defined.stored).resource_info = defined.stored
        return True

    def _index(self) -> None:
        self.edition += 1
        self._by_place = {
            (resource_info.group, resource_info.version, resource_info.plural): resource_info
            for resource_info in self.resources
        }
        self._by_place["events.k8s.io", "v1", "events"] = EVENTS


def is_established(definition: JsonObject) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def version_rank(name: str) -> tuple[int, int, int, str]:
    """Return a sort key that puts stable versions first, then newer before older, as Kubernetes orders versions."""
    match = _VERSION.fullmatch(name)
    if match is None:
        return 1, 0, 0, name
    major, stage, minor = match[1], match[2] or "", match[3] or "0"
    return 0, -_STAGES[stage], -(int(major) * 10_000 + int(minor)), name


@cache
def _own_resources() -> tuple[CrdResources, ...]:
    return tuple(_compile_crd(definition, made) for definition, made in grove_crds())


def _find_own(definition: JsonObject) -> CrdResources | None:
    """Return the compiled Grove resource if the CRD is an unchanged CRD of Grove."""
    name, spec = definition["metadata"]["name"], definition["spec"]
    return next((own for own in _own_resources() if own.stored.qualified == name and own.spec == spec), None)


def _compile_crd(
    definition: JsonObject, made: dict[str, CustomVersion], *, is_changed: bool = False, is_terminating: bool = False
) -> CrdResources:
    spec = definition["spec"]
    all_versions = {
        version["name"]: _build_resource_info(spec, version, made[version["name"]]) for version in spec["versions"]
    }
    (stored,) = (all_versions[version["name"]] for version in spec["versions"] if version["storage"])
    if is_changed or len(all_versions) > 1:
        for version in made.values():
            version.stored_as = stored.custom
    for version in made.values():
        version.is_terminating = is_terminating
    offered = sorted((version["name"] for version in spec["versions"] if version["served"]), key=version_rank)
    return CrdResources(spec, stored, tuple(all_versions[name] for name in offered), is_terminating)


def _build_resource_info(spec: JsonObject, version: JsonObject, custom: CustomVersion) -> ResourceInfo:
    names = spec["names"]
    return with_derived_fields(
        ResourceInfo(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            list_kind=names.get("listKind", ""),
            namespaced=spec["scope"] == "Namespaced",
            is_custom=True,
            has_status="status" in (version.get("subresources") or {}),
            has_scale=custom.scale is not None,
            has_generation=True,
            allows_blind_update=False,
            custom=custom,
        )
    )
