"""Plans of replicas that did not change since: a pass over a large set costs what changed.

It saves time and changes no answer: a fresh `Memo` gives the same plans.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.podcliqueset import CurrentlyUpdating
from grove.planner.object_budget import count_objects
from grove.planner.replica import ReplicaPlan, plan_replica
from grove.planner.replica_facts import ReplicaEnvironment
from grove.planner.rollout.replica_order import LISTED_NAMES, Candidate, RollFacts, stored_turn
from grove.planner.rollout.revision_history import Targets
from grove.planner.snapshot import SetContext, Snapshot
from grove.planner.training.lifecycle import ReplicaRun, restarts_of
from grove.planner.views import ReplicaView

_NOTHING = ReplicaPlan()


class Memo:
    """The replicas of one set, by their position in the snapshot, and what their plans add up to."""

    def __init__(self) -> None:
        self._context: SetContext | None = None
        self._revisions: tuple[ControllerRevision, ...] = ()
        self._targets: Targets | None = None
        self._turn: CurrentlyUpdating | None = None
        self._restarts: dict[int, int] = {}
        self._hold: tuple[datetime | None, datetime | None] = (None, None)
        self._views: tuple[ReplicaView, ...] = ()
        self._plans: list[ReplicaPlan] = []
        # How many refused gangs were ahead when a refused replica was planned.
        self._ahead: dict[int, int] = {}
        # Positions of replicas that have something to do, to say or to wait for. The others only count.
        self._busy: dict[int, None] = {}
        # Positions of replicas that do not run the newest templates.
        self._outdated: dict[int, None] = {}
        self.available_count = 0
        self.running_count = 0
        self.updated_count = 0
        self._updated_cliques = self._updated_groups = self._cliques = self._groups = 0
        self.planned_count = 0
        # Of each replica, as it is scaled now, and of all.
        self._objects: list[int] = []
        self.object_count = 0
        self._is_over_budget = False

    def targets(self, snapshot: Snapshot) -> Targets:
        """What the replicas are made from; drawn anew when the set's spec or its stored revisions changed."""
        is_same = self._targets is not None and self._targets.context is snapshot.context
        if self._targets is None or not is_same or self._revisions is not snapshot.revisions:
            self._targets = Targets(snapshot.context, snapshot.revisions)
            self._revisions = snapshot.revisions
            self._context = None
        return self._targets

    def roll_facts(self, snapshot: Snapshot) -> RollFacts:
        progress = snapshot.pcs.status.rolling_update_progress
        is_open = bool(self._outdated) or (progress is not None and progress.update_ended_at is None)
        turn = next(iter(self._positions_in(self._turn)), None)
        is_turn_done = turn is not None and self._plans[turn].update.is_turn_done
        # Who could be next is asked when somebody can be.
        is_asked = (turn is None or is_turn_done) and not snapshot.context.is_training
        return RollFacts(
            outdated=tuple(self._candidates(snapshot.pcs.spec.replicas)) if is_asked else (),
            is_turn_done=is_turn_done,
            wait=None if turn is None else self._plans[turn].update.wait,
            updated_cliques=tuple(islice((n for p in self._plans for n in p.update.updated_cliques), LISTED_NAMES))
            if is_open
            else (),
            updated_groups=tuple(islice((n for p in self._plans for n in p.update.updated_groups), LISTED_NAMES))
            if is_open
            else (),
            updated_clique_count=self._updated_cliques,
            clique_count=self._cliques,
            updated_group_count=self._updated_groups,
            group_count=self._groups,
        )

    def _candidates(self, replicas: int) -> Iterator[Candidate]:
        for position in self._outdated:
            index = self._views[position].index
            if index < replicas:
                plan = self._plans[position]
                yield Candidate(index=index, standing=plan.update.standing, is_available=plan.summary.is_available)

    def runs(self) -> tuple[ReplicaRun, ...]:
        """Of a training set: how far each replica is."""
        return tuple(plan.run for plan in self._plans if plan.run is not None)

    def _positions_in(self, turn: CurrentlyUpdating | None) -> list[int]:
        return [] if turn is None else self._positions_of(turn.replica_index)

    def _positions_of(self, index: int) -> list[int]:
        """Where the replica of this index is; views are ordered, and all wanted ones are there."""
        return [index] if index < len(self._views) and self._views[index].index == index else []

    def update(self, snapshot: Snapshot, now: datetime) -> None:
        """Plan what changed, what is due, and who was refused when the queue before it moved."""
        targets = self.targets(snapshot)
        changed = self._changed(snapshot)
        self._count_objects(snapshot.context, changed)
        is_over_budget = self.object_count > snapshot.context.surroundings.objects_per_set
        if is_over_budget != self._is_over_budget:
            self._is_over_budget = is_over_budget
            changed = dict.fromkeys(range(len(self._views)))
        turn = stored_turn(snapshot.pcs)
        if turn != self._turn:
            changed.update(dict.fromkeys((*self._positions_in(turn), *self._positions_in(self._turn))))
            self._turn = turn
        restarts = restarts_of(snapshot.pcs.status)
        if restarts != self._restarts:
            moved = (i for i, count in restarts.items() if self._restarts.get(i) != count)
            changed.update(dict.fromkeys(p for index in moved for p in self._positions_of(index)))
            self._restarts = restarts
        # Until every replica is planned: one that fails must not leave old plans beside the new views.
        self._context = None
        due = [i for i in self._busy if (requeue_at := self._plans[i].requeue_at) is not None and requeue_at <= now]
        ahead = snapshot.refused_ahead_count
        for position in sorted({*changed, *due, *self._ahead}):
            view = self._views[position]
            mine = ahead if view.failures else 0
            if position in changed or position in due or self._ahead.get(position) != mine:
                plan = plan_replica(
                    targets.of(view, None if turn is None else turn.replica_index),
                    view,
                    now,
                    role=targets.role_of(view, turn, restarts.get(view.index, 0)),
                    environment=ReplicaEnvironment(
                        gangs_ahead_count=mine,
                        hold_until=snapshot.hold_until,
                        outage_until=snapshot.outage_until,
                        node_labels=snapshot.node_labels,
                        is_over_budget=is_over_budget,
                    ),
                )
                self._put(position, plan, mine if view.failures else None)
            ahead += self._plans[position].summary.rejected_gang_count
        self._context = snapshot.context
        self._hold = (snapshot.hold_until, snapshot.outage_until)

    def busy(self) -> list[ReplicaPlan]:
        """The plans that matter beyond their counts, in order."""
        return [self._plans[position] for position in sorted(self._busy)]

    def _changed(self, snapshot: Snapshot) -> dict[int, None]:
        before, self._views = self._views, snapshot.replicas
        is_other = self._context is not snapshot.context or self._hold != (snapshot.hold_until, snapshot.outage_until)
        if is_other or len(before) != len(self._views):
            self._start_over()
            return dict.fromkeys(range(len(self._views)))
        return {i: None for i, (old, new) in enumerate(zip(before, self._views, strict=True)) if old is not new}

    def _count_objects(self, context: SetContext, changed: Iterable[int]) -> None:
        for position in changed:
            before, self._objects[position] = self._objects[position], count_objects(context, self._views[position])
            self.object_count += self._objects[position] - before

    def _start_over(self) -> None:
        self._plans = [_NOTHING] * len(self._views)
        self._objects = [0] * len(self._views)
        self.object_count = 0
        self._ahead.clear()
        self._busy.clear()
        self._outdated.clear()
        self.available_count = self.running_count = self.updated_count = 0
        self._updated_cliques = self._updated_groups = self._cliques = self._groups = 0

    def _add(self, plan: ReplicaPlan, sign: int) -> None:
        """Add the counts of a plan to the totals, or subtract them."""
        summary, update = plan.summary, plan.update
        self.available_count += sign * summary.is_available
        self.running_count += sign * summary.is_running
        self.updated_count += sign * (summary.is_available and update.is_updated)
        self._updated_cliques += sign * len(update.updated_cliques)
        self._updated_groups += sign * len(update.updated_groups)
        self._cliques += sign * update.clique_count
        self._groups += sign * update.group_count

    def _put(self, position: int, plan: ReplicaPlan, ahead: int | None) -> None:
        old = self._plans[position]
        self._plans[position] = plan
        self.planned_count += 1
        self._add(old, -1)
        self._add(plan, 1)
        if plan.update.is_outdated:
            self._outdated[position] = None
        else:
            self._outdated.pop(position, None)
        if plan.is_at_rest:
            self._busy.pop(position, None)
        else:
            self._busy[position] = None
        if ahead is None:
            self._ahead.pop(position, None)
        else:
            self._ahead[position] = ahead
