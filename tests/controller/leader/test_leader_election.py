"""Leading: one at a time, whatever happens to clocks, connections and programs."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from grove.api.resources import LEASES
from grove.controller.leader.leader_election import lead_alone
from grove.kube.api_errors import ApiError
from grove.kube.transport import Request
from grove.sim.faults import CALM, FaultPlan
from grove.sim.virtual_clock import run_virtual
from tests.controller.leader.electorate import CONFIG_MAPS, OPTIONS, Candidate, Electorate

# A quarter of them in the quick tier.
SEEDS = 40
_DEEP = pytest.mark.deep(reason="more weather of the same kind, from other seeds")


def run(story: Callable[[Electorate], Awaitable[None]], seed: int = 0) -> None:
    async def main() -> None:
        electorate = Electorate(seed)
        await story(electorate)
        assert electorate.offences == []

    run_virtual(main())


def is_about_leases(request: Request) -> bool:
    return "/leases" in request.path


def test_the_first_one_leads_and_writes_the_lease_as_others_expect_it() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        lease = electorate.lease
        assert (lease.holder_identity, lease.lease_duration_seconds, lease.lease_transitions) == ("a", 15, 0)
        assert lease.acquire_time is not None
        acquired = lease.acquire_time
        await electorate.until(100)
        lease = electorate.lease
        assert (lease.acquire_time, lease.lease_transitions) == (acquired, 0)
        assert lease.renew_time is not None
        assert lease.renew_time - acquired > timedelta(seconds=95)
        assert first.term_count == 1

    run(story)


def test_a_second_one_waits_and_writes_nothing() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        second = electorate.candidate("b")
        await electorate.until(200)
        assert (first.leadership.is_leading, second.leadership.is_leading) == (True, False)
        assert second.leadership.holder == "a"
        assert second.wire.writes == []

    run(story)


def test_after_a_kill_the_next_one_takes_over_within_the_lease_time_and_not_before() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        second = electorate.candidate("b")
        await electorate.until(51)
        first.kill()
        renewed_at = max(write.at for write in first.wire.writes if is_about_leases(write.request))
        taken_at = await electorate.until_leader(second)
        # It saw the last renewal at most one (jittered) retry period after it was made.
        longest = OPTIONS.lease_seconds + OPTIONS.retry_seconds * 1.2
        assert OPTIONS.lease_seconds <= taken_at - renewed_at <= longest + 0.1
        assert electorate.lease.lease_transitions == 1

    run(story)


def test_a_lease_that_was_given_back_is_taken_at_the_next_look() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        second = electorate.candidate("b")
        await electorate.until(50)
        first.stop.set()
        await first.task
        stopped_at = electorate.now
        assert electorate.lease.holder_identity == ""
        taken_at = await electorate.until_leader(second)
        assert taken_at - stopped_at <= OPTIONS.retry_seconds * 1.2 + 0.1

    run(story)


def test_a_stop_waits_for_the_answers_of_writes_on_their_way_and_then_gives_the_lease_back() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        first.wire.plan = FaultPlan(latency=(0.9, 1.0))
        await electorate.until(20)
        first.stop.set()
        await first.task
        assert first.wire.write_count == len(first.wire.writes)
        written, released = [w.at for w in first.wire.writes], first.wire.writes[-1]
        assert is_about_leases(released.request)
        assert written == sorted(written)
        assert electorate.lease.holder_identity == ""

    run(story)


def test_a_stop_does_not_wait_for_ever() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        first.line.whole.clear()
        first.stop.set()
        started_at = electorate.now
        await first.task
        # Five seconds for the last answers, five for the release that cannot arrive.
        assert electorate.now - started_at <= 10.1

    run(story)


def test_a_leader_that_cannot_renew_stops_writing_before_its_deadline_and_leads_again_later() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        refusal = first.wire.refuse(is_about_leases, ApiError(503, "ServiceUnavailable", "etcd is away"))
        renewed_at = max(write.at for write in first.wire.writes if is_about_leases(write.request))
        await electorate.until(60)
        assert not first.leadership.is_leading
        assert max(first.write_times) < renewed_at + OPTIONS.renew_seconds
        first.wire.lift(refusal)
        await electorate.until_leader(first)
        assert first.term_count == 2

    run(story)


def test_a_leader_whose_lease_was_taken_by_force_stops_at_its_next_renewal() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        await electorate.user.patch(LEASES, OPTIONS.namespace, OPTIONS.name, {"spec": {"holderIdentity": "z"}})
        await electorate.clock.sleep(OPTIONS.retry_seconds + 0.1)
        assert not first.leadership.is_leading
        electorate.offences.clear()
        await electorate.clock.sleep(10)
        assert electorate.lease.holder_identity == "z"

    run(story)


def test_a_vanished_lease_is_not_taken_while_its_holder_may_still_write() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        second = electorate.candidate("b")
        await electorate.until(50)
        first.line.whole.clear()
        await electorate.user.delete(LEASES, OPTIONS.namespace, OPTIONS.name)
        deleted_at = electorate.now
        taken_at = await electorate.until_leader(second)
        assert taken_at - deleted_at >= OPTIONS.lease_seconds

    run(story)


def test_a_program_that_slept_through_its_term_wakes_up_without_writing() -> None:
    """Its timers come late and its answers all at once: only a look at the clock keeps it from writing."""

    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        second = electorate.candidate("b")
        await electorate.until(50)
        first.clock.awake.clear()
        await electorate.until_leader(second)
        await electorate.clock.sleep(20)
        before = len(first.write_times)
        first.clock.awake.set()
        await electorate.clock.sleep(60)
        assert len(first.write_times) == before
        assert (first.leadership.is_leading, second.leadership.is_leading) == (False, True)

    run(story)


def test_the_time_of_day_decides_nothing() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        await electorate.until_leader(first)
        second = electorate.candidate("b")
        second.clock.offset = timedelta(days=400)
        await electorate.until(100)
        first.clock.offset = timedelta(days=-400)
        await electorate.until(200)
        assert electorate.leaders == ["a"]

    run(story)


def test_an_answer_that_was_lost_does_not_cost_the_lease() -> None:
    async def story(electorate: Electorate) -> None:
        first = electorate.candidate("a")
        first.wire.plan = FaultPlan(lost_answer=0.5)
        await electorate.until_leader(first)
        await electorate.until(200)
        assert electorate.leaders == ["a"]

    run(story)


@pytest.mark.parametrize(
    "seed", [*range(SEEDS // 4), *(pytest.param(n, marks=_DEEP) for n in range(SEEDS // 4, SEEDS))]
)
def test_no_two_write_at_once_in_any_weather(seed: int) -> None:
    async def story(electorate: Electorate) -> None:
        candidates = [electorate.candidate("a", speed=0.9), electorate.candidate("b", speed=1.1)]
        chance = candidates[0].random
        for _ in range(25):
            await electorate.clock.sleep(chance.uniform(1, 30))
            storm(chance.choice(candidates))
        for candidate in candidates:
            mend(candidate)
        await electorate.clock.sleep(60)
        (leader,) = [candidate for candidate in candidates if candidate.leadership.is_leading]
        (other,) = [candidate for candidate in candidates if candidate is not leader]
        leader.kill()
        await electorate.until_leader(other)

    def storm(candidate: Candidate) -> None:
        chance = candidate.random
        match chance.choice(("cut", "freeze", "lossy", "slow", "jump", "mend", "mend")):
            case "cut":
                candidate.line.whole.clear()
            case "freeze":
                candidate.clock.awake.clear()
            case "lossy":
                candidate.wire.plan = FaultPlan(lost_request=0.4, lost_answer=0.4, server_error=0.1)
            case "slow":
                candidate.wire.plan = FaultPlan(latency=(0.0, 2.0))
            case "jump":
                candidate.clock.offset = timedelta(hours=chance.uniform(-1000, 1000))
            case "mend":
                mend(candidate)

    def mend(candidate: Candidate) -> None:
        candidate.wire.plan = CALM
        candidate.line.whole.set()
        candidate.clock.awake.set()

    run(story, seed)


def test_without_an_election_there_is_one_term_until_the_stop() -> None:
    async def story(electorate: Electorate) -> None:
        stop = asyncio.Event()
        other = electorate.candidate("other")
        other.task.cancel()
        alone = asyncio.create_task(lead_alone(other.work, electorate.clock, stop))
        await electorate.clock.sleep(500)
        stop.set()
        await alone
        written = len(other.write_times)
        assert written > 500
        await electorate.clock.sleep(100)
        assert len(other.write_times) == written
        assert len((await electorate.user.list(CONFIG_MAPS, namespace="default")).items) == written
        electorate.offences.clear()

    run(story)


def test_an_error_of_the_work_comes_out_and_the_lease_is_given_back() -> None:
    async def story(electorate: Electorate) -> None:
        candidate = electorate.candidate("a")

        async def fail(_: object) -> None:
            raise ValueError("a bug")

        candidate.task.cancel()
        with pytest.raises(ValueError, match="a bug"):
            await candidate.leadership.run(fail, asyncio.Event())
        assert not candidate.leadership.is_leading
        assert electorate.lease.holder_identity == ""

    run(story)
