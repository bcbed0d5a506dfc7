"""Who leads, on a real API server: kills, frozen programs, a server that comes back, kinds that are missing."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grove.api.types.meta import JsonObject
from tests.cli.console import ROOT, grove
from tests.cli.operators import ELECTION, Operator, write_config
from tests.e2e.audit import read_audit
from tests.e2e.installation import await_served
from tests.kube.controlplane.build import build
from tests.kube.controlplane.plane import Plane, running_plane, start_process

pytestmark = pytest.mark.kube

LEASE = "grove-operator-leader-election"
SETS = ("podcliquesets.grove.io",)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with running_plane(tmp_path) as one:
        yield one


def operator(plane: Plane) -> Operator:
    config = write_config(plane.folder, leaderElection=ELECTION)
    return Operator(plane.folder, "--config", str(config), "--kubeconfig", str(plane.kubeconfig))


def install_kinds(plane: Plane) -> None:
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=grove(plane.folder, "crds").out)
    await_served(plane.user("admin"), SETS)


def lease(plane: Plane) -> JsonObject:
    spec: JsonObject = plane.user("admin").json("get", "lease", LEASE)["spec"]
    return spec


def test_kinds_that_are_not_installed_are_said_and_waited_for(plane: Plane) -> None:
    with operator(plane) as only:
        line = only.read_until("cannot list podcliquesets")
        assert (line["code"], "grove crds" in line["advice"]) == (404, True)
        only.wait_for_output("podgangs: 404", "readyz")
        assert only.ask("readyz").status == 503
        install_kinds(plane)
        found = {only.read_until("can list ")["resource"] for _ in range(5)}
        own = {"podcliquesets", "podcliques", "podcliquescalinggroups", "podgangs", "clustertopologybindings"}
        assert found == own
        only.wait_for_output("ok\n", "readyz")
        assert only.end() == 0
    assert lease(plane)["holderIdentity"] == ""


def test_the_lead_passes_on_after_a_kill_a_freeze_and_a_stop(plane: Plane) -> None:
    install_kinds(plane)
    with operator(plane) as first, operator(plane) as second:
        leader, other = (first, second) if lease_holder_of(first, plane) else (second, first)
        # It knows: one that is stopped before it has read the answer never led.
        leader.read_until("leading")
        leader.process.send_signal(signal.SIGSTOP)
        other.read_until("leading")
        leader.process.send_signal(signal.SIGCONT)
        lost = leader.read_until("lease lost")
        assert lost["level"] == "error"
        assert leader.read_until("waiting for the lease")["holder"] == other.start["identity"]
        plane.kubectl("apply", "-f", str(ROOT / "examples" / "quickstart.yaml"))
        other.wait_for_output('resource="pods",verb="create"} 10.0', "metrics")
        other.end(signal.SIGKILL)
        leader.read_until("leading")
        assert leader.end() == 0
        assert [line["msg"] for line in leader.lines[-2:]] == ["lease released", "stopped"]
    assert (lease(plane)["holderIdentity"], lease(plane)["leaseTransitions"]) == ("", 2)
    created = [asked for asked in read_audit(plane, "admin") if (asked.verb, asked.resource) == ("create", "pods")]
    assert len(created) == 10


def lease_holder_of(candidate: Operator, plane: Plane) -> bool:
    """Is it this one that leads? Asked until somebody does."""
    while True:
        found = plane.user("admin").attempt("get", "lease", LEASE, "-o", "jsonpath={.spec.holderIdentity}")
        if found.out:
            return bool(found.out == candidate.start["identity"])


def test_a_server_that_restarts_costs_nobody_the_lead_for_long(plane: Plane) -> None:
    install_kinds(plane)
    with operator(plane) as only:
        only.read_until("leading")
        only.wait_for_output("ok\n", "readyz")
        plane.restart("kube-apiserver")
        plane.await_ready()
        await_served(plane.user("admin"), SETS)
        plane.kubectl("apply", "-f", str(ROOT / "examples" / "quickstart.yaml"))
        only.wait_for_output('resource="pods",verb="create"} 10.0', "metrics")
        assert only.end() == 0


def test_the_lease_is_understood_by_those_of_kubernetes_itself(plane: Plane) -> None:
    """A kube-scheduler that wants the same lease waits for us, and we for it."""
    install_kinds(plane)
    with operator(plane) as ours:
        ours.read_until("leading")
        with rival_scheduler(plane):
            ours.wait_for_output("leader: this process", "readyz")
            ours.end(signal.SIGKILL)
            holder = next(holder for holder in holders(plane) if holder != ours.start["identity"])
            with operator(plane) as next_one:
                assert next_one.read_until("waiting for the lease")["holder"] == holder
                next_one.wait_for_output(f"leader: {holder}", "readyz")
        # Where the block ends it is killed: nobody gives the lease back.
        with operator(plane) as last:
            last.read_until("leading")
            assert last.end() == 0
    assert lease(plane)["leaseTransitions"] == 2


def holders(plane: Plane) -> Iterator[str]:
    while True:
        yield lease(plane)["holderIdentity"]


@contextmanager
def rival_scheduler(plane: Plane) -> Iterator[None]:
    flags = {
        "kubeconfig": plane.kubeconfig,
        "leader-elect": "true",
        "leader-elect-resource-name": LEASE,
        "leader-elect-resource-namespace": "default",
        # It ends when it loses the lease, which a busy machine could bring about.
        "leader-elect-lease-duration": "30s",
        "leader-elect-renew-deadline": "25s",
        "leader-elect-retry-period": "1s",
        "secure-port": 0,
    }
    command = [str(build(plane.version)), "kube-scheduler", *(f"--{name}={value}" for name, value in flags.items())]
    with (plane.folder / "rival.log").open("ab") as log:
        process = start_process(command, log)
        try:
            yield
        finally:
            process.kill()
            process.wait()
