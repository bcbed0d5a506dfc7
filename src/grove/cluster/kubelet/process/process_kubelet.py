"""A kubelet for all nodes at once that runs the containers of bound pods as processes of this machine.

docs/reference/process-kubelet.md says what that means for a pod. Here pods are found and handed to `pod_worker.py`;
everything that was started ends with `run`.
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
from grove.cluster.kubelet.process.config_watcher import Configs
from grove.cluster.kubelet.process.container_command import inherited_environment
from grove.cluster.kubelet.process.log_source import ProcessLogs
from grove.cluster.kubelet.process.pod_addresses import Addresses, Hosts
from grove.cluster.kubelet.process.pod_spec import LOCAL_PODS, LocalPod
from grove.cluster.kubelet.process.pod_worker import Machine, PodLife
from grove.cluster.kubelet.process.supervisor_client import Processes
from grove.cluster.node_pod_cache import BoundNode, BoundPods
from grove.errors import Bug
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store

log = structlog.get_logger()


class ProcessKubelet:
    """Works through the API only. `bound` is run by whoever made it; `logs` is what the server is to ask."""

    def __init__(self, client: Client, clock: Clock, random: Random, bound: BoundPods, logs: ProcessLogs) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._bound = bound
        self._logs = logs
        self._lives: dict[Uid, PodLife] = {}

    @property
    def pod_count(self) -> int:
        """How many pods are looked after: from the first sight of one until nothing of it is left."""
        return len(self._lives)

    async def run(self) -> None:
        """Until cancelled; then nothing that it started is left, processes and files."""
        root = Path(tempfile.mkdtemp(prefix="grove-"))
        try:
            async with Processes(root) as processes, asyncio.TaskGroup() as tasks:
                await self._inhabit(self._machine(root, processes), tasks)
        finally:
            self._logs.close()

    async def _inhabit(self, machine: Machine, tasks: asyncio.TaskGroup) -> None:
        def pod_changed(_old: LocalPod | None, new: LocalPod | None) -> None:
            if new is not None:
                self._follow(new, machine, tasks)
            elif _old is not None and (life := self._lives.get(_old.metadata.uid)) is not None:
                life.vanish()

        machine.pods.subscribe(pod_changed)
        self._bound.nodes.subscribe(self._node_changed)
        reflector = Reflector(
            self._client, LOCAL_PODS, machine.pods, self._clock, self._random, field_selector="spec.nodeName!="
        )
        tasks.create_task(machine.configs.run())
        tasks.create_task(reflector.run())
        await machine.processes.warden_end()
        raise Bug("the warden of the process kubelet has ended; all its processes are gone; please report this")

    def _machine(self, root: Path, processes: Processes) -> Machine:
        pods: Store[LocalPod] = Store()
        return Machine(
            client=self._client,
            clock=self._clock,
            random=self._random,
            pods=pods,
            node=self._bound.node,
            processes=processes,
            configs=Configs(self._client, self._clock, self._random),
            addresses=Addresses(self._random),
            hosts=Hosts(root / "hosts"),
            logs=self._logs,
            root=root,
            folders=count(1),
            inherited=inherited_environment(os.environ),
        )

    def _follow(self, pod: LocalPod, machine: Machine, tasks: asyncio.TaskGroup) -> None:
        uid = pod.metadata.uid
        life = self._lives.get(uid)
        if life is None and not pod.is_finished:
            life = self._lives[uid] = PodLife(pod, machine)
            tasks.create_task(self._live(uid, life))
        if life is not None:
            life.observe(pod)

    async def _live(self, uid: Uid, life: PodLife) -> None:
        try:
            await life.run()
        except Exception:
            # One pod that we cannot deal with must not take the others with it.
            log.exception("a pod was given up", pod=life.name)
            await life.give_up()
        finally:
            del self._lives[uid]

    def _node_changed(self, _old: BoundNode | None, new: BoundNode | None) -> None:
        if new is not None:
            for uid in self._bound.uids_on(new.metadata.name):
                if (life := self._lives.get(uid)) is not None:
                    life.wake()
