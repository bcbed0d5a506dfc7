"""Cache of replica plans: a reconcile of a large set plans only the replicas that changed.

A fresh `PlanCache` gives the same plans.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.podcliqueset import CurrentlyUpdating
from grove.planner.object_budget import count_objects
from grove.planner.replica import ReplicaPlan, plan_replica
from grove.planner.replica_facts import ReplicaEnvironment
from grove.planner.rollout.replica_order import LISTED_NAMES, Candidate, RollFacts, read_current_replica
from grove.planner.rollout.revision_history import Targets
from grove.planner.snapshot import SetContext, Snapshot
from grove.planner.training.lifecycle import ReplicaRun
from grove.planner.training.restarts import restarts_of
from grove.planner.views import ReplicaView

_NOTHING = ReplicaPlan()


class PlanCache:
    """The plans of the replicas of one set, by position in the snapshot, and their totals."""

    def __init__(self) -> None:
        self._context: SetContext | None = None
        self._revisions: tuple[ControllerRevision, ...] = ()
        self._targets: Targets | None = None
        self._current_replica: CurrentlyUpdating | None = None
        self._restarts: dict[int, int] = {}
        self._hold: tuple[datetime | None, datetime | None] = (None, None)
        self._views: tuple[ReplicaView, ...] = ()
        self._plans: list[ReplicaPlan] = []
        # How many rejected gangs were ahead when a replica with rejected creates was planned.
        self._ahead: dict[int, int] = {}
        # Positions of replicas that have something to do, to report or to wait for. The others only count.
        self._active: dict[int, None] = {}
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
        """Return the revisions that replicas are built from; cached until the spec or a stored revision changes."""
        is_same = self._targets is not None and self._targets.context is snapshot.context
        if self._targets is None or not is_same or self._revisions is not snapshot.revisions:
            self._targets = Targets(snapshot.context, snapshot.revisions)
            self._revisions = snapshot.revisions
            self._context = None
        return self._targets

    def roll_facts(self, snapshot: Snapshot) -> RollFacts:
        progress = snapshot.pcs.status.rolling_update_progress
        is_open = bool(self._outdated) or (progress is not None and progress.update_ended_at is None)
        current_replica = next(iter(self._positions_in(self._current_replica)), None)
        is_current_done = current_replica is not None and self._plans[current_replica].update.is_current_done
        # Candidates are needed only when a next replica can be chosen.
        needs_candidates = (current_replica is None or is_current_done) and not snapshot.context.is_training
        return RollFacts(
            outdated=tuple(self._candidates(snapshot.pcs.spec.replicas)) if needs_candidates else (),
            is_current_done=is_current_done,
            is_current_available=current_replica is not None and self._plans[current_replica].summary.is_available,
            wait=None if current_replica is None else self._plans[current_replica].update.wait,
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
                yield Candidate(
                    index=index, update_priority=plan.update.update_priority, is_available=plan.summary.is_available
                )

    def runs(self) -> tuple[ReplicaRun, ...]:
        """Return the progress of each replica of a training set."""
        return tuple(plan.run for plan in self._plans if plan.run is not None)

    def _positions_in(self, current_replica: CurrentlyUpdating | None) -> list[int]:
        return [] if current_replica is None else self._positions_of(current_replica.replica_index)

    def _positions_of(self, index: int) -> list[int]:
        """Return the position of the replica with this index. Views are sorted and contain all desired replicas."""
        return [index] if index < len(self._views) and self._views[index].index == index else []

    def update(self, snapshot: Snapshot, now: datetime) -> None:
        """Plan the replicas that changed, that are due, or whose position among rejected gangs changed."""
        targets = self.targets(snapshot)
        changed = self._find_changed(snapshot)
        self._count_objects(snapshot.context, changed)
        is_over_budget = self.object_count > snapshot.context.cluster.objects_per_set
        if is_over_budget != self._is_over_budget:
            self._is_over_budget = is_over_budget
            changed = dict.fromkeys(range(len(self._views)))
        current_replica = read_current_replica(snapshot.pcs)
        if current_replica != self._current_replica:
            changed.update(
                dict.fromkeys((*self._positions_in(current_replica), *self._positions_in(self._current_replica)))
            )
            self._current_replica = current_replica
        restarts = restarts_of(snapshot.pcs.status)
        if restarts != self._restarts:
            moved = (i for i, count in restarts.items() if self._restarts.get(i) != count)
            changed.update(dict.fromkeys(p for index in moved for p in self._positions_of(index)))
            self._restarts = restarts
        # Not valid until every replica is planned: an exception must not leave old plans beside new views.
        self._context = None
        due = [i for i in self._active if (requeue_at := self._plans[i].requeue_at) is not None and requeue_at <= now]
        ahead = snapshot.rejected_ahead_count
        for position in sorted({*changed, *due, *self._ahead}):
            view = self._views[position]
            mine = ahead if view.failures else 0
            if position in changed or position in due or self._ahead.get(position) != mine:
                plan = plan_replica(
                    targets.of(view, None if current_replica is None else current_replica.replica_index),
                    view,
                    now,
                    role=targets.build_role(view, current_replica, restarts.get(view.index, 0)),
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

    def active_plans(self) -> list[ReplicaPlan]:
        """Return the plans that have something to do, to report or to wait for, in order."""
        return [self._plans[position] for position in sorted(self._active)]

    def _find_changed(self, snapshot: Snapshot) -> dict[int, None]:
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
        self._active.clear()
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
            self._active.pop(position, None)
        else:
            self._active[position] = None
        if ahead is None:
            self._ahead.pop(position, None)
        else:
            self._ahead[position] = ahead
