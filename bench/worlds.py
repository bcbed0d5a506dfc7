"""The worlds that are measured: sets of many small replicas on roomy nodes, in virtual time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from grove.api.types.meta import JsonObject
from grove.clock import Clock
from grove.cluster.storage.store import Change
from grove.controller.manager import Controller
from grove.kube.client import Client
from grove.sim.simulation import SimulatedOperator, World

NODE = {"cpu": "1000", "memory": "4Ti", "pods": "2000"}


def flat_set(name: str, *, replicas: int, cliques: int, pods: int) -> JsonObject:
    """A set of `replicas` x `cliques` x `pods`, every pod needed."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "template": {"cliques": [_clique(number, pods) for number in range(cliques)]},
        },
    }


def _clique(number: int, pods: int) -> JsonObject:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "name": f"c{number}",
        "spec": {
            "roleName": f"role-{number}",
            "replicas": pods,
            "minAvailable": pods,
            "podSpec": {"containers": [container]},
        },
    }


class BenchWorld(World):
    """A world that hands out its operator and counts pods as they become ready."""

    def __init__(self, *, nodes: int = 20) -> None:
        super().__init__(seed=1, nodes=nodes, node_resources=NODE, operator=self._make_operator, is_checked=False)
        self.ready_count = 0

    def _make_operator(self, client: Client, clock: Clock, random: Random) -> SimulatedOperator:
        self.controller = Controller(client, clock, random)
        return self.controller

    async def run_to_ready(self, manifest: JsonObject, pods: int) -> None:
        self.server.store.subscribe(self._count_ready)
        await self.apply(manifest)
        await self.wait_until(lambda: self.ready_count == pods)
        await self.settle()

    def _count_ready(self, change: Change) -> None:
        if change.resource_info.plural == "pods" and change.before is not None:
            self.ready_count += _is_ready(change.entry.obj) - _is_ready(change.before.obj)


def _is_ready(pod: JsonObject) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))


@contextmanager
def rare_collections() -> Iterator[None]:
    """As a long-running server sets it: almost nothing here is cyclic, so Python looks for cycles rarely."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(200_000, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
