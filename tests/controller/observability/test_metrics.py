"""Numbers of a whole operator on the embedded cluster, and a line in the reference for each."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from grove.api.resources import PODCLIQUESETS, PODS
from grove.clock import Clock, LoopClock
from grove.controller.manager import Controller
from grove.controller.observability.instrumentation import InstrumentedTransport, RequestAttributes
from grove.controller.observability.metrics import Metrics
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.request_info import summarize
from grove.sim.faults import FaultPlan
from grove.sim.simulation import SimulatedOperator, World
from grove.sim.virtual_clock import run_virtual
from tests.dsl import NOW
from tests.markdown import ROOT, tables
from tests.simulation.stories import ONE_POD_NODE, WORKLOAD1, WORKLOAD2
from tests.simulation.termination_stories import give_back, lose_pods, with_delay

QUICKSTART = ROOT / "examples" / "quickstart.yaml"


class Counted:
    """A world whose operator is counted."""

    def __init__(self, nodes: int = 8) -> None:
        self.world = World(nodes=nodes, operator=self._operator)
        self.metrics: Metrics

    def _operator(self, client: Client, clock: Clock, random: Random) -> SimulatedOperator:
        self.metrics = Metrics(clock)
        client = Client(InstrumentedTransport(self.world.operator, self.metrics), clock)
        controller = Controller(client, clock, random, instrumentation=self.metrics)
        self.metrics.follow(controller)
        return controller

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of the series with these labels, in the namespace of all stories if it has one."""
        found = self.metrics.registry.get_sample_value(name, labels)
        if found is not None:
            return found
        return self.metrics.registry.get_sample_value(name, {"namespace": "default", **labels})


def run(story: Callable[[Counted], Awaitable[None]], nodes: int = 8) -> None:
    async def main() -> None:
        counted = Counted(nodes)
        async with counted.world:
            await story(counted)

    run_virtual(main())


def test_sets_and_gangs_are_counted_by_phase_while_they_live() -> None:
    async def story(counted: Counted) -> None:
        await counted.world.apply(QUICKSTART)
        await counted.world.settle()
        assert counted.value("grove_sets", phase="Running") == 1
        assert counted.value("grove_gangs", phase="Running") == 2
        await counted.world.scale(PODCLIQUESETS, "chat", 3)
        await counted.world.settle()
        assert counted.value("grove_gangs", phase="Running") == 6
        await counted.world.delete(PODCLIQUESETS, "chat")
        await counted.world.settle()
        for phase in ("Pending", "Running", "Terminating", "Starting"):
            assert (counted.value("grove_sets", phase=phase) or 0) == 0
            assert (counted.value("grove_gangs", phase=phase) or 0) == 0

    run(story, nodes=30)


def test_a_gang_that_waits_for_nodes_is_measured_when_it_gets_them() -> None:
    async def story(counted: Counted) -> None:
        await counted.world.apply(QUICKSTART)
        await counted.world.clock.sleep(100)
        assert counted.value("grove_gang_scheduled_seconds_count") == 0
        assert counted.value("grove_gangs", phase="Pending") == 2
        await counted.world.add_nodes(8)
        await counted.world.settle()
        assert counted.value("grove_gang_scheduled_seconds_count") == 2
        assert counted.value("grove_gang_ready_seconds_count") == 2
        waited = counted.value("grove_gang_scheduled_seconds_sum")
        assert waited is not None
        assert 200 <= waited < 210
        # Pods of the scaled gang wait behind their gate until the base gang has nodes.
        assert counted.value("grove_pod_gate_seconds_count") == 10
        assert counted.value("grove_pod_gate_seconds_bucket", le="1.0") == 8

    run(story, nodes=0)


def test_a_gang_counts_the_first_time_only() -> None:
    async def story(counted: Counted) -> None:
        await counted.world.apply(QUICKSTART)
        await counted.world.settle()
        for pod in counted.world.pods():
            await counted.world.client.delete(PODS, "default", pod.metadata.name)
        await counted.world.settle()
        assert len(counted.world.running_pods()) == 10
        assert counted.value("grove_gang_ready_seconds_count") == 2

    run(story)


def test_requests_are_counted_by_verb_resource_and_kind_of_answer() -> None:
    async def story(counted: Counted) -> None:
        await counted.world.apply(QUICKSTART)
        await counted.world.settle()
        written: dict[tuple[str, str], int] = {}
        for write in counted.world.operator.writes:
            key = (write.target.verb, write.target.resource)
            written[key] = written.get(key, 0) + 1
        assert written[("create", "pods")] == 10
        for (verb, resource), count in written.items():
            code = "201" if verb == "create" else "200"
            assert counted.value("grove_api_requests_total", verb=verb, resource=resource, code=code) == count
        assert counted.value("grove_api_requests_total", verb="watch", resource="pods", code="200") == 1

    run(story)


def test_refusals_are_counted_by_reason() -> None:
    async def story(counted: Counted) -> None:
        counted.world.operator.refuse(
            lambda request: summarize(request).verb == "create" and request.path.endswith("/pods"),
            ApiError(403, "Forbidden", "exceeded quota"),
        )
        await counted.world.apply(QUICKSTART)
        await counted.world.clock.sleep(20)
        assert (counted.value("grove_create_rejections_total", reason="CreateRejected") or 0) > 0
        # Answered by the connection, not by the server, and counted all the same.
        refused = counted.value("grove_api_requests_total", verb="create", resource="pods", code="403")
        assert refused is not None
        assert refused > 0

    run(story)


def test_broken_watches_are_counted_over_several_terms() -> None:
    async def story(counted: Counted) -> None:
        await counted.world.settle()
        controller = counted.metrics.controller
        assert controller is not None
        counted.world.operator.plan = FaultPlan(server_error=1.0)
        await counted.world.clock.sleep(1000)
        broken = counted.value("grove_watch_restarts_total", resource="pods")
        assert broken
        counted.metrics.unfollow()
        assert counted.value("grove_watch_restarts_total", resource="pods") == broken
        counted.metrics.follow(controller)
        assert counted.value("grove_watch_restarts_total", resource="pods") == 2 * broken

    run(story)


def test_a_standby_knows_of_no_sets_and_does_not_lead() -> None:
    async def story(counted: Counted) -> None:
        await counted.world.apply(QUICKSTART)
        await counted.world.settle()
        assert counted.value("grove_leader") == 1
        counted.metrics.unfollow()
        assert counted.value("grove_leader") == 0
        assert counted.value("grove_sets", phase="Running") is None
        assert counted.value("grove_queue_depth") == 0

    run(story)


def counted_termination(story: Callable[[Counted], Awaitable[None]], manifest: Path = WORKLOAD2) -> None:
    """One pod per node, 10 nodes, 10 pods, a delay of 10 s."""

    async def main() -> None:
        counted = Counted(nodes=0)
        async with counted.world:
            await counted.world.nodes.create(10, ONE_POD_NODE)
            await counted.world.apply(with_delay(manifest))
            await counted.world.clock.sleep(60)
            await story(counted)

    run_virtual(main())


def test_a_breach_that_recovers_is_counted_and_measured() -> None:
    async def story(counted: Counted) -> None:
        nodes = await lose_pods(counted.world, "workload2-0-pc-a", 2)
        await counted.world.clock.sleep(6)
        assert counted.value("grove_breaches_total", level="clique") == 1
        assert counted.value("grove_breach_seconds_count", level="clique") == 0
        await give_back(counted.world, nodes)
        await counted.world.clock.sleep(60)
        assert counted.value("grove_breach_seconds_count", level="clique") == 1
        # The scheduler takes a moment.
        assert counted.value("grove_breach_seconds_sum", level="clique") == pytest.approx(6, abs=0.5)
        assert counted.value("grove_breaches_total", level="clique") == 1
        for level in ("group-replica", "set-replica"):
            assert counted.value("grove_terminations_total", level=level) == 0

    counted_termination(story)


def test_terminations_are_counted_by_what_goes() -> None:
    async def story(counted: Counted) -> None:
        await lose_pods(counted.world, "workload2-0-sg-x-0-pc-c", 3)
        await counted.world.settle()
        assert counted.value("grove_terminations_total", level="group-replica") == 1
        assert counted.value("grove_terminations_total", level="set-replica") == 0
        await lose_pods(counted.world, "workload2-0-pc-a", 2)
        await counted.world.settle()
        assert counted.value("grove_terminations_total", level="group-replica") == 1
        assert counted.value("grove_terminations_total", level="set-replica") == 1
        assert counted.value("grove_breaches_total", level="clique") == 2
        assert counted.value("grove_breach_seconds_count", level="clique") == 2
        assert counted.value("grove_breach_seconds_sum", level="clique") == 20

    counted_termination(story)


def test_a_group_below_its_own_minimum_is_a_breach_of_its_own() -> None:
    async def story(counted: Counted) -> None:
        await lose_pods(counted.world, "workload1-0-sg-x-0-pc-c")
        await counted.world.settle()
        assert counted.value("grove_breaches_total", level="group") == 1
        assert counted.value("grove_breach_seconds_sum", level="group") == 10
        assert counted.value("grove_terminations_total", level="set-replica") == 1

    counted_termination(story, WORKLOAD1)


def test_held_teardowns_are_counted_until_they_are_carried_out() -> None:
    async def story(counted: Counted) -> None:
        assert counted.value("grove_sets_held") == 0
        for number in range(6):
            await counted.world.nodes.fail(f"node-{number}")
        await counted.world.clock.sleep(60)
        assert counted.value("grove_sets_held") == 1
        for number in range(6):
            await counted.world.nodes.recover(f"node-{number}")
        await counted.world.clock.sleep(120)
        assert counted.value("grove_sets_held") == 0

    counted_termination(story)


def test_what_was_so_before_this_term_is_not_counted_again() -> None:
    async def story(counted: Counted) -> None:
        await lose_pods(counted.world, "workload2-0-pc-a", 2)
        await counted.world.clock.sleep(5)
        await counted.world.restart_controller()
        # The numbers are new with the new process: it meets a breach that runs.
        await counted.world.clock.sleep(2)
        assert counted.value("grove_breaches_total", level="clique") == 0
        await counted.world.settle()
        assert counted.value("grove_breach_seconds_sum", level="clique") == 10
        assert counted.value("grove_terminations_total", level="set-replica") == 1

    counted_termination(story)


def test_an_answer_that_never_came_is_counted_too() -> None:
    async def main() -> None:
        metrics = Metrics(LoopClock(NOW))
        metrics.on_response(RequestAttributes("create", "pods"), 0)
        metrics.on_response(RequestAttributes("create", "pods"), 503)
        samples = [
            metrics.registry.get_sample_value(
                "grove_api_requests_total", {"verb": "create", "resource": "pods", "code": code}
            )
            for code in ("none", "503", "500")
        ]
        assert samples == [1, 1, None]

    run_virtual(main())


def test_every_metric_has_its_line_in_the_reference_and_no_line_is_idle() -> None:
    async def main() -> set[str]:
        registry = Metrics(LoopClock(NOW)).registry
        return {f"{m.name}_total" if m.type == "counter" else m.name for m in registry.collect()}

    (rows,) = tables((ROOT / "docs" / "reference" / "metrics.md").read_text())
    documented = [row[0].strip("`") for row in rows]
    own = {name for name in run_virtual(main()) if name.startswith("grove_")}
    assert sorted(own) == sorted(documented)
