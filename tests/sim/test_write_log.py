"""What happened, as text."""

import msgspec
import pytest

from grove.kube.transport import Request
from grove.sim.faults import RecordedWrite
from grove.sim.write_log import Timeline

PODS = "/api/v1/namespaces/default/pods"


def write(
    method: str, path: str, *, status: int = 200, at: float = 1.5, body: object = None, selector: str = ""
) -> RecordedWrite:
    query = {"labelSelector": selector} if selector else {}
    request = Request(method=method, path=path, query=query, body=msgspec.json.encode(body or {}))
    return RecordedWrite(at=at, request=request, status=status)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (write("POST", PODS, body={"metadata": {"name": "a"}}), "create pods default/a"),
        (write("POST", PODS, body={"metadata": {"generateName": "a-"}}), "create pods default/a-..."),
        (write("POST", "/api/v1/nodes", body={"metadata": {"name": "n"}}), "create nodes n"),
        (write("POST", f"{PODS}/a/binding", body={"target": {"name": "n"}}), "bind pods default/a to n"),
        (write("PATCH", f"{PODS}/a/status"), "patch pods/status default/a"),
        (write("DELETE", f"{PODS}/a"), "delete pods default/a"),
        (write("DELETE", PODS, selector="x=y"), "deletecollection pods default/ where x=y"),
        (write("DELETE", f"{PODS}/a", status=409), "delete pods default/a -> 409"),
    ],
)
def test_each_write_is_a_line_with_its_time_its_writer_and_what_came_of_it(
    written: RecordedWrite, sentence: str
) -> None:
    timeline = Timeline()
    timeline.record("operator", written)
    assert timeline.text() == f"       1.500  operator   {sentence}\n"


def test_the_end_of_a_timeline_can_be_shown_alone() -> None:
    timeline = Timeline()
    for number in range(5):
        timeline.record("user", write("DELETE", f"{PODS}/pod-{number}", at=number))
    assert timeline.text(last=2) == (
        "       3.000  user       delete pods default/pod-3\n       4.000  user       delete pods default/pod-4\n"
    )


def test_writes_are_found_by_their_writer() -> None:
    timeline = Timeline()
    first, second, third = (write("DELETE", f"{PODS}/{name}") for name in "abc")
    for who, written in (("user", first), ("operator", second), ("user", third)):
        timeline.record(who, written)
    assert timeline.writes_by("user") == (first, third)
