"""Loads of a scenario: the CPU that cliques, groups and sets use, at every moment.

A load is an annotation of the set; the simulated kubelet divides it among the ready pods
(`cluster/kubelet/simulated/simulated_usage.py`).
"""

import msgspec

from grove.api import labels
from grove.api.resources import PODCLIQUESETS
from grove.api.values.quantities import format_decimal, parse_milli
from grove.sim.scenario.scenario_file import LoadChange
from grove.sim.simulation import World

# A load that changes over time changes in steps: one per minute, and at most this many.
_STEP_SECONDS = 60.0
_MOST_STEPS = 60


class UnitLoad(msgspec.Struct, frozen=True):
    """The unit that has a load: a clique, group or set by its name, and the set that it belongs to."""

    namespace: str
    pcs: str
    name: str

    @property
    def annotation(self) -> str:
        return f"{labels.SIM_LOAD_PREFIX}{self.name}"


class _Point(msgspec.Struct, frozen=True, order=True):
    at: float
    milli: int


class SimulatedLoads:
    """The loads of one run: the changes to come."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._planned: dict[UnitLoad, list[_Point]] = {}

    @property
    def ends_at(self) -> float:
        """Return when the last planned change happens; 0 if none is planned."""
        return max((points[-1].at for points in self._planned.values() if points), default=0.0)

    def plan(self, unit: UnitLoad, change: LoadChange, now: float) -> None:
        """Plan a change of load from now on. It replaces what was planned for the unit."""
        start, end = self._read(unit), change.milli
        steps = max(1, min(int(change.seconds // _STEP_SECONDS), _MOST_STEPS))
        self._planned[unit] = [
            _Point(now + change.seconds * index / steps, start + (end - start) * index // steps)
            for index in range(1, steps + 1)
        ]

    def next_change(self, until: float) -> float | None:
        """Return the time of the next planned change, if it is not later than `until`."""
        moment = min((points[0].at for points in self._planned.values() if points), default=None)
        return moment if moment is not None and moment <= until else None

    async def apply_changes(self, now: float) -> None:
        """Set every load whose time has come."""
        for unit, points in self._planned.items():
            due = [point for point in points if point.at <= now]
            del points[: len(due)]
            if due:
                await self._set(unit, due[-1].milli)

    def _read(self, unit: UnitLoad) -> int:
        """Return the load that the set has now. The user may have written it into the manifest."""
        for pcs in self._world.objects(PODCLIQUESETS, namespace=unit.namespace):
            if pcs.metadata.name == unit.pcs and unit.annotation in pcs.metadata.annotations:
                return parse_milli(pcs.metadata.annotations[unit.annotation])
        return 0

    async def _set(self, unit: UnitLoad, milli: int) -> None:
        patch = {"metadata": {"annotations": {unit.annotation: format_decimal(milli)}}}
        await self._world.client.patch(PODCLIQUESETS, unit.namespace, unit.pcs, patch)
