"""What is refused to a training set that runs on the embedded cluster, with its operator at work."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, Resource
from grove.api.types.meta import JsonObject
from grove.kube.api_errors import ApiError
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.api.manifests import clique, container, group, manifest

_PODS = 4
_NO_SCALING = "a training set cannot be scaled: delete it and create one with the size you need"
_NO_UPDATE = "a training set cannot be updated: delete it and create one with the pods you need"
_OF_SET = 'it belongs to training set "job", which cannot be'
_CHILD_NOT_SCALED = f"spec.replicas: Forbidden: {_OF_SET} scaled: delete the set and create one with the size you need"


def job(*, image: str = "pause", template: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A launcher, and a group of two replicas with a worker each."""
    cliques = (
        clique("launcher", spec={"replicas": 2, "minAvailable": 1}),
        clique("worker", pod={"containers": [container(image=image)]}, spec={"replicas": 1}),
    )
    of_training = {"workloadType": "Training", **spec}
    return manifest(*cliques, groups=(group("g", "worker", replicas=2),), name="job", template=template, **of_training)


def told(story: Callable[[World], Awaitable[None]]) -> None:
    """The story of a job whose pods all run."""

    async def main() -> None:
        async with World(nodes=3) as world:
            await world.apply(job(trainingSpec={"maxRuntime": "24h", "maxRestarts": 1}))
            await world.settle()
            assert len(world.running_pods()) == _PODS
            await story(world)

    run_virtual(main())


async def refusal(write: Awaitable[Any]) -> str:
    with pytest.raises(ApiError) as refused:
        await write
    return refused.value.message


@pytest.mark.parametrize(
    ("resource", "name", "replicas", "error"),
    [
        pytest.param(PODCLIQUESETS, "job", 2, f"spec.replicas: Forbidden: {_NO_SCALING}", id="the set"),
        pytest.param(PODCLIQUESETS, "job", 0, f"spec.replicas: Forbidden: {_NO_SCALING}", id="the set to nothing"),
        pytest.param(GROUPS, "job-0-g", 3, _CHILD_NOT_SCALED, id="a group"),
        pytest.param(PODCLIQUES, "job-0-launcher", 1, _CHILD_NOT_SCALED, id="a clique"),
        pytest.param(PODCLIQUES, "job-0-g-1-worker", 2, _CHILD_NOT_SCALED, id="a member of a group"),
    ],
)
def test_nothing_of_a_training_set_is_scaled(resource: Resource[Any], name: str, replicas: int, error: str) -> None:
    async def story(world: World) -> None:
        assert error in await refusal(world.scale(resource, name, replicas))
        edit = {"spec": {"replicas": replicas}}
        assert error in await refusal(world.client.patch(resource, "default", name, edit))
        await world.settle()
        assert len(world.running_pods()) == _PODS

    told(story)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        pytest.param(
            job(image="other"), f"spec.template.cliques[1].spec.podSpec: Forbidden: {_NO_UPDATE}", id="another image"
        ),
        pytest.param(
            job(template={"priorityClassName": "high"}),
            f"spec.template.priorityClassName: Forbidden: {_NO_UPDATE}",
            id="another priority",
        ),
        pytest.param(job(workloadType="Inference"), "spec.workloadType: Invalid value", id="another type"),
    ],
)
def test_a_training_set_is_not_changed_while_it_runs(changed: JsonObject, error: str) -> None:
    async def story(world: World) -> None:
        assert error in await refusal(world.apply(changed))

    told(story)


def test_the_pods_of_a_training_clique_are_not_changed_directly() -> None:
    async def story(world: World) -> None:
        other = {"spec": {"podSpec": {"containers": [container(image="other")]}}}
        for name in ("job-0-launcher", "job-0-g-0-worker"):
            said = await refusal(world.client.patch(PODCLIQUES, "default", name, other))
            assert f"spec.podSpec: Forbidden: {_OF_SET} updated" in said

    told(story)


@pytest.mark.parametrize("runtime", ["48h", "1h"], ids=["raised", "lowered"])
def test_limits_change_while_it_runs_and_pods_stay(runtime: str) -> None:
    async def story(world: World) -> None:
        before = [pod.metadata.uid for pod in world.running_pods()]
        await world.apply(job(trainingSpec={"maxRuntime": runtime, "maxRestarts": 3}))
        await world.settle()
        assert [pod.metadata.uid for pod in world.running_pods()] == before

    told(story)


def test_a_training_set_is_deleted_whatever_it_does() -> None:
    async def story(world: World) -> None:
        await world.delete(PODCLIQUESETS, "job")
        await world.settle()
        assert (world.pods(), world.objects(PODCLIQUES), world.objects(PODCLIQUESETS)) == ((), (), ())

    told(story)
