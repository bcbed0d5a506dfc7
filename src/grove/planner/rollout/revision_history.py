"""Stored revisions of a set: the desired one, the one that each replica runs, and their creation and pruning.

A revision is stored before anything is created from it. The base gang of a replica has its revision as a label. Until
the replica is updated, all of it is created from that revision, so a revision in use is never deleted.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from grove.api import labels, names
from grove.api.names import derived_letters
from grove.api.resources import CONTROLLER_REVISIONS
from grove.api.template_hash import canonical_template, template_hash
from grove.api.template_revision import (
    Revision,
    RevisionTemplate,
    build_revision,
    makes_same_pods,
    read_revision,
    revision_data,
    with_templates,
)
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import CliqueTemplate, CurrentlyUpdating, SetTemplate, UpdateType
from grove.api.values.numbers_in_text import is_number, parse_number
from grove.planner.actions import (
    WHOLE_SET,
    Action,
    Chain,
    ChainPriority,
    Create,
    CreateRejection,
    Patch,
    chain,
    delete_object,
)
from grove.planner.child_manifests import build_owner
from grove.planner.child_sync import Retries
from grove.planner.rollout.replica_update import UpdateRole
from grove.planner.snapshot import SetContext, Snapshot, arrange_cliques
from grove.planner.views import CliqueView, ReplicaView

# How many revisions that no replica runs are kept for a rollback.
KEPT_REVISIONS = 10
CHANGE_CAUSE = "kubernetes.io/change-cause"


class Targets:
    """The revisions that replicas are created from: the newest, and older ones that some still run."""

    def __init__(self, context: SetContext, stored: Sequence[ControllerRevision]) -> None:
        self.context = context
        found = (read_revision(one, context.name) for one in stored)
        self.revisions = tuple(sorted(filter(None, found), key=lambda revision: revision.number))
        template = context.spec.template
        self.wanted = next((r for r in reversed(self.revisions) if makes_same_pods(template, r.template)), None)
        # A template that is not stored yet is not used: the previous one stays.
        newest = self.wanted or (self.revisions[-1] if self.revisions else None)
        self.contexts = {
            revision.generation_hash: _context_at(context, revision.template, newest.template, self._stored_templates())
            for revision in self.revisions
            if newest is not None
        }
        self.newest = None if newest is None else self.contexts[newest.generation_hash]
        self.stored_hashes = {revision.generation_hash: revision.template.hashes for revision in self.revisions}

    def _stored_templates(self) -> dict[str, dict[str, CliqueTemplate]]:
        found: dict[str, dict[str, CliqueTemplate]] = {}
        for revision in self.revisions:
            for clique in with_templates(self.context.spec.template, revision.template).cliques:
                found.setdefault(clique.name, {})[revision.template.hashes.get(clique.name, "")] = clique
        return found

    @property
    def is_on_delete(self) -> bool:
        strategy = self.context.spec.update_strategy
        return strategy is not None and strategy.type == UpdateType.ON_DELETE

    def of(self, replica: ReplicaView, current_replica: int | None) -> SetContext:
        """Return the context of a replica: of its own revision or, if it is updated now, of the newest."""
        assert self.newest is not None
        if self.is_on_delete or replica.index == current_replica:
            return self.newest
        return self.contexts.get(self.find_running_hash(replica), self.newest)

    def build_role(self, replica: ReplicaView, current_replica: CurrentlyUpdating | None, restarts: int) -> UpdateRole:
        # While the desired templates are not stored, no update continues: it would have the wrong target.
        is_chosen = current_replica is not None and replica.index == current_replica.replica_index
        is_current = is_chosen and not self.is_on_delete and self.wanted is not None
        return UpdateRole(
            is_current=is_current,
            current_replica=current_replica if is_current else None,
            is_on_delete=self.is_on_delete,
            restarts=restarts,
            stored_hashes=self.stored_hashes,
        )

    def find_running_hash(self, replica: ReplicaView) -> str:
        """Return the revision of a replica by its gang or, without one, by its cliques; "": unknown."""
        gang = replica.gangs.get(names.replica_name(self.context.name, replica.index))
        reported = gang.metadata.labels.get(labels.GENERATION_HASH, "") if gang else ""
        return reported or self._find_by_cliques(replica)

    def _find_by_cliques(self, replica: ReplicaView) -> str:
        found = {clique_template_name(self.context, view): view.template_hash for view in replica.cliques.values()}
        if not found:
            return ""
        matching = (r for r in reversed(self.revisions) if found.items() <= r.template.hashes.items())
        first = next(matching, None)
        return first.generation_hash if first else ""


def clique_template_name(context: SetContext, view: CliqueView) -> str:
    """Return the name of the clique template of this clique, by its full name; "": none matches."""
    reported = view.clique.metadata.labels
    index, group_index = (reported.get(key, "") for key in (labels.SET_REPLICA_INDEX, labels.GROUP_REPLICA_INDEX))
    for clique in context.spec.template.cliques:
        if labels.GROUP in reported and is_number(group_index):
            name = names.member_clique(reported[labels.GROUP], int(group_index), clique.name)
        else:
            name = names.standalone_clique(context.name, parse_number(index), clique.name)
        if name == view.name:
            return clique.name
    return ""


def _context_at(
    context: SetContext,
    template: RevisionTemplate,
    newest: RevisionTemplate,
    stored: dict[str, dict[str, CliqueTemplate]],
) -> SetContext:
    """Return the context with the pod templates of a revision. Counts, delays and all else are the current ones."""
    spec = msgspec.structs.replace(context.spec, template=with_templates(context.spec.template, template))
    standalone, members = arrange_cliques(spec.template)
    return msgspec.structs.replace(
        context,
        spec=spec,
        standalone=standalone,
        members=members,
        template_hashes={**context.template_hashes, **newest.hashes, **template.hashes},
        generation_hash=template.generation_hash,
        newest_hashes={**context.template_hashes, **newest.hashes},
        newest_generation_hash=newest.generation_hash,
        stored_templates=stored,
    )


def plan_revisions(snapshot: Snapshot, targets: Targets, retries: Retries) -> tuple[Chain, ...]:
    """Store the desired revision, give it the highest number, and delete revisions that are not needed."""
    if targets.wanted is None:
        create = _create(snapshot, targets)
        damaged = next((one.metadata for one in snapshot.revisions if one.metadata.name == create.name), None)
        if damaged is not None:
            delete = delete_object(CONTROLLER_REVISIONS, damaged, "it cannot be read, and its name is needed")
            return chain("revision", WHOLE_SET, () if damaged.is_terminating else (delete,), rank=ChainPriority.FIRST)
        return chain(
            "revision", WHOLE_SET, (create,) if retries.is_due(create.failure_key) else (), rank=ChainPriority.FIRST
        )
    highest = max((one.number for one in targets.revisions if one is not targets.wanted), default=0)
    actions: list[Action] = []
    # A create that arrived late may have the number of the revision that replaced it.
    if highest >= targets.wanted.number:
        actions.append(_renumber(targets.wanted, highest + 1))
    if len(targets.revisions) > KEPT_REVISIONS + 1:
        actions += _prune(snapshot, targets)
    return chain("revision", WHOLE_SET, tuple(actions), rank=ChainPriority.FIRST)


def find_open_revision_rejections(snapshot: Snapshot, targets: Targets) -> tuple[CreateRejection, ...]:
    """Return the rejection of the revision that the set needs now. A user may have reverted the rejected template."""
    if not snapshot.failures or targets.wanted is not None:
        return ()
    key = _create(snapshot, targets).failure_key
    return tuple(failure for failure in snapshot.failures if failure.key == key)


def _create(snapshot: Snapshot, targets: Targets) -> Create:
    context = snapshot.context
    template = _build_revision_template(snapshot, targets)
    name = names.revision(context.name, template.generation_hash)
    cause = context.annotations.get(CHANGE_CAUSE)
    metadata: JsonObject = {
        "name": name,
        "namespace": context.namespace,
        "labels": {
            **labels.default_labels(context.name),
            labels.COMPONENT: labels.COMPONENT_REVISION,
            labels.GENERATION_HASH: template.generation_hash,
        },
        "annotations": {} if cause is None else {CHANGE_CAUSE: cause},
        "ownerReferences": [build_owner(context.subject)],
    }
    return Create(
        resource=CONTROLLER_REVISIONS,
        namespace=context.namespace,
        name=name,
        body={
            "apiVersion": CONTROLLER_REVISIONS.api_version,
            "kind": CONTROLLER_REVISIONS.kind,
            "metadata": metadata,
            "data": revision_data(template),
            "revision": targets.revisions[-1].number + 1 if targets.revisions else 1,
        },
        failure_key=f"controllerrevisions/{name}",
        reason="pod templates are stored before anything is created from them",
    )


def _build_revision_template(snapshot: Snapshot, targets: Targets) -> RevisionTemplate:
    template = snapshot.context.spec.template
    if targets.revisions:
        hashes = {c.name: _name_template(template, c.name, targets.revisions) for c in template.cliques}
        wanted = snapshot.context.generation_hash
        taken = {revision.generation_hash for revision in targets.revisions}
    else:
        hashes = _adopt_hashes(snapshot)
        wanted = _usable_hash(snapshot.pcs.status.current_generation_hash) or snapshot.context.generation_hash
        taken = set()
    while wanted in taken:
        wanted = derived_letters(wanted.encode(), len(wanted))
    return build_revision(template, hashes, wanted)


def _name_template(template: SetTemplate, clique_name: str, revisions: Sequence[Revision]) -> str:
    """Return the stored hash of an equal template, else a new hash that is not in use."""
    clique = next(c for c in template.cliques if c.name == clique_name)
    content = canonical_template(clique, template.priority_class_name)
    known: dict[str, bytes] = {}
    for revision in reversed(revisions):
        before = with_templates(template, revision.template)
        stored = next((c for c in before.cliques if c.name == clique_name), None)
        name = revision.template.hashes.get(clique_name)
        if stored is None or name is None:
            continue
        known[name] = canonical_template(stored, before.priority_class_name)
        if known[name] == content:
            return name
    wanted = template_hash(clique, template.priority_class_name)
    while wanted in known:
        wanted = derived_letters(wanted.encode(), len(wanted))
    return wanted


def _adopt_hashes(snapshot: Snapshot) -> dict[str, str]:
    """Return the hashes of a set without stored revisions: those that its cliques run, so that nothing restarts.

    Another implementation may have computed them.
    """
    context = snapshot.context
    found: dict[str, list[tuple[Any, str]]] = {}
    for replica in snapshot.replicas:
        for view in replica.cliques.values():
            created = view.clique.metadata.creation_timestamp
            reported = view.template_hash
            if created is not None:
                found.setdefault(clique_template_name(context, view), []).append((created, reported))
    adopted = dict(context.template_hashes)
    for name, own in context.template_hashes.items():
        seen = found.get(name, [])
        if seen and own not in {reported for _, reported in seen}:
            adopted[name] = max(seen)[1]
    return adopted


def _usable_hash(reported: str | None) -> str:
    """Return the hash if it is valid in names and labels, else an empty string."""
    is_plain = (
        reported is not None
        and reported.isascii()
        and reported.isalnum()
        and reported == reported.lower()
        and len(reported) <= 32
    )
    return reported if reported is not None and is_plain else ""


def _renumber(revision: Revision, number: int) -> Patch:
    metadata = revision.object.metadata
    return Patch(
        resource=CONTROLLER_REVISIONS,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        patch={"revision": number},
        reason="the set went back to it",
    )


def _prune(snapshot: Snapshot, targets: Targets) -> Iterable[Action]:
    """Delete revisions beyond the limit, but none that a replica runs."""
    running = {targets.find_running_hash(replica) for replica in snapshot.replicas}
    spare = [r for r in targets.revisions if r is not targets.wanted and r.generation_hash not in running]
    surplus = spare[: max(0, len(spare) - KEPT_REVISIONS)]
    for revision in surplus:
        if not revision.object.metadata.is_terminating:
            yield delete_object(CONTROLLER_REVISIONS, revision.object.metadata, "an old revision that nothing runs")
