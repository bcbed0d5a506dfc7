"""Our kinds on a real control plane that knows nothing else of us."""

from time import monotonic, sleep

import msgspec

from grove.api.crds import KINDS, custom_resource_definitions
from tests.kube.controlplane.plane import READY_SECONDS, Plane

_IS_SERVED = "{.items[*].status.conditions[?(@.type=='Established')].status}"


def serve_our_kinds(plane: Plane) -> None:
    for definition in custom_resource_definitions():
        plane.kubectl("create", "-f", "-", stdin=msgspec.json.encode(definition).decode())
    await_our_kinds(plane)


def await_our_kinds(plane: Plane) -> None:
    """Until they are served. kubectl's own wait gives up on a definition that has no condition yet."""
    deadline = monotonic() + READY_SECONDS
    while plane.kubectl("get", "crd", "-o", f"jsonpath={_IS_SERVED}").split() != ["True"] * len(KINDS):
        assert monotonic() < deadline, "our kinds are not served"
        sleep(0.1)
