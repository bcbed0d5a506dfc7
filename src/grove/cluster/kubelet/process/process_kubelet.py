"""A kubelet for all nodes that runs the containers of bound pods as local processes.

docs/reference/process-kubelet.md describes what that means for a pod. This module starts a pod worker (`pod_worker.py`)
per pod. Everything that it started ends with `run`.
"""

import asyncio
import os
import tempfile
from itertools import count
from pathlib import Path
from random import Random

import structlog

from grove.api.types.meta import Uid
from grove.clock import Clock
from grove.cluster.kubelet.process.config_watcher import ConfigWatcher
from grove.cluster.kubelet.process.container_command import inherited_environment
from grove.cluster.kubelet.process.log_source import ProcessLogs
from grove.cluster.kubelet.process.pod_addresses import AddressPool, HostsFiles
from grove.cluster.kubelet.process.pod_spec import LOCAL_PODS, LocalPod
from grove.cluster.kubelet.process.pod_worker import KubeletContext, PodWorker
from grove.cluster.kubelet.process.supervisor_client import SupervisorClient
from grove.cluster.kubelet.process_usage import RunningProcess
from grove.cluster.node_pod_cache import BoundNode, BoundPods
from grove.errors import Bug
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store

log = structlog.get_logger()


class ProcessKubelet:
    """A kubelet that uses only the API. The caller must run `bound`; the API server reads logs from `logs`."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        bound: BoundPods,
        logs: ProcessLogs,
        *,
        api_address: tuple[str, int] | None = None,
    ) -> None:
        """`api_address`: where processes reach the API server, if it is served."""
        self._client = client
        self._clock = clock
        self._random = random
        self._bound = bound
        self._logs = logs
        self._api_address = api_address
        self._workers: dict[Uid, PodWorker] = {}

    @property
    def pod_count(self) -> int:
        """Return the number of pods that have a worker."""
        return len(self._workers)

    def find_processes(self, uid: str) -> tuple[RunningProcess, ...]:
        """Return the running processes of a pod, for measurements."""
        worker = self._workers.get(Uid(uid))
        return () if worker is None else worker.running_processes

    async def run(self) -> None:
        """Run until cancelled, then remove all processes and files."""
        root = Path(tempfile.mkdtemp(prefix="grove-"))
        try:
            async with SupervisorClient(root) as processes, asyncio.TaskGroup() as tasks:
                await self._run_pods(self._build_context(root, processes), tasks)
        finally:
            self._logs.close()

    async def _run_pods(self, context: KubeletContext, tasks: asyncio.TaskGroup) -> None:
        def pod_changed(_old: LocalPod | None, new: LocalPod | None) -> None:
            if new is not None:
                self._dispatch(new, context, tasks)
            elif _old is not None and (worker := self._workers.get(_old.metadata.uid)) is not None:
                worker.handle_deletion()

        context.pods.subscribe(pod_changed)
        self._bound.nodes.subscribe(self._node_changed)
        reflector = Reflector(
            self._client, LOCAL_PODS, context.pods, self._clock, self._random, field_selector="spec.nodeName!="
        )
        tasks.create_task(context.configs.run())
        tasks.create_task(reflector.run())
        await context.processes.wait_for_supervisor_exit()
        raise Bug("the supervisor of the process kubelet has exited and all its processes are gone; please report this")

    def _build_context(self, root: Path, processes: SupervisorClient) -> KubeletContext:
        pods: Store[LocalPod] = Store()
        return KubeletContext(
            client=self._client,
            clock=self._clock,
            random=self._random,
            pods=pods,
            node=self._bound.node,
            processes=processes,
            configs=ConfigWatcher(self._client, self._clock, self._random),
            addresses=AddressPool(self._random),
            hosts=HostsFiles(root / "hosts"),
            logs=self._logs,
            root=root,
            folders=count(1),
            inherited={**inherited_environment(os.environ), **_service_variables(self._api_address)},
        )

    def _dispatch(self, pod: LocalPod, context: KubeletContext, tasks: asyncio.TaskGroup) -> None:
        uid = pod.metadata.uid
        worker = self._workers.get(uid)
        if worker is None and not pod.is_finished:
            worker = self._workers[uid] = PodWorker(pod, context)
            tasks.create_task(self._run_worker(uid, worker))
        if worker is not None:
            worker.observe(pod)

    async def _run_worker(self, uid: Uid, worker: PodWorker) -> None:
        try:
            await worker.run()
        except Exception:
            # One broken pod must not stop the others.
            log.exception("pod worker failed", pod=worker.name)
            await worker.abandon()
        finally:
            del self._workers[uid]

    def _node_changed(self, _old: BoundNode | None, new: BoundNode | None) -> None:
        if new is not None:
            for uid in self._bound.uids_on(new.metadata.name):
                if (worker := self._workers.get(uid)) is not None:
                    worker.wake()


def _service_variables(api_address: tuple[str, int] | None) -> dict[str, str]:
    """Return the variables by which a program in a pod finds the API server."""
    if api_address is None:
        return {}
    host, port = api_address
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
