"""Fixtures and settings of all tests: one real control plane per worker, Hypothesis, the seed of random tests."""

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.kube.controlplane.definitions import serve_our_kinds
from tests.kube.controlplane.plane import Plane, running_plane
from tests.seeds import SEED_VARIABLE, commit_seed

# How long an example takes depends on what else the machine does, so it is no reason to fail.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", PATIENT, max_examples=25)
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
