"""Nodes made, cordoned, drained, lost and found, and what follows for their pods."""

from grove.api.resources import NODES, Object
from grove.api.types.meta import WireStruct
from grove.cluster.apiserver.discovery import GIT_VERSION
from grove.cluster.nodes import BLOCK, HOSTNAME, RACK, ZONE, NodeChanges, NodeTopology
from tests.cluster.small_cluster import RESOURCES, SmallCluster, run_story

UNREACHABLE = "node.kubernetes.io/unreachable"


def test_nodes_are_ready_labelled_and_numbered_in_order() -> None:
    async def story(cluster: SmallCluster) -> None:
        assert await cluster.nodes.create(3, RESOURCES, {"pool": "blue"}) == ("node-2", "node-3", "node-4")
        node = await cluster.node("node-4")
        assert node.is_ready
        assert node.metadata.labels == {
            HOSTNAME: "node-4", ZONE: "zone-0", BLOCK: "block-0", RACK: "rack-1", "pool": "blue",
        }  # fmt: skip

    run_story(story)


def test_kubectl_get_nodes_prints_a_version() -> None:
    class Info(WireStruct):
        kubelet_version: str = ""

    class Status(WireStruct):
        node_info: Info = Info()

    class VersionedNode(Object):
        status: Status = Status()

    async def story(cluster: SmallCluster) -> None:
        node = await cluster.client.get(NODES.viewed_as(VersionedNode), "", "node-0")
        assert node.status.node_info.kubelet_version == GIT_VERSION

    run_story(story)


def test_the_lowest_free_names_are_taken_first() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.nodes.remove("node-0")
        assert await cluster.nodes.create(2, RESOURCES) == ("node-0", "node-2")

    run_story(story)


def test_nodes_are_brought_to_another_number_and_size_and_strangers_stay() -> None:
    async def story(cluster: SmallCluster) -> None:
        async def reconcile(number: int | None, resources: dict[str, str] | None) -> NodeChanges:
            return await cluster.nodes.reconcile(number, resources, default_resources={"cpu": "7"})

        await cluster.nodes.cordon("node-1")
        stranger = {"metadata": {"name": "mine"}, "status": {"allocatable": {"cpu": "1"}}}
        await cluster.client.create(NODES, "", stranger)
        assert await reconcile(4, None) == NodeChanges(added=("node-2", "node-3"))
        assert (await cluster.node("node-3")).status.allocatable == RESOURCES
        smaller = {"cpu": "2", "pods": "5"}
        assert await reconcile(2, smaller) == NodeChanges(removed=("node-2", "node-3"), resized=("node-0", "node-1"))
        node = await cluster.node("node-1")
        assert (node.status.allocatable, node.spec.unschedulable) == (smaller, True)
        assert await reconcile(None, None) == NodeChanges()
        assert await reconcile(None, RESOURCES) == NodeChanges(resized=("node-0", "node-1"))
        assert await reconcile(0, None) == NodeChanges(removed=("node-0", "node-1"))
        assert await reconcile(1, None) == NodeChanges(added=("node-0",))
        assert (await cluster.node("node-0")).status.allocatable == {"cpu": "7"}
        assert (await cluster.node("mine")).status.allocatable == {"cpu": "1"}

    run_story(story)


def test_racks_fill_one_after_the_other_then_blocks_then_zones() -> None:
    layout = NodeTopology(nodes_per_rack=2, racks_per_block=3, blocks_per_zone=2)
    places = [tuple(layout.labels(index).values()) for index in (0, 1, 2, 5, 6, 11, 12)]
    assert places == [
        ("zone-0", "block-0", "rack-0"),
        ("zone-0", "block-0", "rack-0"),
        ("zone-0", "block-0", "rack-1"),
        ("zone-0", "block-0", "rack-2"),
        ("zone-0", "block-1", "rack-3"),
        ("zone-0", "block-1", "rack-5"),
        ("zone-1", "block-2", "rack-6"),
    ]


def test_a_cordoned_node_takes_no_more_pods_until_it_is_uncordoned() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.nodes.cordon("node-0")
        assert (await cluster.node("node-0")).spec.unschedulable
        await cluster.nodes.uncordon("node-0")
        assert not (await cluster.node("node-0")).spec.unschedulable

    run_story(story)


def test_a_drained_node_is_cordoned_and_empty_and_the_others_keep_their_pods() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("here")
        await cluster.put_pod("there", node="node-1")
        await cluster.run_for(1)
        await cluster.nodes.drain("node-0")
        await cluster.run_for(1)
        assert (await cluster.node("node-0")).spec.unschedulable
        assert await cluster.pod("here") is None
        assert await cluster.is_ready("there")

    run_story(story)


def test_a_lost_node_makes_its_pods_not_ready_and_recovery_makes_them_ready_again() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("a")
        await cluster.run_for(1)
        await cluster.nodes.fail("node-0")
        await cluster.run_for(1)
        node = await cluster.node("node-0")
        assert [(taint.key, taint.effect) for taint in node.spec.taints] == [
            (UNREACHABLE, "NoSchedule"),
            (UNREACHABLE, "NoExecute"),
        ]
        lost = await cluster.pod("a")
        assert lost is not None
        assert lost.status.phase == "Running"
        assert not lost.is_ready
        await cluster.nodes.recover("node-0")
        await cluster.run_for(1)
        assert (await cluster.node("node-0")).spec.taints == ()
        assert await cluster.is_ready("a")

    run_story(story)


def test_pods_of_a_node_lost_for_five_minutes_leave_and_are_gone_when_it_recovers() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("a")
        await cluster.run_for(1)
        await cluster.nodes.fail("node-0")
        await cluster.run_for(299)
        staying = await cluster.pod("a")
        assert staying is not None
        assert not staying.metadata.is_terminating
        await cluster.run_for(2)
        leaving = await cluster.pod("a")
        assert leaving is not None
        assert leaving.metadata.is_terminating
        await cluster.run_for(3600)
        assert await cluster.pod("a") is not None
        await cluster.nodes.recover("node-0")
        await cluster.run_for(1)
        assert await cluster.pod("a") is None

    run_story(story)


def test_a_node_lost_for_less_than_five_minutes_keeps_its_pods() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.put_pod("a")
        await cluster.run_for(1)
        await cluster.nodes.fail("node-0")
        await cluster.run_for(290)
        await cluster.nodes.recover("node-0")
        await cluster.run_for(1000)
        assert await cluster.is_ready("a")

    run_story(story)


def test_a_lost_node_costs_one_write_and_two_per_pod_and_then_none() -> None:
    async def story(cluster: SmallCluster) -> None:
        for number in range(5):
            await cluster.put_pod(f"pod-{number}")
        await cluster.run_for(1)
        await cluster.nodes.fail("node-0")
        await cluster.run_for(200)
        assert cluster.lifecycle_writes.write_counts() == {("patch", "nodes"): 1, ("patch", "pods/status"): 5}
        await cluster.run_for(3600)
        assert cluster.lifecycle_writes.write_counts() == {
            ("patch", "nodes"): 1,
            ("patch", "pods/status"): 5,
            ("delete", "pods"): 5,
        }

    run_story(story)


def test_a_removed_node_is_gone() -> None:
    async def story(cluster: SmallCluster) -> None:
        await cluster.nodes.remove("node-1")
        listing = await cluster.client.list(NODES)
        assert [node.metadata.name for node in listing.items] == ["node-0"]

    run_story(story)
