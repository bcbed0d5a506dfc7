"""How many nodes must be out of reach before nothing is torn down."""

from datetime import datetime, timedelta

import msgspec
import pytest

from grove.api.types.meta import Condition, ObjectMeta, Uid
from grove.api.types.node import Node, NodeStatus
from grove.controller.controller_options import MassOutageOptions
from grove.controller.mass_outage import LONG_AGO, SETTLING, Outage
from grove.kube.store import Store
from grove.planner.snapshot import UNTIL_RELEASED
from tests.dsl import NOW, at

MAX_HOLD = timedelta(minutes=30)


def node(index: int, *, ready: bool, version: int = 1, since: datetime | None = None) -> Node:
    since = since or (LONG_AGO if ready else NOW)
    status = "True" if ready else "Unknown"
    condition = Condition(type="Ready", status=status, last_transition_time=since)
    return Node(
        metadata=ObjectMeta(name=f"node-{index}", uid=Uid(f"uid-{index}"), resource_version=str(version)),
        status=NodeStatus(conditions=(condition,)),
    )


def is_held(outage: Outage, now: datetime = NOW) -> bool:
    return outage.until is not None and now < outage.until


@pytest.mark.parametrize(
    ("total", "unready", "expected"),
    [
        (0, 0, False), (2, 2, False), (3, 2, False), (3, 3, True), (4, 3, True), (20, 11, False), (20, 12, True),
        (100, 55, False), (100, 56, True),
    ],
)  # fmt: skip
def test_more_than_55_percent_and_at_least_three(total: int, unready: int, expected: bool) -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, MassOutageOptions(), changed=lambda: None)
    for index in range(total):
        nodes.observe(node(index, ready=index >= unready))
    assert is_held(outage) is expected


def test_nodes_that_came_back_count_after_a_minute() -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, MassOutageOptions(), changed=lambda: None)
    for index in range(10):
        nodes.observe(node(index, ready=index >= 8))
    assert (outage.until, outage.outage_until) == (NOW + MAX_HOLD, UNTIL_RELEASED)
    for index in range(5):
        nodes.observe(node(index, ready=True, version=2, since=NOW + timedelta(seconds=index)))
    # Three are out for good, and five may be few: so with the third that is back, at second 2, it is over.
    assert outage.until == NOW + timedelta(seconds=2) + SETTLING
    assert is_held(outage, NOW + timedelta(seconds=61))
    assert not is_held(outage, NOW + timedelta(seconds=62))


def test_it_tells_when_the_answer_changes_and_not_at_every_heartbeat() -> None:
    nodes: Store[Node] = Store()
    told: list[bool] = []
    outage = Outage(nodes, MassOutageOptions(), changed=lambda: told.append(is_held(outage)))
    for index in range(4):
        nodes.observe(node(index, ready=True))
    told.clear()
    for version in (2, 3):
        for index in range(4):
            nodes.observe(node(index, ready=False, version=version))
    assert told == [True]
    nodes.observe(node(0, ready=True, version=4))
    nodes.observe(node(1, ready=True, version=4))
    assert told == [True, False]


def test_a_node_that_is_removed_is_not_counted_any_more() -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, MassOutageOptions(), changed=lambda: None)
    for index in range(5):
        nodes.observe(node(index, ready=index >= 3))
    assert is_held(outage)
    nodes.forget(Uid("uid-0"))
    assert not is_held(outage)


def test_it_can_be_switched_off() -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, MassOutageOptions(is_enabled=False), changed=lambda: None)
    for index in range(5):
        nodes.observe(node(index, ready=False))
    assert not is_held(outage)


def test_a_new_node_does_not_count_as_one_that_came_back() -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, MassOutageOptions(), changed=lambda: None)
    for index in range(10):
        fresh = node(index, ready=True, since=NOW + timedelta(seconds=30))
        nodes.observe(
            msgspec.structs.replace(fresh, metadata=msgspec.structs.replace(fresh.metadata, creation_timestamp=NOW))
        )
    assert not is_held(outage, NOW + timedelta(seconds=31))


def test_a_new_node_that_was_seen_out_counts_as_one_that_came_back() -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, MassOutageOptions(), changed=lambda: None)
    for version, ready in ((1, True), (2, False), (3, True)):
        for index in range(4):
            one = node(index, ready=ready, version=version, since=NOW + timedelta(seconds=10 * version))
            metadata = msgspec.structs.replace(one.metadata, creation_timestamp=NOW)
            nodes.observe(msgspec.structs.replace(one, metadata=metadata))
    assert is_held(outage, NOW + timedelta(seconds=89))
    assert not is_held(outage, NOW + timedelta(seconds=90))


def test_a_hold_ends_half_an_hour_after_the_share_was_passed() -> None:
    """By the times of the nodes, so that a restarted operator finds the same."""
    nodes: Store[Node] = Store()
    outage = Outage(nodes, MassOutageOptions(), changed=lambda: None)
    # Five of ten were dead for long; the sixth passed the share.
    for index in range(10):
        since = at(-90000) if index < 5 else NOW if index < 8 else None
        nodes.observe(node(index, ready=index >= 8, since=since))
    assert outage.until == NOW + MAX_HOLD
    assert is_held(outage, NOW + MAX_HOLD - timedelta(seconds=1))
    assert not is_held(outage, NOW + MAX_HOLD)
    assert outage.outage_until == UNTIL_RELEASED


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_node_that_joins_during_the_outage_does_not_extend_the_hold(is_restarted: bool) -> None:
    """Six of ten are out, later three more, and then an autoscaler adds a node."""
    listed = [node(index, ready=index == 9, since=NOW if index < 6 else at(1500)) for index in range(10)]
    joined = node(10, ready=True, since=at(1600))
    joined = msgspec.structs.replace(
        joined, metadata=msgspec.structs.replace(joined.metadata, creation_timestamp=at(1560))
    )
    nodes: Store[Node] = Store()
    outage = Outage(nodes, MassOutageOptions(), changed=lambda: None)
    for one in (joined, *listed) if is_restarted else (*listed, joined):
        nodes.observe(one)
    assert outage.outage_until == UNTIL_RELEASED
    assert outage.until == NOW + MAX_HOLD


@pytest.mark.parametrize(
    ("back_for", "expected"), [(timedelta(seconds=59), NOW), (timedelta(seconds=60), at(1060))], ids=["59s", "60s"]
)
def test_a_new_hold_begins_only_after_the_share_was_below_for_a_minute(back_for: timedelta, expected: datetime) -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, MassOutageOptions(), changed=lambda: None)
    for index in range(10):
        nodes.observe(node(index, ready=index >= 6))
    nodes.observe(node(0, ready=True, version=2, since=at(1000)))
    nodes.observe(node(0, ready=False, version=3, since=at(1000) + back_for))
    assert outage.until == expected + MAX_HOLD


def test_the_share_and_the_longest_hold_can_be_set() -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, MassOutageOptions(threshold=80, max_hold=timedelta(minutes=5)), changed=lambda: None)
    for index in range(10):
        nodes.observe(node(index, ready=index >= 8))
    assert not is_held(outage)
    nodes.observe(node(8, ready=False, version=2))
    assert outage.until == NOW + timedelta(minutes=5)
