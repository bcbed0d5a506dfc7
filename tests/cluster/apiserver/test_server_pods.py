"""The rules of pods: defaults, gates, binding, what may still change, and how they leave."""

import pytest

from grove.api.types.meta import JsonObject
from tests.cluster.apidsl import PODS, Api, on_cluster, pod

_PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@on_cluster
async def test_a_new_pod_is_pending_and_has_its_defaults(api: Api) -> None:
    created = (await api.post(PODS, pod("a"))).body
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert created["spec"] == {
        "containers": [
            {
                "name": "main",
                "image": "registry.k8s.io/pause:3.10",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {},
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{trouble}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for trouble in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }


@on_cluster
async def test_a_gated_pod_says_that_it_is_gated_and_keeps_saying_so_until_a_scheduler_speaks(api: Api) -> None:
    gated = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T12:00:00Z",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    created = await api.post(PODS, pod("a", gates=("x.io/wait",)))
    assert created.body["status"]["conditions"] == [gated]
    ungated = await api.merge(f"{PODS}/a", {"spec": {"schedulingGates": []}})
    assert "schedulingGates" not in ungated.body["spec"]
    assert ungated.body["status"]["conditions"] == [gated]
    assert ungated.metadata["generation"] == 2


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
@on_cluster
async def test_the_quality_of_service_follows_from_requests_and_limits(
    api: Api, resources: JsonObject, qos: str
) -> None:
    created = await api.post(PODS, pod("a", spec={"containers": [{"name": "c", "image": "i", "resources": resources}]}))
    assert created.body["status"]["qosClass"] == qos


@on_cluster
async def test_what_is_limited_is_requested_at_its_limit(api: Api) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}
    created = await api.post(PODS, pod("a", spec={"containers": [container]}))
    assert created.body["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    assert created.body["spec"]["containers"][0]["imagePullPolicy"] == "Always"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image"),
        ({"containers": [{"image": "i"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "C", "image": "i"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "c", "image": "i"}] * 2}, "spec.containers[1].name"),
        ({"initContainers": [{"name": "main", "image": "i"}]}, "spec.containers[0].name"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"hostname": "Not.A.Label"}, "spec.hostname"),
        ({"subdomain": "x" * 64}, "spec.subdomain"),
        ({"schedulingGates": [{"name": ""}]}, "spec.schedulingGates[0]"),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, "spec.schedulingGates[1]"),
        ({"schedulingGates": [{"name": "a"}], "nodeName": "n"}, "spec.nodeName"),
    ],
)
@on_cluster
async def test_an_invalid_pod_is_refused_and_the_field_is_named(api: Api, spec: JsonObject, field: str) -> None:
    refused = await api.post(PODS, pod("a", spec=spec))
    assert (refused.status, [cause["field"] for cause in refused.body["details"]["causes"]]) == (422, [field])


@pytest.mark.parametrize(
    ("resources", "field"),
    [
        ({"requests": {"cpu": "-1"}}, "spec.containers[0].resources.requests[cpu]"),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "spec.containers[0].resources.requests"),
    ],
)
@on_cluster
async def test_impossible_amounts_are_refused(api: Api, resources: JsonObject, field: str) -> None:
    container = {"name": "c", "image": "i", "resources": resources}
    refused = await api.post(PODS, pod("a", spec={"containers": [container]}))
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [field]


@on_cluster
async def test_a_spec_of_the_wrong_type_is_a_bad_request(api: Api) -> None:
    wrong: tuple[JsonObject, ...] = ({"containers": {}}, {"nodeName": 5}, {"schedulingGates": ["x"]})
    for spec in wrong:
        assert (await api.post(PODS, pod("a", spec=spec))).status == 400


@on_cluster
async def test_a_priority_class_becomes_a_number_and_must_exist(api: Api) -> None:
    await api.post(_PRIORITIES, {"metadata": {"name": "high"}, "value": 1000})
    created = await api.post(PODS, pod("a", spec={"priorityClassName": "high"}))
    assert (created.body["spec"]["priority"], created.body["spec"]["priorityClassName"]) == (1000, "high")
    refused = await api.post(PODS, pod("b", spec={"priorityClassName": "higher"}))
    assert refused.refusal == (
        403,
        "Forbidden",
        'pods "b" is forbidden: no PriorityClass with name higher was found',
    )
    assert (await api.post(PODS, pod("b", spec={"priorityClassName": "high", "priority": 3}))).status == 403


# Gates and other changes


@on_cluster
async def test_gates_can_be_taken_away_but_not_added(api: Api) -> None:
    await api.post(PODS, pod("a", gates=("x.io/one", "x.io/two")))
    one_less = await api.strategic(
        f"{PODS}/a", {"spec": {"schedulingGates": [{"$patch": "delete", "name": "x.io/one"}]}}
    )
    assert one_less.body["spec"]["schedulingGates"] == [{"name": "x.io/two"}]
    refused = await api.strategic(f"{PODS}/a", {"spec": {"schedulingGates": [{"name": "x.io/three"}]}})
    assert refused.body["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: only deletion is allowed, but found new scheduling gate 'x.io/three'",
            "field": "spec.schedulingGates[0].name",
        }
    ]


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        pytest.param({"nodeName": "n"}, 422, id="the node is the scheduler's"),
        pytest.param({"hostname": "other"}, 422, id="hostname"),
        pytest.param({"containers": [{"name": "main", "command": ["x"]}]}, 422, id="a command"),
        pytest.param({"containers": [{"name": "main", "image": "other:1"}]}, 200, id="an image"),
        pytest.param({"activeDeadlineSeconds": 5}, 200, id="a deadline"),
        pytest.param({"nodeSelector": {"a": "b"}}, 422, id="a selector of an ungated pod"),
    ],
)
@on_cluster
async def test_most_of_a_pod_never_changes(api: Api, spec: JsonObject, code: int) -> None:
    await api.post(PODS, pod("a"))
    changed = await api.strategic(f"{PODS}/a", {"spec": spec})
    assert changed.status == code
    if code == 422:
        assert "pod updates may not change fields other than" in changed.body["message"]


@on_cluster
async def test_a_gated_pod_may_still_be_told_where_to_go(api: Api) -> None:
    await api.post(PODS, pod("a", gates=("x",), spec={"nodeSelector": {"a": "b"}}))
    assert (await api.merge(f"{PODS}/a", {"spec": {"nodeSelector": {"c": "d"}}})).status == 200
    assert (await api.merge(f"{PODS}/a", {"spec": {"nodeSelector": {"a": "z"}}})).status == 422


# Binding


@on_cluster
async def test_binding_gives_a_pod_its_node(api: Api) -> None:
    created = await api.post(PODS, pod("a"))
    answer = await api.bind("a", "n1", created.metadata["uid"])
    assert (answer.status, answer.body["status"]) == (201, "Success")
    bound = (await api.get(f"{PODS}/a")).body
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        }
    ]


@on_cluster
async def test_a_binding_that_comes_too_late_or_too_early_conflicts(api: Api) -> None:
    await api.post(PODS, pod("bound"))
    await api.bind("bound", "n1")
    await api.post(PODS, pod("gated", gates=("x",)))
    await api.post(PODS, pod("other"))
    await api.post(PODS, pod("leaving", finalizers=["x.io/keep"]))
    await api.delete(f"{PODS}/leaving")
    answers = [
        await api.bind("bound", "n2"),
        await api.bind("gated", "n1"),
        await api.bind("other", "n1", uid="stranger"),
        await api.bind("leaving", "n1"),
        await api.bind("absent", "n1"),
    ]
    prefix = "Operation cannot be fulfilled on pods"
    uid = (await api.get(f"{PODS}/other")).metadata["uid"]
    assert [(answer.status, answer.body["message"]) for answer in answers] == [
        (409, f'{prefix}/binding "bound": pod bound is already assigned to node "n1"'),
        (409, f'{prefix}/binding "gated": pod gated has non-empty .spec.schedulingGates'),
        (
            409,
            (
                f'{prefix} "other": StorageError: invalid object, Code: 4, Key: /registry/pods/default/other, '
                "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: stranger, "
                f"UID in object meta: {uid}"
            ),
        ),
        (409, f'{prefix}/binding "leaving": pod leaving is being deleted, cannot be assigned to a host'),
        (404, 'pods "absent" not found'),
    ]


# Leaving


@on_cluster
async def test_a_pod_without_a_node_goes_at_once(api: Api) -> None:
    await api.post(PODS, pod("a"))
    answer = await api.delete(f"{PODS}/a")
    assert (answer.status, answer.body["kind"]) == (200, "Pod")
    assert answer.metadata["deletionGracePeriodSeconds"] == 0
    assert (await api.get(f"{PODS}/a")).status == 404


@on_cluster
async def test_a_bound_pod_is_given_its_grace_and_stays_until_the_kubelet_removes_it(api: Api) -> None:
    await api.post(PODS, pod("a"))
    await api.bind("a", "n")
    answer = await api.delete(f"{PODS}/a")
    assert (answer.metadata["deletionTimestamp"], answer.metadata["deletionGracePeriodSeconds"]) == (
        "2026-01-01T12:00:30Z",
        30,
    )
    assert answer.metadata["generation"] == 2
    assert (await api.get(f"{PODS}/a")).body == answer.body
    await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert (await api.get(f"{PODS}/a")).status == 404


@pytest.mark.parametrize(("second", "left"), [(None, 30), (31, 30), (30, 30), (29, 29), (-1, 1)])
@on_cluster
async def test_a_second_delete_can_only_hurry(api: Api, second: int | None, left: int) -> None:
    await api.post(PODS, pod("a"))
    await api.bind("a", "n")
    first = await api.delete(f"{PODS}/a")
    again = await api.delete(f"{PODS}/a", None if second is None else {"gracePeriodSeconds": second})
    assert again.metadata["deletionGracePeriodSeconds"] == left
    assert (again.metadata["resourceVersion"] == first.metadata["resourceVersion"]) is (left == 30)


@on_cluster
async def test_a_finished_pod_needs_no_grace(api: Api) -> None:
    await api.post(PODS, pod("a"))
    await api.bind("a", "n")
    await api.merge(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    await api.delete(f"{PODS}/a")
    assert (await api.get(f"{PODS}/a")).status == 404


@on_cluster
async def test_a_pod_with_a_finalizer_outlives_its_grace(api: Api) -> None:
    await api.post(PODS, pod("a", finalizers=["x.io/keep"]))
    await api.delete(f"{PODS}/a")
    assert (await api.get(f"{PODS}/a")).metadata["deletionGracePeriodSeconds"] == 0
    released = await api.merge(f"{PODS}/a", {"metadata": {"finalizers": None}})
    assert released.status == 200
    assert (await api.get(f"{PODS}/a")).status == 404
