"""Delete and recreate a unit: a set replica or one replica of a group, in a new incarnation.

This takes many deletes and creates, so the operator first records the intent on the PodGang of the unit, in one write:
the new incarnation and the scale to recreate. While the intent is open, objects of the unit with another incarnation
are deleted, and missing objects are created in the new one. The intent is closed when every clique was observed in its
new incarnation. `gang_termination.py` and others decide why a unit is recreated; `unit_removal.py` deletes units that
are not recreated.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from grove.api import labels
from grove.api.reasons import FindingReason
from grove.api.resources import GROUPS, PODCLIQUES, PODGANGS, PODS
from grove.api.types.meta import ObjectMeta
from grove.api.types.podgang import PodGang
from grove.api.values.numbers_in_text import parse_number
from grove.planner.actions import Action, EventRecord, Finding, LiveRead, Patch, Stage
from grove.planner.desired_state import DesiredClique, DesiredReplica
from grove.planner.snapshot import SetContext
from grove.planner.teardown.bulk_delete import delete_all
from grove.planner.views import CliqueView, ReplicaView


class RecreationUnit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A unit that is recreated as a whole. Without a group it is the set replica, else that replica of the group."""

    group: str = ""
    index: int = -1

    @property
    def key(self) -> str:
        return f"{self.group}/{self.index}" if self.group else ""

    def covers(self, clique: DesiredClique) -> bool:
        return not self.group or (self.group, self.index) == (clique.group, clique.group_replica_index)


REPLICA = RecreationUnit()


class Recreation(RecreationUnit, frozen=True, kw_only=True, omit_defaults=True):
    """One open intent."""

    incarnation: str
    # Replica counts that differ from the template: a clique that was scaled at run time keeps its scale.
    scale: dict[str, int] = {}
    reason: str = ""

    def count_of(self, clique: DesiredClique) -> int:
        """Return how many pods the recreated clique gets."""
        return self.scale.get(clique.name, clique.template.spec.replicas)

    def is_new(self, incarnation: str) -> bool:
        """Return whether an incarnation is that of this intent. Scaled gangs append the generation of their group."""
        return incarnation == self.incarnation or incarnation.startswith(f"{self.incarnation}-")


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The recreations of a PodGang's units, as stored in its annotation. The field names are on the wire."""

    # How often a unit of this gang was recreated. No incarnation is used twice.
    count: int = 0
    # The incarnations of group replicas that were recreated on their own.
    incarnations: dict[str, str] = msgspec.field(default_factory=dict, name="lives")
    open: tuple[Recreation, ...] = ()


def read_record(gang: PodGang | None) -> Record:
    text = gang.metadata.annotations.get(labels.RECREATION, "") if gang else ""
    if not text:
        return Record()
    try:
        return msgspec.json.decode(text, type=Record)
    except msgspec.DecodeError:
        # A user edited the annotation: its content is lost, and existing objects stay.
        return Record()


class Recreations:
    """The open intents of one set replica, and which of its cliques each covers."""

    def __init__(self, replica: ReplicaView, desired: DesiredReplica) -> None:
        self._base = replica.gangs.get(desired.base.name)
        self._records = {gang.name: read_record(replica.gangs.get(gang.name)) for gang in desired.gangs}
        self._base_record = self._records[desired.base.name]
        self.is_any_open = any(record.open for record in self._records.values())

    def of(self, clique: DesiredClique) -> Recreation | None:
        """Return the open intent that covers this clique; that of the whole replica first."""
        if not self.is_any_open:
            return None
        covering = (one for one in (*self._base_record.open, *self._records[clique.gang].open) if one.covers(clique))
        return min(covering, key=lambda one: bool(one.group), default=None)

    def is_old(self, clique: DesiredClique, view: CliqueView) -> bool:
        recreation = self.of(clique)
        return recreation is not None and not recreation.is_new(view.incarnation)

    def is_present(self, replica: ReplicaView, clique: DesiredClique) -> bool:
        """Return whether the clique exists in the incarnation that it should have."""
        view = replica.cliques.get(clique.name)
        return view is not None and not view.is_terminating and not self.is_old(clique, view)

    def recreated_incarnation(self, clique: DesiredClique) -> str:
        """Return the incarnation of a group replica of the base gang that was recreated on its own, or "".

        A scaled gang has its incarnation as a label: its whole set replica may have been recreated since.
        """
        if clique.base_gang:
            return ""
        key = RecreationUnit(group=clique.group, index=clique.group_replica_index).key
        return self._records[clique.gang].incarnations.get(key, "")

    @property
    def whole(self) -> Recreation | None:
        """Return the open intent of the whole set replica."""
        return next((one for one in self._base_record.open if not one.group), None)

    def open_in(self, gang_name: str) -> tuple[Recreation, ...]:
        return self._records[gang_name].open


def plan_intent(
    context: SetContext,
    gang: PodGang,
    units: Sequence[RecreationUnit],
    *,
    scale: dict[str, int],
    seen: Iterable[str],
    reason: str,
    event: EventRecord,
    count: int | None = None,
) -> Patch:
    """Record in one write that these units of a gang are recreated. Nothing was deleted yet.

    `seen` are the incarnations of all existing objects. The new one differs from them, even if a user deleted the gang
    that recorded the count. `count` sets the number of the new incarnation, for callers that count on their own:
    existing objects of that incarnation stay.
    """
    record = read_record(gang)
    if count is None:
        count = 1 + max((record.count, *map(count_of, seen)))
    incarnation = f"{_first_incarnation(gang, context)}.{count}"
    fresh = tuple(
        Recreation(group=unit.group, index=unit.index, incarnation=incarnation, scale=scale, reason=reason)
        for unit in units
    )
    keys = {unit.key for unit in units}
    is_whole = REPLICA.key in keys
    # The recreation of the whole replica replaces the open intents of its parts.
    kept = () if is_whole else tuple(one for one in record.open if one.key not in keys)
    incarnations = {} if is_whole else {**record.incarnations, **{unit.key: incarnation for unit in units}}
    updated = Record(count=count, incarnations=incarnations, open=(*kept, *fresh))
    return _record(context, gang, updated, f"recorded before anything is deleted: {reason}", event)


def _record(context: SetContext, gang: PodGang, record: Record, reason: str, event: EventRecord | None = None) -> Patch:
    return Patch(
        resource=PODGANGS,
        namespace=context.namespace,
        name=gang.metadata.name,
        uid=gang.metadata.uid,
        resource_version=gang.metadata.resource_version,
        patch={"metadata": {"annotations": {labels.RECREATION: msgspec.json.encode(record).decode()}}},
        reason=reason,
        on_success=event,
    )


def is_recorded_on(gang_name: str, desired: DesiredReplica, unit: RecreationUnit) -> bool:
    """Return whether the intent of a unit is stored on this gang: the gang of its cliques, or the base gang."""
    if not unit.group:
        return gang_name == desired.base.name
    return any((c.gang, c.group, c.group_replica_index) == (gang_name, unit.group, unit.index) for c in desired.cliques)


def read_scale_live(context: SetContext, replica: ReplicaView, unit: RecreationUnit) -> LiveRead:
    """Return the live read of a unit's replica counts. It happens before the intent is recorded."""
    groups = (group.metadata for group in replica.groups.values() if unit.group in ("", group.metadata.name))
    own = () if unit.group else (context.owner_key,)
    return LiveRead(
        resource=PODCLIQUES,
        namespace=context.namespace,
        selector=labels.selector(_wanted_labels(context, replica, unit)),
        owners=(*own, *(GROUPS.owner_key(one) for one in sorted(groups, key=lambda metadata: metadata.uid))),
    )


def live_scale(replica: ReplicaView, desired: DesiredReplica, units: Sequence[RecreationUnit]) -> dict[str, int]:
    """Return replica counts that were changed at run time; those of deleted cliques as their intent recorded them."""
    recreations = Recreations(replica, desired)
    found: dict[str, int] = {}
    for clique in desired.cliques:
        view, noted = replica.cliques.get(clique.name), recreations.of(clique)
        count = view.replicas if view is not None else noted.count_of(clique) if noted is not None else None
        is_covered = any(unit.covers(clique) for unit in units)
        if is_covered and count is not None and count != clique.template.spec.replicas:
            found[clique.name] = count
    return found


def _first_incarnation(gang: PodGang, context: SetContext) -> str:
    """Return the incarnation without its count of recreations."""
    return gang.metadata.labels.get(labels.INCARNATION, str(context.generation)).partition(".")[0]


def count_of(incarnation: str) -> int:
    """Return the recreation count of an incarnation.

    `1.2-5` is the second recreation of incarnation 1, scaled out at generation 5 of its group.
    """
    counts = (part.partition(".")[2] for part in incarnation.split("-"))
    return max(parse_number(count, 0) for count in counts)


def plan_recreation_deletes(
    context: SetContext, replica: ReplicaView, desired: DesiredReplica, recreations: Recreations
) -> tuple[Stage, Stage]:
    """Delete the rest of the old incarnations: pods first, then cliques; one request per unit."""
    if not recreations.is_any_open:
        return (), ()
    by_unit: dict[str, tuple[Recreation, list[CliqueView]]] = {}
    for clique in (*desired.cliques, *desired.parked):
        view = replica.cliques.get(clique.name)
        recreation = recreations.of(clique)
        if view is not None and recreation is not None and recreations.is_old(clique, view):
            by_unit.setdefault(recreation.key, (recreation, []))[1].append(view)
    pods: list[Action] = []
    cliques: list[Action] = []
    for recreation, views in by_unit.values():
        wanted, why = _wanted_labels(context, replica, recreation), recreation.reason
        for incarnations, members in _by_label(views):
            pods += delete_all(PODS, context.namespace, wanted, _pods_of(members), why, incarnations=incarnations)
            living = [view.clique.metadata for view in members if not view.is_terminating]
            cliques += delete_all(PODCLIQUES, context.namespace, wanted, living, why, incarnations=incarnations)
    return tuple(pods), tuple(cliques)


def plan_scale_amendments(
    context: SetContext, replica: ReplicaView, desired: DesiredReplica, recreations: Recreations
) -> Iterable[Patch]:
    """Add replica counts that changed after the intent was recorded, before those cliques are deleted."""
    return _amend(
        context,
        replica,
        desired,
        recreations,
        lambda open_: tuple(_with_counts(one, replica, desired, recreations) for one in open_),
        "replica counts that changed meanwhile are kept",
    )


def _with_counts(
    recreation: Recreation, replica: ReplicaView, desired: DesiredReplica, recreations: Recreations
) -> Recreation:
    changed = {
        clique.name: view.replicas
        for clique in desired.cliques
        if recreations.of(clique) == recreation
        and (view := replica.cliques.get(clique.name)) is not None
        and not view.is_terminating
        and recreations.is_old(clique, view)
        and view.replicas != recreation.count_of(clique)
    }
    return msgspec.structs.replace(recreation, scale={**recreation.scale, **changed}) if changed else recreation


def plan_close(
    context: SetContext, replica: ReplicaView, desired: DesiredReplica, recreations: Recreations
) -> Iterable[Patch]:
    """Drop each intent of which every clique was observed in its new incarnation."""
    return _amend(
        context,
        replica,
        desired,
        recreations,
        lambda open_: tuple(one for one in open_ if not _is_done(one, replica, desired, recreations)),
        "every clique exists in its new incarnation",
    )


def _amend(
    context: SetContext,
    replica: ReplicaView,
    desired: DesiredReplica,
    recreations: Recreations,
    change: Callable[[tuple[Recreation, ...]], tuple[Recreation, ...]],
    reason: str,
) -> Iterable[Patch]:
    """Yield a write for every gang whose open intents change."""
    if not recreations.is_any_open:
        return
    for gang in desired.gangs:
        current, before = replica.gangs.get(gang.name), recreations.open_in(gang.name)
        after = change(before)
        if current is not None and not current.metadata.is_terminating and after != before:
            yield _record(context, current, msgspec.structs.replace(read_record(current), open=after), reason)


def _is_done(recreation: Recreation, replica: ReplicaView, desired: DesiredReplica, recreations: Recreations) -> bool:
    """Return whether every clique exists in its new incarnation; of a group at zero, whether the old one is gone."""
    covered = [clique for clique in desired.cliques if recreations.of(clique) == recreation]
    parked = [clique for clique in desired.parked if recreations.of(clique) == recreation]
    if any(c.name in replica.cliques and not recreation.is_new(replica.cliques[c.name].incarnation) for c in parked):
        return False
    gang_names = {c.gang: None for c in covered if not recreation.group or c.base_gang}
    if not recreation.group:
        gang_names[desired.base.name] = None
    gangs = [replica.gangs.get(name) for name in gang_names]
    if any(gang is None or not recreation.is_new(gang.metadata.labels.get(labels.INCARNATION, "")) for gang in gangs):
        return False
    views = [replica.cliques.get(clique.name) for clique in covered]
    return all(view is not None and not view.is_terminating and recreation.is_new(view.incarnation) for view in views)


def _wanted_labels(context: SetContext, replica: ReplicaView, unit: RecreationUnit) -> dict[str, str]:
    wanted = {**labels.default_labels(context.name), labels.SET_REPLICA_INDEX: str(replica.index)}
    if unit.group:
        wanted |= {labels.GROUP: unit.group, labels.GROUP_REPLICA_INDEX: str(unit.index)}
    return wanted


def _by_label(views: Sequence[CliqueView]) -> Iterable[tuple[frozenset[str], list[CliqueView]]]:
    """Group by incarnation, so that a late request cannot delete the objects of the next one."""
    labelled = [view for view in views if view.incarnation]
    if labelled:
        yield frozenset(view.incarnation for view in labelled), labelled
    # Created by an older version.
    bare = [view for view in views if not view.incarnation]
    if bare:
        yield frozenset(), bare


def _pods_of(views: Sequence[CliqueView]) -> tuple[ObjectMeta, ...]:
    return tuple(p.metadata for view in views for p in (*view.active, *view.failed, *view.succeeded))


def recreation_findings(desired: DesiredReplica, recreations: Recreations) -> Iterable[Finding]:
    at_zero = {group.name for group in desired.groups if not group.replicas}
    for gang in desired.gangs:
        for one in recreations.open_in(gang.name):
            unit = f"{one.group} replica {one.index}" if one.group else "the whole set replica"
            if one.group in at_zero:
                yield Finding(
                    about=f"podgang/{gang.name}",
                    reason=FindingReason.BEING_REMOVED,
                    message=f"{unit} is deleted: the group was scaled to zero",
                )
                continue
            yield Finding(
                about=f"podgang/{gang.name}",
                reason=FindingReason.BEING_RECREATED,
                message=f"{unit} was deleted and is being recreated: {one.reason}",
            )
