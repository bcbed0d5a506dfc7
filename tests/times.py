"""A pytest plugin that prints where the time of a run goes: `make test ARGS='-p tests.times'`.

One table by folder, one by file, one by test. "cpu" are seconds of processor time of the test and of the processes that
it started and awaited; "wall" includes waiting, and other programs that run at the same time. Both include fixtures.
"""

import os
from collections.abc import Callable, Generator, Sequence

import msgspec
import pytest

ROWS = 40
_PROPERTY = "cpu seconds"
_started = pytest.StashKey[float]()


class Case(msgspec.Struct):
    """The seconds of one test."""

    file: str
    name: str
    wall: float = 0.0
    cpu: float = 0.0


_cases: dict[str, Case] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_started] = _processor_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown":
        report.user_properties.append((_PROPERTY, _processor_seconds() - item.stash[_started]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the seconds of a test; with several workers this runs in the process that started them."""
    file, _, name = report.nodeid.partition("::")
    case = _cases.setdefault(report.nodeid, Case(file, name))
    case.wall += report.duration
    case.cpu += sum(float(str(value)) for key, value in report.user_properties if key == _PROPERTY)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    cases = list(_cases.values())
    for title, key in (
        ("folder", lambda case: case.file.rpartition("/")[0]),
        ("file", lambda case: case.file),
        ("test", lambda case: f"{case.file}::{case.name}"),
    ):
        for line in table(title, cases, key):
            terminalreporter.write_line(line)


def table(title: str, cases: Sequence[Case], key: Callable[[Case], str]) -> list[str]:
    """Return the lines of a table of groups of tests, those with the most processor time first."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(key(case), []).append(case)
    ordered = sorted(groups.items(), key=lambda group: -sum(case.cpu for case in group[1]))
    rows = [("all", list(cases)), *ordered[:ROWS]]
    return [
        f"{'cpu':>8} {'wall':>8} {'tests':>6}  {title}",
        *(
            f"{sum(c.cpu for c in group):8.1f} {sum(c.wall for c in group):8.1f} {len(group):6}  {name}"
            for name, group in rows
        ),
        "",
    ]


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
