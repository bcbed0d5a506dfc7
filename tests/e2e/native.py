"""A real control plane with native gangs, or without, and nodes for one pod each, as the scene of stories.

What the scheduler's own objects look like for a gang is checked in `native_mirrors.py`.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grove.api.resources import GROUPS, NATIVE_COMPOSITES, NATIVE_PODGROUPS, NODES, PODCLIQUESETS, Object, Resource
from grove.api.types.pod import Pod
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.scheduler_object import SchedulerObject
from grove.cluster.nodes import Nodes
from tests.e2e.harness import NODE_RESOURCES, NODES_OF, POLL_SECONDS, Cluster, Stage
from tests.e2e.installation import Installation
from tests.e2e.operators import Operator
from tests.e2e.quiet import Quiet
from tests.kube.controlplane.nodes import running_nodes
from tests.kube.controlplane.plane import Gangs, Plane, running_plane
from tests.simulation.restored import unrestored, untrue_counts
from tests.simulation.stories import ONE_POD_NODE

NAMESPACES = Resource(group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, view=Object)
# The scheduler tries a gang that did not fit again after at most a second times the root of its pending pods, as it is
# configured here; a second more is its own rounding, the rest is for a slow machine.
SLACK_SECONDS = 3.0
PATIENCE_SECONDS = 300.0


class NativeCluster(Cluster):
    """A control plane of one test module, operated by an installed Grove."""

    def __init__(self, plane: Plane, operator: Operator) -> None:
        super().__init__(plane.kubeconfig, operators=(operator,))
        self.plane = plane

    @property
    def mirror_kinds(self) -> tuple[Resource[SchedulerObject], ...]:
        """What a PodGang is mirrored by here."""
        if NATIVE_COMPOSITES.version in self.plane.gangs.apis:
            return (NATIVE_PODGROUPS, NATIVE_COMPOSITES)
        return (NATIVE_PODGROUPS,) if NATIVE_PODGROUPS.version in self.plane.gangs.apis else ()

    async def narrow_stage(self, nodes: int) -> "NativeStage":
        """A new namespace, and nodes that are for its pods alone, one each."""
        stage = NarrowStage(self, (await self.stage(has_nodes=False)).namespace, ONE_POD_NODE)
        await stage.add_nodes(nodes)
        return stage

    async def wide_stage(self, nodes: int) -> "NativeStage":
        """The same, where room is not what matters."""
        stage = NativeStage(self, (await self.stage(has_nodes=False)).namespace, NODE_RESOURCES)
        await stage.add_nodes(nodes)
        return stage


class NativeStage(Stage):
    """A namespace with nodes of its own, all of one kind."""

    cluster: NativeCluster

    def __init__(self, cluster: NativeCluster, namespace: str, node_resources: Mapping[str, str]) -> None:
        super().__init__(cluster, namespace, has_nodes=False)
        self.nodes = Nodes(cluster.client, cluster.clock)
        self._node_resources = node_resources
        self.patience = PATIENCE_SECONDS

    async def add_nodes(self, number: int, labels: Mapping[str, str] | None = None) -> tuple[str, ...]:
        names = await self.nodes.create(number, self._node_resources, {NODES_OF: self.namespace, **(labels or {})})
        await self.await_open(names)
        return names

    def groups(self) -> tuple[SchedulerObject, ...]:
        """PodGroups, as of the last look."""
        return self.objects(NATIVE_PODGROUPS)

    def roots(self) -> tuple[SchedulerObject, ...]:
        return self.objects(NATIVE_COMPOSITES)

    def _watched(self) -> tuple[tuple[Resource[Any], ...], ...]:
        return (*super()._watched(), self.cluster.mirror_kinds)

    async def clear(self) -> None:
        """Everything goes, and nothing stays behind: sets, what was made for them, and then the nodes."""
        await super().clear()
        await self.wait_until_nothing_is_left()
        await self.wait_until(lambda: not (self.groups() or self.roots()))
        await self.remove_nodes()

    async def remove_nodes(self) -> None:
        await self.client.delete_collection(NODES, "", label_selector=f"{NODES_OF}={self.namespace}")


class NarrowStage(NativeStage):
    """One with little room: some of its pods may wait for ever."""

    async def settle(self) -> None:
        """Until all is as asked for; or until nothing happened for longer than any gang waits for its next try."""
        quiet, deadline = Quiet(self.cluster.clock), self.cluster.clock.monotonic() + self.patience
        while await self._is_restless():
            is_quiet = quiet.has_lasted(self._placement(), SLACK_SECONDS + math.sqrt(len(self._waiting())))
            if is_quiet and not self._is_in_motion():
                return
            assert self.cluster.clock.monotonic() < deadline, f"never at rest\n{await self.report()}"
            await self.cluster.clock.sleep(POLL_SECONDS)
        await super().settle()

    async def _is_restless(self) -> bool:
        await self.wait_until(lambda: True)
        return bool(unrestored(self))

    def _is_in_motion(self) -> bool:
        """Is somebody behind: the operator with a wish or a count, a kubelet with a pod? However long it is quiet."""
        scaled: list[PodCliqueSet | PodCliqueScalingGroup] = [*self.objects(PODCLIQUESETS), *self.objects(GROUPS)]
        wishes = [one for one in scaled if one.metadata.is_terminating or not _is_observed(one)]
        starts = [pod for pod in self.pods() if pod.spec.node_name and pod.status.phase == "Pending"]
        return bool(wishes or starts or untrue_counts(self))

    def _placement(self) -> object:
        """What matters of every pod and group; conditions may be rewritten at every try."""
        pods = sorted((p.metadata.uid, p.spec.node_name, p.status.phase, _gate_count(p)) for p in self.pods())
        mirrors = sorted(mirror.metadata.uid for mirror in (*self.groups(), *self.roots()))
        gangs = sorted(pcs.status.available_replicas for pcs in self.objects(PODCLIQUESETS))
        return pods, mirrors, gangs

    def _waiting(self) -> list[Pod]:
        return [pod for pod in self.pods() if not pod.spec.node_name]


def _is_observed(one: PodCliqueSet | PodCliqueScalingGroup) -> bool:
    return one.status.observed_generation == one.metadata.generation


def _gate_count(pod: Pod) -> int:
    return len(pod.spec.scheduling_gates)


@contextmanager
def native_cluster(folder: Path, gangs: Gangs, runner: asyncio.Runner) -> Iterator[NativeCluster]:
    """Control plane, kubelet and an installed operator, until the end of the block."""
    with running_plane(folder, gangs=gangs) as plane:
        installation = Installation(plane, topologyAwareScheduling={"enabled": True})
        with running_nodes(plane.kubeconfig, 0), installation.pod_like_operator() as operator:
            cluster = NativeCluster(plane, operator.await_ready())
            runner.run(cluster.__aenter__())
            yield cluster
            runner.run(cluster.__aexit__(None, None, None))
