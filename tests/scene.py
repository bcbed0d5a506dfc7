"""Where a story is told: a simulated world, or a namespace of a cluster that is reached over HTTP.

Stories that need no more than this run on both (`simulation/`, `e2e/`); what only one of them can do is not here.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from grove.api.resources import Resource
from grove.api.types.meta import HasMetadata, JsonObject
from grove.api.types.pod import Pod
from grove.kube.client import Client
from grove.sim.simulation import SimulatedApply

T = TypeVar("T", bound=HasMetadata)


class Seen(Protocol):
    """Objects as they were at one moment."""

    def objects(self, resource: Resource[T], *, label_selector: str = "") -> tuple[T, ...]: ...


class Scene(Seen, Protocol):
    """What people do and what they see. `grove.sim.simulation.World` is one."""

    @property
    def client(self) -> Client: ...

    async def apply(self, manifest: JsonObject | Path) -> tuple[SimulatedApply, ...]: ...

    async def scale(self, resource: Resource[Any], name: str, replicas: int) -> None: ...

    async def delete(self, resource: Resource[Any], name: str) -> None: ...

    async def add_nodes(self, number: int) -> object: ...

    def pods(self) -> tuple[Pod, ...]: ...

    def running_pods(self) -> tuple[Pod, ...]:
        """Pods that run and stay."""
        ...

    async def settle(self) -> None:
        """Let time pass until everything is as it was asked for."""
        ...

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Let time pass until something holds; fails when it never does."""
        ...
