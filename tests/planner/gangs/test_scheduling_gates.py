"""May this pod's gate go?"""

import pytest

from grove.api.labels import GATE
from grove.api.reasons import FindingReason
from grove.api.resources import PODS
from grove.planner.actions import Finding, Patch
from grove.planner.gangs.scheduling_gates import GateDecision, base_placement, gang_gate, gate_finding, plan_gates
from grove.planner.views import CliqueView
from tests.dsl import clique, failed, gang, gated, pod, starting

Cliques = tuple[CliqueView, ...]

COMPLETE = GateDecision(may_go=True, reason=FindingReason.GANG_COMPLETE, message="every pod of the gang exists")
STARTED = GateDecision(may_go=True, reason=FindingReason.GANG_STARTED, message="the gang was placed before")
AT_MINIMUM = GateDecision(
    may_go=True, reason=FindingReason.GANG_AT_MINIMUM, message="the minima exist and the rest is rejected"
)


def incomplete(message: str) -> GateDecision:
    return GateDecision(may_go=False, reason=FindingReason.GANG_INCOMPLETE, message=message)


def base_gate(*cliques: CliqueView, clique_count: int | None = None, is_rejected: bool = False) -> GateDecision:
    count = len(cliques) if clique_count is None else clique_count
    return gang_gate(cliques, clique_count=count, is_rejected=is_rejected, base=None)


class TestABaseGang:
    def test_opens_when_every_pod_of_every_clique_exists(self) -> None:
        assert base_gate(clique(gated(0), gated(1)), clique(gated(0), name="p-0-b")) == COMPLETE

    def test_waits_for_the_last_pod_although_the_minima_exist(self) -> None:
        verdict = base_gate(clique(gated(0), gated(1), replicas=3, needs=1))
        assert verdict == incomplete("2 of 3 pods of p-0-a exist")

    def test_names_the_first_clique_that_is_short(self) -> None:
        verdict = base_gate(clique(gated(0)), clique(name="p-0-b", replicas=2), clique(name="p-0-c", replicas=1))
        assert verdict == incomplete("0 of 2 pods of p-0-b exist")

    def test_waits_for_a_clique_that_does_not_exist(self) -> None:
        assert base_gate(clique(gated(0)), clique_count=2) == incomplete("1 of 2 cliques exist")

    def test_leaving_pods_do_not_complete_it(self) -> None:
        terminating = gated(1, terminating=True)
        assert base_gate(clique(gated(0), terminating, replicas=2)) == incomplete("1 of 2 pods of p-0-a exist")

    @pytest.mark.parametrize(
        ("existing", "verdict"),
        [
            pytest.param(1, incomplete("1 of 3 pods of p-0-a exist"), id="below the minimum"),
            pytest.param(2, AT_MINIMUM, id="at the minimum"),
            pytest.param(3, COMPLETE, id="complete after all"),
        ],
    )
    def test_opens_at_its_minima_when_the_server_refuses_the_rest(self, existing: int, verdict: GateDecision) -> None:
        pods = tuple(gated(index) for index in range(existing))
        assert base_gate(clique(*pods, replicas=3, needs=2), is_rejected=True) == verdict

    def test_every_clique_needs_its_minimum_for_that(self) -> None:
        first = clique(gated(0), replicas=2, needs=1)
        second = clique(name="p-0-b", replicas=2, needs=1)
        assert base_gate(first, second, is_rejected=True) == incomplete("1 of 2 pods of p-0-a exist")

    @pytest.mark.parametrize(
        "sign",
        [
            pytest.param(pod(1), id="a running pod"),
            pytest.param(pod(1, gates=("theirs",)), id="a pod behind another's gate only"),
            pytest.param(pod(1, phase="Succeeded"), id="a pod that succeeded"),
            pytest.param(failed(1), id="a pod that failed"),
            pytest.param(pod(1, terminating=True), id="a pod that is being deleted"),
        ],
    )
    def test_that_was_placed_before_lets_a_replacement_follow_at_once(self, sign: object) -> None:
        assert isinstance(sign, type(pod()))
        assert base_gate(clique(gated(0), sign, replicas=5)) == STARTED

    def test_that_was_placed_before_does_so_though_a_clique_is_missing(self) -> None:
        assert base_gate(clique(gated(0), pod(1)), clique_count=2) == STARTED

    def test_without_pods_at_all_is_complete(self) -> None:
        assert base_gate(clique(replicas=0)) == COMPLETE


def placement(*cliques: CliqueView, clique_count: int | None = None) -> GateDecision:
    return base_placement(cliques, base_name="p-0", clique_count=len(cliques) if clique_count is None else clique_count)


SCHEDULED = GateDecision(may_go=True, reason=FindingReason.BASE_SCHEDULED, message="base gang p-0 is scheduled")


def unscheduled(message: str) -> GateDecision:
    return GateDecision(may_go=False, reason=FindingReason.BASE_NOT_SCHEDULED, message=message)


class TestABaseIsScheduled:
    def test_when_every_podgroup_has_its_minimum_on_nodes_ready_or_not(self) -> None:
        assert placement(clique(starting(0), gated(1), needs=1), clique(pod(0), name="p-0-b")) == SCHEDULED

    def test_not_one_pod_below(self) -> None:
        assert placement(clique(starting(0), gated(1), needs=2)) == unscheduled(
            "base gang p-0 is not scheduled: p-0-a has 1 of 2 pods on nodes"
        )

    def test_succeeded_pods_count(self) -> None:
        assert placement(clique(pod(0), pod(1, phase="Succeeded"), needs=2)) == SCHEDULED

    def test_leaving_and_failed_pods_do_not_count(self) -> None:
        assert placement(clique(pod(0, terminating=True), failed(1), needs=1)) == unscheduled(
            "base gang p-0 is not scheduled: p-0-a has 0 of 1 pods on nodes"
        )

    def test_not_while_one_of_its_cliques_is_missing(self) -> None:
        assert placement(clique(pod(0)), clique_count=2) == unscheduled("base gang p-0 is not complete yet")


class TestAScaledGang:
    CLOSED = unscheduled("base gang p-0 is not complete yet")

    @pytest.mark.parametrize("cliques", [(clique(gated(0)),), (clique(gated(0), pod(1)),)], ids=["new", "started"])
    def test_waits_for_its_base_whatever_its_own_state(self, cliques: Cliques) -> None:
        assert gang_gate(cliques, clique_count=1, is_rejected=False, base=self.CLOSED) == self.CLOSED

    def test_then_waits_until_it_is_complete_itself(self) -> None:
        short = (clique(gated(0), replicas=2),)
        assert gang_gate(short, clique_count=1, is_rejected=False, base=SCHEDULED) == incomplete(
            "1 of 2 pods of p-0-a exist"
        )
        assert gang_gate((clique(gated(0)),), clique_count=1, is_rejected=False, base=SCHEDULED) == COMPLETE


def opened(name: str, gates: list[dict[str, str]]) -> Patch:
    return Patch(
        resource=PODS,
        namespace="default",
        name=name,
        uid=gated(0, name=name).metadata.uid,
        resource_version="1",
        patch={"spec": {"schedulingGates": gates}},
        reason="every pod of the gang exists",
    )


class TestOpening:
    def test_only_our_gate_is_removed(self) -> None:
        view = clique(pod(0, name="one", gates=("theirs", GATE, "others")), gated(1, name="two"))
        assert plan_gates(gang(view), (view,), COMPLETE) == (
            opened("one", [{"name": "theirs"}, {"name": "others"}]),
            opened("two", []),
        )

    def test_a_pod_behind_others_gates_only_is_left_alone(self) -> None:
        view = clique(pod(0, gates=("theirs",)), pod(1))
        assert plan_gates(gang(view), (view,), COMPLETE) == ()

    def test_a_pod_the_stored_gang_does_not_reference_stays_closed(self) -> None:
        referenced, other = gated(0, name="one"), gated(1, name="two")
        view = clique(referenced, other)
        assert plan_gates(gang(clique(referenced)), (view,), COMPLETE) == (opened("one", []),)

    def test_a_reference_in_another_cliques_podgroup_does_not_count(self) -> None:
        view = clique(gated(0))
        assert plan_gates(gang(clique(gated(0), name="p-0-b")), (view,), COMPLETE) == ()

    def test_nothing_opens_without_a_gang_or_against_the_verdict(self) -> None:
        view = clique(gated(0))
        assert plan_gates(None, (view,), COMPLETE) == ()
        assert plan_gates(gang(view), (view,), incomplete("because")) == ()

    def test_ended_and_leaving_pods_are_left_alone(self) -> None:
        view = clique(gated(0, terminating=True), gated(1, phase="Failed"))
        assert plan_gates(gang(clique(gated(0), gated(1))), (view,), COMPLETE) == ()


class TestWhatIsSaid:
    def test_a_closed_gate_says_why_and_for_how_many(self) -> None:
        view = clique(gated(0), gated(1), pod(2))
        assert gate_finding("p-0", (view,), incomplete("because")) == (
            Finding(
                about="podgang/p-0",
                reason=FindingReason.GANG_INCOMPLETE,
                message="2 pods wait behind the gate: because",
            ),
        )

    def test_nothing_when_nobody_waits_or_it_may_go(self) -> None:
        assert gate_finding("p-0", (clique(pod(0)),), incomplete("because")) == ()
        assert gate_finding("p-0", (clique(gated(0)),), COMPLETE) == ()
