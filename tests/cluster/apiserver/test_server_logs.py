"""What containers wrote, as far as anybody knows."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.verbs.logs import LogLine
from grove.cluster.kubelet.simulated.simulated_logs import SimulatedLogs
from grove.kube.api_errors import ApiError
from grove.kube.transport import Request
from grove.sim.virtual_clock import run_virtual
from tests.cluster.apidsl import NODES, PODS, Api, fresh_api, node, on_cluster, pod

_STARTED: JsonObject = {"name": "main", "ready": True, "state": {"running": {"startedAt": "2026-01-01T11:00:00Z"}}}
_READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T11:00:05Z"}


class _ThreeLines:
    def lines(self, pod: JsonObject, container: str, state: JsonObject) -> tuple[LogLine, ...]:
        return tuple(LogLine(f"2026-01-01T11:59:{second}Z", f"{container} {second}") for second in (10, 20, 30))

    def follow(self, pod: JsonObject, container: str, state: JsonObject, wake: Callable[[], None]) -> None:
        """Nothing is written later."""


async def _running(api: Api, *containers: str) -> None:
    await api.post(NODES, node("n"))
    spec = {"containers": [{"name": name, "image": "i"} for name in containers or ("main",)]}
    await api.post(PODS, pod("a", spec=spec))
    await api.bind("a", "n")
    statuses = [{**_STARTED, "name": name} for name in containers or ("main",)]
    await api.merge(f"{PODS}/a/status", {"status": {"containerStatuses": statuses, "conditions": [_READY]}})


async def _log(api: Api, **query: str) -> tuple[int, str]:
    answer = await api.transport.send(Request(method="GET", path=f"{PODS}/a/log", query=query))
    if answer.status < 400:
        return answer.status, answer.body.decode()
    return answer.status, str(msgspec.json.decode(answer.body)["message"])


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ({}, (10, 20, 30)),
        ({"tailLines": "2"}, (20, 30)),
        ({"tailLines": "0"}, ()),
        ({"tailLines": "9"}, (10, 20, 30)),
        ({"sinceSeconds": "40"}, (20, 30)),
        ({"sinceTime": "2026-01-01T11:59:30Z"}, (30,)),
        ({"sinceTime": "2026-01-01T11:59:20.5Z"}, (30,)),
        ({"sinceTime": "2026-01-01T12:59:20+01:00"}, (20, 30)),
    ],
)
def test_a_part_of_the_log_can_be_asked_for(query: dict[str, str], seconds: tuple[int, ...]) -> None:
    async def story() -> None:
        api = fresh_api(logs=_ThreeLines())
        await _running(api)
        assert await _log(api, **query) == (200, "".join(f"main {second}\n" for second in seconds))

    run_virtual(story())


def test_lines_may_carry_their_times() -> None:
    async def story() -> None:
        api = fresh_api(logs=_ThreeLines())
        await _running(api)
        assert await _log(api, timestamps="true", tailLines="1") == (200, "2026-01-01T11:59:30Z main 30\n")
        assert await _log(api, limitBytes="4") == (200, "main")

    run_virtual(story())


def test_of_several_containers_one_must_be_named() -> None:
    async def story() -> None:
        api = fresh_api(logs=_ThreeLines())
        await _running(api, "one", "two")
        assert await _log(api) == (400, "a container name must be specified for pod a, choose one of: [one two]")
        assert await _log(api, container="two", tailLines="1") == (200, "two 30\n")
        assert await _log(api, container="three") == (400, "container three is not valid for pod a")

    run_virtual(story())


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"tailLines": "-1"}, 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            {"sinceSeconds": "1", "sinceTime": "2026-01-01T11:59:30Z"},
            422,
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ({"sinceSeconds": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"sinceTime": "yesterday"}, 400, 'sinceTime: Invalid value: "yesterday"'),
        ({"previous": "true"}, 400, 'previous terminated container "main" in pod "a" not found'),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(query: dict[str, str], code: int, words: str) -> None:
    async def story() -> None:
        api = fresh_api(logs=_ThreeLines())
        await _running(api)
        status, message = await _log(api, **query)
        assert (status, words in message) == (code, True), message

    run_virtual(story())


@on_cluster
async def test_a_container_that_waits_has_no_log(api: Api) -> None:
    assert (await api.get(f"{PODS}/a/log")).status == 404
    await api.post(PODS, pod("a"))
    assert await _log(api) == (204, "")
    await api.post(NODES, node("n"))
    await api.bind("a", "n")
    assert await _log(api) == (400, 'container "main" in pod "a" is waiting to start: ContainerCreating')


@on_cluster
async def test_a_cluster_without_a_kubelet_keeps_no_logs(api: Api) -> None:
    await _running(api)
    assert await _log(api) == (501, "this cluster has no container logs")


_ENDED: JsonObject = {
    "terminated": {"startedAt": "2026-01-01T10:00:00Z", "finishedAt": "2026-01-01T10:30:00Z", "exitCode": 3}
}


def test_a_simulated_container_logs_its_life_run_by_run() -> None:
    async def story() -> None:
        api = fresh_api(logs=SimulatedLogs())
        await _running(api)
        await _write_status(api, {**_STARTED, "lastState": _ENDED, "restartCount": 1})
        code, text = await _log(api, timestamps="true")
        assert (code, text.splitlines()) == (
            200,
            [
                "2026-01-01T11:00:00Z container main started (simulated: no process runs)",
                "2026-01-01T11:00:05Z container main is ready",
            ],
        )
        code, text = await _log(api, previous="true", timestamps="true")
        assert (code, text.splitlines()) == (
            200,
            [
                "2026-01-01T10:00:00Z container main started (simulated: no process runs)",
                "2026-01-01T10:30:00Z container main ended with exit code 3",
            ],
        )

    run_virtual(story())


def test_between_two_runs_the_log_is_that_of_the_last_one() -> None:
    async def story() -> None:
        api = fresh_api(logs=SimulatedLogs())
        await _running(api)
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        await _write_status(api, {**_STARTED, "ready": False, "state": waiting, "lastState": _ENDED})
        assert await _log(api, tailLines="1") == (200, "container main ended with exit code 3\n")

    run_virtual(story())


def _ended_with(exit_code: int) -> JsonObject:
    """The end of the run that `_STARTED` tells of."""
    run = _STARTED["state"]["running"]
    return {"terminated": {**run, "finishedAt": "2026-01-01T11:00:00Z", "exitCode": exit_code}}


async def _write_status(api: Api, status: JsonObject) -> None:
    answer = await api.merge(f"{PODS}/a/status", {"status": {"containerStatuses": [status]}})
    assert answer.status == 200, answer.body


@asynccontextmanager
async def _following(api: Api, **query: str) -> AsyncIterator[AsyncIterator[bytes]]:
    request = Request(method="GET", path=f"{PODS}/a/log", query={"follow": "true", **query})
    async with api.transport.stream(request) as lines:
        yield lines


def test_a_followed_log_goes_on_until_the_run_ends() -> None:
    async def story() -> None:
        api = fresh_api(logs=SimulatedLogs())
        await _running(api)
        await _write_status(api, {**_STARTED, "ready": False})
        async with _following(api) as lines:
            assert await anext(lines) == b"container main started (simulated: no process runs)"
            await _write_status(api, _STARTED)
            assert await anext(lines) == b"container main is ready"
            await _write_status(api, {**_STARTED, "ready": False, "state": _ended_with(0)})
            assert [line async for line in lines] == [b"container main ended with exit code 0"]

    run_virtual(story())


def test_the_next_run_of_a_container_is_not_followed() -> None:
    async def story() -> None:
        api = fresh_api(logs=SimulatedLogs())
        await _running(api)
        async with _following(api, tailLines="1") as lines:
            assert await anext(lines) == b"container main is ready"
            # In the same second: only the count of restarts tells the runs apart.
            await _write_status(api, {**_STARTED, "restartCount": 1, "lastState": _ended_with(1)})
            assert [line async for line in lines] == [b"container main ended with exit code 1"]

    run_virtual(story())


def test_a_followed_log_ends_with_its_pod() -> None:
    async def story() -> None:
        api = fresh_api(logs=SimulatedLogs())
        await _running(api)
        async with _following(api, tailLines="0") as lines:
            await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
            # A new pod of the same name is another one.
            await _running(api)
            assert [line async for line in lines] == []

    run_virtual(story())


def test_a_followed_log_may_be_limited() -> None:
    async def story() -> None:
        api = fresh_api(logs=_ThreeLines())
        await _running(api)
        async with _following(api, limitBytes="11") as lines:
            assert [line async for line in lines] == [b"main 10", b"mai"]

    run_virtual(story())


def test_what_cannot_be_followed_is_refused_before_anything_is_sent() -> None:
    async def story() -> None:
        api = fresh_api(logs=SimulatedLogs())
        await api.post(PODS, pod("a"))
        async with _following(api) as lines:
            assert [line async for line in lines] == []
        await api.post(NODES, node("n"))
        await api.bind("a", "n")
        with pytest.raises(ApiError, match="is waiting to start: ContainerCreating"):
            async with _following(api):
                pass

    run_virtual(story())


def test_the_clock_of_the_cluster_decides_how_long_ago() -> None:
    async def story() -> None:
        api = fresh_api(logs=_ThreeLines())
        await _running(api)
        await api.clock.sleep(10)
        assert await _log(api, sinceSeconds="45") == (200, "main 30\n")

    run_virtual(story())
