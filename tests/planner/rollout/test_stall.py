"""What a step of an update waits for, in whose words, and when waiting becomes news."""

import msgspec
import pytest

from grove.api import labels
from grove.api.reasons import EventReason, Reason
from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import Condition, find_condition
from grove.api.types.pod import ContainerState, ContainerStatus, Pod, WaitingState
from grove.planner.plan import plan
from grove.planner.rollout.stall import STALLED_AFTER, StallReason, longest, wait_for_minimum, wait_for_new_pods
from grove.planner.views import CliqueView
from tests.dsl import NOW, World, appendix_a, at, clique, gated, pcs, pod, role, run_to_rest, starting, visit

param = pytest.param


def with_status(one: Pod, **fields: object) -> Pod:
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, **fields))


def unplaced(message: str) -> Pod:
    told = Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
    return with_status(pod(0, name="new-0", node="", ready=False), conditions=(told,))


def pulling(reason: str) -> Pod:
    waiting = ContainerState(waiting=WaitingState(reason=reason, message="no such image"))
    return with_status(starting(0, name="new-0"), container_statuses=(ContainerStatus(name="main", state=waiting),))


def unready_since(seconds: float) -> Pod:
    ready = Condition(type="Ready", status="False", last_transition_time=at(seconds))
    return with_status(starting(0, name="new-0", created=at(-3600)), conditions=(ready,))


@pytest.mark.parametrize(
    ("seen", "wait"),
    [
        param(
            clique(unplaced("0/3 nodes: no GPU")),
            StallReason(reason=Reason.NO_CAPACITY, message="pod new-0 has no node: 0/3 nodes: no GPU", since=NOW),
            id="the scheduler's words",
        ),
        param(
            clique(gated(0, name="new-0")),
            StallReason(reason=Reason.NO_CAPACITY, message="pod new-0 has no node yet", since=NOW),
            id="nobody said why",
        ),
        param(
            clique(pulling("ImagePullBackOff")),
            StallReason(
                reason=Reason.PODS_NOT_STARTING,
                message="pod new-0: container main: ImagePullBackOff: no such image",
                since=NOW,
                is_hopeless=True,
            ),
            id="the kubelet's words",
        ),
        param(
            clique(pulling("ContainerCreating")),
            StallReason(reason=Reason.PODS_NOT_READY, message="pod new-0 is not ready yet", since=NOW),
            id="it starts",
        ),
        param(
            clique(unready_since(-5)),
            StallReason(reason=Reason.PODS_NOT_READY, message="pod new-0 is not ready yet", since=at(-5)),
            id="it was ready for long",
        ),
        param(
            clique(pod(0, template_hash="old", created=at(-3600)), replicas=2),
            StallReason(reason=Reason.PODS_NOT_READY, message="new pods of p-0-a do not exist yet", since=None),
            id="it waits for ourselves",
        ),
        param(
            clique(starting(0, name="old-0", template_hash="old"), starting(1, name="new-1")),
            StallReason(reason=Reason.PODS_NOT_READY, message="pod new-1 is not ready yet", since=NOW),
            id="old pods are not waited for",
        ),
    ],
)
def test_what_new_pods_wait_for(seen: CliqueView, wait: StallReason) -> None:
    assert wait_for_new_pods((seen,), "new") == wait
    assert wait_for_new_pods((seen,), None) == wait


def test_new_pods_of_cliques_that_do_not_exist_yet_are_no_alarm() -> None:
    wait = wait_for_new_pods((), None)
    assert (wait.message, wait.is_stalled(at(10**6))) == ("new pods do not exist yet", False)


def test_a_minimum_that_is_not_met_is_told_with_what_keeps_it() -> None:
    seen = clique(pod(0), unplaced("no room"), needs=2)
    wait = wait_for_minimum(seen, at(30))
    assert wait == StallReason(
        reason=Reason.MINIMUM_NOT_MET,
        message="no further ready pod is replaced, because 1 of at least 2 pods of p-0-a are ready: "
        "pod new-0 has no node: no room",
        since=at(30),
    )


def test_a_minimum_that_waits_for_pods_to_be_made_is_no_alarm() -> None:
    assert wait_for_minimum(clique(pod(0), needs=2, replicas=2), NOW).since is None


def test_a_minimum_below_which_an_image_cannot_start_is_told_at_once() -> None:
    assert wait_for_minimum(clique(pulling("ErrImagePull"), needs=1), NOW).is_stalled(NOW)


@pytest.mark.parametrize(("seconds", "is_stalled"), [(59, False), (60, True), (61, True)])
def test_a_step_is_stalled_after_a_minute_without_progress(seconds: float, is_stalled: bool) -> None:
    wait = StallReason(reason=Reason.PODS_NOT_READY, message="", since=NOW)
    assert wait.is_stalled(at(seconds)) == is_stalled
    assert wait.stalled_at == NOW + STALLED_AFTER


def test_of_several_waits_the_hopeless_is_told_then_the_longest() -> None:
    def wait(message: str, since: float | None, *, is_hopeless: bool = False) -> StallReason:
        instant = None if since is None else at(since)
        return StallReason(reason=Reason.PODS_NOT_READY, message=message, since=instant, is_hopeless=is_hopeless)

    ours, short, long, hopeless = wait("a", None), wait("b", 9), wait("c", 1), wait("d", 20, is_hopeless=True)
    assert longest([ours, short, long, hopeless]) == hopeless
    assert longest([ours, short, long]) == long
    assert longest([None, ours]) == ours
    assert longest([None]) is None


# Told by the set


def stalled(world: World) -> Condition | None:
    assert world.pcs is not None
    return find_condition(world.pcs.status.conditions, "UpdateStalled")


def test_an_update_that_goes_on_is_never_called_stalled() -> None:
    world = World(appendix_a(replicas=2))
    run_to_rest(world)
    world.now = at(3600)
    for name in "abc":
        world.change(name, "v2")
    run_to_rest(world, limit=200)
    assert [one.message for one in world.events if one.reason == EventReason.UPDATE_STALLED] == []


def test_a_stalled_update_is_told_after_a_minute_and_taken_back_when_it_goes_on() -> None:
    world = World(pcs(role("a", 2, needs=1)))
    run_to_rest(world)
    world.now = at(3600)
    world.capacity = 0
    world.change("a", "v2")
    while world.now == at(3600):
        decided = visit(world)
        assert stalled(world) is None
        if not world.live() and decided.is_empty:
            assert decided.requeue_at == at(3660)
            world.now = decided.requeue_at
    run_to_rest(world)
    found = stalled(world)
    assert found is not None
    (new,) = [one for one in world.snapshot().replicas[0].cliques["p-0-a"].active if not one.is_ready]
    assert (found.reason, found.message) == (
        "NoCapacity",
        f"replica 0: pod {new.metadata.name} has no node: no room; add capacity, or undo the change",
    )
    world.capacity = None
    run_to_rest(world)
    assert stalled(world) is None


def test_refused_pods_are_told_at_once_in_the_servers_words() -> None:
    world = World(pcs(role("a", 2, needs=1)))
    run_to_rest(world)
    world.change("a", "v2")
    for _ in range(3):
        visit(world)
    world.live()
    world.quota = 1
    for _ in range(3):
        visit(world)
    found = stalled(world)
    assert found is not None
    assert (found.reason, found.message) == (
        "PodsRejected",
        "replica 0: pods of p-0 are rejected: exceeded quota: 1 pods; allow the pods, or undo the change",
    )
    world.quota = None
    run_to_rest(world)
    assert stalled(world) is None
    assert plan(world.snapshot(), world.now).is_empty


def test_the_condition_of_an_update_goes_when_the_strategy_is_switched() -> None:
    world = World(pcs(role("a", 2, needs=1)))
    run_to_rest(world)
    world.capacity = 0
    world.change("a", "v2")
    run_to_rest(world)
    assert stalled(world) is not None
    world.edit(PODCLIQUESETS, "p", {"spec": {"updateStrategy": {"type": "OnDelete"}}})
    run_to_rest(world)
    assert stalled(world) is None
    assert {one.metadata.labels[labels.PODCLIQUE] for one in world.snapshot().replicas[0].cliques["p-0-a"].active} == {
        "p-0-a"
    }
