"""Who is down at the same time: small stories of one set, counted by hand."""

from grove.api import labels
from grove.api.types.meta import NamespacedName, ObjectMeta, Uid
from grove.api.types.podclique import PodClique, PodCliqueSpec
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup, ScalingGroupSpec
from grove.api.types.podcliqueset import PodCliqueSet, PodCliqueSetSpec
from grove.sim.rehearsal.downtime import downtime
from grove.sim.rehearsal.pod_recorder import PodHistory, Readiness, Recorded, Structure


def clique(replica: int, name: str, pods: int, *, needs: int = 1, group: str = "", group_replica: int = 0) -> PodClique:
    marks = {labels.SET_REPLICA_INDEX: str(replica)}
    if group:
        marks |= {labels.GROUP: group, labels.GROUP_REPLICA_INDEX: str(group_replica)}
    return PodClique(
        metadata=ObjectMeta(name=name, labels=marks), spec=PodCliqueSpec(replicas=pods, min_available=needs)
    )


def group(replica: int, name: str, replicas: int, *, needs: int = 1) -> PodCliqueScalingGroup:
    marks = {labels.SET_REPLICA_INDEX: str(replica)}
    spec = ScalingGroupSpec(replicas=replicas, min_available=needs)
    return PodCliqueScalingGroup(metadata=ObjectMeta(name=name, labels=marks), spec=spec)


def structure(replicas: int, *cliques: PodClique, groups: tuple[PodCliqueScalingGroup, ...] = ()) -> Structure:
    return Structure(
        pcs=PodCliqueSet(metadata=ObjectMeta(name="p"), spec=PodCliqueSetSpec(replicas=replicas)),
        groups={one.metadata.name: one for one in groups},
        cliques={one.metadata.name: one for one in cliques},
        gangs={},
        services={},
    )


def told(before: Structure, after: Structure, *changes: str) -> dict[str, tuple[int, int]]:
    """All pods of before are ready; then `-a` is a pod of a that is lost, `+a` one that is ready."""
    pods = tuple(
        PodHistory(uid=Uid(f"{name}-{index}"), name="", set_replica=0, clique=name, index=index, was_ready=True)
        for name, one in before.cliques.items()
        for index in range(one.spec.replicas)
    )
    readiness = tuple(
        Readiness(at=float(at), clique=change[1:], is_ready=change[0] == "+") for at, change in enumerate(changes)
    )
    recorded = Recorded(
        place=NamespacedName(namespace="default", name="p"),
        before=before, after=after, pods=pods, readiness=readiness, turns=(),
    )  # fmt: skip
    return {f"{one.kind}/{one.name}": (one.at_most, one.of) for one in downtime(recorded)}


def test_one_at_a_time_is_one_down() -> None:
    same = structure(1, clique(0, "a", 3, needs=2))
    assert told(same, same, "-a", "+a", "-a", "+a") == {"pods/p": (1, 3), "podclique/a": (1, 3)}


def test_two_at_a_time_are_two_and_below_the_minimum_the_set_is_down() -> None:
    same = structure(1, clique(0, "a", 3, needs=2))
    assert told(same, same, "-a", "-a", "+a", "+a") == {
        "pods/p": (2, 3), "podcliqueset/p": (1, 1), "podclique/a": (2, 3),
    }  # fmt: skip


def test_pods_of_several_cliques_add_up() -> None:
    same = structure(2, clique(0, "a", 2), clique(1, "b", 2))
    assert told(same, same, "-a", "-b", "+a", "+b") == {
        "pods/p": (2, 4), "podclique/a": (1, 2), "podclique/b": (1, 2),
    }  # fmt: skip


def test_a_replica_that_is_not_wanted_does_not_stand_in_for_one_that_is() -> None:
    before = structure(2, clique(0, "a", 1), clique(1, "b", 1))
    after = structure(1, clique(0, "a", 1))
    assert told(before, after, "-a", "+a", "-b") == {"pods/p": (1, 1), "podcliqueset/p": (1, 1), "podclique/a": (1, 1)}
    assert told(before, after, "-b") == {}


def test_a_group_replica_that_is_not_wanted_does_not_stand_in_for_one_that_is() -> None:
    first, second = (clique(0, name, 1, group="g", group_replica=index) for index, name in enumerate("bc"))
    before = structure(1, first, second, groups=(group(0, "g", 2),))
    after = structure(1, first, groups=(group(0, "g", 1),))
    assert told(before, after, "-b", "+b", "-c")["podcliquescalinggroup/g"] == (1, 1)
    assert told(before, after, "-c") == {}


def test_a_group_replica_is_down_when_one_of_its_cliques_is() -> None:
    cliques = (
        clique(0, "b", 1, group="g"),
        clique(0, "c", 1, group="g"),
        clique(0, "d", 1, group="g", group_replica=1),
    )
    same = structure(1, *cliques, groups=(group(0, "g", 2, needs=1),))
    assert told(same, same, "-b", "-c", "+b", "+c")["podcliquescalinggroup/g"] == (1, 2)
    assert "podcliqueset/p" not in told(same, same, "-b", "-c", "+b", "+c")
    assert told(same, same, "-b", "-d")["podcliqueset/p"] == (1, 1)


def test_what_is_scaled_in_is_no_loss_and_what_is_scaled_out_no_gain() -> None:
    before, after = structure(1, clique(0, "a", 3)), structure(1, clique(0, "a", 2))
    assert told(before, after, "-a") == {}
    assert told(before, after, "-a", "-a", "+a")["podclique/a"] == (1, 2)
    # New pods do not make up for old ones beyond what there was.
    assert told(after, before, "+a", "-a", "-a", "+a")["podclique/a"] == (1, 2)
