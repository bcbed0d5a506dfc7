"""Metrics of what waits, by namespace, and their bounds."""

from datetime import timedelta

import msgspec
from prometheus_client import CollectorRegistry

from grove.api.types.meta import ObjectMeta, Uid
from grove.api.types.podclique import PodClique, PodCliqueSpec
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetStatus, SetUpdateProgress
from grove.clock import LoopClock
from grove.controller.informers import Caches
from grove.controller.observability.namespace_labels import OTHER, NamespaceLabels
from grove.controller.observability.webhook_metrics import WebhookMetrics
from grove.controller.observability.workload_metrics import (
    MAX_UPDATING_SETS,
    WorkloadMetrics,
    gpus_per_pod,
    update_share,
)
from grove.sim.virtual_clock import run_virtual
from tests.controller.observability.busy_cluster import make_busy
from tests.controller.observability.test_metrics import QUICKSTART, Counted, run
from tests.dsl import NOW


def test_a_gang_without_nodes_is_counted_by_reason_and_its_wait_is_shown() -> None:
    async def story(counted: Counted) -> None:
        await counted.world.apply(QUICKSTART)
        await counted.world.clock.sleep(100)
        pending = {
            sample.labels["reason"]: sample.value
            for family in counted.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "grove_gangs_pending"
        }
        assert sum(pending.values()) == 2
        waited = counted.value("grove_gang_pending_oldest_seconds")
        assert waited is not None
        assert 95 <= waited <= 101
        await counted.world.add_nodes(8)
        await counted.world.settle()
        assert counted.value("grove_gang_pending_oldest_seconds") is None

    run(story, nodes=0)


def test_an_update_is_shown_by_namespace_and_set_until_it_ends() -> None:
    async def story(counted: Counted) -> None:
        await counted.world.apply(QUICKSTART)
        await counted.world.settle()
        assert counted.value("grove_gpus_idle", resource="nvidia.com/gpu") is None
        await make_busy(counted)
        assert counted.value("grove_sets_updating") == 1
        assert counted.value("grove_update_oldest_seconds") == counted.value("grove_set_update_seconds", set="chat")
        share = counted.value("grove_set_update_progress_ratio", set="chat")
        assert share is not None
        assert 0 <= share < 1

    run(story)


def test_the_first_namespaces_have_series_of_their_own_and_the_others_share_one() -> None:
    labels = NamespaceLabels(limit=2)
    assert [labels.label(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", OTHER, "a", OTHER]


def updating(name: str, minutes: int) -> PodCliqueSet:
    progress = SetUpdateProgress(
        update_started_at=NOW - timedelta(minutes=minutes),
        updated_pod_cliques_count=1,
        total_pod_cliques_count=3,
        total_pod_clique_scaling_groups_count=1,
    )
    metadata = ObjectMeta(name=name, namespace="a", uid=Uid(name), resource_version="1")
    return PodCliqueSet(metadata=metadata, status=PodCliqueSetStatus(update_progress=progress))


def test_only_the_oldest_updates_have_series_of_their_own() -> None:
    async def main() -> list[str]:
        caches, registry = Caches(), CollectorRegistry()
        metrics = WorkloadMetrics(LoopClock(NOW), NamespaceLabels())
        registry.register(metrics)
        metrics.follow(caches)
        for number in range(MAX_UPDATING_SETS + 5):
            caches.sets.observe(updating(f"s{number}", minutes=number))
        assert registry.get_sample_value("grove_sets_updating", {"namespace": "a"}) == MAX_UPDATING_SETS + 5
        samples = [sample for family in registry.collect() for sample in family.samples]
        found = [one.labels["set"] for one in samples if one.name == "grove_set_update_seconds"]
        metrics.unfollow()
        assert registry.get_sample_value("grove_sets_updating", {"namespace": "a"}) is None
        return found

    found = run_virtual(main())
    assert (len(found), "s0" in found, f"s{MAX_UPDATING_SETS + 4}" in found) == (MAX_UPDATING_SETS, False, True)


def test_the_share_of_an_update_counts_cliques_and_groups() -> None:
    assert update_share(updating("s", 1)) == 0.25
    assert update_share(msgspec.structs.replace(updating("s", 1), status=PodCliqueSetStatus())) == 0


def test_the_gpus_of_a_pod_are_those_of_all_its_containers_and_of_every_maker() -> None:
    one = {"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "4"}, "limits": {"nvidia.com/gpu": "4"}}}
    other = {"resources": {"limits": {"amd.com/gpu": 2, "example.com/nic": 1}}}
    spec = PodCliqueSpec(role_name="r", replicas=1, pod_spec={"containers": [one, other, {}]})
    assert gpus_per_pod(PodClique(metadata=ObjectMeta(name="c"), spec=spec)) == {
        "nvidia.com/gpu": 4, "amd.com/gpu": 2,
    }  # fmt: skip


def test_reviews_are_counted_by_result_and_the_end_of_the_certificate_is_shown() -> None:
    registry = CollectorRegistry()
    metrics = WebhookMetrics(registry)
    name = "grove_webhook_certificate_expiry_timestamp_seconds"
    assert registry.get_sample_value(name) is None
    metrics.certificate_end = lambda: NOW
    metrics.observe("validate-podcliqueset", "rejected", 0.1)
    assert registry.get_sample_value(name) == NOW.timestamp()
    labels = {"webhook": "validate-podcliqueset", "result": "rejected"}
    assert registry.get_sample_value("grove_webhook_requests_total", labels) == 1
