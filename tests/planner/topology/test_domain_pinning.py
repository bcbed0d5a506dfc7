"""Where the pods of a required scope have their home, and who waits for one that is not theirs any more."""

import msgspec
import pytest

from grove.api.reasons import FindingReason
from grove.api.types.pod import Pod
from grove.planner.gangs.scheduling_gates import GateDecision, plan_gates
from grove.planner.topology.domain_pinning import NO_PINS, DomainPins
from grove.planner.topology.topology_scopes import RequiredScope
from grove.planner.views import CliqueView
from tests.dsl import clique, failed, gang, gated, pod

RACK = "topology/rack"
NODES = {
    "n0": {RACK: "r0"}, "n1": {RACK: "r0"}, "n2": {RACK: "r1"}, "n3": {RACK: "r1"}, "elsewhere": {"other": "x"},
}  # fmt: skip


def on(index: int, node: str) -> Pod:
    return pod(index, node=node)


def waiting(index: int, **selector: str) -> Pod:
    """Past the gate, without a node."""
    found = pod(index, node="", ready=False)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, node_selector={**selector}))


def pinned(index: int, rack: str) -> Pod:
    return waiting(index, **{RACK: rack})


def pins(*cliques: CliqueView, key: str = RACK) -> DomainPins:
    names = tuple(one.name for one in cliques)
    return DomainPins((RequiredScope(name="p-0", key=key, cliques=names),), {one.name: one for one in cliques}, NODES)


@pytest.mark.parametrize(
    ("pods", "selector"),
    [
        pytest.param((gated(0), gated(1)), {}, id="nothing placed: free to go"),
        pytest.param((on(0, "n2"), gated(1)), {RACK: "r1"}, id="one placed"),
        pytest.param((on(0, "n0"), on(1, "n2"), on(2, "n3")), {RACK: "r1"}, id="the most"),
        pytest.param((on(0, "n2"), on(1, "n0")), {RACK: "r0"}, id="of equals the first by name"),
        pytest.param((on(0, "elsewhere"), on(1, "gone")), {}, id="on nodes without the label, or that are gone"),
    ],
)
def test_a_scope_is_at_home_where_most_of_its_pods_are(pods: tuple[Pod, ...], selector: dict[str, str]) -> None:
    assert pins(clique(*pods)).selector("p-0-a") == selector


def test_all_cliques_of_a_scope_follow_and_no_others() -> None:
    found = pins(clique(on(0, "n2")), clique(gated(0), name="p-0-b"))
    assert found.selector("p-0-b") == {RACK: "r1"}
    assert found.selector("p-0-c") == {}


@pytest.mark.parametrize(
    ("pods", "strayed"),
    [
        pytest.param((on(0, "n0"), pinned(1, "r0")), [], id="waits for its home"),
        pytest.param((on(0, "n2"), pinned(1, "r0")), [1], id="the others went elsewhere"),
        pytest.param((gated(0), pinned(1, "r0")), [1], id="nobody is there any more"),
        pytest.param((on(0, "n2"), waiting(1)), [], id="free to go"),
        pytest.param((on(0, "n2"), waiting(1, disk="fast")), [], id="a selector that has nothing to do with it"),
        pytest.param((on(0, "n2"), on(1, "n3"), on(2, "n0")), [], id="who has a node keeps it"),
    ],
)
def test_who_waits_for_another_domain_than_its_home_has_strayed(pods: tuple[Pod, ...], strayed: list[int]) -> None:
    one = clique(*pods)
    assert [one.active.index(pod) for pod in pins(one).find_wrongly_pinned(one)] == strayed


def test_what_the_user_wrote_is_never_taken_back() -> None:
    one = clique(on(0, "n2"), pinned(1, "r0"))
    spec = msgspec.structs.replace(one.clique.spec, pod_spec={"nodeSelector": {RACK: "r0"}})
    written = msgspec.structs.replace(one, clique=msgspec.structs.replace(one.clique, spec=spec))
    assert pins(written).find_wrongly_pinned(written) == ()


def test_without_a_required_scope_nobody_strays() -> None:
    one = clique(gated(0), pinned(1, "r0"))
    assert DomainPins((), {one.name: one}, NODES).find_wrongly_pinned(one) == ()


def test_pods_that_ended_or_leave_are_no_home() -> None:
    assert pins(clique(failed(0, node="n0"), pod(1, node="n0", terminating=True))).selector("p-0-a") == {}


OPEN = GateDecision(may_go=True, reason=FindingReason.GANG_STARTED, message="placed before")


def test_the_domain_is_added_in_the_write_that_opens_the_gate() -> None:
    one = clique(on(0, "n2"), gated(1))
    (patch,) = plan_gates(gang(one), (one,), OPEN, pins=pins(one))
    assert patch.patch == {"spec": {"schedulingGates": [], "nodeSelector": {RACK: "r1"}}}


def test_what_a_pod_selects_itself_stays() -> None:
    choosy = gated(1)
    choosy = msgspec.structs.replace(choosy, spec=msgspec.structs.replace(choosy.spec, node_selector={RACK: "r0"}))
    one = clique(on(0, "n2"), choosy)
    (patch,) = plan_gates(gang(one), (one,), OPEN, pins=pins(one))
    assert patch.patch == {"spec": {"schedulingGates": []}}


def test_without_a_home_nothing_is_selected() -> None:
    one = clique(gated(0))
    (patch,) = plan_gates(gang(one), (one,), OPEN, pins=NO_PINS)
    assert patch.patch == {"spec": {"schedulingGates": []}}
