"""A real Kubernetes control plane on loopback, for one test module: `with running_plane(folder) as plane:`.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler, each a process that a test may kill and start again.
No kubelet: `nodes.py` beside this file makes nodes and runs pods. Building the binary is `build.py`.
"""

import base64
import os
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import BinaryIO

import msgspec
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from grove.cluster.http.loopback_certificates import make_certificates
from grove.kube.kubeconfig import Access, find_access
from tests.e2e.served import Kubectl
from tests.kube.controlplane.build import build, chosen_version
from tests.processes import die_with_parent

# A safety net, far above what anything takes: several planes may start at once on a machine of two processors.
READY_SECONDS = 240.0
STOP_SECONDS = 30.0
ADMIN_TOKEN = "admin-of-the-tests"
# The controller manager is a user of its own, and each of its controllers too: webhooks tell them apart.
MANAGER_TOKEN = "manager-of-the-tests"
MANAGER = "system:kube-controller-manager"
# Every write with its user, and nothing of its content.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
LOOPBACK = "127.0.0.1"
# They exit if the API server goes away while they start, and a kubelet starts them again.
_CLIENTS = ("kube-controller-manager", "kube-scheduler")
# Memory for processor time: each component collects garbage a fourth as often, unless it comes to use a lot.
_GARBAGE_COLLECTION = {"GOGC": "400", "GOMEMLIMIT": "600MiB"}
# Below those that a system hands out by itself: nobody else gets one of them by chance.
_PORTS = range(20_000, 30_000)


class Gangs(msgspec.Struct, frozen=True, kw_only=True):
    """How much of native gang scheduling is switched on: off in Kubernetes 1.37 unless asked for."""

    gates: str = ""
    apis: str = ""
    # Each component goes by its own gates, and nothing tells when they differ.
    has_scheduler: bool = True

    def flags(self, component: str) -> list[str]:
        is_on = bool(self.gates) and (component != "scheduler" or self.has_scheduler)
        return [f"--feature-gates={self.gates}"] if is_on else []


NO_GANGS = Gangs()
ONLY_GROUPS = Gangs(gates="GenericWorkload=true", apis="scheduling.k8s.io/v1beta1=true")
GANGS = Gangs(
    gates="GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true",
    apis="scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
)
BLIND_SCHEDULER = Gangs(gates=GANGS.gates, apis=GANGS.apis, has_scheduler=False)


class Plane:
    """One control plane. `start` and `stop` take the name of a component, for tests of its absence."""

    def __init__(self, folder: Path, *, version: str, gangs: Gangs, manager_flags: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.version = version
        self.audit_log = folder / "audit.log"
        self.kubeconfig = folder / "admin.kubeconfig"
        self._binary = build(version)
        self.gangs = gangs
        self._extra_manager_flags = manager_flags
        self._certificates = make_certificates(datetime.now(UTC))
        self._held = _hold_ports(5)
        self._ports = dict(zip(("etcd", "peer", "apiserver", "manager", "scheduler"), self._held, strict=True))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"https://{LOOPBACK}:{self._ports['apiserver']}"
        self._write_secrets()

    @property
    def ca(self) -> bytes:
        return self._certificates.ca

    @property
    def etcd_url(self) -> str:
        return f"http://{LOOPBACK}:{self._ports['etcd']}"

    def access(self, *, token: str = "") -> Access:
        """As the administrator, or as whoever has this token."""
        return find_access({}, kubeconfig=self.kubeconfig if not token else self.kubeconfig_for(token))

    def kubeconfig_for(self, token: str, name: str = "other") -> Path:
        path = self.folder / f"{name}.kubeconfig"
        _write_privately(path, _kubeconfig(self.url, self.ca, token).encode())
        return path

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """The control plane's own kubectl, as the administrator; fails with its words."""
        return self.user("admin")(*arguments, stdin=stdin).out

    def user(self, name: str) -> Kubectl:
        """kubectl of this Kubernetes version with the kubeconfig of that name."""
        home = self.folder / f"home-{name}"
        home.mkdir(exist_ok=True)
        return Kubectl(self.folder / f"{name}.kubeconfig", home, command=(str(self._binary), "kubectl"))

    def start(self, component: str) -> None:
        with (self.folder / f"{component}.log").open("ab") as log:
            command = [str(self._binary), component, *self._flags(component)]
            self._processes[component] = start_process(command, log, {**_GARBAGE_COLLECTION, **os.environ})

    def stop(self, component: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Until it has ended; one that does not listen is killed."""
        process = self._processes.pop(component, None)
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, component: str, number: signal.Signals = signal.SIGKILL) -> None:
        self.stop(component, number)
        self.start(component)

    def await_ready(self) -> None:
        deadline = monotonic() + READY_SECONDS
        while not self._is_ready():
            self._restart_ended()
            if monotonic() > deadline:
                raise RuntimeError(f"not ready after {READY_SECONDS:g} s\n{self._last_words('kube-apiserver')}")
            sleep(0.05)
        self._restart_ended()

    def close(self) -> None:
        # An API server without its etcd would not go for minutes, and keep its port.
        for component in ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
            self.stop(component)
        for name in self._held.values():
            name.close()

    def _restart_ended(self) -> None:
        """Start clients of the API server again that ended because it was away; raise if a server itself ended."""
        for name, process in tuple(self._processes.items()):
            if process.poll() is None:
                continue
            if name not in _CLIENTS:
                raise RuntimeError(f"{name} ended with {process.returncode}\n{self._last_words(name)}")
            self.start(name)

    def _is_ready(self) -> bool:
        context = ssl.create_default_context(cadata=self.ca.decode())
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", context=context, timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _last_words(self, component: str) -> str:
        return (self.folder / f"{component}.log").read_text(errors="replace")[-3000:]

    def _write_secrets(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        files = {
            "sa.key": private,
            "sa.pub": public,
            "ca.crt": self._certificates.ca,
            "server.crt": self._certificates.certificate,
            "server.key": self._certificates.key,
            "tokens.csv": (
                f"{ADMIN_TOKEN},admin,admin,system:masters\n{MANAGER_TOKEN},{MANAGER},manager,system:masters\n"
            ).encode(),
            "admin.kubeconfig": _kubeconfig(self.url, self.ca, ADMIN_TOKEN).encode(),
            "manager.kubeconfig": _kubeconfig(self.url, self.ca, MANAGER_TOKEN).encode(),
            "audit-policy.yaml": yaml.safe_dump(AUDIT_POLICY).encode(),
            "scheduler.yaml": yaml.safe_dump(self._scheduler_configuration()).encode(),
        }
        for name, content in files.items():
            _write_privately(self.folder / name, content)

    def _scheduler_configuration(self) -> Mapping[str, object]:
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 1000, "burst": 2000},
            "leaderElection": {"leaderElect": False},
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
        }

    def _flags(self, component: str) -> list[str]:
        match component:
            case "etcd":
                return self._etcd_flags()
            case "kube-apiserver":
                return self._apiserver_flags()
            case "kube-controller-manager":
                return self._manager_flags()
            case "kube-scheduler":
                return [f"--config={self.folder / 'scheduler.yaml'}", *self._daemon_flags("scheduler")]
        raise ValueError(component)

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--client-url=http://{LOOPBACK}:{self._ports['etcd']}",
            f"--peer-url=http://{LOOPBACK}:{self._ports['peer']}",
        ]

    def _apiserver_flags(self) -> list[str]:
        flags = {
            "etcd-servers": f"http://{LOOPBACK}:{self._ports['etcd']}",
            "secure-port": str(self._ports["apiserver"]),
            "bind-address": LOOPBACK,
            "tls-cert-file": str(self.folder / "server.crt"),
            "tls-private-key-file": str(self.folder / "server.key"),
            "token-auth-file": str(self.folder / "tokens.csv"),
            "authorization-mode": "RBAC",
            "service-account-key-file": str(self.folder / "sa.pub"),
            "service-account-signing-key-file": str(self.folder / "sa.key"),
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-cluster-ip-range": "10.0.0.0/24",
            "endpoint-reconciler-type": "none",
            "enable-admission-plugins": "OwnerReferencesPermissionEnforcement",
            "audit-policy-file": str(self.folder / "audit-policy.yaml"),
            "audit-log-path": str(self.audit_log),
            "audit-log-mode": "batch",
            "audit-log-batch-max-wait": "1s",
        }
        if self.gangs.apis:
            flags["runtime-config"] = self.gangs.apis
        return [*(f"--{name}={value}" for name, value in flags.items()), *self.gangs.flags("apiserver")]

    def _manager_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.folder / 'manager.kubeconfig'}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            # Nodes here have no heartbeat.
            "--node-monitor-grace-period=24h",
            *self._extra_manager_flags,
            *self._daemon_flags("manager"),
        ]

    def _daemon_flags(self, name: str) -> list[str]:
        return [f"--secure-port={self._ports[name]}", f"--bind-address={LOOPBACK}", *self.gangs.flags(name)]


@contextmanager
def running_plane(
    folder: Path, *, version: str = "", gangs: Gangs = NO_GANGS, manager_flags: tuple[str, ...] = ()
) -> Iterator[Plane]:
    """From the moment it is ready until the end of the block; nothing is left running."""
    plane = Plane(folder, version=version or chosen_version(), gangs=gangs, manager_flags=manager_flags)
    try:
        for component in ("etcd", "kube-apiserver"):
            plane.start(component)
        plane.await_ready()
        for component in ("kube-controller-manager", "kube-scheduler"):
            plane.start(component)
        yield plane
    finally:
        plane.close()


def start_process(
    command: list[str], log: BinaryIO, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A process that ends with us, whatever ends us."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment,
        preexec_fn=die_with_parent,
    )


def _hold_ports(number: int) -> dict[int, socket.socket]:
    """Ports that nobody listens on, and that no other plane takes until what holds them is closed.

    Its processes bind them much later. A name in the kernel holds each, and goes with us whatever ends us."""
    held: dict[int, socket.socket] = {}
    first = os.getpid() * 97 % len(_PORTS)
    for port in (*_PORTS[first:], *_PORTS[:first]):
        if len(held) == number:
            break
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0port-of-a-plane-{port}")
            _bind_for_a_moment(port)
        except OSError:
            name.close()
            continue
        held[port] = name
    return held


def _bind_for_a_moment(port: int) -> None:
    """Raises OSError if somebody listens there."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((LOOPBACK, port))


def _write_privately(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def _kubeconfig(url: str, ca: bytes, token: str) -> str:
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "plane", "cluster": cluster}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "user"}}],
            "current-context": "plane",
        }
    )
