"""How many nodes must be out of reach before nothing is torn down."""

import pytest

from grove.api.meta import Condition, ObjectMeta, Uid
from grove.api.node import Node, NodeStatus
from grove.controller.outage import Outage
from grove.kube.cache import Store


def node(index: int, *, ready: bool, version: int = 1) -> Node:
    status = "True" if ready else "Unknown"
    return Node(
        metadata=ObjectMeta(name=f"node-{index}", uid=Uid(f"uid-{index}"), resource_version=str(version)),
        status=NodeStatus(conditions=(Condition(type="Ready", status=status),)),
    )


@pytest.mark.parametrize(
    ("total", "unready", "is_on"),
    [
        (0, 0, False), (2, 2, False), (3, 2, False), (3, 3, True), (4, 3, True), (20, 11, False), (20, 12, True),
        (100, 55, False), (100, 56, True),
    ],
)  # fmt: skip
def test_more_than_55_percent_and_at_least_three(total: int, unready: int, is_on: bool) -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, is_enabled=True, changed=lambda: None)
    for index in range(total):
        nodes.observe(node(index, ready=index >= unready))
    assert outage.is_on is is_on


def test_it_tells_when_it_begins_and_ends() -> None:
    nodes: Store[Node] = Store()
    told: list[bool] = []
    outage = Outage(nodes, is_enabled=True, changed=lambda: told.append(outage.is_on))
    for index in range(4):
        nodes.observe(node(index, ready=True))
    for index in range(4):
        nodes.observe(node(index, ready=False, version=2))
    nodes.observe(node(0, ready=True, version=3))
    nodes.observe(node(1, ready=True, version=3))
    assert told == [True, False]


def test_a_node_that_is_removed_is_not_counted_any_more() -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, is_enabled=True, changed=lambda: None)
    for index in range(5):
        nodes.observe(node(index, ready=index >= 3))
    assert outage.is_on
    nodes.forget(Uid("uid-0"))
    assert not outage.is_on


def test_it_can_be_switched_off() -> None:
    nodes: Store[Node] = Store()
    outage = Outage(nodes, is_enabled=False, changed=lambda: None)
    for index in range(5):
        nodes.observe(node(index, ready=False))
    assert not outage.is_on
