"""Fixtures and settings of all tests: one real control plane per worker, Hypothesis, the seed of random tests."""

import gc
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kube.controlplane.definitions import serve_our_kinds
from tests.kube.controlplane.plane import Plane, running_plane
from tests.seeds import SEED_VARIABLE, commit_seed

# How long an example takes depends on what else the machine does, so it is no reason to fail.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
_STORIES_ON_CLUSTERS = Path(__file__).parent / "e2e"
# A file all of whose tests have the mark.
_KUBE_FILE = re.compile(r"^pytestmark = pytest\.mark\.(kube|kubectl)$", re.MULTILINE)
settings.register_profile("quick", PATIENT, max_examples=10)
settings.register_profile("deep", PATIENT, max_examples=100)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give Hypothesis the seed of the commit, unless an option names another, and the examples of the tier."""
    # A shell starts background jobs with SIGINT ignored, and every program that a test interrupts would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("quick" if "not deep" in config.option.markexpr else "deep")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(commit_seed())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files out that have only tests for a real control plane, unless they run: importing them takes seconds."""
    if collection_path.suffix != ".py" or "not kube" not in config.option.markexpr:
        return None
    mark = _KUBE_FILE.search(collection_path.read_text())
    return True if mark is not None and f"not {mark[1]}" in config.option.markexpr.split(" and ") else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the stories on real clusters first: files that take minutes. Short ones at the end keep all workers busy.

    Until then no worker starts the control plane that the other folders share.
    """
    if "not kube" not in config.option.markexpr:
        items.sort(key=lambda item: _STORIES_ON_CLUSTERS not in item.path.parents)


def pytest_collection_finish() -> None:
    """Keep the garbage collector away from what stays: a sixth of the time of the simulation went into that."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"random tests: seed {commit_seed()}; {SEED_VARIABLE}={commit_seed()} replays them")


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A real control plane with our kinds. Everybody works in a namespace of his own and changes nothing for all.

    Whoever stops components or installs webhooks starts a plane of his own.
    """
    with running_plane(tmp_path_factory.mktemp("plane")) as running:
        serve_our_kinds(running)
        yield running
