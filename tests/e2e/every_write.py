"""Stories that together make an operator use every right it has, the rare ones too."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from grove.api import labels, names
from grove.api.resources import GROUPS, PODCLIQUES, PODS, SECRETS, SERVICES, Resource
from grove.kube.errors import ApiError
from tests.e2e.harness import Cluster, Stage
from tests.e2e.installation import NAMESPACE
from tests.simulation.refusal_stories import STRANGER_STORIES, trouble
from tests.simulation.stories import scaling_in_and_out_again
from tests.simulation.wire_stories import WIRE_STORIES, begin, find, manifest, written

CERTIFICATE_SECRET = "grove-webhook-server-cert"


Told = Callable[[Stage], Awaitable[None]]


async def cause_every_write(cluster: Cluster) -> None:
    everyday: tuple[Told, ...] = (*WIRE_STORIES, scaling_in_and_out_again, *STRANGER_STORIES.values())
    rare: tuple[Told, ...] = (
        a_clique_shrinks,
        a_stranger_takes_the_name_of_a_pod,
        finalizers_of_an_older_version_are_taken_off,
        a_service_is_put_right,
        a_set_names_a_topology,
        the_certificate_is_made_anew,
    )
    for story in (*everyday, *rare):
        stage = await cluster.stage()
        await story(stage)
        await stage.clear()


async def a_clique_shrinks(stage: Stage) -> None:
    await begin(stage)
    for replicas in (3, 2):
        await stage.scale(PODCLIQUES, "p-0-a", replicas)
        await stage.settle()


async def a_stranger_takes_the_name_of_a_pod(stage: Stage) -> None:
    await begin(stage)
    uid = find(stage, PODCLIQUES, "p-0-a").metadata.uid
    name = names.pod("p-0-a", uid, 2, "")
    containers = [{"name": "main", "image": "registry.example/stranger:1"}]
    stranger = {"metadata": {"name": name}, "spec": {"containers": containers, "schedulerName": "nobody"}}
    await stage.client.create(PODS, stage.namespace, stranger)
    await stage.scale(PODCLIQUES, "p-0-a", 3)
    await stage.wait_until(lambda: trouble(stage, "p") is not None)
    await stage.delete(PODS, name)
    stage.patience = 60.0
    await stage.settle()


async def finalizers_of_an_older_version_are_taken_off(stage: Stage) -> None:
    await begin(stage)
    old: tuple[tuple[Resource[Any], str, str], ...] = (
        (PODCLIQUES, "p-0-a", labels.CLIQUE_FINALIZER),
        (GROUPS, "p-0-g", labels.GROUP_FINALIZER),
    )
    for resource, name, finalizer in old:
        await stage.client.patch(resource, stage.namespace, name, {"metadata": {"finalizers": [finalizer]}})
    await stage.wait_until(
        lambda: not any(find(stage, resource, name).metadata.finalizers for resource, name, _ in old)
    )


async def a_service_is_put_right(stage: Stage) -> None:
    await begin(stage)
    await stage.client.patch(SERVICES, stage.namespace, "p-0", {"spec": {"publishNotReadyAddresses": False}})
    await stage.wait_until(lambda: written(stage, SERVICES, "p-0").get("publishNotReadyAddresses") is True)


async def a_set_names_a_topology(stage: Stage) -> None:
    wish = manifest()
    wish["spec"]["template"]["topologyConstraint"] = {"topologyName": "racks", "pack": {"required": "rack"}}
    with pytest.raises(ApiError, match="topology"):
        await stage.apply(wish)


async def the_certificate_is_made_anew(stage: Stage) -> None:
    """Somebody spoilt it, and with it the key of its authority; after a moment writes are judged again."""
    client = stage.client
    before = await client.get(SECRETS, NAMESPACE, CERTIFICATE_SECRET)
    spoilt = {"data": dict.fromkeys(before.data, "")}
    await client.patch(SECRETS, NAMESPACE, CERTIFICATE_SECRET, spoilt)
    deadline = stage.cluster.clock.monotonic() + stage.patience
    while not (await _is_whole(stage) and await _is_judged(stage)):
        assert stage.cluster.clock.monotonic() < deadline, "nobody repairs the certificate"
        await stage.look()
    await stage.settle()


async def _is_whole(stage: Stage) -> bool:
    return all((await stage.client.get(SECRETS, NAMESPACE, CERTIFICATE_SECRET)).data.values())


async def _is_judged(stage: Stage) -> bool:
    """False: the API server does not trust who would judge; it knows the old authority, or none yet."""
    try:
        await stage.apply(manifest())
    except ApiError as error:
        if error.code != 500 or "webhook" not in error.message:
            raise
        return False
    return True
