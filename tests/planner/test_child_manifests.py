"""The children of a set as the wire shows them: names, labels, owners, environment."""

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES
from grove.api.types.meta import HasMetadata, JsonObject
from grove.api.types.podcliqueset import HeadlessServiceConfig
from grove.planner.child_manifests import (
    build_clique,
    build_gang_metadata,
    build_group,
    prepend_env,
)
from grove.planner.desired_state import build_desired_replica
from grove.planner.headless_service import build_service
from tests.dsl import SET_UID, World, appendix_a, context, pcs, role, run_to_rest, scaling

OURS = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "p"}
SET_OWNER = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "name": "p",
    "uid": SET_UID,
    "controller": True,
    "blockOwnerDeletion": True,
}


def settled() -> World:
    world = World(appendix_a())
    run_to_rest(world)
    return world


def labels_of(world: World) -> dict[str, JsonObject]:
    found: dict[str, JsonObject] = {}
    for resource in (GROUPS, PODCLIQUES, PODGANGS, SERVICES):
        for name in world.names(resource):
            found[f"{resource.kind} {name}"] = world.json(resource, name)["metadata"]["labels"]
    return found


def clique_labels(name: str, component: str, gang: str, incarnation: str, template: str) -> dict[str, str]:
    return OURS | {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/component": component,
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podgang": gang,
        "grove.io/pod-template-hash": context(appendix_a()).template_hashes[template],
        "grove.io/incarnation": incarnation,
    }


def member(j: int) -> dict[str, str]:
    return {"grove.io/podcliquescalinggroup": "p-0-g", "grove.io/podcliquescalinggroup-replica-index": str(j)}


def test_everything_made_for_a_set_carries_its_labels() -> None:
    own_name = "app.kubernetes.io/name"
    component = "app.kubernetes.io/component"
    index = {"grove.io/podcliqueset-replica-index": "0"}
    scaled = {"grove.io/base-podgang": "p-0"}
    gang = OURS | index | {component: "podgang", "grove.io/scheduler-name": "default-scheduler"}
    newest = context(appendix_a()).generation_hash
    assert labels_of(settled()) == {
        "Service p-0": OURS | index | {own_name: "p-0", component: "pcs-headless-service"},
        "PodCliqueScalingGroup p-0-g": OURS | index | {own_name: "p-0-g", component: "pcs-podcliquescalinggroup"},
        "PodClique p-0-a": clique_labels("p-0-a", "pcs-podclique", "p-0", "1", "a"),
        "PodClique p-0-g-0-b": clique_labels("p-0-g-0-b", "pcsg-podclique", "p-0", "1", "b") | member(0),
        "PodClique p-0-g-0-c": clique_labels("p-0-g-0-c", "pcsg-podclique", "p-0", "1", "c") | member(0),
        "PodClique p-0-g-1-b": clique_labels("p-0-g-1-b", "pcsg-podclique", "p-0-g-0", "1-1", "b") | member(1) | scaled,
        "PodClique p-0-g-1-c": clique_labels("p-0-g-1-c", "pcsg-podclique", "p-0-g-0", "1-1", "c") | member(1) | scaled,
        "PodGang p-0": gang | {"grove.io/incarnation": "1", "grove.io/podcliqueset-generation-hash": newest},
        "PodGang p-0-g-0": gang | member(1) | scaled | {"grove.io/incarnation": "1-1"},
    }


def test_a_pod_carries_the_labels_of_its_clique_and_its_own_place() -> None:
    world = settled()
    for pod in world.all(PODS):
        clique = world.json(PODCLIQUES, pod.metadata.labels[labels.PODCLIQUE])
        assert pod.metadata.labels == {
            **clique["metadata"]["labels"],
            "grove.io/podclique": clique["metadata"]["name"],
            "grove.io/podclique-pod-index": pod.metadata.labels[labels.POD_INDEX],
        }
    assert [
        (pod.metadata.labels[labels.PODCLIQUE], pod.metadata.labels[labels.POD_INDEX]) for pod in world.all(PODS)
    ] == [
        ("p-0-a", "0"),
        ("p-0-a", "1"),
        ("p-0-g-0-b", "0"),
        ("p-0-g-0-c", "0"),
        ("p-0-g-1-b", "0"),
        ("p-0-g-1-c", "0"),
    ]


def test_owners_are_the_set_the_group_and_the_clique() -> None:
    world = settled()
    children: list[HasMetadata] = [
        *world.all(PODCLIQUES),
        *world.all(GROUPS),
        *world.all(PODGANGS),
        *world.all(SERVICES),
    ]
    owners = {
        one.metadata.name: [(owner.kind, owner.name, owner.controller) for owner in one.metadata.owner_references]
        for one in children
    }
    explain_set, explain_group = [("PodCliqueSet", "p", True)], [("PodCliqueScalingGroup", "p-0-g", True)]
    assert owners == {
        "p-0": explain_set,
        "p-0-a": explain_set,
        "p-0-g": explain_set,
        "p-0-g-0": explain_set,
        "p-0-g-0-b": explain_group,
        "p-0-g-0-c": explain_group,
        "p-0-g-1-b": explain_group,
        "p-0-g-1-c": explain_group,
    }
    assert {pod.metadata.owner_references[0].kind for pod in world.all(PODS)} == {"PodClique"}


def test_a_group_is_its_config_at_birth() -> None:
    ctx = context(
        pcs(
            role("b"),
            groups=(scaling("g", "b", replicas=3, needs=2, annotations={"team": "x"}),),
            annotations={"grove.io/mnnvl-group": "rack", "other": "no"},
        )
    )
    assert build_group(ctx, 4, build_desired_replica(ctx, 4, {}).groups[0]) == {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueScalingGroup",
        "metadata": {
            "namespace": "default",
            "name": "p-4-g",
            "labels": OURS
            | {
                "app.kubernetes.io/name": "p-4-g",
                "app.kubernetes.io/component": "pcs-podcliquescalinggroup",
                "grove.io/podcliqueset-replica-index": "4",
            },
            "annotations": {"team": "x", "grove.io/mnnvl-group": "rack"},
            "ownerReferences": [SET_OWNER],
        },
        "spec": {"replicas": 3, "minAvailable": 2, "cliqueNames": ["b"]},
    }


def test_a_groups_own_mnnvl_group_is_not_overwritten() -> None:
    own = scaling("g", "b", annotations={labels.MNNVL_GROUP: "own"})
    ctx = context(pcs(role("b"), groups=(own,), annotations={labels.MNNVL_GROUP: "rack"}))
    body = build_group(ctx, 0, build_desired_replica(ctx, 0, {}).groups[0])
    assert body["metadata"]["annotations"] == {labels.MNNVL_GROUP: "own"}


def test_a_standalone_clique_is_its_template() -> None:
    template = role(
        "a",
        3,
        labels={"app": "web", "app.kubernetes.io/part-of": "mine"},
        annotations={"note": "kept", "grove.io/topology-name": "dropped"},
        pod={"nodeSelector": {"disk": "ssd"}},
    )
    ctx = context(pcs(template, template={"priority_class_name": "high"}))
    clique = build_desired_replica(ctx, 0, {}).base.cliques[0]
    body = build_clique(ctx, 0, clique, owner=ctx.subject, incarnation="7")
    assert body["metadata"] == {
        "namespace": "default",
        "name": "p-0-a",
        "labels": OURS
        | {
            "app": "web",
            "app.kubernetes.io/name": "p-0-a",
            "app.kubernetes.io/component": "pcs-podclique",
            "grove.io/podcliqueset-replica-index": "0",
            "grove.io/podgang": "p-0",
            "grove.io/pod-template-hash": ctx.template_hashes["a"],
            "grove.io/incarnation": "7",
        },
        "annotations": {"note": "kept"},
        "ownerReferences": [SET_OWNER],
    }
    assert body["spec"] == {
        "roleName": "role-a",
        "replicas": 3,
        "minAvailable": 3,
        "startsAfter": [],
        "podSpec": {
            **ctx.spec.template.cliques[0].spec.pod_spec,
            "nodeSelector": {"disk": "ssd"},
            "priorityClassName": "high",
        },
    }


def test_a_members_containers_learn_of_their_group() -> None:
    containers = [{"name": "main", "image": "i", "env": [{"name": "MINE", "value": "1"}]}]
    template = pcs(
        role("b", 2, pod={"containers": containers, "initContainers": [{"name": "init", "image": "i"}]}),
        role("c", 3),
        groups=(scaling("g", "b", "c"),),
    )
    ctx = context(template)
    body = build_clique(ctx, 0, build_desired_replica(ctx, 0, {}).base.cliques[0], owner=ctx.subject, incarnation="1")
    group_env = [
        label_env("GROVE_PCSG_NAME", "grove.io/podcliquescalinggroup"),
        {"name": "GROVE_PCSG_TEMPLATE_NUM_PODS", "value": "5"},
        label_env("GROVE_PCSG_INDEX", "grove.io/podcliquescalinggroup-replica-index"),
    ]
    pod_spec = body["spec"]["podSpec"]
    assert [c["env"] for c in pod_spec["containers"]] == [[*group_env, {"name": "MINE", "value": "1"}]]
    assert [c["env"] for c in pod_spec["initContainers"]] == [group_env]


def label_env(name: str, label: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}


def test_what_the_user_wrote_is_never_changed_in_place() -> None:
    pod_spec: JsonObject = {"containers": [{"name": "main", "env": [{"name": "X", "value": "mine"}]}]}
    given = dict(pod_spec)
    prepend_env(given, [{"name": "X", "value": "ours"}])
    assert given == {"containers": [{"name": "main", "env": [{"name": "X", "value": "ours"}]}]}
    assert pod_spec == {"containers": [{"name": "main", "env": [{"name": "X", "value": "mine"}]}]}


def test_a_gang_shows_the_sets_own_labels_and_annotations_to_schedulers() -> None:
    ctx = context(
        pcs(
            labels={"queue": "gold", "grove.io/secret": "no", "app.kubernetes.io/part-of": "mine"},
            annotations={
                "kai.scheduler/queue": "gold",
                "grove.io/reconcile-trigger": "3",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
        )
    )
    assert build_gang_metadata(ctx, 0, build_desired_replica(ctx, 0, {}).base, "1") == {
        "name": "p-0",
        "labels": OURS
        | {
            "queue": "gold",
            "app.kubernetes.io/component": "podgang",
            "grove.io/podcliqueset-replica-index": "0",
            "grove.io/scheduler-name": "default-scheduler",
            "grove.io/incarnation": "1",
            "grove.io/podcliqueset-generation-hash": ctx.generation_hash,
        },
        "annotations": {"kai.scheduler/queue": "gold"},
    }


def test_the_first_scheduler_a_clique_names_is_the_sets() -> None:
    assert context(pcs(role("a"), role("b", pod={"schedulerName": "volcano"}))).backend.name == "volcano"
    assert context(pcs(role("a"))).backend.name == "default-scheduler"


def test_a_headless_service_selects_the_pods_of_its_replica() -> None:
    ctx = context(pcs(template={"headless_service_config": HeadlessServiceConfig(publish_not_ready_addresses=False)}))
    index = {"grove.io/podcliqueset-replica-index": "2"}
    assert build_service(ctx, 2) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": "default",
            "name": "p-2",
            "labels": OURS
            | index
            | {"app.kubernetes.io/name": "p-2", "app.kubernetes.io/component": "pcs-headless-service"},
            "ownerReferences": [SET_OWNER],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": False, "selector": OURS | index},
    }


def test_a_set_without_a_service_config_publishes_pods_that_are_not_ready() -> None:
    assert build_service(context(), 0)["spec"]["publishNotReadyAddresses"] is True


def test_the_names_of_appendix_a() -> None:
    world = settled()
    assert {
        resource.plural: world.names(resource) for resource in (PODCLIQUESETS, PODCLIQUES, GROUPS, PODGANGS, SERVICES)
    } == {
        "podcliquesets": ["p"],
        "podcliques": ["p-0-a", "p-0-g-0-b", "p-0-g-0-c", "p-0-g-1-b", "p-0-g-1-c"],
        "podcliquescalinggroups": ["p-0-g"],
        "podgangs": ["p-0", "p-0-g-0"],
        "services": ["p-0"],
    }
    podgroups = {gang.metadata.name: [group.name for group in gang.spec.podgroups] for gang in world.all(PODGANGS)}
    assert podgroups == {"p-0": ["p-0-a", "p-0-g-0-b", "p-0-g-0-c"], "p-0-g-0": ["p-0-g-1-b", "p-0-g-1-c"]}
