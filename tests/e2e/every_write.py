"""Stories that together make an operator use every right it has, the rare ones too."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from grove.api import labels, names
from grove.api.resources import (
    CONTROLLER_REVISIONS,
    GROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICES,
    TOPOLOGY_BINDINGS,
    Resource,
)
from grove.api.template_hash import generation_hash
from grove.api.types.meta import JsonObject
from grove.kube.api_errors import ApiError
from grove.planner.rollout.revision_history import KEPT_REVISIONS
from tests.e2e.harness import Cluster, Stage
from tests.e2e.installation import NAMESPACE
from tests.simulation.autoscaling_stories import (
    a_changed_config_reaches_the_autoscalers_and_no_pod,
    a_foreign_autoscaler_of_that_name_is_reported_until_it_is_gone,
    an_autoscaler_goes_with_its_config_and_the_count_stays,
)
from tests.simulation.refusal_stories import STRANGER_STORIES, trouble
from tests.simulation.startup_stories import clique, ordered
from tests.simulation.stories import scaling_in_and_out_again
from tests.simulation.wire_stories import WIRE_STORIES, begin, find, manifest, written

CERTIFICATE_SECRET = "grove-webhook-server-cert"


Told = Callable[[Stage], Awaitable[None]]


async def cause_every_write(cluster: Cluster) -> None:
    everyday: tuple[Told, ...] = (*WIRE_STORIES, scaling_in_and_out_again, *STRANGER_STORIES.values())
    rare: tuple[Told, ...] = (
        a_clique_shrinks,
        a_stranger_takes_the_name_of_a_pod,
        a_stranger_takes_the_name_of_a_revision,
        a_set_goes_back_to_an_older_template,
        a_set_has_had_more_templates_than_are_kept,
        finalizers_of_an_older_version_are_taken_off,
        a_service_is_put_right,
        a_set_names_a_topology,
        the_certificate_is_made_anew,
        permissions_of_init_containers_are_repaired,
        a_changed_config_reaches_the_autoscalers_and_no_pod,
        an_autoscaler_goes_with_its_config_and_the_count_stays,
        a_foreign_autoscaler_of_that_name_is_reported_until_it_is_gone,
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
    await stage.settle()


def of_version(version: int) -> JsonObject:
    wish = manifest()
    wish["spec"]["template"]["cliques"][0]["labels"] = {"version": str(version)}
    return wish


async def a_stranger_takes_the_name_of_a_revision(stage: Stage) -> None:
    await stage.apply(of_version(1))
    await stage.settle()
    (live,) = stage.objects(PODCLIQUESETS)
    # As the API server will have it, defaults included.
    first, *others = live.spec.template.cliques
    changed = msgspec.structs.replace(first, labels={"version": "2"})
    template = msgspec.structs.replace(live.spec.template, cliques=(changed, *others))
    name = names.revision("p", generation_hash(template))
    await stage.client.create(
        CONTROLLER_REVISIONS, stage.namespace, {"metadata": {"name": name}, "revision": 1, "data": {}}
    )
    await stage.apply(of_version(2))
    await stage.wait_until(lambda: trouble(stage, "p") is not None)
    await stage.delete(CONTROLLER_REVISIONS, name)
    await stage.settle()


async def a_set_goes_back_to_an_older_template(stage: Stage) -> None:
    # Letters that a real API server writes in its own way.
    first = of_version(1)
    first["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["command"] = ["sh", "-c", "a && b > c"]
    for wish, numbers in ((first, [1]), (of_version(2), [1, 2]), (first, [2, 3])):
        await stage.apply(wish)
        await stage.wait_until(lambda wanted=numbers: _numbers(stage) == wanted)  # type: ignore[misc]
        await stage.settle()


async def a_set_has_had_more_templates_than_are_kept(stage: Stage) -> None:
    for version in range(1, KEPT_REVISIONS + 3):
        await stage.apply(of_version(version))
        await stage.wait_until(lambda newest=version: newest in _numbers(stage))  # type: ignore[misc]
    await stage.settle()
    await stage.wait_until(lambda: _numbers(stage) == list(range(2, KEPT_REVISIONS + 3)))


def _numbers(stage: Stage) -> list[int]:
    return sorted(revision.revision for revision in stage.objects(CONTROLLER_REVISIONS))


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
    with pytest.raises(ApiError, match="ClusterTopologyBinding not found"):
        await stage.apply(wish)
    kind = {"apiVersion": TOPOLOGY_BINDINGS.api_version, "kind": TOPOLOGY_BINDINGS.kind}
    spec = {"levels": [{"domain": "rack", "key": "example.com/rack"}]}
    await stage.client.create(TOPOLOGY_BINDINGS, "", {**kind, "metadata": {"name": "racks"}, "spec": spec})
    deadline = stage.cluster.clock.monotonic() + stage.patience
    while (await stage.client.get(TOPOLOGY_BINDINGS, "", "racks")).status.observed_generation is None:
        assert stage.cluster.clock.monotonic() < deadline, "nobody looks at the binding"
        await stage.look()
    await stage.client.delete(TOPOLOGY_BINDINGS, "", "racks")


async def permissions_of_init_containers_are_repaired(stage: Stage) -> None:
    """A user takes the names first, then empties the Role and the RoleBinding; at last they go with the set."""
    name = names.role("job")
    reference = {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": "other"}
    await stage.client.create(ROLES, stage.namespace, {"metadata": {"name": name}, "rules": []})
    await stage.client.create(ROLE_BINDINGS, stage.namespace, {"metadata": {"name": name}, "roleRef": reference})
    await stage.apply(ordered(clique("a"), clique("b", after=("a",))))
    await stage.wait_until(lambda: trouble(stage, "job") is not None)
    await stage.delete(ROLES, name)
    await stage.delete(ROLE_BINDINGS, name)
    await stage.settle()
    await stage.client.patch(ROLES, stage.namespace, name, {"rules": []})
    await stage.client.patch(ROLE_BINDINGS, stage.namespace, name, {"subjects": []})
    await stage.wait_until(
        lambda: (
            all(role.rules for role in stage.objects(ROLES))
            and all(binding.subjects for binding in stage.objects(ROLE_BINDINGS))
        )
    )
    await stage.delete(PODCLIQUESETS, "job")
    await stage.wait_until(lambda: not stage.objects(ROLES))
    await stage.wait_until(lambda: not stage.objects(ROLE_BINDINGS))


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
