"""What a teardown costs in requests: a handful for a thousand pods (200 in the quick tier). Others' pods stay."""

from collections import Counter

from bench.worlds import BenchWorld, flat_set
from grove.api import labels
from grove.api.resources import PODCLIQUES, PODCLIQUESETS
from grove.kube.client import METADATA_LIST
from grove.kube.transport import Request, Response
from grove.sim.virtual_clock import run_virtual
from tests.seeds import is_deep

REPLICAS = 10 if is_deep() else 2
PODS_OF_SET = 100 * REPLICAS


def deleted(*, has_stranger: bool) -> tuple[dict[str, int], list[str]]:
    """Return the requests that the operator makes to delete a large set, and the pods that are left."""

    async def main() -> tuple[dict[str, int], list[str]]:
        counts: Counter[str] = Counter()

        def count_lists(request: Request, _response: Response) -> None:
            if request.accept == METADATA_LIST:
                counts[f"list {request.path.rpartition('/')[2]}"] += 1

        async with BenchWorld() as world:
            await world.run_to_ready(flat_set("big", replicas=REPLICAS, cliques=2, pods=50), PODS_OF_SET)
            if has_stranger:
                stranger = {"name": "stranger", "labels": labels.default_labels("big")}
                spec = {"containers": [{"name": "main", "image": "i"}]}
                await world.apply({"apiVersion": "v1", "kind": "Pod", "metadata": stranger, "spec": spec})
                await world.settle()
            world.server.observers.append(count_lists)
            before = len(world.writes_by("operator"))
            await world.delete(PODCLIQUESETS, "big")
            await world.wait_until(lambda: not world.objects(PODCLIQUESETS) and not world.objects(PODCLIQUES))
            await world.settle()
            for write in world.writes_by("operator")[before:]:
                if write.target.verb in ("delete", "deletecollection"):
                    counts[f"{write.target.verb} {write.target.resource}"] += 1
            return dict(counts), [pod.metadata.name for pod in world.pods()]

    return run_virtual(main())


def once(*kinds: str) -> dict[str, int]:
    return {f"{verb} {kind}": 1 for kind in kinds for verb in ("list", "deletecollection")}


CHILDREN = ("podcliques", "podgangs", "services", "controllerrevisions")


def test_a_thousand_pods_of_a_set_are_a_handful_of_requests() -> None:
    requests, left = deleted(has_stranger=False)
    # Lists come in pages of 500.
    assert requests == {**once("pods", *CHILDREN), "list pods": 1 + PODS_OF_SET // 501}
    assert left == []


def test_where_something_else_carries_the_labels_each_pod_is_deleted_by_its_uid() -> None:
    requests, left = deleted(has_stranger=True)
    assert {verb: count for verb, count in requests.items() if verb != "list pods"} == {
        **once(*CHILDREN),
        "delete pods": PODS_OF_SET,
    }
    assert left == ["stranger"]
