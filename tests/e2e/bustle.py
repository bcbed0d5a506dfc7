"""Twenty sets that are scaled, lose pods and see them fail, as a seed decides; and what must be true of them after.

What goes wrong around them is up to the test. `GROVE_E2E_SEED=7` in the environment draws another story; processes and
connections are real, so that a seed brings the same wishes, not the same run.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODS, Resource
from grove.api.types.meta import JsonObject, OwnerKey, Uid
from grove.api.types.pod import Pod
from grove.kube.api_errors import ApiError
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from tests.e2e.harness import Stage

SETS = 20
SEED = int(os.environ.get("GROVE_E2E_SEED", "5"))
Place = tuple[OwnerKey | None, str]
_SCALED: tuple[Resource[Any], ...] = (PODCLIQUESETS, GROUPS, PODCLIQUES)


class Bustle:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._random = Random(SEED)
        self.names = tuple(f"s{number}" for number in range(SETS))
        self._actions: tuple[Callable[[], Any], ...] = (
            self._scale_set, self._scale_group, self._scale_clique, self._lose_pod, self._fail_pod,
        )  # fmt: skip

    async def begin(self) -> None:
        for name in self.names:
            await self._stage.apply(_manifest(name))

    async def steps(self, number: int) -> None:
        """What people and bad luck do. A server that is away, or an object that is not there, is left alone."""
        for _ in range(number):
            try:
                await self._random.choice(self._actions)()
            except ApiError as error:
                if not (error.is_outcome_unknown or error.is_not_found or error.is_conflict or error.code == 429):
                    raise

    async def end(self) -> None:
        """The last word on every scale; afterwards everything must become, and be, as it says."""
        stage = self._stage
        targets: list[tuple[Resource[Any], str, int]] = [
            target
            for name in self.names
            for target in ((PODCLIQUESETS, name, 2), (GROUPS, f"{name}-0-g", 3), (PODCLIQUES, f"{name}-0-a", 3))
        ]
        wanted = {(resource.plural, name) for resource, name, _ in targets}
        await stage.wait_until(lambda: wanted <= _scaled(stage).keys())
        asked = {}
        for resource, name, most in targets:
            asked[resource.plural, name] = replicas = self._random.randint(1, most)
            await stage.scale(resource, name, replicas)
        await stage.settle()
        # Nobody but us changed a spec.
        live = _scaled(stage)
        assert {key: live[key] for key in asked} == asked

    async def _scale_set(self) -> None:
        await self._stage.scale(PODCLIQUESETS, self._random.choice(self.names), self._random.randint(1, 2))

    async def _scale_group(self) -> None:
        await self._stage.scale(GROUPS, f"{self._random.choice(self.names)}-0-g", self._random.randint(1, 3))

    async def _scale_clique(self) -> None:
        await self._stage.scale(PODCLIQUES, f"{self._random.choice(self.names)}-0-a", self._random.randint(1, 3))

    async def _lose_pod(self) -> None:
        pod = await self._some_pod()
        if pod is not None:
            await self._stage.client.delete(PODS, self._stage.namespace, pod.metadata.name, uid=pod.metadata.uid)

    async def _fail_pod(self) -> None:
        pod = await self._some_pod()
        # One that failed before would wait for its replacement, longer each time.
        if pod is not None and labels.FAILURES not in pod.metadata.annotations:
            patch = {
                "metadata": {
                    "uid": pod.metadata.uid,
                    "annotations": {labels.SIM_EXIT_AFTER: "1ms", labels.SIM_EXIT_CODE: "1"},
                }
            }
            await self._stage.client.patch(PODS, self._stage.namespace, pod.metadata.name, patch)

    async def _some_pod(self) -> Pod | None:
        pods = (await self._stage.client.list(PODS, namespace=self._stage.namespace)).items
        running = sorted((pod for pod in pods if pod.is_ready), key=lambda pod: pod.metadata.name)
        return self._random.choice(running) if running else None


class _Twins:
    """Follows every pod of a namespace: at no moment may two live ones hold one index."""

    def __init__(self, stage: Stage) -> None:
        self._places: dict[Place, dict[Uid, str]] = {}
        self.found: list[str] = []
        store: Store[Pod] = Store()
        store.subscribe(self._changed)
        client, clock = stage.client, stage.cluster.clock
        self.reflector = Reflector(client, PODS, store, clock, Random(1), namespace=stage.namespace)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._places.setdefault(_place(pod), {}).pop(pod.metadata.uid, None)
        if new is None or not new.is_active:
            return
        live = self._places[_place(new)]
        live[new.metadata.uid] = new.metadata.name
        if len(live) > 1:
            self.found.append(f"two live pods hold one index: {sorted(live.values())}")


@asynccontextmanager
async def without_twins(stage: Stage) -> AsyncIterator[None]:
    """Never in this block, not even for a moment, do two live pods hold one index."""
    twins = _Twins(stage)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(twins.reflector.run())
        await twins.reflector.listed.wait()
        yield
        following.cancel()
    # Only who heard of everything may say so.
    assert twins.reflector.restarts == 0
    assert twins.found == []


def _place(pod: Pod) -> Place:
    return pod.metadata.controller, pod.metadata.labels.get(labels.POD_INDEX, "")


def _scaled(stage: Stage) -> dict[tuple[str, str], int]:
    """The replicas of everything that has a scale, by kind and name."""
    return {
        (resource.plural, obj.metadata.name): obj.spec.replicas
        for resource in _SCALED
        for obj in stage.objects(resource)
    }


def _manifest(name: str) -> JsonObject:
    pod_spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/server:1"}]}

    def clique(role: str, replicas: int) -> JsonObject:
        return {"name": role, "spec": {"roleName": role, "replicas": replicas, "minAvailable": 1, "podSpec": pod_spec}}

    template = {
        "cliques": [clique("a", 2), clique("b", 1)],
        "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1}],
    }
    return {
        "apiVersion": PODCLIQUESETS.api_version,
        "kind": PODCLIQUESETS.kind,
        "metadata": {"name": name},
        "spec": {"replicas": 1, "template": template},
    }
