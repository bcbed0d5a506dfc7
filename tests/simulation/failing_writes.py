"""Worlds in which some writes of the operator fail, and everything by which a person can see it."""

from collections.abc import Callable
from random import Random

import msgspec

from grove.api.resources import EVENTS
from grove.api.types.meta import Condition, find_condition
from grove.cli.common.options import parse_object_ref
from grove.clock import Clock
from grove.controller.manager import Controller
from grove.controller.observability.health import Health
from grove.controller.observability.instrumentation import InstrumentedTransport
from grove.controller.observability.metrics import Metrics
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.request_info import summarize
from grove.kube.transport import Request
from grove.kube.write_limiter import WriteLimiter
from grove.operations.why.runner import explain
from grove.sim.faults import InjectedError
from grove.sim.simulation import SimulatedOperator, World
from tests.simulation.stories import ONE_POD_NODE, find_set

# DESIGN.md, section 3: within 90 s of the first failure.
REPORT_SECONDS = 90.0


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a person sees of a set at one moment."""

    condition: Condition | None
    events: tuple[str, ...]
    why: str
    failing: float
    ready: str


class FailingWorld:
    """`fail(verb, resource, error)` begins a failure; `first_failure` is when the operator first met it."""

    def __init__(self, name: str = "workload1", *, nodes: int = 30) -> None:
        self.name = name
        self.world = World(seed=1, nodes=nodes, node_resources=ONE_POD_NODE, operator=self._operator)
        self.metrics: Metrics
        self.health: Health
        self.first_failure: float | None = None
        self.attempts: list[float] = []

    def _operator(self, _: Client, clock: Clock, random: Random) -> SimulatedOperator:
        self.metrics, self.health = Metrics(clock), Health()
        transport = InstrumentedTransport(self.world.operator, self.metrics, self.health)
        controller = Controller(
            Client(transport, clock, WriteLimiter(clock)), clock, random, instrumentation=self.metrics
        )
        self.metrics.follow(controller)
        self.health.controller = controller
        self.metrics.failing_resources = self.health.failing_resources
        return controller

    def fail(self, verb: str, resource: str, error: ApiError) -> InjectedError:
        def applies(request: Request) -> bool:
            target = summarize(request)
            is_chosen = request.is_write and (target.verb, target.resource) == (verb, resource)
            if is_chosen:
                self.attempts.append(self.world.clock.monotonic())
                if self.first_failure is None:
                    self.first_failure = self.world.clock.monotonic()
            return is_chosen

        return self.world.operator.refuse(applies, error)

    async def until_reported(self) -> Seen:
        """What is seen 90 s after the first failure."""
        while self.first_failure is None:
            await self.world.clock.sleep(0.1)
        await self.world.clock.sleep(self.first_failure + REPORT_SECONDS - self.world.clock.monotonic())
        return await self.look()

    async def look(self) -> Seen:
        return Seen(
            condition=find_condition(find_set(self.world, self.name).status.conditions, "ReconcileFailed"),
            events=tuple(e.message for e in self.world.objects(EVENTS) if e.reason == "ReconcileFailed"),
            why=await self.why(),
            failing=self.failing(),
            ready=(await self.health.pages()["/readyz"]({})).body.decode(),
        )

    async def why(self) -> str:
        target = parse_object_ref(f"pcs/{self.name}")
        explained = await explain(self.world.client, self.world.clock.now(), "default", target)
        first = explained[0]
        return " ".join((first.text, *first.details))

    def failing(self) -> float:
        """How many writes fail, as the metrics count them."""
        families = (family for family in self.metrics.registry.collect() if family.name == "grove_writes_failing")
        return sum(sample.value for family in families for sample in family.samples)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def writes_since(self, moment: float, *, to: Callable[[str], bool] = lambda _: True) -> int:
        """Writes of the operator that reached the server."""
        return sum(
            write.at >= moment and to(write.target.resource) for write in self.world.writes_by("operator")
        )  # fmt: skip
