"""Units torn down to come back: a set replica, or one replica of a group, in a new incarnation.

Many deletes and creates, so the intent is recorded first, on the PodGang of the unit, in one write: the new incarnation
and the scale to come back with. As long as it is open, whatever of the unit carries another incarnation goes, and
whatever is missing is made in the new one. It is closed when every clique was seen in its new life. Why a unit is
recreated is decided elsewhere (`termination.py`); units that go for good are in `removal.py`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from grove.api import labels
from grove.api.meta import Uid
from grove.api.podgang import PodGang
from grove.api.reasons import FindingReason
from grove.api.resources import PODCLIQUES, PODGANGS, PODS, Resource
from grove.planner.actions import Action, DeleteMany, Emit, Finding, Patch, Stage
from grove.planner.blueprint import CliqueBlueprint, ReplicaBlueprint
from grove.planner.snapshot import SetContext
from grove.planner.views import CliqueView, ReplicaView


class Unit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What goes and comes back as a whole. Without a group it is the set replica, else that replica of the group."""

    group: str = ""
    index: int = -1

    @property
    def key(self) -> str:
        return f"{self.group}/{self.index}" if self.group else ""


REPLICA = Unit()


class Recreation(Unit, frozen=True, kw_only=True, omit_defaults=True):
    """One open intent."""

    incarnation: str
    # Counts that differ from the template's: a clique scaled at run time comes back with its scale.
    scale: dict[str, int] = {}
    reason: str = ""

    def covers(self, clique: CliqueBlueprint) -> bool:
        return not self.group or (self.group, self.index) == (clique.group, clique.group_replica_index)

    def is_new(self, incarnation: str) -> bool:
        """Scaled gangs of a set replica add the generation of their group."""
        return incarnation == self.incarnation or incarnation.startswith(f"{self.incarnation}-")


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a PodGang remembers of the recreations of its units."""

    # How often something of this gang was recreated: no incarnation is ever used twice.
    count: int = 0
    # The incarnations of group replicas that were recreated on their own.
    lives: dict[str, str] = {}
    open: tuple[Recreation, ...] = ()


def read_record(gang: PodGang | None) -> Record:
    text = gang.metadata.annotations.get(labels.RECREATION, "") if gang else ""
    if not text:
        return Record()
    try:
        return msgspec.json.decode(text, type=Record)
    except msgspec.DecodeError:
        # Somebody edited it: what it said is lost, what exists stays.
        return Record()


class Recreations:
    """The open intents of one set replica, and which of its cliques each covers."""

    def __init__(self, replica: ReplicaView, blueprint: ReplicaBlueprint) -> None:
        self._base = replica.gangs.get(blueprint.base.name)
        self._records = {gang.name: read_record(replica.gangs.get(gang.name)) for gang in blueprint.gangs}
        self._base_record = self._records[blueprint.base.name]
        self.is_any_open = any(record.open for record in self._records.values())

    def of(self, clique: CliqueBlueprint) -> Recreation | None:
        """The intent that this clique is subject to; that of the whole replica first."""
        if not self.is_any_open:
            return None
        covering = (one for one in (*self._base_record.open, *self._records[clique.gang].open) if one.covers(clique))
        return min(covering, key=lambda one: bool(one.group), default=None)

    def is_old(self, clique: CliqueBlueprint, view: CliqueView) -> bool:
        recreation = self.of(clique)
        return recreation is not None and not recreation.is_new(view.incarnation)

    def is_present(self, replica: ReplicaView, clique: CliqueBlueprint) -> bool:
        """It exists, in the incarnation that it should have."""
        view = replica.cliques.get(clique.name)
        return view is not None and not view.is_leaving and not self.is_old(clique, view)

    def life_of(self, clique: CliqueBlueprint) -> str:
        """The incarnation of a group replica that was recreated on its own before, or ""."""
        key = Unit(group=clique.group, index=clique.group_replica_index).key
        return self._records[clique.gang].lives.get(key, "")

    def open_in(self, gang_name: str) -> tuple[Recreation, ...]:
        return self._records[gang_name].open


def plan_intent(
    context: SetContext,
    gang: PodGang,
    units: Sequence[Unit],
    *,
    scale: dict[str, int],
    seen: Iterable[str],
    reason: str,
    announcement: Emit,
    count: int | None = None,
) -> Patch:
    """Record in one write that these units of a gang are recreated. Nothing was deleted yet.

    `seen` are the incarnations of all that exists: the new one is none of them, also when somebody deleted the gang
    that remembered how many there were. Whoever counts lives elsewhere says which this is: what exists of it stays.
    """
    record = read_record(gang)
    if count is None:
        count = 1 + max((record.count, *map(count_of, seen)))
    life = f"{_birth_of(gang, context)}.{count}"
    fresh = tuple(
        Recreation(group=unit.group, index=unit.index, incarnation=life, scale=scale, reason=reason) for unit in units
    )
    keys = {unit.key for unit in units}
    is_whole = REPLICA.key in keys
    # When all goes, what was open for a part is done with it.
    kept = () if is_whole else tuple(one for one in record.open if one.key not in keys)
    lives = {} if is_whole else {**record.lives, **{unit.key: life for unit in units}}
    updated = Record(count=count, lives=lives, open=(*kept, *fresh))
    metadata = {"annotations": {labels.RECREATION: msgspec.json.encode(updated).decode()}}
    return Patch(
        resource=PODGANGS,
        namespace=context.namespace,
        name=gang.metadata.name,
        uid=gang.metadata.uid,
        resource_version=gang.metadata.resource_version,
        patch={"metadata": metadata},
        reason=f"recorded before anything is deleted: {reason}",
        on_success=announcement,
    )


def is_recorded_on(gang_name: str, blueprint: ReplicaBlueprint, unit: Unit) -> bool:
    """A unit is recorded on the gang that holds its cliques; the set replica on the base gang."""
    if not unit.group:
        return gang_name == blueprint.base.name
    return any(
        (c.gang, c.group, c.group_replica_index) == (gang_name, unit.group, unit.index) for c in blueprint.cliques
    )


def live_scale(replica: ReplicaView, blueprint: ReplicaBlueprint, units: Sequence[Unit]) -> dict[str, int]:
    """Counts that somebody changed at run time."""
    found: dict[str, int] = {}
    for clique in blueprint.cliques:
        view = replica.cliques.get(clique.name)
        is_covered = any(not u.group or (u.group, u.index) == (clique.group, clique.group_replica_index) for u in units)
        if is_covered and view is not None and view.replicas != clique.template.spec.replicas:
            found[clique.name] = view.replicas
    return found


def _birth_of(gang: PodGang, context: SetContext) -> str:
    """The incarnation without its count of recreations."""
    return gang.metadata.labels.get(labels.INCARNATION, str(context.generation)).partition(".")[0]


def count_of(incarnation: str) -> int:
    """`1.2-5` is the second recreation of what came to life as 1, and scaled out at generation 5 of its group."""
    counts = (part.partition(".")[2] for part in incarnation.split("-"))
    return max((int(count) for count in counts if count.isdecimal()), default=0)


def plan_recreation_deletes(
    context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint, recreations: Recreations
) -> tuple[Stage, Stage]:
    """What is left of the old incarnations: pods first, then cliques; one request for all of a unit."""
    if not recreations.is_any_open:
        return (), ()
    by_unit: dict[str, tuple[Recreation, list[CliqueView]]] = {}
    for clique in blueprint.cliques:
        view = replica.cliques.get(clique.name)
        recreation = recreations.of(clique)
        if view is not None and recreation is not None and recreations.is_old(clique, view):
            by_unit.setdefault(recreation.key, (recreation, []))[1].append(view)
    pods: list[Action] = []
    cliques: list[Action] = []
    for recreation, views in by_unit.values():
        selector = _selector(context, replica, recreation)
        for incarnation_selector, members in _by_label(views):
            chosen = f"{selector},{incarnation_selector}"
            pods += _delete_many(PODS, context, chosen, _pod_uids(members), recreation.reason)
            living = tuple(view.uid for view in members if not view.is_leaving)
            cliques += _delete_many(PODCLIQUES, context, chosen, living, recreation.reason)
    return tuple(pods), tuple(cliques)


def plan_close(
    context: SetContext, replica: ReplicaView, blueprint: ReplicaBlueprint, recreations: Recreations
) -> Iterable[Patch]:
    """Drop each intent of which every clique was seen in its new life."""
    if not recreations.is_any_open:
        return
    for gang in blueprint.gangs:
        current = replica.gangs.get(gang.name)
        done = [one for one in recreations.open_in(gang.name) if _is_done(one, replica, blueprint, recreations)]
        if current is None or current.metadata.is_leaving or not done:
            continue
        record = read_record(current)
        kept = tuple(one for one in record.open if one not in done)
        closed = msgspec.json.encode(msgspec.structs.replace(record, open=kept)).decode()
        yield Patch(
            resource=PODGANGS,
            namespace=context.namespace,
            name=gang.name,
            uid=current.metadata.uid,
            resource_version=current.metadata.resource_version,
            patch={"metadata": {"annotations": {labels.RECREATION: closed}}},
            reason="every clique was seen in its new life",
        )


def _is_done(
    recreation: Recreation, replica: ReplicaView, blueprint: ReplicaBlueprint, recreations: Recreations
) -> bool:
    covered = [clique for clique in blueprint.cliques if recreations.of(clique) == recreation]
    gangs = [replica.gangs.get(name) for name in {c.gang: None for c in covered if not recreation.group or c.base_gang}]
    if any(gang is None or not recreation.is_new(gang.metadata.labels.get(labels.INCARNATION, "")) for gang in gangs):
        return False
    views = [replica.cliques.get(clique.name) for clique in covered]
    return all(view is not None and not view.is_leaving and recreation.is_new(view.incarnation) for view in views)


def _delete_many(
    resource: Resource[Any], context: SetContext, selector: str, uids: tuple[Uid, ...], reason: str
) -> Iterable[DeleteMany]:
    if uids:
        yield DeleteMany(resource=resource, namespace=context.namespace, selector=selector, uids=uids, reason=reason)


def _selector(context: SetContext, replica: ReplicaView, unit: Unit) -> str:
    wanted = {**labels.default_labels(context.name), labels.SET_REPLICA_INDEX: str(replica.index)}
    if unit.group:
        wanted |= {labels.GROUP: unit.group, labels.GROUP_REPLICA_INDEX: str(unit.index)}
    return labels.selector(wanted)


def _by_label(views: Sequence[CliqueView]) -> Iterable[tuple[str, list[CliqueView]]]:
    """By incarnation, so that a request that comes late can never hit the next one."""
    labelled = [view for view in views if view.incarnation]
    if labelled:
        seen = sorted({view.incarnation for view in labelled})
        yield f"{labels.INCARNATION} in ({','.join(seen)})", labelled
    # Made by an older version.
    bare = [view for view in views if not view.incarnation]
    if bare:
        yield f"!{labels.INCARNATION}", bare


def _pod_uids(views: Sequence[CliqueView]) -> tuple[Uid, ...]:
    return tuple(p.metadata.uid for view in views for p in (*view.active, *view.failed, *view.succeeded))


def recreation_findings(blueprint: ReplicaBlueprint, recreations: Recreations) -> Iterable[Finding]:
    for gang in blueprint.gangs:
        for one in recreations.open_in(gang.name):
            unit = f"{one.group} replica {one.index}" if one.group else "the whole set replica"
            yield Finding(
                about=f"podgang/{gang.name}",
                reason=FindingReason.COMING_BACK,
                message=f"{unit} was torn down and is being made anew: {one.reason}",
            )
