"""The rules of pods: defaults, gates, binding, what may still change, priority and quota."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from tests.conformance.talk import Answer, Talk, gated, pod
from tests.conformance.words import DNS_LABEL, NO_SUCH_METHOD, POD_IMMUTABLE, QUALIFIED_NAME

TOLERATIONS = [
    {"key": f"node.kubernetes.io/{trouble}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for trouble in ("not-ready", "unreachable")
]


def container(**fields: Any) -> JsonObject:
    return {"name": "main", "image": "registry.example/pause:3.10", **fields}


def requesting(**resources: str) -> JsonObject:
    return {"containers": [container(resources={"requests": resources})]}


async def test_a_pod_gets_its_defaults(api: Talk) -> None:
    answer = await api.create("pods", pod("a"))
    spec = {key: value for key, value in answer.spec.items() if not key.startswith("serviceAccount")}
    defaults = {
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent", "resources": {},
    }  # fmt: skip
    assert spec == {
        "containers": [container(**defaults)], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst", "automountServiceAccountToken": False, "securityContext": {},
        "schedulerName": "nobody", "tolerations": TOLERATIONS, "priority": 0, "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }  # fmt: skip
    assert answer.body["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_a_pod_runs_as_the_account_of_its_namespace(api: Talk) -> None:
    answer = await api.create("pods", pod("a"))
    assert answer.spec.get("serviceAccountName") == "default"


async def test_an_account_must_exist(api: Talk) -> None:
    answer = await api.post(api.at("pods"), pod("a", spec={"serviceAccountName": "nobody"}))
    why = f'error looking up service account {api.namespace}/nobody: serviceaccount "nobody" not found'
    assert answer.refusal == (403, "Forbidden", f'pods "a" is forbidden: {why}')


PULL_POLICIES = [("a", "Always"), ("a:latest", "Always"), ("a:1", "IfNotPresent"), ("r:5/a", "Always")]


@pytest.mark.parametrize(("image", "policy"), PULL_POLICIES)
async def test_an_image_without_version_is_pulled_again(api: Talk, image: str, policy: str) -> None:
    answer = await api.create("pods", pod("a", spec={"containers": [container(image=image)]}))
    assert answer.spec["containers"][0]["imagePullPolicy"] == policy


async def test_defaults_reach_deep_into_containers(api: Talk) -> None:
    probe = {"readinessProbe": {"httpGet": {"path": "/", "port": 80}}}
    answer = await api.create("pods", pod("a", spec={"containers": [container(**probe)]}))
    assert answer.spec["containers"][0]["readinessProbe"].get("periodSeconds") == 10


async def test_quantities_are_written_in_one_way(api: Talk) -> None:
    answer = await api.create("pods", pod("a", spec=requesting(cpu="1000m", memory="1024Mi")))
    assert answer.spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


QUALITIES: list[Any] = [
    ({}, "BestEffort"), ({"requests": {"cpu": "1"}}, "Burstable"), ({"limits": {"cpu": "1"}}, "Burstable"),
    ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
]  # fmt: skip


@pytest.mark.parametrize(("resources", "quality"), QUALITIES)
async def test_a_pods_quality_follows_from_its_resources(api: Talk, resources: Any, quality: str) -> None:
    answer = await api.create("pods", pod("a", spec={"containers": [container(resources=resources)]}))
    assert answer.body["status"]["qosClass"] == quality


async def test_what_is_limited_is_requested(api: Talk) -> None:
    resources = {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}
    answer = await api.create("pods", pod("a", spec={"containers": [container(resources=resources)]}))
    assert answer.spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


async def test_a_negative_grace_is_a_second(api: Talk) -> None:
    answer = await api.create("pods", pod("a", spec={"terminationGracePeriodSeconds": -1}))
    assert answer.spec["terminationGracePeriodSeconds"] == 1


async def test_a_status_is_not_created_with_a_pod(api: Talk) -> None:
    answer = await api.create("pods", {**pod("a"), "status": {"phase": "Running"}})
    assert answer.body["status"]["phase"] == "Pending"


def with_volume(name: str = "v", *, files: Any = None, **mount: Any) -> dict[str, Any]:
    """One volume, mounted at /data unless something else is said of the mount."""
    volume = {"name": name, **({"configMap": {"name": "c", "items": [files]}} if files else {"emptyDir": {}})}
    mounts = [{"name": "v", "mountPath": "/data", **mount}]
    is_mounted = name == "v" and not files
    return {"volumes": [volume], "containers": [container(volumeMounts=mounts if is_mounted else [])]}


# What a kubelet would have to write outside of the pod's own folder.
VOLUMES: list[Any] = [
    pytest.param(with_volume(""), "spec.volumes[0].name: Required value", id="volume-without-name"),
    pytest.param(
        with_volume("../../.."), f'spec.volumes[0].name: Invalid value: "../../..": {DNS_LABEL}', id="volume-name"
    ),
    pytest.param(with_volume("a/b"), f'spec.volumes[0].name: Invalid value: "a/b": {DNS_LABEL}', id="volume-slash"),
    pytest.param(
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]},
        'spec.volumes[1].name: Duplicate value: "v"', id="volume-twice",
    ),
    pytest.param(
        with_volume(files={"key": "k", "path": "../x"}),
        "spec.volumes[0].configMap.items[0].path: Invalid value: \"../x\": must not contain '..'", id="item-above",
    ),
    pytest.param(
        with_volume(files={"key": "k", "path": "..x"}),
        "spec.volumes[0].configMap.items[0].path: Invalid value: \"..x\": must not start with '..'", id="item-dots",
    ),
    pytest.param(
        with_volume(files={"key": "k", "path": "/etc/x"}),
        'spec.volumes[0].configMap.items[0].path: Invalid value: "/etc/x": must be a relative path', id="item-root",
    ),
    pytest.param(
        with_volume(files={"key": "k", "path": "x", "mode": 0o1777}),
        "spec.volumes[0].configMap.items[0].mode: Invalid value: 1023: must be a number between 0 and 0777 (octal), "
        "both inclusive", id="item-mode",
    ),
    pytest.param(
        with_volume(subPath="../x"),
        "spec.containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'", id="mount-above",
    ),
    pytest.param(
        with_volume(subPath="/etc"),
        'spec.containers[0].volumeMounts.subPath: Invalid value: "/etc": must be a relative path', id="mount-root",
    ),
    pytest.param(
        with_volume(mountPath=""), "spec.containers[0].volumeMounts[0].mountPath: Required value", id="mount-nowhere"
    ),
    pytest.param(
        {"containers": [container(volumeMounts=[{"name": "w", "mountPath": "/data"}])]},
        'spec.containers[0].volumeMounts[0].name: Not found: "w"', id="mount-of-nothing",
    ),
    pytest.param(
        {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [container(volumeMounts=[{"name": "v", "mountPath": "/data"}] * 2)],
        },
        'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/data": must be unique', id="mounted-twice",
    ),
]  # fmt: skip

BAD_SPECS: list[Any] = [
    pytest.param({"containers": []}, "spec.containers: Required value", id="none"),
    pytest.param({"containers": [{"name": "x"}]}, "spec.containers[0].image: Required value", id="image"),
    pytest.param({"containers": [{"image": "x"}]}, "spec.containers[0].name: Required value", id="name"),
    pytest.param(
        {"containers": [container(), container()]}, 'spec.containers[1].name: Duplicate value: "main"', id="twice"
    ),
    pytest.param(
        {"restartPolicy": "Foo"},
        'spec.restartPolicy: Unsupported value: "Foo": supported values: "Always", "OnFailure", "Never"', id="restart",
    ),
    pytest.param(
        requesting(cpu="-1"),
        'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        id="negative",
    ),
    pytest.param(
        {"containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        id="limit",
    ),
    pytest.param(
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "Foo"}]},
        'spec.tolerations[0].effect: Unsupported value: "Foo": supported values: "NoSchedule", "PreferNoSchedule", '
        '"NoExecute"', id="toleration",
    ),
    pytest.param(
        {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]},
        "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        id="patience",
    ),
    pytest.param(
        {"schedulingGates": [{"name": "x.io/a"}, {"name": "x.io/a"}]},
        'spec.schedulingGates[1]: Duplicate value: "x.io/a"', id="gate-twice",
    ),
    pytest.param(
        {"schedulingGates": [{"name": "a b"}]},
        f'spec.schedulingGates[0]: Invalid value: "a b": {QUALIFIED_NAME}', id="gate-name",
    ),
    *VOLUMES,
    pytest.param(
        {"schedulingGates": [{"name": "x.io/a"}], "nodeName": "n"},
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared", id="gate-and-node",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "problem"), BAD_SPECS)
async def test_a_pod_that_could_not_run_is_refused(api: Talk, spec: Any, problem: str) -> None:
    answer = await api.post(api.at("pods"), pod("a", spec=spec))
    assert answer.refusal == (422, "Invalid", f'Pod "a" is invalid: {problem}')


async def test_a_quantity_must_be_one(api: Talk) -> None:
    answer = await api.post(api.at("pods"), pod("a", spec=requesting(cpu="x")))
    words = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    assert answer.refusal == (400, "BadRequest", f'Pod in version "v1" cannot be handled as a Pod: {words}')


# Gates


async def test_a_gated_pod_says_so(api: Talk) -> None:
    answer = await api.create("pods", gated("a", "x.io/a"))
    (condition,) = answer.body["status"]["conditions"]
    assert condition.pop("lastTransitionTime") >= answer.metadata["creationTimestamp"]
    assert condition == {
        "type": "PodScheduled", "status": "False", "lastProbeTime": None, "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }  # fmt: skip


async def test_gates_go_and_never_come(api: Talk) -> None:
    await api.create("pods", gated("a", "x.io/a", "x.io/b"))
    path = api.at("pods", "a")
    for gates in (["x.io/a", "x.io/b", "x.io/c"], ["x.io/a", "x.io/c"]):
        answer = await api.merge(path, {"spec": {"schedulingGates": [{"name": gate} for gate in gates]}})
        field = f"spec.schedulingGates[{len(gates) - 1}].name"
        problem = f"{field}: Forbidden: only deletion is allowed, but found new scheduling gate 'x.io/c'"
        assert answer.refusal == (422, "Invalid", f'Pod "a" is invalid: {problem}')
    answer = await api.merge(path, {"spec": {"schedulingGates": [{"name": "x.io/b"}]}})
    assert (answer.spec["schedulingGates"], answer.metadata["generation"]) == ([{"name": "x.io/b"}], 2)
    answer = await api.strategic(path, {"spec": {"schedulingGates": [{"name": "x.io/b", "$patch": "delete"}]}})
    assert (answer.status, answer.metadata["generation"]) == (200, 3)
    assert "schedulingGates" not in answer.spec
    answer = await api.merge(path, {"spec": {"schedulingGates": [{"name": "x.io/a"}]}})
    assert answer.refusal[:2] == (422, "Invalid")


async def test_while_gated_a_pod_may_be_narrowed(api: Talk) -> None:
    await api.create("pods", gated("a", "x.io/a"))
    path = api.at("pods", "a")
    assert (await api.merge(path, {"spec": {"nodeSelector": {"a": "b"}}})).status == 200
    answer = await api.merge(path, {"spec": {"nodeSelector": {"a": "c"}}})
    problem = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    assert answer.refusal == (
        422, "Invalid", f'Pod "a" is invalid: spec.nodeSelector: Invalid value: {{"a":"c"}}: {problem}'
    )  # fmt: skip


# What may change

FIXED: list[Any] = [
    {"nodeName": "n"}, {"restartPolicy": "Never"}, {"nodeSelector": {"a": "b"}}, {"schedulerName": "x"},
    {"priority": 5}, {"hostname": "x"}, {"containers": [{"name": "other", "image": "x"}]},
]  # fmt: skip


@pytest.mark.parametrize("spec", FIXED)
async def test_a_pod_is_fixed(api: Talk, spec: Any) -> None:
    await api.create("pods", pod("a"))
    answer = await api.merge(api.at("pods", "a"), {"spec": spec})
    assert answer.refusal[:2] == (422, "Invalid")
    # A real server goes on with the difference, in Go's words for the fields.
    assert answer.refusal[2].partition("\n")[0] == POD_IMMUTABLE.format("a")
    assert answer.details is not None
    assert answer.details["causes"][0]["field"] == "spec"


@pytest.mark.parametrize("kind", ["merge", "strategic"])
async def test_an_image_may_change(api: Talk, kind: str) -> None:
    await api.create("pods", pod("a"))
    patch = {"spec": {"containers": [{"name": "main", "image": "registry.example/other:2"}]}}
    path = api.at("pods", "a")
    answer = await api.merge(path, patch) if kind == "merge" else await api.strategic(path, patch)
    assert (answer.status, answer.metadata["generation"]) == (200, 2)
    assert answer.spec["containers"][0]["image"] == "registry.example/other:2"


async def test_a_deadline_only_comes_nearer(api: Talk) -> None:
    await api.create("pods", pod("a"))
    path = api.at("pods", "a")
    assert (await api.merge(path, {"spec": {"activeDeadlineSeconds": 100}})).status == 200
    answer = await api.merge(path, {"spec": {"activeDeadlineSeconds": 200}})
    problem = "spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value"
    assert answer.refusal == (422, "Invalid", f'Pod "a" is invalid: {problem}')


async def test_tolerations_are_only_added(api: Talk) -> None:
    await api.create("pods", pod("a"))
    path = api.at("pods", "a")
    more = [*TOLERATIONS, {"key": "a", "operator": "Exists"}]
    assert (await api.merge(path, {"spec": {"tolerations": more}})).spec["tolerations"] == more
    answer = await api.merge(path, {"spec": {"tolerations": []}})
    problem = "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    assert answer.refusal == (422, "Invalid", f'Pod "a" is invalid: {problem}')


async def test_the_patience_of_a_toleration_may_change(api: Talk) -> None:
    await api.create("pods", pod("a"))
    changed = [{**each, "tolerationSeconds": 5} for each in TOLERATIONS]
    assert (await api.merge(api.at("pods", "a"), {"spec": {"tolerations": changed}})).spec["tolerations"] == changed


async def test_what_was_read_can_be_written_back(api: Talk) -> None:
    born = await api.create("pods", pod("a"))
    assert (await api.put(api.at("pods", "a"), born.body)).body == born.body


async def test_a_status_write_may_bring_labels_but_no_spec(api: Talk) -> None:
    await api.create("pods", pod("a"))
    patch = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}, "metadata": {"labels": {"a": "b"}}}
    answer = await api.strategic(api.at("pods", "a", "status"), patch)
    assert (answer.status, answer.body["status"]["phase"], answer.metadata["labels"]) == (200, "Running", {"a": "b"})
    assert "nodeName" not in answer.spec
    assert answer.metadata["generation"] == 1


# Binding


def binding(pod_name: str, node: str = "n") -> JsonObject:
    return {"metadata": {"name": pod_name}, "target": {"kind": "Node", "name": node}}


async def test_a_binding_gives_a_pod_its_node(api: Talk) -> None:
    await api.create("pods", pod("a"))
    body = binding("a")
    body["metadata"]["annotations"] = {"k": "v"}
    answer = await api.post(api.at("pods", "a", "binding"), body)
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert (answer.status, answer.body) == (201, success)
    bound = await api.get(api.at("pods", "a"))
    assert (bound.spec["nodeName"], bound.metadata["annotations"], bound.metadata["generation"]) == ("n", {"k": "v"}, 1)
    (condition,) = bound.body["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["lastProbeTime"]) == ("PodScheduled", "True", None)


async def refused_binding(api: Talk, body: JsonObject, why: str) -> None:
    answer = await api.post(api.at("pods", "a", "binding"), body)
    assert answer.refusal == (409, "Conflict", f'Operation cannot be fulfilled on pods/binding "a": {why}')
    assert answer.details == {"name": "a", "kind": "pods/binding"}


async def test_a_pod_is_bound_once(api: Talk) -> None:
    await api.create("pods", pod("a"))
    await api.post(api.at("pods", "a", "binding"), binding("a"))
    await refused_binding(api, binding("a", "other"), 'pod a is already assigned to node "n"')


async def test_a_gated_pod_is_not_bound(api: Talk) -> None:
    await api.create("pods", gated("a", "x.io/a"))
    await refused_binding(api, binding("a"), "pod a has non-empty .spec.schedulingGates")


async def test_a_leaving_pod_is_not_bound(api: Talk) -> None:
    await api.create("pods", pod("a", finalizers=["x.io/a"]))
    await api.delete(api.at("pods", "a"))
    await refused_binding(api, binding("a"), "pod a is being deleted, cannot be assigned to a host")


async def test_a_binding_of_another_pod_of_that_name_conflicts(api: Talk) -> None:
    uid = (await api.create("pods", pod("a"))).metadata["uid"]
    answer = await api.post(api.at("pods", "a", "binding"), {**binding("a"), "metadata": {"name": "a", "uid": "x"}})
    assert answer.refusal[:2] == (409, "Conflict")
    assert answer.refusal[2].endswith(f"Precondition failed: UID in precondition: x, UID in object meta: {uid}")


@pytest.mark.parametrize("metadata", [{}, {"name": "b"}])
async def test_a_binding_names_its_pod(api: Talk, metadata: Any) -> None:
    await api.create("pods", pod("a"))
    answer = await api.post(api.at("pods", "a", "binding"), {**binding("a"), "metadata": metadata})
    assert answer.refusal == (400, "BadRequest", "name in URL does not match name in Binding object")


async def test_only_what_is_there_can_be_bound(api: Talk) -> None:
    answer = await api.post(api.at("pods", "a", "binding"), binding("a"))
    assert answer.refusal == (404, "NotFound", 'pods "a" not found')


async def test_a_dry_run_binds_nothing(api: Talk) -> None:
    await api.create("pods", pod("a"))
    assert (await api.post(api.at("pods", "a", "binding"), binding("a"), dryRun="All")).status == 201
    assert "nodeName" not in (await api.get(api.at("pods", "a"))).spec


async def test_a_binding_cannot_be_read(api: Talk) -> None:
    await api.create("pods", pod("a"))
    assert (await api.get(api.at("pods", "a", "binding"))).refusal == NO_SUCH_METHOD


async def test_a_binding_needs_a_target(api: Talk) -> None:
    await api.create("pods", pod("a"))
    answer = await api.post(api.at("pods", "a", "binding"), {"metadata": {"name": "a"}, "target": {}})
    assert answer.refusal == (500, "", "target.name: Required value")


async def test_bindings_can_be_made_by_themselves(api: Talk) -> None:
    await api.create("pods", pod("a"))
    assert (await api.post(api.at("bindings"), binding("a"))).status == 201


async def test_a_pod_can_be_evicted(api: Talk) -> None:
    await api.create("pods", pod("a"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert (await api.post(api.at("pods", "a", "eviction"), body)).status == 201


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
async def test_a_pod_has_more_doors(api: Talk, subresource: str) -> None:
    await api.create("pods", pod("a"))
    assert (await api.get(api.at("pods", "a", subresource))).status == 200


# Priority


async def a_class(api: Talk) -> str:
    name = f"class-{api.namespace}"
    await api.create("priorityclasses", {"metadata": {"name": name}, "value": 1000})
    # A real server learns of classes a moment later.
    early = pod("early", spec={"priorityClassName": name})
    await api.until_answered(lambda: api.post(api.at("pods"), early, dryRun="All"), lambda answer: answer.status == 201)
    return name


async def test_a_class_becomes_a_number(api: Talk) -> None:
    name = await a_class(api)
    spec = (await api.create("pods", pod("a", spec={"priorityClassName": name}))).spec
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "PreemptLowerPriority")


async def test_a_class_of_the_system_is_known(api: Talk) -> None:
    spec = (await api.create("pods", pod("a", spec={"priorityClassName": "system-node-critical"}))).spec
    assert spec["priority"] == 2000001000


async def test_a_class_must_exist(api: Talk) -> None:
    answer = await api.post(api.at("pods"), pod("a", spec={"priorityClassName": "nobody"}))
    why = "no PriorityClass with name nobody was found"
    assert answer.refusal == (403, "Forbidden", f'pods "a" is forbidden: {why}')
    assert answer.details == {"name": "a", "kind": "pods"}


async def test_a_priority_is_not_chosen_freely(api: Talk) -> None:
    answer = await api.post(api.at("pods"), pod("a", spec={"priority": 7}))
    why = (
        "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 "
        "from the given PriorityClass name"
    )
    assert answer.refusal == (403, "Forbidden", f'pods "a" is forbidden: {why}')


async def test_a_preemption_policy_is_the_classs(api: Talk) -> None:
    name = await a_class(api)
    spec = {"priorityClassName": name, "preemptionPolicy": "Never"}
    answer = await api.post(api.at("pods"), pod("a", spec=spec))
    why = (
        "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller "
        "computed PreemptLowerPriority from the given PriorityClass name"
    )
    assert answer.refusal == (403, "Forbidden", f'pods "a" is forbidden: {why}')


# Quota


async def limited(api: Talk, **hard: str) -> Answer:
    """A quota whose status is there, so that it counts."""
    names = {name.replace("__", "/").replace("_", "."): value for name, value in hard.items()}
    await api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": names}})
    path = api.at("resourcequotas", "q")
    found = await api.until(path, lambda found: set(names) <= set(found.body.get("status", {}).get("used", {})))
    # Whoever admits pods on a real server learns of the status a moment later.
    await api.until_answered(
        lambda: api.post(api.at("pods"), pod("early"), dryRun="All"),
        lambda answer: "status unknown for quota" not in answer.raw.decode(),
    )
    return found


async def test_a_quota_says_what_is_used(api: Talk) -> None:
    await api.create("pods", pod("a", spec=requesting(cpu="500m")))
    found = await limited(api, pods="5", requests_cpu="2")
    path = api.at("resourcequotas", "q")
    for limit in range(6, 66):
        if found.body["status"]["used"].get("pods") == "1":
            break
        # A controller that has not heard of the pod yet counts again when somebody changes the quota.
        await api.merge(path, {"spec": {"hard": {"pods": str(limit)}}})
        await api.clock.sleep(1)
        found = await api.get(path)
    assert found.body["status"]["used"] == {"pods": "1", "requests.cpu": "500m"}
    assert found.body["status"]["hard"]["requests.cpu"] == "2"


async def test_a_pod_too_many_is_refused(api: Talk) -> None:
    await limited(api, pods="1")
    await api.create("pods", pod("a"))
    answer = await api.post(api.at("pods"), pod("b"))
    why = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    assert answer.refusal == (403, "Forbidden", f'pods "b" is forbidden: {why}')
    assert answer.details == {"name": "b", "kind": "pods"}
    assert (await api.post(api.at("pods"), pod("b"), dryRun="All")).refusal[2] == answer.refusal[2]


async def test_a_pod_too_large_is_refused(api: Talk) -> None:
    await limited(api, requests_cpu="2")
    answer = await api.post(api.at("pods"), pod("a", spec=requesting(cpu="2500m")))
    why = "exceeded quota: q, requested: requests.cpu=2500m, used: requests.cpu=0, limited: requests.cpu=2"
    assert answer.refusal == (403, "Forbidden", f'pods "a" is forbidden: {why}')


async def test_under_a_quota_a_pod_says_what_it_takes(api: Talk) -> None:
    await limited(api, requests_cpu="2")
    answer = await api.post(api.at("pods"), pod("a"))
    why = "failed quota: q: must specify requests.cpu for: main"
    assert answer.refusal == (403, "Forbidden", f'pods "a" is forbidden: {why}')
