"""Resource quotas: what fits is created and counted, what does not is refused with the numbers."""

import pytest

from grove.api.types.meta import JsonObject
from tests.cluster.apidsl import CLIQUES, CONFIGS, NAMESPACES, PODS, QUOTAS, Api, clique, config, on_cluster, pod


def _quota(**hard: str) -> JsonObject:
    return {
        "metadata": {"name": "q"},
        "spec": {"hard": {name.replace("_", "."): value for name, value in hard.items()}},
    }


def _wanting(name: str, **requests: str) -> JsonObject:
    # What cannot be shared needs a limit.
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    resources = {"requests": requests, "limits": limits}
    return pod(name, spec={"containers": [{"name": "c", "image": "i", "resources": resources}]})


async def _used(api: Api) -> JsonObject:
    used: JsonObject = (await api.get(f"{QUOTAS}/q")).body["status"]["used"]
    return used


@on_cluster
async def test_the_last_pod_that_fits_is_created_and_the_next_refused(api: Api) -> None:
    await api.post(QUOTAS, _quota(pods="2"))
    assert [(await api.post(PODS, pod(name))).status for name in "ab"] == [201, 201]
    refused = await api.post(PODS, pod("c"))
    assert refused.refusal == (
        403,
        "Forbidden",
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2',
    )
    assert await _used(api) == {"pods": "2"}


@on_cluster
async def test_room_comes_back_when_a_pod_is_gone_or_finished(api: Api) -> None:
    await api.post(QUOTAS, _quota(pods="1"))
    await api.post(PODS, pod("a"))
    await api.delete(f"{PODS}/a")
    assert await _used(api) == {"pods": "0"}
    assert (await api.post(PODS, pod("b"))).status == 201
    await api.merge(f"{PODS}/b/status", {"status": {"phase": "Succeeded"}})
    assert (await api.post(PODS, pod("c"))).status == 201
    assert await _used(api) == {"pods": "1"}


@on_cluster
async def test_a_leaving_pod_still_takes_its_room(api: Api) -> None:
    await api.post(QUOTAS, _quota(pods="1"))
    await api.post(PODS, pod("a"))
    await api.bind("a", "n")
    await api.delete(f"{PODS}/a")
    assert (await api.post(PODS, pod("b"))).status == 403


@on_cluster
async def test_a_quota_counts_what_was_there_before_it(api: Api) -> None:
    await api.post(PODS, pod("a"))
    created = await api.post(QUOTAS, _quota(pods="1"))
    assert created.status == 201
    assert await _used(api) == {"pods": "1"}
    assert (await api.post(PODS, pod("b"))).status == 403
    await api.merge(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "2"}}})
    assert (await api.post(PODS, pod("b"))).status == 201


@on_cluster
async def test_amounts_are_added_up_exactly(api: Api) -> None:
    await api.post(QUOTAS, _quota(requests_cpu="1", memory="1Gi"))
    assert (await api.post(PODS, _wanting("a", cpu="600m", memory="512Mi"))).status == 201
    refused = await api.post(PODS, _wanting("b", cpu="401m", memory="513Mi"))
    assert refused.body["message"] == (
        'pods "b" is forbidden: exceeded quota: q, requested: memory=513Mi,requests.cpu=401m, '
        "used: memory=512Mi,requests.cpu=600m, limited: memory=1Gi,requests.cpu=1"
    )
    assert (await api.post(PODS, _wanting("b", cpu="400m", memory="512Mi"))).status == 201
    assert await _used(api) == {"requests.cpu": "1", "memory": "1Gi"}


@on_cluster
async def test_where_compute_is_limited_every_container_says_what_it_takes(api: Api) -> None:
    await api.post(QUOTAS, _quota(requests_cpu="1"))
    refused = await api.post(PODS, pod("a"))
    assert refused.body["message"] == 'pods "a" is forbidden: failed quota: q: must specify requests.cpu for: main'


@on_cluster
async def test_extended_resources_are_limited_only_for_those_who_ask(api: Api) -> None:
    hard = {"requests.nvidia.com/gpu": "8"}
    await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    assert (await api.post(PODS, pod("none"))).status == 201
    assert (await api.post(PODS, _wanting("eight", **{"nvidia.com/gpu": "8"}))).status == 201
    assert (await api.post(PODS, _wanting("one", **{"nvidia.com/gpu": "1"}))).status == 403


@on_cluster
async def test_any_kind_can_be_counted(api: Api) -> None:
    await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"count/podcliques.grove.io": "1"}}})
    assert [(await api.post(CLIQUES, clique(name))).status for name in "ab"] == [201, 403]
    assert (await api.post(CONFIGS, config("a"))).status == 201


@on_cluster
async def test_a_refused_or_tried_create_is_not_charged(api: Api) -> None:
    await api.post(QUOTAS, _quota(pods="2"))
    await api.post(PODS, pod("a"))
    await api.post(PODS, pod("a"))
    await api.post(PODS, pod("b"), dryRun="All")
    await api.post(PODS, pod("B"))
    assert await _used(api) == {"pods": "1"}


@on_cluster
async def test_quotas_of_other_namespaces_do_not_matter(api: Api) -> None:
    await api.post(NAMESPACES, {"metadata": {"name": "team"}})
    await api.post("/api/v1/namespaces/team/resourcequotas", _quota(pods="0"))
    assert (await api.post(PODS, pod("a"))).status == 201
    assert (await api.post("/api/v1/namespaces/team/pods", pod("a"))).status == 403


@on_cluster
async def test_a_deleted_quota_limits_nothing(api: Api) -> None:
    await api.post(QUOTAS, _quota(pods="0"))
    await api.delete(f"{QUOTAS}/q")
    assert (await api.post(PODS, pod("a"))).status == 201
    await api.post(QUOTAS, _quota(pods="5"))
    assert await _used(api) == {"pods": "1"}


@pytest.mark.parametrize(
    "spec", [{"hard": {"pods": "many"}}, {"hard": {"pods": "-1"}}, {"hard": []}, {"scopes": ["x"]}]
)
@on_cluster
async def test_a_quota_that_cannot_be_kept_is_refused(api: Api, spec: JsonObject) -> None:
    refused = await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": spec})
    assert refused.status in (400, 422)
