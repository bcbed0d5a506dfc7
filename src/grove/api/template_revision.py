"""Revisions of a set's pod templates, stored as ControllerRevisions: build, read, compare and restore them.

Two templates are the same if they make the same pods (`template_hash.py`). A hash is only a name: once stored, it stays
the name of its template, even if a later version of Grove computes another hash.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from grove.api import names
from grove.api.template_hash import canonical_template
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import JsonObject, WireStruct, to_wire
from grove.api.types.podcliqueset import CliqueTemplate, SetTemplate

# Far below the maximum of the API server (int64), far above what a set can reach.
LARGEST_NUMBER = 2**53


class CliqueRevision(WireStruct):
    """The pod template of one clique, as the user wrote it, and the hash that its pods have as a label."""

    name: str
    template_hash: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    pod_spec: JsonObject = {}


class RevisionTemplate(WireStruct):
    """All pod templates of a set, as they were at one time."""

    generation_hash: str
    priority_class_name: str = ""
    cliques: tuple[CliqueRevision, ...] = ()

    @property
    def hashes(self) -> dict[str, str]:
        return {clique.name: clique.template_hash for clique in self.cliques}


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """A stored revision. Numbers only grow; the highest number is the revision that the user requested last."""

    number: int
    object: ControllerRevision
    template: RevisionTemplate

    @property
    def generation_hash(self) -> str:
        return self.template.generation_hash


def build_revision(template: SetTemplate, hashes: Mapping[str, str], generation_hash: str) -> RevisionTemplate:
    """Return the pod templates of a set as a revision; `hashes` has the template hash of each clique."""
    return RevisionTemplate(
        generation_hash=generation_hash,
        priority_class_name=template.priority_class_name,
        cliques=tuple(
            CliqueRevision(
                name=clique.name,
                template_hash=hashes[clique.name],
                labels=clique.labels,
                annotations=clique.annotations,
                pod_spec=clique.spec.pod_spec,
            )
            for clique in template.cliques
        ),
    )


def read_revision(stored: ControllerRevision, set_name: str) -> Revision | None:
    """Return a revision of this set, or None if it is damaged or its name does not match its hash.

    Names are unique, so no two revisions of a set have the same hash. A number that is out of range is read as 0; the
    operator then gives the revision a new number.
    """
    try:
        template = msgspec.convert((stored.data or {}).get("template"), RevisionTemplate)
    except msgspec.ValidationError:
        return None
    if stored.metadata.name != names.revision(set_name, template.generation_hash):
        return None
    number = stored.revision if 0 < stored.revision <= LARGEST_NUMBER else 0
    return Revision(number=number, object=stored, template=template)


def revision_data(template: RevisionTemplate) -> JsonObject:
    """Return the `data` of a ControllerRevision, with sorted keys.

    The API server compares these data byte by byte, and a strategic merge patch sorts their keys.
    """
    return {"template": _sort_keys(to_wire(template))}


def _sort_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    return [_sort_keys(item) for item in value] if isinstance(value, list) else value


def with_templates(template: SetTemplate, revision: RevisionTemplate) -> SetTemplate:
    """Return the set's template with the pod templates of a revision; everything else, such as replicas, stays."""
    stored = {clique.name: clique for clique in revision.cliques}
    return msgspec.structs.replace(
        template,
        priority_class_name=revision.priority_class_name,
        cliques=tuple(_with_template(clique, stored.get(clique.name)) for clique in template.cliques),
    )


def _with_template(clique: CliqueTemplate, stored: CliqueRevision | None) -> CliqueTemplate:
    if stored is None:
        return clique
    return msgspec.structs.replace(
        clique,
        labels=stored.labels,
        annotations=stored.annotations,
        spec=msgspec.structs.replace(clique.spec, pod_spec=stored.pod_spec),
    )


def restore_pod_templates(set_template: JsonObject, revision: RevisionTemplate) -> JsonObject:
    """Return a set's `spec.template` as JSON with the pod templates of a revision; unknown fields stay."""
    stored = {clique.name: clique for clique in revision.cliques}
    cliques = [
        _restore_clique(clique, stored.get(clique.get("name", ""))) for clique in set_template.get("cliques") or ()
    ]
    changed = {**set_template, "cliques": cliques}
    changed.pop("priorityClassName", None)
    return {**changed, "priorityClassName": revision.priority_class_name} if revision.priority_class_name else changed


def _restore_clique(clique: JsonObject, stored: CliqueRevision | None) -> JsonObject:
    if stored is None:
        return clique
    changed: JsonObject = {key: value for key, value in clique.items() if key not in ("labels", "annotations")}
    metadata: dict[str, Any] = {"labels": stored.labels, "annotations": stored.annotations}
    spec = {**(clique.get("spec") or {}), "podSpec": stored.pod_spec}
    return {**changed, **{key: value for key, value in metadata.items() if value}, "spec": spec}


def makes_same_pods(template: SetTemplate, revision: RevisionTemplate) -> bool:
    """Return whether every clique of the set makes the same pods as in the revision."""
    before = with_templates(template, revision)
    if {clique.name for clique in revision.cliques} != {clique.name for clique in template.cliques}:
        return False
    # Fast path: they are nearly always equal without canonicalization.
    return before == template or _canonical(before) == _canonical(template)


def _canonical(template: SetTemplate) -> dict[str, bytes]:
    return {clique.name: canonical_template(clique, template.priority_class_name) for clique in template.cliques}
