"""Plans of replicas that did not change since: a pass over a large set costs what changed.

It saves time and changes no answer: a fresh `Memo` gives the same plans.
"""

from datetime import datetime

from grove.planner.replica import ReplicaPlan, plan_replica
from grove.planner.snapshot import SetContext, Snapshot
from grove.planner.views import ReplicaView

_NOTHING = ReplicaPlan()


class Memo:
    """The replicas of one set, by their position in the snapshot, and what their plans add up to."""

    def __init__(self) -> None:
        self._context: SetContext | None = None
        self._hold_until: datetime | None = None
        self._views: tuple[ReplicaView, ...] = ()
        self._plans: list[ReplicaPlan] = []
        # How many refused gangs were ahead when a refused replica was planned.
        self._ahead: dict[int, int] = {}
        # Positions of replicas that have something to do, to say or to wait for. The others only count.
        self._busy: dict[int, None] = {}
        self.available_count = 0
        self.updated_count = 0
        self.planned_count = 0

    def update(self, snapshot: Snapshot, now: datetime) -> None:
        """Plan what changed, what is due, and who was refused when the queue before it moved."""
        changed = self._changed(snapshot)
        # Until every replica is planned: one that fails must not leave old plans beside the new views.
        self._context = None
        due = [i for i in self._busy if (wake_at := self._plans[i].wake_at) is not None and wake_at <= now]
        ahead = snapshot.refused_ahead_count
        for position in sorted({*changed, *due, *self._ahead}):
            view = self._views[position]
            mine = ahead if view.failures else 0
            if position in changed or position in due or self._ahead.get(position) != mine:
                plan = plan_replica(snapshot.context, view, now, gangs_ahead_count=mine, hold_until=snapshot.hold_until)
                self._put(position, plan, mine if view.failures else None)
            ahead += self._plans[position].refused_gang_count
        self._context = snapshot.context
        self._hold_until = snapshot.hold_until

    def busy(self) -> list[ReplicaPlan]:
        """The plans that matter beyond their counts, in order."""
        return [self._plans[position] for position in sorted(self._busy)]

    def _changed(self, snapshot: Snapshot) -> dict[int, None]:
        before, self._views = self._views, snapshot.replicas
        is_other = self._context is not snapshot.context or self._hold_until != snapshot.hold_until
        if is_other or len(before) != len(self._views):
            self._start_over()
            return dict.fromkeys(range(len(self._views)))
        return {i: None for i, (old, new) in enumerate(zip(before, self._views, strict=True)) if old is not new}

    def _start_over(self) -> None:
        self._plans = [_NOTHING] * len(self._views)
        self._ahead.clear()
        self._busy.clear()
        self.available_count = self.updated_count = 0

    def _put(self, position: int, plan: ReplicaPlan, ahead: int | None) -> None:
        old = self._plans[position]
        self._plans[position] = plan
        self.planned_count += 1
        self.available_count += plan.is_available - old.is_available
        self.updated_count += (plan.is_available and plan.is_updated) - (old.is_available and old.is_updated)
        if plan.is_at_rest:
            self._busy.pop(position, None)
        else:
            self._busy[position] = None
        if ahead is None:
            self._ahead.pop(position, None)
        else:
            self._ahead[position] = ahead
