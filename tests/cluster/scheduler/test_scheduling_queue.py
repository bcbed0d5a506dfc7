"""The scheduling queue: after any sequence of changes it equals a new queue with the final state."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from grove.api.labels import BASE_PODGANG, PODGANG
from grove.api.types.meta import NamespacedName, ObjectMeta, Uid
from grove.api.types.podgang import PodGang, PodGangSpec, PodGroup
from grove.cluster.scheduler.scheduling_queue import QueuedPod, SchedulingQueue, State
from grove.placement.types import GangDemand, GroupDemand, PodDemand, SchedulingClass, Unplaced, WaitReason

START = datetime(2026, 1, 1, tzinfo=UTC)


def gang(name: str, *groups: tuple[int, list[str]]) -> PodGang:
    podgroups = tuple(
        PodGroup(
            name=f"{name}-{index}",
            min_replicas=minimum,
            pod_references=tuple(NamespacedName(namespace="default", name=pod) for pod in pods),
        )
        for index, (minimum, pods) in enumerate(groups)
    )
    metadata = ObjectMeta(name=name, namespace="default", creation_timestamp=START)
    return PodGang(metadata=metadata, spec=PodGangSpec(podgroups=podgroups))


def demand(name: str, *, life: int = 0, gang_label: str = "", base: str = "") -> PodDemand:
    labels = {key: value for key, value in {PODGANG: gang_label, BASE_PODGANG: base}.items() if value}
    uid = Uid(f"{name}/{life}")
    return PodDemand(uid=uid, namespace="default", name=name, shape=SchedulingClass(), created=START, labels=labels)


def pending_pod(
    name: str, state: State = State.PENDING, *, life: int = 0, gang_label: str = "", base: str = ""
) -> QueuedPod:
    node = "n" if state is State.SCHEDULED else ""
    return QueuedPod(demand=demand(name, life=life, gang_label=gang_label, base=base), state=state, node=node)


def test_pods_wait_in_the_order_in_which_their_gang_names_them() -> None:
    queue = SchedulingQueue()
    for name in ("c", "a", "b"):
        queue.set_pod(pending_pod(name))
    queue.set_gang(gang("g", (2, ["b", "a", "missing"])), None)
    assert list(queue.gangs()) == [
        GangDemand(
            name=NamespacedName(namespace="default", name="g"),
            created=START,
            groups=(GroupDemand(name="g-0", min_replicas=2, pending=(demand("b"), demand("a"))),),
        )
    ]
    assert list(queue.ungrouped_pods()) == [demand("c")]


def test_a_gang_reaches_no_pod_of_another_namespace() -> None:
    """Whatever it references: else any tenant could seat the pods of others in a gang that never fits."""
    queue = SchedulingQueue()
    queue.set_pod(pending_pod("a"))
    thief = gang("thief", (7, ["a"]))
    metadata = ObjectMeta(name="thief", namespace="elsewhere", creation_timestamp=START)
    queue.set_gang(PodGang(metadata=metadata, spec=thief.spec), None)
    assert (list(queue.gangs()), list(queue.ungrouped_pods())) == ([], [demand("a")])
    queue.set_gang(gang("g", (1, ["a"])), None)
    assert [one.name.name for one in queue.gangs()] == ["g"]


def test_a_gang_that_only_names_the_pods_of_another_does_not_get_them() -> None:
    """Also when it comes later, and when it goes again: a pod belongs to the gang in its label."""
    queue = SchedulingQueue()
    queue.set_gang(gang("g", (1, ["a"])), None)
    queue.set_pod(pending_pod("a", gang_label="g"))
    before = list(queue.gangs())
    assert [one.name.name for one in before] == ["g"]
    queue.set_gang(gang("thief", (7, ["a"])), None)
    assert list(queue.gangs()) == before
    queue.remove_gang("default", "thief")
    assert (list(queue.gangs()), list(queue.pods_without_gang())) == (before, [])


def test_a_pod_counts_where_it_is_now() -> None:
    queue = SchedulingQueue()
    queue.set_gang(gang("g", (2, ["a", "b", "c"])), 7)
    queue.set_pod(pending_pod("a"))
    queue.set_pod(pending_pod("b", State.BEHIND_OTHER_GATES))
    queue.set_pod(pending_pod("c", State.SCHEDULED))
    expected = GroupDemand(
        name="g-0", min_replicas=2, scheduled_count=1, pending=(demand("a"),), behind_other_gates_count=1
    )
    assert [found.groups for found in queue.gangs()] == [(expected,)]
    assert [found.priority for found in queue.gangs()] == [7]
    queue.set_pod(pending_pod("a", State.SCHEDULED))
    assert list(queue.gangs()) == []


def test_a_scaled_gang_knows_when_its_base_is_scheduled() -> None:
    queue = SchedulingQueue()
    queue.set_gang(gang("base", (1, ["b"])), None)
    queue.set_gang(gang("scaled", (1, ["s"])), None)
    queue.set_pod(pending_pod("s", State.BEHIND_OUR_GATE, base="base"))
    assert [(found.base, found.base_is_scheduled) for found in queue.gangs()] == [("base", False)]
    queue.set_pod(pending_pod("b", State.SCHEDULED))
    assert [(found.base, found.base_is_scheduled) for found in queue.gangs()] == [("base", True)]


def test_a_pod_whose_gang_does_not_name_it_is_a_stray() -> None:
    queue = SchedulingQueue()
    queue.set_pod(pending_pod("a", gang_label="g"))
    message = "waits for its gang: PodGang g does not {} yet"
    pods = (demand("a", gang_label="g"),)
    reason = WaitReason.NOT_IN_ITS_GANG
    assert list(queue.pods_without_gang()) == [Unplaced(pods=pods, reason=reason, message=message.format("exist"))]
    queue.set_gang(gang("g", (1, ["b"])), None)
    assert list(queue.pods_without_gang()) == [Unplaced(pods=pods, reason=reason, message=message.format("name it"))]
    queue.set_gang(gang("g", (1, ["a"])), None)
    assert (list(queue.pods_without_gang()), list(queue.ungrouped_pods())) == ([], [])


def test_a_late_farewell_does_not_remove_the_next_pod_of_that_name() -> None:
    queue = SchedulingQueue()
    queue.set_pod(pending_pod("a"))
    queue.set_pod(pending_pod("a", life=1))
    assert queue.remove_pod("default", "a", Uid("a/0")) is False
    assert list(queue.ungrouped_pods()) == [demand("a", life=1)]
    assert queue.remove_pod("default", "a", Uid("a/1")) is True
    assert list(queue.ungrouped_pods()) == []


def test_a_pod_that_moves_to_another_gang_is_not_lost_when_the_old_one_lets_go() -> None:
    queue = SchedulingQueue()
    queue.set_gang(gang("old", (1, ["a"])), None)
    queue.set_pod(pending_pod("a"))
    queue.set_gang(gang("new", (1, ["a"])), None)
    queue.set_gang(gang("old", (0, [])), None)
    assert [found.name.name for found in queue.gangs()] == ["new"]


# Gangs name disjoint pods, as ours do: pod "g1/2" can only be named by g1.
PODS = [f"g{gang_index}/{index}" for gang_index in range(2) for index in range(3)]
pod_steps = st.tuples(st.sampled_from(PODS), st.sampled_from([None, *State]))
gang_steps = st.tuples(
    st.sampled_from(["g0", "g1"]), st.none() | st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=2)
)


@settings(deadline=None)
@given(st.lists(pod_steps | gang_steps, max_size=30))
def test_a_room_followed_step_by_step_equals_one_that_sees_the_end(
    steps: list[tuple[str, State | list[tuple[int, int]] | None]],
) -> None:
    followed, ends = SchedulingQueue(), dict(steps)
    for name, end in steps:
        _apply(followed, name, end)
    seen = SchedulingQueue()
    for name, end in sorted(ends.items()):
        _apply(seen, name, end)
    by_name = {found.name: found for found in followed.gangs()}
    assert by_name == {found.name: found for found in seen.gangs()}
    assert sorted(pod.name for pod in followed.ungrouped_pods()) == sorted(pod.name for pod in seen.ungrouped_pods())


def _apply(queue: SchedulingQueue, name: str, end: State | list[tuple[int, int]] | None) -> None:
    match end:
        case State():
            queue.set_pod(pending_pod(name, end))
        case list():
            # Two groups share the names of the gang's pods: the first takes `count` of them, the second the rest.
            names = [pod for pod in PODS if pod.startswith(name)]
            taken = [names[: end[0][1]], names[end[0][1] :]] if end else []
            groups = [(minimum, pods) for (minimum, _), pods in zip(end, taken, strict=False)]
            queue.set_gang(gang(name, *groups), None)
        case None if "/" in name:
            queue.remove_pod("default", name, demand(name).uid)
        case None:
            queue.remove_gang("default", name)
