"""Which nodes suit a pod, whatever else runs there - and how much room they have."""

from typing import Any

import pytest

from grove.placement.node_fit import (
    count_fitting,
    has_capacity,
    matches_node,
    meets,
    missing_resources,
    static_misfit,
    static_score,
    tolerates,
)
from grove.placement.types import (
    ONE,
    PODS,
    NodeRequirement,
    NodeTerm,
    Taint,
    Toleration,
    WeightedNodeTerm,
)
from tests.placement.worlds import decide, node, pod, shape

GPU_TAINT = Taint(key="gpu", value="yes", effect="NoSchedule")
SOFT_TAINT = Taint(key="old", effect="PreferNoSchedule")


def needs(operator: str, *values: str, key: str = "cores") -> NodeRequirement:
    return NodeRequirement(key=key, operator=operator, values=values)


WITH_DISK = NodeTerm(expressions=(needs("Exists", key="disk"),))


@pytest.mark.parametrize(
    ("requirement", "labels", "verdict"),
    [
        pytest.param(needs("In", "8", "16"), {"cores": "16"}, True, id="in the list"),
        pytest.param(needs("In", "8"), {"cores": "16"}, False, id="not in the list"),
        pytest.param(needs("In", "8"), {}, False, id="in, but absent"),
        pytest.param(needs("NotIn", "8"), {"cores": "16"}, True, id="rightly not in"),
        pytest.param(needs("NotIn", "16"), {"cores": "16"}, False, id="wrongly in"),
        pytest.param(needs("NotIn", "8"), {}, True, id="absent is not in"),
        pytest.param(needs("Exists"), {"cores": ""}, True, id="exists, empty"),
        pytest.param(needs("Exists"), {}, False, id="does not exist"),
        pytest.param(needs("DoesNotExist"), {}, True, id="rightly absent"),
        pytest.param(needs("DoesNotExist"), {"cores": "1"}, False, id="wrongly there"),
        pytest.param(needs("Gt", "8"), {"cores": "9"}, True, id="one above"),
        pytest.param(needs("Gt", "8"), {"cores": "8"}, False, id="at the limit is not above"),
        pytest.param(needs("Lt", "8"), {"cores": "7"}, True, id="one below"),
        pytest.param(needs("Lt", "8"), {"cores": "8"}, False, id="at the limit is not below"),
        pytest.param(needs("Gt", "8"), {"cores": "many"}, False, id="no number"),
        pytest.param(needs("Gt", "few"), {"cores": "9"}, False, id="no limit"),
        pytest.param(needs("Gt"), {"cores": "9"}, False, id="limit missing"),
        pytest.param(needs("Resembles", "8"), {"cores": "8"}, False, id="an operator nobody knows"),
    ],
)
def test_a_requirement_holds_exactly_when_kubernetes_says_so(
    requirement: NodeRequirement, labels: dict[str, str], verdict: bool
) -> None:
    assert meets(requirement, labels) is verdict


@pytest.mark.parametrize(
    ("toleration", "verdict"),
    [
        pytest.param(Toleration(key="gpu", value="yes", effect="NoSchedule"), True, id="all equal"),
        pytest.param(Toleration(key="gpu", value="yes"), True, id="any effect"),
        pytest.param(Toleration(key="gpu", value="no"), False, id="other value"),
        pytest.param(Toleration(key="gpu", operator="Exists"), True, id="key exists"),
        pytest.param(Toleration(operator="Exists"), True, id="everything"),
        pytest.param(Toleration(value="yes"), False, id="empty key needs Exists"),
        pytest.param(Toleration(key="gpu", operator="Exists", effect="NoExecute"), False, id="other effect"),
        pytest.param(Toleration(key="cpu", operator="Exists"), False, id="other key"),
    ],
)
def test_a_toleration_covers_a_taint_of_its_key_value_and_effect(toleration: Toleration, verdict: bool) -> None:
    assert tolerates((toleration,), GPU_TAINT) is verdict


@pytest.mark.parametrize(
    ("facts", "asks", "misfit"),
    [
        pytest.param({}, {}, "", id="suits"),
        pytest.param({"is_cordoned": True}, {}, "are cordoned", id="cordoned"),
        pytest.param(
            {"is_cordoned": True},
            {"tolerations": (Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),)},
            "",
            id="cordon tolerated",
        ),
        pytest.param({"is_ready": False}, {}, "are not ready", id="not ready"),
        pytest.param({"taints": (GPU_TAINT,)}, {}, "carry the untolerated taint gpu=yes:NoSchedule", id="tainted"),
        pytest.param(
            {"taints": (Taint(key="bad", effect="NoExecute"),)},
            {},
            "carry the untolerated taint bad:NoExecute",
            id="no execute",
        ),
        pytest.param({"taints": (SOFT_TAINT,)}, {}, "", id="a soft taint does not forbid"),
        pytest.param(
            {}, {"node_selector": (("disk", "ssd"),)}, "lack the label disk=ssd of the node selector", id="not selected"
        ),
        pytest.param({"labels": {"disk": "ssd"}}, {"node_selector": (("disk", "ssd"),)}, "", id="selected"),
        pytest.param(
            {},
            {"node_terms": (WITH_DISK,)},
            "do not match the required node affinity",
            id="affinity",
        ),
        pytest.param(
            {},
            {"node_terms": (WITH_DISK, NodeTerm(fields=(needs("In", "n", key="metadata.name"),)))},
            "",
            id="one of two terms is enough",
        ),
        pytest.param({}, {"node_terms": ()}, "do not match the required node affinity", id="no terms match nothing"),
    ],
)
def test_a_node_suits_a_pod_or_says_why_not(facts: dict[str, Any], asks: dict[str, Any], misfit: str) -> None:
    assert static_misfit(shape(**asks), node("n", **facts)) == misfit


def test_an_empty_node_term_matches_no_node() -> None:
    assert not matches_node(NodeTerm(), node("n"))


@pytest.mark.parametrize(("free", "missing"), [(1999, ("cpu",)), (2000, ()), (2001, ())])
def test_room_is_counted_to_the_last_thousandth(free: int, missing: tuple[str, ...]) -> None:
    amounts = {"cpu": free, PODS: ONE}
    assert missing_resources(shape(2), amounts) == missing
    assert has_capacity(shape(2), amounts) is (not missing)


def test_a_resource_that_is_not_asked_for_may_be_used_up_or_absent() -> None:
    amounts = {"cpu": ONE, PODS: ONE, "memory": -5}
    assert missing_resources(shape(1), amounts) == ()
    assert missing_resources(shape(1, gpu=1), amounts) == ("nvidia.com/gpu",)


def test_the_number_of_pods_is_a_limit_like_any_other() -> None:
    assert count_fitting(shape(1), {"cpu": 10 * ONE, PODS: 3 * ONE}, 100) == 3
    assert count_fitting(shape(1), {"cpu": 10 * ONE, PODS: 3 * ONE}, 2) == 2
    assert count_fitting(shape(1), {"cpu": -ONE, PODS: 3 * ONE}, 2) == 0


def test_preferred_node_affinity_adds_and_soft_taints_subtract() -> None:
    liked = WeightedNodeTerm(weight=7, term=WITH_DISK)
    wish = shape(preferred_nodes=(liked,))
    assert static_score(wish, node("n", labels={"disk": "ssd"})) == 7
    assert static_score(wish, node("n", labels={"disk": "ssd"}, taints=(SOFT_TAINT,))) == -3
    assert static_score(wish, node("n")) == 0


def test_a_liked_node_is_taken_before_one_with_a_lower_name() -> None:
    liked = WeightedNodeTerm(weight=1, term=WITH_DISK)
    world = [node("a"), node("b", labels={"disk": "ssd"}), node("c", taints=(SOFT_TAINT,))]
    wishing = pod("p", shape=shape(preferred_nodes=(liked,)))
    assert decide(world, ungrouped_pods=[wishing])[0] == {"p": "b"}
    plain = [pod(f"q{index}") for index in range(3)]
    assert decide(reversed(world), ungrouped_pods=plain)[0] == {"q0": "a", "q1": "b", "q2": "c"}
