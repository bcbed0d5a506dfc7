"""Native gangs against none on one real control plane: `python -m bench.gangs`. Needs `make kube`.

The same thousand pods: as a hundred gangs that kube-scheduler places whole, and pod by pod. Which of the two is decided
by an admission policy that refuses pods in groups, or pods in none: the operator asks first, and does without groups
where they are refused. Every figure is the middle one of some runs, the two kinds of them in turns.
"""

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from bench.plane import LONGEST_SECONDS, Audit, Seen, cpu_seconds, measured_plane, running_operator, watched
from bench.table import Row, show
from bench.worlds import flat_set
from grove.api.resources import PODCLIQUESETS
from grove.clock import LoopClock
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access
from tests.kube.controlplane.plane import GANGS, Plane

NODES = 100
GANG_COUNT = 100
CLIQUES = 2
PODS_EACH = 5
PODS_TOTAL = GANG_COUNT * CLIQUES * PODS_EACH
RUNS = 3
POLICY = "bench-groups"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One set from nothing to ready: seconds, and requests by verb and kind."""

    created: float
    bound: float
    ready: float
    cpu: float
    operator: Counter[str]
    scheduler: Counter[str]


def measure() -> Sequence[tuple[str, Sequence[Row]]]:
    with measured_plane(NODES, GANGS) as (plane, kubeconfig):
        native, plain = asyncio.run(_measure(plane, kubeconfig))
    title = f"{PODS_TOTAL:,} pods in {GANG_COUNT} gangs on {NODES} nodes: native gangs | without"
    return [(title, _rows(native, plain)), ("Requests per pod: native gangs | without", _request_rows(native, plain))]


async def _measure(plane: Plane, kubeconfig: Path) -> tuple[Sequence[Run], Sequence[Run]]:
    clock = LoopClock.starting_now()
    runs: dict[bool, list[Run]] = {True: [], False: []}
    async with (
        HttpTransport(find_access({}, kubeconfig=plane.kubeconfig), clock) as transport,
        watched(transport, clock) as seen,
    ):
        audit = Audit(plane.audit_log)
        # The first of each warms caches on all sides.
        for number in range(1 + RUNS):
            for in_groups, found in runs.items():
                await asyncio.to_thread(_demand, plane, in_groups=in_groups)
                with running_operator(kubeconfig) as process:
                    found.append(await _run(seen, audit, process, f"run-{number}-{'gangs' if in_groups else 'plain'}"))
    return runs[True][1:], runs[False][1:]


def _demand(plane: Plane, *, in_groups: bool) -> None:
    """From now on pods are refused that are in no group, or those that are in one."""
    is_in_group = "has(object.spec.schedulingGroup)"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ]
            },
            "validations": [{"expression": is_in_group if in_groups else f"!{is_in_group}"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    }
    for body in (policy, binding):
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {
            "containers": [{"name": "probe", "image": "probe"}],
            **({} if in_groups else {"schedulingGroup": {"podGroupName": "probe"}}),
        },
    }
    # A policy holds a moment after it was written.
    deadline = time.monotonic() + LONGEST_SECONDS
    admin = plane.user("admin")
    while POLICY not in admin.attempt("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod)).err:
        assert time.monotonic() < deadline, "the policy never held"
        time.sleep(0.2)


async def _run(seen: Seen, audit: Audit, process: subprocess.Popen[bytes], name: str) -> Run:
    manifest = flat_set(name, replicas=GANG_COUNT, cliques=CLIQUES, pods=PODS_EACH)
    audit.forget()
    cpu = cpu_seconds(process)
    started = time.perf_counter()
    await seen.client.create(PODCLIQUESETS, "default", manifest)
    created = await seen.seconds_until(lambda: len(seen.pods) == PODS_TOTAL, started)
    bound = await seen.seconds_until(lambda: seen.bound_count == PODS_TOTAL, started)
    ready = await seen.seconds_until(lambda: seen.ready_count == PODS_TOTAL, started)
    await seen.seconds_until(lambda: seen.available(name) == GANG_COUNT, started)
    cpu = cpu_seconds(process) - cpu
    run = Run(
        created=created, bound=bound, ready=ready, cpu=cpu,
        operator=audit.counts(), scheduler=audit.counts_of_scheduler(),
    )  # fmt: skip
    await seen.client.delete(PODCLIQUESETS, "default", name)
    while await seen.left():
        await seen.clock.sleep(0.2)
    return run


# --- the tables ------------------------------------------------------------------------------------------------------


def _rows(native: Sequence[Run], plain: Sequence[Run]) -> Sequence[Row]:
    fields = {"created": "pods created", "bound": "all bound", "ready": "all ready", "cpu": "CPU of the operator"}
    return [
        _row(what, median(getattr(run, field) for run in native), median(getattr(run, field) for run in plain), "s")
        for field, what in fields.items()
    ]


def _request_rows(native: Sequence[Run], plain: Sequence[Run]) -> Sequence[Row]:
    rows = []
    for who in ("operator", "scheduler"):
        with_gangs, without = (_middle([getattr(run, who) for run in runs]) for runs in (native, plain))
        rows.append(_row(f"{who}: all", sum(with_gangs.values()), sum(without.values()), ""))
        kinds = sorted({*with_gangs, *without}, key=lambda kind: (-with_gangs.get(kind, 0.0), kind))
        rows += [_row(f"{who}: {kind}", with_gangs.get(kind, 0.0), without.get(kind, 0.0), "") for kind in kinds]
    return [row for row in rows if row.figure != _figures(0.0, 0.0, "")]


def _middle(counts: Sequence[Counter[str]]) -> dict[str, float]:
    """Per pod."""
    return {kind: median(count[kind] for count in counts) / PODS_TOTAL for count in counts for kind in count}


def _row(what: str, native: float, plain: float, unit: str) -> Row:
    times = f"x {native / plain:.2f}" if plain else ""
    return Row(what, _figures(native, plain, unit), times)


def _figures(native: float, plain: float, unit: str) -> str:
    return f"{native:.2f}{unit and ' ' + unit} | {plain:.2f}{unit and ' ' + unit}"


def main() -> None:
    for title, rows in measure():
        show(title, rows)


if __name__ == "__main__":
    main()
