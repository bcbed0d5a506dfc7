"""What a ClusterTopologyBinding leads to: topologies that are made, compared, and told about."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from grove.api.resources import KAI_TOPOLOGIES
from grove.api.types.clustertopologybinding import ClusterTopologyBinding, TopologyBindingStatus
from grove.api.types.meta import JsonObject
from grove.api.types.scheduler_object import SchedulerObject
from grove.planner.actions import Action, Create, CreateRejection, Delete, Plan
from grove.planner.topology.binding_sync import SchedulerTopologies, plan_binding
from tests.dsl import NOW, at

KAI = "kai-scheduler"
UID = "uid-of-dc"
KEYS = ("topology/zone", "topology/rack")
EARLIER = {"kind": "ClusterTopologyBinding", "name": "dc", "uid": "another", "controller": True}


def binding(
    *entries: tuple[str, str],
    keys: Iterable[str] = KEYS,
    status: JsonObject | None = None,
    generation: int = 1,
    **metadata: Any,
) -> ClusterTopologyBinding:
    return msgspec.convert(
        {
            "metadata": {"name": "dc", "uid": UID, "generation": generation, "resourceVersion": "7", **metadata},
            "spec": {
                "levels": [{"domain": key.rsplit("/", 1)[-1], "key": key} for key in keys],
                "schedulerTopologyBindings": [
                    {"schedulerName": scheduler, "topologyReference": name} for scheduler, name in entries
                ],
            },
            "status": status or {},
        },
        ClusterTopologyBinding,
    )


def topology(
    name: str = "dc", keys: Iterable[str] = KEYS, *, owner: JsonObject | None = None, **metadata: Any
) -> SchedulerObject:
    """One that the binding owns, unless an owner is given; {}: nobody's."""
    ours = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "name": "dc",
        "uid": UID,
        "controller": True,
    }
    owners = [ours] if owner is None else [owner] if owner else []
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": f"uid-of-{name}", "generation": 3, "ownerReferences": owners, **metadata},
            "spec": {"levels": [{"nodeLabel": key} for key in keys]},
        },
        SchedulerObject,
    )


def kai(*topologies: SchedulerObject) -> SchedulerTopologies:
    known = {one.metadata.name: one for one in topologies}
    return SchedulerTopologies(scheduler=KAI, resource=KAI_TOPOLOGIES, topologies=known)


NOT_SERVED = SchedulerTopologies(scheduler=KAI, resource=KAI_TOPOLOGIES, topologies=None)


def actions(plan: Plan) -> list[Action]:
    return [action for chain in plan.chains for stage in chain.stages for action in stage]


def told(plan: Plan) -> tuple[Any, ...]:
    """Condition (status, reason), inSync, message, observedGeneration, events; as far as they are written."""
    if not plan.statuses:
        return ()
    (write,) = plan.statuses
    conditions = [(c["status"], c["reason"]) for c in write.patch.get("conditions", ())]
    entries = [(e["inSync"], e.get("message", "")) for e in write.patch.get("schedulerTopologyStatuses", ())]
    return conditions, entries, write.patch.get("observedGeneration"), [str(e.reason) for e in write.on_success]


def stored(plan: Plan, old: ClusterTopologyBinding) -> ClusterTopologyBinding:
    """The binding after its status was written."""
    (write,) = plan.statuses
    json = {**msgspec.to_builtins(old.status), **write.patch}
    return msgspec.structs.replace(old, status=msgspec.convert(json, TopologyBindingStatus))


def test_a_topology_of_our_own_is_made_and_nothing_is_said_before_it_is() -> None:
    plan = plan_binding(binding(), [kai()], NOW)
    (create,) = actions(plan)
    assert isinstance(create, Create)
    assert create.resource is KAI_TOPOLOGIES
    assert create.body == {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {
            "name": "dc",
            "labels": {"app.kubernetes.io/managed-by": "grove-operator"},
            "ownerReferences": [
                {
                    "apiVersion": "grove.io/v1alpha1",
                    "kind": "ClusterTopologyBinding",
                    "name": "dc",
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"levels": [{"nodeLabel": "topology/zone"}, {"nodeLabel": "topology/rack"}]},
    }
    assert told(plan) == ()


def test_one_that_equals_the_binding_is_in_sync_and_that_is_said_once() -> None:
    plan = plan_binding(binding(), [kai(topology())], NOW)
    assert actions(plan) == []
    assert told(plan) == ([("False", "InSync")], [(True, "")], 1, [])
    (write,) = plan.statuses
    assert write.patch["schedulerTopologyStatuses"] == [
        {
            "schedulerName": KAI,
            "topologyReference": "dc",
            "inSync": True,
            "schedulerBackendTopologyObservedGeneration": 3,
        }
    ]
    assert write.patch["conditions"][0]["observedGeneration"] == 1
    assert plan_binding(stored(plan, binding()), [kai(topology())], at(60)).is_empty


def test_changed_levels_are_made_anew_the_old_ones_deleted_first() -> None:
    plan = plan_binding(binding(keys=("topology/zone",)), [kai(topology())], NOW)
    delete, create = actions(plan)
    assert isinstance(delete, Delete)
    assert (delete.name, delete.uid) == ("dc", "uid-of-dc")
    assert isinstance(create, Create)
    assert create.body["spec"] == {"levels": [{"nodeLabel": "topology/zone"}]}
    assert len(plan.chains[0].stages) == 2
    assert told(plan) == ()


def test_the_order_of_levels_matters() -> None:
    assert actions(plan_binding(binding(keys=reversed(KEYS)), [kai(topology())], NOW))


def test_one_that_is_still_leaving_is_waited_for() -> None:
    terminating = topology(keys=("old",), deletionTimestamp="2026-01-01T12:00:00Z")
    plan = plan_binding(binding(), [kai(terminating)], NOW)
    assert actions(plan) == []
    assert told(plan)[1] == [(False, "the old one is still being deleted")]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        pytest.param(
            topology(owner={}),
            (
                "Topology dc already exists and was not created for this binding; "
                "name it in schedulerTopologyBindings, or remove that Topology"
            ),
            id="of somebody else, though it says the same",
        ),
        pytest.param(
            topology(keys=("old",), owner=EARLIER),
            "Topology dc belongs to an earlier binding of this name; the operator waits until it is gone",
            id="of an earlier binding",
        ),
    ],
)
def test_what_is_not_ours_is_never_touched_and_the_generation_not_observed(
    found: SchedulerObject, message: str
) -> None:
    plan = plan_binding(binding(), [kai(found)], NOW)
    assert actions(plan) == []
    assert told(plan) == ([("True", "Drift")], [(False, message)], None, ["TopologyDriftDetected"])


@pytest.mark.parametrize(
    ("topologies", "condition", "entry", "events"),
    [
        pytest.param((topology("theirs", owner={}),), ("False", "InSync"), (True, ""), [], id="the same"),
        pytest.param(
            (topology("theirs", ("topology/zone",), owner={}),),
            ("True", "Drift"),
            (
                False,
                (
                    "the levels of Topology theirs are topology/zone; "
                    "those of the binding are topology/zone, topology/rack"
                ),
            ),
            ["TopologyDriftDetected"],
            id="other levels",
        ),
        pytest.param(
            (topology("theirs", (), owner={}),),
            ("True", "Drift"),
            (
                False,
                "the levels of Topology theirs are none; those of the binding are topology/zone, topology/rack",
            ),
            ["TopologyDriftDetected"],
            id="no levels",
        ),
        pytest.param(
            (),
            ("True", "Drift"),
            (False, 'there is no Topology "theirs": create it, or correct the binding'),
            ["TopologyDriftDetected"],
            id="none",
        ),
    ],
)
def test_a_topology_that_the_binding_names_is_only_compared(
    topologies: tuple[SchedulerObject, ...], condition: tuple[str, str], entry: tuple[bool, str], events: list[str]
) -> None:
    plan = plan_binding(binding((KAI, "theirs")), [kai(*topologies)], NOW)
    assert actions(plan) == []
    assert told(plan) == ([condition], [entry], 1, events)


@pytest.mark.parametrize("entries", [pytest.param((), id="to be made"), pytest.param(((KAI, "x"),), id="named")])
def test_a_kind_that_is_not_served_is_said_and_waited_for(entries: tuple[tuple[str, str], ...]) -> None:
    plan = plan_binding(binding(*entries), [NOT_SERVED], NOW)
    assert actions(plan) == []
    message = "the cluster does not serve topologies.kai.scheduler: install kai-scheduler"
    assert told(plan) == ([("True", "Drift")], [(False, message)], None, ["TopologyDriftDetected"])


def test_a_scheduler_that_is_not_enabled_or_has_no_topologies_is_not_found() -> None:
    plan = plan_binding(binding(("volcano", "x")), [kai(topology())], NOW)
    message = "volcano is not enabled here, or has no topology of its own: remove the entry"
    assert told(plan) == (
        [("Unknown", "TopologyNotFound")], [(True, ""), (False, message)], 1, ["TopologyDriftDetected"],
    )  # fmt: skip


def test_without_such_schedulers_there_is_no_condition() -> None:
    plan = plan_binding(binding(), [], NOW)
    assert told(plan) == ([], [], 1, [])
    assert plan_binding(stored(plan, binding()), [], at(60)).is_empty
    before = stored(plan_binding(binding(), [kai(topology())], NOW), binding())
    gone = plan_binding(before, [], at(60))
    assert gone.statuses[0].patch == {"conditions": None, "schedulerTopologyStatuses": None}


def test_only_a_change_of_the_condition_s_status_is_an_event() -> None:
    named = binding((KAI, "theirs"))
    good, bad = kai(topology("theirs", owner={})), kai(topology("theirs", ("other",), owner={}))
    worse = kai(topology("theirs", ("another",), owner={}))
    drifting = stored(plan_binding(named, [bad], NOW), named)
    assert told(plan_binding(drifting, [worse], at(60)))[3] == []
    healed = plan_binding(drifting, [good], at(60))
    assert told(healed)[3] == ["TopologyInSync"]
    assert told(plan_binding(stored(healed, drifting), [bad], at(90)))[3] == ["TopologyDriftDetected"]


def test_a_create_that_was_refused_is_told_and_tried_again_in_its_time() -> None:
    failure = CreateRejection(
        key="topologies/dc", code="CreateRejected", message="quota", count=1, first_at=NOW, last_at=NOW
    )  # fmt: skip
    plan = plan_binding(binding(), [kai()], at(1), (failure,))
    assert actions(plan) == []
    assert told(plan) == (
        [("True", "Drift")], [(False, "it cannot be created: quota")], None, ["TopologyDriftDetected"],
    )  # fmt: skip
    assert plan.requeue_at == at(5)
    assert len(actions(plan_binding(binding(), [kai()], at(5), (failure,)))) == 1


def test_nothing_is_done_about_a_binding_that_is_leaving() -> None:
    terminating = binding(deletionTimestamp="2026-01-01T12:00:00Z")
    assert plan_binding(terminating, [kai()], NOW).is_empty


def test_a_new_generation_is_observed_when_it_was_carried_out() -> None:
    first = stored(plan_binding(binding(), [kai(topology())], NOW), binding())
    changed = msgspec.structs.replace(first, metadata=binding(generation=2).metadata)
    (write,) = plan_binding(changed, [kai(topology())], at(60)).statuses
    assert write.patch["observedGeneration"] == 2
    assert write.patch["conditions"][0]["observedGeneration"] == 2
    assert write.patch["conditions"][0]["lastTransitionTime"] == "2026-01-01T12:00:00Z"
