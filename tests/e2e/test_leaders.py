"""Several operators, one of them leads: who takes over and when, and that two never write side by side.

What was written by whom is read from the API server's audit log, which tells their tokens apart.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from grove.api.resources import LEASES
from grove.api.types.lease import LeaseSpec
from tests.e2e.audit import Asked, read_audit
from tests.e2e.bustle import Bustle, without_twins
from tests.e2e.harness import Cluster, Stage
from tests.e2e.installation import ELECTION, NAMESPACE, USER, Installation, outside_operator
from tests.e2e.operators import Operator
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import running_plane

pytestmark = pytest.mark.kube

LEASE = "grove-operator-leader-election"
# Long enough that on a busy machine nobody loses it who lives.
LEASE_TIME = timedelta(seconds=10)
# A candidate looks every half second, give or take; the rest is for a machine that is busy with other things.
LATE = timedelta(seconds=10)


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_plane(tmp_path_factory.mktemp("leaders")) as plane, running_nodes(plane.kubeconfig, 5):
        yield Installation(plane, has_webhooks=False)


class Candidates:
    """Operators that share a lease, each with a token of its own."""

    def __init__(self, installed: Installation, folder: Path, number: int) -> None:
        times = {"leaseDuration": f"{LEASE_TIME.seconds}s", "renewDeadline": f"{LEASE_TIME.seconds - 2}s"}
        election = {**ELECTION, **times, "resourceNamespace": NAMESPACE}
        self.operators = tuple(
            outside_operator(
                installed.kubeconfig(f"candidate-{n}"), folder, name=f"candidate-{n}", leaderElection=election
            )
            for n in range(number)
        )

    def stop(self) -> None:
        for operator in self.operators:
            operator.stop()

    async def leader(self, stage: Stage, *, after: str = "") -> tuple[Operator, LeaseSpec]:
        """Who leads, once it is somebody else than `after`."""
        clock = stage.cluster.clock
        deadline = clock.monotonic() + stage.patience
        while True:
            for lease in (await stage.client.list(LEASES, namespace=NAMESPACE)).items:
                holder = lease.spec.holder_identity
                if lease.metadata.name == LEASE and holder and holder != after:
                    greeting = f'"identity":"{holder}"'
                    return next(one for one in self.operators if greeting in one.words), lease.spec
            assert clock.monotonic() < deadline, f"nobody leads after {after}"
            await clock.sleep(0.1)


def writes(asked: list[Asked]) -> dict[str, list[Asked]]:
    """By token: what it wrote, in order, leases aside."""
    found: dict[str, list[Asked]] = {}
    for one in sorted(asked, key=lambda one: one.received_at):
        if one.is_write and one.resource != "leases":
            found.setdefault(one.credential, []).append(one)
    return found


def test_when_the_leader_is_killed_another_takes_over_within_the_lease_time_and_nothing_is_written_twice(
    installed: Installation, tmp_path: Path
) -> None:
    candidates = Candidates(installed, tmp_path, 3)

    async def run() -> None:
        async with Cluster(installed.plane.kubeconfig, operators=candidates.operators) as cluster:
            stage = await cluster.stage()
            stage.patience = 300.0
            bustle = Bustle(stage)
            for operator in candidates.operators:
                operator.start()
            leader, lease = await candidates.leader(stage)
            async with without_twins(stage):
                await bustle.begin()
                for _ in range(2):
                    await bustle.steps(20)
                    await stage.wait_until(leader.has_worked)
                    await bustle.steps(5)
                    leader.kill()
                    last = (await stage.client.get(LEASES, NAMESPACE, LEASE)).spec
                    leader, lease = await candidates.leader(stage, after=lease.holder_identity)
                    assert last.renew_time is not None
                    assert lease.acquire_time is not None
                    assert LEASE_TIME <= lease.acquire_time - last.renew_time <= LEASE_TIME + LATE
                await bustle.end()

    try:
        asyncio.run(run())
    finally:
        candidates.stop()
    asked = read_audit(installed.plane, USER)
    terms = sorted(writes(asked).values(), key=lambda term: term[0].received_at)
    assert len(terms) == 3
    assert [later[0] for earlier, later in pairwise(terms) if later[0].received_at <= earlier[-1].done_at] == []
    # A name comes back only after its pod is gone, and a gate goes once in a pod's life.
    made, ungated = written(asked, "create", is_sure=False), written(asked, "patch", is_sure=True)
    assert made.total() > 80
    assert {name: count for name, count in ungated.items() if count > made[name]} == {}


def written(asked: list[Asked], verb: str, *, is_sure: bool) -> Counter[str]:
    """How often each pod was written so; what a killed leader was not told about (5xx) may have been, or not."""
    return Counter(
        one.target.name
        for one in asked
        if one.target is not None
        and (one.verb, one.resource) == (verb, "pods")
        and (one.answer.code < 300 or (one.answer.code >= 500 and not is_sure))
    )


def test_a_leader_that_was_frozen_does_not_write_after_another_began(installed: Installation, tmp_path: Path) -> None:
    candidates = Candidates(installed, tmp_path, 2)

    async def run() -> None:
        async with Cluster(installed.plane.kubeconfig, operators=candidates.operators) as cluster:
            stage = await cluster.stage()
            stage.patience = 300.0
            bustle = Bustle(stage)
            for operator in candidates.operators:
                operator.start()
            leader, lease = await candidates.leader(stage)
            await bustle.begin()
            await stage.wait_until(leader.has_worked)
            await bustle.steps(10)
            # In the middle of its work; when it wakes up it must not go on.
            leader.send(signal.SIGSTOP)
            await bustle.steps(10)
            await candidates.leader(stage, after=lease.holder_identity)
            await bustle.steps(10)
            leader.send(signal.SIGCONT)
            await bustle.steps(20)
            await bustle.end()

    try:
        asyncio.run(run())
    finally:
        candidates.stop()
    terms = sorted(writes(read_audit(installed.plane, USER)).values(), key=lambda term: term[0].received_at)
    assert len(terms) == 2
    of_frozen, of_heir = terms
    late = [one for one in of_frozen if one.received_at >= of_heir[0].received_at]
    # A write between its last look at the clock and the kernel when the signal came goes on where it was: a program has
    # one in its hand at a time. Were writes not held back, there would be about twenty.
    assert len(late) <= 1, late
