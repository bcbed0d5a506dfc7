"""The stored revisions of a set: which one it asks for, which one each replica runs, and the upkeep of the store.

A revision is stored before anything is made from it. What a replica runs is a label of its base gang; until its turn
comes, everything of it is made from that revision, so the templates it needs are never given up.
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
    draw_revision,
    makes_same_pods,
    read_revision,
    revision_data,
    with_templates,
)
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import CliqueTemplate, CurrentlyUpdating, SetTemplate, UpdateType
from grove.planner.actions import WHOLE_SET, Action, Chain, ChainPriority, Create, Patch, chain, delete_object
from grove.planner.child_manifests import build_owner
from grove.planner.child_sync import Retries
from grove.planner.rollout.replica_update import UpdateRole
from grove.planner.snapshot import SetContext, Snapshot, arrange_cliques
from grove.planner.views import CliqueView, ReplicaView

# Revisions that nobody runs any more and that are kept to go back to.
KEPT_REVISIONS = 10
CHANGE_CAUSE = "kubernetes.io/change-cause"


class Targets:
    """What the replicas of a set are made from: the newest revision, and those that some of them still run."""

    def __init__(self, context: SetContext, stored: Sequence[ControllerRevision]) -> None:
        self.context = context
        found = (read_revision(one, context.name) for one in stored)
        self.revisions = tuple(sorted(filter(None, found), key=lambda revision: revision.number))
        template = context.spec.template
        self.wanted = next((r for r in reversed(self.revisions) if makes_same_pods(template, r.template)), None)
        # A template that could not be stored yet is not carried out: what was asked for before stays.
        newest = self.wanted or (self.revisions[-1] if self.revisions else None)
        self.contexts = {
            revision.generation_hash: _context_at(context, revision.template, newest.template, self._stored())
            for revision in self.revisions
            if newest is not None
        }
        self.newest = None if newest is None else self.contexts[newest.generation_hash]
        self.stored_hashes = {revision.generation_hash: revision.template.hashes for revision in self.revisions}

    def _stored(self) -> dict[str, dict[str, CliqueTemplate]]:
        found: dict[str, dict[str, CliqueTemplate]] = {}
        for revision in self.revisions:
            for clique in with_templates(self.context.spec.template, revision.template).cliques:
                found.setdefault(clique.name, {})[revision.template.hashes.get(clique.name, "")] = clique
        return found

    @property
    def is_on_delete(self) -> bool:
        strategy = self.context.spec.update_strategy
        return strategy is not None and strategy.type == UpdateType.ON_DELETE

    def of(self, replica: ReplicaView, turn: int | None) -> SetContext:
        """The set as this replica is to be made: from its own revision, or in its turn from the newest."""
        assert self.newest is not None
        if self.is_on_delete or replica.index == turn:
            return self.newest
        return self.contexts.get(self.running(replica), self.newest)

    def role_of(self, replica: ReplicaView, turn: CurrentlyUpdating | None, restarts: int) -> UpdateRole:
        # While what is asked for is not stored, nobody's turn goes on: it would lead to what nobody asks for.
        is_chosen = turn is not None and replica.index == turn.replica_index
        is_turn = is_chosen and not self.is_on_delete and self.wanted is not None
        return UpdateRole(
            is_turn=is_turn,
            turn=turn if is_turn else None,
            is_on_delete=self.is_on_delete,
            restarts=restarts,
            stored_hashes=self.stored_hashes,
        )

    def running(self, replica: ReplicaView) -> str:
        """The revision that a replica runs by its gang or, without one, by its cliques; "": none that is known."""
        gang = replica.gangs.get(names.replica_name(self.context.name, replica.index))
        told = gang.metadata.labels.get(labels.GENERATION_HASH, "") if gang else ""
        return told or self._by_cliques(replica)

    def _by_cliques(self, replica: ReplicaView) -> str:
        found = {clique_template_name(self.context, view): view.template_hash for view in replica.cliques.values()}
        if not found:
            return ""
        matching = (r for r in reversed(self.revisions) if found.items() <= r.template.hashes.items())
        first = next(matching, None)
        return first.generation_hash if first else ""


def clique_template_name(context: SetContext, view: CliqueView) -> str:
    """Which clique of the set this is: the one that gives it exactly this name; "": none."""
    told = view.clique.metadata.labels
    index, group_index = (told.get(key, "") for key in (labels.SET_REPLICA_INDEX, labels.GROUP_REPLICA_INDEX))
    for clique in context.spec.template.cliques:
        if labels.GROUP in told and group_index.isdecimal():
            name = names.member_clique(told[labels.GROUP], int(group_index), clique.name)
        else:
            name = names.standalone_clique(context.name, int(index) if index.isdecimal() else -1, clique.name)
        if name == view.name:
            return clique.name
    return ""


def _context_at(
    context: SetContext,
    template: RevisionTemplate,
    newest: RevisionTemplate,
    stored: dict[str, dict[str, CliqueTemplate]],
) -> SetContext:
    """The set as it would be with the pod templates of a revision; counts, delays and the rest are those of now."""
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
    """Store what is asked for now, give it the highest number, and drop what nobody needs."""
    if targets.wanted is None:
        create = _create(snapshot, targets)
        damaged = next((one.metadata for one in snapshot.revisions if one.metadata.name == create.name), None)
        if damaged is not None:
            delete = delete_object(CONTROLLER_REVISIONS, damaged, "it cannot be read, and its name is needed")
            return chain("revision", WHOLE_SET, () if damaged.is_terminating else (delete,), rank=ChainPriority.FIRST)
        return chain(
            "revision", WHOLE_SET, (create,) if retries.allow(create.failure_key) else (), rank=ChainPriority.FIRST
        )
    highest = max((one.number for one in targets.revisions if one is not targets.wanted), default=0)
    actions: list[Action] = []
    # A create that was given up and arrived late has the number of the one that was made instead.
    if highest >= targets.wanted.number:
        actions.append(_renumber(targets.wanted, highest + 1))
    if len(targets.revisions) > KEPT_REVISIONS + 1:
        actions += _prune(snapshot, targets)
    return chain("revision", WHOLE_SET, tuple(actions), rank=ChainPriority.FIRST)


def _create(snapshot: Snapshot, targets: Targets) -> Create:
    context = snapshot.context
    template = _draw(snapshot, targets)
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
        reason="pod templates are stored before anything is made from them",
    )


def _draw(snapshot: Snapshot, targets: Targets) -> RevisionTemplate:
    template = snapshot.context.spec.template
    if targets.revisions:
        hashes = {c.name: _name_template(template, c.name, targets.revisions) for c in template.cliques}
        wanted = snapshot.context.generation_hash
        taken = {revision.generation_hash for revision in targets.revisions}
    else:
        hashes = _adopt(snapshot)
        wanted = _adoptable(snapshot.pcs.status.current_generation_hash) or snapshot.context.generation_hash
        taken = set()
    while wanted in taken:
        wanted = derived_letters(wanted.encode(), len(wanted))
    return draw_revision(template, hashes, wanted)


def _name_template(template: SetTemplate, clique_name: str, revisions: Sequence[Revision]) -> str:
    """The stored hash of a template that was there before, else a new one that names nothing else."""
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


def _adopt(snapshot: Snapshot) -> dict[str, str]:
    """A set that ran before revisions were stored: what its cliques run now is what it asks for.

    Their hashes may come from another program; they become the names of these templates, and nothing is restarted.
    """
    context = snapshot.context
    found: dict[str, list[tuple[Any, str]]] = {}
    for replica in snapshot.replicas:
        for view in replica.cliques.values():
            created = view.clique.metadata.creation_timestamp
            told = view.template_hash
            if created is not None:
                found.setdefault(clique_template_name(context, view), []).append((created, told))
    adopted = dict(context.template_hashes)
    for name, own in context.template_hashes.items():
        seen = found.get(name, [])
        if seen and own not in {told for _, told in seen}:
            adopted[name] = max(seen)[1]
    return adopted


def _adoptable(told: str | None) -> str:
    """A word that may stand in names and labels, or nothing."""
    is_plain = told is not None and told.isascii() and told.isalnum() and told == told.lower() and len(told) <= 32
    return told if told is not None and is_plain else ""


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
    """Beyond the kept ones; never one that a replica still runs, nor one of which a gang has the label."""
    running = {targets.running(replica) for replica in snapshot.replicas}
    spare = [r for r in targets.revisions if r is not targets.wanted and r.generation_hash not in running]
    surplus = spare[: max(0, len(spare) - KEPT_REVISIONS)]
    for revision in surplus:
        if not revision.object.metadata.is_terminating:
            yield delete_object(CONTROLLER_REVISIONS, revision.object.metadata, "an old revision that nothing runs")
