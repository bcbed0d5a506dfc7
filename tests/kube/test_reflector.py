"""Following a kind: what happens when lists and watches break in every way a server knows."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

import pytest

from grove.api.resources import PODS
from grove.api.types.meta import JsonObject
from grove.api.types.pod import Pod
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.in_process_transport import InProcessTransport
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client
from grove.kube.reflector import BackOff, ListAll, Reflector, ReflectorCallbacks, State, WatchFrom
from grove.kube.store import Store
from grove.kube.transport import Request, Response
from grove.sim.virtual_clock import run_virtual
from tests.kube.scripted import (
    UNTIL_THE_END,
    ScriptedTransport,
    Silence,
    bookmark,
    error_line,
    line,
    page,
    pod_json,
    refusal,
)

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Followed:
    """A reflector on a script, and the states it went through."""

    def __init__(self, transport: ScriptedTransport, *, is_optional: bool = False) -> None:
        self.clock = LoopClock(EPOCH)
        self.store = Store[Pod]()
        client = Client(transport, self.clock)
        # What was said about the kind being served, each time that changed.
        self.told: list[bool] = []
        self.lost_count = 0
        self.cut_count = 0
        self.new_history_count = 0
        self.reflector = Reflector(
            client,
            PODS,
            self.store,
            self.clock,
            Random(0),
            is_optional=is_optional,
            callbacks=ReflectorCallbacks(
                on_served_change=lambda: self.told.append(not self.reflector.is_missing),
                on_watch_lost=self._lose,
                on_watch=self._note_watch,
                on_new_history=self._start_over,
            ),
        )
        self.states: list[State] = [ListAll()]
        self.times: list[float] = [0.0]

    async def take(self, steps: int) -> "Followed":
        for _ in range(steps):
            self.states.append(await self.reflector.step(self.states[-1]))
            self.times.append(self.clock.monotonic())
        return self

    @property
    def names(self) -> list[str]:
        return [pod.metadata.name for pod in self.store.values()]

    def _lose(self) -> None:
        self.lost_count += 1

    def _note_watch(self, is_open: bool) -> None:
        self.cut_count += not is_open

    def _start_over(self) -> None:
        self.new_history_count += 1


def follow(transport: ScriptedTransport, steps: int, *, is_optional: bool = False) -> Followed:
    async def main() -> Followed:
        return await Followed(transport, is_optional=is_optional).take(steps)

    return run_virtual(main())


def test_it_lists_then_watches_from_the_list() -> None:
    transport = ScriptedTransport(
        [page(pod_json("a", 4), version=5)],
        [[line("ADDED", pod_json("b", 6)), line("DELETED", pod_json("a", 7)), UNTIL_THE_END]],
    )
    followed = follow(transport, 2)
    assert followed.names == ["b"]
    assert followed.states == [ListAll(), WatchFrom(resource_version="5"), WatchFrom(resource_version="7")]
    assert (followed.reflector.listed.is_set(), followed.reflector.restarts) == (True, 0)


def test_a_watch_that_ends_in_order_goes_on_where_it_was() -> None:
    transport = ScriptedTransport(
        [page(version=5)],
        [[UNTIL_THE_END], [bookmark(8), UNTIL_THE_END], [line("ADDED", pod_json("a", 9)), UNTIL_THE_END]],
    )
    followed = follow(transport, 4)
    assert transport.watched_from == ["5", "5", "8"]
    assert followed.states[-1] == WatchFrom(resource_version="9")
    assert followed.reflector.restarts == 0


def test_a_watch_that_breaks_is_resumed_after_a_moment() -> None:
    transport = ScriptedTransport(
        [page(version=5)], [[line("ADDED", pod_json("a", 6)), Silence(2), ConnectionLost("cut")], [UNTIL_THE_END]]
    )
    followed = follow(transport, 5)
    assert transport.watched_from == ["5", "6"]
    match followed.states[2]:
        case BackOff(seconds=seconds, then=then):
            assert 0.05 <= seconds <= 0.1
            assert then == WatchFrom(resource_version="6", failures=1, is_cut=True)
        case other:
            pytest.fail(f"expected to back off, not {other}")
    assert followed.reflector.restarts == 1


@pytest.mark.parametrize("end", [[Silence(100)], [Silence(2), ConnectionLost("cut")]])
def test_after_a_cut_a_server_that_is_behind_what_we_know_is_listed_anew(end: list[bytes | Silence | ApiError]) -> None:
    """It would take a watch from the future, and tell nothing until it has caught up."""
    transport = ScriptedTransport(
        [page(pod_json("a", 4), version=5), page(pod_json("b", 2), version=3)],
        [[line("ADDED", pod_json("c", 6)), *end], [UNTIL_THE_END]],
    )
    transport.version = 3
    followed = follow(transport, 6)
    assert transport.watched_from[:2] == ["5", "3"]
    assert followed.names == ["b"]
    assert followed.new_history_count == 1


def test_after_a_cut_a_server_that_does_not_answer_is_asked_again() -> None:
    class Refusing(ScriptedTransport):
        async def send(self, request: Request) -> Response:
            return refusal(503, "Away") if request.query.get("limit") == "1" else await super().send(request)

    followed = follow(Refusing([page(version=5)], [[Silence(2), ConnectionLost("cut")]]), 8)
    assert [type(state) for state in followed.states[2:]] == [
        BackOff,
        WatchFrom,
        BackOff,
        WatchFrom,
        BackOff,
        WatchFrom,
        BackOff,
    ]


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([error_line(410, "Expired")], id="as an event"),
        pytest.param([ApiError(410, "Gone", "too old")], id="as a refusal"),
    ],
)
def test_a_version_that_is_too_old_makes_it_list_again_at_once(told: list[bytes | Silence | ApiError]) -> None:
    transport = ScriptedTransport([page(pod_json("a", 4), version=5), page(pod_json("b", 8), version=9)], [told])
    followed = follow(transport, 3)
    assert followed.states[2:] == [ListAll(failures=1), WatchFrom(resource_version="9", failures=1)]
    assert followed.names == ["b"]
    assert followed.times[-1] == 0.0


def test_a_server_that_always_says_too_old_is_not_asked_in_a_hurry() -> None:
    lists: list[Response | ApiError | Silence] = [page(version=5)] * 30
    transport = ScriptedTransport(lists, [[error_line(410, "Expired")]] * 30)
    followed = follow(transport, 60)
    assert len(transport.watched_from) <= 25
    assert followed.times[-1] > 100


def test_a_silent_watch_is_restarted() -> None:
    transport = ScriptedTransport([page(version=5)], [[Silence()], [UNTIL_THE_END]])
    followed = follow(transport, 5)
    assert transport.watched_from == ["5", "5"]
    assert 330 <= followed.times[2] <= 630
    assert followed.reflector.restarts == 1


def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_hurry() -> None:
    transport = ScriptedTransport([page(version=5)], [[]] * 30)
    followed = follow(transport, 37)
    delays = [state.seconds for state in followed.states if isinstance(state, BackOff)]
    longest = [min(30.0, 0.1 * 2**power) for power in range(len(delays))]
    assert all(full / 2 <= delay <= full for delay, full in zip(delays, longest, strict=True))
    assert len(delays) == 12


def test_a_list_that_fails_is_tried_again_no_sooner_than_asked() -> None:
    transport = ScriptedTransport(
        [ConnectionLost("down"), refusal(429, "TooManyRequests", retry_after=17), page(pod_json("a", 4), version=5)]
    )
    followed = follow(transport, 5)
    assert followed.states[-1] == WatchFrom(resource_version="5", failures=2)
    assert isinstance(followed.states[3], BackOff)
    assert followed.states[3].seconds == 17.0
    assert followed.names == ["a"]


def test_a_list_that_hangs_is_given_up() -> None:
    transport = ScriptedTransport([Silence(), page(version=5)])
    followed = follow(transport, 1)
    assert followed.times[-1] == 120.0
    assert isinstance(followed.states[-1], BackOff)


@pytest.mark.parametrize(
    ("code", "then"),
    [
        pytest.param(500, WatchFrom(resource_version="5", failures=1, is_cut=True), id="a server error resumes"),
        pytest.param(429, WatchFrom(resource_version="5", failures=1, is_cut=True), id="overload resumes"),
        pytest.param(504, ListAll(failures=1), id="a version from the future lists again"),
        pytest.param(403, ListAll(failures=1), id="a refusal lists again"),
    ],
)
def test_where_it_goes_on_depends_on_the_error(code: int, then: State) -> None:
    followed = follow(ScriptedTransport([page(version=5)], [[ApiError(code, "X", "x")]]), 2)
    assert isinstance(followed.states[-1], BackOff)
    assert followed.states[-1].then == then


def test_lines_that_cannot_be_read_are_noted_and_passed_over() -> None:
    broken = pod_json("a", 6) | {"status": {"phase": 3}}
    transport = ScriptedTransport(
        [page(pod_json("a", 4), version=5)],
        [[b"{", line("MODIFIED", broken), line("ADDED", pod_json("b", 7)), UNTIL_THE_END]],
    )
    followed = follow(transport, 2)
    assert followed.names == ["a", "b"]
    assert [one.name for one in followed.reflector.unreadable.values()] == ["a"]
    assert followed.states[-1] == WatchFrom(resource_version="7")


@pytest.mark.parametrize("after", [line("MODIFIED", pod_json("a", 7)), line("DELETED", pod_json("a", 7))])
def test_what_can_be_read_again_or_is_gone_is_not_noted_any_more(after: bytes) -> None:
    broken = pod_json("a", 4) | {"status": {"phase": 3}}
    transport = ScriptedTransport([page(broken, version=5)], [[after, UNTIL_THE_END]])
    assert list(follow(transport, 1).reflector.unreadable) == ["uid-of-a"]
    transport = ScriptedTransport([page(broken, version=5)], [[after, UNTIL_THE_END]])
    assert follow(transport, 2).reflector.unreadable == {}


# On the embedded cluster


# --- kinds that may not be served ------------------------------------------------------------------------------------


def test_a_kind_that_is_not_served_is_missing_and_asked_for_again_later_and_later() -> None:
    followed = follow(ScriptedTransport([refusal(404, "NotFound")] * 20), 30, is_optional=True)
    assert followed.told == [False]
    assert (followed.reflector.is_missing, followed.reflector.answered.is_set()) == (True, True)
    assert not followed.reflector.listed.is_set()
    delays = [state.seconds for state in followed.states if isinstance(state, BackOff)]
    assert 15 <= delays[-1] <= 30


def test_a_missing_kind_heals_when_it_appears() -> None:
    answers: list[Response | ApiError | Silence] = [refusal(404, "NotFound"), page(pod_json("a", 4), version=5)]
    followed = follow(ScriptedTransport(answers), 3, is_optional=True)
    assert followed.told == [False, True]
    assert followed.names == ["a"]
    assert (followed.reflector.is_missing, followed.reflector.listed.is_set()) == (False, True)


def test_of_a_kind_that_vanishes_nothing_is_left() -> None:
    transport = ScriptedTransport(
        [page(pod_json("a", 4), version=5), refusal(404, "NotFound"), refusal(404, "NotFound")],
        [[ApiError(404, "NotFound", "no such kind")]],
    )
    followed = follow(transport, 5, is_optional=True)
    assert followed.told == [False]
    assert followed.names == []


def test_a_kind_that_came_back_is_filled_again() -> None:
    transport = ScriptedTransport(
        [page(pod_json("a", 4), version=5), refusal(404, "NotFound"), page(pod_json("a", 8), version=9)],
        [[ApiError(404, "NotFound", "no such kind")]],
    )
    followed = follow(transport, 6, is_optional=True)
    assert followed.told == [False, True]
    assert followed.names == ["a"]


@pytest.mark.parametrize("code", [401, 403, 429, 500, 503])
def test_a_server_that_does_not_answer_says_nothing_about_the_kind(code: int) -> None:
    transport = ScriptedTransport([page(pod_json("a", 4), version=5), refusal(code, "No")], [[error_line(410, "Gone")]])
    followed = follow(transport, 3, is_optional=True)
    assert (followed.told, followed.names) == ([], ["a"])
    unanswered = follow(ScriptedTransport([refusal(code, "No")]), 1, is_optional=True)
    assert not unanswered.reflector.answered.is_set()


def test_a_kind_that_must_be_there_is_not_missing_when_it_is_not_found() -> None:
    followed = follow(ScriptedTransport([refusal(404, "NotFound")]), 1)
    assert (followed.reflector.is_missing, followed.reflector.answered.is_set()) == (False, False)


def test_a_cut_watch_is_told_of_and_an_orderly_end_is_not() -> None:
    transport = ScriptedTransport([page(version=5)], [[UNTIL_THE_END], [Silence(2), ConnectionLost("cut")]])
    followed = follow(transport, 2)
    assert (followed.lost_count, followed.cut_count) == (0, 0)
    followed = follow(ScriptedTransport([page(version=5)], [[Silence(2), ConnectionLost("cut")]]), 2)
    assert (followed.lost_count, followed.cut_count) == (1, 1)
    # A server that stops in order.
    followed = follow(ScriptedTransport([page(version=5)], [[Silence(100)]]), 2)
    assert (followed.lost_count, followed.cut_count) == (0, 1)


def manifest(name: str) -> JsonObject:
    spec = {"containers": [{"name": "main", "image": "pause"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


class Cluster:
    def __init__(self, *, history: int = 1000) -> None:
        self.clock = LoopClock(EPOCH)
        self.server = ApiServer(self.clock, Random(1), history=history)
        self.client = Client(InProcessTransport(self.server, self.clock), self.clock)
        self.store = Store[Pod]()
        self.reflector = Reflector(self.client, PODS, self.store, self.clock, Random(2))

    async def pods(self) -> list[Pod]:
        return sorted((await self.client.list(PODS)).items, key=_name)


def _name(pod: Pod) -> str:
    return pod.metadata.name


def test_on_a_cluster_the_cache_becomes_what_the_server_holds() -> None:
    async def main() -> tuple[list[Pod], list[Pod], int]:
        cluster = Cluster()
        await cluster.client.create(PODS, "default", manifest("early"))
        task = asyncio.create_task(cluster.reflector.run())
        await cluster.reflector.listed.wait()
        for number in range(20):
            await cluster.client.create(PODS, "default", manifest(f"p{number:02}"))
        await cluster.client.delete(PODS, "default", "p03")
        await cluster.client.patch(PODS, "default", "p04", {"metadata": {"labels": {"a": "b"}}})
        await cluster.clock.sleep(2000)
        task.cancel()
        return sorted(cluster.store.values(), key=_name), await cluster.pods(), cluster.reflector.restarts

    cached, held, restarts = run_virtual(main())
    assert cached == held
    assert (len(held), restarts) == (20, 0)


def test_on_a_cluster_a_forgotten_past_is_listed_again() -> None:
    async def main() -> tuple[list[Pod], list[Pod]]:
        cluster = Cluster(history=5)
        state = await cluster.reflector.step(ListAll())
        for number in range(20):
            await cluster.client.create(PODS, "default", manifest(f"p{number:02}"))
        state = await cluster.reflector.step(state)
        assert state == ListAll(failures=1)
        await cluster.reflector.step(state)
        return sorted(cluster.store.values(), key=_name), await cluster.pods()

    cached, held = run_virtual(main())
    assert cached == held


def test_on_a_cluster_what_we_delete_is_gone_at_once_and_for_good() -> None:
    async def main() -> tuple[list[str], list[str], int]:
        cluster = Cluster()
        seen: list[str] = []
        cluster.store.subscribe(_note_names(seen))
        task = asyncio.create_task(cluster.reflector.run())
        await cluster.reflector.listed.wait()
        created = await cluster.client.create(PODS, "default", manifest("a"))
        cluster.store.observe(created)
        assert await cluster.client.delete(PODS, "default", "a", uid=created.metadata.uid) is None
        cluster.store.forget(created.metadata.uid)
        names = [pod.metadata.name for pod in cluster.store.values()]
        await cluster.clock.sleep(10)
        task.cancel()
        return names, seen, cluster.store.tombstone_count

    assert run_virtual(main()) == ([], ["+a", "-a"], 0)


def _note_names(seen: list[str]) -> Callable[[Pod | None, Pod | None], None]:
    def note(old: Pod | None, new: Pod | None) -> None:
        if old is None and new is not None:
            seen.append(f"+{new.metadata.name}")
        if new is None and old is not None:
            seen.append(f"-{old.metadata.name}")

    return note
