"""Clients that others wrote, on both servers: `grove up` in a process of its own, and the real one (`kube`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.served import grove_up
from tests.kube.controlplane.plane import Plane


@pytest.fixture(scope="session")
def embedded_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with grove_up(tmp_path_factory.mktemp("clients") / "up", "--no-operator", "--nodes", "0") as kubectl:
        yield kubectl.kubeconfig


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """How to reach the server that the test is about, as its administrator."""
    if request.param == "embedded":
        path: Path = request.getfixturevalue("embedded_kubeconfig")
        return path
    plane: Plane = request.getfixturevalue("plane")
    return plane.kubeconfig
