"""All statuses, from the same facts: complete at first, then only what changed, with times that mean something."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.reasons import ConditionType, EventReason, Reason
from grove.api.resources import PODCLIQUES, PODCLIQUESETS
from grove.api.types.meta import Condition, ConditionStatus, JsonObject, LastError
from grove.api.types.podclique import PodCliqueStatus
from grove.api.types.podcliquescalinggroup import ScalingGroupStatus
from grove.api.types.podcliqueset import GangStatus, PodCliqueSet, PodCliqueSetStatus
from grove.api.types.podgang import GangPhase, PodGang, PodGangStatus
from grove.planner.actions import EventRecord, Severity, StatusPriority, StatusWrite, subject_of
from grove.planner.gangs.rejected_gangs import CreateBackoff
from grove.planner.plan import plan
from grove.planner.status.availability import ConditionResult, GroupReplica
from grove.planner.status.child_status import clique_status, gang_health, gang_status, group_status
from grove.planner.status.set_status import LISTED_ERRORS, LISTED_GANGS, SetFacts, set_status
from grove.planner.status.status_patch import with_condition, without_condition
from grove.planner.views import CliqueView
from tests.dsl import (
    NOW,
    SET_UID,
    at,
    clique,
    context,
    failure,
    gang,
    gated,
    group,
    pcs,
    pod,
    replica,
    role,
    scaling,
    snapshot,
    starting,
)

CTX = msgspec.structs.replace(context(pcs(role("a", 2))), template_hashes={"a": "new"}, newest_hashes={"a": "new"})
STAMP = "2026-01-01T12:00:00Z"


def condition(type_: str, status: str, reason: str, message: str, since: str = STAMP) -> JsonObject:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def decoded(view: CliqueView, write: StatusWrite | None) -> PodCliqueStatus:
    """The status as it would be stored."""
    assert write is not None
    stored: JsonObject = msgspec.to_builtins(view.clique.status)
    return msgspec.convert({**stored, **write.patch}, PodCliqueStatus)


def stored(view: CliqueView, write: StatusWrite | None) -> CliqueView:
    """The clique after its status was written."""
    new = msgspec.structs.replace(view.clique, status=decoded(view, write))
    return msgspec.structs.replace(view, clique=new)


def next_status(view: CliqueView, now: datetime = NOW, backoff: CreateBackoff | None = None) -> StatusWrite | None:
    return clique_status(CTX, "a", view, backoff, None, now)


class TestAClique:
    def test_first_status_is_complete(self) -> None:
        write = next_status(clique(pod(0), gated(1), starting(2, template_hash="old"), needs=2))
        assert write == StatusWrite(
            resource=PODCLIQUES,
            namespace="default",
            name="p-0-a",
            uid=clique().uid,
            resource_version="1",
            priority=StatusPriority.COUNTS,
            replica_index=0,
            patch={
                "observedGeneration": 1,
                "replicas": 3,
                "readyReplicas": 1,
                "updatedReplicas": 2,
                "scheduleGatedReplicas": 1,
                "scheduledReplicas": 2,
                "wasAvailable": False,
                "hpaPodSelector": "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=p,"
                "grove.io/podclique=p-0-a",
                "conditions": [
                    condition(
                        "PodCliqueScheduled", "True", "SufficientScheduledPods", "2 of at least 2 pods have a node"
                    ),
                    condition("MinAvailableBreached", "False", "NeverAvailable", "1 of at least 2 pods are ready"),
                ],
            },
        )

    def test_without_change_nothing_is_written(self) -> None:
        view = clique(ready=2)
        assert next_status(stored(view, next_status(view)), at(100)) is None

    def test_afterwards_only_what_changed_is_written(self) -> None:
        before = clique(pod(0), starting(1), needs=1)
        after = clique(pod(0), pod(1), needs=1, status=decoded(before, next_status(before)))
        write = next_status(after, at(5))
        assert write is not None
        assert write.patch == {
            "readyReplicas": 2,
            "conditions": [
                condition("PodCliqueScheduled", "True", "SufficientScheduledPods", "2 of at least 1 pods have a node"),
                condition("MinAvailableBreached", "False", "SufficientReadyPods", "2 of at least 1 pods are ready"),
            ],
        }

    def test_leaving_pods_are_not_counted_and_ended_ones_are(self) -> None:
        view = clique(pod(0), pod(1, terminating=True), pod(2, phase="Failed"), pod(3, phase="Succeeded"))
        status = decoded(view, next_status(view))
        counts = (status.replicas, status.ready_replicas, status.scheduled_replicas, status.updated_replicas)
        assert counts == (3, 1, 2, 1)

    def test_of_a_group_has_no_selector_of_its_own(self) -> None:
        view = clique(name="p-0-g-0-b", labels={"grove.io/podcliquescalinggroup": "p-0-g"})
        assert decoded(view, next_status(view)).hpa_pod_selector is None

    def test_remembers_that_it_was_available(self) -> None:
        view = clique(ready=2)
        available = stored(view, next_status(view))
        lost = msgspec.structs.replace(available, ready_count=0)
        assert decoded(lost, next_status(lost)).was_available

    def test_times_move_only_with_the_status(self) -> None:
        up = clique(ready=2)
        up = stored(up, next_status(up))
        down = msgspec.structs.replace(up, ready_count=1)
        down = stored(down, next_status(down, at(7.2)))
        worse = msgspec.structs.replace(down, ready_count=0)
        conditions = decoded(worse, next_status(worse, at(60))).conditions
        breach = next(one for one in conditions if one.type == "MinAvailableBreached")
        # The message counts on, the clock of the breach keeps running; its start was rounded up.
        assert breach == Condition(
            type="MinAvailableBreached",
            status="True",
            reason="InsufficientReadyPods",
            message="0 of at least 2 pods are ready",
            last_transition_time=at(8),
        )

    @pytest.mark.parametrize(
        ("view", "priority"),
        [
            pytest.param(clique(gated(0), gated(1)), StatusPriority.COUNTS, id="only counts"),
            pytest.param(clique(pod(0), starting(1)), StatusPriority.COUNTS, id="not all ready yet"),
            pytest.param(
                clique(pod(0), starting(1), needs=1), StatusPriority.DURABLE, id="available for the first time"
            ),
            pytest.param(clique(pod(0), pod(1), was_available=True), StatusPriority.TRANSITION, id="all ready"),
            pytest.param(clique(pod(0), starting(1), was_available=True), StatusPriority.DURABLE, id="a breach begins"),
        ],
    )
    def test_facts_come_first_and_good_news_at_once(self, view: CliqueView, priority: StatusPriority) -> None:
        write = next_status(view)
        assert write is not None
        assert write.priority is priority

    def test_a_breach_that_ends_is_a_fact_too(self) -> None:
        broken = clique(pod(0), starting(1), starting(2), needs=2, was_available=True)
        healed = clique(pod(0), pod(1), starting(2), needs=2, status=decoded(broken, next_status(broken)))
        write = next_status(healed)
        assert write is not None
        assert write.priority is StatusPriority.DURABLE

    REFUSAL = CreateBackoff(message="exceeded quota", since=NOW, retry_at=at(31), release_at=None)

    def test_says_when_its_pods_are_refused_and_no_longer(self) -> None:
        view = clique(gated(0), replicas=2)
        write = next_status(view, backoff=self.REFUSAL)
        assert write is not None
        assert write.patch["conditions"][-1] == condition("PodsRejected", "True", "CreateRejected", "exceeded quota")
        assert write.on_success == (
            EventRecord(
                subject=subject_of(PODCLIQUES, view.clique.metadata),
                reason=EventReason.PODS_REJECTED,
                message="exceeded quota",
                severity=Severity.WARNING,
            ),
        )
        healed = next_status(stored(view, write), at(60))
        assert healed is not None
        assert [one["type"] for one in healed.patch["conditions"]] == ["PodCliqueScheduled", "MinAvailableBreached"]
        assert healed.on_success == ()

    def test_the_same_refusal_is_announced_once(self) -> None:
        view = clique(gated(0), replicas=2)
        refused = stored(view, next_status(view, backoff=self.REFUSAL))
        more = msgspec.structs.replace(refused, gated_count=0)
        write = next_status(more, backoff=self.REFUSAL)
        assert write is not None
        assert write.on_success == ()

    def test_losing_every_scheduled_pod_is_announced(self) -> None:
        view = clique(pod(0), pod(1))
        lost = clique(replicas=2, status=decoded(view, next_status(view)))
        write = next_status(lost)
        assert write is not None
        assert [emit.reason for emit in write.on_success] == [
            EventReason.MIN_AVAILABLE_BREACHED,
            EventReason.ALL_SCHEDULED_REPLICAS_LOST,
        ]
        assert write.on_success[1:] == (
            EventRecord(
                subject=subject_of(PODCLIQUES, view.clique.metadata),
                reason=EventReason.ALL_SCHEDULED_REPLICAS_LOST,
                message="2 were scheduled before, none is now",
                severity=Severity.WARNING,
            ),
        )


GROUP_SET = pcs(role("b"), role("c"), groups=(scaling("g", "b", "c", replicas=2),))
GROUP_CTX = context(GROUP_SET)
NEWEST = {"grove.io/pod-template-hash": GROUP_CTX.template_hashes["b"]}


class TestAGroup:
    def write(self, *replicas: tuple[CliqueView | None, ...], **fields: Any) -> StatusWrite:
        observed = group("p-0-g", "b", "c", **{"replicas": len(replicas), **fields})
        config = GROUP_SET.spec.template.pod_clique_scaling_groups[0]
        judged = [GroupReplica(cliques=cliques) for cliques in replicas]
        write = group_status(GROUP_CTX, config, observed, judged, replicas, None, NOW)
        assert write is not None
        return write

    def test_first_status_is_complete(self) -> None:
        ready, new = clique(ready=1), clique(starting(0))
        write = self.write((ready, ready), (ready, new), (ready, None), (clique(gated(0)), ready))
        assert write.patch == {
            "replicas": 4,
            "scheduledReplicas": 2,
            "availableReplicas": 1,
            "updatedReplicas": 0,
            "selector": "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=p,"
            "grove.io/podclique-pod-index=0,grove.io/podcliquescalinggroup=p-0-g,"
            "grove.io/podclique in (p-0-g-0-b,p-0-g-1-b,p-0-g-2-b,p-0-g-3-b)",
            "observedGeneration": 1,
            "conditions": [
                condition(
                    "MinAvailableBreached",
                    "False",
                    "SufficientAvailablePodCliqueScalingGroupReplicas",
                    "1 of at least 1 replicas are healthy, 0 in breach, 1 unknown",
                )
            ],
            "currentPodCliqueSetGenerationHash": GROUP_CTX.generation_hash,
        }
        assert write.priority is StatusPriority.COUNTS

    def test_a_replica_is_updated_when_it_is_available_and_runs_the_newest_template(self) -> None:
        newest = clique(pod(0, template_hash=NEWEST["grove.io/pod-template-hash"]), labels=NEWEST)
        old_pod = clique(pod(0, template_hash="old"), labels=NEWEST)
        starting_pod = clique(starting(0, template_hash=NEWEST["grove.io/pod-template-hash"]), labels=NEWEST)
        write = self.write((newest, newest), (newest, old_pod), (newest, starting_pod))
        assert (write.patch["availableReplicas"], write.patch["updatedReplicas"]) == (2, 1)

    def test_breaches_are_facts_and_good_news_is_told_at_once(self) -> None:
        ready, lost, new = clique(ready=1), clique(replicas=1, was_available=True), clique(replicas=1)
        assert self.write((ready, ready)).priority is StatusPriority.TRANSITION
        assert self.write((ready, lost)).priority is StatusPriority.DURABLE
        assert self.write((ready, new)).priority is StatusPriority.COUNTS

    def test_losing_every_scheduled_replica_is_announced(self) -> None:
        old = ScalingGroupStatus(scheduled_replicas=2, observed_generation=1)
        write = self.write((None, None), (None, None), status=old)
        assert [(emit.reason, emit.message) for emit in write.on_success] == [
            (EventReason.ALL_SCHEDULED_REPLICAS_LOST, "2 were scheduled before, none is now")
        ]


def conditions_of(*cliques: CliqueView, clique_count: int = 0, old: PodGang | None = None) -> dict[str, str]:
    health = gang_health(old or gang(), cliques, clique_count or len(cliques))
    return {
        "phase": health.phase.value,
        **{type_.value: f"{verdict.status.value} {verdict.message}" for type_, verdict in health.verdicts},
    }


KEPT = "False no podgroup lost its minimum"
ALL_ON_NODES = "True every podgroup has its minimum on nodes"


class TestAGang:
    @pytest.mark.parametrize(
        ("cliques", "clique_count", "expected"),
        [
            pytest.param(
                (clique(gated(0), replicas=2),),
                2,
                {
                    "phase": "Pending",
                    "Initialized": "False some pods do not exist yet",
                    "Scheduled": "False 1 of 2 podgroups exist",
                    "Ready": "False 1 of 2 podgroups exist",
                    "Unhealthy": KEPT,
                },
                id="incomplete",
            ),
            pytest.param(
                (clique(gated(0), gated(1), needs=1),),
                1,
                {
                    "phase": "Pending",
                    "Initialized": "True every pod exists",
                    "Scheduled": "False p-0-a has 0 of 1 pods scheduled",
                    "Ready": "False p-0-a has 0 of 1 pods ready",
                    "Unhealthy": KEPT,
                },
                id="complete, waiting for nodes",
            ),
            pytest.param(
                (clique(pod(0), pod(1)), clique(starting(0), name="p-0-b")),
                2,
                {
                    "phase": "Starting",
                    "Initialized": "True every pod exists",
                    "Scheduled": ALL_ON_NODES,
                    "Ready": "False p-0-b has 0 of 1 pods ready",
                    "Unhealthy": KEPT,
                },
                id="on nodes, not ready",
            ),
            pytest.param(
                (clique(pod(0), gated(1), needs=1), clique(pod(0, phase="Succeeded"), name="p-0-b")),
                2,
                {
                    "phase": "Running",
                    "Initialized": "True every pod exists",
                    "Scheduled": ALL_ON_NODES,
                    "Ready": "True every podgroup has its minimum ready",
                    "Unhealthy": KEPT,
                },
                id="its minima are ready",
            ),
            pytest.param(
                (clique(pod(0), starting(1), was_available=True),),
                1,
                {
                    "phase": "Starting",
                    "Initialized": "True every pod exists",
                    "Scheduled": ALL_ON_NODES,
                    "Ready": "False p-0-a has 1 of 2 pods ready",
                    "Unhealthy": "True p-0-a had its minimum of 2 ready and lost it",
                },
                id="lost its minimum",
            ),
        ],
    )
    def test_tells_how_far_it_is(
        self, cliques: tuple[CliqueView, ...], clique_count: int, expected: dict[str, str]
    ) -> None:
        assert conditions_of(*cliques, clique_count=clique_count) == expected

    def test_once_initialized_stays_so(self) -> None:
        initialized = Condition(type="Initialized", status="True")
        old = gang(status=PodGangStatus(phase="Running", conditions=(initialized,)))
        found = conditions_of(clique(pod(0), replicas=2), old=old)
        assert found["Initialized"] == "True every pod exists"

    def test_first_status_is_complete_and_later_ones_are_small(self) -> None:
        view = clique(gated(0))
        first = gang_status(gang(view), gang_health(gang(view), (view,), 1), NOW)
        assert first is not None
        assert sorted(first.patch) == ["conditions", "phase"]
        assert [one["type"] for one in first.patch["conditions"]] == ["Initialized", "Scheduled", "Ready", "Unhealthy"]
        assert first.priority is StatusPriority.COUNTS
        running = gang(view, status=msgspec.convert({**first.patch, "placementScore": 0.5}, PodGangStatus))
        up = clique(pod(0), pod(1, node="", ready=False), needs=1)
        second = gang_status(running, gang_health(running, (up,), 1), at(3))
        assert second is not None
        assert second.priority is StatusPriority.TRANSITION
        assert sorted(second.patch) == ["conditions", "phase", "placedIncarnation"]
        settled = msgspec.structs.replace(
            running, status=msgspec.convert({**second.patch, "placementScore": 0.5}, PodGangStatus)
        )
        assert gang_status(settled, gang_health(settled, (up,), 1), at(9)) is None
        lost = clique(starting(0), starting(1), needs=1)
        third = gang_status(settled, gang_health(settled, (lost,), 1), at(9))
        assert third is not None
        assert third.patch["phase"] == GangPhase.STARTING
        assert "placementScore" not in third.patch


NO_FACTS = SetFacts(available_replicas=0, updated_replicas=0, waiting_gangs=(), failures=())


def set_write(observed: PodCliqueSet, now: datetime = NOW, **facts: Any) -> StatusWrite | None:
    return set_status(snapshot(observed), msgspec.structs.replace(NO_FACTS, **facts), now)


def after(observed: PodCliqueSet, write: StatusWrite | None) -> PodCliqueSet:
    assert write is not None
    wire: JsonObject = msgspec.to_builtins(observed.status)
    return msgspec.structs.replace(observed, status=msgspec.convert({**wire, **write.patch}, PodCliqueSetStatus))


class TestASet:
    def test_a_new_generation_is_seen_when_its_children_count_nothing_old_as_updated(self) -> None:
        told = PodCliqueSetStatus(observed_generation=1)
        seen = set_write(pcs(generation=2, status=told))
        waiting = set_write(pcs(generation=2, status=told), is_overstated=True)
        assert seen is not None
        assert waiting is not None
        assert (seen.patch["observedGeneration"], seen.priority) == (2, StatusPriority.TRANSITION)
        assert "observedGeneration" not in waiting.patch

    @pytest.mark.parametrize(("runs", "is_seen"), [("a", True), ("b", False)])
    def test_a_clique_that_goes_and_counts_pods_of_an_older_template_hides_the_generation(
        self, runs: str, is_seen: bool
    ) -> None:
        # The older template of a is the one that b has now: both have the same hash.
        observed = pcs(
            role("a", pod={"priority": 2}), role("b"), generation=2, status=PodCliqueSetStatus(observed_generation=1)
        )
        counted = clique(
            pod(template_hash=context(observed).template_hashes[runs]), status=PodCliqueStatus(updated_replicas=1)
        )
        going = replica(counted, gangs=(gang(counted, marked=True),))
        (write,) = plan(snapshot(observed, going), NOW).statuses
        assert (write.resource, write.patch.get("observedGeneration")) == (PODCLIQUESETS, 2 if is_seen else None)

    def test_first_status_is_complete(self) -> None:
        observed = pcs(role("a", 2), replicas=3)
        write = set_write(
            observed,
            available_replicas=1,
            updated_replicas=1,
            waiting_gangs=(GangStatus(name="p-1", phase="Pending"),),
            is_running=True,
        )
        assert write == StatusWrite(
            resource=PODCLIQUESETS,
            namespace="default",
            name="p",
            uid=SET_UID,
            resource_version="1",
            priority=StatusPriority.COUNTS,
            patch={
                "observedGeneration": 1,
                "replicas": 3,
                "updatedReplicas": 1,
                "availableReplicas": 1,
                "hpaPodSelector": "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=p,"
                "grove.io/podclique-pod-index=0",
                "podGangStatuses": [{"name": "p-1", "phase": "Pending"}],
                "phase": "Running",
            },
        )

    def test_counts_stay_as_known_until_its_templates_are_stored(self) -> None:
        """A set is scaled out while its new template cannot be stored: `Available` must not be true of 1 of 2."""
        known = PodCliqueSetStatus(replicas=1, available_replicas=1)
        write = set_write(pcs(replicas=2, status=known), available_replicas=1, is_stored=False)
        assert write is not None
        assert "replicas" not in write.patch

    def test_is_pending_until_a_replica_is_available(self) -> None:
        write = set_write(pcs())
        assert write is not None
        assert write.patch["phase"] == "Pending"

    def test_is_news_when_all_replicas_are_available(self) -> None:
        observed = pcs(replicas=2)
        for available in (0, 1, 2):
            write = set_write(observed, available_replicas=available)
            assert write is not None
            assert (write.priority is StatusPriority.TRANSITION) is (available == 2)

    def test_lists_at_most_so_many_gangs_and_errors(self) -> None:
        waiting = tuple(GangStatus(name=f"p-{i}", phase="Pending") for i in range(LISTED_GANGS + 1))
        failures = tuple(failure(f"pods/p-{i}-a") for i in range(LISTED_ERRORS + 1))
        write = set_write(pcs(), waiting_gangs=waiting, failures=failures)
        assert write is not None
        assert (len(write.patch["podGangStatuses"]), len(write.patch["lastErrors"])) == (100, 20)

    def test_names_what_it_cannot_carry_out_with_the_oldest_refusal_first(self) -> None:
        failures = (
            failure("pods/p-0-a", first=at(-1)),
            failure("podcliques/p-1-a", first=at(-9), code=Reason.NAME_TAKEN),
        )
        observed = pcs()
        write = set_write(observed, failures=failures)
        assert write is not None
        since = "2026-01-01T11:59:51Z"
        message = f"cannot create podcliques/p-1-a since {since}: exceeded quota (and 1 more)"
        told = condition("ReconcileFailed", "True", "NameTaken", message)
        assert write.patch["conditions"] == [{**told, "lastTransitionTime": since}]
        assert write.patch["lastErrors"] == [
            {"code": "ERR_CREATE_POD", "description": "pods/p-0-a: exceeded quota", "observedAt": STAMP},
            {
                "code": "ERR_CREATE_OR_UPDATE_PODCLIQUE",
                "description": "podcliques/p-1-a: exceeded quota",
                "observedAt": STAMP,
            },
        ]
        assert [(emit.reason, emit.message) for emit in write.on_success] == [(EventReason.RECONCILE_FAILED, message)]
        refused = after(observed, write)
        assert set_write(refused, at(50), failures=failures) is None
        healed = set_write(refused, at(60))
        assert healed is not None
        assert healed.patch == {"conditions": None, "lastErrors": None}

    def test_an_error_keeps_the_time_it_was_first_seen(self) -> None:
        known = LastError(code="ERR_CREATE_POD", description="pods/p-0-a: exceeded quota", observed_at=at(-60))
        observed = pcs(status=PodCliqueSetStatus(observed_generation=1, last_errors=(known,)))
        write = set_write(observed, failures=(failure(),))
        assert write is not None
        assert "lastErrors" not in write.patch

    @pytest.mark.parametrize(
        ("key", "code"),
        [
            ("pods/x", "ERR_CREATE_POD"),
            ("podcliques/x", "ERR_CREATE_OR_UPDATE_PODCLIQUE"),
            ("podcliquescalinggroups/x", "ERR_CREATE_PODCLIQUESCALINGGROUP"),
            ("podgangs/x", "ERR_CREATE_PODGANG"),
            ("services/x", "ERR_SYNC_PODCLIQUESET_SERVICE"),
            ("horizontalpodautoscalers/x", "ERR_SYNC_HPA"),
        ],
    )
    def test_every_refused_kind_has_its_error_code(self, key: str, code: str) -> None:
        write = set_write(pcs(), failures=(failure(key),))
        assert write is not None
        assert [error["code"] for error in write.patch["lastErrors"]] == [code]

    def test_names_fields_that_are_accepted_but_not_carried_out(self) -> None:
        template = msgspec.structs.replace(role("a", 2), annotations={labels.MNNVL_GROUP: "x"})
        observed = pcs(template)
        write = set_write(observed)
        assert write is not None
        (found,) = (one for one in write.patch["conditions"] if one["type"] == "UnsupportedFields")
        assert (found["status"], found["reason"]) == ("True", "NotSupportedYet")
        assert found["message"].startswith(
            "spec.template.cliques[0].annotations[grove.io/mnnvl-group]: multi-node NVLink is not supported yet"
        )
        assert [emit.reason for emit in write.on_success] == [EventReason.UNSUPPORTED_FIELDS]
        plain = msgspec.structs.replace(after(observed, write), spec=pcs().spec)
        cleared = set_write(plain)
        assert cleared is not None
        assert "UnsupportedFields" not in [one["type"] for one in cleared.patch["conditions"] or ()]


class TestOneCondition:
    YES = ConditionResult(status=ConditionStatus.TRUE, reason=Reason.IN_SYNC, message="m")

    def test_is_added_once_and_then_left_alone(self) -> None:
        other = Condition(type="Theirs", status="True")
        added = with_condition((other,), ConditionType.READY, self.YES, at(0.5))
        expected = Condition(type="Ready", status="True", reason="InSync", message="m", last_transition_time=at(1))
        assert added == (other, expected)
        assert with_condition(added, ConditionType.READY, self.YES, at(9)) is added

    def test_keeps_its_place_and_the_conditions_of_others(self) -> None:
        mine, theirs = Condition(type="Ready", status="False"), Condition(type="Theirs", status="True")
        changed = with_condition((mine, theirs), ConditionType.READY, self.YES, NOW)
        assert [one.type for one in changed] == ["Ready", "Theirs"]
        assert changed[0].last_transition_time == NOW

    def test_is_removed_alone(self) -> None:
        mine, theirs = Condition(type="Ready", status="False"), Condition(type="Theirs", status="True")
        assert without_condition((mine, theirs), "Ready") == (theirs,)
        assert without_condition((theirs,), "Ready") == (theirs,)
