"""Strategy of CustomResourceDefinitions: defaults, name acceptance, deletion. Grove's own CRDs exist from the start.

Name acceptance is a second write, as on a real API server: the response to a create shows a CRD that is not
established yet. `crd_validation.py` validates CRDs, `resource_registry.py` serves their kinds, and
`cluster/controllers/crd_finalizer.py` deletes the objects of a terminating CRD.
"""

import hashlib

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.metadata import format_time
from grove.cluster.built_in_resources import DEFINITIONS
from grove.cluster.custom_resource import grove_crds, with_crd_defaults
from grove.cluster.storage.store import Change, ChangeType, Entry

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_NAMES_ACCEPTED = ("NamesAccepted", "True", "NoConflicts", "no conflicts found")
_ESTABLISHED = ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
_NOT_ESTABLISHED = ("Established", "False", "NotAccepted", "not all names are accepted")
_PENDING = (
    "Terminating",
    "True",
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
_IN_PROGRESS = ("Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
# Reason of the NamesAccepted condition for each kind of name that another CRD of the group uses already.
_CONFLICTS = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}


class CrdController:
    """A controller that writes CRD statuses. It runs after each request, because store listeners must not write."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._table = context.store.table(DEFINITIONS)
        self._are_own_stored = self._table.count("") > 0
        self._pending: dict[str, None] = {}
        context.store.subscribe(self._on_change)

    def store_own_crds(self) -> None:
        """Store Grove's CRDs on the first request for CRDs. They are large, and most clusters never read them."""
        if self._are_own_stored:
            return
        self._are_own_stored = True
        for definition, _ in grove_crds():
            established = _build_established(definition, format_time(self._context.started_at))
            self._context.store.put(DEFINITIONS, "", established["metadata"]["name"], established)
        self._pending.clear()

    def update_own_crds(self) -> None:
        """Update Grove's CRDs in a persisted store to those of this version. Called at startup."""
        self._are_own_stored = True
        for definition, _ in grove_crds():
            established = _build_established(definition, format_time(self._context.started_at))
            name, spec = established["metadata"]["name"], established["spec"]
            entry = self._table.find("", name)
            if entry is None:
                self._context.store.put(DEFINITIONS, "", name, established)
            elif entry.obj["spec"] != spec:
                metadata = {**entry.obj["metadata"], "generation": entry.obj["metadata"].get("generation", 1) + 1}
                self._context.store.put(DEFINITIONS, "", name, {**entry.obj, "metadata": metadata, "spec": spec})

    def settle(self) -> None:
        """Write the accepted names and conditions of changed CRDs."""
        while self._pending:
            name = next(iter(self._pending))
            del self._pending[name]
            entry = self._table.find("", name)
            if entry is not None and "deletionTimestamp" not in entry.obj["metadata"]:
                self._update_status(entry)

    def _on_change(self, change: Change) -> None:
        if change.resource_info is not DEFINITIONS:
            return
        self._pending[change.entry.name] = None
        if change.type is ChangeType.DELETED:
            # Its names are free now, so the conflicts of other CRDs may be resolved.
            self._pending |= {entry.name: None for entry in self._table.entries("")}

    def _update_status(self, entry: Entry) -> None:
        status = _compute_names_status(entry.obj, self._find_used_names(entry), self._context.now())
        if status != entry.obj.get("status"):
            self._context.store.put(DEFINITIONS, "", entry.name, {**entry.obj, "status": status})

    def _find_used_names(self, own: Entry) -> dict[str, list[str]]:
        """Return the accepted names of the other CRDs of the group."""
        group = own.obj["spec"]["group"]
        others = [e.obj for e in self._table.entries("") if e.name != own.name and e.obj["spec"]["group"] == group]
        used_names: dict[str, list[str]] = {"resources": [], "kinds": []}
        for other in others:
            names = (other.get("status") or {}).get("acceptedNames") or {}
            used_names["resources"] += [
                names.get("plural", ""),
                names.get("singular", ""),
                *names.get("shortNames", ()),
            ]
            used_names["kinds"] += [names.get("kind", ""), names.get("listKind", "")]
        return used_names


def prepare_crd(obj: JsonObject) -> JsonObject:
    """Return a new CRD with defaults and its initial status."""
    crd = _without_preserve_false(with_crd_defaults(obj))
    status: JsonObject = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
    return {**crd, "status": {**status, "storedVersions": _storage_version(crd)}}


def prepare_crd_update(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return an updated CRD. `storedVersions` keeps every version that objects may be stored in."""
    crd = _without_preserve_false(with_crd_defaults(new))
    status = dict(old["status"])
    stored = list(status.get("storedVersions") or ())
    status["storedVersions"] = [*stored, *(name for name in _storage_version(crd) if name not in stored)]
    return {**crd, "status": status if status != old["status"] else old["status"]}


def mark_crd_terminating(obj: JsonObject, now: str) -> JsonObject:
    """Return the CRD with the cleanup finalizer and the Terminating condition."""
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        return obj
    finalizers = [*metadata.get("finalizers", ())]
    if CLEANUP not in finalizers:
        finalizers.append(CLEANUP)
    return {**obj, "metadata": {**metadata, "finalizers": finalizers}, "status": _with_conditions(obj, now, _PENDING)}


def build_deleting_status(obj: JsonObject, now: str) -> JsonObject:
    """Return the status of a CRD whose objects are being deleted."""
    return _with_conditions(obj, now, _IN_PROGRESS)


def _storage_version(definition: JsonObject) -> list[str]:
    versions = definition["spec"].get("versions") or ()
    return [version.get("name", "") for version in versions if version.get("storage")][:1]


def _without_preserve_false(definition: JsonObject) -> JsonObject:
    """Return the CRD without `preserveUnknownFields: false`."""
    spec = definition["spec"]
    if "preserveUnknownFields" not in spec or spec["preserveUnknownFields"]:
        return definition
    return {**definition, "spec": {name: value for name, value in spec.items() if name != "preserveUnknownFields"}}


def _compute_names_status(definition: JsonObject, used_names: dict[str, list[str]], now: str) -> JsonObject:
    wanted = definition["spec"]["names"]
    before = (definition.get("status") or {}).get("acceptedNames") or {}
    accepted: JsonObject = {"plural": before.get("plural", ""), "kind": before.get("kind", "")}
    accepted |= {name: before[name] for name in ("singular", "shortNames", "listKind") if before.get(name)}
    conflict = None
    for field, reason in _CONFLICTS.items():
        names = wanted.get(field)
        if not names:
            continue
        used = used_names["kinds" if field in ("kind", "listKind") else "resources"]
        clashing = [name for name in ([names] if isinstance(names, str) else names) if name in used]
        if clashing:
            conflict = ("NamesAccepted", "False", reason, ", ".join(f'"{name}" is already in use' for name in clashing))
        else:
            accepted[field] = names
    if wanted.get("categories"):
        accepted["categories"] = wanted["categories"]
    was_established = any(
        each["type"] == "Established" and each["status"] == "True"
        for each in (definition.get("status") or {}).get("conditions") or ()
    )
    if conflict is None:
        conditions = [_NAMES_ACCEPTED] if was_established else [_NAMES_ACCEPTED, _ESTABLISHED]
    else:
        conditions = [conflict] if was_established else [conflict, _NOT_ESTABLISHED]
    status = {**definition["status"], "acceptedNames": accepted}
    return _with_conditions({**definition, "status": status}, now, *conditions)


def _with_conditions(definition: JsonObject, now: str, *conditions: tuple[str, str, str, str]) -> JsonObject:
    """Return the status with these conditions. `lastTransitionTime` changes only with the status of a condition."""
    status = definition["status"]
    conditions_by_type = {each["type"]: each for each in status.get("conditions") or ()}
    for type_, truth, reason, message in conditions:
        was = conditions_by_type.get(type_, {})
        since = was.get("lastTransitionTime", now) if was.get("status") == truth else now
        conditions_by_type[type_] = {
            "type": type_, "status": truth, "lastTransitionTime": since, "reason": reason, "message": message,
        }  # fmt: skip
    return {**status, "conditions": list(conditions_by_type.values())}


def _build_established(definition: JsonObject, now: str) -> JsonObject:
    name, spec = definition["metadata"]["name"], definition["spec"]
    metadata = {"name": name, "uid": _uid(name), "resourceVersion": "", "generation": 1, "creationTimestamp": now}
    status = {"acceptedNames": spec["names"], "storedVersions": [version["name"] for version in spec["versions"]]}
    crd: JsonObject = {
        "kind": DEFINITIONS.kind,
        "apiVersion": DEFINITIONS.api_version,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }
    return {**crd, "status": _with_conditions(crd, now, _NAMES_ACCEPTED, _ESTABLISHED)}


def _uid(name: str) -> str:
    """Return a uid derived from the name, so that the time of the first read does not change the random sequence."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
