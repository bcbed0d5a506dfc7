"""The init container of a pod that starts after other cliques: what it waits for, and what it may read."""

import msgspec

from grove.api.reasons import ConditionType
from grove.api.template_hash import template_hash
from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.podclique import PodCliqueSpec
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetStatus, StartupType
from grove.api.values.clique_counts import CliqueCount
from grove.planner.actions import Create, Delete, DeleteMany, Patch
from grove.planner.plan import plan
from grove.planner.pods.pod_builder import PodBuilder
from grove.planner.snapshot import ClusterContext, Snapshot, build_context
from tests.dsl import NOW, actions, clique, gang, pcs, pod, replica, role, service, snapshot

AWAITED = (CliqueCount(name="p-0-a", count=2), CliqueCount(name="p-0-g-0-l", count=1))
ORDERED = pcs(role("a"), role("b"), template={"clique_startup_type": StartupType.IN_ORDER})


def build(pod_spec: JsonObject) -> JsonObject:
    observed = clique(name="p-0-b")
    spec = PodCliqueSpec(pod_spec=pod_spec)
    observed = msgspec.structs.replace(observed, clique=msgspec.structs.replace(observed.clique, spec=spec))
    spec_of_pod: JsonObject = PodBuilder(observed, awaited=AWAITED, init_image="img").build("x", 0, 0)["spec"]
    return spec_of_pod


def test_the_init_container_is_the_last_one_and_has_grove_wait_with_the_minima() -> None:
    spec = build({"containers": [{"name": "main"}], "initContainers": [{"name": "own"}], "volumes": [{"name": "v"}]})
    own, added = spec["initContainers"]
    assert own["name"] == "own"
    assert (added["name"], added["image"], added["command"]) == ("grove-initc", "img", ["grove", "wait"])
    assert added["args"] == ["--podcliques=p-0-a:2", "--podcliques=p-0-g-0-l:1"]
    assert "env" not in added
    assert [volume["name"] for volume in spec["volumes"]] == ["v", "pod-info-vol", "grove-initc-token"]


def test_only_the_init_container_mounts_the_token() -> None:
    spec = build({"containers": [{"name": "main"}], "automountServiceAccountToken": False})
    (added,) = spec["initContainers"]
    assert [(mount["name"], mount["mountPath"], mount["readOnly"]) for mount in added["volumeMounts"]] == [
        ("pod-info-vol", "/var/grove/pod-info", True),
        ("grove-initc-token", "/var/run/secrets/kubernetes.io/serviceaccount", True),
    ]
    assert "volumeMounts" not in spec["containers"][0]
    token = next(volume for volume in spec["volumes"] if volume["name"] == "grove-initc-token")
    assert token["projected"]["sources"][0] == {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}


def test_it_meets_the_restricted_pod_security_standard_and_a_quota() -> None:
    (added,) = build({"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]})["initContainers"]
    assert added["securityContext"]["runAsNonRoot"] is True
    assert added["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert added["resources"]["requests"] == added["resources"]["limits"]
    (added,) = build({"containers": [{"name": "main"}]})["initContainers"]
    assert "resources" not in added


def running(observed: PodCliqueSet, image: str = "img", *, starts_after: tuple[str, ...] = ("p-0-a",)) -> Snapshot:
    """A replica in which a runs, and b has one of two pods."""
    first, second = clique(pod(), name="p-0-a"), clique(pod(), name="p-0-b", replicas=2)
    spec = msgspec.structs.replace(second.clique.spec, starts_after=starts_after)
    second = msgspec.structs.replace(second, clique=msgspec.structs.replace(second.clique, spec=spec))
    view = replica(first, second, gangs=(gang(first, second),), services=(service(),))
    context = build_context(observed, ClusterContext(init_image=image))
    return msgspec.structs.replace(snapshot(observed, view), context=context)


def created_pods(found: Snapshot) -> list[str]:
    made = [one for one in actions(plan(found, NOW)) if isinstance(one, Create)]
    return [one.name.rpartition("-")[0] for one in made if one.resource.plural == "pods"]


def test_a_new_pod_waits_for_the_minimum_of_the_clique_before() -> None:
    assert created_pods(running(ORDERED)) == ["p-0-b-1"]
    (made,) = (
        one for one in actions(plan(running(ORDERED), NOW)) if isinstance(one, Create) and one.resource.plural == "pods"
    )
    assert made.body["spec"]["initContainers"][0]["args"] == ["--podcliques=p-0-a:1"]


def test_without_an_image_dependent_cliques_get_no_pods_and_the_condition_says_what_to_do() -> None:
    found = running(ORDERED, image="")
    assert created_pods(found) == []
    decided = plan(found, NOW)
    (write,) = (one for one in decided.statuses if one.resource.plural == "podcliquesets")
    status = msgspec.convert(write.patch, PodCliqueSetStatus)
    condition = find_condition(status.conditions, ConditionType.STARTUP_ORDER_UNAVAILABLE)
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "MissingDependency")
    assert "set initContainer.image in the OperatorConfiguration" in condition.message
    assert any(condition.message == finding.message for finding in decided.findings)


def test_a_set_of_a_version_that_ignored_the_order_is_corrected_without_a_restart() -> None:
    decided = actions(plan(running(ORDERED, starts_after=()), NOW))
    assert not [one for one in decided if isinstance(one, Delete | DeleteMany)]
    patches = [one for one in decided if isinstance(one, Patch) and one.resource.plural == "podcliques"]
    assert [(one.name, one.patch) for one in patches] == [("p-0-b", {"spec": {"startsAfter": ["p-0-a"]}})]


def test_the_order_is_not_part_of_the_template_hash() -> None:
    plain, ordered = role("b"), role("b", after=("a",))
    assert template_hash(plain, "") == template_hash(ordered, "")
