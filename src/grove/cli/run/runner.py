"""Run the sets of a file to completion on a private cluster.

`exit_status.py` decides when the run is over, `pod_output.py` records pods, `output.py` prints.
"""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import SetPhase, StartupType
from grove.cli.commands.apply import apply_and_print
from grove.cli.commands.run import RunOptions
from grove.cli.common.process_setup import prepare_process
from grove.cli.run.exit_status import RunResult, Summary, build_summary, compute_result, is_hopeless
from grove.cli.run.output import PodLines, open_run_output, print_summary
from grove.cli.run.pod_output import RunRecorder, SetKey
from grove.cli.status.set_watcher import SetWatcher, render_changes
from grove.clock import Clock, LoopClock
from grove.cluster.default_topology_binding import create_topology
from grove.cluster.embedded_cluster import KubeletKind
from grove.cluster.http.https_server import ADDRESS, HttpApi
from grove.cluster.nodes import Nodes
from grove.errors import UserError
from grove.operations.apply.manifest_reader import ManifestDocument, read_manifests
from grove.operations.embedded_cluster import new_cluster, start_cluster
from grove.operations.object_ref import ObjectRef
from grove.operations.random_source import fresh_random, new_token
from grove.operations.why.runner import explain
from grove.planner.explain.text import Explanation

# How often sets that wait are explained, to end a run that cannot start.
CHECK_SECONDS = 1.0
_STOP_SIGNALS = {signal.SIGINT: RunResult.INTERRUPTED, signal.SIGTERM: RunResult.TERMINATED}


def run_file(options: RunOptions) -> int:
    """Run the file and return the exit code."""
    documents = read_manifests([options.file])
    if not find_sets(documents):
        raise UserError(f"{options.file}: has no PodCliqueSet, so there is nothing to run; add one")
    prepare_process()
    summary = asyncio.run(_run(options, documents))
    print_summary(summary, options.output)
    return summary.exit_code


def find_sets(documents: Sequence[ManifestDocument]) -> tuple[SetKey, ...]:
    keys = [
        SetKey(namespace=str(document.body["metadata"].get("namespace") or "default"), name=document.name)
        for document in documents
        if (document.api_version, document.kind) == (PODCLIQUESETS.api_version, PODCLIQUESETS.kind)
    ]
    return tuple(dict.fromkeys(keys))


def has_startup_order(documents: Sequence[ManifestDocument]) -> bool:
    """Return whether a set requests a start-up order."""
    return any(_startup_type(document.body) != StartupType.ANY_ORDER for document in documents)


def _startup_type(body: JsonObject) -> str:
    template = (body.get("spec") or {}).get("template") or {}
    found = template.get("cliqueStartupType") if isinstance(template, dict) else None
    return str(found or StartupType.ANY_ORDER)


async def _run(options: RunOptions, documents: list[ManifestDocument]) -> Summary:
    run = Run(options, documents, LoopClock.starting_now())
    for number, ending in _STOP_SIGNALS.items():
        asyncio.get_running_loop().add_signal_handler(number, run.stop, ending)
    return await run.run_to_completion()


class Run:
    """One run, from an empty cluster to its summary."""

    def __init__(self, options: RunOptions, documents: list[ManifestDocument], clock: Clock) -> None:
        self._options = options
        self._documents = documents
        self._wanted = find_sets(documents)
        self._clock = clock
        self._began_at = clock.monotonic()
        self._stopped: RunResult | None = None
        self._lines = PodLines()
        self._cluster = new_cluster(clock, KubeletKind(options.kubelet))
        self._recorder = RunRecorder(self._cluster.logs, self._lines.add)
        self._cluster.server.store.subscribe(self._recorder.observe)

    def stop(self, ending: RunResult) -> None:
        """Stop the run. The first call decides the result."""
        self._stopped = self._stopped or ending
        self._recorder.changed.set()

    async def run_to_completion(self) -> Summary:
        """Run until the end. Afterwards nothing is left except what pods wrote to a hostPath."""
        async with AsyncExitStack() as stack:
            if has_startup_order(self._documents):
                await self._serve_api(stack)
            return await self._run_to_completion()

    async def _serve_api(self, stack: AsyncExitStack) -> None:
        """Serve the API on loopback: the init containers of a start-up order are processes that read it."""
        api = HttpApi(self._cluster.server, token=new_token())
        stack.push_async_callback(api.stop)
        await api.start()
        self._cluster.root_ca = api.ca
        self._cluster.api_address = (ADDRESS, api.port)

    async def _run_to_completion(self) -> Summary:
        client = self._cluster.client()
        await Nodes(client, self._clock).create(self._options.nodes, self._options.node_resources)
        await create_topology(client)
        watcher = SetWatcher(client, self._clock, fresh_random())
        async with asyncio.TaskGroup() as tasks:
            started = start_cluster(tasks, self._cluster, self._clock, has_operator=True)
            await apply_and_print(self._cluster.connect(), self._documents, "default", self._options.output)
            with open_run_output(self._clock, self._options.output) as shown:
                started.append(tasks.create_task(watcher.run()))
                started.append(tasks.create_task(self._stop_if_hopeless()))
                printing = [
                    tasks.create_task(render_changes(watcher, self._clock, shown.tree)),
                    tasks.create_task(self._lines.print_until_cancelled(shown, self._clock)),
                ]
                ending = await self._wait_for_result_or_timeout()
                summary = await self._summarize(ending)
                # Lines that pods write while they stop are printed as well.
                await _end(started)
                await _end(printing)
                self._lines.print_now(shown)
                shown.tree.render(await watcher.list_once())
        return summary

    async def _wait_for_result_or_timeout(self) -> RunResult:
        timeout = self._options.timeout_seconds
        left = None if timeout is None else self._began_at + timeout - self._clock.monotonic()
        try:
            async with asyncio.timeout(left):
                return await self._wait_for_result()
        except TimeoutError:
            return RunResult.TIMED_OUT

    async def _wait_for_result(self) -> RunResult:
        while True:
            self._recorder.changed.clear()
            ending = compute_result(self._wanted, self._recorder.sets, self._options.until) or self._stopped
            if ending is not None:
                return ending
            await self._recorder.changed.wait()

    async def _stop_if_hopeless(self) -> None:
        """Stop the run when a set can never start. It is explained twice: a moment later the cause may be gone."""
        suspects: frozenset[SetKey] = frozenset()
        while True:
            await self._clock.sleep(CHECK_SECONDS)
            hopeless = frozenset([key for key in self._wanted if await self._is_hopeless(key)])
            if hopeless & suspects:
                self.stop(RunResult.CANNOT_START)
                return
            suspects = hopeless

    async def _is_hopeless(self, key: SetKey) -> bool:
        pcs = self._recorder.sets.get(key)
        # Most sets run: they are not explained.
        return pcs is not None and pcs.status.phase == SetPhase.PENDING and is_hopeless(
            pcs, await self._explain_wait(key)
        )  # fmt: skip

    async def _summarize(self, ending: RunResult) -> Summary:
        """Build the summary before the cluster stops, so that stopped pods do not count as failures."""
        seconds = self._clock.monotonic() - self._began_at
        waits = {}
        if ending in (RunResult.TIMED_OUT, RunResult.CANNOT_START):
            waits = {key: await self._explain_wait(key) for key in self._wanted if key in self._recorder.sets}
        return build_summary(
            ending, self._wanted, self._recorder.sets, self._recorder.failures, waits, seconds=seconds
        )  # fmt: skip

    async def _explain_wait(self, key: SetKey) -> tuple[Explanation, ...]:
        return await explain(
            self._cluster.client(), self._clock.now(), key.namespace, ObjectRef("podcliqueset", key.name)
        )  # fmt: skip


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
