"""What cannot be carried out says so and heals when the cause goes: told in simulated worlds and over HTTP alike."""

from functools import partial
from typing import Any

import pytest
import yaml

from grove.api import labels
from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODGANGS, RESOURCE_QUOTAS, SERVICES, Resource
from grove.api.types.meta import Condition, JsonObject, ObjectMeta, WireStruct, find_condition
from grove.kube.api_errors import ApiError
from tests.scene import Scene, Seen
from tests.simulation.stories import (
    WORKLOAD1,
    assert_not_refused,
    assert_refused,
    find_set,
    left_of_sets,
    named,
    quota,
)

STRANGERS: tuple[tuple[Resource[Any], str, JsonObject], ...] = (
    (SERVICES, "workload1-0", {"spec": {"clusterIP": "None"}}),
    (PODGANGS, "workload1-0", {"spec": {"podgroups": []}}),
    (
        PODCLIQUES,
        "workload1-0-pc-a",
        {
            "spec": {
                "roleName": "x",
                "replicas": 1,
                "minAvailable": 1,
                "podSpec": {"containers": [{"name": "c", "image": "i"}]},
            }
        },
    ),
)


class _QuotaStatus(WireStruct):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class Quota(WireStruct):
    metadata: ObjectMeta
    status: _QuotaStatus = _QuotaStatus()


def trouble(scene: Seen, name: str) -> Condition | None:
    return find_condition(find_set(scene, name).status.conditions, "ReconcileFailed")


async def a_name_taken_by_a_stranger_is_said_and_heals_when_the_stranger_goes(
    resource: Resource[Any], name: str, body: JsonObject, scene: Scene
) -> None:
    stranger = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **body}
    await scene.apply(stranger)
    await scene.apply(WORKLOAD1)
    await scene.apply(named("other"))
    await scene.wait_until(lambda: trouble(scene, "workload1") is not None)
    condition = trouble(scene, "workload1")
    assert condition is not None
    assert condition.reason == "NameTaken"
    assert name in condition.message
    assert name in find_set(scene, "workload1").status.last_errors[0].description
    # The other set goes on.
    await scene.wait_until(lambda: find_set(scene, "other").status.available_replicas == 1)
    await scene.delete(resource, name)
    await scene.settle()
    assert len(scene.running_pods()) == 20
    assert trouble(scene, "workload1") is None


async def pods_beyond_a_quota_are_refused_in_the_servers_words_until_there_is_room(scene: Scene) -> None:
    await scene.apply(WORKLOAD1)
    await scene.settle()
    await scene.apply(quota(10))
    # A quota that was not counted yet refuses in other words.
    await scene.wait_until(lambda: used(scene) == "10")
    await scene.apply(named("second"))
    await scene.wait_until(lambda: trouble(scene, "second") is not None)
    assert_refused(scene, "second")
    owners = [pod.metadata.labels[labels.PART_OF] for pod in scene.running_pods()]
    assert owners == ["workload1"] * 10
    await scene.apply(quota(20))
    await scene.settle()
    assert len(scene.running_pods()) == 20
    assert_not_refused(scene, "second")


async def an_invalid_set_is_refused_with_every_error_at_once_and_nothing_is_created(scene: Scene) -> None:
    manifest = yaml.safe_load(WORKLOAD1.read_text())
    template = manifest["spec"]["template"]
    template["cliques"][0]["name"] = "Not A Name"
    template["cliques"][1]["spec"]["minAvailable"] = 5
    template["podCliqueScalingGroups"][0]["cliqueNames"] = ["nobody"]
    with pytest.raises(ApiError) as refused:
        await scene.apply(manifest)
    assert refused.value.code == 422
    for path in (
        "spec.template.cliques[0].name",
        "spec.template.cliques[1].spec.minAvailable",
        "spec.template.podCliqueScalingGroups[0].cliqueNames[0]",
    ):
        assert path in refused.value.message
    await scene.settle()
    assert scene.objects(PODCLIQUESETS) == ()
    assert left_of_sets(scene) == []


def used(scene: Seen) -> str:
    return next((found.status.used.get("pods", "") for found in scene.objects(RESOURCE_QUOTAS.viewed_as(Quota))), "")


STRANGER_STORIES = {
    resource.plural: partial(a_name_taken_by_a_stranger_is_said_and_heals_when_the_stranger_goes, resource, name, body)
    for resource, name, body in STRANGERS
}
