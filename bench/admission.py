"""Admission at its limits: what each rule costs for the largest legal body, and what a crowd of hostile clients costs.

`python -m bench.admission`. The crowd is a process of its own (`python -m bench.admission crowd PORT SECONDS`) against
the webhook port of `grove operator` on a `grove up`, over loopback. Beside it probes are asked and the lease is read.
"""

import asyncio
import contextlib
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from bench.http import GROVE, connected, running
from bench.table import Row, show
from grove.admission.admission_review import decode_review
from grove.admission.json_patch import json_patch
from grove.admission.policy import review
from grove.api.defaulting import default_podcliqueset
from grove.api.resources import LEASES, PODCLIQUESETS
from grove.api.types.admission import AdmissionRequest, Operation
from grove.api.types.lease import Lease
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.validation.cliques import clique_errors
from grove.api.validation.devices.mnnvl import mnnvl_errors
from grove.api.validation.devices.resource_claims import sharing_errors
from grove.api.validation.groups import group_errors
from grove.api.validation.immutable_fields import change_errors
from grove.api.validation.object_budget import size_errors
from grove.api.validation.object_names import metadata_errors, name_errors
from grove.api.validation.podcliqueset import ENOUGH_ERRORS
from grove.api.validation.schema import decode_object
from grove.api.validation.startup_order import startup_errors
from grove.api.validation.stored_bytes import LARGEST_SPEC
from grove.api.validation.termination_delay import termination_errors
from grove.api.validation.topology_constraints import topology_errors
from grove.api.validation.training import training_errors
from grove.api.validation.validation_options import ValidationOptions
from grove.clock import LoopClock
from grove.kube.client import Client

T = TypeVar("T")

CLIQUES = 1_000
VARIABLES = LARGEST_SPEC // 18 - 100
CONNECTIONS = 1_000
CROWD_SECONDS = 20.0
RETRY_SECONDS = 2.0
PROBE_PAUSE = 0.02
SETTINGS = ValidationOptions()


def measure() -> Sequence[Row]:
    return [*measure_rules(), *measure_crowd()]


# --- rules -----------------------------------------------------------------------------------------------------------


def measure_rules() -> list[Row]:
    """CPU time of each, for the body that is worst for it."""
    bodies = {name: make() for name, make in BODIES.items()}
    decoded = {name: _decoded(body) for name, body in bodies.items()}
    rows = []
    for what, rule in RULES.items():
        took = {name: _cpu(rule, pcs) for name, pcs in decoded.items()}
        worst = max(took, key=took.__getitem__)
        rows.append(Row(f"rule: {what}", f"{took[worst] * 1000:.0f} ms", worst))
    for what, step in STEPS.items():
        took = {name: _cpu(step, body) for name, body in bodies.items()}
        worst = max(took, key=took.__getitem__)
        rows.append(Row(what, f"{took[worst] * 1000:.0f} ms", f"{worst}, {_size(bodies[worst]) / 2**20:.2f} MiB"))
    return rows


def _cpu(act: Callable[[T], object], about: T) -> float:
    """The best of three: the machine may be busy. Of very many errors only the first are found."""
    times = []
    for _ in range(3):
        started = time.process_time()
        result = act(about)
        if isinstance(result, Iterator):
            list(islice(result, ENOUGH_ERRORS))
        times.append(time.process_time() - started)
    return min(times)


RULES: dict[str, Callable[[PodCliqueSet], Iterator[object]]] = {
    "metadata": metadata_errors,
    "size": size_errors,
    "names": name_errors,
    "cliques": lambda pcs: clique_errors(pcs.spec.template, SETTINGS),
    "groups": lambda pcs: group_errors(pcs.spec.template),
    "start-up order": lambda pcs: startup_errors(pcs.spec.template),
    "resource sharing": lambda pcs: sharing_errors(pcs.spec.template),
    "topology": lambda pcs: topology_errors(pcs.spec.template, SETTINGS, None),
    "termination": lambda pcs: termination_errors(pcs.spec),
    "training": lambda pcs: training_errors(pcs.spec),
    "NVLink": lambda pcs: mnnvl_errors(pcs, SETTINGS),
    "changes": lambda pcs: change_errors(pcs, pcs),
}

STEPS: dict[str, Callable[[JsonObject], object]] = {
    "the shape": lambda body: decode_object(PODCLIQUESETS, body),
    "defaulting, with its patch": lambda body: json_patch(body, default_podcliqueset(body)),
    "reading the question of an update": lambda body: decode_review(_question(body)),
    "a whole creation": lambda body: _reviewed(body, None),
    "a whole update": lambda body: _reviewed(body, body),
}


def _reviewed(body: JsonObject, old: JsonObject | None) -> object:
    operation = Operation.CREATE if old is None else Operation.UPDATE
    return review(
        AdmissionRequest(
            operation=operation, group=PODCLIQUESETS.group, plural=PODCLIQUESETS.plural, object=body, old=old
        )
    )


def _question(body: JsonObject) -> bytes:
    request = {
        "uid": "1", "operation": "UPDATE", "object": body, "oldObject": body,
        "resource": {"group": "grove.io", "version": "v1alpha1", "resource": "podcliquesets"},
    }  # fmt: skip
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def _decoded(body: JsonObject) -> PodCliqueSet:
    return msgspec.convert(default_podcliqueset(body), PodCliqueSet)


def _size(body: JsonObject) -> int:
    return len(msgspec.json.encode(body))


def _set(cliques: Sequence[JsonObject], **template: object) -> JsonObject:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "template": {"cliques": list(cliques), **template}},
    }


def _clique(name: str, starts_after: Sequence[str] = (), env: Sequence[JsonObject] = ()) -> JsonObject:
    container = {"name": "main", "image": "i", "env": list(env)}
    spec = {"roleName": name, "replicas": 1, "podSpec": {"containers": [container]}, "startsAfter": list(starts_after)}
    return {"name": name, "spec": spec}


def _ring_of_all() -> JsonObject:
    """Each of 1,000 cliques starts after as many others as fit."""
    names = [f"c{i}" for i in range(CLIQUES)]
    fit = (LARGEST_SPEC - CLIQUES * 160) // (CLIQUES * 7)
    return _set(
        [_clique(name, [names[(i + k) % CLIQUES] for k in range(1, fit)]) for i, name in enumerate(names)],
        cliqueStartupType="CliqueStartupTypeExplicit",
    )


def _variables() -> JsonObject:
    """As many variables as fit."""
    return _set([_clique("a", env=[{"name": f"V{i}"} for i in range(VARIABLES)])])


def _twin_variables() -> JsonObject:
    """The same, each named twice."""
    return _set([_clique("a", env=[{"name": f"V{i // 2}"} for i in range(VARIABLES)])])


def _groups() -> JsonObject:
    """Every clique in a group of its own, with names that are numbers."""
    names = [f"{i}-0-0-0-0-0-0-0-0" for i in range(CLIQUES)]
    return _set(
        [_clique(name) for name in names],
        podCliqueScalingGroups=[{"name": f"{i}-0-0-0-0", "cliqueNames": [name]} for i, name in enumerate(names)],
    )


def _labels() -> JsonObject:
    """As many labels as fit, all wrong."""
    labels = {f"not ok {i}": "" for i in range(LARGEST_SPEC // 18)}
    return _set([{**_clique("a"), "labels": labels}])


def _filters() -> JsonObject:
    names = [f"x{i}" for i in range(CLIQUES)]
    count = LARGEST_SPEC // (CLIQUES * 7)
    shared = [{"name": f"s{i}", "scope": "AllReplicas", "filter": {"childCliqueNames": names}} for i in range(count)]
    return _set([_clique("a")], resourceSharing=shared)


BODIES: dict[str, Callable[[], JsonObject]] = {
    "1,000 cliques after each other": _ring_of_all,
    "58,000 variables": _variables,
    "29,000 variables, each twice": _twin_variables,
    "1,000 groups of numbers": _groups,
    "58,000 wrong labels": _labels,
    "filters of 150,000 names": _filters,
}


# --- a crowd of clients ----------------------------------------------------------------------------------------------


class Found(msgspec.Struct, kw_only=True):
    probes: list[float] = []
    renewals: list[float] = []
    memory_before: float = 0.0
    memory_most: float = 0.0


def measure_crowd() -> list[Row]:
    quiet = _beside(None)
    crowd = _beside(lambda port: [sys.executable, "-m", "bench.admission", "crowd", str(port), str(CROWD_SECONDS)])
    bodies = _beside(lambda port: [sys.executable, "-m", "bench.admission", "bodies", str(port), str(CROWD_SECONDS)])
    found = {"nobody": quiet, f"{CONNECTIONS:,} hostile connections": crowd, "4 senders of the largest bodies": bodies}
    return [row for what, one in found.items() for row in _rows(what, one)]


def _rows(what: str, found: Found) -> list[Row]:
    probes = sorted(found.probes)
    median, most = probes[len(probes) // 2], probes[-len(probes) // 100]
    gaps = [later - earlier for earlier, later in zip(found.renewals, found.renewals[1:], strict=False)]
    missed = sum(int(gap / RETRY_SECONDS - 0.5) for gap in gaps if gap > 1.5 * RETRY_SECONDS)
    growth = found.memory_most - found.memory_before
    return [
        Row(
            f"{what}: slowest /healthz",
            f"{probes[-1] * 1000:.0f} ms",
            f"{len(probes)} asked, median {median * 1000:.1f} ms, 99 % below {most * 1000:.0f} ms",
        ),
        Row(f"{what}: lease renewals missed", str(missed), f"of {len(gaps)}, longest pause {max(gaps):.1f} s"),
        Row(f"{what}: growth of memory", f"{growth:.0f} MB", f"from {found.memory_before:.0f} MB"),
    ]


def _beside(crowd: Callable[[int], list[str]] | None) -> Found:
    """Start an operator, and look at it for a while, next to a crowd."""
    with tempfile.TemporaryDirectory(prefix="grove-bench-") as folder:
        kubeconfig, port = Path(folder) / "kubeconfig", _free_port()
        health = _free_port()
        config = _write_config(Path(folder), health)
        with running(str(GROVE), "up", "--nodes", "0", "--no-operator", "--kubeconfig", str(kubeconfig)):
            _wait_for(kubeconfig.exists)
            with _operator(kubeconfig, config, port) as operator:
                _wait_for(lambda: _is_ready(health))
                time.sleep(3.0)
                return asyncio.run(_watch(kubeconfig, operator.pid, health, crowd(port) if crowd else None))


async def _watch(kubeconfig: Path, pid: int, health: int, crowd: list[str] | None) -> Found:
    found = Found(memory_before=_memory(pid))
    process = await asyncio.create_subprocess_exec(*crowd) if crowd else None
    try:
        async with connected(kubeconfig) as transport, asyncio.timeout(CROWD_SECONDS + 120):
            client = Client(transport, LoopClock.starting_now())
            until = time.perf_counter() + CROWD_SECONDS
            await asyncio.gather(
                _probe(found, health, until), _read_lease(found, client, until), _weigh(found, pid, until)
            )
    finally:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
    return found


async def _probe(found: Found, port: int, until: float) -> None:
    while time.perf_counter() < until:
        started = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200"), answer
        found.probes.append(time.perf_counter() - started)
        await asyncio.sleep(PROBE_PAUSE)


async def _read_lease(found: Found, client: Client, until: float) -> None:
    while time.perf_counter() < until:
        lease: Lease = await client.get(LEASES, "default", "grove-operator-leader-election")
        renewed = lease.spec.renew_time
        assert renewed is not None
        at = renewed.timestamp()
        if not found.renewals or at != found.renewals[-1]:
            found.renewals.append(at)
        await asyncio.sleep(0.1)


async def _weigh(found: Found, pid: int, until: float) -> None:
    while time.perf_counter() < until:
        found.memory_most = max(found.memory_most, _memory(pid))
        await asyncio.sleep(0.05)


def _memory(pid: int) -> float:
    """Resident, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _write_config(folder: Path, health: int) -> Path:
    path = folder / "config.yaml"
    configuration = {
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "leaderElection": {"enabled": True, "retryPeriod": f"{RETRY_SECONDS:g}s", "resourceNamespace": "default"},
        "server": {"healthProbes": {"port": health}, "metrics": {"port": 0}},
    }
    path.write_text(yaml.safe_dump(configuration))
    return path


@contextmanager
def _operator(kubeconfig: Path, config: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    url = f"https://127.0.0.1:{port}"
    arguments = ["--kubeconfig", str(kubeconfig), "--config", str(config), "--webhook-url", url]
    process = subprocess.Popen([str(GROVE), "operator", *arguments], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _is_ready(health: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _wait_for(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise TimeoutError("the operator is not ready")


# --- the crowd, in a process of its own ------------------------------------------------------------------------------


async def _crowd(port: int, seconds: float) -> None:
    """Say nothing, half of a handshake, or headers letter by letter, a third each. Who is cut comes back."""
    until = time.perf_counter() + seconds
    kinds = (_say_nothing, _half_a_handshake, _slow_headers)
    async with asyncio.TaskGroup() as tasks:
        for number in range(CONNECTIONS):
            tasks.create_task(_again_and_again(kinds[number % 3], port, until))


async def _again_and_again(client: Callable[[int, float], object], port: int, until: float) -> None:
    while time.perf_counter() < until:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            await client(port, until)  # type: ignore[misc]
        await asyncio.sleep(1.0)


async def _say_nothing(port: int, until: float) -> None:
    reader, _ = await asyncio.open_connection("127.0.0.1", port)
    await _until_cut(reader, until)


async def _half_a_handshake(port: int, until: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x16\x03\x01\x02\x00\x01\x00")
    await _until_cut(reader, until)


async def _slow_headers(port: int, until: float) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    for letter in b"POST /webhooks/validate-podcliqueset HTTP/1.1\r\nX-Slow: " + b"x" * 1000:
        writer.write(bytes((letter,)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                if not await reader.read(1):
                    return
        if time.perf_counter() > until:
            return


async def _until_cut(reader: asyncio.StreamReader, until: float) -> None:
    async with asyncio.timeout(max(until - time.perf_counter(), 0.1)):
        await reader.read(1)


async def _send_bodies(port: int, seconds: float) -> None:
    """The largest legal bodies, one after the other, on four connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    bodies = [_question(make()) for make in BODIES.values()]
    until = time.perf_counter() + seconds

    async def send(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        number = first
        while time.perf_counter() < until:
            body = bodies[number % len(bodies)]
            head = "POST /webhooks/validate-podcliqueset HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length: ")[2].split()[0])
            await reader.readexactly(length)
            number += 1

    await asyncio.gather(*(send(first) for first in range(4)))


def main() -> None:
    match sys.argv[1:]:
        case ["crowd", port, seconds]:
            asyncio.run(_crowd(int(port), float(seconds)))
        case ["bodies", port, seconds]:
            asyncio.run(_send_bodies(int(port), float(seconds)))
        case ["rules"]:
            show("Admission at its limits: rules", measure_rules())
        case _:
            show("Admission at its limits", measure())


if __name__ == "__main__":
    main()
