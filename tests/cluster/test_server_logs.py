"""What containers wrote, as far as anybody knows."""

import msgspec
import pytest

from grove.api.meta import JsonObject
from grove.cluster.kubelet.simulated_logs import SimulatedLogs
from grove.cluster.server.logs import LogLine
from grove.kube.transport import Request
from grove.sim.clock import run_virtual
from tests.cluster.apidsl import NODES, PODS, Api, fresh_api, node, on_cluster, pod

_STARTED: JsonObject = {"name": "main", "ready": True, "state": {"running": {"startedAt": "2026-01-01T11:00:00Z"}}}
_READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T11:00:05Z"}


class _ThreeLines:
    def lines(self, pod: JsonObject, container: str) -> tuple[LogLine, ...]:
        return tuple(LogLine(f"2026-01-01T11:59:{second}Z", f"{container} {second}") for second in (10, 20, 30))


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
    ("query", "code"),
    [({"tailLines": "-1"}, 400), ({"sinceSeconds": "x"}, 400), ({"previous": "true"}, 400), ({"follow": "true"}, 501)],
)
def test_what_cannot_be_told_is_refused(query: dict[str, str], code: int) -> None:
    async def story() -> None:
        api = fresh_api(logs=_ThreeLines())
        await _running(api)
        assert (await _log(api, **query))[0] == code

    run_virtual(story())


@on_cluster
async def test_a_container_that_waits_has_no_log(api: Api) -> None:
    assert (await api.get(f"{PODS}/a/log")).status == 404
    await api.post(PODS, pod("a"))
    assert await _log(api) == (400, "pod a does not have a host assigned")
    await api.post(NODES, node("n"))
    await api.bind("a", "n")
    assert await _log(api) == (400, 'container "main" in pod "a" is waiting to start: ContainerCreating')


@on_cluster
async def test_a_cluster_without_a_kubelet_keeps_no_logs(api: Api) -> None:
    await _running(api)
    assert await _log(api) == (501, "logs are not kept by the kubelet of this cluster")


def test_a_simulated_container_logs_its_life() -> None:
    ended = {"startedAt": "2026-01-01T10:00:00Z", "finishedAt": "2026-01-01T10:30:00Z", "exitCode": 3}
    status = {**_STARTED, "lastState": {"terminated": ended}}
    lines = SimulatedLogs().lines({"status": {"containerStatuses": [status], "conditions": [_READY]}}, "main")
    assert [(line.written_at[11:19], line.text) for line in lines] == [
        ("10:00:00", "container main started (simulated: no process runs)"),
        ("10:30:00", "container main ended with exit code 3"),
        ("11:00:00", "container main started (simulated: no process runs)"),
        ("11:00:05", "container main is ready"),
    ]
    assert SimulatedLogs().lines({}, "main") == ()


def test_the_clock_of_the_cluster_decides_how_long_ago() -> None:
    async def story() -> None:
        api = fresh_api(logs=_ThreeLines())
        await _running(api)
        await api.clock.sleep(10)
        assert await _log(api, sinceSeconds="45") == (200, "main 30\n")

    run_virtual(story())
