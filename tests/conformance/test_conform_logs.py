"""Logs of pods that run nowhere: what can be asked, and what is refused. What a kubelet answers is not compared."""

from typing import Any

import pytest

from tests.conformance.talk import Talk, pod
from tests.conformance.words import NO_SUCH_METHOD


async def test_a_pod_that_is_nowhere_has_written_nothing(api: Talk) -> None:
    await api.create("pods", pod("a"))
    answer = await api.get(api.at("pods", "a", "log"))
    assert (answer.status, answer.raw) == (204, b"")


async def test_one_of_several_containers_must_be_chosen(api: Talk) -> None:
    containers = [{"name": name, "image": "registry.example/pause:3.10"} for name in ("x", "y")]
    await api.create("pods", pod("a", spec={"containers": containers}))
    path = api.at("pods", "a", "log")
    message = "a container name must be specified for pod a, choose one of: [x y]"
    assert (await api.get(path)).refusal == (400, "BadRequest", message)
    answer = await api.get(path, container="z")
    assert answer.refusal == (400, "BadRequest", "container z is not valid for pod a")
    assert (await api.get(path, container="x")).status == 204


OPTIONS: list[Any] = [
    ({"tailLines": "-1"}, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
    ({"limitBytes": "0"}, "limitBytes: Invalid value: 0: must be greater than 0"),
    ({"sinceSeconds": "0"}, "sinceSeconds: Invalid value: 0: must be greater than 0"),
    (
        {"sinceSeconds": "1", "sinceTime": "2026-01-01T00:00:00Z"},
        "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
    ),
]


@pytest.mark.parametrize(("query", "problem"), OPTIONS)
async def test_options_of_a_log_that_make_no_sense_are_refused(api: Talk, query: Any, problem: str) -> None:
    await api.create("pods", pod("a"))
    answer = await api.get(api.at("pods", "a", "log"), **query)
    assert answer.refusal == (422, "Invalid", f'PodLogOptions "a" is invalid: {problem}')


async def test_a_number_of_lines_is_a_number(api: Talk) -> None:
    await api.create("pods", pod("a"))
    answer = await api.get(api.at("pods", "a", "log"), tailLines="x")
    assert answer.refusal == (400, "BadRequest", 'strconv.ParseInt: parsing "x": invalid syntax')


async def test_what_is_not_there_has_no_log(api: Talk) -> None:
    assert (await api.get(api.at("pods", "a", "log"))).refusal == (404, "NotFound", 'pods "a" not found')


async def test_a_log_is_only_read(api: Talk) -> None:
    await api.create("pods", pod("a"))
    assert (await api.post(api.at("pods", "a", "log"), {})).refusal == NO_SUCH_METHOD
