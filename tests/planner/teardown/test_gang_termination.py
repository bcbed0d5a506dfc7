"""Gang termination: whose delay has passed, what goes for it, and when it is looked at again."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.reasons import FindingReason
from grove.api.resources import PODCLIQUES, PODS
from grove.api.types.meta import Condition
from grove.api.types.podclique import CliqueRollingUpdateProgress, PodCliqueStatus
from grove.api.types.podcliquescalinggroup import GroupRollingUpdateProgress, ScalingGroupStatus
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.values.times import wire_time
from grove.planner.actions import Patch, Plan
from grove.planner.plan import plan
from grove.planner.replica_facts import DEFAULT_ENVIRONMENT, gather_facts
from grove.planner.rollout.replica_update import UpdateRole
from grove.planner.snapshot import UNTIL_RELEASED, build_context
from grove.planner.teardown.gang_termination import plan_terminations
from grove.planner.teardown.recreation import Record, Recreation
from grove.planner.views import CliqueView, ReplicaView
from tests.dsl import (
    NOW,
    actions,
    at,
    clique,
    gang,
    group,
    pcs,
    pod,
    problems,
    replica,
    role,
    scaling,
    service,
    snapshot,
)

YEAR = timedelta(days=365)
LATER = NOW + YEAR


def breached(status: str = "True", since: datetime = NOW) -> tuple[Condition, ...]:
    return (
        Condition(
            type="MinAvailableBreached",
            status=status,
            reason="InsufficientReadyPods",
            message="",
            last_transition_time=since,
        ),
    )


def broken(name: str = "p-0-a", *, needs: int = 2, since: datetime = NOW, updating: bool = False) -> CliqueView:
    """It had its minimum and has one pod less than it needs."""
    progress = CliqueRollingUpdateProgress(update_started_at=NOW) if updating else None
    status = PodCliqueStatus(was_available=True, conditions=breached(since=since), rolling_update_progress=progress)
    pods = tuple(pod(index, clique=name) for index in range(needs - 1))
    return clique(*pods, name=name, replicas=needs, needs=needs, status=status)


def healthy(name: str, ready: int = 2) -> CliqueView:
    return clique(ready=ready, name=name, needs=ready, was_available=True)


def standalone_set(delay: str | None = "10s", **template: Any) -> PodCliqueSet:
    return pcs(role("a", 2), role("b", 2), template={"termination_delay": delay, **template})


def standalone(*cliques: CliqueView) -> ReplicaView:
    return replica(*cliques, gangs=(gang(*cliques),), services=(service(),))


def grouped_set(*, needs: int = 1, delay: str = "10s", override: str | None = None) -> PodCliqueSet:
    return pcs(
        role("a", 2),
        role("b", 2),
        groups=(scaling("g", "b", replicas=2, needs=needs, termination_delay=override),),
        template={"termination_delay": delay},
    )


def grouped(*members: CliqueView, needs: int = 1, conditions: tuple[Condition, ...] = ()) -> ReplicaView:
    base = (healthy("p-0-a"), *members[:needs])
    scaled = members[needs:]
    return replica(
        *base,
        *scaled,
        groups=(group("p-0-g", "b", replicas=2, needs=needs, status=ScalingGroupStatus(conditions=conditions)),),
        gangs=(gang(*base), *(gang(one, name=f"p-0-g-{i}") for i, one in enumerate(scaled))),
        services=(service(),),
    )


def intents(decided: Plan) -> dict[str, Record]:
    """What is recorded, by gang."""
    return {
        action.name: msgspec.json.decode(action.patch["metadata"]["annotations"][labels.RECREATION], type=Record)
        for action in actions(decided)
        if isinstance(action, Patch) and labels.RECREATION in action.patch.get("metadata", {}).get("annotations", {})
    }


class TestAStandaloneClique:
    @pytest.mark.parametrize(("seconds", "is_due"), [(0, False), (9.999, False), (10, True), (11, True)])
    def test_ends_its_replica_when_the_delay_is_over_and_not_before(self, seconds: float, is_due: bool) -> None:
        decided = plan(snapshot(standalone_set(), standalone(broken(), healthy("p-0-b"))), at(seconds))
        assert bool(intents(decided)) is is_due
        if not is_due:
            assert decided.requeue_at == at(10)

    def test_is_looked_at_again_before_anything_is_recorded(self) -> None:
        decided = plan(snapshot(standalone_set(), standalone(broken(), healthy("p-0-b"))), at(10))
        assert [(look.resource, look.selector) for look in decided.live_reads] == [
            (PODS, f"{labels.PODCLIQUE}=p-0-a"),
            (PODCLIQUES, labels.selector({**labels.default_labels("p"), labels.SET_REPLICA_INDEX: "0"})),
        ]

    def test_records_one_intent_for_the_whole_replica_and_deletes_nothing_yet(self) -> None:
        decided = plan(snapshot(standalone_set(), standalone(broken(), healthy("p-0-b"))), at(10))
        assert intents(decided) == {
            "p-0": Record(
                count=1,
                open=(
                    Recreation(
                        incarnation="1.1",
                        reason="below the minimum for longer than the termination delay "
                        "(p-0-a: 1 of at least 2 pods are ready)",
                    ),
                ),
            )
        }
        assert not [action for action in actions(decided) if not isinstance(action, Patch)]

    def test_without_a_delay_nothing_ever_goes(self) -> None:
        decided = plan(snapshot(standalone_set(None), standalone(broken(), healthy("p-0-b"))), NOW + YEAR)
        assert intents(decided) == {}
        assert not [finding for finding in decided.findings if finding.reason is FindingReason.TERMINATION_DELAY]

    def test_an_edited_delay_counts_from_the_same_start(self) -> None:
        seen = standalone(broken(), healthy("p-0-b"))
        assert plan(snapshot(standalone_set("4h"), seen), at(60)).requeue_at == at(4 * 3600)
        assert intents(plan(snapshot(standalone_set("30s"), seen), at(60)))

    def test_what_recovered_meanwhile_ends_nothing_though_its_condition_still_says_so(self) -> None:
        stale = clique(ready=2, needs=2, status=PodCliqueStatus(was_available=True, conditions=breached()))
        assert intents(plan(snapshot(standalone_set(), standalone(stale, healthy("p-0-b"))), at(60))) == {}

    def test_a_breach_nobody_wrote_down_yet_has_no_clock(self) -> None:
        unwritten = clique(pod(0), replicas=2, needs=2, was_available=True)
        decided = plan(snapshot(standalone_set(), standalone(unwritten, healthy("p-0-b"))), at(3600))
        assert intents(decided) == {}

    def test_an_update_is_not_judged_and_what_comes_after_it_is(self) -> None:
        seen = standalone(broken(updating=True), healthy("p-0-b"))
        assert intents(plan(snapshot(standalone_set(), seen), at(3600))) == {}
        ended = CliqueRollingUpdateProgress(update_started_at=NOW, update_ended_at=at(5))
        status = PodCliqueStatus(was_available=True, conditions=breached(since=at(6)), rolling_update_progress=ended)
        after = clique(pod(0), replicas=2, needs=2, status=status)
        decided = plan(snapshot(standalone_set(), standalone(after, healthy("p-0-b"))), at(16))
        assert list(intents(decided)) == ["p-0"]

    def test_a_teardown_is_held_while_most_nodes_are_not_ready(self) -> None:
        facts = snapshot(standalone_set(), standalone(broken(), healthy("p-0-b")))
        held = plan(msgspec.structs.replace(facts, hold_until=at(20)), at(10))
        assert intents(held) == {}
        assert [finding.reason for finding in held.findings] == [FindingReason.TEARDOWN_HELD]
        (status,) = [status for status in held.statuses if status.resource.plural == "podcliquesets"]
        assert held.requeue_at == at(20)
        (condition,) = problems(status.patch)
        assert condition["type"] == "TeardownHeld"
        assert condition["message"].endswith(f", at most until {wire_time(at(20))}")
        # The clock ran on.
        assert intents(plan(msgspec.structs.replace(facts, hold_until=at(20)), at(20)))

    def test_a_teardown_after_the_longest_hold_says_so(self) -> None:
        facts = snapshot(standalone_set(), standalone(broken(), healthy("p-0-b")))
        late = msgspec.structs.replace(facts, hold_until=at(20), outage_until=UNTIL_RELEASED)
        (intent,) = (action for action in actions(plan(late, at(20))) if isinstance(action, Patch))
        assert intent.on_success is not None
        assert f"most nodes are still not ready, and the hold of teardowns ended at {wire_time(at(20))}" in (
            intent.on_success.message
        )

    def test_a_scale_set_at_run_time_is_part_of_the_intent(self) -> None:
        scaled = broken(needs=2)
        more = msgspec.structs.replace(
            scaled, clique=msgspec.structs.replace(scaled.clique, spec=msgspec.structs.replace(
                scaled.clique.spec, replicas=5)))  # fmt: skip
        decided = plan(snapshot(standalone_set(), standalone(more, healthy("p-0-b"))), at(10))
        assert [one.scale for record in intents(decided).values() for one in record.open] == [{"p-0-a": 5}]

    def test_a_gang_that_was_made_anew_does_not_use_an_incarnation_twice(self) -> None:
        """Somebody deleted the gang, and with it the memory of an earlier recreation."""
        label = {labels.INCARNATION: "1.1", labels.SET_REPLICA_INDEX: "0"}
        view = broken()
        old = msgspec.structs.replace(view.clique.metadata, labels={**view.clique.metadata.labels, **label})
        again = msgspec.structs.replace(view, clique=msgspec.structs.replace(view.clique, metadata=old))
        seen = standalone(again, healthy("p-0-b"))
        (record,) = intents(plan(snapshot(standalone_set(), seen), at(10))).values()
        assert [one.incarnation for one in record.open] == ["1.2"]


class TestAGroup:
    def test_ends_a_single_replica_in_the_base_gang(self) -> None:
        seen = grouped(broken("p-0-g-0-b"), healthy("p-0-g-1-b"))
        decided = plan(snapshot(grouped_set(), seen), at(10))
        (record,) = intents(decided).values()
        assert list(intents(decided)) == ["p-0"]
        assert [(one.group, one.index, one.incarnation) for one in record.open] == [("p-0-g", 0, "1.1")]
        assert record.incarnations == {"p-0-g/0": "1.1"}

    def test_ends_a_scaled_replica_through_its_own_gang(self) -> None:
        seen = grouped(healthy("p-0-g-0-b"), broken("p-0-g-1-b"))
        decided = plan(snapshot(grouped_set(), seen), at(10))
        assert [(name, record.open[0].index) for name, record in intents(decided).items()] == [("p-0-g-0", 1)]

    @pytest.mark.parametrize(
        ("stored", "names"), [((), []), (breached(), ["p-0"])], ids=["not written down yet", "past the delay"]
    )
    def test_below_its_own_minimum_leaves_the_decision_to_the_set(
        self, stored: tuple[Condition, ...], names: list[str]
    ) -> None:
        seen = grouped(broken("p-0-g-0-b"), healthy("p-0-g-1-b"), needs=2, conditions=stored)
        decided = plan(snapshot(grouped_set(needs=2), seen), at(10))
        assert list(intents(decided)) == names
        assert all(one.group == "" for record in intents(decided).values() for one in record.open)

    def test_in_doubt_whether_it_has_its_minimum_ends_nothing(self) -> None:
        terminating = clique(ready=2, name="p-0-g-1-b", needs=2, was_available=True, terminating=True)
        seen = grouped(broken("p-0-g-0-b"), terminating, conditions=breached("Unknown"))
        decided = plan(snapshot(grouped_set(), seen), NOW + YEAR)
        assert intents(decided) == {}

    def test_that_is_scaled_out_keeps_its_clock(self) -> None:
        seen = grouped(broken("p-0-g-0-b"), conditions=breached())
        waiting = plan(snapshot(grouped_set(), seen), at(9))
        assert waiting.requeue_at == at(10)
        assert list(intents(plan(snapshot(grouped_set(), seen), at(10)))) == ["p-0"]

    @pytest.mark.parametrize("scaled", [healthy("p-0-g-1-b"), None], ids=["about to be deleted", "deleted"])
    def test_that_is_scaled_out_before_a_scale_in_is_finished_keeps_its_clock(self, scaled: CliqueView | None) -> None:
        base = (healthy("p-0-a"), broken("p-0-g-0-b"))
        leaving = gang(healthy("p-0-g-1-b"), name="p-0-g-0", marked=True)
        status = ScalingGroupStatus(conditions=breached())
        seen = replica(
            *base,
            *((scaled,) if scaled else ()),
            groups=(group("p-0-g", "b", replicas=2, status=status),),
            gangs=(gang(*base), leaving),
            services=(service(),),
        )
        waiting = plan(snapshot(grouped_set(), seen), at(9))
        (told,) = [one for one in waiting.statuses if one.resource.plural == "podcliquescalinggroups"]
        assert [one["lastTransitionTime"] for one in told.patch.get("conditions", ())] in ([], [wire_time(NOW)])
        assert list(intents(plan(snapshot(grouped_set(), seen), at(10)))) == ["p-0"]

    def test_that_updates_is_not_judged(self) -> None:
        rolling = GroupRollingUpdateProgress(update_started_at=NOW)
        base = (healthy("p-0-a"), broken("p-0-g-0-b"))
        scaled = healthy("p-0-g-1-b")
        updating = group("p-0-g", "b", replicas=2, status=ScalingGroupStatus(rolling_update_progress=rolling))
        seen = replica(
            *base,
            scaled,
            groups=(updating,),
            gangs=(gang(*base), gang(scaled, name="p-0-g-0")),
            services=(service(),),
        )
        decided = plan(snapshot(grouped_set(), seen), at(3600))
        assert intents(decided) == {}
        (told,) = [status for status in decided.statuses if status.resource.plural == "podcliquescalinggroups"]
        (condition,) = told.patch["conditions"]
        assert (condition["status"], condition["reason"]) == ("Unknown", "UpdateInProgress")

    @pytest.mark.parametrize(("override", "wake"), [(None, 100), ("5s", 5), ("300s", 300)])
    def test_its_own_delay_counts_instead_of_the_sets(self, override: str | None, wake: float) -> None:
        seen = grouped(broken("p-0-g-0-b"), healthy("p-0-g-1-b"))
        decided = plan(snapshot(grouped_set(delay="100s", override=override), seen), at(1))
        assert decided.requeue_at == at(wake)

    def test_a_breach_of_the_whole_replica_takes_its_parts_along(self) -> None:
        members = (broken("p-0-g-0-b"), healthy("p-0-g-1-b"))
        base = (broken("p-0-a"), members[0])
        seen = replica(
            *base,
            members[1],
            groups=(group("p-0-g", "b", replicas=2),),
            gangs=(gang(*base), gang(members[1], name="p-0-g-0")),
            services=(service(),),
        )
        (record,) = intents(plan(snapshot(grouped_set(), seen), at(10))).values()
        assert [one.group for one in record.open] == [""]


@pytest.mark.parametrize(("override", "is_restarted"), [(None, True), ("0s", True), ("1h", False)])
def test_a_deleted_training_clique_has_the_delay_of_its_group(override: str | None, is_restarted: bool) -> None:
    asked = pcs(
        role("a"),
        role("b"),
        groups=(scaling("g", "b", termination_delay=override),),
        template={"termination_delay": "0s"},
        spec={"workload_type": "Training"},
    )
    base = gang(healthy("p-0-a", 1), clique(ready=1, name="p-0-g-0-b"))
    seen = replica(healthy("p-0-a", 1), groups=(group("p-0-g", "b"),), gangs=(base,), services=(service(),))
    facts = gather_facts(build_context(asked), seen, LATER, UpdateRole(), DEFAULT_ENVIRONMENT)
    found = plan_terminations(facts)
    assert bool(found.restart) is is_restarted
