"""What tests of several rooms share: the real control plane, started once for all that ask for it."""

from collections.abc import Iterator

import msgspec
import pytest

from grove.api.crds import custom_resource_definitions
from tests.kube.controlplane.plane import Plane, running_plane


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A real control plane with our kinds. Everybody works in a namespace of his own and changes nothing for all.

    Whoever stops components or installs webhooks starts a plane of his own.
    """
    with running_plane(tmp_path_factory.mktemp("plane")) as running:
        definitions = custom_resource_definitions()
        for definition in definitions:
            running.kubectl("create", "-f", "-", stdin=msgspec.json.encode(definition).decode())
        names = [f"crd/{definition['metadata']['name']}" for definition in definitions]
        running.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
        yield running
