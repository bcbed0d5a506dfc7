"""Our kinds on a real control plane that knows nothing else of us."""

from time import monotonic, sleep

import msgspec

from grove.api.schema.crd_generator import KINDS, custom_resource_definitions
from tests.kube.controlplane.plane import READY_SECONDS, Plane


def serve_our_kinds(plane: Plane) -> None:
    for definition in custom_resource_definitions():
        plane.kubectl("create", "-f", "-", stdin=msgspec.json.encode(definition).decode())
    await_our_kinds(plane)


def await_our_kinds(plane: Plane) -> None:
    """Until they are served, told of in discovery, and listed: whoever lists one first may be asked to come again."""
    deadline = monotonic() + READY_SECONDS
    every = ",".join(kind.full_name for kind in KINDS)
    while (listed := plane.user("admin").attempt("get", every, "--all-namespaces")).code != 0:
        assert monotonic() < deadline, f"our kinds are not served: {listed.err}"
        sleep(0.1)
