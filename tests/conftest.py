"""What tests of several rooms share: the real control plane, started once for all that ask for it; and patience."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.kube.controlplane.definitions import serve_our_kinds
from tests.kube.controlplane.plane import Plane, running_plane

# How long an example takes says more about what else the machine does than about us. A check of somebody's change tries
# the same examples again and again; what a search finds in other code is for whoever runs the tests himself.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A real control plane with our kinds. Everybody works in a namespace of his own and changes nothing for all.

    Whoever stops components or installs webhooks starts a plane of his own.
    """
    with running_plane(tmp_path_factory.mktemp("plane")) as running:
        serve_our_kinds(running)
        yield running
