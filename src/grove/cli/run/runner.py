"""Run the sets of a file to completion on a private cluster.

`exit_status.py` decides when the run is over, `pod_output.py` records pods, `output.py` prints.
"""

import asyncio
import signal
from collections.abc import Sequence

from grove.api.resources import PODCLIQUESETS
from grove.cli.commands.apply import apply_all
from grove.cli.commands.run import RunOptions
from grove.cli.common.embedded_cluster import inhabit, new_cluster, prepare_process
from grove.cli.common.manifest_reader import ManifestDocument, read_documents
from grove.cli.common.options import ObjectRef
from grove.cli.common.random_source import fresh_random
from grove.cli.run.exit_status import RunResult, Summary, build_summary, ending_of
from grove.cli.run.output import PodLines, say_summary, stage
from grove.cli.run.pod_output import RunRecorder, SetKey
from grove.cli.status.set_watcher import Followed, keep_looking
from grove.cli.why.runner import explain
from grove.clock import Clock, LoopClock
from grove.cluster.default_topology_binding import create_topology
from grove.cluster.embedded_cluster import KubeletKind
from grove.cluster.nodes import Nodes
from grove.errors import UserError
from grove.planner.explain.text import Explanation

_ENDINGS = {signal.SIGINT: RunResult.INTERRUPTED, signal.SIGTERM: RunResult.TERMINATED}


def run_file(wishes: RunOptions) -> int:
    """Run the file and return the exit code."""
    documents = read_documents(wishes.file)
    if not sets_in(documents):
        raise UserError(f"{wishes.file}: holds no PodCliqueSet, so there is nothing to run; add one")
    prepare_process()
    summary = asyncio.run(_run(wishes, documents))
    say_summary(summary, wishes.output)
    return summary.exit_code


def sets_in(documents: Sequence[ManifestDocument]) -> tuple[SetKey, ...]:
    keys = [
        SetKey(namespace=str(document.body["metadata"].get("namespace") or "default"), name=document.name)
        for document in documents
        if (document.api_version, document.kind) == (PODCLIQUESETS.api_version, PODCLIQUESETS.kind)
    ]
    return tuple(dict.fromkeys(keys))


async def _run(wishes: RunOptions, documents: list[ManifestDocument]) -> Summary:
    run = Run(wishes, documents, LoopClock.starting_now())
    for number, ending in _ENDINGS.items():
        asyncio.get_running_loop().add_signal_handler(number, run.stop, ending)
    return await run.to_its_end()


class Run:
    """One run, from an empty cluster to its summary."""

    def __init__(self, wishes: RunOptions, documents: list[ManifestDocument], clock: Clock) -> None:
        self._wishes = wishes
        self._documents = documents
        self._wanted = sets_in(documents)
        self._clock = clock
        self._began_at = clock.monotonic()
        self._stopped: RunResult | None = None
        self._lines = PodLines()
        self._cluster = new_cluster(clock, KubeletKind(wishes.kubelet))
        self._recorder = RunRecorder(self._cluster.logs, self._lines.add)
        self._cluster.server.store.subscribe(self._recorder.hear)

    def stop(self, ending: RunResult) -> None:
        """Stop the run. The first call decides the result."""
        self._stopped = self._stopped or ending
        self._recorder.changed.set()

    async def to_its_end(self) -> Summary:
        """Run until the end. Afterwards nothing is left except what pods wrote to a hostPath."""
        client = self._cluster.client()
        await Nodes(client, self._clock).create(self._wishes.nodes, self._wishes.node_resources)
        await create_topology(client)
        followed = Followed(client, self._clock, fresh_random())
        async with asyncio.TaskGroup() as tasks:
            started = inhabit(tasks, self._cluster, self._clock, has_operator=True)
            await apply_all(self._cluster.connect(), self._documents, "default", self._wishes.output)
            with stage(self._clock, self._wishes.output) as shown:
                started.append(tasks.create_task(followed.run()))
                telling = [
                    tasks.create_task(keep_looking(followed, self._clock, shown.look)),
                    tasks.create_task(self._lines.print_for_ever(shown, self._clock)),
                ]
                ending = await self._ending()
                summary = await self._summary(ending)
                # Lines that pods write while they stop are printed as well.
                await _end(started)
                await _end(telling)
                self._lines.print_now(shown)
                shown.look.tell(await followed.look_once())
        return summary

    async def _ending(self) -> RunResult:
        patience = self._wishes.timeout_seconds
        left = None if patience is None else self._began_at + patience - self._clock.monotonic()
        try:
            async with asyncio.timeout(left):
                return await self._own_ending()
        except TimeoutError:
            return RunResult.TIMED_OUT

    async def _own_ending(self) -> RunResult:
        while True:
            self._recorder.changed.clear()
            ending = ending_of(self._wanted, self._recorder.sets, self._wishes.until) or self._stopped
            if ending is not None:
                return ending
            await self._recorder.changed.wait()

    async def _summary(self, ending: RunResult) -> Summary:
        """Build the summary before the cluster stops, so that stopped pods do not count as failures."""
        seconds = self._clock.monotonic() - self._began_at
        waits = {}
        if ending is RunResult.TIMED_OUT:
            waits = {key: await self._waits_of(key) for key in self._wanted if key in self._recorder.sets}
        return build_summary(
            ending, self._wanted, self._recorder.sets, self._recorder.failures, waits, seconds=seconds
        )  # fmt: skip

    async def _waits_of(self, key: SetKey) -> tuple[Explanation, ...]:
        return await explain(
            self._cluster.client(), self._clock.now(), key.namespace, ObjectRef("podcliqueset", key.name)
        )  # fmt: skip


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
